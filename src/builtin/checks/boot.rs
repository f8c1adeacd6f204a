//! What a machine needs to come up, and to be part of the cluster: one finding for each line of the list.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{about, setter, text};
use crate::builtin::group::filled_texts;
use crate::config::{Group, Nat, Role};
use crate::finding::{Finding, Findings};
use crate::model::{Model, Release, placeholders};
use crate::name::did_you_mean;
use crate::pki::{File, Requests, files, matches};
use crate::plugin::Context;
use crate::value::Node;

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

/// Checks everything.
pub(in crate::builtin) fn boot(cx: &Context<'_>, model: &Model) -> Findings {
    let mut findings = Findings::new();
    let requests = Requests::of(model, cx.config);
    keys(cx, model, &requests, &mut findings);
    authorities(&requests, &mut findings);
    names(cx, model, &requests, &mut findings);
    for group in cx.groups.iter().filter(|g| g.role != Role::Etcd) {
        kubelet(cx, model, group, &mut findings);
    }
    load_balancer(model, &mut findings);
    bootstrap(model, &mut findings);
    addons(cx, model, &mut findings);
    ways_out(cx, &mut findings);
    hooks(model, &mut findings);
    security_groups(cx, model, &mut findings);
    findings
}

/// A machine reads what its role may read, and what is minted at all.
fn keys(cx: &Context<'_>, model: &Model, requests: &Requests, findings: &mut Findings) {
    let all = files(requests);
    for group in cx.groups {
        for (path, content) in filled_texts(model, &group.key) {
            for (_, name) in placeholders(content).filter(|(word, _)| *word == "pki") {
                let found: Vec<(&String, &File)> =
                    all.iter().filter(|(file, _)| matches(name, file)).collect();
                let segments: Vec<&str> = path.0.iter().map(String::as_str).collect();
                let Some(entity) = model.entity(&segments) else { continue };
                let say =
                    |code: &str, text: String| about(Finding::fatal(code, text), &segments, entity);
                if found.is_empty() {
                    let text = format!("{path} names {name}, which nobody mints");
                    let finding = say("boot/unknown-key", text);
                    findings.push(match did_you_mean(name, all.keys().map(String::as_str)) {
                        Some(near) => finding.help(format!("did you mean {near}?")),
                        None => finding.help("ask for it: pki.certificates.NAME"),
                    });
                }
                let role = group.role.as_ref();
                for (name, _) in found.iter().filter(|(_, f)| !f.roles.iter().any(|r| r == role)) {
                    let text = format!(
                        "{path} names {name}, which machines of the role {role} may not read"
                    );
                    findings.push(
                        say("boot/key-of-another-role", text)
                            .help("add the role to its request, if the machine is to have it"),
                    );
                }
            }
        }
    }
}

/// The keys of authorities stay away from machines, but for the one that signs nodes' certificates.
fn authorities(requests: &Requests, findings: &mut Findings) {
    for (name, authority) in &requests.authorities {
        let allowed: &[&str] = if name == "kubernetes-ca" { &["controller"] } else { &[] };
        for role in authority
            .key_roles
            .iter()
            .filter(|r| !allowed.contains(&r.as_str()) && name.ends_with("-ca"))
        {
            if ["kubernetes-ca", "etcd-ca", "front-proxy-ca"].contains(&name.as_str()) {
                let text = format!(
                    "machines of the role {role} would have the key of the authority {name}"
                );
                let finding = Finding::fatal("boot/authority-key", text)
                    .about(format!("pki.authorities.{name}"));
                findings.push(
                    finding
                        .help("whoever has it can make any certificate: leave keyRoles as it is"),
                );
            }
        }
    }
    for (name, certificate) in &requests.certificates {
        if !requests.authorities.contains_key(&certificate.authority) {
            let text = format!(
                "the certificate {name} is to be signed by {}, which is no authority here",
                certificate.authority
            );
            let finding = Finding::fatal("boot/unknown-authority", text)
                .about(format!("pki.certificates.{name}"));
            let near = did_you_mean(
                &certificate.authority,
                requests.authorities.keys().map(String::as_str),
            );
            findings.push(match near {
                Some(near) => finding.help(format!("did you mean {near}?")),
                None => finding,
            });
        }
    }
}

