//! `helm`: every release becomes two files, what to install and its values.

use serde_json::json;

use crate::finding::Outcome;
use crate::model::Model;
use crate::origin::{Origin, SourceFile};
use crate::plugin::{Artifact, Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Style, write};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Helm;

impl Plugin for Helm {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        for (name, entity) in model.entities(&["helm", "releases"]) {
            let owners = entity.owner_names().join(", ");
            let head = format!(
                "# Helm release {name} of cluster {}, from plugin {owners}.\n",
                cx.config.name
            );
            let (release, values) = parts(cx, &entity.body);
            for (file, node) in [("release", &release), ("values", &values)] {
                let text = format!("{head}{}", write(node, &Style::plain()));
                out.artifacts
                    .insert(format!("helm/{name}/{file}.yaml"), Artifact::text(&cx.me.name, &text));
            }
        }
        Outcome::clean(out)
    }
}

/// Returns a release without its values, and the values; secrets and outputs as what fills them in.
fn parts(cx: &Context<'_>, body: &Node) -> (Node, Node) {
    let nowhere = Origin::file_start(&SourceFile::new("release", ""));
    let mut release = body.clone();
    let mut values = Node::empty_map(nowhere.clone());
    if let Some(map) = release.as_map_mut() {
        values = map.remove("values").unwrap_or(values);
        let chart = map.get("chart").map(Node::to_value).unwrap_or_default();
        let text =
            |key: &str| chart.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        let pin = cx.lock.pin(&format!("chart/{}/{}", text("name"), text("version")), None);
        map.insert("digest".to_owned(), Node::from_value(json!(pin.map(|p| &p.value)), &nowhere));
    }
    (release, super::manifests::filled(&values))
}
