//! What the last complete deployment was made of: one archive in the state bucket.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::Error;
use crate::archive::{Bundle, Entry, packed, unpacked};
use crate::pipeline::Addon;
use crate::port::{Cloud, When};

/// The object.
const KEY: &str = "deployments/last.tar.gz";
/// The file in it that is not of the tree.
const RECORD: &str = "record.json";

/// What is remembered beside the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Which deployment it was, counted from 1.
    pub number: u64,
    /// When, in UTC.
    pub time: String,
    /// The commit of the cluster's folder, if it is in git.
    pub commit: Option<String>,
    /// The release of kaws.
    pub kaws: String,
    /// The SHA-256 of its `manifest.yaml`.
    pub tree: String,
    /// The config as it was merged.
    pub config: Value,
    /// Versions and hashes of the plugins that were on.
    pub plugins: BTreeMap<String, PluginRecord>,
    /// The plugins that own each resource, by `stack/LogicalId`, and each file, by path.
    pub owners: BTreeMap<String, Vec<String>>,
}

/// One plugin, as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// Its version.
    pub version: String,
    /// The hash of its folder.
    pub sha256: String,
}

/// A deployment: the record and the files of `rendered/`.
#[derive(Clone, Debug, Default)]
pub struct Deployment {
    /// The record.
    pub record: Record,
    /// The manifest among them.
    pub files: BTreeMap<String, Arc<[u8]>>,
}

/// What is read of a former tree's manifest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    cluster: ManifestCluster,
    addons: Vec<Addon>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManifestCluster {
    kubernetes: String,
}

impl Deployment {
    /// Returns what controllers were told to apply, as far as this release still reads it.
    #[must_use]
    pub fn addons(&self) -> Vec<Addon> {
        self.manifest().addons
    }

    /// Returns the release of Kubernetes that was deployed, if this release still reads it.
    #[must_use]
    pub fn kubernetes(&self) -> Option<String> {
        Some(self.manifest().cluster.kubernetes).filter(|version| !version.is_empty())
    }

    fn manifest(&self) -> Manifest {
        let manifest = self.files.get("manifest.yaml");
        let read =
            manifest.and_then(|bytes| serde_yaml::from_str(&String::from_utf8_lossy(bytes)).ok());
        read.unwrap_or_default()
    }
}

/// Returns the last complete deployment, if there was one.
///
/// # Errors
/// The cloud's, and an archive that is none.
pub async fn recorded(cloud: &dyn Cloud, bucket: &str) -> Result<Option<Deployment>, Error> {
    let object = match cloud.get(bucket, KEY).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let Some(object) = object else { return Ok(None) };
    let wrong =
        |reason: String| Error::Record { bucket: bucket.to_owned(), key: KEY.to_owned(), reason };
    let mut bundle = unpacked(&object.bytes).map_err(|e| wrong(e.to_string()))?;
    let record = bundle.remove(RECORD).ok_or_else(|| wrong(format!("{RECORD} is missing")))?;
    let record = serde_json::from_slice(&record.bytes).map_err(|e| wrong(e.to_string()))?;
    let files = bundle.into_iter().map(|(path, e)| (path, Arc::clone(&e.bytes))).collect();
    Ok(Some(Deployment { record, files }))
}

/// Forgets the last deployment: nothing of it is there any more.
pub(super) async fn forget(cloud: &dyn Cloud, bucket: &str) -> Result<(), Error> {
    cloud.delete(bucket, KEY, When::Always).await?;
    Ok(())
}

/// Stores a complete deployment.
pub(super) async fn store(
    cloud: &dyn Cloud,
    bucket: &str,
    deployment: &Deployment,
) -> Result<(), Error> {
    let entry = |bytes: Arc<[u8]>| Arc::new(Entry { bytes, mode: 0o644 });
    let mut bundle: Bundle =
        deployment.files.iter().map(|(p, b)| (p.clone(), entry(Arc::clone(b)))).collect();
    let record = serde_json::to_vec_pretty(&deployment.record).expect("it has text keys");
    bundle.insert(RECORD.to_owned(), entry(record.into()));
    cloud.put(bucket, KEY, packed(&bundle), When::Always).await?;
    Ok(())
}
