//! The port to the cluster: what is asked of its API server.
//!
//! Two answer: the API server itself (`cluster`), and, where that cannot be reached, what a controller last
//! reported of it (`deploy`). Not here: what the answers mean.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;

use super::Answer;

/// A machine, as the API server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name: the machine's id.
    pub name: String,
    /// Whether it is ready, and its network is there.
    pub ready: bool,
    /// Why not.
    pub why: String,
    /// Whether it takes no new pods.
    pub cordoned: bool,
    /// The kubelet's release: `1.36.3`.
    pub version: String,
    /// Its zone.
    pub zone: String,
}

/// Who looks after a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeper {
    /// Somebody makes it anew elsewhere.
    #[default]
    Workload,
    /// Every node has one: a drain leaves it.
    DaemonSet,
    /// It stands in a file of its node: a drain leaves it.
    Node,
    /// Nobody: once gone it is gone.
    Nobody,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its node, once it has one.
    pub node: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub phase: String,
    /// Whether all its containers are ready.
    pub ready: bool,
    /// Whether the cluster needs it: `system-cluster-critical` or `system-node-critical`.
    pub critical: bool,
    /// Who looks after it.
    pub keeper: Keeper,
}

impl Pod {
    /// Returns its name with its namespace.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns whether it has run to its end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// Which pods are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// Those that the cluster needs, and those of the control plane.
    Critical,
    /// Those of one node.
    On(String),
}

/// A Helm release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `deployed`, `failed`, `pending-upgrade`.
    pub status: String,
}

impl Release {
    /// Returns the newest of each release; Helm numbers what it keeps of them.
    #[must_use]
    pub fn newest(rows: impl Iterator<Item = (Self, u64)>) -> Vec<Self> {
        let mut newest: BTreeMap<(String, String), (u64, Self)> = BTreeMap::new();
        for (release, number) in rows {
            let key = (release.namespace.clone(), release.name.clone());
            if newest.get(&key).is_none_or(|(known, _)| *known <= number) {
                newest.insert(key, (number, release));
            }
        }
        newest.into_values().map(|(_, release)| release).collect()
    }
}

/// An API that somebody still asks for, and that a later release no longer has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct DeprecatedApi {
    /// `flowcontrol.apiserver.k8s.io/v1beta3 flowschemas`.
    pub api: String,
    /// The minor that no longer has it: `1.37`.
    pub removed: String,
}

impl DeprecatedApi {
    /// Returns what an API server's metrics count.
    #[must_use]
    pub fn counted(metrics: &str) -> Vec<Self> {
        let all = crate::kubernetes::deprecated_apis(metrics).into_iter();
        all.map(|(api, removed)| Self { api, removed }).collect()
    }
}

/// What became of asking a pod to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// It goes.
    Going,
    /// It is gone.
    Gone,
    /// A budget does not allow it now.
    Refused(String),
}

/// The cluster.
#[async_trait]
pub trait Cluster: std::fmt::Debug + Send + Sync {
    /// Returns how what is known is known: nothing where the API server itself answers, else whose report it is
    /// and of when.
    fn reported(&self) -> Option<String> {
        None
    }

    /// Returns which of the API server's own checks fail: none if it is ready.
    async fn failing(&self) -> Answer<Vec<String>>;

    /// Returns the API server's release: `1.36.3`.
    async fn version(&self) -> Answer<String>;

    /// Returns all nodes, by name.
    async fn nodes(&self) -> Answer<Vec<Node>>;

    /// Returns pods.
    async fn pods(&self, which: &Pods) -> Answer<Vec<Pod>>;

    /// Returns an object's status, if there is the object; an empty namespace for what has none.
    async fn status(&self, kind: &str, namespace: &str, name: &str) -> Answer<Option<Value>>;

    /// Returns how many addresses of a service are ready.
    async fn ready_addresses(&self, namespace: &str, service: &str) -> Answer<usize>;

    /// Returns the newest of each Helm release.
    async fn releases(&self) -> Answer<Vec<Release>>;

    /// Returns the deprecated APIs that were asked for since the API server started.
    async fn deprecated(&self) -> Answer<Vec<DeprecatedApi>>;

    /// Lets a node take no new pods, or take them again; nothing where there is no such node.
    async fn cordon(&self, node: &str, on: bool) -> Answer<()>;

    /// Asks a pod to go, as far as budgets allow it.
    async fn evict(&self, pod: &Pod) -> Answer<Eviction>;
}
