//! Settings: what a user wrote for one plugin, checked, with defaults, and with files read.

use serde_json::Value;

use super::Package;
use crate::finding::{Finding, Findings};
use crate::schema::{Wording, followed};
use crate::value::{Data, Node};

/// Reads a file that a setting names; `Err` says why it cannot be.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// Returns the settings as the plugin sees them.
///
/// `written` is what `cluster.yaml` has, or nothing; `name` is the instance's.
pub fn prepare(
    package: &Package,
    name: &str,
    written: Option<&Node>,
    read: ReadFile<'_>,
    findings: &mut Findings,
) -> Node {
    let origin = package
        .node
        .get("settings")
        .map_or_else(|| package.node.origin.clone(), |n| n.origin.clone());
    let node = written.cloned().unwrap_or_else(|| Node::empty_map(origin)).without_nulls();
    let label = format!("setting of {name}");
    let wording = Wording {
        area: "settings",
        subject: name,
        label: Some(&label),
        source: package.node.get("settings"),
    };
    findings.extend(package.settings.check(&node, &wording));
    let schema = package.settings.value();
    let mut node = node;
    fill(&mut node, schema, schema);
    let mut cx = Finish { name, read, findings, root: schema };
    cx.finish(&mut node, schema);
    node
}

/// Returns the defaults of a schema's properties, as `kaws plugin info` shows them.
#[must_use]
pub fn defaults_of(schema: &Value) -> Value {
    let origin = crate::origin::Origin::file_start(&crate::origin::SourceFile::new("defaults", ""));
    let mut node = Node::empty_map(origin);
    fill(&mut node, schema, schema);
    node.to_value()
}

/// Fills in what is not written; a map that is written keeps what it has and gets only what it lacks
/// where its schema names the keys.
fn fill(node: &mut Node, root: &Value, schema: &Value) {
    let schema = followed(root, schema);
    let origin = node.origin.clone();
    let additional = schema.get("additionalProperties").filter(|a| a.is_object());
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Data::List(items) = &mut node.data {
        if let Some(schema) = schema.get("items") {
            items.iter_mut().for_each(|item| fill(item, root, schema));
        }
        return;
    }
    let Some(map) = node.as_map_mut() else { return };
    if map.contains_key("$secret") {
        return;
    }
    for (key, value) in map.iter_mut() {
        if let Some(schema) = properties.and_then(|p| p.get(key)).or(additional) {
            fill(value, root, schema);
        }
    }
    for (key, property) in properties.into_iter().flatten().filter(|(_, p)| !is_secret(p)) {
        if map.contains_key(key) {
            continue;
        }
        if let Some(default) = property.get("default") {
            map.insert(key.clone(), Node::from_value(default.clone(), &origin));
        } else if property.get("properties").is_some() {
            let mut inner = Node::empty_map(origin.clone());
            fill(&mut inner, root, property);
            if inner.as_map().is_some_and(|m| !m.is_empty()) {
                map.insert(key.clone(), inner);
            }
        }
    }
}

fn is_secret(property: &Value) -> bool {
    property.get("x-secret").is_some()
}

struct Finish<'a> {
    name: &'a str,
    read: ReadFile<'a>,
    findings: &'a mut Findings,
    root: &'a Value,
}

impl Finish<'_> {
    /// Reads files, gives secrets their full name, and refuses data that looks like a placeholder.
    fn finish(&mut self, node: &mut Node, schema: &Value) {
        let schema = followed(self.root, schema).clone();
        if let Some(name) = node.sole("$secret").and_then(Node::as_str) {
            let full =
                if name.contains('/') { name.to_owned() } else { format!("{}/{name}", self.name) };
            if let Some(map) = node.as_map_mut() {
                let origin = map["$secret"].origin.clone();
                map.insert("$secret".to_owned(), Node::string(full, origin));
            }
            return;
        }
        match &mut node.data {
            Data::String(text) => {
                if crate::model::has_placeholder(text) {
                    let message = format!("`{text}` looks like a placeholder that nodes fill in");
                    self.findings.push(Finding::fatal("model/unfilled", message).at(&node.origin));
                }
                if schema.get("format").and_then(Value::as_str) == Some("file") {
                    let path = text.to_string();
                    self.file(node, &path);
                }
            }
            Data::List(items) => {
                let schema = schema.get("items").cloned().unwrap_or(Value::Bool(true));
                items.iter_mut().for_each(|item| self.finish(item, &schema));
            }
            Data::Map(map) => {
                for (key, value) in map.iter_mut() {
                    let property = schema.get("properties").and_then(|p| p.get(key));
                    let property = property.or_else(|| schema.get("additionalProperties")).cloned();
                    self.finish(value, &property.unwrap_or(Value::Bool(true)));
                }
            }
            _ => {}
        }
    }

    fn file(&mut self, node: &mut Node, path: &str) {
        let origin = node.origin.clone();
        let bytes = (self.read)(path);
        let text = bytes
            .and_then(|b| String::from_utf8(b).map_err(|_| "it is not text in UTF-8".to_owned()));
        match text {
            Ok(content) if crate::model::has_placeholder(&content) => {
                let text = format!(
                    "the file `{path}` holds what looks like a placeholder that nodes fill in"
                );
                self.findings.push(Finding::fatal("model/unfilled", text).at(&origin));
            }
            Ok(content) => {
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                let hash = crate::value::sha256(content.as_bytes());
                let parts = [("name", name), ("sha256", hash), ("content", content)];
                let map =
                    parts.into_iter().map(|(k, v)| (k.to_owned(), Node::string(v, origin.clone())));
                node.data = Data::Map(map.collect());
            }
            Err(reason) => {
                let text = format!("the file `{path}` cannot be used: {reason}");
                self.findings.push(
                    Finding::fatal("config/file", text)
                        .at(&origin)
                        .help("paths are those beside cluster.yaml"),
                );
            }
        }
    }
}
