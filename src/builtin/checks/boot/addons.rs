//! What is applied to the cluster once it is there: without some of it, no node becomes ready.

use super::super::about;
use super::network_host;
use crate::finding::{Finding, Findings};
use crate::model::{Model, Release};
use crate::plugin::Context;
use crate::value::Node;

/// What lets a node join must be applied first.
pub(super) fn bootstrap(model: &Model, findings: &mut Findings) {
    let manifest = model.entity(&["manifests", "bootstrap-rbac"]);
    let objects =
        manifest.and_then(|m| m.body.get("objects")).map(Node::to_value).unwrap_or_default();
    let said = objects.to_string();
    let missing: Vec<&str> = [
        ("the token's Secret", "bootstrap.kubernetes.io/token"),
        ("the right to ask for a certificate", "system:node-bootstrapper"),
        ("the approval of a first certificate", "certificatesigningrequests:nodeclient"),
        ("the approval of a renewed one", "certificatesigningrequests:selfnodeclient"),
        ("the API server's right to reach kubelets", "system:kubelet-api-admin"),
    ]
    .into_iter()
    .filter(|(_, word)| !said.contains(word))
    .map(|(what, _)| what)
    .collect();
    if !missing.is_empty() {
        let text =
            format!("no node could join: manifests.bootstrap-rbac lacks {}", missing.join(", "));
        let finding = Finding::fatal("boot/no-bootstrap", text).about("manifests.bootstrap-rbac");
        findings.push(finding.help("take the patch away, or add what it removed"));
    }
    let phase = manifest.and_then(|m| m.body.get("phase")).and_then(Node::as_str);
    if let (Some(entity), Some(phase)) = (manifest, phase.filter(|p| *p != "base")) {
        let text = format!(
            "manifests.bootstrap-rbac is applied in the phase {phase}, and everything before it waits for nodes"
        );
        findings.push(
            about(
                Finding::fatal("boot/no-bootstrap", text),
                &["manifests", "bootstrap-rbac"],
                entity,
            )
            .help("phase: base"),
        );
    }
}

/// A network for pods, and names at the address that the kubelet tells them.
pub(super) fn addons(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let releases: Vec<(&str, Release)> = model
        .entities(&["helm", "releases"])
        .filter_map(|(name, e)| Some((name, serde_json::from_value(e.body.to_value()).ok()?)))
        .collect();
    let in_phase = |phase: &str| releases.iter().any(|(_, r)| r.phase == phase);
    if !in_phase("cni") {
        let finding = Finding::warning(
            "boot/no-pod-network",
            "nothing in the phase cni gives pods a network: no node becomes ready",
        );
        findings.push(
            finding
                .about("helm.releases")
                .help("enable a plugin that provides `cni`, or bring your own and accept this"),
        );
    }
    if !in_phase("cloud") {
        let finding = Finding::warning(
            "boot/no-cloud-controller",
            "nothing in the phase cloud says that machines are there: every node keeps the taint uninitialized, and no pod is placed",
        );
        findings.push(finding.about("helm.releases").help(
            "enable cloud-provider, leave its release in the phase cloud, or bring your own and accept this",
        ));
    }
    let dns = network_host(cx, 10);
    for (name, release) in releases.iter().filter(|(_, r)| r.phase == "dns") {
        let address = release.values.get("service").and_then(|s| s["clusterIP"].as_str());
        if let Some(address) = address.filter(|a| *a != dns) {
            let text = format!("{name} answers at {address}, and kubelets tell pods to ask {dns}");
            let path = ["helm", "releases", *name];
            let finding = Finding::fatal("boot/dns-address", text);
            findings.extend(model.entity(&path).map(|entity| about(finding, &path, entity)));
        }
    }
}
