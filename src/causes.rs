//! Why a tree differs from the one that was deployed: for every difference of the input, what it makes
//! different, found by experiment.
//!
//! Rendering is pure and quick. So each changed setting is put back alone, everything is rendered again,
//! and what then differs is what the setting changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::cloudformation::Template;
use crate::deploy::plan::{Cause, Deployed, letter};
use crate::deploy::{PluginRecord, Record, Source, Tree};
use crate::load::Options;
use crate::plugin::Artifacts;
use crate::run::{Run, render_with};
use crate::value::{Node, Path};

/// So many settings are looked at alone; more differ at once when a cluster's file is another one.
const ALONE: usize = 24;

/// Returns the causes of what differs from the last deployment, lettered from `A` on.
#[must_use]
pub fn causes(
    options: &Options,
    run: &Run,
    tree: &Tree,
    deployed: &Deployed,
    locked: &BTreeMap<String, String>,
) -> Vec<Cause> {
    let Some(last) = deployed.last.as_ref().map(|last| &last.record) else { return Vec::new() };
    let mut all = settings(options, run, last);
    all.extend(plugins(run, last));
    all.extend(locks(tree, deployed, locked));
    if last.kaws != env!("CARGO_PKG_VERSION") {
        all.push(Cause {
            place: "kaws".to_owned(),
            what: "release of kaws".to_owned(),
            before: last.kaws.clone(),
            after: env!("CARGO_PKG_VERSION").to_owned(),
            touches: BTreeSet::from(["*".to_owned()]),
            ..Cause::default()
        });
    }
    for (at, cause) in all.iter_mut().enumerate() {
        cause.letter = letter(at);
    }
    all
}

/// One setting that differs: where it is, and what it was.
struct Difference {
    path: Vec<String>,
    before: Option<Value>,
    after: Option<Value>,
}

fn settings(options: &Options, run: &Run, last: &Record) -> Vec<Cause> {
    let now = run.setup.node.to_value();
    let mut differences = Vec::new();
    differ(&mut Vec::new(), Some(&last.config), Some(&now), &mut differences);
    if differences.len() > ALONE {
        return vec![many(run, &differences)];
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = differences.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = differences
            .chunks(share)
            .map(|part| {
                scope.spawn(move || part.iter().map(|d| cause(options, run, d)).collect::<Vec<_>>())
            })
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

/// A file that differs in so much is one cause of everything.
fn many(run: &Run, differences: &[Difference]) -> Cause {
    Cause {
        place: run.setup.node.origin.file().name.clone(),
        what: format!("{} settings", differences.len()),
        touches: BTreeSet::from(["*".to_owned()]),
        ..Cause::default()
    }
}

fn cause(options: &Options, run: &Run, difference: &Difference) -> Cause {
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), inline);
    Cause {
        place: place(&run.setup.node, &difference.path),
        what: Path(difference.path.clone()).to_string(),
        before: shown(&difference.before),
        after: shown(&difference.after),
        touches: experiment(options, run, difference),
        ..Cause::default()
    }
}

/// `cluster.yaml:6`: the line of the setting, or of the nearest that is still there.
fn place(node: &Node, path: &[String]) -> String {
    let nearest = (0..=path.len()).rev().find_map(|n| node.at(&path[..n]));
    let origin = nearest.map_or(&node.origin, Node::key_origin);
    format!("{}:{}", origin.file().name, origin.line_column().0)
}

/// Puts the setting back alone, renders, and returns what differs. Where that is no cluster, nothing is
/// known of it, and it counts for all that nothing else explains.
fn experiment(options: &Options, run: &Run, difference: &Difference) -> BTreeSet<String> {
    let old = difference.before.clone().unwrap_or(Value::Null);
    let over = difference
        .path
        .iter()
        .rev()
        .fold(old, |inner, key| Value::Object(Map::from_iter([(key.clone(), inner)])));
    let over = Node::from_value(over, &run.setup.node.origin);
    let other = render_with(options, Some(&over)).ok().and_then(|outcome| outcome.value);
    other.map_or_else(
        || BTreeSet::from(["*".to_owned()]),
        |other| {
            let mut all = touched(&run.rendered.artifacts, &other.rendered.artifacts);
            all.extend(retagged(&run.manifest, &other.manifest));
            all
        },
    )
}

