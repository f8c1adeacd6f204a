//! Steps of plugins: an HTTP request, or waiting until something answers.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use serde_json::Value;

use super::error::Error;
use super::up::Running;
use super::validate::unmet;
use crate::finding::{Finding, Severity};
use crate::model::Step;
use crate::port::{Cloud, Outputs, Programs, Request, Task, Web};

/// How long a step may take that does not say.
const WITHIN: u64 = 300;
/// How long to wait before asking again.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// What steps are run with.
#[derive(Clone, Copy)]
pub(super) struct With<'a> {
    pub cloud: &'a dyn Cloud,
    pub web: &'a dyn Web,
    pub running: &'a dyn Running,
    pub programs: &'a dyn Programs,
}

/// Runs the program of a step.
async fn program(
    programs: &dyn Programs,
    name: &str,
    step: &Step,
    exec: &Value,
    outputs: &Outputs,
) -> Result<String, String> {
    let within = step.within.as_deref().map_or(WITHIN, seconds);
    let task = Task { name, stage: "deploy", exec, within, outputs };
    let findings = programs.run(task).await.map_err(|finding| told(&finding))?;
    let (fatal, warnings): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.severity == Severity::Fatal);
    let words = |all: &[&Finding]| all.iter().map(|f| told(f)).collect::<Vec<_>>().join("; ");
    match (fatal.as_slice(), warnings.as_slice()) {
        ([], []) => Ok("done".to_owned()),
        ([], warnings) => Ok(format!("done, with a warning: {}", words(warnings))),
        (fatal, _) => Err(words(fatal)),
    }
}

/// A finding in one line, with what its program said last.
fn told(finding: &Finding) -> String {
    let notes = finding.notes.iter().map(|note| note.replace('\n', " "));
    std::iter::once(finding.message.clone()).chain(notes).collect::<Vec<_>>().join("; ")
}

/// Runs a step; on the local cloud there is nobody to ask, but for the plugin's own program.
pub(super) async fn run(
    with: With<'_>,
    name: &str,
    step: &Step,
    outputs: &Outputs,
) -> Result<String, Error> {
    let With { cloud, web, running, programs } = with;
    if let Some(exec) = &step.exec {
        let ran = program(programs, name, step, exec, outputs).await;
        return ran.map_err(|reason| Error::Step { step: name.to_owned(), reason });
    }
    if cloud.is_local() {
        return Ok("not run: nothing answers on the local cloud".to_owned());
    }
    let wrong = |reason: String| Error::Step { step: name.to_owned(), reason };
    let within = std::time::Duration::from_secs(step.within.as_deref().map_or(WITHIN, seconds));
    let form = match (&step.http, &step.wait) {
        (Some(form), _) => form,
        // A condition on an HTTP endpoint is spelled as a check spells it.
        (None, Some(form)) if form.contains_key("url") => form,
        (None, Some(form)) => return wait(running, within, form).await.map_err(wrong),
        (None, None) => return Err(wrong("it says nothing to do".to_owned())),
    };
    let form: BTreeMap<&String, Value> =
        form.iter().map(|(key, value)| (key, filled(value, outputs))).collect();
    let get = |key: &str| form.get(&key.to_owned());
    let text = |key: &str| get(key).and_then(Value::as_str).map(str::to_owned);
    let url = text("url").ok_or_else(|| wrong("it has no url".to_owned()))?;
    let expect = get("expect").and_then(Value::as_u64).unwrap_or(200);
    let request = Request {
        method: text("method").unwrap_or_else(|| "GET".to_owned()),
        url,
        body: get("body").map(|b| b.as_str().map_or_else(|| b.to_string(), str::to_owned)),
    };
    let said = std::sync::Mutex::new("nothing answers".to_owned());
    let asking = async {
        loop {
            let now = match web.send(&request).await {
                Ok(answer) if u64::from(answer.status) == expect => return format!("{expect}"),
                Ok(answer) => format!("{} answers {}, not {expect}", request.url, answer.status),
                Err(error) => error.to_string(),
            };
            *said.lock().unwrap_or_else(PoisonError::into_inner) = now;
            tokio::time::sleep(AGAIN).await;
        }
    };
    match tokio::time::timeout(within, asking).await {
        Ok(done) => Ok(done),
        Err(_) => Err(wrong(said.into_inner().unwrap_or_else(PoisonError::into_inner))),
    }
}

/// Waits for an object of the cluster and its condition: kind, namespace, name, condition.
async fn wait(
    running: &dyn Running,
    within: std::time::Duration,
    form: &BTreeMap<String, Value>,
) -> Result<String, String> {
    let word = |key: &str| form.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, namespace, name) = (word("kind"), word("namespace"), word("name"));
    let said = std::sync::Mutex::new("nothing answers".to_owned());
    let asking = async {
        loop {
            let now = match running.api_server().await {
                Ok(cluster) => match cluster.status(kind, namespace, name).await {
                    Ok(Some(status)) => match unmet(kind, &status, word("condition")) {
                        None => return format!("{kind} {name}"),
                        Some(why) => why,
                    },
                    Ok(None) => format!("there is no {kind} {name}"),
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
            };
            *said.lock().unwrap_or_else(PoisonError::into_inner) = now;
            tokio::time::sleep(AGAIN).await;
        }
    };
    match tokio::time::timeout(within, asking).await {
        Ok(done) => Ok(done),
        Err(_) => Err(said.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// A value with the outputs that it names in their place.
pub(super) fn filled(value: &Value, outputs: &Outputs) -> Value {
    let output = |name: &str| {
        let (stack, output) = name.trim().split_once('.')?;
        outputs.get(stack)?.get(output).cloned()
    };
    match value {
        Value::Object(map) => match map.get("$output").and_then(Value::as_str).and_then(output) {
            Some(text) if map.len() == 1 => Value::String(text),
            _ => map.iter().map(|(k, v)| (k.clone(), filled(v, outputs))).collect(),
        },
        Value::Array(items) => items.iter().map(|item| filled(item, outputs)).collect(),
        Value::String(text) => {
            let mut parts = text.split("@{output ");
            let mut whole = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let (name, rest) = part.split_once('}').unwrap_or((part, ""));
                whole.push_str(&output(name).unwrap_or_default());
                whole.push_str(rest);
            }
            Value::String(whole)
        }
        other => other.clone(),
    }
}

/// `90s`, `5m`, `2h`, `1d` in seconds; the schema has checked the form.
pub(super) fn seconds(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.len() - 1);
    let factor = match unit {
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => 1,
    };
    number.parse::<u64>().unwrap_or(WITHIN).saturating_mul(factor)
}
