//! Commands that are not kaws's own: those of plugins, and programs `kaws-NAME` on the PATH.
//!
//! kaws's own come first, always: this is only reached where there is none of that name. The longest name counts, and of
//! equal ones the plugin's.

#![expect(clippy::disallowed_methods, reason = "a command is a process")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory as _, Parser as _};
use serde_json::Value;

use super::{Arguments, Common, Exit, Output, options, tell, unreadable};
use crate::cli::report::{say_error, say_line};
use crate::finding::{Finding, Findings};
use crate::load;
use crate::name::did_you_mean;
use crate::plugin::{CommandForm, Home, Package};
use crate::runtime::{Runtime, environment};

/// How often one command may hand on to the next.
const DEPTH: u32 = 8;
/// Variables that a plugin's command has of its user's; others it is granted.
const USUAL: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "TMPDIR", "TZ"];

/// A command that was found.
struct Found {
    program: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    /// Whether it has nothing of the environment but that.
    alone: bool,
    /// How many of the words are its name.
    words: usize,
    _kept: Option<crate::runtime::Callable>,
}

/// Runs a command that is not kaws's own.
pub(super) fn run(common: &Common, words: &[OsString]) -> Exit {
    called(common, words).unwrap_or_else(|exit| exit)
}

fn called(common: &Common, words: &[OsString]) -> Result<Exit, Exit> {
    let names: Vec<&str> =
        words.iter().map_while(|word| word.to_str().filter(|w| !w.starts_with('-'))).collect();
    let Some(runtime) = &common.programs else {
        say_error("nothing here runs programs");
        return Err(Exit::Files);
    };
    let known = Known::read(common)?;
    let Some(found) = known.find(common, runtime, &names)? else {
        return Err(unknown(&known, names.first().copied().unwrap_or_default()));
    };
    let depth = common.depth + 1;
    if depth > DEPTH {
        say_error(&format!(
            "{DEPTH} commands have called one another: this goes round in a circle"
        ));
        return Err(Exit::Findings);
    }
    let place = tempfile::tempdir().map_err(|error| {
        say_error(&format!("cannot make a temporary folder: {error}"));
        Exit::Files
    })?;
    let result = place.path().join("result.json");
    let code = start(&found, &words[found.words..], &result, depth, common)?;
    let said = std::fs::read_to_string(&result).unwrap_or_default();
    if code != 0 || said.trim().is_empty() {
        return Ok(if code == 0 { Exit::Done } else { Exit::Other(code) });
    }
    go_on(common, &said, depth)
}

/// Starts it with the user's terminal, and returns its exit code.
fn start(
    found: &Found,
    words: &[OsString],
    result: &Path,
    depth: u32,
    common: &Common,
) -> Result<u8, Exit> {
    let mut command = Command::new(&found.program);
    if found.alone {
        command.env_clear();
    }
    let file = common.file.first().and_then(|file| std::path::absolute(file).ok());
    let own = std::env::current_exe().ok();
    command
        .args(&found.arguments)
        .args(words)
        .envs(&found.environment)
        .env("KAWS_DEPTH", depth.to_string())
        .env("KAWS_RESULT", result)
        .envs(file.map(|file| ("KAWS_FILE", file)))
        .envs(own.map(|own| ("KAWS_PATH", own)));
    // Ctrl-C is for the command: kaws waits for what it does about it.
    let over = Arc::new(AtomicBool::new(false));
    let interrupt = signal_hook::consts::SIGINT;
    let _ = signal_hook::flag::register_conditional_default(interrupt, Arc::clone(&over));
    let status = command.status();
    over.store(true, Ordering::Relaxed);
    let status = status.map_err(|error| {
        say_error(&format!("cannot run {}: {error}", found.program.display()));
        Exit::Files
    })?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// Goes on with the command line that a command has handed back.
fn go_on(common: &Common, said: &str, depth: u32) -> Result<Exit, Exit> {
    let wrong = |why: String| {
        let text = format!("the command's result cannot be used: {why}");
        let help = "KAWS_RESULT is for {\"continue\": [\"render\", \"--check\"]}, or for nothing";
        tell(common, &Finding::fatal("exec/response", text).help(help).into());
        Exit::Findings
    };
    let value: Value = serde_json::from_str(said).map_err(|error| wrong(error.to_string()))?;
    let next: Option<Vec<String>> = value
        .as_object()
        .filter(|map| map.len() == 1)
        .and_then(|map| serde_json::from_value(map.get("continue")?.clone()).ok());
    let next = next.ok_or_else(|| wrong("it is no list of words under `continue`".to_owned()))?;
    let words = std::iter::once("kaws".to_owned()).chain(next);
    let mut arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments.with(common.programs.clone(), common.store.clone()),
        Err(error) => {
            let _ = error.print();
            return Err(if error.use_stderr() { Exit::Usage } else { Exit::Done });
        }
    };
    inherit(&mut arguments.common, common, depth);
    if arguments.common.file.len() > 1 {
        return Err(wrong("it names several clusters, and a command hands on to one".to_owned()));
    }
    Ok(super::run(&arguments))
}

/// What was said before the command's name holds for what it hands on to, where that says nothing else.
fn inherit(own: &mut Common, before: &Common, depth: u32) {
    own.depth = depth;
    if own.file == [Path::new("cluster.yaml")] {
        own.file.clone_from(&before.file);
    }
    if own.out.is_none() {
        own.out.clone_from(&before.out);
    }
    if own.plugin_dir.is_empty() {
        own.plugin_dir.clone_from(&before.plugin_dir);
    }
    own.locked |= before.locked;
    if own.output == Output::Text {
        own.output = before.output;
    }
}

