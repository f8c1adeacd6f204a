//! How a deployed cluster is, as far as its account knows: stacks, certificates, backups, and what machines said
//! of themselves. Only reads.
//!
//! Not here: what runs in the cluster, which only its API server knows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::drift::drifts;
use super::error::Error;
use super::pki::{PkiStatus, pki_status};
use super::record::{Deployment, recorded};
use super::reported::Reported;
use super::reports::{Report, all};
use super::roll::GROUP;
use super::stacks::STATE;
use super::stuck::{Stuck, stuck};
use super::tree::Tree;
use crate::port::{Cloud, Cluster as _, Drift, Stack, Status};

/// Where snapshots of etcd lie.
pub const BACKUPS: &str = "backups/etcd/";

/// Returns when a snapshot was made, in seconds since 1970: `backups/etcd/2026-11-20T12-00-00Z-r48211.db` was at
/// 12:00 UTC.
#[must_use]
pub fn snapshot_time(key: &str) -> Option<u64> {
    let stamp = key.strip_prefix(BACKUPS)?.get(..20)?;
    let (day, time) = stamp.split_once('T')?;
    let time = humantime::parse_rfc3339(&format!("{day}T{}", time.replace('-', ":"))).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// How a cluster is.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// The last complete deployment.
    pub deployment: Option<Last>,
    /// Its stacks, by name.
    pub stacks: Vec<StackHealth>,
    /// Its groups of machines, by folder: `controller`, `pool-general`.
    pub groups: BTreeMap<String, GroupHealth>,
    /// Its certificates; what ends first comes first.
    pub certificates: Vec<Validity>,
    /// The newest snapshot of etcd.
    pub backup: Option<String>,
    /// Nodes by their kubelets' releases, as a controller reported them lately.
    pub nodes: BTreeMap<String, usize>,
}

/// The last complete deployment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Last {
    /// Its number.
    pub number: u64,
    /// When, in UTC.
    pub time: String,
    /// Its commit.
    pub commit: Option<String>,
    /// The release of kaws.
    pub kaws: String,
    /// The release of Kubernetes.
    pub kubernetes: Option<String>,
    /// Whether it is what is rendered now.
    pub current: bool,
}

/// How long a certificate is valid, in seconds since 1970.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validity {
    /// Its name.
    pub name: String,
    /// From when.
    pub not_before: i64,
    /// Until when.
    pub not_after: i64,
    /// Whether it is an authority's.
    pub authority: bool,
}

/// One stack.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StackHealth {
    /// Its name in the cluster.
    pub stack: String,
    /// Its status.
    pub status: Status,
    /// Whether it is still rendered.
    pub rendered: bool,
    /// What keeps it from being changed.
    pub stuck: Option<Stuck>,
    /// What somebody changed by hand, where that was asked for.
    pub drift: Option<Drift>,
}

/// One group of machines, by what they reported.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupHealth {
    /// Machines that are well, with the bundle that is deployed.
    pub healthy: usize,
    /// Machines that are well, with a bundle of before.
    pub outdated: usize,
    /// Machines that came up, and on which a required unit is no longer active.
    pub unhealthy: Vec<Report>,
    /// When the last of them did, in UTC.
    pub last: Option<String>,
    /// Machines that did not, and have said nothing else since; oldest first.
    pub failed: Vec<Report>,
}

/// A machine says every hour how it is. Where nobody can ask which there are, one that has said nothing for so many
/// seconds is taken to be gone.
const GONE: u64 = 7_200;

/// Looks at a cluster, at `now` in seconds since 1970; with `drift` also whether its resources are what the stacks made of them, which takes a
/// while.
///
/// # Errors
/// The cloud's.
pub async fn health(
    cloud: &dyn Cloud,
    tree: &Tree,
    drift: bool,
    now: u64,
) -> Result<Health, Error> {
    let stacks = cloud.stacks(&tree.cluster.name).await?;
    let mut health = Health { stacks: of_stacks(cloud, tree, &stacks).await?, ..Health::default() };
    if drift {
        let mut found = drifts(cloud, stacks.iter()).await;
        health.stacks.iter_mut().for_each(|of| of.drift = found.remove(&of.stack));
    }
    let state = stacks.iter().any(|s| {
        let own = s.tags.get("kaws/stack").is_some_and(|short| short == STATE);
        own && !s.status.never_came() && !s.status.is_empty_stack()
    });
    if !state {
        return Ok(health);
    }
    let bucket = &tree.cluster.bucket;
    let last = recorded(cloud, bucket).await?;
    health.deployment = last.as_ref().map(|last| said(last, tree));
    // Machines run what was deployed, which need not be what is rendered.
    let deployed = last.as_ref().and_then(former);
    let deployed = deployed.as_ref().unwrap_or(tree);
    let alive = machines(cloud, &stacks).await;
    let is_gone = |report: &Report| match &alive {
        Some(alive) => !alive.contains(&report.instance),
        None => is_silent(report, now),
    };
    for group in deployed.groups() {
        let hash = deployed.bundle_hash(&group).unwrap_or_default();
        let reports = all(cloud, bucket, &group).await?;
        health.groups.insert(group, of_group(reports, &hash, &is_gone));
    }
    if let Some(cluster) = Reported::newest(cloud, bucket, now).await? {
        for node in cluster.nodes().await? {
            *health.nodes.entry(node.version).or_default() += 1;
        }
    }
    health.certificates = certificates(&pki_status(cloud, tree).await?, tree);
    health.backup = cloud.list(bucket, BACKUPS).await?.into_iter().max();
    Ok(health)
}

