//! The entities: what can stand at the leaves of the model. Their doc comments are the published
//! schema's descriptions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema::Schema;

/// What an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Configuration of an admission plugin.
    Admission,
    /// Anything.
    Any,
    /// A rule of the audit policy.
    AuditRule,
    /// A certificate authority.
    Authority,
    /// A webhook that authorises requests.
    AuthorizationWebhook,
    /// A certificate.
    Certificate,
    /// A check of the running cluster.
    Check,
    /// A drop-in of a unit.
    DropIn,
    /// Encryption at rest.
    Encryption,
    /// A file.
    File,
    /// A flag's value.
    Flag,
    /// Hops to the metadata service.
    HopLimit,
    /// A folder of the node.
    HostVolume,
    /// An issuer of tokens.
    Jwt,
    /// A setting of the kubelet.
    KubeletSetting,
    /// A managed policy.
    ManagedPolicy,
    /// Kubernetes objects.
    Manifest,
    /// An output of a stack.
    Output,
    /// A parameter of a stack.
    Parameter,
    /// A patch.
    Patch,
    /// Something that is downloaded.
    Pin,
    /// A Helm release.
    Release,
    /// A CloudFormation resource.
    Resource,
    /// A rule of a security group.
    Rule,
    /// A secret's name.
    SecretName,
    /// A statement of a policy.
    Statement,
    /// A step of the deployment.
    Step,
    /// True.
    Switch,
    /// A kernel parameter's value.
    Sysctl,
    /// A taint.
    Taint,
    /// Text.
    Text,
    /// A systemd unit.
    Unit,
}

/// All kinds, in order.
const KINDS: usize = Kind::Unit as usize + 1;
static SCHEMAS: [OnceLock<Schema>; KINDS] = [const { OnceLock::new() }; KINDS];

impl Kind {
    /// Returns the name of its definition in the published schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admission => "Admission",
            Self::Any => "Any",
            Self::AuditRule => "AuditRule",
            Self::Authority => "Authority",
            Self::AuthorizationWebhook => "AuthorizationWebhook",
            Self::Certificate => "Certificate",
            Self::Check => "Check",
            Self::DropIn => "DropIn",
            Self::Encryption => "Encryption",
            Self::File => "File",
            Self::Flag => "Flag",
            Self::HopLimit => "HopLimit",
            Self::HostVolume => "HostVolume",
            Self::Jwt => "Jwt",
            Self::KubeletSetting => "KubeletSetting",
            Self::ManagedPolicy => "ManagedPolicy",
            Self::Manifest => "Manifest",
            Self::Output => "Output",
            Self::Parameter => "Parameter",
            Self::Patch => "Patch",
            Self::Pin => "Pin",
            Self::Release => "Release",
            Self::Resource => "Resource",
            Self::Rule => "Rule",
            Self::SecretName => "SecretName",
            Self::Statement => "Statement",
            Self::Step => "Step",
            Self::Switch => "Switch",
            Self::Sysctl => "Sysctl",
            Self::Taint => "Taint",
            Self::Text => "Text",
            Self::Unit => "Unit",
        }
    }

    /// Returns its JSON Schema.
    #[must_use]
    pub fn schema_value(self) -> Value {
        use crate::schema::of;
        match self {
            Self::Any | Self::KubeletSetting => json!({"title": "a value"}),
            Self::Text => json!({"title": "a text", "type": "string"}),
            Self::Switch => json!({"title": "a switch", "type": "boolean"}),
            Self::HopLimit => {
                json!({"title": "a number of hops", "type": "integer", "minimum": 1, "maximum": 64})
            }
            Self::Flag | Self::Sysctl => {
                json!({"title": "a value", "type": ["string", "integer", "number", "boolean"]})
            }
            Self::Admission => of::<Admission>(),
            Self::AuditRule => of::<AuditRule>(),
            Self::Authority => of::<Authority>(),
            Self::AuthorizationWebhook => of::<AuthorizationWebhook>(),
            Self::Certificate => of::<Certificate>(),
            Self::Check => of::<Check>(),
            Self::DropIn => of::<DropIn>(),
            Self::Encryption => of::<Encryption>(),
            Self::File => of::<File>(),
            Self::HostVolume => of::<HostVolume>(),
            Self::Jwt => of::<Jwt>(),
            Self::ManagedPolicy => {
                json!({"title": "a managed policy", "type": ["string", "object"],
                "description": "Its ARN, or a CloudFormation function or $output that gives it."})
            }
            Self::Manifest => of::<Manifest>(),
            Self::Output => of::<Output>(),
            Self::Parameter => of::<Parameter>(),
            Self::Patch => of::<super::patch::PatchForm>(),
            Self::Pin => of::<Pin>(),
            Self::Release => of::<Release>(),
            Self::Resource => of::<Resource>(),
            Self::Rule => of::<Rule>(),
            Self::SecretName => of::<SecretName>(),
            Self::Statement => of::<Statement>(),
            Self::Step => of::<Step>(),
            Self::Taint => of::<crate::config::Taint>(),
            Self::Unit => of::<Unit>(),
        }
    }

    /// Returns the compiled schema.
    ///
    /// # Panics
    /// Never: a test compiles them all.
    #[must_use]
    pub fn schema(self) -> &'static Schema {
        SCHEMAS[self as usize].get_or_init(|| {
            Schema::compile(&self.schema_value()).expect("a test compiles the schema of every kind")
        })
    }
}

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

