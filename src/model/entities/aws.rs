//! What AWS is asked for: statements of policies, rules of security groups, resources of stacks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

fn allow() -> String {
    "Allow".to_owned()
}
