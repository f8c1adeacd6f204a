//! Why a stack failed, as people read it: the machine that did not come up, or the resource that failed first,
//! why that counts, and CloudFormation's own words.

use std::collections::BTreeSet;

use super::{Live, Session};
use crate::cli::exit::Exit;
use crate::cli::report::{say, say_error, say_line};
use crate::deploy::plan::Plan;
use crate::deploy::{Ended, Error, Report, RootCause, Watcher as _};

/// So many different things that machines say are shown.
const SAYINGS: usize = 2;
/// So many lines of a unit's journal.
const LINES: usize = 8;

/// Says with `each` what failed, or that it was interrupted and `command` goes on with it.
///
/// # Errors
/// The gravest of it.
pub(in crate::cli) fn said_failures(
    ended: &Ended,
    live: &Live,
    command: &str,
    each: impl Fn(&Error) -> Exit,
) -> Result<(), Exit> {
    let mut exit = Exit::Done;
    for (_, error) in &ended.failed {
        say("");
        exit = exit.worse(each(error));
    }
    if ended.stopped && live.stopping() {
        say_error(&format!("interrupted; {command} goes on from here"));
        return Err(Exit::Interrupted);
    }
    if exit == Exit::Done { Ok(()) } else { Err(exit) }
}

/// Something that counts, and where it is written.
pub(in crate::cli) struct Reason {
    place: String,
    text: String,
}

/// Returns why what failed counts: who wants the unit, and which settings this deployment changes.
pub(in crate::cli) fn reasons(session: &Session, plan: &Plan, cause: &RootCause) -> Vec<Reason> {
    let mut all = Vec::new();
    for (report, _) in sayings(cause).into_iter().take(SAYINGS) {
        let Some(unit) = &report.unit else { continue };
        let path = ["machines", report.group.as_str(), "units", unit.as_str()];
        let Some(entity) = session.run.rendered.model.entity(&path) else { continue };
        let required = entity.body.get("required").and_then(crate::value::Node::as_bool);
        for owner in &entity.owners {
            let text = match required {
                Some(true) => format!("{} makes the unit `required`", owner.plugin),
                _ => format!("the unit is {}'s", owner.plugin),
            };
            all.push(Reason { place: owner.origin().to_string(), text });
        }
    }
    let changes = plan.stack(&cause.stack).into_iter().flat_map(|s| &s.changes);
    let letters: BTreeSet<&String> = changes.flat_map(|c| &c.causes).collect();
    for why in plan.causes.iter().filter(|c| letters.contains(&c.letter)) {
        let text = format!("{} (cause {} of this plan)", why.what, why.letter);
        all.push(Reason { place: why.place.clone(), text });
    }
    all.dedup_by(|a, b| a.place == b.place && a.text == b.text);
    all
}

/// Machines that say the same, by what they say; the last first, as those of before may have been about something
/// that was put right.
fn sayings(cause: &RootCause) -> Vec<(&Report, usize)> {
    let mut all: Vec<(&Report, usize)> = Vec::new();
    for report in cause.reports.iter().rev() {
        let same = |(other, _): &&mut (&Report, usize)| {
            (&other.phase, &other.unit, &other.message)
                == (&report.phase, &report.unit, &report.message)
        };
        match all.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => all.push((report, 1)),
        }
    }
    all
}

/// Prints the root cause first, then what followed.
pub(in crate::cli) fn say_root_cause(cause: &RootCause, reasons: &[Reason]) {
    let mut lines = head(cause);
    if !reasons.is_empty() {
        lines.push("  Which counts, because".to_owned());
        let width = reasons.iter().map(|r| r.place.chars().count()).max().unwrap_or(0).min(38);
        for reason in reasons {
            let line = format!("    {:width$}  {}", reason.place, reason.text);
            lines.extend(textwrap::wrap(&line, options(width)).into_iter().map(Into::into));
        }
        lines.push(String::new());
    }
    lines.push("  CloudFormation says".to_owned());
    if let Some(reason) = cause.first.as_ref().and_then(|f| f.reason.as_ref())
        && is_of_machines(cause)
    {
        lines.extend(textwrap::wrap(reason, 74).into_iter().map(|l| format!("    {l}")));
    }
    let width = cause.events.iter().map(|e| e.resource.len()).max().unwrap_or(0).min(28);
    for event in &cause.events {
        let (time, resource) = (time_of(&event.time), &event.resource);
        lines.push(format!("    {time:8}  {resource:width$}  {}", event.status));
    }
    lines.push(String::new());
    lines.push("  Next".to_owned());
    lines.extend(next(cause).into_iter().map(|line| format!("    {line}")));
    lines.iter().for_each(|line| say_line(line));
}

fn options(width: usize) -> textwrap::Options<'static> {
    const INDENT: &str = "                                            ";
    textwrap::Options::new(80).subsequent_indent(&INDENT[..(width + 6).min(INDENT.len())])
}

/// Types whose failure is that of machines.
const MACHINES: [&str; 4] = [
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::CloudFormation::WaitCondition",
    "AWS::EC2::Fleet",
    "AWS::EC2::Instance",
];

/// Whether a machine that did not come up is why the stack failed.
fn is_of_machines(cause: &RootCause) -> bool {
    let first = cause.first.as_ref();
    !cause.reports.is_empty() && first.is_some_and(|f| MACHINES.contains(&f.kind.as_str()))
}

