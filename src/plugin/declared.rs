//! The runtime of plugins without code: their contribution stands in `plugin.yaml`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::content;
use super::{Artifact, Context, Contribution, Package, Part, Plugin, Rendering};
use crate::config::{Group, Role};
use crate::finding::{Finding, Findings, Outcome, Severity};
use crate::model::{GROUPED, Model};
use crate::template::{self, Checked, Engine, Scope, uses_root};
use crate::value::{Data, Node};

/// A declared plugin, checked.
#[derive(Debug)]
pub struct Declared;

impl Plugin for Declared {
    fn initialise(&self, cx: &Context<'_>, _: &Model) -> Outcome<Contribution> {
        let package = &cx.me.package;
        let tree = stage(package, "initialise");
        let mut outcome = contribute(&tree, cx);
        let own = own_parts(cx).collect(&mut outcome.findings);
        outcome.value.parts.extend(own);
        outcome
    }

    fn render(&self, cx: &Context<'_>, _: &Model, _: &super::Artifacts) -> Outcome<Rendering> {
        let mut tree = stage(&cx.me.package, "render");
        let (mut findings, mut artifacts) = (None, None);
        if let Some(map) = tree.as_map_mut() {
            findings = map.remove("findings");
            artifacts = map.remove("artifacts");
        }
        let mut outcome = contribute(&tree, cx);
        let scope = scope(cx, &cx.me.settings, cx.values);
        if let Some(node) = findings {
            let said = template::evaluate(&node, &scope, cx.engine).collect(&mut outcome.findings);
            outcome.findings.extend(said_findings(&said, cx));
        }
        let mut made = BTreeMap::new();
        if let Some(node) = artifacts {
            let files = template::evaluate(&node, &scope, cx.engine).collect(&mut outcome.findings);
            for (path, body) in files.as_map().into_iter().flatten() {
                let body = content::resolve(body.clone(), cx, &scope, &mut outcome.findings);
                let text = body.get("content").and_then(Node::as_str).unwrap_or_default();
                made.insert(path.clone(), Artifact::text(&cx.me.name, text));
            }
        }
        Outcome {
            value: Rendering { contribution: outcome.value, artifacts: made },
            findings: outcome.findings,
        }
    }
}

impl Declared {
    /// Returns all that is wrong with a package's templates and the files it names.
    #[must_use]
    pub fn check(package: &Package, cluster: &Value, engine: &Engine) -> Findings {
        let secrets: BTreeSet<String> = package.manifest.secrets.keys().cloned().collect();
        let machine = machine_schema();
        let plugin = json!({"type": "object", "properties": {"name": {}, "version": {}}});
        let schemas = BTreeMap::from([
            ("settings", package.settings.value()),
            ("cluster", cluster),
            ("machine", &machine),
            ("plugin", &plugin),
        ]);
        let files = file_schema(package.settings.value());
        let schemas: BTreeMap<&str, &Value> = schemas
            .into_iter()
            .map(|(k, v)| (k, if k == "settings" { &files } else { v }))
            .collect();
        let cx = Checked { engine, schemas, secrets: &secrets };
        let mut findings = Findings::new();
        for part in ["initialise", "render", "deploy", "validate", "lookups", "pins", "provides"] {
            if let Some(node) = package.node.get(part) {
                findings.extend(template::check_tree(node, &cx));
                check_files(node, package, &cx, &mut findings);
            }
        }
        findings.into_iter().map(|f| f.by(&package.name)).collect()
    }
}

/// Returns what the manifest says beside its stages, whatever the plugin's runtime is: steps, checks, secrets, pins.
pub fn own_parts(cx: &Context<'_>) -> Outcome<Vec<Part>> {
    let package = &cx.me.package;
    let mut findings = Findings::new();
    let mut own = Node::empty_map(package.node.origin.clone());
    if let Some(map) = own.as_map_mut() {
        for (stage, part) in [("deploy", "steps"), ("validate", "checks")] {
            if let Some(node) = package.node.get(stage) {
                map.insert(part.to_owned(), node.clone());
            }
        }
    }
    let scope = scope(cx, &cx.me.settings, cx.values);
    let own = template::evaluate(&own, &scope, cx.engine).collect(&mut findings);
    let pins = pins(cx, &scope, &mut findings);
    let parts = [own, secrets(cx), pins].map(|tree| Part { tree, groups: None });
    Outcome { value: parts.into(), findings }
}

