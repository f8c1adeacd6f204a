//! Stacks that are stuck: shown, asked about, and freed before anything is planned.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::{Live, Session, fail, operator, said_failures};
use crate::cli::commands::asked;
use crate::cli::exit::Exit;
use crate::cli::report::say;
use crate::cli::{Common, Output, UpArguments};
use crate::deploy::{Error, FreeOptions, Stuck, WayOut, free, stuck};
use crate::port::Stack;

/// Frees what is stuck, once that was confirmed; returns the stacks that are gone now.
pub(in crate::cli) async fn free_stuck(
    common: &Common,
    session: &Session,
    stacks: &[Stack],
    arguments: &UpArguments,
    live: &Arc<Live>,
) -> Result<BTreeSet<String>, Exit> {
    let all = stuck(&*session.cloud, stacks).await.map_err(|error| fail(&error))?;
    let leave: BTreeSet<String> = arguments.leave.iter().cloned().collect();
    if all.is_empty() {
        return match leave.into_iter().next() {
            Some(name) => Err(fail(&Error::NothingToLeave { name, can: BTreeSet::new() })),
            None => Ok(BTreeSet::new()),
        };
    }
    // What others live on, and what is in a state that nobody described, is for people to decide.
    if !all.iter().all(Stuck::can_be_freed) {
        return Err(fail(&Error::Stuck(all)));
    }
    lost(&all, &leave, arguments)?;
    match common.output {
        Output::Json => say(&json!({"stuck": all}).to_string()),
        Output::Text => say(&format!("{}\n", text(&all, &leave))),
    }
    if !arguments.yes {
        asked("Do this first?", "kaws up --yes asks nothing; nothing was changed")?;
    }
    live.listen();
    let options = FreeOptions {
        leave,
        take_over: arguments.take_over,
        role: arguments.cloud.service_role.clone(),
    };
    let ended =
        free(&*session.cloud, &session.tree.cluster, &all, &options, &**live, &operator()).await;
    let ended = ended.map_err(|error| fail(&error))?;
    live.finish();
    said_failures(&ended, live, "kaws up", fail)?;
    if common.output == Output::Text {
        say("");
    }
    let gone = all.into_iter().filter(|stuck| stuck.way_out == WayOut::DeleteAgain);
    Ok(gone.map(|stuck| stuck.stack).collect())
}

/// Refuses to delete what holds data and was not named.
fn lost(all: &[Stuck], leave: &BTreeSet<String>, arguments: &UpArguments) -> Result<(), Exit> {
    let allowed = |name: &String| {
        let stack = name.split('/').next().unwrap_or_default();
        leave.contains(name) || arguments.allow_data_loss.iter().any(|a| a == name || a == stack)
    };
    let lost = all.iter().flat_map(|stuck| &stuck.loses).filter(|name| !allowed(name));
    let lost: Vec<String> = lost.cloned().collect();
    if lost.is_empty() { Ok(()) } else { Err(fail(&Error::DataAtRisk(lost))) }
}

/// Returns what is stuck, why, and what is done about it.
fn text(all: &[Stuck], leave: &BTreeSet<String>) -> String {
    let mut out = Vec::new();
    for stuck in all {
        let first = match stuck.way_out {
            WayOut::RollBack => "it is rolled back (RollbackStack)",
            WayOut::ContinueRollback => "its rollback goes on (ContinueUpdateRollback)",
            WayOut::DeleteAgain => "it is deleted once more (DeleteStack)",
            WayOut::ByHand => "somebody brings it out of this state",
        };
        out.push(stuck.title());
        for event in &stuck.failed {
            out.push(format!("  {}  {}", event.resource, event.kind));
            let reason = event.reason.as_deref().unwrap_or("CloudFormation gives no reason");
            out.extend(textwrap::wrap(reason, 74).into_iter().map(|l| format!("    {l}")));
        }
        out.push(format!("  First {first}."));
        for name in stuck.can_be_left() {
            out.push(if leave.contains(&name) {
                format!("  {name} stays as it is.")
            } else {
                format!("  Where that fails again: --leave {name}")
            });
        }
    }
    out.join("\n")
}