/// What failed: machines, or the first resource.
fn head(cause: &RootCause) -> Vec<String> {
    let reason = cause.first.as_ref().and_then(|first| first.reason.clone());
    if !is_of_machines(cause) {
        let mut lines = vec![format!("error[{}]: {}", "deploy/stack-failed", cause.title())];
        if let Some(first) = &cause.first {
            lines.push(format!("  {}", first.kind));
            let reason = reason.unwrap_or_else(|| "CloudFormation gives no reason".to_owned());
            lines.extend(textwrap::wrap(&reason, 74).into_iter().map(|l| format!("    {l}")));
        }
        if let Some(why) = &cause.unread {
            let text = format!("What its machines reported could not be read: {why}");
            lines.extend(textwrap::wrap(&text, 76).into_iter().map(|l| format!("  {l}")));
        }
        lines.push(String::new());
        return lines;
    }
    let text = format!("{}: a new node did not come up", cause.stack);
    let mut lines = vec![format!("error[{}]: {text}", "deploy/node-failed")];
    let sayings = sayings(cause);
    for (report, count) in sayings.iter().take(SAYINGS) {
        let who = match count - 1 {
            0 => report.instance.clone(),
            more => format!("{} and {more} more", report.instance),
        };
        let time = time_of(&report.time);
        lines.push(format!("  {who} gave up in phase {}, the last at {time}", report.phase));
        lines.push(String::new());
        lines.push("  The node says".to_owned());
        let said = match &report.unit {
            Some(unit) if !report.message.contains(unit.as_str()) => {
                format!("{unit}: {}", report.message)
            }
            _ => report.message.clone(),
        };
        lines.extend(textwrap::wrap(&said, 74).into_iter().map(|l| format!("    {l}")));
        let journal = report.log.iter().skip(report.log.len().saturating_sub(LINES));
        lines.extend(journal.flat_map(|line| journal_line(line)));
        lines.push(String::new());
    }
    if sayings.len() > SAYINGS {
        let text = "  Others say something else: it is in reports/ of the state bucket";
        lines.extend([text.to_owned(), String::new()]);
    }
    lines
}

/// A line of the journal without its day and machine: `Nov 20 12:41:07 ip-10-40-3-7 agent[1893]: started`.
fn journal_line(line: &str) -> Vec<String> {
    let mut words = line.splitn(5, ' ');
    let short = match (words.next(), words.next(), words.next(), words.next(), words.next()) {
        (Some(_), Some(_), Some(time), Some(_), Some(rest)) if time.matches(':').count() == 2 => {
            format!("{time} {rest}")
        }
        _ => line.to_owned(),
    };
    let wrapped = textwrap::wrap(&short, textwrap::Options::new(72).subsequent_indent("         "));
    wrapped.into_iter().map(|l| format!("      {l}")).collect()
}

fn time_of(stamp: &str) -> &str {
    let time = stamp.split('T').nth(1).unwrap_or("").trim_end_matches('Z');
    &time[..time.len().min(8)]
}

/// What to do about a stack that ended so.
fn next(cause: &RootCause) -> Vec<String> {
    // Of a rollback counts what failed on the way back.
    let back =
        cause.events.iter().position(|e| e.status.as_str().ends_with("ROLLBACK_IN_PROGRESS"));
    let stands = if cause.status == "DELETE_FAILED" { "DELETE_FAILED" } else { "UPDATE_FAILED" };
    let failed: BTreeSet<String> = cause.events[back.unwrap_or(0)..]
        .iter()
        .filter(|e| e.status.as_str() == stands && e.kind != "AWS::CloudFormation::Stack")
        .map(|e| format!("  --leave {}/{}", cause.stack, e.resource))
        .collect();
    let (first, leave) = match cause.status.as_str() {
        "UPDATE_ROLLBACK_FAILED" => (
            "put right what it says, and run kaws up again: it goes on with the rollback.\n\
             What cannot go back may stay as it is:",
            failed,
        ),
        "DELETE_FAILED" => {
            ("put right what it says, and run this again. What cannot be deleted may stay:", failed)
        }
        "CREATE_FAILED" => {
            ("look at what is there; kaws up deletes it, and makes it anew", BTreeSet::new())
        }
        "UPDATE_FAILED" => ("look at what is there; kaws up takes it back first", BTreeSet::new()),
        "ROLLBACK_FAILED" => (
            "put right what it says, and run kaws up again: it deletes what is left of it",
            BTreeSet::new(),
        ),
        _ => (
            "put right what it says, and run kaws up again: what is done stays done",
            BTreeSet::new(),
        ),
    };
    let known = cause.first.as_ref().and_then(|first| known(first.reason.as_deref()?));
    // What machines said is more than what can be guessed, and what could not be read is no silence.
    let known = known.filter(|_| !is_of_machines(cause) && cause.unread.is_none());
    let known = known.map(str::to_owned);
    known.into_iter().chain(first.lines().map(str::to_owned)).chain(leave).collect()
}

/// What AWS's services say, in part, and what to do about it.
const KNOWN: [(&[&str], &str); 7] = [
    (
        &["not authorized to perform"],
        "Give that right to who deploys, or deploy with --service-role.",
    ),
    (&["image id", "does not exist"], "Ask for the image of today: kaws lock --update IMAGE"),
    (&["vCPU limit"], "Ask AWS for a higher quota (Service Quotas), or choose other machines."),
    (&["imit", "xceeded"], "Ask AWS for a higher quota (Service Quotas), or make less of it."),
    (&["free addresses"], "Give the subnets more addresses, or the pool fewer machines."),
    (
        &["sufficient", "capacity"],
        "Name more instanceTypes, or other zones: AWS has none of these there.",
    ),
    (
        &["Failed to receive", "signal"],
        "The machines said nothing at all: look at one's console output. Does it reach S3?",
    ),
];

fn known(reason: &str) -> Option<&'static str> {
    let fits = |words: &&[&str]| words.iter().all(|word| reason.contains(word));
    KNOWN.iter().find(|(words, _)| fits(words)).map(|(_, what)| *what)
}
