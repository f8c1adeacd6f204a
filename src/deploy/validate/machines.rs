//! Checks of what lies in the account: stacks, machines, load balancers' targets, snapshots, the domain.

use std::collections::BTreeMap;

use super::seen::{Group, Seen};
use super::{Asked, Checked};
use crate::deploy::health::snapshot_time;
use crate::finding::Finding;

/// A snapshot that is so many times older than they are made is overdue.
const OVERDUE: u64 = 3;
/// The timer of snapshots on members of etcd.
const TIMER: &str = "etc/systemd/system/kaws-etcd-backup.timer";

fn fatal(code: &str, text: String) -> Finding {
    Finding::fatal(code, text)
}

/// Every stack is there, complete, and at rest.
pub(super) fn stacks(asked: &Asked<'_>, seen: &Seen) -> Checked {
    let mut findings = Vec::new();
    for short in asked.tree.stacks.keys() {
        match seen.stacks.get(short) {
            None => findings.push(
                fatal("validate/stack", format!("the stack {short} is not deployed"))
                    .help("kaws up makes it"),
            ),
            Some(stack) if !stack.status.is_updatable() => {
                let text = format!("the stack {short} is in {}", stack.status);
                let finding = fatal("validate/stack", text);
                let finding = stack.reason.iter().fold(finding, Finding::note);
                findings.push(if stack.status.is_in_progress() {
                    finding.help("wait until that is over: kaws status")
                } else {
                    finding.help("kaws up gets it out of there, or says what does")
                });
            }
            Some(_) => {}
        }
    }
    let (all, bad) = (asked.tree.stacks.len(), findings.len());
    Checked::looked("cloudformation/stacks", format!("{} of {all} complete", all - bad), findings)
}

/// The plugin that makes a group.
fn owner(folder: &str) -> &'static str {
    match folder {
        "etcd" => "etcd-members",
        "controller" => "control-plane",
        _ => "node-pools",
    }
}

/// Every group has as many machines in service as it is to have.
pub(super) fn machines(seen: &Seen) -> Vec<Checked> {
    let mut by_owner: BTreeMap<&str, Vec<&Group>> = BTreeMap::new();
    for group in &seen.groups {
        by_owner.entry(owner(&group.folder)).or_default().push(group);
    }
    let one = |(owner, groups): (&str, Vec<&Group>)| {
        let (mut there, mut wanted, mut findings) = (0, 0, Vec::new());
        for group in groups {
            let of = &group.scaling;
            let serving = of.machines.iter().filter(|m| m.in_service()).count();
            there += serving;
            wanted += of.desired;
            if serving >= of.desired {
                continue;
            }
            let text =
                format!("{} has {serving} of {} machines in service", group.folder, of.desired);
            let mut finding = fatal("validate/machines", text);
            for machine in of.machines.iter().filter(|m| !m.in_service()) {
                let health = if machine.healthy { "" } else { ", unhealthy" };
                finding = finding.note(format!("{} is {}{health}", machine.id, machine.state));
            }
            findings.push(finding.help("kaws status shows what its machines reported"));
        }
        Checked::looked(
            &format!("{owner}/machines"),
            format!("{there} of {wanted} in service"),
            findings,
        )
    };
    by_owner.into_iter().map(one).collect()
}

/// Every machine was made from what its group makes machines from now.
pub(super) fn current(seen: &Seen) -> Checked {
    let mut findings = Vec::new();
    let (mut all, mut old) = (0, 0);
    for group in &seen.groups {
        let before: Vec<&str> = group
            .scaling
            .machines
            .iter()
            .filter(|m| !m.current && !m.is_leaving())
            .map(|m| m.id.as_str())
            .collect();
        all += group.scaling.machines.len();
        old += before.len();
        if !before.is_empty() {
            let text = format!("{} has machines of before its last change", group.folder);
            let finding = Finding::warning("validate/outdated", text).note(before.join(", "));
            findings.push(finding.help(format!("kaws roll {} --outdated", group.folder)));
        }
    }
    Checked::looked("node-bundle/current", format!("{} of {all} up to date", all - old), findings)
}

