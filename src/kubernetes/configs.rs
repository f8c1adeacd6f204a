//! Kubernetes' configuration files: the versions of each kind that components read, and the fields of those types
//! that cluster.yaml and plugins write. The fields are in `configs.json`, which `scripts/kubernetes_configs.py` writes.
//!
//! Not here: what a setting has to be for a cluster to work (`builtin::checks`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::duration::seconds;
use crate::name::did_you_mean;
use crate::value::Node;

/// Kinds of configuration files, and the versions that components read; the first is the one to write. The same in
/// 1.34 to 1.37 (modules k8s.io/apiserver, kube-scheduler, kubelet, kube-proxy and pod-security-admission).
const CONFIG_VERSIONS: [(&str, &[&str]); 10] = [
    ("AdmissionConfiguration", &["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"]),
    (
        "AuthenticationConfiguration",
        &[
            "apiserver.config.k8s.io/v1",
            "apiserver.config.k8s.io/v1beta1",
            "apiserver.config.k8s.io/v1alpha1",
        ],
    ),
    (
        "AuthorizationConfiguration",
        &[
            "apiserver.config.k8s.io/v1",
            "apiserver.config.k8s.io/v1beta1",
            "apiserver.config.k8s.io/v1alpha1",
        ],
    ),
    (
        "CredentialProviderConfig",
        &[
            "kubelet.config.k8s.io/v1",
            "kubelet.config.k8s.io/v1beta1",
            "kubelet.config.k8s.io/v1alpha1",
        ],
    ),
    ("EncryptionConfiguration", &["apiserver.config.k8s.io/v1"]),
    ("KubeProxyConfiguration", &["kubeproxy.config.k8s.io/v1alpha1"]),
    ("KubeSchedulerConfiguration", &["kubescheduler.config.k8s.io/v1"]),
    ("KubeletConfiguration", &["kubelet.config.k8s.io/v1beta1"]),
    (
        "PodSecurityConfiguration",
        &[
            "pod-security.admission.config.k8s.io/v1",
            "pod-security.admission.config.k8s.io/v1beta1",
            "pod-security.admission.config.k8s.io/v1alpha1",
        ],
    ),
    ("Policy", &["audit.k8s.io/v1"]),
];

/// Returns the versions in which a component reads a kind of configuration file; none for other kinds.
#[must_use]
pub fn config_versions(kind: &str) -> Option<&'static [&'static str]> {
    CONFIG_VERSIONS.iter().find(|(known, _)| *known == kind).map(|(_, versions)| *versions)
}

#[derive(Debug, Deserialize)]
struct Table {
    structs: BTreeMap<String, BTreeMap<String, Field>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Field {
    /// In every minor.
    Always(String),
    /// In some.
    Sometimes { kind: String, since: Option<u32>, removed: Option<u32> },
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(include_str!("configs.json")).expect("a test reads it"));

/// Why a component does not take a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It knows no such setting; the nearest that it knows.
    Unknown(Option<String>),
    /// It knows it from a later minor on.
    Later(u32),
    /// It knows it no more, from a minor on.
    Gone(u32),
    /// The value is of another kind than `a list`, `true or false`, ….
    Kind(&'static str),
}

/// Finds what a component of a minor does not take of a value that is written as a type of its configuration
/// (`KubeletConfiguration`). `found` is called with the path within the value, the part, and the fault.
pub fn faults<'n>(
    kind: &str,
    minor: u32,
    value: &'n Node,
    found: &mut dyn FnMut(&[&'n str], &'n Node, Fault),
) {
    Reading { minor, found }.value(kind, value, &mut Vec::new());
}

/// The same of a value that is one field of a type.
pub fn field_faults<'n>(
    kind: &str,
    minor: u32,
    name: &'n str,
    value: &'n Node,
    found: &mut dyn FnMut(&[&'n str], &'n Node, Fault),
) {
    if let Some(fields) = TABLE.structs.get(kind) {
        Reading { minor, found }.field(fields, name, value, &mut vec![name]);
    }
}

struct Reading<'f, 'n> {
    minor: u32,
    found: &'f mut dyn FnMut(&[&'n str], &'n Node, Fault),
}

