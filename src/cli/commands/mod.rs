//! One command a module: arguments in, one call of the library, a report out.

mod destroy;
mod etcd;
mod external;
mod fleet;
mod init;
mod kubeconfig;
mod lock;
mod pki;
mod plan;
mod plugin;
mod plugin_install;
mod plugin_lint;
mod plugin_new;
mod plugin_package;
mod plugin_run;
mod plugin_test;
mod render;
mod roll;
mod schema;
mod secret;
mod status;
mod up;
mod validate;

use clap::CommandFactory as _;
use serde_json::json;

use super::exit::Exit;
use super::report::{findings_json, say, say_failure, say_findings, summary_line};
use super::{Arguments, Command, Common, Output, PluginCommand};
use crate::emit;
use crate::finding::Findings;
use crate::load::{self, Options};
use crate::plugin::{Home, Package};
use crate::run::Run;

/// Runs a command.
pub(super) fn run(arguments: &Arguments) -> Exit {
    let common = &arguments.common;
    match &arguments.command {
        Command::Init { dir } => init::run(dir, common),
        Command::Render { check } => render::run(common, *check),
        Command::Plan(arguments) if arguments.save.is_some() => plan::run(common, arguments),
        Command::Plan(arguments) => {
            fleet::each(common, Some(arguments.clusters), |common| plan::run(common, arguments))
        }
        Command::Up(arguments) if arguments.plan.is_some() => up::run(common, arguments),
        Command::Up(arguments) => {
            // Who is asked is asked about one cluster at a time.
            let at_once = arguments.yes.then_some(arguments.clusters);
            fleet::each(common, at_once, |common| up::run(common, arguments))
        }
        Command::Status { cloud, drift, exit_code } => {
            status::run(common, cloud, *drift, *exit_code)
        }
        Command::Roll(arguments) => roll::run(common, arguments),
        Command::Validate(arguments) => validate::run(common, arguments),
        Command::Destroy(arguments) => destroy::run(common, arguments),
        Command::Lock(arguments) => lock::run(common, arguments),
        Command::Secret(command) => secret::run(common, command),
        Command::Kubeconfig { cloud, to } => kubeconfig::run(common, cloud, to.as_ref()),
        Command::Pki(command) => pki::run(common, command),
        Command::Etcd(command) => etcd::run(common, command),
        Command::Explain { what } => super::explain::run(what, common),
        Command::Plugin(PluginCommand::List { all }) => plugin::list(common, *all),
        Command::Plugin(PluginCommand::Info { name, path }) => {
            plugin::info(common, name, path.as_deref())
        }
        Command::Plugin(PluginCommand::New { dir, runtime }) => plugin_new::run(dir, *runtime),
        Command::Plugin(PluginCommand::Lint { dir }) => plugin_lint::run(common, dir),
        Command::Plugin(PluginCommand::Install(arguments)) => {
            plugin_install::install(common, arguments)
        }
        Command::Plugin(PluginCommand::Update(arguments)) => {
            plugin_install::update(common, arguments)
        }
        Command::Plugin(PluginCommand::Remove { name }) => plugin_install::remove(common, name),
        Command::Plugin(PluginCommand::Package { dir, to }) => {
            plugin_package::run(common, dir, to.as_deref())
        }
        Command::Plugin(PluginCommand::Run(arguments)) => plugin_run::run(common, arguments),
        Command::Plugin(PluginCommand::Test(arguments)) => plugin_test::run(common, arguments),
        Command::Plugin(PluginCommand::Schema { what }) => schema::contract(*what),
        Command::Schema { what } => schema::run(common, what),
        Command::Graph { what, form } => super::graph::run(common, what, form),
        Command::Completions { shell } => {
            clap_complete::generate(
                *shell,
                &mut Arguments::command(),
                "kaws",
                &mut std::io::stdout(),
            );
            Exit::Done
        }
        Command::Version => version(common),
        Command::Other(words) => external::run(common, words),
    }
}

fn version(common: &Common) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    match common.output {
        Output::Json => say(&json!({"kaws": version, "kubernetes": "1.34-1.37"}).to_string()),
        Output::Text => say(&format!("kaws {version}, for Kubernetes 1.34 to 1.37")),
    }
    Exit::Done
}

/// Returns what is read for one cluster's file.
pub(super) fn options(common: &Common, file: &std::path::Path) -> Options {
    Options {
        plugin_dirs: common.plugin_dir.clone(),
        locked: common.locked,
        store: common.store.clone(),
        runtime: common.programs.clone(),
        ..Options::of(file)
    }
}

/// Reads a plugin's folder; says what is wrong with it.
pub(super) fn folder(common: &Common, dir: &std::path::Path) -> Result<Package, Exit> {
    let real = std::path::absolute(dir).map_err(|error| {
        super::report::say_error(&format!("cannot read {}: {error}", dir.display()));
        Exit::Files
    })?;
    let name = real.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let home = Home::User(dir.to_string_lossy().trim_end_matches('/').to_owned());
    match load::package(&name, &load::Found { home, folder: Some(real) }) {
        Ok(Ok(package)) => Ok(package),
        Ok(Err(findings)) => {
            tell(common, &findings);
            Err(Exit::Findings)
        }
        Err(error) => Err(unreadable(&error)),
    }
}

/// Returns the only file, for commands that take one.
pub(super) fn only_file(common: &Common) -> Result<&std::path::Path, Exit> {
    match common.file.as_slice() {
        [one] => Ok(one),
        _ => {
            super::report::say_error("this command takes one --file");
            Err(Exit::Usage)
        }
    }
}

/// Reads and renders the only file; says what is wrong with it.
pub(super) fn rendered(common: &Common) -> Result<Run, Exit> {
    let file = only_file(common)?;
    match crate::run::render(&options(common, file)) {
        Err(error) => Err(unreadable(&error)),
        Ok(outcome) => match outcome.value {
            Some(run) => Ok(run),
            None => {
                tell(common, &outcome.findings);
                Err(Exit::Findings)
            }
        },
    }
}

/// Says which file cannot be read, and what to do.
pub(super) fn unreadable(error: &load::Error) -> Exit {
    say_failure(error);
    if error.path.file_name().is_some_and(|n| n == "cluster.yaml") {
        super::report::say_error(
            "kaws init writes a cluster.yaml to start from; --file names another",
        );
    }
    Exit::Files
}

/// Says why the tree cannot be written.
pub(super) fn unwritable(error: &emit::Error) -> Exit {
    say_failure(error);
    Exit::Files
}

/// Prints findings in the form that was asked for.
pub(super) fn tell(common: &Common, findings: &Findings) {
    match common.output {
        Output::Json => say(&json!({"findings": findings_json(findings)}).to_string()),
        Output::Text => {
            say_findings(findings, true);
            say(&summary_line(findings));
        }
    }
}

/// Asks on the terminal; without one, or without a yes, nothing goes on.
pub(super) fn asked(question: &str, otherwise: &str) -> Result<(), Exit> {
    use std::io::{BufRead as _, IsTerminal as _, Write as _};
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        super::report::say_error(&format!("nobody is there to confirm: {otherwise}"));
        return Err(Exit::Findings);
    }
    let mut out = anstream::stdout();
    let _ = write!(out, "{question} [y/N] ");
    let _ = out.flush();
    let mut answer = String::new();
    let _ = stdin.lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    say("Nothing was changed.");
    Err(Exit::Findings)
}
