//! The kubelet: what it is told, what it calls its node, and how it reaches the API server.

use serde_json::Value;

use super::super::{about, shown};
use super::network_host;
use crate::config::Group;
use crate::finding::{Finding, Findings};
use crate::model::Model;
use crate::plugin::Context;

/// Labels in Kubernetes' own domains that a kubelet may give its node (kubelet 1.37, `--node-labels`).
const KUBELET_LABELS: [&str; 9] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The kubelet, and what it calls its node.
pub(super) fn kubelet(cx: &Context<'_>, model: &Model, group: &Group, findings: &mut Findings) {
    let setting = |key: &str| model.entity(&["kubelet", &group.key, "config", key]);
    let mut wrong = |key: &str, good: &dyn Fn(&Value) -> bool, why: &str, help: &str| {
        let path = ["kubelet", group.key.as_str(), "config", key];
        match setting(key) {
            Some(entity) if good(&entity.body.to_value()) => {}
            Some(entity) => {
                let text = format!("{} is {}: {why}", path.join("."), shown(&entity.body));
                findings.push(
                    about(Finding::fatal("boot/kubelet", text), &path, entity)
                        .help(help.to_owned()),
                );
            }
            None if model.names(&["kubelet", &group.key, "config", key]).is_empty() => {
                let text = format!("{} is not set: {why}", path.join("."));
                findings.push(
                    Finding::fatal("boot/kubelet", text)
                        .about(path.join("."))
                        .help(help.to_owned()),
                );
            }
            None => {}
        }
    };
    let is = |wanted: &'static str| move |v: &Value| v == wanted;
    wrong("cgroupDriver", &is("systemd"), "containerd uses systemd's cgroups", "write systemd");
    wrong(
        "rotateCertificates",
        &|v| v == true,
        "a node's certificate lasts a year and must be renewed",
        "write true",
    );
    let provider = |v: &Value| {
        v.as_str().is_some_and(|t| t.starts_with("aws:///") && t.contains("@{node instance-id}"))
    };
    wrong(
        "providerID",
        &provider,
        "the cloud controller finds a node's machine by it",
        "leave it as it is",
    );
    let dns = network_host(cx, 10);
    let first = |v: &Value| {
        v.as_array().is_some_and(|l| l.first().and_then(Value::as_str) == Some(dns.as_str()))
    };
    wrong(
        "clusterDNS",
        &first,
        "pods would ask for names where nobody answers",
        &format!("write [{dns}], the tenth address of services"),
    );
    let pool = group.pool.as_ref().and_then(|p| cx.config.node_pools.get(p));
    for key in pool.into_iter().flat_map(|p| p.labels.keys()) {
        let at = Finding::fatal("boot/node-label", label(key))
            .about(format!("nodePools.{}.labels.{key}", group.label()));
        findings.extend(
            (!is_allowed(key))
                .then(|| at.help("the kubelet would not start; use a prefix of your own")),
        );
    }
    for (key, entity) in model.entities(&["kubelet", &group.key, "labels"]) {
        if !is_allowed(key) {
            let path = ["kubelet", group.key.as_str(), "labels", key];
            let finding = about(Finding::fatal("boot/node-label", label(key)), &path, entity);
            findings.push(finding.help("the kubelet would not start; use a prefix of your own"));
        }
    }
}

fn label(key: &str) -> String {
    format!("a node may not give itself the label {key}")
}

/// Whether a kubelet may give its node a label.
fn is_allowed(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let within = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    within("kubelet.kubernetes.io") || within("node.kubernetes.io") || KUBELET_LABELS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn a_kubelet_may_give_few_labels_of_kubernetes_own() {
        for good in [
            "acme.example/tier",
            "plain",
            "node.kubernetes.io/pool",
            "kubernetes.io/os",
            "a.node.kubernetes.io/b",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "node-role.kubernetes.io/worker",
            "kubernetes.io/role",
            "node-restriction.kubernetes.io/a",
            "x.k8s.io/y",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
