//! The `pki:` part of `cluster.yaml`: generations. A higher number has something minted anew, so that
//! rotation is a change that is reviewed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Generations of certificates, authorities and keys. `kaws pki rotate` raises them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "pki")]
pub struct Pki {
    /// Generation of all certificates that an authority signs: a higher one mints them anew.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9999))]
    pub leaves: u32,
    /// Generations of authorities, by name.
    #[serde(default)]
    pub authorities: BTreeMap<String, Generations>,
    /// Generations of keys and tokens, by name: `bootstrap-token`, `encryption`, `service-accounts`.
    #[serde(default)]
    pub keys: BTreeMap<String, Generations>,
}

impl Default for Pki {
    fn default() -> Self {
        Self { leaves: one(), authorities: BTreeMap::new(), keys: BTreeMap::new() }
    }
}

/// Which generation of an authority or key is used, and which are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "generations")]
pub struct Generations {
    /// The generation that signs or encrypts.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9999))]
    pub signs: u32,
    /// The generations that are accepted; by default the one that signs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 9999)))]
    pub trusted: Vec<u32>,
}

impl Default for Generations {
    fn default() -> Self {
        Self { signs: one(), trusted: Vec::new() }
    }
}

impl Generations {
    /// Returns the generations that are accepted, sorted, each once.
    #[must_use]
    pub fn accepted(&self) -> Vec<u32> {
        let mut all = self.trusted.clone();
        if all.is_empty() {
            all.push(self.signs);
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn one() -> u32 {
    1
}
