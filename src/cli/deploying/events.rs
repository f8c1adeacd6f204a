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
use crate::finding::{Finding, Findings, Severity};
use crate::model::{HostBehavior, HostHook};
use crate::pipeline::{Happening, happenings};
use crate::plugin::contract::Occasion;
use crate::runtime::Runs;

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
            for Happening { me, .. } in happenings(setup, model, event).value {
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
        let all = happenings(setup, model, event).collect(&mut findings);
        if findings.any_fatal() {
            say_findings(&findings, true);
            return Err(Exit::Findings);
        }
        for happening in &all {
            one(common, session, happening, learned, &mut findings);
            let failed = findings.any_fatal();
            tell(common, happening, &findings);
            if failed {
                return Err(Exit::Findings);
            }
            findings = Findings::new();
        }
    }
    Ok(())
}

/// Runs one hook; what there is to say of it are findings.
fn one(
    common: &Common,
    session: &Session,
    happening: &Happening<'_>,
    learned: &Learned,
    findings: &mut Findings,
) {
    let (me, form) = (happening.me, &happening.form);
    let failed = |text: String| {
        let enforced = form.behavior == HostBehavior::SyncEnforce;
        let make = if enforced { Finding::fatal } else { Finding::warning };
        make("hooks/failed", text).at(&happening.origin).by(&me.name)
    };
    let secrets = learned.secrets.get(me.name.as_str()).cloned().unwrap_or_default();
    let asked = granted::reach(session, me).secrets;
    if let Some(name) = asked.iter().find(|name| !secrets.contains_key(*name)) {
        let full = format!("{}/{name}", me.name);
        let text = format!("the hook {} uses the secret {full}, which is not set", happening.name);
        return findings.push(failed(text).help(format!("kaws secret set {full}")));
    }
    let occasion = Occasion::Event(happening.event);
    let (request, rights) =
        granted::equipped(session, me, occasion, learned.facts.clone(), secrets);
    let Some(runtime) = &common.programs else {
        let text = format!("the hook {} cannot be run: nothing here runs programs", happening.name);
        return findings.push(failed(text));
    };
    let runs = match (&form.command, &happening.script, &form.exec) {
        (Some(line), _, _) => Runs::Line(line),
        (_, Some(script), _) => Runs::Script(script),
        (_, _, exec) => Runs::Exec(exec.as_ref().unwrap_or(&Value::Null)),
    };
    let ran = tokio::task::block_in_place(|| {
        runtime.happen(&me.package, &runs, occasion, &form.timeout, &request, rights)
    });
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
            findings.extend(
                all.map(|said| bypassed(form, granted::finding(me, &happening.origin, said))),
            );
        }
        Err(failure) => {
            let said = failure.finding(&me.package, happening.event);
            let text =
                format!("the hook {} of {} failed: {failure}", happening.name, happening.event);
            // A secret that came back is no matter of taste.
            let mut told = if failure.code() == "exec/leak" {
                Finding::fatal("exec/leak", text).at(&happening.origin).by(&me.name)
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

fn tell(common: &Common, happening: &Happening<'_>, findings: &Findings) {
    let bad = findings
        .iter()
        .any(|finding| finding.code == "hooks/failed" || finding.severity == Severity::Fatal);
    if common.output == Output::Json {
        let all = findings_json(findings);
        say(&json!({"event": happening.event, "hook": happening.name, "done": !bad, "findings": all}).to_string());
        return;
    }
    let mark = if bad { "✘" } else { "✔" };
    say(&format!("{mark} {:<15} {}", happening.event, happening.name));
    say_findings(findings, true);
}

/// The folder of a cluster's file.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}
