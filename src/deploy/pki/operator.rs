//! What a person needs to reach the cluster: a certificate of their own prefix, and the authority's.

use super::super::error::Error;
use super::super::tree::Tree;
use crate::pki::{File, files, role_prefix};
use crate::port::Cloud;

/// The role that stands for people.
pub(super) const ROLE: &str = "operator";

/// What a kubeconfig is made of, as PEM.
pub struct Access {
    /// The authority that the API server's certificate is of.
    pub authority: String,
    /// The person's certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// Reads what `kaws kubeconfig` writes; needs the right to read `pki/operator/` and no other.
///
/// # Errors
/// The cloud's, and what has not been minted.
pub async fn access(cloud: &dyn Cloud, tree: &Tree) -> Result<Access, Error> {
    let all = files(&tree.pki);
    let read = async |name: &str| -> Result<String, Error> {
        let missing = || Error::NotMinted(name.to_owned());
        let file: &File = all.get(name).ok_or_else(missing)?;
        let key = format!("{}{}", role_prefix(ROLE), file.object);
        let object = match cloud.get(&tree.cluster.bucket, &key).await {
            Err(error) if error.is_not_found() => None,
            other => other?,
        };
        let bytes = object.ok_or_else(missing)?.bytes;
        String::from_utf8(bytes).map_err(|_| missing())
    };
    Ok(Access {
        authority: read("kubernetes-ca.crt").await?,
        certificate: read("admin.crt").await?,
        key: read("admin.key").await?,
    })
}
