//! What a plugin's program is told, and what is made of its answer. Pure: no process, no file.
//!
//! Not here: running it (`runtime`), and the form of the two documents (`contract`).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::contract::{Asked, Content, Level, Request, Response, Said, Seen, VERSION};
use super::declared::{machine, scope};
use super::{Artifact, Artifacts, Context, Contribution, Instance, Part, Rendering, content};
use crate::config::Group;
use crate::finding::{Finding, Findings, Outcome, Severity};
use crate::model::Model;
use crate::origin::Origin;
use crate::value::{Data, Node, Path, sha256};

/// The model and the plugins as programs are told them: made when first asked for, once a rank.
#[derive(Debug, Default)]
pub struct View {
    tree: OnceLock<Node>,
    model: OnceLock<Told>,
    plugins: OnceLock<Told>,
    artifacts: OnceLock<Told>,
}

/// A part of a request that several plugins share, and its hash.
#[derive(Clone, Debug)]
pub struct Told {
    /// The document.
    pub json: Arc<RawValue>,
    /// Its hash, which stands for it where requests are compared.
    pub sha256: String,
}

impl Told {
    fn new(value: &Value) -> Self {
        let json = serde_json::value::to_raw_value(value).expect("values are JSON");
        let sha256 = sha256(json.get().as_bytes());
        Self { json: json.into(), sha256 }
    }
}

impl View {
    fn tree(&self, model: &Model) -> &Node {
        self.tree.get_or_init(|| model.to_node())
    }

    /// Returns the model as `cx.me` is told it.
    #[must_use]
    pub fn model(&self, model: &Model, cx: &Context<'_>) -> Told {
        let Some(reads) = &cx.me.package.reads else {
            return self.model.get_or_init(|| Told::new(&self.tree(model).to_value())).clone();
        };
        let mut all = Value::Object(Map::new());
        for path in reads.iter().flat_map(|path| expanded(path, cx)) {
            let part = self.tree(model).at(&path.0).filter(|_| path.0[0] != "plugins");
            if let Some(part) = part {
                put(&mut all, &path.0, part.to_value());
            }
        }
        Told::new(&all)
    }

    /// Returns the other plugins as `cx.me` is told of them.
    #[must_use]
    pub fn plugins(&self, cx: &Context<'_>) -> Told {
        let told = |instances: &mut dyn Iterator<Item = &Instance>| {
            let all: BTreeMap<&str, Asked> = instances
                .filter(|instance| instance.name.as_str() != "cluster")
                .map(|instance| (instance.name.as_str(), asked(instance)))
                .collect();
            Told::new(&serde_json::to_value(all).expect("names are keys"))
        };
        let Some(reads) = &cx.me.package.reads else {
            return self.plugins.get_or_init(|| told(&mut cx.plugins.iter())).clone();
        };
        let named = |instance: &&Instance| {
            reads.iter().any(|path| {
                path.0[0] == "plugins"
                    && path.0.get(1).is_none_or(|name| name == instance.name.as_str())
            })
        };
        told(&mut cx.plugins.iter().filter(named))
    }

    /// Returns the files of earlier ranks as `cx.me` is told of them.
    #[must_use]
    pub fn artifacts(&self, made: &Artifacts, cx: &Context<'_>) -> Option<Told> {
        let seen = |artifact: &Artifact| Seen {
            sha256: sha256(&artifact.bytes),
            mode: format!("{:04o}", artifact.mode),
        };
        let told = || {
            let all: BTreeMap<&str, Seen> =
                made.iter().map(|(path, artifact)| (path.as_str(), seen(artifact))).collect();
            Told::new(&serde_json::to_value(all).expect("paths are keys"))
        };
        reads(cx, "artifacts").then(|| self.artifacts.get_or_init(told).clone())
    }
}

/// Returns whether the plugin is told of a part that is not the model's.
fn reads(cx: &Context<'_>, part: &str) -> bool {
    cx.me.package.reads.as_ref().is_none_or(|reads| reads.iter().any(|path| path.0[0] == part))
}

/// Returns a path with the groups that `nodes` and `worker` stand for.
fn expanded(path: &Path, cx: &Context<'_>) -> Vec<Path> {
    let groups: Vec<&str> = match path.0.get(1).map(String::as_str) {
        Some("nodes") => cx.me.nodes.iter().map(String::as_str).chain(["nodes"]).collect(),
        Some("worker") => {
            let pools = cx.groups.iter().filter(|group| group.pool.is_some());
            pools.map(|group| group.key.as_str()).chain(["worker"]).collect()
        }
        _ => return vec![path.clone()],
    };
    let with = |group: &str| {
        let mut path = path.clone();
        group.clone_into(&mut path.0[1]);
        path
    };
    groups.into_iter().map(with).collect()
}

fn put(all: &mut Value, path: &[String], part: Value) {
    let mut at = all;
    for segment in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(map) = at else { return };
        at = map.entry(segment.clone()).or_insert(Value::Null);
    }
    *at = part;
}

/// Returns a plugin as programs are told of it.
fn asked(instance: &Instance) -> Asked {
    Asked {
        name: instance.name.to_string(),
        version: instance.package.manifest.version.clone(),
        settings: instance.settings.to_value(),
        pool_settings: instance
            .pool_settings
            .iter()
            .map(|(pool, settings)| (pool.clone(), settings.to_value()))
            .collect(),
        nodes: instance.nodes.to_vec(),
    }
}