/// What differs between two renderings: files by path, resources and parameters by `stack/LogicalId`.
fn touched(now: &Artifacts, other: &Artifacts) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (path, artifact) in now {
        let theirs = other.get(path);
        if theirs.is_some_and(|t| t.bytes == artifact.bytes) {
            continue;
        }
        all.insert(path.clone());
        if let Some(stack) = path.strip_prefix("stacks/").and_then(|p| p.strip_suffix(".yaml")) {
            let read =
                |bytes: &[u8]| Template::read(&String::from_utf8_lossy(bytes)).unwrap_or_default();
            let (mine, theirs) =
                (read(&artifact.bytes), theirs.map(|t| read(&t.bytes)).unwrap_or_default());
            all.extend(differing(&mine, &theirs).into_iter().map(|id| format!("{stack}/{id}")));
        }
    }
    let gone = other.keys().filter(|path| !now.contains_key(*path));
    for path in gone {
        all.insert(path.clone());
        if let Some(stack) = path.strip_prefix("stacks/").and_then(|p| p.strip_suffix(".yaml")) {
            let template = Template::read(&String::from_utf8_lossy(&other[path].bytes));
            let ids = template.unwrap_or_default().resources.into_keys();
            all.extend(ids.map(|id| format!("{stack}/{id}")));
        }
    }
    all
}

/// Stacks whose own tags differ: they stand in the manifest alone, and CloudFormation hands them on to
/// every resource.
fn retagged(now: &str, other: &str) -> BTreeSet<String> {
    #[derive(serde::Deserialize)]
    struct Manifest {
        stacks: BTreeMap<String, Tagged>,
    }
    #[derive(PartialEq, serde::Deserialize)]
    struct Tagged {
        tags: BTreeMap<String, String>,
    }
    let read = |text: &str| serde_yaml::from_str::<Manifest>(text).map(|m| m.stacks);
    let (Ok(now), Ok(other)) = (read(now), read(other)) else { return BTreeSet::new() };
    let differing =
        now.iter().filter(|(name, stack)| other.get(*name).is_some_and(|o| o != *stack));
    differing.map(|(name, _)| format!("{name}/tags")).collect()
}

fn differing(mine: &Template, theirs: &Template) -> BTreeSet<String> {
    let resources = mine.resources.keys().chain(theirs.resources.keys());
    let resources = resources.filter(|id| mine.resources.get(*id) != theirs.resources.get(*id));
    let parameters = mine.parameters.keys().chain(theirs.parameters.keys());
    let parameters = parameters.filter(|id| mine.parameters.get(*id) != theirs.parameters.get(*id));
    resources.chain(parameters).cloned().collect()
}

