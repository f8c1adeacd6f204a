//! Kubernetes' objects, in the port's words.

use k8s_openapi::api::core::v1 as core;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use serde_json::Value;

use crate::port::{Keeper, Node, Pod, Release};

/// Where a static pod says that it is one.
const MIRROR: &str = "kubernetes.io/config.mirror";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns which checks a text of `/readyz?verbose` says fail: `[-]etcd failed: reason withheld`.
pub(super) fn failing(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("[-]"));
    let mut all: Vec<String> =
        names.filter_map(|rest| rest.split_whitespace().next()).map(str::to_owned).collect();
    if all.is_empty() {
        all.push(text.lines().next().unwrap_or("readyz").to_owned());
    }
    all
}

pub(super) fn node(node: &core::Node) -> Node {
    let status = node.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let condition = |name: &str| conditions.iter().find(|c| c.type_ == name);
    let is_ready = condition("Ready").is_some_and(|c| c.status == "True");
    // Absent, unknown or false: only a provider that says so takes the network away.
    let no_network = condition("NetworkUnavailable").filter(|c| c.status == "True");
    let why = no_network.or_else(|| condition("Ready").filter(|_| !is_ready)).map(|c| {
        let text = c.message.as_deref().or(c.reason.as_deref()).unwrap_or_default();
        text.to_owned()
    });
    let never =
        || if is_ready { String::new() } else { "its kubelet has not said anything".to_owned() };
    Node {
        name: node.name_any(),
        ready: is_ready && no_network.is_none(),
        why: why.unwrap_or_else(never),
        cordoned: node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true),
        version: status
            .and_then(|s| s.node_info.as_ref())
            .map(|info| info.kubelet_version.trim_start_matches('v').to_owned())
            .unwrap_or_default(),
        zone: node.labels().get(ZONE).cloned().unwrap_or_default(),
    }
}

pub(super) fn pod(pod: &core::Pod) -> Pod {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let phase = status.and_then(|s| s.phase.clone()).unwrap_or_else(|| "Unknown".to_owned());
    let ready = status
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default()
        .iter()
        .any(|c| c.type_ == "Ready" && c.status == "True");
    let class = spec.and_then(|s| s.priority_class_name.as_deref()).unwrap_or_default();
    Pod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        node: spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
        ready,
        phase,
        critical: matches!(class, "system-cluster-critical" | "system-node-critical"),
        keeper: keeper(pod),
    }
}

fn keeper(pod: &core::Pod) -> Keeper {
    if pod.annotations().contains_key(MIRROR) {
        return Keeper::Node;
    }
    match pod.owner_references().iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) if owner.kind == "DaemonSet" => Keeper::DaemonSet,
        Some(_) => Keeper::Workload,
        None => Keeper::Nobody,
    }
}

/// Returns the newest of each release: its secrets are numbered.
pub(super) fn releases(secrets: &[PartialObjectMeta<core::Secret>]) -> Vec<Release> {
    Release::newest(secrets.iter().map(|secret| {
        let label = |key: &str| secret.labels().get(key).cloned().unwrap_or_default();
        let namespace = secret.namespace().unwrap_or_default();
        let release = Release { namespace, name: label("name"), status: label("status") };
        (release, label("version").parse().unwrap_or_default())
    }))
}

/// Returns an object's status, with what tells whether it is of the newest spec.
pub(super) fn status(object: &DynamicObject) -> Value {
    let mut status = object.data.get("status").cloned().unwrap_or_else(|| serde_json::json!({}));
    if let (Some(map), Some(generation)) = (status.as_object_mut(), object.metadata.generation) {
        map.insert("generation".to_owned(), generation.into());
    }
    status
}