/// Settings with `format: file` are maps once they are read.
fn file_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(map) if map.get("format").and_then(Value::as_str) == Some("file") => {
            json!({"type": "object", "properties": {"name": {}, "content": {}, "sha256": {}}})
        }
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), file_schema(v))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(file_schema).collect()),
        other => other.clone(),
    }
}

fn machine_schema() -> Value {
    let properties: serde_json::Map<String, Value> =
        ["group", "stack", "pool", "role", "arch", "os", "instanceTypes", "labels"]
            .iter()
            .map(|k| ((*k).to_owned(), json!({})))
            .collect();
    json!({"type": "object", "properties": properties})
}

/// Looks after every `file:` and `template:` in a stage's contribution.
fn check_files(node: &Node, package: &Package, cx: &Checked<'_>, findings: &mut Findings) {
    let mut named: Vec<(&str, &Node)> = Vec::new();
    node.walk(&mut |part| {
        for (key, folder) in [("file", "files"), ("template", "templates")] {
            let value =
                part.get(key).filter(|v| v.as_str().is_some_and(|t| !template::is_template(t)));
            // Only entities name files so; a map with more of the author's own keys is something else.
            let entity =
                part.as_map().is_some_and(|m| m.keys().all(|k| ENTITY_KEYS.contains(&k.as_str())));
            named.extend(value.filter(|_| entity).map(|v| (folder, v)));
        }
    });
    for (folder, value) in named {
        let name = value.as_str().unwrap_or_default();
        let path = format!("{folder}/{name}");
        match package.files.get(&path) {
            None => findings.push(content::missing_file(package, &path, value)),
            Some(bytes) if folder == "templates" => match std::str::from_utf8(bytes) {
                Ok(text) => {
                    let source = crate::origin::SourceFile::new(
                        package.home.file_name(package.name.as_str(), &path),
                        text,
                    );
                    let origin = crate::origin::Origin::file_start(&source);
                    findings.extend(template::check_text(text, &origin, cx));
                }
                Err(_) => {
                    let text = format!("{path} is not text in UTF-8");
                    findings.push(Finding::fatal("plugin/file", text).at(&value.origin));
                }
            },
            Some(_) => {}
        }
    }
}

const ENTITY_KEYS: [&str; 14] = [
    "file", "template", "mode", "owner", "enabled", "required", "$when", "$each", "fill",
    "content", "behavior", "timeout", "nodes", "once",
];

/// Returns what a package declares in a stage, without the word that names a runtime.
fn stage(package: &Package, stage: &str) -> Node {
    let mut node = package
        .node
        .get(stage)
        .cloned()
        .unwrap_or_else(|| Node::empty_map(package.node.origin.clone()));
    if let (Some(map), super::Home::Builtin | super::Home::Contrib) =
        (node.as_map_mut(), &package.home)
    {
        map.remove("native");
    }
    node
}

pub(super) fn scope<'a>(cx: &'a Context<'a>, settings: &'a Node, values: &'a Node) -> Scope<'a> {
    let roots = BTreeMap::from([("settings", settings), ("cluster", cx.facts), ("values", values)]);
    Scope { roots, plugin: &cx.me.name }
}

