//! Why a command stops, as people read it: a finding with what to do, or an error where kaws could not do its work.

use super::failure::say_root_cause;
use crate::cli::exit::Exit;
use crate::cli::report::{say_error, say_findings, say_line};
use crate::deploy::{Error, WayOut};
use crate::finding::Finding;
use crate::port::Event;

/// Says why the command stopped and what to do, and returns how it ends.
pub(in crate::cli) fn fail(error: &Error) -> Exit {
    if let Error::Stack(cause) = error {
        say_root_cause(cause, &[]);
        return Exit::Aws;
    }
    let code = match error {
        Error::Account { .. } => "deploy/account",
        Error::Region { .. } => "deploy/region",
        Error::Held { .. } => "deploy/held",
        Error::Invalid { .. } => "deploy/invalid-template",
        Error::MoreThanPlan { .. } => "deploy/more-than-plan",
        Error::OtherPlan { .. } => "deploy/other-plan",
        Error::DataAtRisk(_) => "deploy/data-at-risk",
        Error::NoSecret(_) => "deploy/no-secret",
        Error::Unsupported { .. } => "deploy/unsupported",
        Error::SkipsMinor { .. } => "deploy/skips-minor",
        Error::StillUsed { .. } => "deploy/still-used",
        Error::NothingToRemove(_) => "deploy/nothing-to-remove",
        Error::Leftovers(_) => "deploy/leftovers",
        Error::NoValue { .. } => "deploy/no-value",
        Error::Stuck(_) => "deploy/stack-state",
        Error::NothingToLeave { .. } => "deploy/nothing-to-leave",
        Error::Overtaken => "deploy/overtaken",
        Error::LostLock => "deploy/lost-lock",
        Error::Circle(_) => "deploy/step-order",
        Error::Drain { .. } => "roll/drain",
        Error::Unmanaged { .. } => "roll/unmanaged-pods",
        Error::Gate(_) => "roll/checks",
        Error::NotWhole { .. } => "roll/not-whole",
        Error::NoGroup { .. } => "roll/no-group",
        Error::NotOver { .. } => "roll/not-over",
        Error::Skew { .. } => "roll/skew",
        Error::Unreachable(_) => "roll/unreachable",
        _ => "",
    };
    if code.is_empty() {
        say_error(&error.to_string());
        for line in advice(error) {
            say_line(&format!("  {line}"));
        }
        return match error {
            Error::Interrupted => Exit::Interrupted,
            Error::Tree(_) => Exit::Files,
            _ => Exit::Aws,
        };
    }
    let mut finding = Finding::fatal(code, error.to_string());
    for line in notes(error) {
        finding = finding.note(line);
    }
    for line in advice(error) {
        finding = finding.help(line);
    }
    say_findings(&finding.into(), true);
    Exit::Findings
}

