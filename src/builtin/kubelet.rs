//! `kubelet`: its configuration, labels and taints become files on the nodes; what differs between pools
//! stands in a file of its own.

use serde_json::{Map, Value, json};

use crate::config::{Group, Role};
use crate::finding::Outcome;
use crate::model::{Branch, Model};
use crate::origin::{Origin, SourceFile};
use crate::plugin::{Artifacts, Context, Contribution, Plugin, Rendering};
use crate::value::{Node, Path, Style, write};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Kubelet;

impl Plugin for Kubelet {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        for group in cx.nodes() {
            config(cx, model, group, &mut out.contribution);
            labels(cx, model, group, &mut out.contribution);
        }
        Outcome::clean(out)
    }
}

fn config(cx: &Context<'_>, model: &Model, group: &Group, out: &mut Contribution) {
    let mut config: Map<String, Value> = Map::new();
    for key in model.names(&["kubelet", &group.key, "config"]) {
        let value = match model.branch(&["kubelet", &group.key, "config", key]) {
            Some(Branch::Leaf(entity)) => entity.body.to_value(),
            _ => model
                .entities(&["kubelet", &group.key, "config", key])
                .map(|(k, e)| (k.to_owned(), e.body.to_value()))
                .collect(),
        };
        config.insert(key.to_owned(), value);
    }
    header(&mut config);
    put(cx, out, group, "/var/lib/kubelet/config.yaml", config, "config");
    // The kubelet reads only *.conf of that folder, and does not start where the folder is missing.
    let mut own = Map::new();
    let taints = taints(cx, model, group);
    if !taints.is_empty() {
        own.insert("registerWithTaints".to_owned(), taints.into());
    }
    header(&mut own);
    put(cx, out, group, "/var/lib/kubelet/config.d/10-pool.conf", own, "taints");
}

fn header(config: &mut Map<String, Value>) {
    config.insert("apiVersion".to_owned(), "kubelet.config.k8s.io/v1beta1".into());
    config.insert("kind".to_owned(), "KubeletConfiguration".into());
}

fn put(
    cx: &Context<'_>,
    out: &mut Contribution,
    group: &Group,
    path: &str,
    config: Map<String, Value>,
    part: &str,
) {
    let origin = Origin::file_start(&SourceFile::new("kubelet", ""));
    let style = Style {
        first_keys: &|path| if path.is_empty() { &["apiVersion", "kind"] } else { &[] },
        ..Style::plain()
    };
    let content = write(&Node::from_value(Value::Object(config), &origin), &style);
    let fill = crate::model::has_placeholder(&content);
    let made = out.put(
        cx.me.name.as_str(),
        ["machines", &group.key, "files", path],
        json!({"content": content, "fill": fill}),
    );
    made.from(Path::of(["kubelet", group.key.as_str(), part]));
}

/// The pool's own taints, and those that plugins add.
fn taints(cx: &Context<'_>, model: &Model, group: &Group) -> Vec<Value> {
    let mut all: Map<String, Value> = Map::new();
    let pool = group.pool.as_ref().and_then(|p| cx.config.node_pools.get(p));
    for (key, taint) in pool.into_iter().flat_map(|p| &p.taints) {
        all.insert(key.clone(), serde_json::to_value(taint).unwrap_or_default());
    }
    for (key, entity) in model.entities(&["kubelet", &group.key, "taints"]) {
        all.insert(key.to_owned(), entity.body.to_value());
    }
    if group.role == Role::Controller {
        let key = "node-role.kubernetes.io/control-plane";
        all.entry(key).or_insert_with(|| json!({"effect": "NoSchedule"}));
    }
    all.into_iter()
        .map(|(key, mut taint)| {
            if let Some(map) = taint.as_object_mut() {
                map.insert("key".to_owned(), key.into());
            }
            taint
        })
        .collect()
}

/// Labels go to the kubelet's command line, through the environment of its unit.
fn labels(cx: &Context<'_>, model: &Model, group: &Group, out: &mut Contribution) {
    let mut all: std::collections::BTreeMap<String, String> = group
        .pool
        .as_ref()
        .and_then(|p| cx.config.node_pools.get(p))
        .map(|p| p.labels.clone())
        .unwrap_or_default();
    for (key, entity) in model.entities(&["kubelet", &group.key, "labels"]) {
        all.insert(key.to_owned(), entity.body.as_str().unwrap_or_default().to_owned());
    }
    if let Some(pool) = &group.pool {
        all.insert("kaws.dev/pool".to_owned(), pool.clone());
    }
    let labels: Vec<String> = all.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let content = format!("KUBELET_LABELS={}\n", labels.join(","));
    let made = out.put(
        cx.me.name.as_str(),
        ["machines", &group.key, "files", "/etc/kaws/kubelet.env"],
        json!({"content": content}),
    );
    made.from(Path::of(["kubelet", group.key.as_str(), "labels"]));
}