fn differ(
    path: &mut Vec<String>,
    before: Option<&Value>,
    after: Option<&Value>,
    all: &mut Vec<Difference>,
) {
    match (before, after) {
        (a, b) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                path.push(key.clone());
                differ(path, a.get(key), b.get(key), all);
                path.pop();
            }
        }
        (before, after) => all.push(Difference {
            path: path.clone(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

/// Plugins that are other ones than they were, by content.
fn plugins(run: &Run, last: &Record) -> Vec<Cause> {
    let now = plugin_records(run);
    let changed = now.iter().filter(|(name, record)| {
        last.plugins.get(*name).is_some_and(|old| old.sha256 != record.sha256)
    });
    changed
        .map(|(name, record)| {
            let old = &last.plugins[name];
            let same = old.version == record.version;
            let (before, after) = if same {
                let short = |hash: &str| hash.chars().take(8).collect::<String>();
                (short(&old.sha256), short(&record.sha256))
            } else {
                (old.version.clone(), record.version.clone())
            };
            let owned = owners(run).into_iter().filter(|(_, o)| o.contains(name));
            let place = run
                .setup
                .plugins
                .iter()
                .find(|p| p.name.as_str() == name)
                .map(|p| p.package.node.origin.file().name.clone());
            Cause {
                place: place.unwrap_or_default(),
                what: format!("plugin {name}"),
                before,
                after,
                // What else changes may come from its values: it counts where nothing else does.
                touches: owned.map(|(what, _)| what).chain(["*".to_owned()]).collect(),
                ..Cause::default()
            }
        })
        .collect()
}

/// Entries of kaws.lock whose value is another one than what stacks were given.
fn locks(tree: &Tree, deployed: &Deployed, locked: &BTreeMap<String, String>) -> Vec<Cause> {
    let mut all: BTreeMap<&String, Cause> = BTreeMap::new();
    for (short, stack) in &tree.stacks {
        let Some((there, _)) = deployed.stacks.get(short) else { continue };
        for (parameter, from) in &stack.parameters {
            let Source::Lock(name) = &from.source else { continue };
            let (before, after) = (there.parameters.get(parameter), locked.get(name));
            let (Some(before), Some(after)) = (before, after) else { continue };
            if before == after {
                continue;
            }
            let cause = all.entry(name).or_insert_with(|| Cause {
                place: "kaws.lock".to_owned(),
                what: name.clone(),
                before: before.clone(),
                after: after.clone(),
                ..Cause::default()
            });
            cause.touches.insert(format!("{short}/{parameter}"));
        }
    }
    all.into_values().collect()
}

/// Returns the plugins that are on, with their versions and the hashes of their folders.
#[must_use]
pub fn plugin_records(run: &Run) -> BTreeMap<String, PluginRecord> {
    let record = |p: &crate::plugin::Instance| PluginRecord {
        version: p.package.manifest.version.clone(),
        sha256: p.package.hash().to_owned(),
    };
    let packages = run.setup.plugins.iter().filter(|p| p.name.as_str() != "cluster");
    packages.map(|p| (p.name.to_string(), record(p))).collect()
}

/// Returns the owners of every resource, by `stack/LogicalId`, and of every file, by path.
#[must_use]
pub fn owners(run: &Run) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let model = &run.rendered.model;
    model.walk(&["stacks"], &mut |at, entity| {
        if let ["stacks", stack, "resources", id] = at {
            all.insert(format!("{stack}/{id}"), names(entity));
        }
    });
    for (path, artifact) in &run.rendered.artifacts {
        all.insert(path.clone(), vec![artifact.plugin.to_string()]);
    }
    for group in &run.setup.groups {
        files(run, group, &mut all);
    }
    all
}

fn names(entity: &crate::model::Entity) -> Vec<String> {
    entity.owner_names().into_iter().map(str::to_owned).collect()
}

/// Files of bundles belong to those whose files and units they are, not to the plugin that packs them.
fn files(run: &Run, group: &crate::config::Group, all: &mut BTreeMap<String, Vec<String>>) {
    let model = &run.rendered.model;
    let mut own: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, entity) in model.entities(&["machines", &group.key, "files"]) {
        own.insert(path.to_owned(), names(entity));
    }
    for (name, entity) in model.entities(&["machines", &group.key, "units"]) {
        own.insert(format!("/etc/systemd/system/{name}"), names(entity));
    }
    for folder in [group.folder(), "worker".to_owned()] {
        let prefix = format!("nodes/{folder}/bundle");
        for (path, artifact) in run.rendered.artifacts.range(format!("{prefix}/")..) {
            let Some(inside) = path.strip_prefix(&prefix) else { break };
            // What the node's program reads of a file names it.
            let about =
                inside.starts_with("/etc/kaws/").then(|| described(&artifact.bytes)).flatten();
            if let Some(owners) = own.get(about.as_deref().unwrap_or(inside)) {
                all.insert(path.clone(), owners.clone());
            }
        }
    }
}

/// The file that a description for the node's program is about.
fn described(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let named = |key| text.lines().find_map(|l| l.strip_prefix(key));
    let unit = || named("name=").map(|name| format!("/etc/systemd/system/{name}"));
    named("path=").map(str::to_owned).or_else(unit)
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let parts: Vec<String> =
                map.iter().map(|(k, v)| format!("{k}: {}", inline(v))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => other.to_string(),
    }
}
