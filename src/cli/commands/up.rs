//! `kaws up`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::render::out;
use super::{Exit, only_file, unwritable};
use crate::cli::deploying::{
    Drifting, Live, Patience, PluginPrograms, Purpose, Reach, Session, Wait, add_pending, checks,
    events, events_of_up, fail, free_stuck, operator, plan_text, reasons, run_pending, runtime,
    said_failures, say_root_cause,
};
use crate::cli::report::{say, say_error, say_findings};
use crate::cli::{Common, Output, UpArguments};
use crate::deploy::plan::{Deployed, Plan};
use crate::deploy::{Ended, Error, Up, UpOptions, clear, settle, up};
use crate::emit;
use crate::finding::Finding;
use crate::port::Fault;
use crate::web::Http;

/// Deploys.
pub(super) fn run(common: &Common, arguments: &UpArguments) -> Exit {
    runtime().block_on(deploy(common, arguments)).into()
}

async fn deploy(common: &Common, arguments: &UpArguments) -> Result<(), Exit> {
    let file = only_file(common)?;
    let faults = faults(arguments)?;
    let session = Session::open(common, file, &arguments.cloud, faults, Purpose::Deploy).await?;
    written(common, file, &session, arguments.render)?;
    let live = Live::new(common.output);
    let stacks = settle(&*session.cloud, &session.tree.cluster.name, &*live).await;
    let stacks = stacks.map_err(|e| fail(&e))?;
    known_faults(arguments, &session)?;
    let gone = free_stuck(common, &session, &stacks, arguments, &live).await?;
    let mut remove: BTreeSet<String> = arguments.remove.iter().cloned().collect();
    remove.retain(|stack| !gone.contains(stack));
    let (plan, there) = session.plan(&remove, drifting(arguments)).await?;
    if let Some(saved) = &arguments.plan {
        same_plan(saved, &plan)?;
    }
    let current = there.last.as_ref().is_some_and(|l| l.record.tree == session.tree.digest);
    if plan.is_empty() && current {
        run_pending(common, &session).await?;
        if arguments.take_over {
            let bucket = &session.tree.cluster.bucket;
            clear(&*session.cloud, bucket, &operator()).await.map_err(|e| fail(&e))?;
        }
        say_no_changes(common, &plan);
        return Ok(());
    }
    check(&plan, arguments)?;
    // Other bytes that no stack is made of are only remembered.
    if !plan.is_empty() {
        live.asking(|| confirm(common, arguments, &plan, &session))?;
    }
    let [before, after] = events_of_up(there.last.is_none());
    events(common, &session, &before).await?;
    live.listen();
    let ended = execute(&session, &plan, &there, arguments, &remove, &live).await?;
    live.finish();
    report(common, &session, &plan, &ended, &live)?;
    add_pending(&session, &after).await?;
    run_pending(common, &session).await?;
    done(common, file, arguments, &session, &live);
    if arguments.no_validate || session.cloud.is_local() {
        return Ok(());
    }
    holds(common, arguments, &session).await
}

/// Waits until what was deployed holds: each check says how long it may take.
async fn holds(common: &Common, arguments: &UpArguments, session: &Session) -> Result<(), Exit> {
    let reach = Reach::of(session, arguments.kubeconfig.as_ref());
    let patience = Patience { wait: Wait::AsTheySay, count: 1, interval: AGAIN, tolerated: 0 };
    let seen = checks::run(common, session, &reach, patience).await?;
    if common.output == Output::Text {
        say("");
    }
    seen.show(common, session);
    if seen.fails() { Err(Exit::Findings) } else { Ok(()) }
}

/// How long to wait before checks are run again.
const AGAIN: Duration = Duration::from_secs(10);

fn drifting(arguments: &UpArguments) -> Drifting {
    if arguments.revert_drift { Drifting::Reverted } else { Drifting::Unseen }
}

/// `--fail` belongs to the local cloud alone.
fn faults(arguments: &UpArguments) -> Result<BTreeMap<String, String>, Exit> {
    if !arguments.fail.is_empty() && !arguments.cloud.is_local() {
        say_error("--fail is for --cloud local");
        return Err(Exit::Usage);
    }
    let one = |text: &String| match text.split_once('=') {
        Some((resource, why)) => (resource.to_owned(), why.to_owned()),
        None => (text.clone(), "kaws up --fail asked for it".to_owned()),
    };
    Ok(arguments.fail.iter().map(one).collect())
}

