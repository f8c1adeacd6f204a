//! `kaws plugin run`: one question to a plugin's program, and its answer.

use std::sync::Arc;

use serde_json::Value;

use super::{Exit, folder, only_file, options, tell, unreadable};
use crate::cli::Common;
use crate::cli::arguments::RunArguments;
use crate::cli::report::{say, say_error, say_failure, say_line};
use crate::finding::plain;
use crate::kit::{self, Test};
use crate::plugin::Package;
use crate::runtime::{Ran, Runtime};

/// Asks, and prints what is said.
pub(super) fn run(common: &Common, arguments: &RunArguments) -> Exit {
    ran(common, arguments).into()
}

fn ran(common: &Common, arguments: &RunArguments) -> Result<Exit, Exit> {
    let Some(runtime) = &common.programs else {
        say_error("this machine does not say where kaws is, and so it runs no programs");
        return Err(Exit::Files);
    };
    let package = Arc::new(folder(common, &arguments.dir)?);
    let request = match &arguments.request {
        Some(file) => read(file)?,
        None => asked(common, arguments, runtime, &package)?,
    };
    if arguments.ask {
        say(&pretty(&request));
        return Ok(Exit::Done);
    }
    let ran = match runtime.ask(&package, &request) {
        Ok(ran) => ran,
        Err(failure) => {
            tell(common, &failure.finding(&package, "this call").into());
            return Err(Exit::Findings);
        }
    };
    show(common, &ran, &package)
}

fn show(common: &Common, ran: &Ran, package: &Package) -> Result<Exit, Exit> {
    ran.log.lines().for_each(|line| say_line(&plain(line)));
    say(&plain(&pretty(&ran.answer)));
    match ran.response() {
        Ok(_) => Ok(Exit::Done),
        Err(failure) => {
            tell(common, &failure.finding(package, "this call").into());
            Err(Exit::Findings)
        }
    }
}

fn pretty(bytes: &[u8]) -> String {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| String::from_utf8_lossy(bytes).trim_end().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
fn read(file: &std::path::Path) -> Result<Vec<u8>, Exit> {
    std::fs::read(file).map_err(|error| {
        say_error(&format!("cannot read {}: {error}", file.display()));
        Exit::Files
    })
}

/// Returns what the program is asked: in a case, or in the cluster that is here.
fn asked(
    common: &Common,
    arguments: &RunArguments,
    runtime: &Arc<Runtime>,
    package: &Package,
) -> Result<Vec<u8>, Exit> {
    let (calls, findings) = match &arguments.case {
        Some(case) => {
            let test = Test {
                dir: arguments.dir.clone(),
                plugin_dirs: common.plugin_dir.clone(),
                runtime: Some(Arc::clone(runtime)),
                ..Test::default()
            };
            let calls = kit::calls(&test, case).map_err(|error| {
                say_failure(&error);
                Exit::Files
            })?;
            (calls.value, calls.findings)
        }
        None => {
            let recorder = runtime.recording();
            let mut options = options(common, only_file(common)?);
            options.runtime = Some(Arc::clone(&recorder));
            let outcome = crate::run::render(&options).map_err(|error| unreadable(&error))?;
            (recorder.recorded(package.name.as_str()), outcome.findings)
        }
    };
    let wanted = |stage: &str| arguments.stage.as_deref().is_none_or(|wanted| wanted == stage);
    let call = calls.into_iter().find(|call| wanted(call.stage));
    call.map(|call| call.request).ok_or_else(|| {
        tell(common, &findings);
        let stage = arguments.stage.as_deref().unwrap_or("any stage");
        say_error(&format!("{} was not asked anything in {stage}", package.name));
        Exit::Findings
    })
}