/// Returns the groups of machines as programs are told of them.
#[must_use]
pub fn groups(cx: &Context<'_>) -> BTreeMap<String, Value> {
    let told = |group: &Group| (group.key.clone(), machine(cx, group).to_value());
    cx.groups.iter().map(told).collect()
}

/// Returns what a plugin's program is asked in a stage, but for the parts that plugins share: [`View`] has those.
#[must_use]
pub fn ask<'a>(cx: &Context<'a>, stage: &'a str) -> Request<'a> {
    Request {
        api_version: VERSION,
        kaws: env!("CARGO_PKG_VERSION"),
        stage: Some(stage),
        event: None,
        name: None,
        plugin: asked(cx.me),
        cluster: cx.facts.to_value(),
        groups: groups(cx),
        model: None,
        plugins: None,
        artifacts: None,
        lookups: BTreeMap::new(),
        facts: Value::Null,
        secrets: BTreeMap::new(),
    }
}

/// Returns what a program's answer adds; `origin` is the place that names the program.
pub fn take(
    response: Response,
    stage: &str,
    cx: &Context<'_>,
    model: &Model,
    origin: &Origin,
) -> Outcome<Rendering> {
    let mut findings = Findings::new();
    let mut out = Rendering::default();
    if let Some(value) = response.contribution {
        let tree = Node::from_value(value, origin).without_nulls();
        if tree.as_map().is_some() && !has_words(&tree, cx, &mut findings) {
            let scope = scope(cx, &cx.me.settings, cx.values);
            let tree = content::resolved(tree, cx, &scope, &mut findings);
            out.contribution.parts.push(Part { tree, groups: None });
        } else if tree.as_map().is_none() {
            findings.push(unusable(cx, origin, "its contribution is no map"));
        }
    }
    if response.value.is_some() {
        findings.push(unusable(cx, origin, "`value` answers a lookup, and this is none"));
    }
    if stage != "render" && !response.artifacts.is_empty() {
        findings.push(unusable(cx, origin, "files are made in render"));
    } else {
        for (path, file) in response.artifacts {
            match bytes(file) {
                Ok(bytes) => {
                    let plugin = cx.me.name.clone();
                    out.artifacts
                        .insert(path, Artifact { bytes: bytes.into(), plugin, mode: 0o644 });
                }
                Err(text) => findings.push(unusable(cx, origin, &format!("`{path}`: {text}"))),
            }
        }
    }
    findings.extend(response.findings.into_iter().map(|said| finding(said, cx, model, origin)));
    Outcome { value: out, findings }
}

fn unusable(cx: &Context<'_>, origin: &Origin, text: &str) -> Finding {
    let text = format!("the answer of {} cannot be used: {text}", cx.me.name);
    Finding::fatal("exec/response", text).at(origin).by(&cx.me.name)
}

fn bytes(content: Content) -> Result<Vec<u8>, String> {
    use base64::Engine as _;
    match content {
        Content::Text(text) | Content::Content { content: text } => Ok(text.into_bytes()),
        Content::Bytes { base64 } => base64::engine::general_purpose::STANDARD
            .decode(base64)
            .map_err(|error| format!("no Base64: {error}")),
    }
}

/// A program decides and repeats by itself: these words would only end up in what is rendered.
fn has_words(tree: &Node, cx: &Context<'_>, findings: &mut Findings) -> bool {
    let mut found = std::collections::BTreeSet::new();
    tree.walk(&mut |part| {
        let Data::Map(map) = &part.data else { return };
        found.extend(["$when", "$each"].into_iter().filter(|word| map.contains_key(*word)));
    });
    for word in &found {
        let text =
            format!("`{word}` is for plugin.yaml: a program leaves out, or repeats, by itself");
        findings.push(unusable(cx, &tree.origin, &text));
    }
    !found.is_empty()
}

fn finding(said: Said, cx: &Context<'_>, model: &Model, origin: &Origin) -> Finding {
    let severity = match said.severity {
        Level::Fatal => Severity::Fatal,
        Level::Warning => Severity::Warning,
    };
    let code = format!("{}/{}", cx.me.name, said.code);
    let place = said.at.as_deref().and_then(|at| place(at, cx, model));
    let place = place.or_else(|| cx.me.origin.clone()).unwrap_or_else(|| origin.clone());
    let subject = said.at.unwrap_or_else(|| code.clone());
    // A message of several lines would look like several findings.
    let message = said.message.split_whitespace().collect::<Vec<_>>().join(" ");
    let finding = Finding::new(severity, &code, message).at(&place).by(&cx.me.name).about(subject);
    said.help.into_iter().fold(finding, Finding::help)
}

fn place(at: &str, cx: &Context<'_>, model: &Model) -> Option<Origin> {
    let path = Path::parse(at).ok()?;
    let (root, rest) = path.0.split_first()?;
    let node = match root.as_str() {
        "settings" => cx.me.settings.at(rest),
        "cluster" => cx.facts.at(rest),
        _ => return model.entity_around(&path.0).map(|(entity, _)| entity.body.origin.clone()),
    };
    node.map(|node| node.origin.clone())
}

impl From<Contribution> for Rendering {
    fn from(contribution: Contribution) -> Self {
        Self { contribution, artifacts: Artifacts::new() }
    }
}