/// Servers have the names under which they are asked for.
fn names(cx: &Context<'_>, model: &Model, requests: &Requests, findings: &mut Findings) {
    let config = cx.config;
    let mut lacks = |certificate: &str, wanted: String, why: &str| {
        let Some(request) = requests.certificates.get(certificate) else { return };
        if !request.sans.iter().any(|san| san.as_str() == Some(wanted.as_str())) {
            let text = format!("the certificate {certificate} is not valid for {wanted}");
            let path = ["pki", "certificates", certificate];
            let finding = Finding::fatal("boot/certificate-name", text).note(why.to_owned());
            findings.push(match model.entity(&path) {
                Some(entity) => about(finding, &path, entity),
                None => finding,
            });
        }
    };
    lacks("apiserver", config.endpoint(), "kubelets ask for the API server by this name");
    lacks("apiserver", "127.0.0.1".to_owned(), "the control plane's own parts ask for it here");
    let service = config.network.service_cidr.parse::<ipnet::IpNet>().ok();
    if let Some(first) = service.and_then(|net| net.hosts().next()) {
        lacks("apiserver", first.to_string(), "pods ask for the API server at this address");
    }
    if let Some(domain) = &config.api.domain {
        lacks("apiserver", domain.clone(), "people ask for it by api.domain");
    }
    for member in 0..config.etcd.members {
        for kind in ["server", "peer"] {
            let certificate = format!("etcd-{member}-{kind}");
            lacks(
                &certificate,
                config.etcd_host(member),
                "other members and API servers ask for it by this name",
            );
        }
    }
    usages(requests, findings);
}

/// A member of etcd dials others, and its own gateway itself, with the certificate that it serves with.
fn usages(requests: &Requests, findings: &mut Findings) {
    for (certificate, request) in &requests.certificates {
        let of_etcd = request.authority == "etcd-ca" && request.roles.iter().any(|r| r == "etcd");
        let serves = request.usages.iter().any(|u| u == "server");
        if of_etcd && serves && request.usages.len() < 2 {
            let text = format!(
                "the certificate {certificate} is for one usage alone, and etcd needs both"
            );
            let finding = Finding::fatal("boot/certificate-usage", text)
                .about(format!("pki.certificates.{certificate}"));
            findings.push(
                finding
                    .help("usages: [server, client]: a member dials others, and itself, with it"),
            );
        }
    }
}

