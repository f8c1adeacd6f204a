//! Lookups: what a plugin's program must know of the outside before it is asked. The manifest says the question, `kaws
//! lock` asks it, and kaws.lock has the answer.
//!
//! Not here: asking (`resolve`, `runtime`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::program::Exec;
use super::{Context, ask};
use crate::finding::{Finding, Findings, Outcome};
use crate::origin::Origin;
use crate::value::sha256;

/// What is looked up: just one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "a lookup")]
pub struct LookupForm {
    /// What it is for.
    pub description: String,
    /// The address of a JSON document, a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(https?://|\\{\\{)"))]
    pub http: Option<String>,
    /// The part of that document that is the answer, as `/tag_name`; all of it without.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^/"))]
    pub pointer: Option<String>,
    /// A public parameter of AWS, a template: /aws/service/….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssm: Option<String>,
    /// A program, which answers `{"value": …}`. It reaches what `capabilities` name, once that is granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<Exec>,
}

/// A question to the outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// PLUGIN/LOOKUP.
    pub name: String,
    /// Whom to ask, and what: an answer that was taken from elsewhere does not count.
    pub from: String,
    /// How to ask.
    pub how: How,
    /// The place that asks.
    pub origin: Origin,
}

/// How a question is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// A document of the web, and a part of it.
    Http(String, Option<String>),
    /// A parameter of AWS.
    Ssm(String),
    /// A program, with the request it is asked.
    Exec(Exec, Vec<u8>),
}

/// Returns what a plugin asks the outside.
pub fn questions(cx: &Context<'_>) -> Outcome<Vec<Question>> {
    let package = &cx.me.package;
    let (mut all, mut findings) = (Vec::new(), Findings::new());
    for (name, form) in &package.manifest.lookups {
        let node = package.node.at(&["lookups", name]).unwrap_or(&package.node);
        let scope = super::declared::scope(cx, &cx.me.settings, cx.values);
        let text = |template: &str| cx.engine.render(template, &scope, &node.origin);
        let how = match (&form.http, &form.ssm, &form.exec) {
            (Some(url), None, None) => text(url).map(|url| How::Http(url, form.pointer.clone())),
            (None, Some(path), None) => text(path).map(How::Ssm),
            (None, None, Some(exec)) => Ok(How::Exec(exec.clone(), request(cx, name))),
            _ => {
                let text = format!("the lookup {name} asks nobody, or several");
                let help = "write one of http, ssm, exec";
                let finding = Finding::fatal("plugin/value", text).at(node.key_origin());
                Err(Box::new(finding.help(help)))
            }
        };
        match how {
            Ok(how) => {
                let name = format!("{}/{name}", cx.me.name);
                let from = from(&how, &package.manifest.version);
                all.push(Question { name, from, how, origin: node.key_origin().clone() });
            }
            Err(finding) => findings.push(finding.by(&cx.me.name)),
        }
    }
    Outcome { value: all, findings }
}

/// A program of the same version gives the same answer to the same question: other files of its folder count for nothing.
fn from(how: &How, version: &str) -> String {
    match how {
        How::Http(url, None) => url.clone(),
        How::Http(url, Some(pointer)) => format!("{url}#{pointer}"),
        How::Ssm(path) => format!("ssm:{path}"),
        How::Exec(exec, request) => {
            let mut all = serde_json::to_vec(&(exec, version)).unwrap_or_default();
            all.extend_from_slice(request);
            format!("exec:{}", sha256(&all))
        }
    }
}

fn request(cx: &Context<'_>, name: &str) -> Vec<u8> {
    let mut request = ask(cx, "");
    (request.stage, request.name) = (None, Some(name));
    serde_json::to_vec(&request).unwrap_or_default()
}

/// Returns what kaws.lock answers to a plugin's questions; what it does not is a finding.
pub fn answers(cx: &Context<'_>) -> Outcome<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    let Outcome { value: questions, mut findings } = questions(cx);
    for question in questions {
        let own = question.name.rsplit('/').next().unwrap_or_default().to_owned();
        match cx.lock.answer(&question.name, &question.from) {
            Some(value) => {
                all.insert(own, value.clone());
            }
            None => {
                let text = format!("nobody has asked yet what {} looks up as `{own}`", cx.me.name);
                let finding = Finding::fatal("lock/unanswered", text).at(&question.origin);
                findings.push(
                    finding
                        .by(&cx.me.name)
                        .help("kaws lock asks, and keeps the answer in kaws.lock"),
                );
            }
        }
    }
    Outcome { value: all, findings }
}
