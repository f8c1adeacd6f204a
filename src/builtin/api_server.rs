//! `api-server`: flags, issuers, authorisers, admission, encryption and audit rules become the static pod
//! of kube-apiserver and its configuration files.

use serde_json::{Value, json};

use super::static_pod::{Pod, file};
use crate::config::Os;
use crate::finding::{Findings, Outcome};
use crate::model::{HostVolumeForm, Model};
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Path};

/// The folder of its configuration files.
const FOLDER: &str = "/etc/kubernetes/apiserver";

/// What anybody may ask for: load balancers ask for health, and have no name.
pub(super) const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct ApiServer;

impl Plugin for ApiServer {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        authentication(cx, model, &mut out);
        authorization(cx, model, &mut out);
        admission(cx, model, &mut out);
        audit(cx, model, &mut out);
        encryption(cx, model, &mut out);
        // The system's authorities, and what its list of them leads to.
        let behind = match cx.config.control_plane.image.os {
            Os::Al2023 => "/etc/pki",
            _ => "/usr/share/ca-certificates",
        };
        let mut volumes = vec![
            volume("config", FOLDER, true, "Directory"),
            volume("pki", "/etc/kubernetes/pki", true, "Directory"),
            volume("audit", "/var/log/kubernetes/audit", false, "DirectoryOrCreate"),
            volume("certs", "/etc/ssl/certs", true, "DirectoryOrCreate"),
            volume("certs-behind", behind, true, "DirectoryOrCreate"),
        ];
        volumes.extend(model.entities(&["apiServer", "volumes"]).filter_map(|(name, e)| {
            Some((name.to_owned(), serde_json::from_value(Node::to_value(&e.body)).ok()?))
        }));
        Pod { name: "kube-apiserver", section: "apiServer", port: 6443, volumes }
            .put(cx, model, &mut out);
        // What keeps a component from starting is said before anything is made of it.
        let mut findings = Findings::new();
        super::checks::flags(cx, model, &mut findings);
        super::checks::combinations(cx, model, &mut findings);
        Outcome { value: out, findings }
    }
}

fn volume(name: &str, path: &str, read_only: bool, kind: &str) -> (String, HostVolumeForm) {
    (
        name.to_owned(),
        HostVolumeForm {
            path: path.to_owned(),
            mount_path: None,
            read_only,
            kind: kind.to_owned(),
        },
    )
}

/// Health is for everybody; everything else is for those who say who they are.
fn authentication(cx: &Context<'_>, model: &Model, out: &mut Rendering) {
    let conditions: Vec<Value> = HEALTH.iter().map(|p| json!({"path": p})).collect();
    let jwt: Vec<Value> = bodies(model, &["apiServer", "authentication", "jwt"])
        .into_iter()
        .map(|(_, body)| body)
        .collect();
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": true, "conditions": conditions}, "jwt": jwt});
    config_file(cx, out, "authentication", &config);
}

/// Nodes first, then webhooks, then RBAC.
fn authorization(cx: &Context<'_>, model: &Model, out: &mut Rendering) {
    let mut authorizers = vec![json!({"type": "Node", "name": "node"})];
    for (name, body) in sequence(bodies(model, &["apiServer", "authorization", "webhooks"])) {
        authorizers.push(json!({"type": "Webhook", "name": name, "webhook": body["webhook"]}));
    }
    authorizers.push(json!({"type": "RBAC", "name": "rbac"}));
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers});
    config_file(cx, out, "authorization", &config);
}

fn admission(cx: &Context<'_>, model: &Model, out: &mut Rendering) {
    let plugins: Vec<Value> = bodies(model, &["apiServer", "admission", "plugins"])
        .into_iter()
        .filter_map(|(name, body)| {
            Some(json!({"name": name, "configuration": body.get("configuration")?}))
        })
        .collect();
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins});
    config_file(cx, out, "admission", &config);
}

fn audit(cx: &Context<'_>, model: &Model, out: &mut Rendering) {
    let rules: Vec<Value> = sequence(bodies(model, &["apiServer", "audit"]))
        .into_iter()
        .map(|(_, body)| body["rule"].clone())
        .collect();
    let config = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules});
    config_file(cx, out, "audit", &config);
}

/// Keys are those that deploy mints, of every generation that is accepted; the one that signs encrypts.
fn encryption(cx: &Context<'_>, model: &Model, out: &mut Rendering) {
    let resources: Vec<Value> = bodies(model, &["apiServer", "encryption"])
        .into_iter()
        .map(|(_, mut body)| {
            for provider in body["providers"].as_array_mut().into_iter().flatten() {
                let Some(keys) = provider.pointer_mut("/secretbox/keys") else { continue };
                if let Some(name) = keys.get("$pki").and_then(Value::as_str) {
                    *keys = secretbox_keys(cx, name);
                }
            }
            body
        })
        .collect();
    if !resources.is_empty() {
        let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources});
        config_file(cx, out, "encryption", &config);
    }
}

fn secretbox_keys(cx: &Context<'_>, name: &str) -> Value {
    let generations = cx.config.pki.keys.get(name).cloned().unwrap_or_default();
    let mut all = generations.accepted();
    // Only the first encrypts.
    all.sort_by_key(|generation| (*generation != generations.signs, *generation));
    let key = |generation: &u32| json!({"name": format!("{name}-{generation}"), "secret": format!("@{{pki {name}.{generation}.key}}")});
    all.iter().map(key).collect()
}

/// Writes the file that a part of `apiServer` becomes.
fn config_file(cx: &Context<'_>, out: &mut Rendering, part: &str, config: &Value) {
    file(cx, out, &format!("{FOLDER}/{part}.yaml"), config, &[Path::of(["apiServer", part])]);
}

fn bodies(model: &Model, path: &[&str]) -> Vec<(String, Value)> {
    model.entities(path).map(|(name, e)| (name.to_owned(), e.body.to_value())).collect()
}

/// Returns entities in an order in which each comes after those it names; ties go by name.
fn sequence(mut left: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let mut done: Vec<(String, Value)> = Vec::new();
    while !left.is_empty() {
        let waits = |body: &Value| {
            let after = body.get("after").and_then(Value::as_array).cloned().unwrap_or_default();
            after
                .iter()
                .any(|other| left.iter().any(|(name, _)| Some(name.as_str()) == other.as_str()))
        };
        // In a circle nobody can be first: the names decide, and every reader sees the same.
        let next = left.iter().position(|(_, body)| !waits(body)).unwrap_or(0);
        done.push(left.remove(next));
    }
    done
}
