//! Events of clusters: hooks of plugins before and after kaws creates, updates, deploys or deletes one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::refusal::fail;
use super::session::Session;
use crate::cli::exit::Exit;
use crate::cli::report::{findings_json, say, say_findings};
use crate::cli::{Common, Output};
use crate::deploy::secret;
use crate::finding::{Finding, Findings, Severity};
use crate::model::HostBehavior;
use crate::pipeline::{Happening, happenings, told};
use crate::plugin::contract::{Level, Said};
use crate::plugin::program::Capabilities;
use crate::port::Cloud;
use crate::runtime::{Rights, Runs};

/// What hooks are told: of now, or of before a cluster was deleted.
#[derive(Debug)]
pub(in crate::cli) struct Learned {
    facts: Value,
    /// Values of secrets, by PLUGIN/NAME.
    secrets: BTreeMap<String, String>,
}

impl Learned {
    /// Asks for what the hooks of some events are told; where there are none, nothing.
    pub(in crate::cli) async fn now(session: &Session, events: &[&str]) -> Result<Self, Exit> {
        let (setup, model) = (&session.run.setup, &session.run.rendered.model);
        let mut learned = Self { facts: Value::Null, secrets: BTreeMap::new() };
        for event in events {
            for happening in happenings(setup, model, event).value {
                if learned.facts.is_null() {
                    learned.facts = facts(&*session.cloud, session).await?;
                }
                for name in reach(session, &happening).secrets {
                    let full = format!("{}/{name}", happening.me.name);
                    let bucket = &session.tree.cluster.bucket;
                    let value = secret(&*session.cloud, bucket, &full).await;
                    let value = value.map_err(|error| fail(&error))?;
                    learned.secrets.extend(value.map(|value| (full, value)));
                }
            }
        }
        Ok(learned)
    }
}

/// What a hook's plugin was granted.
fn reach(session: &Session, happening: &Happening<'_>) -> Capabilities {
    let asked = &happening.me.package.manifest.capabilities;
    let granted = session.run.setup.lock.granted(happening.me.name.as_str(), &asked.rights());
    asked.only(&granted)
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
    let (package, form) = (&happening.me.package, &happening.form);
    let reach = reach(session, happening);
    let failed = |text: String| {
        let enforced = form.behavior == HostBehavior::SyncEnforce;
        let make = if enforced { Finding::fatal } else { Finding::warning };
        make("hooks/failed", text).at(&happening.origin).by(&happening.me.name)
    };
    let mut secrets = BTreeMap::new();
    for name in &reach.secrets {
        let full = format!("{}/{name}", happening.me.name);
        let Some(value) = learned.secrets.get(&full) else {
            let text =
                format!("the hook {} uses the secret {full}, which is not set", happening.name);
            return findings.push(failed(text).help(format!("kaws secret set {full}")));
        };
        secrets.insert(name.clone(), value.clone());
    }
    let request = told(&session.run.setup, happening, learned.facts.clone(), secrets.clone());
    let folder = session.folder();
    let beside = |file: &String| -> Option<PathBuf> { std::path::absolute(folder.join(file)).ok() };
    let rights = Rights {
        ports: reach.ports().unwrap_or_default(),
        reads: reach.files.iter().filter_map(beside).collect(),
        env: reach.env.clone(),
        secrets,
    };
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
        runtime.happen(package, &runs, happening.event, &form.timeout, &request, rights)
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
            findings.extend(response.findings.iter().map(|said| finding(happening, said)));
        }
        Err(failure) => {
            let said = failure.finding(package, happening.event);
            let text =
                format!("the hook {} of {} failed: {failure}", happening.name, happening.event);
            // A secret that came back is no matter of taste.
            let mut told = if failure.code() == "exec/leak" {
                Finding::fatal("exec/leak", text).at(&happening.origin).by(&happening.me.name)
            } else {
                failed(text)
            };
            told.notes = said.notes;
            told.help = said.help;
            findings.push(told);
        }
    }
}

fn finding(happening: &Happening<'_>, said: &Said) -> Finding {
    let code = format!("{}/{}", happening.me.name, said.code);
    let enforced = happening.form.behavior == HostBehavior::SyncEnforce;
    let finding = if said.severity == Level::Fatal && enforced {
        Finding::fatal(&code, said.message.clone())
    } else {
        Finding::warning(&code, said.message.clone())
    };
    let finding = finding.at(&happening.origin).by(&happening.me.name);
    said.help.iter().fold(finding, |finding, help| finding.help(help.clone()))
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

/// What deploying has learned so far.
async fn facts(cloud: &dyn Cloud, session: &Session) -> Result<Value, Exit> {
    let cluster = &session.tree.cluster;
    let stacks = cloud.stacks(&cluster.name).await.map_err(|error| fail(&error.into()))?;
    let prefix = format!("{}-", cluster.name);
    let outputs: BTreeMap<&str, &BTreeMap<String, String>> = stacks
        .iter()
        .map(|stack| (stack.name.strip_prefix(&prefix).unwrap_or(&stack.name), &stack.outputs))
        .collect();
    Ok(
        json!({"cloud": cloud.name(), "endpoint": format!("https://{}", cluster.api), "outputs": outputs}),
    )
}

/// The folder of a cluster's file.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}
