//! What lies on machines: kubeconfigs, configurations of components, and units, as far as they can be read here.

use serde_json::Value;

use super::super::about;
use crate::config::{Group, Role};
use crate::finding::{Finding, Findings};
use crate::kubernetes;
use crate::model::{Entity, Model};
use crate::plugin::Context;
use crate::value::Node;

/// The folder of what all clients of the API server have.
const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";

/// Checks the files and units of a group.
pub(super) fn files(cx: &Context<'_>, model: &Model, group: &Group, findings: &mut Findings) {
    for part in ["files", "units"] {
        for (name, entity) in model.entities(&["machines", &group.key, part]) {
            let Some(text) = entity.body.get("content").and_then(Node::as_str) else { continue };
            let path = ["machines", group.key.as_str(), part, name];
            let mut file = Text { cx, group, path: &path, entity, findings };
            if part == "units" {
                file.unit(text);
            } else {
                file.config(text);
            }
        }
    }
}

struct Text<'a, 'f> {
    cx: &'a Context<'a>,
    group: &'a Group,
    path: &'a [&'a str],
    entity: &'a Entity,
    findings: &'f mut Findings,
}

impl Text<'_, '_> {
    fn refuse(&mut self, code: &str, text: String, help: &str) {
        let finding = about(Finding::fatal(code, text), self.path, self.entity);
        self.findings.push(finding.help(help.to_owned()));
    }

    fn name(&self) -> &str {
        self.path.last().copied().unwrap_or_default()
    }

    fn config(&mut self, text: &str) {
        let name = self.name().to_owned();
        if name == "/etc/containerd/config.toml" && !says(text, "SystemdCgroup", "true") {
            let said = format!(
                "{name} does not say SystemdCgroup = true: the kubelet and containerd would count differently"
            );
            self.refuse("boot/containerd", said, "write SystemdCgroup = true for the runtime runc");
        }
        if !text.contains("apiVersion") {
            return;
        }
        let kind = top(text, "kind").unwrap_or_default();
        let version = top(text, "apiVersion").unwrap_or_default();
        if kind == "Config" && version == "v1" {
            self.kubeconfig(text);
        }
        if let Some(known) = kubernetes::config_versions(kind)
            && !known.contains(&version)
            && (kind != "Policy" || version.starts_with("audit."))
        {
            let minor = self.cx.config.kubernetes_minor();
            let said = format!("{name} is a {kind} of {version}, which 1.{minor} does not read");
            self.refuse("boot/config-version", said, &format!("write apiVersion: {}", known[0]));
        }
    }

    /// Controllers ask their own API server; other machines ask for the cluster's.
    fn kubeconfig(&mut self, text: &str) {
        let Ok(object) = serde_yaml::from_str::<Value>(text) else { return };
        let wanted = match self.group.role {
            Role::Controller => "https://127.0.0.1:6443".to_owned(),
            _ => format!("https://{}", self.cx.config.endpoint()),
        };
        for cluster in object["clusters"].as_array().into_iter().flatten() {
            let cluster = &cluster["cluster"];
            let server = cluster["server"].as_str().unwrap_or_default();
            // One that trusts others is of another cluster, or of a webhook.
            if cluster["certificate-authority"] == AUTHORITY && server != wanted {
                let said = format!(
                    "{} asks {server} for the API, and machines of {} reach it at {wanted}",
                    self.name(),
                    self.group.label()
                );
                self.refuse("boot/kubeconfig", said, &format!("write server: {wanted}"));
            }
        }
    }

    /// What systemd would refuse or leave out.
    fn unit(&mut self, text: &str) {
        let name = self.name().to_owned();
        let mut section = "";
        let mut started = false;
        let mut once = false;
        let mut elapses = false;
        let mut continued = false;
        for line in text.lines() {
            let trimmed = line.trim();
            let comment = trimmed.starts_with(['#', ';']);
            if continued && !comment {
                continued = trimmed.ends_with('\\');
                continue;
            }
            if trimmed.is_empty() || comment {
                continue;
            }
            continued = trimmed.ends_with('\\');
            if let Some(named) = trimmed.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                section = named;
            } else if let Some((key, value)) = trimmed.split_once('=') {
                let key = key.trim_end();
                started |= section == "Service" && key == "ExecStart";
                once |= section == "Service" && key == "Type" && value.trim() == "oneshot";
                elapses |= section == "Timer" && key.starts_with("On");
            } else {
                let said = format!("{name} has the line `{trimmed}`, which systemd leaves out");
                self.refuse("boot/unit", said, "lines are [Section], Key=value or # a comment");
            }
        }
        if name.ends_with(".service") && !started && !(once && text.contains("ExecStop=")) {
            let said = format!("{name} has no ExecStart in [Service]: systemd refuses it");
            self.refuse("boot/unit", said, "say what it runs");
        }
        if name.ends_with(".timer") && !elapses {
            let said = format!("{name} has no On… in [Timer]: systemd refuses it");
            self.refuse("boot/unit", said, "say when it elapses: OnCalendar=daily");
        }
    }
}

/// Whether a TOML text has a key with a value.
fn says(text: &str, key: &str, value: &str) -> bool {
    let mut pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.any(|(k, v)| k.trim() == key && v.trim() == value)
}

/// A key of an object in YAML, on a line of its own, or in JSON's form with all in braces. Reading whole files
/// would take longer than all else that is checked.
fn top<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let part = |text: &'a str| text.trim_start().strip_prefix(key)?.strip_prefix(':');
    let found = match text.trim_start().strip_prefix('{') {
        Some(inside) => inside.split(',').find_map(part)?,
        None => text.lines().filter(|line| !line.starts_with(' ')).find_map(part)?,
    };
    Some(found.trim().trim_matches(['"', '\'', '}']))
}
