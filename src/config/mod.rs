//! `cluster.yaml`, typed: the facts that every plugin needs. The doc comments here are what users read:
//! the schema, the reference page and the editor's hints are made of them.
//!
//! Not here: reading files (`load`), settings of plugins (`plugin`), and checks across settings
//! (`config::check`).

mod check;
mod groups;
mod network;
mod nodes;
mod pki;
mod units;

pub use check::{check, secrets_in};
pub use groups::{Arch, Group, Role, groups, instance_arch};
pub use network::{Api, ApiScheme, IpFamily, Nat, Network, PrivateZone, Subnet, Subnets, Vpc};
pub use nodes::{
    Backup, ControlPlane, Effect, Etcd, Image, NodePool, Os, PoolSize, Restore, Roll, RollBy, Spot,
    SpotStrategy, Taint, Volume, VolumeType,
};
pub use pki::{Generations, Pki};
pub use units::{Duration, Size};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format of `cluster.yaml` and `plugin.yaml`.
pub const API_VERSION: &str = "kaws/v1";

/// What is about plugins, and no fact of the cluster: templates and programs do not see it.
const HIDDEN: [&str; 7] =
    ["plugins", "prefer", "customise", "accept", "extends", "pluginDirs", "signatures"];

/// A cluster: the whole of `cluster.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "cluster.yaml")]
pub struct Cluster {
    /// Version of this file's format: `kaws/v1`.
    #[schemars(extend("const" = "kaws/v1"))]
    pub api_version: String,
    /// Another cluster file to build on. Maps merge, lists replace, null removes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// Name of the cluster. Stacks, tags and DNS names are made of it; it cannot change later.
    #[schemars(regex(pattern = "^[a-z]([a-z0-9-]*[a-z0-9])?$"), length(max = 28))]
    pub name: String,
    /// The AWS account, in quotes. No other account is ever touched.
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub account: String,
    /// The AWS region.
    #[schemars(regex(pattern = "^[a-z]{2}(-[a-z]+)+-[0-9]$"))]
    pub region: String,
    /// Partition of AWS: by default the one the region lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Release of Kubernetes, from 1.34 to 1.37.
    #[serde(default = "default_kubernetes_version")]
    #[schemars(regex(pattern = "^1\\.[0-9]+\\.[0-9]+$"))]
    pub kubernetes_version: String,
    /// Addresses, zones and ways out.
    pub network: Network,
    /// How people and nodes reach the API server.
    #[serde(default)]
    pub api: Api,
    /// The machines that keep the cluster's state.
    #[serde(default)]
    pub etcd: Etcd,
    /// The machines that run the control plane.
    #[serde(default)]
    pub control_plane: ControlPlane,
    /// Groups of workers, by name.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$", "maxLength": 32}))]
    pub node_pools: BTreeMap<String, NodePool>,
    /// Rules of your account for roles.
    #[serde(default)]
    pub iam: Iam,
    /// Generations of certificates and keys: raising one rotates what it is of.
    #[serde(default)]
    pub pki: Pki,
    /// Where nodes fetch binaries from.
    #[serde(default)]
    pub assets: Assets,
    /// Tags of every resource that can have tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Plugins by name: what is listed is on, unless it says `enabled: false`.
    #[serde(default)]
    pub plugins: BTreeMap<String, PluginUse>,
    /// Who may sign plugins that are installed.
    #[serde(default)]
    pub signatures: Signatures,
    /// Further folders that hold plugins, beside `plugins/`.
    #[serde(default)]
    pub plugin_dirs: Vec<String>,
    /// Whose value is right where plugins disagree: the shape of the model, a plugin's name as leaf.
    #[serde(default)]
    pub prefer: BTreeMap<String, Value>,
    /// A contribution of your own, in the same shape as a plugin's, and patches.
    #[serde(default)]
    pub customise: BTreeMap<String, Value>,
    /// Warnings to silence, and secret-looking values to allow: code or path, with the reason.
    #[serde(default)]
    pub accept: BTreeMap<String, String>,
}

/// Signatures of the archives that plugins come in.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "signatures")]
pub struct Signatures {
    /// Public keys of minisign, by a name of yours for who has the other half.
    #[schemars(extend("additionalProperties" = {"type": "string", "pattern": "^RW[A-Za-z0-9+/]{54}$"}))]
    pub keys: BTreeMap<String, String>,
    /// Whether a plugin that is not signed is refused: by default where there are keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl Signatures {
    /// Returns whether what is not signed is refused.
    #[must_use]
    pub fn required(&self) -> bool {
        self.required.unwrap_or(!self.keys.is_empty())
    }
}

