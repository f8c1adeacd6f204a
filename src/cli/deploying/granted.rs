//! Programs of plugins after render: in steps, checks and hooks, with what they were granted and what deploying has
//! learned.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::session::Session;
use crate::deploy::{Error, secret};
use crate::finding::Finding;
use crate::origin::Origin;
use crate::pipeline::late_request;
use crate::plugin::Instance;
use crate::plugin::contract::{Level, Occasion, Said};
use crate::plugin::program::Capabilities;
use crate::port::{Cloud, Programs, Task};
use crate::runtime::{Failure, Rights, Runs, degraded};

/// Values of secrets, by their names in the plugin.
pub(super) type Secrets = BTreeMap<String, String>;

/// What a plugin was granted.
pub(super) fn reach(session: &Session, me: &Instance) -> Capabilities {
    let asked = &me.package.manifest.capabilities;
    asked.only(&session.run.setup.lock.granted(me.name.as_str(), &asked.rights()))
}

/// The values of the secrets that a plugin was granted; those that are not set are missing.
pub(super) async fn secrets(session: &Session, me: &Instance) -> Result<Secrets, Error> {
    let mut all = Secrets::new();
    for name in reach(session, me).secrets {
        let full = format!("{}/{name}", me.name);
        let value = secret(&*session.cloud, &session.tree.cluster.bucket, &full).await?;
        all.extend(value.map(|value| (name, value)));
    }
    Ok(all)
}

/// What deploying has learned so far.
pub(super) async fn facts(session: &Session) -> Result<Value, Error> {
    let cluster = &session.tree.cluster;
    let stacks = session.cloud.stacks(&cluster.name).await?;
    let prefix = format!("{}-", cluster.name);
    let outputs: BTreeMap<&str, &BTreeMap<String, String>> = stacks
        .iter()
        .map(|stack| (stack.name.strip_prefix(&prefix).unwrap_or(&stack.name), &stack.outputs))
        .collect();
    Ok(with_outputs(&*session.cloud, session, &json!(outputs)))
}

fn with_outputs(cloud: &dyn Cloud, session: &Session, outputs: &Value) -> Value {
    let endpoint = format!("https://{}", session.tree.cluster.api);
    json!({"cloud": cloud.name(), "endpoint": endpoint, "outputs": outputs})
}

/// What a program is told and may reach.
pub(super) fn equipped(
    session: &Session,
    me: &Instance,
    occasion: Occasion<'_>,
    facts: Value,
    secrets: Secrets,
) -> (Vec<u8>, Rights) {
    let reach = reach(session, me);
    let request = late_request(&session.run.setup, me, occasion, facts, secrets.clone());
    let folder = session.folder();
    let beside = |file: &String| -> Option<PathBuf> { std::path::absolute(folder.join(file)).ok() };
    let rights = Rights {
        ports: reach.ports().unwrap_or_default(),
        reads: reach.files.iter().filter_map(beside).collect(),
        env: reach.env.clone(),
        secrets,
    };
    (request, rights)
}

/// A finding of a program's.
pub(super) fn finding(me: &Instance, origin: &Origin, said: &Said) -> Finding {
    let code = format!("{}/{}", me.name, said.code);
    let make = if said.severity == Level::Fatal { Finding::fatal } else { Finding::warning };
    let finding = make(&code, said.message.clone()).at(origin).by(&me.name);
    said.help.iter().fold(finding, |finding, help| finding.help(help.clone()))
}

/// Programs of steps and checks.
#[derive(Debug)]
pub(in crate::cli) struct PluginPrograms<'a>(pub(in crate::cli) &'a Session);

impl PluginPrograms<'_> {
    async fn answer(&self, task: &Task<'_>) -> Result<Vec<Finding>, Box<Finding>> {
        let session = self.0;
        let plugin = task.name.split('/').next().unwrap_or_default();
        let wrong = |code: &str, why: String| {
            let text = format!("the program of {} gave no answer: {why}", task.name);
            Box::new(Finding::fatal(code, text))
        };
        let me = session.run.setup.plugins.iter().find(|me| me.name.as_str() == plugin);
        let (Some(me), Some(runtime)) = (me, session.programs()) else {
            return Err(wrong("exec/start", "nothing here runs it".to_owned()));
        };
        let secrets = secrets(session, me).await.map_err(|e| wrong("exec/start", e.to_string()))?;
        let facts = with_outputs(&*session.cloud, session, &json!(task.outputs));
        let (request, rights) = equipped(session, me, Occasion::Stage(task.stage), facts, secrets);
        let (runtime, package) = (Arc::clone(runtime), Arc::clone(&me.package));
        let (exec, stage, timeout) = (task.exec.clone(), task.stage, format!("{}s", task.within));
        // Other steps go on meanwhile.
        let ran = tokio::task::spawn_blocking(move || {
            let runs = Runs::Exec(&exec);
            runtime.run_after_render(
                &package,
                &runs,
                Occasion::Stage(stage),
                &timeout,
                &request,
                rights,
            )
        });
        let ran = ran.await.map_err(|error| wrong("exec/start", error.to_string()))?;
        let failed =
            |failure: Box<Failure>| Box::new(failure.finding(&me.package, task.stage).by(&me.name));
        let ran = ran.map_err(failed)?;
        let origin = &me.package.node.origin;
        let said = ran.response().map_err(failed)?.findings;
        let findings = said.iter().map(|said| finding(me, origin, said));
        Ok(findings.chain(degraded(&ran.without)).collect())
    }
}

#[async_trait]
impl Programs for PluginPrograms<'_> {
    async fn run(&self, task: Task<'_>) -> Result<Vec<Finding>, Box<Finding>> {
        self.answer(&task).await
    }
}
