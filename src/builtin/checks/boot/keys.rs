//! Keys and certificates: who reads which, who signs, and what they are valid for.

use super::super::about;
use crate::builtin::group::filled_texts;
use crate::finding::{Finding, Findings};
use crate::model::{Model, placeholders};
use crate::name::did_you_mean;
use crate::pki::{File, Requests, files, matches};
use crate::plugin::Context;

/// Checks them all.
pub(super) fn keys(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let requests = Requests::of(model, cx.config);
    readers(cx, model, &requests, findings);
    authorities(&requests, findings);
    names(cx, model, &requests, findings);
}

/// The names and addresses that the API server's certificate has.
pub(super) fn names_of_the_api(cx: &Context<'_>, model: &Model) -> Vec<String> {
    let requests = Requests::of(model, cx.config);
    let request = requests.certificates.get("apiserver");
    let sans = request.into_iter().flat_map(|r| &r.sans).filter_map(serde_json::Value::as_str);
    sans.map(str::to_owned).collect()
}

/// A machine reads what its role may read, and what is minted at all.
fn readers(cx: &Context<'_>, model: &Model, requests: &Requests, findings: &mut Findings) {
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
