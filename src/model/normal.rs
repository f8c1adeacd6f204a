//! Two spellings of one wish become the same entity, so that equal wishes of two plugins are equal.

use std::collections::BTreeMap;

use super::entities::Kind;
use crate::value::{Data, Node};

/// `content: {$secret: x}` and its like become the text that nodes fill in.
pub(super) fn with_text(mut body: Node, kind: Kind) -> Node {
    if !matches!(kind, Kind::File | Kind::Unit | Kind::DropIn) {
        return body;
    }
    let Some(content) = body.get("content") else { return body };
    let filled = ["secret", "output", "pki", "node"].into_iter().find_map(|word| {
        let name = content.sole(&format!("${word}"))?.as_str()?;
        Some(format!("@{{{word} {name}}}"))
    });
    if let (Some(text), Some(map)) = (filled, body.as_map_mut()) {
        if let Some(content) = map.get_mut("content") {
            content.data = Data::String(text.into());
        }
        let origin = map["content"].origin.clone();
        map.insert("fill".to_owned(), Node::new(Data::Bool(true), origin));
    }
    body
}

/// Fills in the schema's defaults, so that a default and the same value written out are equal.
pub(super) fn with_defaults(mut body: Node, kind: Kind) -> Node {
    let schema = kind.schema().value();
    let origin = body.origin.clone();
    let Some(properties) = schema.get("properties").and_then(serde_json::Value::as_object) else {
        return body;
    };
    if let Some(map) = body.as_map_mut() {
        for (name, property) in properties {
            if let Some(default) = property.get("default").filter(|_| !map.contains_key(name)) {
                map.insert(name.clone(), Node::from_value(default.clone(), &origin));
            }
        }
    }
    body
}

/// Actions and resources of a statement are sorted sets; one alone is no list.
pub(super) fn canonical(mut body: Node, kind: Kind) -> Node {
    let Some(map) = body.as_map_mut().filter(|_| kind == Kind::Statement) else { return body };
    for key in ["Action", "Resource"] {
        let Some(part) = map.get_mut(key) else { continue };
        if let Data::List(items) = &mut part.data {
            let mut unique: BTreeMap<String, Node> = BTreeMap::new();
            for item in std::mem::take(items) {
                unique.entry(item.to_value().to_string()).or_insert(item);
            }
            let mut items: Vec<Node> = unique.into_values().collect();
            part.data = if items.len() == 1 { items.remove(0).data } else { Data::List(items) };
        }
    }
    body
}