/// What can be said to fail, before the resource.
const VERBS: [&str; 4] = ["create", "delete", "rollback", "update"];

/// A resource that is to fail must be rendered.
fn known_faults(arguments: &UpArguments, session: &Session) -> Result<(), Exit> {
    for fault in &arguments.fail {
        let name = fault.split('=').next().unwrap_or(fault);
        let verb = VERBS.iter().find(|verb| name.starts_with(&format!("{verb}:")));
        // What is deleted may no longer be rendered.
        if verb == Some(&"delete") {
            continue;
        }
        let resource = verb
            .map_or(name, |verb| &name[verb.len() + 1..])
            .split_once('/')
            .and_then(|(stack, id)| session.tree.stacks.get(stack)?.template.resources.get(id));
        if resource.is_none() {
            say_error(&format!("--fail {name}: no stack has that; kaws graph draws the stacks"));
            return Err(Exit::Usage);
        }
    }
    Ok(())
}

/// `up` deploys rendered/: it must be there and be what the cluster renders to.
fn written(common: &Common, file: &Path, session: &Session, anew: bool) -> Result<(), Exit> {
    let out = out(common, file);
    let (artifacts, manifest) = (&session.run.rendered.artifacts, &session.run.manifest);
    let there = out.join(emit::MANIFEST).exists();
    if there && !anew {
        let differs = emit::check(&out, artifacts, manifest).map_err(|e| unwritable(&e))?;
        let intact = emit::is_intact(&out).map_err(|e| unwritable(&e))?;
        if differs.is_same() && intact {
            return Ok(());
        }
        let text = format!("{}/ is not what the cluster renders to", out.display());
        let finding = Finding::fatal("deploy/stale", text)
            .note("what is deployed is what was reviewed in it")
            .help("kaws render writes it, git diff shows it; or kaws up --render does both");
        say_findings(&finding.into(), true);
        return Err(Exit::Findings);
    }
    let wrote = emit::write(&out, artifacts, manifest, &mut |_| true);
    let wrote = wrote.map_err(|e| unwritable(&e))?;
    if common.output == Output::Text && !wrote.is_same() {
        let changed = wrote.changed.len() + wrote.new.len() + wrote.gone.len();
        say(&format!(
            "Rendered {}: {} files, {changed} written",
            session.tree.cluster.name, wrote.files
        ));
    }
    Ok(())
}

/// Refuses a saved plan that is no longer the plan.
#[expect(clippy::disallowed_methods, reason = "the user named the file")]
fn same_plan(path: &Path, plan: &Plan) -> Result<(), Exit> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        say_error(&format!("cannot read {}: {error}", path.display()));
        Exit::Files
    })?;
    let saved: Option<Value> = serde_json::from_str(&text).ok();
    let Some(digest) = saved.as_ref().and_then(|v| v["plan"]["digest"].as_str()) else {
        say_error(&format!("{} is no plan of kaws", path.display()));
        return Err(Exit::Files);
    };
    if digest == plan.digest {
        return Ok(());
    }
    let short = |text: &str| text.chars().take(8).collect();
    Err(fail(&Error::OtherPlan {
        file: path.display().to_string(),
        saved: short(digest),
        now: short(&plan.digest),
    }))
}

fn check(plan: &Plan, arguments: &UpArguments) -> Result<(), Exit> {
    if let Some(error) = plan.unsupported() {
        return Err(fail(&error));
    }
    let allowed: BTreeSet<String> = arguments.allow_data_loss.iter().cloned().collect();
    let risk = plan.data_at_risk(&allowed);
    if risk.is_empty() { Ok(()) } else { Err(fail(&Error::DataAtRisk(risk))) }
}

/// Shows the plan and asks, unless `--yes` or a saved plan has answered.
fn confirm(
    common: &Common,
    arguments: &UpArguments,
    plan: &Plan,
    session: &Session,
) -> Result<(), Exit> {
    match common.output {
        Output::Json => say(&super::plan::to_json(plan).to_string()),
        Output::Text if arguments.plan.is_some() => {
            let local = if plan.cloud == "local" { ", local cloud" } else { "" };
            say(&format!(
                "{}, {}, account {}{local}, plan {}\n",
                plan.cluster,
                plan.region,
                plan.account,
                &plan.digest[..8]
            ));
        }
        Output::Text => say(&format!("{}\n", plan_text(plan, &session.tree))),
    }
    if arguments.yes || arguments.plan.is_some() {
        return Ok(());
    }
    super::asked("Deploy this?", "kaws up --yes asks nothing; nothing was changed")
}

