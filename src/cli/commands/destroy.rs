//! `kaws destroy`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Exit, asked, only_file};
use crate::cli::deploying::{
    Learned, Live, Purpose, Session, add_pending, clear_pending, events_told, fail, operator,
    run_pending, runtime, said_failures,
};
use crate::cli::report::say;
use crate::cli::{Common, DestroyArguments, Output};
use crate::deploy::{DestroyOptions, DestroyPlan, Error, destroy, plan_destroy, settle};

/// Destroys the cluster.
pub(super) fn run(common: &Common, arguments: &DestroyArguments) -> Exit {
    runtime().block_on(all(common, arguments)).into()
}

async fn all(common: &Common, arguments: &DestroyArguments) -> Result<(), Exit> {
    let file = only_file(common)?;
    let session =
        Session::open(common, file, &arguments.cloud, BTreeMap::new(), Purpose::Other).await?;
    let cluster = &session.tree.cluster;
    let live = Live::new(common.output);
    settle(&*session.cloud, &cluster.name, &*live).await.map_err(|e| fail(&e))?;
    let allowed: BTreeSet<String> = arguments.allow_data_loss.iter().cloned().collect();
    let plan =
        plan_destroy(&*session.cloud, &cluster.name, &allowed).await.map_err(|e| fail(&e))?;
    match common.output {
        Output::Json => say(&json!({"destroy": plan}).to_string()),
        Output::Text => say(&text(&plan, session.cloud.is_local())),
    }
    if arguments.plan {
        return Ok(());
    }
    if plan.is_empty() {
        return run_pending(common, &session).await;
    }
    if !plan.refused.is_empty() {
        return Err(fail(&Error::DataAtRisk(plan.refused.clone())));
    }
    if !arguments.yes {
        asked("Destroy this?", "kaws destroy --yes asks nothing; nothing was changed")?;
    }
    // What is told of the cluster afterwards is what was there.
    let learned = Learned::now(&session, &["before-delete", "after-delete"]).await?;
    events_told(common, &session, &["before-delete"], &learned)?;
    add_pending(&session, &["after-delete"]).await?;
    live.listen();
    let options = DestroyOptions {
        remove_leftovers: arguments.remove_leftovers,
        take_over: arguments.take_over,
        role: arguments.cloud.service_role.clone(),
        leave: arguments.leave.iter().cloned().collect(),
    };
    let ended = destroy(&*session.cloud, cluster, &plan, &options, &*live, &operator()).await;
    let ended = ended.map_err(|e| fail(&e))?;
    live.finish();
    said_failures(&ended, &live, "kaws destroy", fail)?;
    events_told(common, &session, &["after-delete"], &learned)?;
    clear_pending(&session).await?;
    match common.output {
        Output::Json => say(&json!({"done": true, "kept": plan.kept}).to_string()),
        Output::Text => {
            let place = if session.cloud.is_local() { " from the local cloud" } else { "" };
            let kept = match plan.kept.len() {
                0 => String::new(),
                1 => " One thing is kept.".to_owned(),
                n => format!(" {n} things are kept."),
            };
            say(&format!("\n{} is gone{place}, {}.{kept}", cluster.name, live.elapsed()));
        }
    }
    Ok(())
}

/// Returns the plan as people read it.
fn text(plan: &DestroyPlan, local: bool) -> String {
    let place = if local { ", local cloud" } else { "" };
    let mut out = vec![format!("Destroy {}{place}", plan.cluster)];
    if plan.is_empty() {
        let text = if plan.kept.is_empty() {
            "Nothing of it is deployed."
        } else {
            "Nothing of it is deployed but what is kept."
        };
        out.push(text.to_owned());
    }
    for (stack, count) in &plan.stacks {
        let noun = if *count == 1 { "resource" } else { "resources" };
        out.push(format!("  - {stack:20} {count} {noun}"));
    }
    let mut part = |head: &str, rows: Vec<(String, String)>| {
        if !rows.is_empty() {
            out.push(format!("\n{head}"));
            out.extend(rows.into_iter().map(|(a, b)| format!("    {a:20} {b}")));
        }
    };
    let kept = |all: &[crate::deploy::Kept]| -> Vec<(String, String)> {
        all.iter()
            .map(|k| {
                (
                    k.resource.clone(),
                    format!("{} {}", k.kind.trim_start_matches("AWS::"), k.physical),
                )
            })
            .collect()
    };
    part("Data that is LOST", kept(&plan.lost));
    let refused = plan.refused.iter().map(|name| (name.clone(), "holds data".to_owned()));
    part("Refused unless named: --allow-data-loss NAME", refused.collect());
    part("Kept; to lose it: --allow-data-loss NAME", kept(&plan.kept));
    let made = plan
        .leftovers
        .iter()
        .map(|l| (l.kind.rsplit("::").next().unwrap_or_default().to_owned(), l.arn.clone()));
    part("The cluster made these itself; to remove them: --remove-leftovers", made.collect());
    out.join("\n")
}
