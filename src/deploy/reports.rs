//! What machines say of themselves, whether they come up or not: small objects in the state bucket.
//!
//! Not here: who writes them, which is the program on each machine (`plugins/node-bundle`).

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};

use super::tree::{Tree, TreeStack};
use crate::port::{Answer, Cloud};

/// So many are read: a group of machines that all fail says the same again and again.
const MOST: usize = 500;
/// So many are asked for at once.
const AT_ONCE: usize = 16;

/// What a machine said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// `working`, `failed`, `healthy`, `unhealthy`.
    pub state: String,
    /// How far it came: `bundle`, `secrets`, `assets`, `health`.
    pub phase: String,
    /// What went wrong.
    pub message: String,
    /// The machine.
    pub instance: String,
    /// Its group: `pool:general`.
    pub group: String,
    /// The hash of its bundle.
    pub bundle: String,
    /// When, in UTC.
    pub time: String,
    /// The unit that failed, if it was one.
    #[serde(default)]
    pub unit: Option<String>,
    /// The unit's last lines in the journal.
    #[serde(default)]
    pub log: Vec<String>,
    /// When it came up, in UTC, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<String>,
    /// How each of its units is, once it has come up: `active`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, String>,
}

/// Returns the last report of each machine of a group, by its folder below `nodes/`; oldest first.
///
/// # Errors
/// The cloud's.
pub(super) async fn all(cloud: &dyn Cloud, bucket: &str, group: &str) -> Answer<Vec<Report>> {
    let keys = cloud.list(bucket, &format!("reports/{group}/")).await?;
    let read = futures_util::stream::iter(keys.into_iter().take(MOST))
        .map(|key| async move { cloud.get(bucket, &key).await })
        .buffered(AT_ONCE);
    let answers: Vec<_> = read.collect().await;
    let mut all = Vec::new();
    for answer in answers {
        // What a machine could not write whole says nothing.
        all.extend(answer?.and_then(|o| serde_json::from_slice::<Report>(&o.bytes).ok()));
    }
    all.sort_by(|a, b| (&a.time, &a.instance).cmp(&(&b.time, &b.instance)));
    Ok(all)
}

/// Returns what machines of a stack said since `since` of why they did not come up, oldest first.
///
/// # Errors
/// The cloud's.
pub(super) async fn failed(
    cloud: &dyn Cloud,
    tree: &Tree,
    stack: &TreeStack,
    since: &str,
) -> Answer<Vec<Report>> {
    let mut failed = Vec::new();
    for group in tree.groups() {
        let Some(hash) = tree.bundle_hash(&group).filter(|h| stack.text.contains(h)) else {
            continue;
        };
        let reports = all(cloud, &tree.cluster.bucket, &group).await?;
        failed.extend(
            reports
                .into_iter()
                .filter(|r| r.state == "failed" && r.bundle == hash && r.time.as_str() >= since),
        );
    }
    Ok(failed)
}