/// A statement of an IAM policy, as AWS spells it; its Sid is its key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[schemars(title = "a statement")]
pub struct Statement {
    /// Allow or Deny.
    #[serde(default = "allow")]
    #[schemars(extend("enum" = ["Allow", "Deny"]))]
    pub effect: String,
    /// What may be done: one action or a list.
    #[schemars(extend("type" = ["string", "array"]))]
    pub action: Value,
    /// On what: one resource or a list, ARNs, functions or $output.
    #[schemars(extend("type" = ["string", "array", "object"]))]
    pub resource: Value,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<BTreeMap<String, Value>>,
}

/// A rule of a security group: what may come in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a rule")]
pub struct Rule {
    /// tcp, udp, icmp, or all.
    #[schemars(extend("enum" = ["tcp", "udp", "icmp", "all"]))]
    pub protocol: String,
    /// The port, or the first and last of a range as 30000-32767; none for icmp and all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = ["integer", "string"], "minimum" = 0, "maximum" = 65535, "pattern" = "^[0-9]{1,5}-[0-9]{1,5}$"))]
    pub port: Option<Value>,
    /// Where it comes from.
    pub from: RuleSource,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Where something comes from: one of these.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a rule's source", extend("minProperties" = 1, "maxProperties" = 1))]
pub struct RuleSource {
    /// A network, or a function or $output that gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = ["string", "object"]))]
    pub cidr: Option<Value>,
    /// Another security group: a role, a name, or pool:NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// A prefix list's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_list: Option<String>,
}

/// A CloudFormation resource.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[schemars(title = "a resource")]
pub struct Resource {
    /// Its type.
    #[schemars(regex(
        pattern = "^([A-Za-z0-9]+::[A-Za-z0-9]+::[A-Za-z0-9]+(::MODULE)?|Custom::[A-Za-z0-9_@-]+)$"
    ))]
    pub r#type: String,
    /// Its properties.
    #[serde(default)]
    pub properties: BTreeMap<String, Value>,
    /// Resources of the stack that come first: one or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = ["string", "array"]))]
    pub depends_on: Option<Value>,
    /// The condition under which it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// What creation waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_policy: Option<BTreeMap<String, Value>>,
    /// How updates go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<BTreeMap<String, Value>>,
    /// What happens when it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
    /// What happens to the old one when it is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_replace_policy: Option<String>,
    /// Anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Value>>,
}

