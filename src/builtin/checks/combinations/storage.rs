//! Where objects are kept, and what is encrypted there.

use base64::Engine as _;
use serde_json::Value;

use super::{API, Rules};
use crate::builtin::checks::about;
use crate::finding::Finding;

/// What lies in etcd and is no object of the API: it cannot be encrypted.
const NO_OBJECTS: [&str; 3] =
    ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];
/// Providers, and the lengths of their keys in bytes.
const KEYS: [(&str, &[usize]); 3] =
    [("aescbc", &[16, 24, 32]), ("aesgcm", &[16, 24, 32]), ("secretbox", &[32])];

impl Rules<'_, '_> {
    pub(super) fn etcd(&mut self) {
        if !self.has("etcd-servers") {
            let said = "kube-apiserver needs --etcd-servers, and nobody sets it";
            self.lacks("etcd-servers", said, "take the patch away that removes it");
        }
        let flag = "etcd-servers-overrides";
        for item in self.items(flag) {
            let resource = item.name.split_once('#').filter(|(resource, servers)| {
                resource.contains('/')
                    && servers.split(';').all(|server| server.starts_with("http"))
            });
            if resource.is_none() {
                let said =
                    format!("--{flag} has `{}`, and each is GROUP/RESOURCE#URL;URL", item.name);
                self.refuse_item(&item, said, "write /events#https://HOST:2379");
            }
        }
        let reload = "encryption-provider-config-automatic-reload";
        if self.text(reload).as_deref() == Some("true") && !self.has("encryption-provider-config") {
            let said = format!("--{reload} needs --encryption-provider-config");
            let help = "nothing would be encrypted: leave both, or take out both";
            self.refuse(reload, None, said, help);
        }
    }

    /// Rules are read in the order of their names, and none may hide a later one.
    pub(super) fn encryption(&mut self) {
        let mut earlier: Vec<(String, String)> = Vec::new();
        for (name, entity) in self.model.entities(&[API, "encryption"]) {
            let body = entity.body.to_value();
            let mut said: Vec<(String, String)> = Vec::new();
            let own = texts(&body["resources"]);
            for resource in &own {
                said.extend(resource_fault(resource));
                let hides = |other: &str| other == "*.*" || other == all_of_its_group(resource);
                if let Some((by, other)) = earlier.iter().find(|(_, other)| hides(other)) {
                    said.push((
                        format!("it would not be asked for {resource}: {by} is before it, and has {other}"),
                        format!("name it so that it comes before {by}"),
                    ));
                }
                let within = |other: &&String| *other != resource && hides(other);
                if let Some(other) = own.iter().find(within) {
                    said.push((
                        format!("{resource} is in {other}, which it names too"),
                        "name one of them".to_owned(),
                    ));
                }
            }
            for provider in body["providers"].as_array().into_iter().flatten() {
                said.extend(self.provider_fault(provider));
            }
            let path = [API, "encryption", name];
            for (fault, help) in said {
                let text = format!("the encryption rule {name} is refused: {fault}");
                let finding = Finding::fatal("flags/encryption", text);
                self.findings.push(about(finding, &path, entity).help(help));
            }
            earlier.extend(own.into_iter().map(|resource| (name.to_owned(), resource)));
        }
    }

    fn provider_fault(&self, provider: &Value) -> Option<(String, String)> {
        let fault = |text: String, help: &str| Some((text, help.to_owned()));
        let kms = &provider["kms"];
        let version = kms["apiVersion"].as_str().unwrap_or("v1");
        if !kms.is_null() && version == "v1" && !self.gate("KMSv1") {
            return fault(
                "a KMS provider of v1, as it is unless it says, needs the gate KMSv1".to_owned(),
                "use apiVersion: v2",
            );
        }
        for (kind, lengths) in KEYS {
            for key in provider[kind]["keys"].as_array().into_iter().flatten() {
                let secret = key["secret"].as_str().unwrap_or_default();
                // What deploy fills in has the right length.
                if secret.contains("@{") {
                    continue;
                }
                let bytes = base64::engine::general_purpose::STANDARD.decode(secret);
                if bytes.is_ok_and(|bytes| lengths.contains(&bytes.len())) {
                    continue;
                }
                let wanted: Vec<String> = lengths.iter().map(ToString::to_string).collect();
                let text = format!("a key of {kind} is no base64 of {} bytes", wanted.join(", "));
                return fault(text, "let deploy make it: keys: {$pki: encryption}");
            }
        }
        None
    }
}

/// What is wrong with a resource's name in a rule of encryption.
fn resource_fault(resource: &str) -> Option<(String, String)> {
    let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (text, help) = if resource == "*" {
        ("`*` is no resource", "write *. for the core group, or *.* for everything")
    } else if group == "*" && name != "*" {
        ("one resource cannot be encrypted across groups", "write *.*, or name the group")
    } else if group == "events.k8s.io" {
        ("events of events.k8s.io are kept as those of the core group", "write events")
    } else if group == "extensions" {
        ("the group extensions is gone", "name the group that has it now")
    } else if resource.chars().any(char::is_uppercase) {
        ("resources are written small", "write it in small letters")
    } else if NO_OBJECTS.contains(&resource) {
        ("this is no object of the API", "leave it out")
    } else {
        return None;
    };
    Some((format!("{resource}: {text}"), help.to_owned()))
}

/// `*.apps` for `deployments.apps`, `*.` for `secrets`.
fn all_of_its_group(resource: &str) -> String {
    format!("*.{}", resource.split_once('.').map_or("", |(_, group)| group))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
