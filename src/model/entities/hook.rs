//! Hooks: what runs on machines before and after they start, and where kaws runs before and after it changes a cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Events of machines, in the order they happen.
pub const NODE_EVENTS: [&str; 2] = ["before-node-start", "after-node-start"];
/// Events of clusters, in the order they happen.
pub const HOST_EVENTS: [&str; 8] = [
    "before-deploy",
    "before-create",
    "before-update",
    "after-create",
    "after-update",
    "after-deploy",
    "before-delete",
    "after-delete",
];

/// Whether a hook is waited for, and whether its failure counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Behavior {
    /// Waited for; where it fails, the machine or the command fails.
    #[default]
    SyncEnforce,
    /// Waited for; a failure is said, and no more.
    SyncBypass,
    /// Begun, and waited for before the machine counts as healthy; where it fails, the machine fails.
    AsyncEnforce,
    /// Begun, and left alone.
    AsyncBypass,
}

/// Whether the failure of a hook counts where kaws runs: nobody would be there to hear how one ended that is not waited
/// for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum HostBehavior {
    /// Where it fails, the command fails.
    #[default]
    SyncEnforce,
    /// A failure is said, and no more.
    SyncBypass,
}

impl Behavior {
    /// Returns whether what comes next waits.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, Self::SyncEnforce | Self::SyncBypass)
    }

    /// Returns whether a failure counts.
    #[must_use]
    pub fn enforces(self) -> bool {
        matches!(self, Self::SyncEnforce | Self::AsyncEnforce)
    }
}

/// A hook of machines: a unit that kaws makes. It runs each time the machine starts. What it runs is one of `command`,
/// `script`, `content`, `container`; declared plugins may also name one of their own files or templates.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a hook of machines")]
pub struct NodeHook {
    /// Whether it is waited for, and whether its failure counts.
    #[serde(default)]
    pub behavior: Behavior,
    /// A line for the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A script: ./FILE of the plugin's folder; or /PATH, s3://…, https://… or git+https://…@REV//FILE, which kaws lock
    /// fetches into kaws.lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The hash that a script from elsewhere must have when it is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: Option<String>,
    /// The script itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A file in the plugin's files/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A template in the plugin's templates/ (declared plugins).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// A container, on machines with a kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<HookContainer>,
    /// The machines: etcd, controller, worker, pool:NAME; by default those the plugin is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// How long it may take.
    #[serde(default = "five_minutes")]
    #[schemars(regex(pattern = "^[1-9][0-9]{0,4}(s|m|h)$"))]
    pub timeout: String,
    /// Whether it runs once in a machine's life, and not each time it starts.
    #[serde(default)]
    pub once: bool,
    /// Whether the node fills in @{…}; set by kaws.
    #[serde(default)]
    pub fill: bool,
}

/// A container that a hook runs: with the machine's network, and the machine's files under /host.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a hook's container")]
pub struct HookContainer {
    /// The image, by its digest: NAME@sha256:….
    #[schemars(regex(pattern = "^[a-z0-9][a-zA-Z0-9./_:-]*@sha256:[0-9a-f]{64}$"))]
    pub image: String,
    /// The program in it and its arguments; by default the image's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// A hook where kaws runs: before and after it creates, updates, deploys or deletes a cluster. What it runs is one of
/// `command`, `script`, `exec`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a hook where kaws runs")]
pub struct HostHook {
    /// Whether its failure counts; it is always waited for.
    #[serde(default)]
    pub behavior: HostBehavior,
    /// A line for the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A script: ./FILE of the plugin's folder; or /PATH, s3://…, https://… or git+https://…@REV//FILE, which kaws lock
    /// fetches into kaws.lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The hash that a script from elsewhere must have when it is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: Option<String>,
    /// The script itself; set by kaws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A program of the plugin's, as its stages have one: it is told the event, and what deploying learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub exec: Option<serde_json::Value>,
    /// How long it may take.
    #[serde(default = "five_minutes")]
    #[schemars(regex(pattern = "^[1-9][0-9]{0,4}(s|m|h)$"))]
    pub timeout: String,
}

fn five_minutes() -> String {
    "5m".to_owned()
}