/// An output of a stack.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[schemars(title = "an output")]
pub struct Output {
    /// Its value: text or a function.
    #[schemars(extend("type" = ["string", "object"]))]
    pub value: Value,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The condition under which it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The CloudFormation type of parameters that take it, as AWS::EC2::Subnet::Id; String by default.
    #[serde(default, rename = "$type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A parameter of a stack. One with a source is filled in by kaws.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
#[schemars(title = "a parameter", extend("additionalProperties" = true))]
pub struct Parameter {
    /// Its type.
    pub r#type: String,
    /// Where kaws takes its value from: {$output: stack.Name} or {$lock: image/…}.
    #[serde(default, rename = "$source", skip_serializing_if = "Option::is_none")]
    pub source: Option<BTreeMap<String, Value>>,
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
    /// The file to take out of the archive that is downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
}

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

/// A certificate authority. Its key never leaves KMS-encrypted storage, but for those roles named.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an authority")]
pub struct Authority {
    /// Its subject's common name.
    pub common_name: String,
    /// Groups whose nodes may read its key.
    #[serde(default)]
    pub key_roles: Vec<String>,
    /// Groups whose nodes read its certificate.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// A certificate and its key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a certificate")]
pub struct Certificate {
    /// The authority that signs it.
    pub authority: String,
    /// Its subject's common name.
    pub common_name: String,
    /// Its subject's organisations.
    #[serde(default)]
    pub organizations: Vec<String>,
    /// What it is for: server, client or both.
    #[schemars(extend("items" = {"enum": ["server", "client"]}), length(min = 1))]
    pub usages: Vec<String>,
    /// Host names and addresses it is valid for.
    #[serde(default)]
    pub sans: Vec<Value>,
    /// Groups whose nodes read it.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// A secret: its name is its key, and its value is never here.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a secret")]
pub struct SecretName {
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// An issuer of tokens, as `jwt` of Kubernetes' AuthenticationConfiguration spells it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an issuer")]
pub struct Jwt {
    /// url, audiences, certificateAuthority, …
    pub issuer: BTreeMap<String, Value>,
    /// How claims become a user's name and groups.
    pub claim_mappings: BTreeMap<String, Value>,
    /// Rules that claims must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_validation_rules: Option<Vec<BTreeMap<String, Value>>>,
    /// Rules that users must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_validation_rules: Option<Vec<BTreeMap<String, Value>>>,
}

/// A webhook of Kubernetes' AuthorizationConfiguration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an authorization webhook")]
pub struct AuthorizationWebhook {
    /// The fields of `webhook`, as Kubernetes spells them.
    pub webhook: BTreeMap<String, Value>,
    /// Other webhooks that are asked first.
    #[serde(default)]
    pub after: Vec<String>,
}

/// Configuration of an admission plugin.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an admission plugin")]
pub struct Admission {
    /// Its configuration object, with apiVersion and kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<BTreeMap<String, Value>>,
}

/// A rule of Kubernetes' audit policy.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an audit rule")]
pub struct AuditRule {
    /// The rule, as Kubernetes spells it.
    pub rule: BTreeMap<String, Value>,
    /// Rules that come first; those without come by name.
    #[serde(default)]
    pub after: Vec<String>,
}

/// Encryption at rest of some resources.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "encryption")]
pub struct Encryption {
    /// The resources.
    pub resources: Vec<String>,
    /// The providers, the first one encrypts; as Kubernetes spells them.
    pub providers: Vec<BTreeMap<String, Value>>,
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

fn root() -> String {
    "root".to_owned()
}

fn mode_0644() -> String {
    "0644".to_owned()
}

fn allow() -> String {
    "Allow".to_owned()
}

fn apps() -> String {
    "apps".to_owned()
}

fn fatal() -> String {
    "fatal".to_owned()
}

fn directory_or_create() -> String {
    "DirectoryOrCreate".to_owned()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {

    #[test]
    fn the_schema_of_every_kind_compiles_and_has_a_title() {
        for section in super::super::SECTIONS {
            let value = section.kind.schema_value();
            assert!(value["title"].is_string(), "{:?}", section.kind);
            assert!(section.kind.schema().value().is_object());
        }
    }
}
