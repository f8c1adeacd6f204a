//! `manifests`: Kubernetes objects become files that are applied, in the order of their phases.

use crate::finding::Outcome;
use crate::model::Model;
use crate::plugin::{Artifact, Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Style, write};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Manifests;

impl Plugin for Manifests {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        for (name, entity) in model.entities(&["manifests"]) {
            let phase = entity.body.get("phase").and_then(Node::as_str).unwrap_or("apps");
            let owners = entity.owner_names().join(", ");
            let mut text = format!(
                "# Objects of cluster {}, from plugin {owners}; phase {phase}.\n",
                cx.config.name
            );
            for (i, object) in entity
                .body
                .get("objects")
                .and_then(Node::as_map)
                .into_iter()
                .flatten()
                .map(|(_, o)| o)
                .enumerate()
            {
                if i > 0 {
                    text.push_str("---\n");
                }
                let style = Style { first_keys: &first_keys, ..Style::plain() };
                text.push_str(&write(&filled(object), &style));
            }
            out.artifacts.insert(
                crate::pipeline::manifest_file(name, phase),
                Artifact::text(&cx.me.name, &text),
            );
        }
        Outcome::clean(out)
    }
}

fn first_keys(path: &[&str]) -> &'static [&'static str] {
    if path.is_empty() { &["apiVersion", "kind", "metadata"] } else { &[] }
}

/// Puts placeholders in place of references: a controller fills them in before it applies the file.
pub(super) fn filled(node: &Node) -> Node {
    node.map_parts(&|part| {
        ["secret", "output", "pki"].into_iter().find_map(|word| {
            let name = part.sole(&format!("${word}"))?.as_str()?;
            Some(Node::string(format!("@{{{word} {name}}}"), part.origin.clone()))
        })
    })
}