impl<'n> Reading<'_, 'n> {
    fn value(&mut self, kind: &str, value: &'n Node, path: &mut Vec<&'n str>) {
        // What is filled in later is not known here, and null is as good as nothing.
        let later = value.as_str().is_some_and(|text| text.contains("@{"))
            || value.as_map().is_some_and(|map| map.keys().any(|key| key.starts_with('$')));
        if later || value.is_null() || kind == "any" {
            return;
        }
        if let Some(inner) = kind.strip_prefix("[]") {
            match value.as_list() {
                Some(items) => items.iter().for_each(|item| self.value(inner, item, path)),
                None => (self.found)(path, value, Fault::Kind("a list")),
            }
        } else if let Some(inner) = kind.strip_prefix("{}") {
            self.map(value, path, |reading, _, value, path| reading.value(inner, value, path));
        } else if let Some(fields) = TABLE.structs.get(kind) {
            self.map(value, path, |reading, key, value, path| {
                reading.field(fields, key, value, path);
            });
        } else if let Some(wanted) = other(kind, value) {
            (self.found)(path, value, Fault::Kind(wanted));
        }
    }

    fn map(
        &mut self,
        value: &'n Node,
        path: &mut Vec<&'n str>,
        mut each: impl FnMut(&mut Self, &'n str, &'n Node, &mut Vec<&'n str>),
    ) {
        let Some(map) = value.as_map() else {
            return (self.found)(path, value, Fault::Kind("a map"));
        };
        for (key, value) in map {
            path.push(key);
            each(self, key, value, path);
            path.pop();
        }
    }

    fn field(
        &mut self,
        fields: &BTreeMap<String, Field>,
        key: &str,
        value: &'n Node,
        path: &mut Vec<&'n str>,
    ) {
        let fault = match fields.get(key) {
            None => Fault::Unknown(
                did_you_mean(key, fields.keys().map(String::as_str)).map(str::to_owned),
            ),
            Some(Field::Sometimes { since: Some(since), .. }) if *since > self.minor => {
                Fault::Later(*since)
            }
            Some(Field::Sometimes { removed: Some(removed), .. }) if *removed <= self.minor => {
                Fault::Gone(*removed)
            }
            Some(Field::Always(kind) | Field::Sometimes { kind, .. }) => {
                return self.value(kind, value, path);
            }
        };
        (self.found)(path, value, fault);
    }
}

/// What a scalar should be and is not.
fn other(kind: &str, value: &Node) -> Option<&'static str> {
    let json = value.to_value();
    let (fits, wanted) = match kind {
        "bool" => (json.is_boolean(), "true or false"),
        "int" => (json.is_i64() || json.is_u64(), "a whole number"),
        "float" => (json.is_number(), "a number"),
        "duration" => {
            (json.as_str().is_some_and(|t| seconds(t).is_some()), "a duration like 1h30m")
        }
        "quantity" => (json.is_string() || json.is_number(), "a quantity like 100Mi"),
        _ => (json.is_string(), "a text"),
    };
    (!fits).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_a_field_has_is_there() {
        let plain = ["any", "bool", "duration", "float", "int", "quantity", "string"];
        assert!(TABLE.structs.contains_key("KubeletConfiguration"));
        for (name, fields) in &TABLE.structs {
            for (field, row) in fields {
                let (Field::Always(kind) | Field::Sometimes { kind, .. }) = row;
                let kind = kind.trim_start_matches(['[', ']', '{', '}']);
                assert!(
                    plain.contains(&kind) || TABLE.structs.contains_key(kind),
                    "{name} {field}"
                );
            }
        }
    }
}
