//! What the API server's configuration files list, each entry as Kubernetes spells it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