/// The kubelet, and what it calls its node.
fn kubelet(cx: &Context<'_>, model: &Model, group: &Group, findings: &mut Findings) {
    let setting = |key: &str| model.entity(&["kubelet", &group.key, "config", key]);
    let mut wrong = |key: &str, good: &dyn Fn(&Value) -> bool, why: &str, help: &str| {
        let path = ["kubelet", group.key.as_str(), "config", key];
        match setting(key) {
            Some(entity) if good(&entity.body.to_value()) => {}
            Some(entity) => {
                let text = format!("{} is {}: {why}", path.join("."), super::shown(&entity.body));
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

fn network_host(cx: &Context<'_>, at: usize) -> String {
    let net = cx.config.network.service_cidr.parse::<ipnet::IpNet>().ok();
    // The first host is the first address behind the network's own.
    net.and_then(|n| n.hosts().nth(at - 1)).map(|a| a.to_string()).unwrap_or_default()
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

/// The load balancer asks the port that the API server listens on.
fn load_balancer(model: &Model, findings: &mut Findings) {
    if let Some(port) = text(model, "apiServer", "secure-port").filter(|p| p != "6443")
        && let Some(entity) = setter(model, "apiServer", "secure-port")
    {
        let text = format!(
            "the API server would listen on {port}, and load balancers and machines ask for it on 6443"
        );
        let finding = Finding::fatal("boot/port", text);
        findings.push(
            about(finding, &["apiServer", "flags", "secure-port"], entity).help("leave it at 6443"),
        );
    }
    for (section, port) in [("controllerManager", "10257"), ("scheduler", "10259")] {
        if let Some(found) = text(model, section, "secure-port").filter(|p| p != port)
            && let Some(entity) = setter(model, section, "secure-port")
        {
            let text =
                format!("{section} would answer on {found}, and its health is asked for on {port}");
            findings.push(about(
                Finding::fatal("boot/port", text),
                &[section, "flags", "secure-port"],
                entity,
            ));
        }
    }
}

/// What lets a node join must be applied first.
fn bootstrap(model: &Model, findings: &mut Findings) {
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
fn addons(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
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

/// Machines fetch programs and images: without a way out they need a mirror.
fn ways_out(cx: &Context<'_>, findings: &mut Findings) {
    let network = &cx.config.network;
    if network.nat == Nat::None && cx.config.assets.mirror.is_none() {
        let text = "machines have no way out (network.nat: none), and programs and images come from the internet";
        let finding = Finding::warning("boot/no-way-out", text).about("network.nat");
        findings.push(finding.help("name a mirror that they reach (assets.mirror), or accept this where your VPC has a way"));
    }
}

/// A hook that nobody completes holds every termination until it times out.
fn hooks(model: &Model, findings: &mut Findings) {
    model.walk(&["stacks"], &mut |path, entity| {
        let body = entity.body.to_value();
        if body["Type"] == "AWS::AutoScaling::LifecycleHook"
            && body["Metadata"]["kaws"]["completedBy"].is_null()
        {
            let text = format!(
                "nothing completes the lifecycle hook {}: each machine waits for its timeout",
                path.last().copied().unwrap_or_default()
            );
            let finding = about(Finding::warning("boot/lifecycle-hook", text), path, entity);
            findings.push(finding.help("say who does: Metadata: {kaws: {completedBy: NAME}}"));
        }
    });
}

/// The cloud controller refuses a machine with two groups of the cluster, or none.
fn security_groups(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let tag = format!("kubernetes.io/cluster/{}", cx.config.name);
    let mut tagged: BTreeSet<(String, String)> = BTreeSet::new();
    model.walk(&["stacks"], &mut |path, entity| {
        let body = entity.body.to_value();
        let tags = body["Properties"]["Tags"].as_array().cloned().unwrap_or_default();
        if body["Type"] == "AWS::EC2::SecurityGroup"
            && tags.iter().any(|t| t["Key"] == tag.as_str())
            && let [_, stack, "resources", id] = path
        {
            tagged.insert(((*stack).to_owned(), (*id).to_owned()));
        }
    });
    for group in cx.groups.iter().filter(|g| g.role != Role::Etcd) {
        let path = ["stacks", group.stack.as_str(), "resources", "LaunchTemplate"];
        let Some(entity) = model.entity(&path) else { continue };
        let body = entity.body.to_value();
        let interfaces = &body["Properties"]["LaunchTemplateData"]["NetworkInterfaces"];
        let groups = interfaces[0]["Groups"].as_array().cloned().unwrap_or_default();
        let count = groups.iter().filter(|g| tagged.contains(&named(g, &group.stack))).count();
        if count != 1 {
            let text = format!(
                "machines of {} have {count} security groups with the cluster's tag, and must have one",
                group.label()
            );
            findings.push(
                about(Finding::fatal("boot/security-group", text), &path, entity)
                    .help("the cloud controller puts load balancers' rules into the tagged group"),
            );
        }
    }
}

/// The stack and resource that a group in a launch template is.
fn named(group: &Value, stack: &str) -> (String, String) {
    if let Some((other, output)) = group["$output"].as_str().and_then(|o| o.split_once('.')) {
        return (other.to_owned(), output.to_owned());
    }
    let id = group["Fn::GetAtt"][0].as_str().or_else(|| group["Ref"].as_str());
    (stack.to_owned(), id.unwrap_or_default().to_owned())
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
