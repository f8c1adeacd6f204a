//! `kaws status`.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use super::{Exit, only_file};
use crate::cli::deploying::{CloudArguments, Purpose, Session, clock, fail, runtime};
use crate::cli::report::say;
use crate::cli::{Common, Output};
use crate::deploy::{
    GroupHealth, Health, Last, StackHealth, Validity, WayOut, health, snapshot_time,
};

/// A certificate of whose life less than one part of so many is left needs somebody.
const PARTS: i64 = 4;
/// A snapshot that is so many times older than they are made is overdue.
const OVERDUE: u64 = 3;
const DAY: i64 = 86_400;

/// Shows how the deployed cluster is.
pub(super) fn run(common: &Common, cloud: &CloudArguments, drift: bool, exit_code: bool) -> Exit {
    match runtime().block_on(look(common, cloud, drift)) {
        Ok(needs) if needs && exit_code => Exit::Differences,
        Ok(_) => Exit::Done,
        Err(exit) => exit,
    }
}

/// Returns whether something needs somebody.
async fn look(common: &Common, cloud: &CloudArguments, drift: bool) -> Result<bool, Exit> {
    let file = only_file(common)?;
    let session = Session::open(common, file, cloud, BTreeMap::new(), Purpose::Other).await?;
    let health = health(&*session.cloud, &session.tree, drift, clock()).await;
    let health = health.map_err(|error| fail(&error))?;
    let now = i64::try_from(clock()).unwrap_or(i64::MAX);
    let needs = needs(&session, &health, now);
    match common.output {
        Output::Json => say(&json!({"status": health, "needs": needs}).to_string()),
        Output::Text => text(&session, &health, &needs, now).iter().for_each(|line| say(line)),
    }
    Ok(!needs.is_empty())
}

/// Returns what needs somebody, a sentence each, with what to do.
fn needs(session: &Session, health: &Health, now: i64) -> Vec<String> {
    let mut all = Vec::new();
    for stack in &health.stacks {
        all.extend(of_stack(stack));
        if stack.drift.as_ref().is_some_and(|drift| !drift.resources.is_empty()) {
            all.push(format!(
                "{} was changed by hand: kaws up leaves that as it is until the same setting changes",
                stack.stack
            ));
        }
    }
    match &health.deployment {
        Some(last) if !last.current => {
            all.push("what is rendered is not what is deployed: kaws plan".to_owned());
        }
        None if !health.stacks.is_empty() => {
            all.push("no deployment was ever complete: kaws up goes on with it".to_owned());
        }
        _ => {}
    }
    for (group, of) in &health.groups {
        let since = |time: &String| of.last.as_ref().is_none_or(|last| time > last);
        let failed = of.failed.iter().filter(|r| since(&r.time)).count();
        if failed > 0 {
            let noun = if failed == 1 { "machine" } else { "machines" };
            all.push(format!("{failed} {noun} of {group} did not come up, and none has since"));
        }
        for report in &of.unhealthy {
            all.push(format!("{} of {group} is not well: {}", report.instance, report.message));
        }
        if of.outdated > 0 {
            let noun = if of.outdated == 1 { "machine" } else { "machines" };
            all.push(format!(
                "{} {noun} of {group} have a bundle of before: kaws roll {group} --outdated",
                of.outdated
            ));
        }
    }
    let soon = |c: &&Validity| (c.not_after - now) * PARTS < c.not_after - c.not_before;
    for certificate in health.certificates.iter().filter(soon) {
        let (name, days) = (&certificate.name, (certificate.not_after - now) / DAY);
        let when = if days < 0 { "has ended".to_owned() } else { format!("ends in {days} days") };
        // That of people is renewed without a rotation.
        let what = match (name.as_str(), certificate.authority) {
            ("admin", _) => "kaws up renews it".to_owned(),
            (name, true) => format!("kaws pki rotate {name}"),
            _ => "kaws pki rotate leaves".to_owned(),
        };
        all.push(format!("the certificate {name} {when}: {what}"));
    }
    let every = session.run.setup.config.etcd.backup.every.seconds();
    let overdue = age(health, now).is_none_or(|age| age > every * OVERDUE);
    if health.deployment.is_some() && overdue && !session.cloud.is_local() {
        all.push("there is no snapshot of etcd as young as it should be".to_owned());
    }
    all
}

/// What a stack needs.
fn of_stack(stack: &StackHealth) -> Option<String> {
    let name = &stack.stack;
    if let Some(stuck) = &stack.stuck {
        let what = match (stuck.used_by.is_empty(), stuck.loses.is_empty()) {
            _ if stuck.way_out == WayOut::ByHand => "bring it out of there in CloudFormation",
            (false, _) => "others live on it, so kaws up does not delete it",
            (true, false) => "kaws up deletes it where --allow-data-loss names what it holds",
            (true, true) => "kaws up gets it out of there first",
        };
        return Some(format!("{}: {what}", stuck.title()));
    }
    if !stack.rendered {
        return Some(format!("{name} is no longer rendered: kaws up --remove {name}"));
    }
    let never_came = stack.status.never_came();
    never_came.then(|| format!("{name} never came to be: kaws up makes it anew"))
}

/// How old the newest snapshot is, in seconds; its name begins with when it was made.
fn age(health: &Health, now: i64) -> Option<u64> {
    let made = snapshot_time(health.backup.as_deref()?)?;
    Some(u64::try_from(now).ok()?.saturating_sub(made))
}