/// A partition of AWS.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::AsRefStr,
)]
#[schemars(inline)]
pub enum Partition {
    /// The commercial regions.
    #[serde(rename = "aws")]
    #[strum(serialize = "aws")]
    Aws,
    /// China.
    #[serde(rename = "aws-cn")]
    #[strum(serialize = "aws-cn")]
    China,
    /// GovCloud (US).
    #[serde(rename = "aws-us-gov")]
    #[strum(serialize = "aws-us-gov")]
    GovCloud,
}

impl Partition {
    /// Returns the partition a region lies in, by its name.
    #[must_use]
    pub fn of_region(region: &str) -> Self {
        match region.split('-').collect::<Vec<_>>().as_slice() {
            ["cn", ..] => Self::China,
            [_, "gov", ..] => Self::GovCloud,
            _ => Self::Aws,
        }
    }

    /// Returns the end of the services' host names.
    #[must_use]
    pub fn dns_suffix(self) -> &'static str {
        if self == Self::China { "amazonaws.com.cn" } else { "amazonaws.com" }
    }
}

/// Rules of your account for roles.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "iam")]
pub struct Iam {
    /// ARN of the policy that bounds every role kaws creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/.+$"))]
    pub permissions_boundary: Option<String>,
    /// Path of every role and instance profile kaws creates.
    #[serde(default = "default_iam_path")]
    #[schemars(regex(pattern = "^/([A-Za-z0-9._-]+/)*$"))]
    pub path: String,
    /// Put before the names of roles and instance profiles. With it they have names of their own; without it CloudFormation names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,16}$"))]
    pub prefix: Option<String>,
    /// Existing instance profiles by group (`etcd`, `controller`, `worker`, `pool:NAME`), for accounts in which kaws may create no roles.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": "^(etcd|controller|worker|pool:[a-z0-9-]+)$"}))]
    pub instance_profiles: BTreeMap<String, String>,
}

impl Default for Iam {
    fn default() -> Self {
        Self {
            permissions_boundary: None,
            path: default_iam_path(),
            prefix: None,
            instance_profiles: BTreeMap::new(),
        }
    }
}

/// Where nodes fetch binaries from.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "assets")]
pub struct Assets {
    /// Put in place of `https://HOST` of every download: a mirror for places without internet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^https://[^/]+(/[^/]+)*$"))]
    pub mirror: Option<String>,
}

/// One plugin as `cluster.yaml` uses it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a plugin")]
pub struct PluginUse {
    /// Whether it is on.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The plugin to use, where this is a second instance of it under another name.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// The pools it is on, and no other group; by default wherever its manifest says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pools: Option<Vec<String>>,
    /// The roles it is on; with `nodePools` both count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<Role>>,
    /// What the plugin lets you set: `kaws plugin info NAME`.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
}

/// One plugin as one pool uses it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a pool's plugin")]
pub struct PoolPlugin {
    /// Settings of this pool; each replaces the cluster's of the same name.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
}

impl Cluster {
    /// Returns the JSON Schema of `cluster.yaml`, before plugins' settings are composed into it.
    #[must_use]
    pub fn schema() -> Value {
        crate::schema::of::<Self>()
    }

