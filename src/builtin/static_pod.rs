//! Static pods of the control plane: flags of the model become a container's arguments.
//!
//! `controller-manager` and `scheduler` are no more than that; `api-server` adds its configuration files.

use serde_json::{Value, json};

use crate::config::{Group, Role};
use crate::finding::Outcome;
use crate::model::{Branch, FlagKind, HostVolumeForm, Model, flag_kind};
use crate::origin::{Origin, SourceFile};
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Path, Style, write};

/// The native part of `controller-manager`.
#[derive(Debug)]
pub(super) struct ControllerManager;

/// The native part of `scheduler`.
#[derive(Debug)]
pub(super) struct Scheduler;

impl Plugin for ControllerManager {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let pod = Pod {
            name: "kube-controller-manager",
            section: "controllerManager",
            port: 10257,
            volumes: volumes(&[
                ("pki", "/etc/kubernetes/pki"),
                ("kubeconfig", "/etc/kubernetes/controller-manager.kubeconfig"),
            ]),
        };
        pod.put(cx, model, &mut out);
        Outcome::clean(out)
    }
}

impl Plugin for Scheduler {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let profiles: Vec<Value> = model
            .entities(&["scheduler", "profiles"])
            .map(|(name, e)| {
                let mut profile = e.body.to_value();
                if let Some(map) = profile.as_object_mut() {
                    map.insert("schedulerName".to_owned(), name.into());
                }
                profile
            })
            .collect();
        let mut config = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.kubeconfig"}, "enableProfiling": false, "leaderElection": {"leaderElect": true}});
        if let (false, Some(map)) = (profiles.is_empty(), config.as_object_mut()) {
            map.insert("profiles".to_owned(), profiles.into());
        }
        file(
            cx,
            &mut out,
            "/etc/kubernetes/scheduler.yaml",
            &config,
            &[Path::of(["scheduler", "profiles"])],
        );
        let pod = Pod {
            name: "kube-scheduler",
            section: "scheduler",
            port: 10259,
            volumes: volumes(&[
                ("config", "/etc/kubernetes/scheduler.yaml"),
                ("kubeconfig", "/etc/kubernetes/scheduler.kubeconfig"),
            ]),
        };
        pod.put(cx, model, &mut out);
        Outcome::clean(out)
    }
}

/// One static pod.
pub(super) struct Pod {
    /// The component's name, and its image's.
    pub(super) name: &'static str,
    /// The part of the model its flags are in.
    pub(super) section: &'static str,
    /// The port of its health endpoints.
    pub(super) port: u32,
    /// What it sees of the node.
    pub(super) volumes: Vec<(String, HostVolumeForm)>,
}

fn volumes(list: &[(&str, &str)]) -> Vec<(String, HostVolumeForm)> {
    let form = |path: &str| HostVolumeForm {
        path: path.to_owned(),
        mount_path: None,
        read_only: true,
        kind: if path.contains('.') { "File" } else { "Directory" }.to_owned(),
    };
    list.iter().map(|(name, path)| ((*name).to_owned(), form(path))).collect()
}

impl Pod {
    /// Puts the pod's manifest on the controllers.
    pub(super) fn put(&self, cx: &Context<'_>, model: &Model, out: &mut Rendering) {
        let arguments = arguments(model, self.section);
        let from: Vec<Path> = vec![Path::of([self.section])];
        let name = self.name;
        let probe = |path: &str, threshold: u32| {
            json!({"httpGet": {"host": "127.0.0.1", "path": path, "port": self.port, "scheme": "HTTPS"},
            "failureThreshold": threshold, "periodSeconds": 10, "timeoutSeconds": 15})
        };
        let (live, ready) =
            if name == "kube-apiserver" { ("/livez", "/readyz") } else { ("/healthz", "/healthz") };
        let mut command = vec![json!(name)];
        command.extend(arguments.into_iter().map(Value::from));
        let mounts: Vec<Value> = self.volumes.iter().map(|(volume, form)| {
            json!({"name": volume, "mountPath": form.mount_path.as_ref().unwrap_or(&form.path), "readOnly": form.read_only})
        }).collect();
        let volumes: Vec<Value> = self.volumes.iter().map(|(volume, form)| {
            json!({"name": volume, "hostPath": {"path": form.path, "type": form.kind}})
        }).collect();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "kube-system", "labels": {"component": name, "tier": "control-plane"}},
            "spec": {
                "hostNetwork": true, "priorityClassName": "system-node-critical",
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": name, "image": format!("registry.k8s.io/{name}:v{}", cx.config.kubernetes_version), "command": command,
                    "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": probe(live, 8), "readinessProbe": probe(ready, 3), "startupProbe": probe(live, 30),
                    "volumeMounts": mounts,
                }],
                "volumes": volumes,
            },
        });
        file(cx, out, &format!("/etc/kubernetes/manifests/{name}.yaml"), &pod, &from);
    }
}

/// Puts a YAML file on the controllers.
pub(super) fn file(
    cx: &Context<'_>,
    out: &mut Rendering,
    path: &str,
    value: &Value,
    from: &[Path],
) {
    let Some(group) = controllers(cx) else { return };
    let origin = Origin::file_start(&SourceFile::new("pod", ""));
    let style = Style {
        first_keys: &|path| if path.is_empty() { &["apiVersion", "kind", "metadata"] } else { &[] },
        ..Style::plain()
    };
    let content = write(&Node::from_value(value.clone(), &origin), &style);
    let fill = crate::model::has_placeholder(&content);
    let mode =
        if content.contains("@{secret ") || content.contains("@{pki ") { "0600" } else { "0644" };
    let made = out.contribution.put(
        cx.me.name.as_str(),
        ["machines", &group.key, "files", path],
        json!({"content": content, "mode": mode, "fill": fill}),
    );
    for path in from {
        made.from(path.clone());
    }
}

fn controllers<'a>(cx: &Context<'a>) -> Option<&'a Group> {
    cx.groups.iter().find(|g| g.role == Role::Controller)
}

/// Returns a component's flags as arguments, sorted by name; values of lists and maps in one flag each, as
/// the table of flags says.
pub(super) fn arguments(model: &Model, section: &str) -> Vec<String> {
    let mut all = Vec::new();
    for name in model.names(&[section, "flags"]) {
        match model.branch(&[section, "flags", name]) {
            Some(Branch::Leaf(entity)) => all.push(format!("--{name}={}", text(&entity.body))),
            Some(Branch::Map(_)) => {
                let items: Vec<(&str, String)> = model
                    .entities(&[section, "flags", name])
                    .filter(|(_, e)| {
                        e.body.as_bool() != Some(false) || flag_kind(section, name) == FlagKind::Map
                    })
                    .map(|(item, e)| (item, text(&e.body)))
                    .collect();
                let pairs = |separator: &str| {
                    items
                        .iter()
                        .map(|(k, v)| format!("{k}={v}"))
                        .collect::<Vec<_>>()
                        .join(separator)
                };
                match flag_kind(section, name) {
                    FlagKind::Repeated => {
                        all.extend(items.iter().map(|(item, _)| format!("--{name}={item}")));
                    }
                    FlagKind::Map => all.push(format!("--{name}={}", pairs(","))),
                    _ => all.push(format!(
                        "--{name}={}",
                        items.iter().map(|(item, _)| *item).collect::<Vec<_>>().join(",")
                    )),
                }
            }
            None => {}
        }
    }
    all
}

/// Returns a flag's value; a reference to a certificate is the file it lies in.
fn text(body: &Node) -> String {
    body.as_str().map_or_else(|| body.to_value().to_string(), str::to_owned)
}
