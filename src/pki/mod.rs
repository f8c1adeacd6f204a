//! What deploy mints: requests for authorities, certificates and keys, and where each lies as an object.
//!
//! A request says everything that its outcome depends on, and the names of its objects are made of it: what
//! was minted for another generation, or for other names, is another object and stays readable to machines
//! that were told of it. Not here: minting (`deploy`), and who asks for what (`plugins/pki`).

mod files;

pub use files::{File, Part, files, matches, role_prefix};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Cluster, Generations};
use crate::model::{Authority, Certificate, Key, KeyKind, Model};
use crate::value::{Node, sha256};

/// Everything that deploy mints for a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requests {
    /// Authorities, by name.
    pub authorities: BTreeMap<String, AuthorityRequest>,
    /// Certificates, by name.
    pub certificates: BTreeMap<String, CertificateRequest>,
    /// Keys and tokens, by name.
    pub keys: BTreeMap<String, KeyRequest>,
}

/// An authority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityRequest {
    /// Its subject's common name.
    pub common_name: String,
    /// Roles whose machines read its key.
    pub key_roles: Vec<String>,
    /// Roles whose machines read its certificate.
    pub roles: Vec<String>,
    /// The generation that signs.
    pub signs: u32,
    /// The generations that are trusted, sorted.
    pub trusted: Vec<u32>,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRequest {
    /// The authority that signs it.
    pub authority: String,
    /// Its subject's common name.
    pub common_name: String,
    /// How many days it is valid.
    pub days: u32,
    /// Its subject's organisations.
    pub organizations: Vec<String>,
    /// Roles whose machines read it.
    pub roles: Vec<String>,
    /// Names and addresses: texts, or outputs of stacks.
    pub sans: Vec<Value>,
    /// `server`, `client`.
    pub usages: Vec<String>,
    /// Its generation, and what it was asked for in short: a part of its objects' names.
    pub version: String,
}

/// A key or token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRequest {
    /// What it is.
    pub kind: KeyKind,
    /// Roles whose machines read it.
    pub roles: Vec<String>,
    /// The generation that is used.
    pub signs: u32,
    /// The generations that are accepted, sorted.
    pub trusted: Vec<u32>,
}

impl Requests {
    /// Returns what the model asks for, in the generations that `cluster.yaml` says.
    #[must_use]
    pub fn of(model: &Model, config: &Cluster) -> Self {
        let generations = |of: &BTreeMap<String, Generations>, name: &str| {
            let found = of.get(name).cloned().unwrap_or_default();
            (found.signs, found.accepted())
        };
        let authorities: BTreeMap<String, AuthorityRequest> = asked(model, "authorities")
            .map(|(name, form): (String, Authority)| {
                let (signs, trusted) = generations(&config.pki.authorities, &name);
                let Authority { common_name, key_roles, roles } = form;
                (name, AuthorityRequest { common_name, key_roles, roles, signs, trusted })
            })
            .collect();
        let certificates = asked(model, "certificates")
            .map(|(name, form): (String, Certificate)| {
                let signs = authorities.get(&form.authority).map_or(1, |a| a.signs);
                (name, certificate(form, signs, config.pki.leaves))
            })
            .collect();
        let keys = asked(model, "keys")
            .map(|(name, Key { kind, roles }): (String, Key)| {
                let (signs, trusted) = generations(&config.pki.keys, &name);
                (name, KeyRequest { kind, roles, signs, trusted })
            })
            .collect();
        Self { authorities, certificates, keys }
    }

    /// Returns the stacks whose outputs stand in certificates.
    #[must_use]
    pub fn stacks(&self) -> Vec<&str> {
        let sans = self.certificates.values().flat_map(|c| &c.sans);
        let mut all: Vec<&str> =
            sans.filter_map(|san| output(san)?.split_once('.').map(|(stack, _)| stack)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Returns the output that a name is taken from: `network.ApiDnsName`.
#[must_use]
pub fn output(san: &Value) -> Option<&str> {
    san.get("$output")?.as_str()
}

/// Names of one kind that the model asks for, read.
fn asked<'m, T: serde::de::DeserializeOwned>(
    model: &'m Model,
    part: &'m str,
) -> impl Iterator<Item = (String, T)> {
    model.entities(&["pki", part]).filter_map(|(name, entity)| {
        // The entity's schema has checked it.
        Some((name.to_owned(), serde_json::from_value(Node::to_value(&entity.body)).ok()?))
    })
}

fn certificate(form: Certificate, authority_signs: u32, leaves: u32) -> CertificateRequest {
    let Certificate { authority, common_name, days, organizations, usages, sans, roles } = form;
    let mut made = CertificateRequest {
        authority,
        common_name,
        days,
        organizations,
        roles,
        sans,
        usages,
        version: String::new(),
    };
    // Who reads it changes nothing in it.
    let mut of = serde_json::to_value(&made).unwrap_or_default();
    if let Some(map) = of.as_object_mut() {
        map.remove("roles");
        map.insert("authoritySigns".to_owned(), authority_signs.into());
    }
    let short = &sha256(of.to_string().as_bytes())[..8];
    made.version = format!("{leaves}-{short}");
    made
}