    /// Returns the partition: the one written, or the region's.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition.unwrap_or_else(|| Partition::of_region(&self.region))
    }

    /// Returns the minor of the Kubernetes release: 36 of 1.36.3.
    #[must_use]
    pub fn kubernetes_minor(&self) -> u32 {
        self.kubernetes_version.split('.').nth(1).and_then(|m| m.parse().ok()).unwrap_or(0)
    }

    /// Returns the name of the bucket that holds bundles, charts and reports.
    #[must_use]
    pub fn bucket(&self) -> String {
        format!("kaws-{}-{}-{}", self.account, self.region, self.name)
    }

    /// Returns the name of the bucket that holds the public documents of the issuer of service accounts.
    #[must_use]
    pub fn issuer_bucket(&self) -> String {
        format!("{}-oidc", self.bucket())
    }

    /// Returns the URL of the issuer of service accounts' tokens.
    #[must_use]
    pub fn issuer(&self) -> String {
        let suffix = self.partition().dns_suffix();
        format!("https://{}.s3.{}.{suffix}", self.issuer_bucket(), self.region)
    }

    /// Returns the name of the private DNS zone.
    #[must_use]
    pub fn private_zone(&self) -> String {
        self.network.private_zone.name.clone().unwrap_or_else(|| format!("{}.internal", self.name))
    }

    /// Returns the config as templates see it: this, and what follows from it.
    #[must_use]
    pub fn facts(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        let plain = |text: &str| Value::String(text.to_owned());
        let derived = [
            ("partition", plain(self.partition().as_ref())),
            ("dnsSuffix", plain(self.partition().dns_suffix())),
            ("bucket", plain(&self.bucket())),
            ("issuerBucket", plain(&self.issuer_bucket())),
            ("issuer", plain(&self.issuer())),
            ("privateZone", plain(&self.private_zone())),
            ("kubernetesMinor", Value::from(self.kubernetes_minor())),
            ("dnsServiceIP", plain(&network::host(&self.network.service_cidr, 10))),
            ("endpoint", plain(&self.endpoint())),
            ("bootstrapTokens", self.bootstrap_tokens().into()),
        ];
        let peers: serde_json::Map<String, Value> = (0..self.etcd.members)
            .map(|i| (format!("etcd-{i}"), plain(&format!("https://{}:2380", self.etcd_host(i)))))
            .collect();
        let endpoints: Vec<Value> = (0..self.etcd.members)
            .map(|i| plain(&format!("https://{}:2379", self.etcd_host(i))))
            .collect();
        if let Some(map) = value.as_object_mut() {
            map.insert("etcdPeers".to_owned(), Value::Object(peers));
            map.insert("etcdEndpoints".to_owned(), Value::Array(endpoints));
            for key in HIDDEN {
                map.remove(key);
            }
            map.extend(derived.into_iter().map(|(k, v)| (k.to_owned(), v)));
        }
        value
    }

    /// Returns the schema of [`Cluster::facts`], against which templates are checked.
    #[must_use]
    pub fn facts_schema() -> Value {
        let mut schema = Self::schema();
        let text =
            |description: &str| serde_json::json!({"type": "string", "description": description});
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for key in HIDDEN {
                properties.remove(key);
            }
            let derived = [
                ("partition", text("Partition of AWS.")),
                ("dnsSuffix", text("End of the services' host names.")),
                ("bucket", text("Name of the state bucket.")),
                ("issuerBucket", text("Name of the bucket of the service accounts' issuer.")),
                ("issuer", text("URL of the service accounts' issuer.")),
                ("privateZone", text("Name of the private DNS zone.")),
                (
                    "kubernetesMinor",
                    serde_json::json!({"type": "integer", "description": "Minor of the Kubernetes release: 36."}),
                ),
                ("dnsServiceIP", text("Address of the cluster's DNS service.")),
                ("endpoint", text("Host name at which nodes reach the API server.")),
                (
                    "bootstrapTokens",
                    serde_json::json!({"type": "array", "items": {"type": "integer"}, "description": "Generations of bootstrap tokens that are accepted."}),
                ),
                (
                    "etcdPeers",
                    serde_json::json!({"type": "object", "additionalProperties": {"type": "string"}, "description": "URLs of etcd's members for each other, by name."}),
                ),
                (
                    "etcdEndpoints",
                    serde_json::json!({"type": "array", "items": {"type": "string"}, "description": "URLs of etcd's members for clients."}),
                ),
            ];
            properties.extend(derived.into_iter().map(|(k, v)| (k.to_owned(), v)));
        }
        schema
    }

    /// Returns the host name of a member of etcd.
    #[must_use]
    pub fn etcd_host(&self, member: u32) -> String {
        format!("etcd-{member}.{}", self.private_zone())
    }

    /// Returns the host name at which people reach the API server: their own domain, where there is one.
    #[must_use]
    pub fn api_host(&self) -> String {
        self.api.domain.clone().unwrap_or_else(|| self.endpoint())
    }

    /// Returns the generations of bootstrap tokens that are accepted.
    #[must_use]
    pub fn bootstrap_tokens(&self) -> Vec<u32> {
        self.pki.keys.get("bootstrap-token").cloned().unwrap_or_default().accepted()
    }

    /// Returns the host name at which nodes reach the API server.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("api.{}", self.private_zone())
    }
}

fn default_kubernetes_version() -> String {
    "1.36.3".to_owned()
}

fn default_iam_path() -> String {
    "/".to_owned()
}

fn yes() -> bool {
    true
}
