//! `kaws plugin test`.

mod record;

use std::path::Path;
use std::time::Instant;

use super::{Exit, asked};
use crate::cli::arguments::TestArguments;
use crate::cli::report::{say, say_error, say_failure};
use crate::cli::{Common, Output};
use crate::finding::plain;
use crate::kit::{self, Report, Test};

/// Runs a plugin's cases.
#[expect(clippy::disallowed_methods, reason = "how long it took is for people, and enters nothing")]
pub(super) fn run(common: &Common, arguments: &TestArguments) -> Exit {
    let start = Instant::now();
    let test = Test {
        dir: arguments.dir.clone(),
        plugin_dirs: common.plugin_dir.clone(),
        update: arguments.update,
        only: arguments.case.clone(),
        lint: true,
        runtime: common.programs.clone(),
    };
    if arguments.record
        && let Err(exit) = record::record(common, arguments, &test)
    {
        return exit;
    }
    let mut report = match kit::test(&test) {
        Ok(report) => report,
        Err(error) => {
            say_failure(&error);
            return Exit::Files;
        }
    };
    if arguments.review {
        report = match reviewed(report, &test) {
            Ok(report) => report,
            Err(exit) => return exit,
        };
    }
    match common.output {
        Output::Json => say(&report.to_json().to_string()),
        Output::Text => tell(&report, &arguments.dir, start),
    }
    if let Some(exit) = arguments.junit.as_deref().and_then(|file| write(file, &report)) {
        return exit;
    }
    if report.passed() { Exit::Done } else { Exit::Findings }
}

fn tell(report: &Report, dir: &Path, start: Instant) {
    let cases = if report.cases.len() == 1 { "case" } else { "cases" };
    let head = format!("{}, {} {cases}", report.title, report.cases.len());
    let time = format!("{:.2} s", start.elapsed().as_secs_f64());
    say(&format!("{head}{time:>width$}", width = 79_usize.saturating_sub(head.chars().count())));
    say(&plain(&report.to_text(dir)));
}

/// Shows what differs, case by case, and keeps what is agreed to.
fn reviewed(mut report: Report, test: &Test) -> Result<Report, Exit> {
    for case in report.cases.iter_mut().filter(|case| case.failure.is_some()) {
        say(&format!("{}\n\n{}", case.name, plain(case.failure.as_deref().unwrap_or_default())));
        if asked("Keep this?", "review needs a terminal; --update keeps all").is_err() {
            continue;
        }
        let only = Some(case.name.clone());
        let kept = kit::test(&Test { update: true, only, ..test.clone() });
        match kept.map(|kept| kept.cases.into_iter().next()) {
            Ok(kept) => *case = kept.unwrap_or_default(),
            Err(error) => {
                say_failure(&error);
                return Err(Exit::Files);
            }
        }
    }
    Ok(report)
}

#[expect(clippy::disallowed_methods, reason = "the command that writes the report")]
fn write(file: &Path, report: &Report) -> Option<Exit> {
    let error = std::fs::write(file, report.to_junit()).err()?;
    say_error(&format!("cannot write {}: {error}", file.display()));
    Some(Exit::Files)
}
