//! What is written of Kubernetes' own configuration: a component reads its types, and leaves out or refuses
//! everything else.

use super::super::about;
use crate::config::{Group, Role};
use crate::finding::{Finding, Findings};
use crate::kubernetes::{Fault, faults, field_faults};
use crate::model::{Entity, Model};
use crate::plugin::Context;
use crate::value::Node;

/// Parts of the model that are a type of Kubernetes: where the entities are, which key of them, the type.
const PARTS: [(&[&str], Option<&str>, &str); 6] = [
    (&["apiServer", "authentication", "jwt"], None, "JWTAuthenticator"),
    (&["apiServer", "authorization", "webhooks"], Some("webhook"), "WebhookConfiguration"),
    (&["apiServer", "audit"], Some("rule"), "PolicyRule"),
    (&["apiServer", "encryption"], Some("providers"), "[]ProviderConfiguration"),
    (&["scheduler", "profiles"], None, "KubeSchedulerProfile"),
    (&["kubeProxy", "config"], None, "KubeProxyConfiguration"),
];

/// Checks all of it.
pub(super) fn settings(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let mut reading = Reading { minor: cx.config.kubernetes_minor(), findings };
    for (path, key, kind) in PARTS {
        for (name, entity) in model.entities(path) {
            let path = [path, &[name]].concat();
            match key {
                Some(key) => {
                    if let Some(body) = entity.body.get(key) {
                        reading.entity(kind, &[&path[..], &[key]].concat(), entity, body);
                    }
                }
                // The entities of these are the fields themselves.
                None if kind.ends_with("Configuration") => {
                    reading.field((kind, name), &path, "kubeProxy.config", entity);
                }
                None => reading.entity(kind, &path, entity, &entity.body),
            }
        }
    }
    for group in cx.groups.iter().filter(|group| group.role != Role::Etcd) {
        kubelet(model, group, &mut reading);
    }
}

fn kubelet(model: &Model, group: &Group, reading: &mut Reading<'_>) {
    let path = ["kubelet", group.key.as_str(), "config"];
    for key in model.names(&path) {
        let path = [&path[..], &[key]].concat();
        if let Some(entity) = model.entity(&path) {
            // Said once, for all the groups that have it from one line.
            reading.field(("KubeletConfiguration", key), &path, "kubelet.config", entity);
        }
    }
}

/// Adds what is wrong to a finding, at the line itself.
fn said(minor: u32, setting: &str, fault: Fault, node: &Node, finding: Finding) -> Finding {
    let none = format!("Kubernetes 1.{minor} has no setting {setting}");
    let (message, help) = match fault {
        Fault::Unknown(near) => (none, near.map(|near| format!("did you mean {near}?"))),
        Fault::Later(since) => {
            let help = "leave it out, or raise kubernetesVersion".to_owned();
            (format!("{none}: it came with 1.{since}"), Some(help))
        }
        Fault::Gone(removed) => {
            (format!("{none}: it went with 1.{removed}"), Some("leave it out".to_owned()))
        }
        Fault::Kind(wanted) => (format!("{setting} takes {wanted}"), None),
    };
    let at = if node.key_origin().has_text() { finding.at(node.key_origin()) } else { finding };
    let finding = Finding { message, ..at };
    match help {
        Some(help) => finding.help(help),
        None => finding,
    }
}

fn about_it(path: &[&str], entity: &Entity) -> Finding {
    about(Finding::fatal("boot/setting", ""), path, entity)
}

struct Reading<'f> {
    minor: u32,
    findings: &'f mut Findings,
}

impl Reading<'_> {
    /// An entity that is one field of a type; `above` is what is said of where it stands.
    fn field(&mut self, (kind, name): (&str, &str), path: &[&str], above: &str, entity: &Entity) {
        let Self { minor, findings } = self;
        field_faults(kind, *minor, name, &entity.body, &mut |inner, node, fault| {
            let setting = format!("{above}.{}", inner.join("."));
            findings.push(said(*minor, &setting, fault, node, about_it(path, entity)));
        });
    }

    /// An entity that is a value of a type, or has one in it.
    fn entity(&mut self, kind: &str, path: &[&str], entity: &Entity, body: &Node) {
        let Self { minor, findings } = self;
        faults(kind, *minor, body, &mut |inner, node, fault| {
            let setting = [path, inner].concat().join(".");
            findings.push(said(*minor, &setting, fault, node, about_it(path, entity)));
        });
    }
}