async fn of_stacks(
    cloud: &dyn Cloud,
    tree: &Tree,
    stacks: &[Stack],
) -> Result<Vec<StackHealth>, Error> {
    let mut stuck = stuck(cloud, stacks).await?;
    let one = |stack: &Stack| {
        let short = stack.tags.get("kaws/stack")?.clone();
        let at = stuck.iter().position(|s| s.stack == short);
        Some(StackHealth {
            rendered: tree.stacks.contains_key(&short),
            status: stack.status.clone(),
            stuck: at.map(|at| stuck.remove(at)),
            stack: short,
            drift: None,
        })
    };
    Ok(stacks.iter().filter_map(one).collect())
}

fn said(last: &Deployment, tree: &Tree) -> Last {
    let record = &last.record;
    Last {
        number: record.number,
        time: record.time.clone(),
        commit: record.commit.clone(),
        kaws: record.kaws.clone(),
        kubernetes: last.kubernetes(),
        current: record.tree == tree.digest,
    }
}

/// Returns the tree that was deployed, if this release still reads it.
#[must_use]
pub fn former(last: &Deployment) -> Option<Tree> {
    let manifest = last.files.get("manifest.yaml")?;
    let mut files = last.files.clone();
    files.remove("manifest.yaml");
    Tree::read(&String::from_utf8_lossy(manifest), files).ok()
}

fn of_group(reports: Vec<Report>, hash: &str, is_gone: &dyn Fn(&Report) -> bool) -> GroupHealth {
    let mut group = GroupHealth::default();
    for report in reports {
        let current = report.bundle == hash;
        match report.state.as_str() {
            "failed" if current => group.failed.push(report),
            _ if is_gone(&report) => {}
            "unhealthy" => group.unhealthy.push(report),
            "healthy" if current => {
                group.healthy += 1;
                // A report of before says when it came up by being there.
                group.last = group.last.max(report.up.or(Some(report.time)));
            }
            "healthy" => group.outdated += 1,
            _ => {}
        }
    }
    group
}

/// The machines that there are, where that can be asked.
async fn machines(cloud: &dyn Cloud, stacks: &[Stack]) -> Option<BTreeSet<String>> {
    if cloud.is_local() {
        return None;
    }
    let mut names = Vec::new();
    for stack in stacks.iter().filter(|s| !s.status.is_empty_stack()) {
        let resources = cloud.resources(&stack.name).await.ok()?;
        names.extend(resources.into_iter().filter(|r| r.kind == GROUP).map(|r| r.physical));
    }
    let groups = cloud.scaling_groups(&names).await.ok()?;
    Some(groups.into_iter().flat_map(|group| group.machines).map(|machine| machine.id).collect())
}

fn is_silent(report: &Report, now: u64) -> bool {
    let said = humantime::parse_rfc3339(&report.time).ok();
    let said = said.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    said.is_none_or(|said| said.as_secs() + GONE < now)
}

fn certificates(status: &PkiStatus, tree: &Tree) -> Vec<Validity> {
    let minted = status.rows.iter().filter_map(|row| {
        let said = row.said.as_ref()?;
        let (not_before, not_after) = (said.not_before, said.not_after);
        let authority = tree.pki.authorities.contains_key(&row.name);
        Some(Validity { name: row.name.clone(), not_before, not_after, authority })
    });
    let mut all: Vec<Validity> = minted.collect();
    all.sort_by(|a, b| (a.not_after, &a.name).cmp(&(b.not_after, &b.name)));
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_name_of_a_snapshot_says_when_it_was_made() {
        let key = "backups/etcd/2026-11-20T12-00-00Z-r48211.db";
        assert_eq!(super::snapshot_time(key), Some(1_795_176_000));
        assert_eq!(super::snapshot_time("backups/etcd/x.db"), None);
    }
}