fn text(session: &Session, health: &Health, needs: &[String], now: i64) -> Vec<String> {
    let cluster = &session.tree.cluster;
    let local = if session.cloud.is_local() { ", local cloud" } else { "" };
    let mut out =
        vec![format!("{}, {}, account {}{local}", cluster.name, cluster.region, cluster.account)];
    out.push(match &health.deployment {
        Some(last) => deployment(last),
        None if health.stacks.is_empty() => "nothing is deployed".to_owned(),
        None => "no deployment was ever complete".to_owned(),
    });
    stacks(health, &mut out);
    drifted(session, health, &mut out);
    // Without the state there is nothing to be read of the rest.
    if health.groups.is_empty() {
        closing(needs, &mut out);
        return out;
    }
    out.push(String::new());
    out.push("Machines, as they reported".to_owned());
    for (group, of) in &health.groups {
        out.extend(machines(group, of));
    }
    if !health.nodes.is_empty() {
        let by_release = |(release, count): (&String, &usize)| format!("{count} with {release}");
        let all: Vec<String> = health.nodes.iter().map(by_release).collect();
        out.push(format!("  {:15} {}", "nodes", all.join(", ")));
    }
    out.push(String::new());
    if let Some(Validity { name, not_after, .. }) = health.certificates.first() {
        let days = (not_after - now) / DAY;
        let end = UNIX_EPOCH + Duration::from_secs(u64::try_from(*not_after).unwrap_or(0));
        let end = humantime::format_rfc3339_seconds(end).to_string();
        out.push(format!(
            "Certificates     the first ends on {}, in {days} days ({name})",
            &end[..10]
        ));
    }
    out.push(match age(health, now) {
        Some(age) => {
            let age = humantime::format_duration(Duration::from_secs(age - age % 60));
            format!("Backups of etcd  the newest is {age} old")
        }
        None => "Backups of etcd  none".to_owned(),
    });
    closing(needs, &mut out);
    out
}

fn deployment(last: &Last) -> String {
    let day = last.time.split('T').next().unwrap_or_default();
    let commit = last.commit.as_ref().map(|c| format!(", commit {c}")).unwrap_or_default();
    let kubernetes =
        last.kubernetes.as_ref().map(|k| format!(", Kubernetes {k}")).unwrap_or_default();
    format!("deployment {} of {day}{commit}{kubernetes}", last.number)
}

fn stacks(health: &Health, out: &mut Vec<String>) {
    if health.stacks.is_empty() {
        return;
    }
    out.extend([String::new(), "Stacks".to_owned()]);
    out.extend(health.stacks.iter().map(|s| format!("  {:15} {}", s.stack, s.status)));
}

/// What was changed by hand, whose it is, and how.
fn drifted(session: &Session, health: &Health, out: &mut Vec<String>) {
    let Some(_) = health.stacks.iter().find_map(|s| s.drift.as_ref()) else { return };
    out.extend([String::new(), "Changed by hand".to_owned()]);
    let before = out.len();
    for stack in &health.stacks {
        if let Some(why) = stack.drift.as_ref().and_then(|drift| drift.unchecked.as_ref()) {
            let text = format!("{}: not all of it could be looked at: {why}", stack.stack);
            let wrapped = textwrap::wrap(&text, textwrap::Options::new(76).subsequent_indent("  "));
            out.extend(wrapped.into_iter().map(|l| format!("  {l}")));
        }
        for drift in stack.drift.iter().flat_map(|drift| &drift.resources) {
            let name = format!("{}/{}", stack.stack, drift.resource);
            let owners = session.owners.get(&name).map(|o| o.join(", ")).unwrap_or_default();
            let gone = if drift.deleted { "  is gone" } else { "" };
            out.push(format!("  {name}{gone}    {owners}").trim_end().to_owned());
            for (path, should, is) in &drift.properties {
                let line = format!("{path:24} {should} → {is}");
                let wrapped =
                    textwrap::wrap(&line, textwrap::Options::new(74).subsequent_indent("  "));
                out.extend(wrapped.into_iter().map(|l| format!("    {l}")));
            }
        }
    }
    if out.len() == before {
        out.push("  nothing".to_owned());
    }
}

fn machines(group: &str, of: &GroupHealth) -> Vec<String> {
    let mut said = Vec::new();
    if let (1.., Some(last)) = (of.healthy, &of.last) {
        let last = last.replace('T', " ");
        said.push(format!(
            "{} well, the last came up at {}",
            of.healthy,
            last.trim_end_matches('Z')
        ));
    }
    if of.outdated > 0 {
        said.push(format!("{} well with a bundle of before", of.outdated));
    }
    if !of.unhealthy.is_empty() {
        said.push(format!("{} not well", of.unhealthy.len()));
    }
    if !of.failed.is_empty() {
        said.push(format!("{} failed", of.failed.len()));
    }
    if said.is_empty() {
        said.push("none has reported".to_owned());
    }
    let mut lines = vec![format!("  {group:15} {}", said.join("; "))];
    for report in of.unhealthy.iter().chain(of.failed.iter().rev().take(3)) {
        let what = format!("{}  {}: {}", report.instance, report.phase, report.message);
        let wrapped = textwrap::wrap(&what, textwrap::Options::new(74).subsequent_indent("  "));
        lines.extend(wrapped.into_iter().map(|l| format!("    {l}")));
    }
    lines
}

fn closing(needs: &[String], out: &mut Vec<String>) {
    out.push(String::new());
    if needs.is_empty() {
        out.push("Nothing needs you.".to_owned());
        return;
    }
    out.push("Needs you".to_owned());
    for need in needs {
        let wrapped = textwrap::wrap(need, textwrap::Options::new(76).subsequent_indent("  "));
        out.extend(wrapped.into_iter().map(|l| format!("  {l}")));
    }
}
