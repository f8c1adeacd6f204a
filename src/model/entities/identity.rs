//! What proves who somebody is: authorities, certificates, and the names of secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// How many days it is valid.
    #[serde(default = "days")]
    #[schemars(range(min = 1, max = 3650))]
    pub days: u32,
    /// Its subject's organisations.
    #[serde(default)]
    pub organizations: Vec<String>,
    /// What it is for: server, client or both.
    #[schemars(extend("items" = {"enum": ["server", "client"]}), length(min = 1))]
    pub usages: Vec<String>,
    /// Host names and addresses it is valid for.
    #[serde(default)]
    pub sans: Vec<Value>,
    /// Roles whose nodes read it; `operator` is for people, and `kaws kubeconfig` reads it.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// A key or token that no authority signs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a key")]
pub struct Key {
    /// rsa: a pair that signs; secretbox: 32 bytes that encrypt; token: what a new node shows.
    pub kind: KeyKind,
    /// Roles whose nodes read it.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum KeyKind {
    /// An RSA pair of 2048 bits.
    Rsa,
    /// 32 bytes, in Base64.
    Secretbox,
    /// A bootstrap token, `[a-z0-9]{6}.[a-z0-9]{16}`.
    Token,
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

/// The longest that browsers and Apple's systems accept of a server's certificate.
fn days() -> u32 {
    398
}
