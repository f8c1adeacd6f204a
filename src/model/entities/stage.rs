//! What the stages deploy and validate do: steps and checks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A step of the deployment: exactly one action, and its place among the others.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a step")]
pub struct Step {
    /// Waits for a condition, as a check spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<BTreeMap<String, Value>>,
    /// Sends an HTTP request: url, method, body, expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<BTreeMap<String, Value>>,
    /// Runs a program of the plugin's, as its stages have one: it is told what stacks have put out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<Value>,
    /// Steps that come first: stack:NAME, assets, pki, addons, or another step.
    #[serde(default)]
    pub after: Vec<String>,
    /// Steps that come later.
    #[serde(default)]
    pub before: Vec<String>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[1-9][0-9]{0,5}[smhd]$"))]
    pub within: Option<String>,
}

/// A check of the running cluster: exactly one thing to look at.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a check")]
pub struct Check {
    /// A Kubernetes object and its condition: kind, namespace, name, condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<BTreeMap<String, Value>>,
    /// An HTTP endpoint that answers: url, expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<BTreeMap<String, Value>>,
    /// A Helm release that is deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// A service with addresses that are ready: namespace, name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<BTreeMap<String, Value>>,
    /// A program of the plugin's, as its stages have one: what it finds is what does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<Value>,
    /// A systemd unit that runs on every node that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How long it may take until it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[1-9][0-9]{0,5}[smhd]$"))]
    pub within: Option<String>,
    /// What it means when it does not hold.
    #[serde(default = "fatal")]
    #[schemars(extend("enum" = ["fatal", "warning"]))]
    pub severity: String,
}

fn fatal() -> String {
    "fatal".to_owned()
}
