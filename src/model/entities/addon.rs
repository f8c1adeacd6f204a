//! What is applied to the running cluster: Helm releases and Kubernetes objects.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A Helm release.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a release")]
pub struct Release {
    /// Its chart.
    pub chart: Chart,
    /// Its namespace.
    pub namespace: String,
    /// When it is installed: phases follow each other, and each waits for the one before.
    #[serde(default = "apps")]
    #[schemars(extend("enum" = ["base", "cni", "cloud", "dns", "storage", "identity", "apps"]))]
    pub phase: String,
    /// Releases of the same phase that come first.
    #[serde(default)]
    pub after: Vec<String>,
    /// Its values.
    #[serde(default)]
    pub values: BTreeMap<String, Value>,
    /// Whether it stays when it is no longer rendered.
    #[serde(default)]
    pub keep: bool,
    /// What must be ready before the next one is applied (`daemonset/cilium`); all that it has, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = "^(deployment|daemonset|statefulset)/[a-z0-9.-]+$")))]
    pub wait: Option<Vec<String>>,
}

/// A chart.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a chart")]
pub struct Chart {
    /// Its repository: https://… or oci://….
    #[schemars(regex(pattern = "^(https|oci)://"))]
    pub repository: String,
    /// Its name there.
    pub name: String,
    /// Its version, exactly.
    pub version: String,
}

/// Kubernetes objects.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a manifest")]
pub struct Manifest {
    /// The objects, by a name of your own.
    #[serde(default)]
    pub objects: BTreeMap<String, BTreeMap<String, Value>>,
    /// When they are applied.
    #[serde(default = "apps")]
    #[schemars(extend("enum" = ["base", "cni", "cloud", "dns", "storage", "identity", "apps"]))]
    pub phase: String,
    /// Manifests and releases of the same phase that come first.
    #[serde(default)]
    pub after: Vec<String>,
    /// Whether they stay when they are no longer rendered.
    #[serde(default)]
    pub keep: bool,
}

fn apps() -> String {
    "apps".to_owned()
}
