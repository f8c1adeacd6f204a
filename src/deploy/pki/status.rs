//! What has been minted, and until when it is valid: public facts alone.

use serde::Serialize;

use super::super::error::Error;
use super::super::tree::Tree;
use super::{Said, facts_key};
use crate::port::Cloud;

/// All certificates of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct PkiStatus {
    /// One row for each, authorities first.
    pub rows: Vec<Row>,
}

/// One certificate.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its generation: `2`, `1-3f09c2aa`.
    pub generation: String,
    /// Whether an authority signs with it; other generations are only trusted.
    pub signs: Option<bool>,
    /// What it says, once it has been minted.
    pub said: Option<Said>,
}

/// Returns what has been minted of what the cluster asks for.
///
/// # Errors
/// The cloud's.
pub async fn pki_status(cloud: &dyn Cloud, tree: &Tree) -> Result<PkiStatus, Error> {
    let mut rows = Vec::new();
    for (name, authority) in &tree.pki.authorities {
        for generation in &authority.trusted {
            let signs = Some(*generation == authority.signs);
            rows.push((name, generation.to_string(), signs));
        }
    }
    for (name, certificate) in &tree.pki.certificates {
        rows.push((name, certificate.version.clone(), None));
    }
    let mut all = Vec::new();
    for (name, generation, signs) in rows {
        let key = facts_key(&format!("{name}.{generation}"));
        let object = match cloud.get(&tree.cluster.bucket, &key).await {
            Err(error) if error.is_not_found() => None,
            other => other?,
        };
        let said = object.and_then(|o| serde_json::from_slice(&o.bytes).ok());
        all.push(Row { name: name.clone(), generation, signs, said });
    }
    Ok(PkiStatus { rows: all })
}
