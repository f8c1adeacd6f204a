//! Events of clusters: hooks of plugins before and after kaws creates, updates, deploys or deletes one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::granted::{self, Secrets};
use super::refusal::fail;
use super::session::Session;
use crate::cli::exit::Exit;
use crate::cli::report::{findings_json, say, say_findings};
use crate::cli::{Common, Output};
use crate::deploy::plan::PlannedHook;
use crate::finding::{Finding, Findings, Severity};
use crate::model::{HOST_EVENTS, HostBehavior, HostHook};
use crate::pipeline::{EventHook, event_hooks};
use crate::plugin::contract::Occasion;
use crate::port::When;
use crate::run::Run;
use crate::runtime::{Runs, degraded};

/// The events of a deployment, before it and after it; `first` where there is nothing deployed yet.
pub(in crate::cli) fn events_of_up(first: bool) -> [[&'static str; 2]; 2] {
    // What was begun and never came up is still to be created.
    if first {
        [["before-deploy", "before-create"], ["after-create", "after-deploy"]]
    } else {
        [["before-deploy", "before-update"], ["after-update", "after-deploy"]]
    }
}

/// Returns the hooks of events, as a plan shows them.
pub(super) fn planned(run: &Run, events: &[&str]) -> Vec<PlannedHook> {
    let one = |hook: EventHook<'_>| {
        let program = hook.form.exec.as_ref().map(ToString::to_string);
        let runs = hook.form.command.or(hook.form.script).or(program);
        PlannedHook {
            event: hook.event.to_owned(),
            name: hook.name.to_owned(),
            runs: runs.unwrap_or_else(|| "a script of the plugin's".to_owned()),
        }
    };
    let hooks = |event| event_hooks(&run.setup, &run.rendered.model, event).value;
    events.iter().copied().flat_map(hooks).map(one).collect()
}

/// What hooks are told: of now, or of before a cluster was deleted.
#[derive(Debug)]
pub(in crate::cli) struct Learned {
    facts: Value,
    /// Values of secrets, by plugin.
    secrets: BTreeMap<String, Secrets>,
}

impl Learned {
    /// Asks for what the hooks of some events are told; where there are none, nothing.
    pub(in crate::cli) async fn now(session: &Session, events: &[&str]) -> Result<Self, Exit> {
        let (setup, model) = (&session.run.setup, &session.run.rendered.model);
        let mut learned = Self { facts: Value::Null, secrets: BTreeMap::new() };
        for event in events {
            for EventHook { me, .. } in event_hooks(setup, model, event).value {
                if learned.facts.is_null() {
                    learned.facts = granted::facts(session).await.map_err(|error| fail(&error))?;
                }
                let secrets = granted::secrets(session, me).await.map_err(|error| fail(&error))?;
                learned.secrets.insert(me.name.to_string(), secrets);
            }
        }
        Ok(learned)
    }
}

/// Runs the hooks of events, one event after the other; the first that fails and counts ends it.
pub(in crate::cli) async fn events(
    common: &Common,
    session: &Session,
    events: &[&str],
) -> Result<(), Exit> {
    let learned = Learned::now(session, events).await?;
    events_told(common, session, events, &learned)
}

/// Where is written which events' hooks are still to run.
const PENDING: &str = "hooks/pending.json";

/// Writes down that the hooks of events are to run: whatever happens meanwhile, the next `kaws up` does it.
pub(in crate::cli) async fn add_pending(session: &Session, events: &[&str]) -> Result<(), Exit> {
    let (setup, model) = (&session.run.setup, &session.run.rendered.model);
    let some = |event: &&&str| !event_hooks(setup, model, event).value.is_empty();
    let new: Vec<&str> = events.iter().filter(some).copied().collect();
    if new.is_empty() {
        return Ok(());
    }
    let before = pending(session).await?;
    let all = HOST_EVENTS.iter().filter(|e| new.contains(e) || before.iter().any(|b| b == *e));
    let bucket = &session.tree.cluster.bucket;
    let text = json!(all.collect::<Vec<_>>()).to_string().into_bytes();
    let put = session.cloud.put(bucket, PENDING, text, When::Always).await;
    put.map(|_| ()).map_err(|error| fail(&error.into()))
}

/// The events whose hooks are still to run.
async fn pending(session: &Session) -> Result<Vec<String>, Exit> {
    match session.cloud.get(&session.tree.cluster.bucket, PENDING).await {
        Ok(object) => {
            let read = object.and_then(|object| serde_json::from_slice(&object.bytes).ok());
            Ok(read.unwrap_or_default())
        }
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(fail(&error.into())),
    }
}

/// Runs the hooks that are still to run, if there are any.
pub(in crate::cli) async fn run_pending(common: &Common, session: &Session) -> Result<(), Exit> {
    if session.run.rendered.model.names(&["hooks"]).is_empty() {
        return Ok(());
    }
    let pending = pending(session).await?;
    if pending.is_empty() {
        return Ok(());
    }
    let pending: Vec<&str> = pending.iter().map(String::as_str).collect();
    events(common, session, &pending).await?;
    clear_pending(session).await
}

/// Strikes out what was still to run; where the bucket is gone, so is that.
pub(in crate::cli) async fn clear_pending(session: &Session) -> Result<(), Exit> {
    match session.cloud.delete(&session.tree.cluster.bucket, PENDING, When::Always).await {
        Err(error) if !error.is_not_found() => Err(fail(&error.into())),
        _ => Ok(()),
    }
}

