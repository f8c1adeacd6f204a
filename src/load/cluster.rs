//! `cluster.yaml`, and those it extends.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::Options;
use super::files::{Error, folder_of, read_yaml};
use crate::config::{Cluster, check};
use crate::finding::{Finding, Findings, Outcome};
use crate::origin::{Origin, SourceFile};
use crate::schema::{Schema, Wording};
use crate::value::{Data, Node};

/// How many files may extend each other.
const MAX_EXTENDS: usize = 8;

/// Reads a cluster's file.
///
/// # Errors
/// Files that cannot be read.
pub(super) fn read(
    options: &Options,
    over: Option<&Node>,
) -> Result<Outcome<Option<(Cluster, Node)>>, Error> {
    let none = |findings| Ok(Outcome { value: None, findings });
    let read = match &options.example {
        Some(name) => example(name),
        None => extended(&options.file, &mut Vec::new())?,
    };
    let node = match read {
        Ok(node) => over.map_or(node.clone(), |over| merged(node, over.clone())),
        Err(findings) => return none(findings),
    };
    let node = node.without_nulls();
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema =
        SCHEMA.get_or_init(|| Schema::compile(&Cluster::schema()).expect("a test compiles it"));
    let wording = Wording { area: "config", subject: "cluster.yaml", label: None, source: None };
    let mut findings = schema.check(&node, &wording);
    // What the types hold can be checked against each other even if some keys are unknown.
    match serde_json::from_value::<Cluster>(known(&node, schema.value(), schema.value()).to_value())
    {
        Ok(cluster) if only_unknown_keys(&findings) => {
            findings.extend(check(&cluster, &node));
            if findings.any_fatal() {
                none(findings)
            } else {
                Ok(Outcome { value: Some((cluster, node)), findings })
            }
        }
        Ok(_) => none(findings),
        Err(error) => {
            if findings.is_empty() {
                findings.push(Finding::fatal("config/value", error.to_string()).at(&node.origin));
            }
            none(findings)
        }
    }
}

/// Returns one of kaws's own clusters.
fn example(name: &str) -> Result<Node, Findings> {
    let file = SourceFile::new(
        format!("examples/{name}/cluster.yaml"),
        super::example_cluster(name).unwrap_or_default(),
    );
    crate::value::read(&file)
}

fn only_unknown_keys(findings: &Findings) -> bool {
    findings.iter().all(|f| f.code == "config/unknown-key")
}

/// Returns the node without keys that the schema does not know.
fn known(node: &Node, root: &Value, schema: &Value) -> Node {
    let schema = crate::schema::followed(root, schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    let additional = schema.get("additionalProperties");
    let closed = properties.is_some() && additional.is_none_or(|a| a == &Value::Bool(false));
    let data = match &node.data {
        Data::Map(map) => {
            let kept = map.iter().filter_map(|(key, value)| {
                let inner =
                    properties.and_then(|p| p.get(key)).or(additional.filter(|a| a.is_object()));
                match inner {
                    Some(inner) => Some((key.clone(), known(value, root, inner))),
                    None => (!closed).then(|| (key.clone(), value.clone())),
                }
            });
            Data::Map(kept.collect())
        }
        Data::List(items) => {
            let inner = schema.get("items").unwrap_or(&Value::Bool(true));
            Data::List(items.iter().map(|item| known(item, root, inner)).collect())
        }
        other => other.clone(),
    };
    Node { data, ..node.clone_shell() }
}

/// Reads a file and those it extends: maps merge, lists replace, null removes.
fn extended(file: &Path, seen: &mut Vec<PathBuf>) -> Result<Result<Node, Findings>, Error> {
    let node = match read_yaml(file)? {
        Ok(node) => node,
        Err(findings) => return Ok(Err(findings)),
    };
    if node.as_map().is_none() {
        let finding = Finding::fatal("config/type", "cluster.yaml must be a map").at(&node.origin);
        return Ok(Err(finding.help("kaws init writes one to start from").into()));
    }
    let Some(base) = node.get("extends").cloned() else { return Ok(Ok(node)) };
    let Some(name) = base.as_str() else { return Ok(Ok(node)) };
    let path = folder_of(file).join(name);
    let fail =
        |text: String| Ok(Err(Finding::fatal("config/extends", text).at(&base.origin).into()));
    seen.push(file.canonicalize().unwrap_or_else(|_| file.to_owned()));
    let Ok(real) = path.canonicalize() else {
        return fail(format!("there is no file `{name}` to extend"));
    };
    if seen.contains(&real) {
        return fail(format!("`{name}` extends itself in a circle"));
    }
    if seen.len() > MAX_EXTENDS {
        return fail(format!("over {MAX_EXTENDS} files extend each other"));
    }
    Ok(extended(&path, seen)?.map(|base| {
        let mut node = merged(base, node);
        if let Some(map) = node.as_map_mut() {
            map.remove("extends");
        }
        node
    }))
}

fn merged(base: Node, over: Node) -> Node {
    match (base.data, over.data) {
        (Data::Map(mut base), Data::Map(over_map)) => {
            for (key, value) in over_map {
                let value = match base.remove(&key) {
                    Some(old) => merged(old, value),
                    None => value,
                };
                base.insert(key, value);
            }
            Node { data: Data::Map(base), origin: over.origin, key: over.key, rare: over.rare }
        }
        (_, data) => Node { data, origin: over.origin, key: over.key, rare: over.rare },
    }
}

/// Returns the config as templates see it; what is written in the file keeps its place.
pub(super) fn facts(config: &Cluster, node: &Node) -> Node {
    let nowhere = Origin::file_start(&SourceFile::new("cluster.yaml", ""));
    let mut facts = Node::from_value(config.facts(), &nowhere);
    place(&mut facts, node);
    facts
}

fn place(facts: &mut Node, written: &Node) {
    facts.origin = written.origin.clone();
    match (&mut facts.data, &written.data) {
        (Data::Map(map), Data::Map(from)) => {
            for (key, value) in map.iter_mut() {
                if let Some(written) = from.get(key) {
                    place(value, written);
                }
            }
        }
        (Data::List(items), Data::List(from)) => {
            items.iter_mut().zip(from).for_each(|(item, w)| place(item, w));
        }
        _ => {}
    }
}
