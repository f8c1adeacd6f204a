//! `kube-proxy`: its configuration becomes a ConfigMap, beside the DaemonSet that its manifest declares.

use serde_json::{Map, Value, json};

use crate::finding::Outcome;
use crate::model::Model;
use crate::origin::{Origin, SourceFile};
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Path, Style, write};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct KubeProxy;

impl Plugin for KubeProxy {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let mut config: Map<String, Value> = model
            .entities(&["kubeProxy", "config"])
            .map(|(key, e)| (key.to_owned(), e.body.to_value()))
            .collect();
        config.insert("apiVersion".to_owned(), "kubeproxy.config.k8s.io/v1alpha1".into());
        config.insert("kind".to_owned(), "KubeProxyConfiguration".into());
        let origin = Origin::file_start(&SourceFile::new("kube-proxy", ""));
        let text = write(&Node::from_value(Value::Object(config), &origin), &Style::plain());
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": text},
            "metadata": {"name": "kube-proxy", "namespace": "kube-system"}});
        let body = json!({"phase": "cni", "objects": {"config": object}});
        out.contribution
            .put(cx.me.name.as_str(), ["manifests", "kube-proxy-config"], body)
            .from(Path::of(["kubeProxy", "config"]));
        Outcome::clean(out)
    }
}