fn say_no_changes(common: &Common, plan: &Plan) {
    match common.output {
        Output::Json => say(&super::plan::to_json(plan).to_string()),
        Output::Text => {
            let local = if plan.cloud == "local" { " (local cloud)" } else { "" };
            say(&format!("{}{local}: no changes.", plan.cluster));
        }
    }
}

async fn execute(
    session: &Session,
    plan: &Plan,
    there: &Deployed,
    arguments: &UpArguments,
    remove: &BTreeSet<String>,
    live: &Live,
) -> Result<Ended, Exit> {
    // Before the first deployment nobody has a certificate: the way is found when somebody goes it.
    let reach = Reach::of(session, arguments.kubeconfig.as_ref());
    // What is recorded is of before: what is deployed now is what must hold.
    let running = checks::Holding { session, reach: &reach, tree: Some(&session.tree) };
    let work = Up {
        cloud: &*session.cloud,
        web: &Http::default(),
        tree: &session.tree,
        manifest: &session.run.manifest,
        plan,
        deployed: there,
        locked: &session.locked,
        record: session.record(),
        watcher: live,
        again: &|| Box::pin(session.digest(remove, there, drifting(arguments))),
        running: &running,
        programs: &PluginPrograms(session),
    };
    let options = UpOptions {
        at_most: arguments.at_most.max(1),
        role: arguments.cloud.service_role.clone(),
        take_over: arguments.take_over,
        keep_failed: arguments.keep_failed,
        roll: !arguments.no_roll,
    };
    up(work, &operator(), &options).await.map_err(|error| fail(&error))
}

/// Says how it ended: the root cause first, then what is left.
fn report(
    common: &Common,
    session: &Session,
    plan: &Plan,
    ended: &Ended,
    live: &Live,
) -> Result<(), Exit> {
    if ended.failed.is_empty() && ended.not_run.is_empty() {
        return Ok(());
    }
    if common.output == Output::Json {
        let failed: Vec<Value> = ended
            .failed
            .iter()
            .map(|(step, error)| json!({"step": step, "error": error.to_string(), "rootCause": cause(error)}))
            .collect();
        say(&json!({"done": false, "failed": failed, "notRun": ended.not_run}).to_string());
    }
    said_failures(ended, live, "kaws up", |error| match error {
        Error::Stack(cause) => {
            say_root_cause(cause, &reasons(session, plan, cause));
            Exit::Aws
        }
        Error::Invalid { stack, faults } => fail(&Error::Invalid {
            stack: stack.clone(),
            faults: faults.iter().map(|fault| owned(session, stack, fault)).collect(),
        }),
        error => fail(error),
    })
}

/// Says whose the resource is.
fn owned(session: &Session, stack: &str, fault: &Fault) -> Fault {
    let name = format!("{stack}/{}", fault.resource);
    let resource = match session.owners.get(&name) {
        Some(owners) => format!("{name}, of {}", owners.join(", ")),
        None => name,
    };
    Fault { resource, ..fault.clone() }
}

fn cause(error: &Error) -> Value {
    match error {
        Error::Invalid { stack, faults } => json!({"stack": stack, "faults": faults}),
        Error::Stack(cause) => {
            json!({"stack": cause.stack, "status": cause.status, "resource": cause.first, "reports": cause.reports})
        }
        _ => Value::Null,
    }
}

fn done(common: &Common, file: &Path, arguments: &UpArguments, session: &Session, live: &Live) {
    let cluster = &session.tree.cluster;
    let local = session.cloud.is_local();
    if common.output == Output::Json {
        let done = json!({"done": true, "cluster": cluster.name, "endpoint": format!("https://{}", cluster.api), "cloud": session.cloud.name()});
        say(&done.to_string());
        return;
    }
    let count = session.tree.stacks.len();
    say("");
    if local {
        say(&format!(
            "{} is up on the local cloud: {count} stacks complete, {}.",
            cluster.name,
            live.elapsed()
        ));
        say(&format!("  endpoint   https://{}  (local: nothing answers there)", cluster.api));
        say("Next");
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        say(&format!("  change {name}, then see what that would do, and why:"));
        say(&format!("    {}", arguments.cloud.same("plan", file)));
        say(&format!("    {}", arguments.cloud.same("destroy", file)));
    } else {
        say(&format!("{} is deployed: {count} stacks complete, {}.", cluster.name, live.elapsed()));
        say(&format!("  endpoint   https://{}", cluster.api));
    }
}
