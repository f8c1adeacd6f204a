//! What a program answers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::{Content, VERSION};

/// What a program answers: a part of the model, files, findings, or the value of a lookup.
///
/// ```
/// use kaws_sdk::{Response, json};
///
/// let mut response = Response::new();
/// response.put(["kubelet", "nodes", "labels", "example.org/greets"], "yes");
/// response.artifact("hello.txt", "Hello\n");
/// response.warning("silent", "The greeting is empty.").help("set settings.text");
/// assert_eq!(response.contribution["kubelet"]["nodes"]["labels"], json!({"example.org/greets": "yes"}));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Response {
    /// Files below `rendered/`, by path; only render may make some.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, Content>,
    /// A part of the model; in initialise and render.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub contribution: Value,
    /// What there is to say about the user's cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The answer to a lookup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Whether a finding stops the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It does.
    Fatal,
    /// It does not.
    Warning,
}

/// Something to say about the user's cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether the run stops.
    pub severity: Severity,
    /// Its name: users see `PLUGIN/CODE`.
    pub code: String,
    /// What is so, in a sentence.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// What it is about, as `settings.text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl Finding {
    /// Says what to do about it.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Says what it is about: `settings.text`, `cluster.network.zones`, or a path of the model.
    pub fn at(&mut self, at: impl Into<String>) -> &mut Self {
        self.at = Some(at.into());
        self
    }
}

impl Response {
    /// Returns a response that adds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to the contribution what stands at `path`.
    ///
    /// Maps merge; of anything else, what is put last counts. A whole contribution can also be assigned to
    /// [`Response::contribution`].
    pub fn put<S: Into<String>>(
        &mut self,
        path: impl IntoIterator<Item = S>,
        value: impl Into<Value>,
    ) -> &mut Self {
        let path: Vec<String> = path.into_iter().map(Into::into).collect();
        let part = path.into_iter().rev().fold(value.into(), |part, segment| {
            Value::Object([(segment, part)].into_iter().collect())
        });
        merge(&mut self.contribution, part);
        self
    }

    /// Adds a file below `rendered/`; only render may.
    pub fn artifact(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> &mut Self {
        self.artifacts.insert(path.into(), Content(content.into()));
        self
    }

    /// Adds a finding, and returns it for more to be said.
    pub fn warning(&mut self, code: impl Into<String>, message: impl Into<String>) -> &mut Finding {
        self.found(Severity::Warning, code.into(), message.into())
    }

    /// Adds a finding that stops the run, and returns it for more to be said.
    pub fn fatal(&mut self, code: impl Into<String>, message: impl Into<String>) -> &mut Finding {
        self.found(Severity::Fatal, code.into(), message.into())
    }

    fn found(&mut self, severity: Severity, code: String, message: String) -> &mut Finding {
        self.findings.push(Finding { severity, code, message, help: None, at: None });
        self.findings.last_mut().expect("it was just pushed")
    }

    /// Returns the JSON document, with its keys sorted.
    pub(crate) fn document(&self) -> serde_json::Result<Value> {
        let mut document = serde_json::to_value(self)?;
        merge(&mut document, json!({"apiVersion": VERSION}));
        Ok(document)
    }
}

fn merge(old: &mut Value, part: Value) {
    match (old, part) {
        (Value::Object(old), Value::Object(part)) => {
            for (key, value) in part {
                merge(old.entry(key).or_insert(Value::Null), value);
            }
        }
        (old, part) => *old = part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_merge_and_of_anything_else_the_last_counts() {
        let mut response = Response::new();
        response.put(["a"], json!({"b": 1, "c": [1]})).put(["a", "c"], json!([2]));
        response.put(["a"], json!({"d": 3, "e": null})).put(["a", "b", "f"], 4);
        let expected = json!({"a": {"b": {"f": 4}, "c": [2], "d": 3, "e": null}});
        assert_eq!(response.contribution, expected);
    }

    #[test]
    fn only_what_was_said_stands_in_the_document() {
        assert_eq!(Response::new().document().unwrap(), json!({"apiVersion": "kaws/v1"}));
        let mut response = Response { value: Some(json!(false)), ..Response::default() };
        response.artifact("x", "y").fatal("loud", "Too much.").at("settings.text");
        let fatal = json!({
            "severity": "fatal", "code": "loud", "message": "Too much.", "at": "settings.text"
        });
        let expected = json!({
            "apiVersion": "kaws/v1", "artifacts": {"x": "y"}, "findings": [fatal], "value": false
        });
        assert_eq!(response.document().unwrap(), expected);
    }
}