/// Runs the hooks of events, which are told what was learned before.
pub(in crate::cli) fn events_told(
    common: &Common,
    session: &Session,
    events: &[&str],
    learned: &Learned,
) -> Result<(), Exit> {
    let (setup, model) = (&session.run.setup, &session.run.rendered.model);
    for event in events {
        let mut findings = Findings::new();
        let all = event_hooks(setup, model, event).collect(&mut findings);
        if findings.any_fatal() {
            say_findings(&findings, true);
            return Err(Exit::Findings);
        }
        changed(session, &all, &mut findings);
        if findings.any_fatal() {
            say_findings(&findings, true);
            return Err(Exit::Findings);
        }
        for hook in &all {
            one(common, session, hook, learned, &mut findings);
            let failed = findings.any_fatal();
            tell(common, hook, &findings);
            if failed {
                return Err(Exit::Findings);
            }
            findings = Findings::new();
        }
    }
    Ok(())
}

/// On a real cloud nothing runs that is not what kaws.lock recorded.
fn changed(session: &Session, all: &[EventHook<'_>], findings: &mut Findings) {
    for EventHook { me, origin, .. } in all.iter().filter(|_| !session.cloud.is_local()) {
        let recorded = session.run.setup.lock.plugin(me.package.name.as_str());
        if recorded.is_some_and(|recorded| recorded.tree() != me.package.hash()) {
            let text = format!("{} is not the plugin that kaws.lock recorded", me.name);
            let finding = Finding::fatal("lock/plugin-changed", text).at(origin);
            findings.push(finding.help("kaws lock records it, once you have looked at it"));
        }
    }
}

/// Runs one hook; what there is to say of it are findings.
fn one(
    common: &Common,
    session: &Session,
    hook: &EventHook<'_>,
    learned: &Learned,
    findings: &mut Findings,
) {
    let (me, form) = (hook.me, &hook.form);
    let failed = |text: String| {
        let enforced = form.behavior == HostBehavior::SyncEnforce;
        let make = if enforced { Finding::fatal } else { Finding::warning };
        make("hooks/failed", text).at(&hook.origin).by(&me.name)
    };
    let secrets = learned.secrets.get(me.name.as_str()).cloned().unwrap_or_default();
    let asked = granted::reach(session, me).secrets;
    if let Some(name) = asked.iter().find(|name| !secrets.contains_key(*name)) {
        let full = format!("{}/{name}", me.name);
        let text = format!("the hook {} uses the secret {full}, which is not set", hook.name);
        return findings.push(failed(text).help(format!("kaws secret set {full}")));
    }
    let occasion = Occasion::Event(hook.event);
    let (request, rights) =
        granted::equipped(session, me, occasion, learned.facts.clone(), secrets);
    let Some(runtime) = &common.programs else {
        let text = format!("the hook {} cannot be run: nothing here runs programs", hook.name);
        return findings.push(failed(text));
    };
    let runs = match (&form.command, &hook.script, &form.exec) {
        (Some(line), _, _) => Runs::Line(line),
        (_, Some(script), _) => Runs::Script(script),
        (_, _, exec) => Runs::Exec(exec.as_ref().unwrap_or(&Value::Null)),
    };
    let ran = tokio::task::block_in_place(|| {
        runtime.run_after_render(&me.package, &runs, occasion, &form.timeout, &request, rights)
    });
    if let Ok(ran) = &ran {
        findings.extend(degraded(&ran.without));
    }
    let said = match ran {
        // What a line of the shell or a script prints is for people.
        Ok(ran) if form.exec.is_none() => {
            if common.output == Output::Text {
                String::from_utf8_lossy(&ran.answer)
                    .lines()
                    .for_each(|line| say(&format!("  {}", crate::finding::plain(line))));
            }
            return;
        }
        Ok(ran) => ran.response(),
        Err(failure) => Err(failure),
    };
    match said {
        Ok(response) => {
            let all = response.findings.iter();
            findings
                .extend(all.map(|said| bypassed(form, granted::finding(me, &hook.origin, said))));
        }
        Err(failure) => {
            let said = failure.finding(&me.package, hook.event);
            let text = format!("the hook {} of {} failed: {failure}", hook.name, hook.event);
            // A secret that came back is no matter of taste.
            let mut told = if failure.code() == "exec/leak" {
                Finding::fatal("exec/leak", text).at(&hook.origin).by(&me.name)
            } else {
                failed(text)
            };
            told.notes = said.notes;
            told.help = said.help;
            findings.push(told);
        }
    }
}

/// What may fail is no reason to stop.
fn bypassed(form: &HostHook, finding: Finding) -> Finding {
    match form.behavior {
        HostBehavior::SyncEnforce => finding,
        HostBehavior::SyncBypass => Finding { severity: Severity::Warning, ..finding },
    }
}

fn tell(common: &Common, hook: &EventHook<'_>, findings: &Findings) {
    let bad = findings
        .iter()
        .any(|finding| finding.code == "hooks/failed" || finding.severity == Severity::Fatal);
    if common.output == Output::Json {
        let all = findings_json(findings);
        say(&json!({"event": hook.event, "hook": hook.name, "done": !bad, "findings": all})
            .to_string());
        return;
    }
    let mark = if bad { "✘" } else { "✔" };
    say(&format!("{mark} {:<15} {}", hook.event, hook.name));
    say_findings(findings, true);
}

/// The folder of a cluster's file.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}