/// The plugins whose commands count: those that are on in this cluster.
struct Known {
    packages: Vec<(Package, Vec<String>)>,
    cluster: Option<Value>,
}

impl Known {
    /// Reads the cluster that is here, if one is.
    fn read(common: &Common) -> Result<Self, Exit> {
        let none = Self { packages: Vec::new(), cluster: None };
        let Some(file) = common.file.first().filter(|file| file.is_file()) else { return Ok(none) };
        let options = options(common, file);
        let outcome = load::config(&options).map_err(|error| unreadable(&error))?;
        let Some((config, lock)) = outcome.value else {
            tell(common, &outcome.findings);
            return Err(Exit::Findings);
        };
        let catalogue =
            load::catalogue(&options, &config.plugin_dirs).map_err(|e| unreadable(&e))?;
        let (mut packages, mut findings) = (Vec::new(), Findings::new());
        for name in catalogue.names() {
            let Some(found) = catalogue.places(name).last() else { continue };
            let installed = matches!(found.home, Home::Installed(_));
            let on = config.plugins.get(name).is_some_and(|used| used.enabled);
            if found.home == Home::Builtin || !on {
                continue;
            }
            let Ok(Ok(package)) = load::package(name, found) else { continue };
            if package.manifest.commands.is_empty() {
                continue;
            }
            let recorded = lock.plugin(name).filter(|_| installed);
            if recorded.is_some_and(|recorded| recorded.tree() != package.hash()) {
                let text = format!("{name} is not the plugin that kaws.lock recorded");
                let help = "kaws plugin install puts its files back";
                findings.push(Finding::fatal("lock/plugin-changed", text).help(help));
                continue;
            }
            let rights = package.manifest.capabilities.rights();
            let granted = package.manifest.capabilities.only(&lock.granted(name, &rights));
            packages.push((package, granted.env));
        }
        if findings.any_fatal() {
            tell(common, &findings);
            return Err(Exit::Findings);
        }
        Ok(Self { packages, cluster: Some(config.facts()) })
    }

    fn find(
        &self,
        common: &Common,
        runtime: &Arc<Runtime>,
        names: &[&str],
    ) -> Result<Option<Found>, Exit> {
        for words in (1..=names.len()).rev() {
            let name = names[..words].join("-");
            let all: Vec<_> = self
                .packages
                .iter()
                .filter_map(|(package, env)| {
                    Some((package, env, package.manifest.commands.get(&name)?))
                })
                .collect();
            if let [(one, ..), (other, ..), ..] = all.as_slice() {
                let text = format!("{} and {} both have a command {name}", one.name, other.name);
                tell(
                    common,
                    &Finding::fatal("plugin/duplicate", text).help("take one of them off").into(),
                );
                return Err(Exit::Findings);
            }
            if let [(package, env, form)] = all.as_slice() {
                return self.of_plugin(common, runtime, package, env, form, words).map(Some);
            }
            // A `-` in a word is a `_` in the file's name, so that words stay apart.
            let file: Vec<String> = names[..words].iter().map(|w| w.replace('-', "_")).collect();
            if let Some(program) = runtime.on_path(&format!("kaws-{}", file.join("-"))) {
                let environment = self.told(&name);
                let (arguments, alone) = (Vec::new(), false);
                return Ok(Some(Found {
                    program,
                    arguments,
                    environment,
                    alone,
                    words,
                    _kept: None,
                }));
            }
        }
        Ok(None)
    }

    fn of_plugin(
        &self,
        common: &Common,
        runtime: &Arc<Runtime>,
        package: &Package,
        env: &[String],
        form: &CommandForm,
        words: usize,
    ) -> Result<Found, Exit> {
        let callable = runtime.callable(package, &form.exec).map_err(|failure| {
            tell(common, &failure.finding(package, "a command").into());
            Exit::Findings
        })?;
        let mut environment =
            runtime.variables(USUAL.into_iter().chain(env.iter().map(String::as_str)));
        environment.extend(self.told(package.name.as_str()));
        Ok(Found {
            program: callable.program.clone(),
            arguments: callable.arguments.clone(),
            environment,
            alone: true,
            words,
            _kept: Some(callable),
        })
    }

    /// What is said of the cluster that is here.
    fn told(&self, plugin: &str) -> BTreeMap<String, String> {
        let Some(cluster) = &self.cluster else {
            let said = [("KAWS_COMMAND", "EXEC"), ("KAWS_VERSION", env!("CARGO_PKG_VERSION"))];
            return said.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        };
        let mut all = environment(cluster, plugin, "");
        all.remove("KAWS_STAGE");
        all
    }
}

/// Says that there is no such command, and which one may be meant.
fn unknown(known: &Known, name: &str) -> Exit {
    say_error(&format!(
        "there is no command `{name}`: neither of kaws, nor of a plugin, nor a program kaws-{name}"
    ));
    let own = Arguments::command();
    let own = own.get_subcommands().map(|command| command.get_name().to_owned());
    let theirs =
        known.packages.iter().flat_map(|(package, _)| package.manifest.commands.keys().cloned());
    let all: Vec<String> = own.chain(theirs).collect();
    match did_you_mean(name, all.iter().map(String::as_str)) {
        Some(near) => say_line(&format!("did you mean `kaws {near}`?")),
        None => say_line("kaws --help lists those of kaws"),
    }
    Exit::Usage
}