/// Evaluates a contribution: the parts for groups once for each distinct settings, or once for each group
/// where they use `machine`; everything else once.
fn contribute(tree: &Node, cx: &Context<'_>) -> Outcome<Contribution> {
    let mut findings = Findings::new();
    let mut parts = Vec::new();
    // A plugin for no nodes has no groups to evaluate `nodes` for; merging says so.
    let for_nodes = !cx.me.package.manifest.nodes.is_empty();
    let (shared, grouped) = if for_nodes { divided(tree) } else { (tree.clone(), None) };
    let base = scope(cx, &cx.me.settings, cx.values);
    let shared = evaluated(&shared, cx, &base, &mut findings);
    parts.push(Part { tree: shared, groups: None });
    if let Some(grouped) = grouped {
        let package = &cx.me.package;
        let template_text =
            |name: &str| package.text(&format!("templates/{name}")).map(str::to_owned);
        let each_group = uses_root(&grouped, "machine", cx.engine, &template_text);
        for class in classes(cx, each_group) {
            let machine = machine(cx, class[0]);
            let scope = scope(cx, cx.me.settings_for(class[0]), cx.values);
            let scope = if each_group { scope.with("machine", &machine) } else { scope };
            let tree = evaluated(&grouped, cx, &scope, &mut findings);
            let groups = class.iter().map(|g| g.key.clone()).collect();
            parts.push(Part { tree, groups: Some(groups) });
        }
    }
    Outcome { value: Contribution { parts, entities: Vec::new() }, findings }
}

/// Returns the groups the plugin is on, those together that can be evaluated together.
fn classes<'g>(cx: &Context<'g>, each_group: bool) -> Vec<Vec<&'g Group>> {
    let mut classes: Vec<Vec<&Group>> = Vec::new();
    for group in cx.nodes() {
        let own = group.pool.as_ref().is_some_and(|p| cx.me.pool_settings.contains_key(p));
        let settings = cx.me.settings_for(group);
        let class = if each_group {
            None
        } else {
            classes.iter_mut().find(|class| {
                let other =
                    class[0].pool.as_ref().is_some_and(|p| cx.me.pool_settings.contains_key(p));
                (!own && !other) || cx.me.settings_for(class[0]) == settings
            })
        };
        match class {
            Some(class) => class.push(group),
            None => classes.push(vec![group]),
        }
    }
    classes
}

/// Divides a contribution into what is for all and what is for groups (`nodes`, `worker`).
fn divided(tree: &Node) -> (Node, Option<Node>) {
    let mut shared = tree.clone();
    let mut grouped = Node::empty_map(tree.origin.clone());
    if let (Some(shared), Some(grouped)) = (shared.as_map_mut(), grouped.as_map_mut()) {
        for part in GROUPED.iter().chain(&["stacks"]) {
            let Some(section) = shared.get_mut(*part) else { continue };
            let shell = section.clone_shell();
            let Some(map) = section.as_map_mut() else { continue };
            let names: &[&str] = if ["stacks", "securityGroups"].contains(part) {
                &["nodes"]
            } else {
                &["nodes", "worker"]
            };
            let taken: BTreeMap<String, Node> =
                names.iter().filter_map(|n| map.remove_entry(*n)).collect();
            if !taken.is_empty() {
                grouped.insert((*part).to_owned(), Node { data: Data::Map(taken), ..shell });
            }
        }
    }
    let any = grouped.as_map().is_some_and(|m| !m.is_empty());
    (shared, any.then_some(grouped))
}