fn notes(error: &Error) -> Vec<String> {
    match error {
        Error::MoreThanPlan { more, .. } => more.clone(),
        Error::Invalid { faults, .. } => {
            faults.iter().map(|f| format!("{}: {}\n{}", f.resource, f.reason, f.path)).collect()
        }
        Error::Unsupported { properties, .. } => {
            vec![format!("it cannot change {}", properties.join(", "))]
        }
        Error::Leftovers(all) => all.clone(),
        Error::Drain { pods, .. } => {
            pods.iter().map(|(pod, why)| format!("{pod}: {why}")).collect()
        }
        Error::NotWhole { why, .. } => why.clone(),
        Error::NoGroup { there, .. } => vec![format!("there are {}", there.join(", "))],
        Error::Stuck(all) => {
            let events = all.iter().flat_map(|stuck| stuck.failed.iter().map(move |e| (stuck, e)));
            let why = |e: &Event| e.reason.clone().unwrap_or_else(|| e.status.to_string());
            let used = all.iter().filter(|s| !s.used_by.is_empty());
            events
                .map(|(s, e)| format!("{}/{}: {}", s.stack, e.resource, why(e)))
                .chain(used.map(|s| format!("{} is used by {}", s.stack, s.used_by.join(", "))))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn advice(error: &Error) -> Vec<String> {
    let one = |text: String| vec![text];
    match error {
        Error::Account { wanted, .. } => {
            one(format!("use a profile of account {wanted}: kaws … --profile NAME"))
        }
        Error::Region { wanted, .. } => one(format!("set AWS_REGION to {wanted}, or unset it")),
        Error::Held { stale: true, .. } => one(
            "their process has ended, or has not been heard of for two minutes; if they are gone: --take-over"
                .to_owned(),
        ),
        Error::Held { .. } => one("wait until they are done".to_owned()),
        Error::Invalid { .. } => {
            one("put right what it says, and render and deploy again".to_owned())
        }
        Error::MoreThanPlan { .. } => {
            one("nothing of this stack was changed; look again: kaws plan".to_owned())
        }
        Error::OtherPlan { .. } => one("look at what it is now: kaws plan --save FILE".to_owned()),
        Error::DataAtRisk(all) => {
            all.iter().map(|name| format!("to lose it: --allow-data-loss {name}")).collect()
        }
        Error::NoSecret(all) => all.iter().map(|name| format!("kaws secret set {name}")).collect(),
        Error::Unsupported { .. } => one(
            "put the setting back; what must be made anew needs another name, and its data moved"
                .to_owned(),
        ),
        Error::SkipsMinor { .. } => one(
            "deploy the minors between first; a minor is taken back by restoring etcd in a cluster of its own".to_owned(),
        ),
        Error::NotMinted(_) => one("kaws up mints what is missing".to_owned()),
        Error::StillUsed { consumer, .. } => {
            one(format!("it is no longer rendered: kaws up --remove {consumer}"))
        }
        Error::Stuck(all) if all.iter().any(|stuck| stuck.way_out == WayOut::ByHand) => {
            one("bring it out of this state in CloudFormation, then run this again".to_owned())
        }
        Error::Stuck(all) if all.iter().any(|stuck| !stuck.used_by.is_empty()) => one(
            "CloudFormation can only delete it, and kaws deletes nothing that others live on: kaws destroy deletes all of it, or delete what uses it first"
                .to_owned(),
        ),
        Error::Stuck(_) => one(
            "put right what it says; kaws up then gets it out first, and plans what is left to do"
                .to_owned(),
        ),
        Error::NothingToLeave { can, .. } if can.is_empty() => {
            one("run it without, or name what kaws said could not be rolled back or deleted".to_owned())
        }
        Error::NothingToLeave { can, .. } => {
            can.iter().map(|name| format!("what does: --leave {name}")).collect()
        }
        Error::Overtaken => one("look at what there is to do now: kaws plan".to_owned()),
        Error::LostLock => one("see who deploys, then run kaws up again".to_owned()),
        Error::NothingToRemove(_) => one("kaws plan lists what can be removed".to_owned()),
        Error::Leftovers(_) => one("kaws destroy --remove-leftovers removes them too".to_owned()),
        Error::NoValue { source_name, .. } if !source_name.contains('.') => {
            one("kaws lock asks AWS for it".to_owned())
        }
        Error::Cloud(error) => match error.kind {
            crate::port::ErrorKind::Credentials => {
                one("name a profile: --profile NAME, or set AWS_PROFILE".to_owned())
            }
            crate::port::ErrorKind::Denied => {
                one("the credentials need the right to do this".to_owned())
            }
            crate::port::ErrorKind::Unavailable => {
                one("run the command again: it goes on from where it stopped".to_owned())
            }
            _ => Vec::new(),
        },
        other => of_rolling(other),
    }
}

/// What to do where machines are not replaced.
fn of_rolling(error: &Error) -> Vec<String> {
    let one = |text: String| vec![text];
    match error {
        Error::Drain { .. } => one(
            "the node takes pods again; more replicas, or a budget that lets one go, let it be drained".to_owned(),
        ),
        Error::Unmanaged { .. } => one("they are gone for good then: --evict-unmanaged".to_owned()),
        Error::Gate(_) => one("kaws validate says what is wrong with them".to_owned()),
        Error::NotWhole { .. } => one("kaws status shows what new machines reported".to_owned()),
        Error::NotOver { .. } => {
            one("kaws roll --resume goes on with it, --pause stops it, --forget gives it up".to_owned())
        }
        Error::Skew { .. } => one("roll the controllers first: kaws roll control-plane".to_owned()),
        Error::Unreachable(_) => {
            one("run it where the API server can be reached, or with --kubeconfig".to_owned())
        }
        _ => Vec::new(),
    }
}
