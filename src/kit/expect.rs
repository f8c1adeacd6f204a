//! What a case says must be so, in place of all that is so.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::{Findings, findings_text};
use crate::run::Run;
use crate::value::{Node, Path};

/// What must be so.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "what is expected")]
pub struct Expect {
    /// Values in the model after render, by path; null where nothing may be.
    pub model: BTreeMap<String, Value>,
    /// Texts of files below rendered/, by path.
    pub files: BTreeMap<String, String>,
    /// Codes of findings: just these, each once, but for what kaws.lock lacks.
    pub findings: Option<Vec<String>>,
}

impl Expect {
    /// Returns what is not so.
    pub(super) fn differs(&self, run: Option<&Run>, findings: &Findings) -> Option<String> {
        let mut wrong = Vec::new();
        if let Some(expected) = &self.findings {
            let mut codes: Vec<&str> = findings.iter().map(|f| f.code.as_str()).collect();
            codes.retain(|code| *code != "lock/unresolved");
            codes.sort_unstable();
            codes.dedup();
            let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            expected.sort_unstable();
            if codes != expected {
                wrong.push(format!("findings\n- {}\n+ {}", expected.join(", "), codes.join(", ")));
            }
        }
        match run {
            // What stands in the way is more use than that nothing is there.
            None if !wrong.is_empty() || !self.model.is_empty() || !self.files.is_empty() => {
                let text = findings_text(findings, false);
                wrong.push(format!("nothing was rendered:\n{}", text.trim_end()));
            }
            None => {}
            Some(run) => wrong.extend(self.values(run)),
        }
        (!wrong.is_empty()).then(|| wrong.join("\n\n"))
    }

    fn values(&self, run: &Run) -> Vec<String> {
        let mut wrong = Vec::new();
        let model = run.rendered.model.to_node();
        for (path, expected) in &self.model {
            let found = match Path::parse(path) {
                Ok(parsed) => model.at(&parsed.0).map_or(Value::Null, Node::to_value),
                Err(error) => {
                    wrong.push(error.to_string());
                    continue;
                }
            };
            if found != *expected {
                wrong.push(format!("{path}\n- {expected}\n+ {found}"));
            }
        }
        for (path, expected) in &self.files {
            let found = run.rendered.artifacts.get(path);
            let text = found.map(|artifact| String::from_utf8_lossy(&artifact.bytes).into_owned());
            match text {
                None => wrong.push(format!("there is no file {path}")),
                Some(text) if text != *expected => {
                    wrong.push(format!("{path}\n{}", super::diff::lines(expected, &text)));
                }
                Some(_) => {}
            }
        }
        wrong
    }
}
