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

/// Checks the files and units of a group; `names` are those that the API server's certificate has.
pub(super) fn files(
    cx: &Context<'_>,
    model: &Model,
    group: &Group,
    names: &[String],
    findings: &mut Findings,
) {
    for part in ["files", "units"] {
        for (name, entity) in model.entities(&["machines", &group.key, part]) {
            let Some(text) = entity.body.get("content").and_then(Node::as_str) else { continue };
            let path = ["machines", group.key.as_str(), part, name];
            let mut file = Text { cx, group, path: &path, entity, findings };
            if part == "files" {
                file.config(text, names);
            } else {
                file.unit(text, &dropins(model, &group.key, name));
            }
        }
    }
}

/// What is dropped into a unit.
fn dropins(model: &Model, group: &str, unit: &str) -> String {
    let all = model.entities(&["machines", group, "dropins"]);
    let own = all.filter(|(name, _)| name.split_once('/').is_some_and(|(of, _)| of == unit));
    own.filter_map(|(_, entity)| entity.body.get("content").and_then(Node::as_str)).collect()
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
        self.say(Finding::fatal(code, text), help);
    }

    fn say(&mut self, finding: Finding, help: &str) {
        let finding = about(finding, self.path, self.entity);
        self.findings.push(finding.help(help.to_owned()));
    }

    fn name(&self) -> &str {
        self.path.last().copied().unwrap_or_default()
    }

    fn config(&mut self, text: &str, names: &[String]) {
        let name = self.name().to_owned();
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        if name == "/etc/containerd/config.toml" && !plain.contains("SystemdCgroup=true") {
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
            self.kubeconfig(text, names);
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

    /// Whoever trusts the cluster's authority asks for the API under a name that its certificate has.
    fn kubeconfig(&mut self, text: &str, names: &[String]) {
        let Ok(object) = serde_yaml::from_str::<Value>(text) else { return };
        let usual = match self.group.role {
            Role::Controller => "https://127.0.0.1:6443".to_owned(),
            _ => format!("https://{}", self.cx.config.endpoint()),
        };
        for cluster in object["clusters"].as_array().into_iter().flatten() {
            let cluster = &cluster["cluster"];
            let server = cluster["server"].as_str().unwrap_or_default();
            let host = server.split("://").last().unwrap_or_default();
            let host = host.split(['/', ':']).next().unwrap_or_default();
            let known = names.iter().any(|name| name == host);
            // One that trusts others is of another cluster, or of a webhook.
            if cluster["certificate-authority"] == AUTHORITY && !known && !server.contains("@{") {
                let said = format!(
                    "{} asks {server} for the API, and its certificate does not have this name",
                    self.name()
                );
                let help = format!(
                    "write server: {usual}, or add the name to pki.certificates.apiserver.sans"
                );
                self.refuse("boot/kubeconfig", said, &help);
            }
        }
    }

    /// What systemd would refuse or leave out.
    fn unit(&mut self, text: &str, dropins: &str) {
        let name = self.name().to_owned();
        for line in lines(text).filter(|line| !line.starts_with('[') && !line.contains('=')) {
            let said = format!("{name} has the line `{line}`, which systemd leaves out");
            let help = "lines are [Section], Key=value or # a comment";
            self.say(Finding::warning("boot/unit", said), help);
        }
        let whole = format!("{text}\n{dropins}");
        let has = |key: &str| {
            lines(&whole).any(|line| line.split('=').next().is_some_and(|k| k.trim_end() == key))
        };
        let once = lines(&whole).any(|line| line.replace(' ', "") == "Type=oneshot");
        if name.ends_with(".service") && !has("ExecStart") && !(once && has("ExecStop")) {
            let said = format!("{name} has no ExecStart in [Service]: systemd refuses it");
            self.refuse("boot/unit", said, "say what it runs");
        }
        let elapses = lines(&whole).any(|line| line.starts_with("On") && line.contains('='));
        if name.ends_with(".timer") && !elapses {
            let said = format!("{name} has no On… in [Timer]: systemd refuses it");
            self.refuse("boot/unit", said, "say when it elapses: OnCalendar=daily");
        }
    }
}

/// The lines of a unit, without comments and what continues a line before.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut continued = false;
    text.lines().map(str::trim).filter(move |line| {
        let comment = line.is_empty() || line.starts_with(['#', ';']);
        let own = !comment && !continued;
        if !comment {
            continued = line.ends_with('\\');
        }
        own
    })
}

/// A key of an object in YAML, on a line of its own, or in JSON's form with all in braces. Reading whole files
/// would take longer than all else that is checked.
fn top<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let part = |text: &'a str| {
        let text = text.trim_start().trim_start_matches(['"', '\'']).strip_prefix(key)?;
        text.trim_start_matches(['"', '\'']).strip_prefix(':')
    };
    let found = match text.trim_start().strip_prefix('{') {
        Some(inside) => inside.split(',').find_map(part)?,
        None => text.lines().filter(|line| !line.starts_with(' ')).find_map(part)?,
    };
    let value = found.split(" #").next().unwrap_or_default();
    Some(value.trim().trim_matches(['"', '\'', '}']))
}
