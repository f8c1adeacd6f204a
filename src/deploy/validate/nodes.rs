//! Checks of what the API server knows: itself, nodes, the control plane's pods, those the cluster needs, releases.

use std::collections::{BTreeMap, BTreeSet};

use super::seen::{Known, Seen};
use super::{Asked, Checked};
use crate::finding::Finding;
use crate::port::{Node, Pod};

/// What runs on every controller, as the names of its pods begin.
const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// So many minors may a kubelet be older than its API server (Kubernetes' version skew policy, since 1.28).
const SKEW: u64 = 3;

fn fatal(code: &str, text: String) -> Finding {
    Finding::fatal(code, text)
}

/// A check of what the API server knows; nobody can look where it cannot be asked.
fn known(check: &str, seen: &Seen, look: impl FnOnce(&Known) -> (String, Vec<Finding>)) -> Checked {
    match &seen.cluster {
        Ok(known) => {
            let (note, findings) = look(known);
            Checked::looked(check, note, findings)
        }
        Err(why) => Checked::unknown(check, why),
    }
}

/// The API server says that it is ready, and so does every one of its own checks, etcd's among them. That it cannot
/// be asked at all is what fails here; the others then do not know.
pub(super) fn api_server(seen: &Seen) -> Checked {
    let check = "api-server/ready";
    let failing = match &seen.failing {
        Ok(failing) => failing,
        Err(why) => {
            let finding =
                fatal("validate/unreachable", "nobody says how the cluster is".to_owned())
                    .note(why)
                    .help("run this where the API server can be reached, or with --kubeconfig")
                    .help("controllers report every two minutes, and none has lately: kaws status");
            return Checked::looked(check, "cannot be asked", vec![finding]);
        }
    };
    let one = |name: &String| {
        let text = format!("the API server is not ready: {name} fails");
        fatal("validate/api-server", text)
            .help("its log on a controller says why: /var/log/pods/kube-system_kube-apiserver…")
    };
    let findings: Vec<Finding> = failing.iter().map(one).collect();
    let release = seen.cluster.as_ref().map_or("it", |known| known.version.as_str());
    let note = if findings.is_empty() { "is ready" } else { "is not ready" };
    Checked::looked(check, format!("{release} {note}"), findings)
}

/// Every machine with a kubelet is a node, and ready. So many workers as are tolerated may be missing.
pub(super) fn joined(asked: &Asked<'_>, seen: &Seen) -> Checked {
    known("kubelet/nodes", seen, |known| {
        let nodes: BTreeMap<&str, &Node> =
            known.nodes.iter().map(|n| (n.name.as_str(), n)).collect();
        let (mut all, mut findings, mut spared) = (0, Vec::new(), 0);
        for (folder, machine) in seen.kubelets() {
            all += 1;
            let finding = match nodes.get(machine.id.as_str()) {
                Some(node) if node.ready => continue,
                Some(node) => {
                    let text = format!("{} of {folder} is not ready", machine.id);
                    fatal("validate/node", text).note(&node.why)
                }
                None => {
                    let text = format!("{} of {folder} has not joined", machine.id);
                    fatal("validate/node", text).help("kaws status shows what it reported")
                }
            };
            if folder != "controller" && spared < asked.tolerated {
                spared += 1;
                findings.push(Finding { severity: crate::finding::Severity::Warning, ..finding });
            } else {
                findings.push(finding);
            }
        }
        (format!("{} of {all} ready", all - findings.len()), findings)
    })
}

/// No kubelet is newer than its API server, and none too old for it.
pub(super) fn versions(seen: &Seen) -> Checked {
    known("kubelet/versions", seen, |known| {
        let server = semver::Version::parse(&known.version).ok();
        let mut findings = Vec::new();
        let mut releases = BTreeSet::new();
        for node in &known.nodes {
            releases.insert(node.version.as_str());
            let (Some(server), Ok(kubelet)) = (&server, semver::Version::parse(&node.version))
            else {
                continue;
            };
            let newer = kubelet > *server;
            let older = kubelet.major == server.major && kubelet.minor + SKEW < server.minor;
            if newer || older {
                let word = if newer { "newer than" } else { "too old for" };
                let text = format!("the kubelet of {} is {word} its API server", node.name);
                findings.push(fatal("validate/skew", text).note(format!("{kubelet} and {server}")));
            }
        }
        (releases.into_iter().collect::<Vec<_>>().join(", "), findings)
    })
}

/// Every controller runs the whole control plane.
pub(super) fn control_plane(seen: &Seen) -> Checked {
    known("control-plane/pods", seen, |known| {
        let pods: BTreeMap<String, &Pod> = known
            .pods
            .iter()
            .filter(|p| p.namespace == "kube-system")
            .map(|p| (p.name.clone(), p))
            .collect();
        let (mut all, mut findings) = (0, Vec::new());
        for (_, machine) in seen.kubelets().filter(|(folder, _)| *folder == "controller") {
            for component in COMPONENTS {
                all += 1;
                let text = match pods.get(&format!("{component}-{}", machine.id)) {
                    Some(pod) if pod.ready => continue,
                    Some(_) => format!("{component} on {} is not ready", machine.id),
                    None => format!("there is no {component} on {}", machine.id),
                };
                findings.push(fatal("validate/control-plane", text));
            }
        }
        (format!("{} of {all} ready", all - findings.len()), findings)
    })
}

/// Every pod that the cluster needs runs and is ready, but for those on nodes that are missing anyway.
pub(super) fn critical_pods(seen: &Seen) -> Checked {
    known("kubelet/critical-pods", seen, |known| {
        let lost: BTreeSet<&str> =
            known.nodes.iter().filter(|n| !n.ready).map(|n| n.name.as_str()).collect();
        let wanted = known.pods.iter().filter(|pod| pod.phase != "Succeeded");
        let wanted: Vec<&Pod> = wanted.filter(|pod| !lost.contains(pod.node.as_str())).collect();
        let one = |pod: &&Pod| {
            let text = format!("{} is not ready", pod.full_name());
            let on = if pod.node.is_empty() {
                "on no node yet".to_owned()
            } else {
                format!("on {}", pod.node)
            };
            fatal("validate/pod", text).note(format!("{}, {on}", pod.phase))
        };
        let findings: Vec<Finding> =
            wanted.iter().filter(|p| !(p.ready && p.phase == "Running")).map(one).collect();
        (format!("{} of {} ready", wanted.len() - findings.len(), wanted.len()), findings)
    })
}

/// Every release that is rendered is installed.
pub(super) fn releases(asked: &Asked<'_>, seen: &Seen) -> Checked {
    known("helm/releases", seen, |known| {
        let wanted: Vec<_> =
            asked.tree.addons.iter().filter(|addon| addon.chart.is_some()).collect();
        let mut findings = Vec::new();
        for addon in &wanted {
            let namespace = addon.namespace.as_deref().unwrap_or("default");
            findings.extend(release(known, namespace, &addon.name));
        }
        (format!("{} of {} installed", wanted.len() - findings.len(), wanted.len()), findings)
    })
}

/// What is wrong with a release, if anything is.
pub(super) fn release(known: &Known, namespace: &str, name: &str) -> Option<Finding> {
    let mut found = known.releases.iter().filter(|r| r.name == name);
    let text = match found.find(|r| namespace.is_empty() || r.namespace == namespace) {
        Some(release) if release.status == "deployed" => return None,
        Some(release) => format!("the release {name} is {}", release.status),
        None => format!("the release {name} is not installed"),
    };
    let help = "what keeps it from being installed is in reports/controller/addons.json of the state bucket";
    Some(fatal("validate/release", text).help(help))
}
