//! The command line: arguments in, one call of the library, a report out. The only place that prints,
//! reads the environment, or knows the time.

mod arguments;
mod commands;
mod deploying;
mod exit;
mod explain;
mod graph;
mod programs;
mod report;

pub use exit::{EXIT_CODES, Exit};
pub use report::{findings_json, summary_line};

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{
    Arguments, Command, Common, DestroyArguments, EtcdCommand, LockArguments, Output, PkiCommand,
    PlanArguments, PluginCommand, RollArguments, SecretCommand, UpArguments, ValidateArguments,
};

/// Runs the command, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    if programs::supervises() {
        return crate::runtime::supervise::main();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments.with(programs::runtime(), programs::store()),
        Err(error) => {
            // Help and the version are no mistakes.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            return exit.into();
        }
    };
    let ended = std::panic::catch_unwind(|| commands::run(&arguments));
    arguments.common.programs.iter().for_each(|programs| programs.close());
    match ended {
        Ok(exit) => exit.into(),
        Err(_) => {
            report::say_error("a bug in kaws: please report it with the lines above");
            Exit::Bug.into()
        }
    }
}

/// Returns the help of every command, for the reference page.
#[must_use]
pub fn help_pages() -> Vec<(String, String)> {
    fn pages(command: &mut clap::Command, path: &str, all: &mut Vec<(String, String)>) {
        let path = if path.is_empty() {
            command.get_name().to_owned()
        } else {
            format!("{path} {}", command.get_name())
        };
        all.push((path.clone(), command.render_long_help().to_string()));
        for inner in command.get_subcommands_mut() {
            if inner.get_name() != "help" {
                pages(inner, &path, all);
            }
        }
    }
    let mut command = Arguments::command();
    command.build();
    let mut all = Vec::new();
    pages(&mut command, "", &mut all);
    all
}
