//! What nodes carry: files, units, what they download, and what their pods see of the host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file on a node. Its bytes are one of `content`, `base64` and `pin`; declared plugins may also name one of their own files or templates.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a file")]
pub struct File {
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Its bytes in Base64, where they are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// A pin of the plugin's manifest: the node downloads it and checks its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// The file to take out of the archive that the pin is, by its name without folders; by default the pin's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// A file in the plugin's files/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A template in the plugin's templates/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Owner and group.
    #[serde(default = "root")]
    #[schemars(regex(pattern = "^[a-z_][a-z0-9_-]*(:[a-z_][a-z0-9_-]*)?$"))]
    pub owner: String,
    /// Permissions, four octal digits in quotes.
    #[serde(default = "mode_0644")]
    #[schemars(regex(pattern = "^0[0-7]{3}$"))]
    pub mode: String,
    /// Whether the node fills in @{secret …}, @{output …}, @{node …} and @{pki …}; set by kaws.
    #[serde(default)]
    pub fill: bool,
}

/// A systemd unit. Declared plugins may name a template or file in place of the content.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a unit")]
pub struct Unit {
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A file in the plugin's files/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A template in the plugin's templates/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Whether it starts with the machine.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether a node on which it does not run counts as failed.
    #[serde(default)]
    pub required: bool,
    /// Whether the node fills in @{…}; set by kaws.
    #[serde(default)]
    pub fill: bool,
}

/// A drop-in of a unit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a drop-in")]
pub struct DropIn {
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A template in the plugin's templates/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// A file in the plugin's files/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether the node fills in @{…}; set by kaws.
    #[serde(default)]
    pub fill: bool,
}

/// A folder or file of the node that a control-plane pod sees.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a volume")]
pub struct HostVolume {
    /// Its path on the node.
    pub path: String,
    /// Its path in the pod; the same by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
    /// Whether the pod may only read it.
    #[serde(default = "yes")]
    pub read_only: bool,
    /// Kubernetes' hostPath type.
    #[serde(default = "directory_or_create", rename = "type")]
    pub kind: String,
}

/// Something that nodes download, by version and architecture; kaws.lock holds its hashes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a pin")]
pub struct Pin {
    /// Its version, which is part of its name in kaws.lock.
    pub version: String,
    /// Where it is downloaded from, by architecture.
    pub url: BTreeMap<String, String>,
    /// The file to take out of the archive that is downloaded, by its name without folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
}

fn root() -> String {
    "root".to_owned()
}

fn mode_0644() -> String {
    "0644".to_owned()
}

fn directory_or_create() -> String {
    "DirectoryOrCreate".to_owned()
}

fn yes() -> bool {
    true
}