/// Every target of every load balancer answers.
pub(super) fn targets(seen: &Seen) -> Checked {
    let mut findings = Vec::new();
    for (name, said) in &seen.targets {
        match said {
            Ok(bad) => findings.extend(bad.iter().map(|(target, why)| {
                let text = format!("{target} does not answer as a target of {name}");
                fatal("validate/target", text).note(why)
            })),
            Err(error) => return Checked::unknown("network/targets", error.to_string()),
        }
    }
    let note = format!("{} target groups", seen.targets.len());
    Checked::looked("network/targets", note, findings)
}

/// The program that applies add-ons has nothing that keeps it from going on.
pub(super) fn addons(seen: &Seen) -> Checked {
    let check = "helm/addons";
    let Some(said) = &seen.addons else {
        return Checked::unknown(check, "no controller has said anything of add-ons yet");
    };
    if said.state != "failed" {
        return Checked::looked(check, "everything is applied", Vec::new());
    }
    let phase = said.phase.strip_prefix("addons/").unwrap_or(&said.phase);
    let text = format!("add-ons of the phase {phase} cannot be applied");
    let finding = fatal("validate/addons", text).note(&said.message);
    let finding =
        finding.help("those of later phases wait for it; it is tried again every two minutes");
    Checked::looked(check, format!("stopped at {phase}"), vec![finding])
}

/// There is a snapshot of etcd that is as young as it should be.
pub(super) fn backups(asked: &Asked<'_>, seen: &Seen) -> Checked {
    let check = "etcd-members/snapshots";
    let made = seen.backup.as_deref().and_then(snapshot_time);
    let every = backup_interval(asked);
    match (made, every) {
        (Some(made), Some(every)) if asked.now.saturating_sub(made) <= every * OVERDUE => {
            let age = (asked.now.saturating_sub(made)) / 60;
            Checked::looked(check, format!("the newest is {age} min old"), Vec::new())
        }
        (_, None) => Checked::unknown(check, "nothing says how often they are made"),
        (made, _) => {
            let text = match made {
                None => "there is no snapshot of etcd",
                Some(_) => "there is no snapshot of etcd as young as it should be",
            };
            let finding = Finding::warning("validate/snapshot", text).help(
                "the leader of etcd makes them: journalctl -u kaws-etcd-backup on its machine",
            );
            Checked::looked(check, "none that is young enough", vec![finding])
        }
    }
}

/// How often snapshots are made, in seconds, as the timer on members says it.
fn backup_interval(asked: &Asked<'_>) -> Option<u64> {
    let bundle = asked.tree.bundle("etcd");
    let timers = bundle.iter().filter(|(path, _)| path.as_str() == TIMER);
    let text =
        timers.map(|(_, entry)| String::from_utf8_lossy(&entry.bytes).into_owned()).next()?;
    let every = text.lines().find_map(|l| l.strip_prefix("OnUnitActiveSec="))?;
    let span = humantime::parse_duration(every.trim()).ok()?;
    Some(span.as_secs())
}

/// The domain under which people reach the API server resolves.
pub(super) async fn domain(asked: &Asked<'_>) -> Option<Checked> {
    let cluster = &asked.tree.cluster;
    if cluster.api.is_empty() || cluster.api == cluster.endpoint {
        return None;
    }
    let check = "network/domain";
    Some(match asked.web.resolve(&cluster.api).await {
        Ok(addresses) if !addresses.is_empty() => {
            Checked::looked(check, format!("{} resolves", cluster.api), Vec::new())
        }
        said => {
            let why = said.err().map_or("no addresses".to_owned(), |error| error.message);
            let text = format!("{} does not resolve here", cluster.api);
            let finding = Finding::warning("validate/domain", text)
                .note(why)
                .help("a private zone resolves in its VPC only; of a public one the name servers must be those of api.hostedZone");
            Checked::looked(check, "does not resolve", vec![finding])
        }
    })
}