fn evaluated(tree: &Node, cx: &Context<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Node {
    let tree = template::evaluate(tree, scope, cx.engine).collect(findings);
    content::resolved(tree, cx, scope, findings)
}

/// Returns the names of the secrets that the manifest declares and the settings use.
fn secrets(cx: &Context<'_>) -> Node {
    let origin =
        cx.me.package.node.get("secrets").map_or(&cx.me.package.node.origin, |n| &n.origin);
    let mut names = BTreeMap::new();
    for (name, form) in &cx.me.package.manifest.secrets {
        let at = cx.me.package.node.at(&["secrets", name]).map_or(origin, Node::key_origin);
        names.insert(name.clone(), Node::from_value(json!({"description": form.description}), at));
    }
    for settings in std::iter::once(&cx.me.settings).chain(cx.me.pool_settings.values()) {
        settings.walk(&mut |part| {
            let full = part.sole("$secret").and_then(Node::as_str);
            if let Some((_, name)) = full.and_then(|f| f.split_once('/')) {
                names
                    .entry(name.to_owned())
                    .or_insert_with(|| Node::from_value(json!({}), &part.origin));
            }
        });
    }
    let secrets = Node::new(Data::Map(names), origin.clone());
    Node::new(Data::Map([("secrets".to_owned(), secrets)].into()), origin.clone())
}

/// Returns the manifest's pins with their versions and addresses.
fn pins(cx: &Context<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Node {
    let package = &cx.me.package;
    let mut all = BTreeMap::new();
    for (name, form) in &package.manifest.pins {
        let written = package.node.at(&["pins", name]).unwrap_or(&package.node);
        let origin = written.get("url").map_or(&written.origin, |n| &n.origin);
        let mut render = |text: &str, scope: &Scope<'_>| match cx.engine.render(text, scope, origin)
        {
            Ok(text) => text,
            Err(finding) => {
                findings.push(finding.by(&cx.me.name));
                String::new()
            }
        };
        let version = match &form.version {
            Some(version) => render(version, scope),
            None => cx
                .setting(&["version"])
                .as_str()
                .map_or_else(|| package.manifest.version.clone(), str::to_owned),
        };
        let own_version = Node::string(version.as_str(), origin.clone());
        let mut urls = serde_json::Map::new();
        for arch in ["amd64", "arm64"] {
            let arch_node = Node::string(arch, origin.clone());
            let inner = scope.with("arch", &arch_node).with("version", &own_version);
            urls.insert(arch.to_owned(), mirrored(&render(&form.url, &inner), cx).into());
        }
        let mut pin = json!({"version": version, "url": urls});
        if let (Some(extract), Some(map)) = (&form.extract, pin.as_object_mut()) {
            map.insert("extract".to_owned(), render(extract, scope).into());
        }
        let mut node = Node::from_value(pin, origin);
        node.key = written.key.clone();
        all.insert(name.clone(), node);
    }
    let origin = package.node.origin.clone();
    let pins = Node::new(Data::Map(all), origin.clone());
    Node::new(Data::Map([("pins".to_owned(), pins)].into()), origin)
}

/// Returns the address at the mirror, if there is one: `https://HOST` is replaced.
fn mirrored(url: &str, cx: &Context<'_>) -> String {
    let Some(mirror) = &cx.config.assets.mirror else { return url.to_owned() };
    let rest = url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    rest.map_or_else(|| url.to_owned(), |(_, path)| format!("{mirror}/{path}"))
}

/// Returns what `machine` is in templates, and a group in requests.
pub(super) fn machine(cx: &Context<'_>, group: &Group) -> Node {
    let pool = group.pool.as_ref().and_then(|name| cx.config.node_pools.get(name));
    let types = match group.role {
        Role::Etcd => vec![cx.config.etcd.instance_type.clone()],
        Role::Controller => vec![cx.config.control_plane.instance_type.clone()],
        Role::Worker => pool.map(|p| p.instance_types.clone()).unwrap_or_default(),
    };
    let value = json!({
        "group": group.key, "stack": group.stack, "pool": group.pool, "role": group.role.as_ref(), "arch": group.arch.as_ref(),
        "os": group.os.as_ref(), "instanceTypes": types, "labels": pool.map(|p| p.labels.clone()).unwrap_or_default(),
    });
    Node::from_value(value, &cx.facts.origin)
}

/// Returns the findings that a declared plugin's render says.
fn said_findings(said: &Node, cx: &Context<'_>) -> Findings {
    let text = |node: &Node, key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    let one = |(name, body): (&String, &Node)| {
        let fatal = text(body, "severity").as_deref() == Some("fatal");
        let severity = if fatal { Severity::Fatal } else { Severity::Warning };
        let code = format!("{}/{name}", cx.me.name);
        let message = text(body, "message").unwrap_or_else(|| name.clone());
        let at = cx.me.origin.as_ref().unwrap_or(body.key_origin());
        let finding =
            Finding::new(severity, &code, message).at(at).by(&cx.me.name).about(code.clone());
        text(body, "help").into_iter().fold(finding, Finding::help)
    };
    said.as_map().into_iter().flatten().map(one).collect()
}
