//! Which plugins are on, under which names, with which settings, on which groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::Natives;
use super::discover::{Catalogue, package};
use super::files::{Error, read_beside, read_yaml_if_there};
use crate::config::{Cluster, Group, Role};
use crate::finding::{Finding, Findings, Outcome};
use crate::lock::Lock;
use crate::name::{Name, did_you_mean};
use crate::origin::{Origin, SourceFile};
use crate::plugin::{Declared, Home, Instance, Package, Plugin, Slot, prepare, program};
use crate::runtime::{Program, Runtime};
use crate::template::{Engine, Scope, is_truthy};
use crate::value::{Data, Node};

/// What is known when plugins are chosen.
pub(super) struct Cx<'a> {
    pub(super) config: &'a Cluster,
    pub(super) node: &'a Node,
    pub(super) facts: &'a Node,
    pub(super) groups: &'a [Group],
    pub(super) folder: &'a Path,
    pub(super) natives: &'a Natives,
    pub(super) runtime: Option<&'a Arc<Runtime>>,
    pub(super) engine: &'a Engine,
}

/// Does nothing: a stage in which a plugin has no part.
#[derive(Debug)]
struct Idle;
impl Plugin for Idle {}

/// Returns the plugins that are on, by name.
///
/// # Errors
/// Files that cannot be read.
pub(super) fn resolve(cx: &Cx<'_>, catalogue: &Catalogue) -> Result<Outcome<Vec<Instance>>, Error> {
    let mut findings = Findings::new();
    let mut packages = Packages { catalogue, read: BTreeMap::new() };
    let mut instances = Vec::new();
    for (name, uses, origin) in wanted(cx, catalogue) {
        let Some(package) = packages.get(&uses, origin.as_ref(), &mut findings)? else { continue };
        instances.extend(instance(cx, &name, &package, origin, &mut findings)?);
    }
    displace(cx, &mut instances, &mut findings);
    missing(&instances, &mut findings);
    check_pool_plugins(cx, &instances, &mut findings);
    let schema = Cluster::facts_schema();
    for instance in instances.iter().filter(|i| i.package.home != Home::Builtin) {
        findings.extend(Declared::check(&instance.package, &schema, cx.engine));
    }
    instances.push(customised(cx, &schema, &mut findings));
    instances.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Outcome { value: instances, findings })
}

/// Returns the plugins to turn on: their name, the package's name, and where `cluster.yaml` says so.
fn wanted(cx: &Cx<'_>, catalogue: &Catalogue) -> Vec<(String, String, Option<Origin>)> {
    let place = |name: &str| cx.node.at(&["plugins", name]).map(|n| n.key_origin().clone());
    let builtin =
        catalogue.names().filter(|n| catalogue.places(n).iter().any(|f| f.home == Home::Builtin));
    let default = builtin.filter(|n| !cx.config.plugins.contains_key(*n));
    let mut all: Vec<_> = default.map(|n| (n.to_owned(), n.to_owned(), None)).collect();
    for (name, used) in cx.config.plugins.iter().filter(|(_, used)| used.enabled) {
        let package = used.uses.clone().unwrap_or_else(|| name.clone());
        all.push((name.clone(), package, place(name)));
    }
    all
}

struct Packages<'a> {
    catalogue: &'a Catalogue,
    read: BTreeMap<String, Option<Arc<Package>>>,
}

impl Packages<'_> {
    fn get(
        &mut self,
        name: &str,
        origin: Option<&Origin>,
        findings: &mut Findings,
    ) -> Result<Option<Arc<Package>>, Error> {
        if let Some(read) = self.read.get(name) {
            return Ok(read.clone());
        }
        let all = self.catalogue.places(name);
        // What was installed counts where cluster.yaml names it, and nowhere else: also where it takes a built-in's place.
        let places = match all.split_last() {
            Some((last, rest)) if origin.is_none() && matches!(last.home, Home::Installed(_)) => {
                rest
            }
            _ => all,
        };
        let mut package_read = None;
        match places {
            _ if origin.is_some() && self.catalogue.absent(name).is_some() => {
                findings.push(self.unknown(name, origin));
            }
            [] => findings.push(self.unknown(name, origin)),
            [.., last] => match package(name, last)? {
                Ok(read) => {
                    let replaces = read.manifest.replaces.as_deref() == Some(name);
                    if places.len() > 1 && !(replaces && places.len() == 2) {
                        findings.push(duplicate(name, &read, places));
                    }
                    package_read = Some(Arc::new(read));
                }
                Err(wrong) => findings.extend(wrong),
            },
        }
        self.read.insert(name.to_owned(), package_read.clone());
        Ok(package_read)
    }

    fn unknown(&self, name: &str, origin: Option<&Origin>) -> Finding {
        if let Some(version) = self.catalogue.absent(name) {
            let text = format!("{name} {version} is in kaws.lock, and not on this machine");
            let finding = Finding::fatal("plugin/not-installed", text);
            let finding = origin.iter().fold(finding, |f, o| f.at(o));
            return finding.help("kaws plugin install installs what kaws.lock names");
        }
        let finding = Finding::fatal("plugin/unknown", format!("there is no plugin `{name}`"));
        let finding = origin.iter().fold(finding, |f, o| f.at(o));
        match did_you_mean(name, self.catalogue.names()) {
            Some(near) => finding.help(format!("did you mean `{near}`?")),
            None => finding.help("kaws plugin list --all shows all there are"),
        }
    }
}

fn duplicate(name: &str, read: &Package, places: &[super::Found]) -> Finding {
    let place = |found: &super::Found| match &found.home {
        Home::Builtin => "built in".to_owned(),
        Home::Contrib => "contrib".to_owned(),
        Home::User(folder) => folder.clone(),
        Home::Installed(from) => format!("installed from {from}"),
    };
    let all: Vec<String> = places.iter().map(place).collect();
    let at = read.node.get("name").map_or(&read.node.origin, |n| &n.origin);
    Finding::fatal("plugin/duplicate", format!("several plugins have the name {name}: {}", all.join(", ")))
        .at(at)
        .help("give yours another name")
        .help(format!("or, if it is to take the place of kaws's own, say so in its manifest:\n\n    replaces: {name}"))
}

fn instance(
    cx: &Cx<'_>,
    name: &str,
    package: &Arc<Package>,
    origin: Option<Origin>,
    findings: &mut Findings,
) -> Result<Option<Instance>, Error> {
    let Some(own) = Name::new(name) else {
        let finding = Finding::fatal("plugin/pattern", format!("`{name}` is no name for a plugin"));
        findings.push(origin.iter().fold(finding, super::super::finding::Finding::at));
        return Ok(None);
    };
    let written = written_settings(cx, name, findings)?;
    let read = |path: &str| read_beside(cx.folder, path);
    let settings = prepare(package, name, written.as_ref(), &read, findings);
    let mut pool_settings = BTreeMap::new();
    for (pool, config) in &cx.config.node_pools {
        if config.plugins.contains_key(name) {
            let own = cx.node.at(&["nodePools", pool, "plugins", name, "settings"]);
            let both = laid_over(written.as_ref(), own);
            pool_settings
                .insert(pool.clone(), prepare(package, name, both.as_ref(), &read, findings));
        }
    }
    let (nodes, narrowed) = nodes(cx, name, package, findings);
    let chosen: Vec<&Group> = cx.groups.iter().filter(|g| nodes.contains(&g.key)).collect();
    Ok(Some(Instance {
        name: own,
        package: Arc::clone(package),
        settings,
        pool_settings,
        nodes: chosen.iter().map(|g| g.key.clone()).collect(),
        stacks: chosen.iter().map(|g| g.stack.clone()).collect(),
        narrowed,
        origin,
        initialise: runtime(cx, package, "initialise", findings),
        render: runtime(cx, package, "render", findings),
    }))
}

/// Returns what does a plugin's work in a stage.
fn runtime(
    cx: &Cx<'_>,
    package: &Package,
    stage: &str,
    findings: &mut Findings,
) -> Arc<dyn Plugin> {
    let manifest = &package.manifest;
    let body = if stage == "render" { &manifest.render } else { &manifest.initialise };
    let at = |key: &str| package.node.at(&[stage, key]).unwrap_or(&package.node);
    if let Some(Ok(exec)) = program::of_stage(manifest, stage) {
        let origin = at("exec").origin.clone();
        return Arc::new(Program { runtime: cx.runtime.cloned(), exec, origin });
    }
    if body.contains_key("native") {
        if let Some(native) = cx.natives.get(package.name.as_str()) {
            return Arc::clone(native);
        }
        let text = format!("there is no native code for {} in this kaws", package.name);
        let names: Vec<&str> = cx.natives.keys().copied().collect();
        let finding = Finding::fatal("plugin/native", text).at(at("native").key_origin());
        findings.push(finding.help(format!("there is some for: {}", names.join(", "))));
    }
    if body.is_empty() && stage == "render" { Arc::new(Idle) } else { Arc::new(Declared) }
}

/// Returns the settings in `cluster.yaml` or in `config/<plugin>.yaml` beside it; both is a clash.
fn written_settings(
    cx: &Cx<'_>,
    name: &str,
    findings: &mut Findings,
) -> Result<Option<Node>, Error> {
    let inline = cx.node.at(&["plugins", name, "settings"]).cloned();
    let path = cx.folder.join("config").join(format!("{name}.yaml"));
    let beside = match read_yaml_if_there(&path)? {
        None => return Ok(inline),
        Some(Ok(node)) => node,
        Some(Err(wrong)) => {
            findings.extend(wrong);
            return Ok(inline);
        }
    };
    let accept = |path: &str| cx.config.accept.contains_key(path);
    findings.extend(crate::config::secrets_in(&beside, &["config", name], &accept));
    if let Some(inline) = &inline {
        let finding =
            Finding::fatal("config/clash", format!("the settings of {name} stand in two files"))
                .at_with(inline.key_origin(), "here")
                .related(&beside.origin, "and here");
        findings.push(finding.help("keep one of the two"));
    }
    Ok(inline.or(Some(beside)))
}

/// A pool's settings replace the cluster's, key by key.
fn laid_over(base: Option<&Node>, own: Option<&Node>) -> Option<Node> {
    let (Some(base), Some(own)) = (base, own) else { return own.or(base).cloned() };
    let mut all = base.clone();
    if let (Some(map), Some(own)) = (all.as_map_mut(), own.as_map()) {
        map.extend(own.iter().map(|(k, v)| (k.clone(), v.clone())));
    }
    Some(all)
}

/// Returns the groups a plugin is on: the manifest's roles, narrowed by `nodePools:` and `roles:`.
fn nodes(
    cx: &Cx<'_>,
    name: &str,
    package: &Package,
    findings: &mut Findings,
) -> (BTreeSet<String>, bool) {
    let offered = &package.manifest.nodes;
    let all = |roles: &[Role]| -> BTreeSet<String> {
        cx.groups.iter().filter(|g| roles.contains(&g.role)).map(|g| g.key.clone()).collect()
    };
    let Some(used) = cx.config.plugins.get(name) else { return (all(offered), false) };
    let mut chosen = BTreeSet::new();
    let place = |list: &str, i: usize| {
        let node = cx.node.at(&["plugins", name, list, &i.to_string()]);
        node.map_or_else(|| cx.node.origin.clone(), |n| n.origin.clone())
    };
    for (i, role) in used.roles.iter().flatten().enumerate() {
        if !offered.contains(role) {
            let text = format!("{name} is not for nodes of the role {}", role.as_ref());
            let roles: Vec<&str> = offered.iter().map(AsRef::as_ref).collect();
            findings.push(
                Finding::fatal("plugin/nodes", text)
                    .at(&place("roles", i))
                    .help(format!("it is for: {}", roles.join(", "))),
            );
        }
        chosen.extend(all(&[*role]));
    }
    for (i, pool) in used.node_pools.iter().flatten().enumerate() {
        let at = place("nodePools", i);
        if !cx.config.node_pools.contains_key(pool) {
            let finding =
                Finding::fatal("plugin/nodes", format!("there is no node pool `{pool}`")).at(&at);
            let near = did_you_mean(pool, cx.config.node_pools.keys().map(String::as_str));
            findings.push(
                near.into_iter().fold(finding, |f, n| f.help(format!("did you mean `{n}`?"))),
            );
        } else if !offered.contains(&Role::Worker) {
            let text = format!("{name} is not for workers, and so not for the pool {pool}");
            findings.push(Finding::fatal("plugin/nodes", text).at(&at));
        }
        chosen.insert(format!("pool:{pool}"));
    }
    let narrowed = used.roles.is_some() || used.node_pools.is_some();
    if narrowed { (chosen, true) } else { (all(offered), false) }
}

/// Settings of a pool are for plugins that are on there.
fn check_pool_plugins(cx: &Cx<'_>, instances: &[Instance], findings: &mut Findings) {
    for (pool, config) in &cx.config.node_pools {
        for name in config.plugins.keys() {
            let at = cx
                .node
                .at(&["nodePools", pool, "plugins", name])
                .map_or(&cx.node.origin, Node::key_origin);
            let on = instances.iter().find(|i| i.name.as_str() == name);
            let text = match on {
                None => format!("the pool {pool} sets {name}, and no such plugin is on"),
                Some(i) if !i.nodes.contains(&format!("pool:{pool}")) => {
                    format!("the pool {pool} sets {name}, which is not on there")
                }
                Some(_) => continue,
            };
            findings.push(Finding::fatal("plugin/nodes", text).at(at));
        }
    }
}

/// In an exclusive slot a plugin that `cluster.yaml` names displaces those that are on by default.
fn displace(cx: &Cx<'_>, instances: &mut Vec<Instance>, findings: &mut Findings) {
    let mut providers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, instance) in instances.iter().enumerate() {
        for (slot, provision) in &instance.package.manifest.provides {
            if provision.slot == Slot::Exclusive && holds(cx, instance, provision.when.as_deref()) {
                providers.entry(slot.clone()).or_default().push(i);
            }
        }
    }
    let mut off = BTreeSet::new();
    for (slot, all) in providers.iter().filter(|(_, all)| all.len() > 1) {
        let chosen: Vec<usize> =
            all.iter().copied().filter(|i| instances[*i].origin.is_some()).collect();
        if let [_] = chosen.as_slice() {
            off.extend(all.iter().copied().filter(|i| instances[*i].origin.is_none()));
            continue;
        }
        let names: Vec<&str> = all.iter().map(|i| instances[*i].name.as_str()).collect();
        let text = format!("{} all provide `{slot}`, and only one can", names.join(" and "));
        let mut finding = Finding::fatal("plugin/slot", text);
        for origin in chosen.iter().filter_map(|i| instances[*i].origin.as_ref()) {
            finding = if finding.origin.is_none() {
                finding.at(origin)
            } else {
                finding.related(origin, "and this one")
            };
        }
        findings.push(finding.help("turn one off: enabled: false"));
    }
    let mut index = 0;
    instances.retain(|_| {
        index += 1;
        !off.contains(&(index - 1))
    });
}

fn holds(cx: &Cx<'_>, instance: &Instance, when: Option<&str>) -> bool {
    let Some(when) = when else { return true };
    let roots = BTreeMap::from([("settings", &instance.settings), ("cluster", cx.facts)]);
    let scope = Scope { roots, plugin: &instance.name };
    let value = cx
        .engine
        .expression(when)
        .ok()
        .and_then(|e| e.evaluate(&scope, &instance.package.node.origin).ok());
    value.is_some_and(|v| is_truthy(&v))
}

fn missing(instances: &[Instance], findings: &mut Findings) {
    for instance in instances {
        for (i, required) in instance.package.manifest.requires.iter().enumerate() {
            if instances.iter().any(|other| other.name.as_str() == required) {
                continue;
            }
            let node = instance.package.node.at(&["requires", &i.to_string()]);
            let text = format!("{} needs the plugin {required}, which is not on", instance.name);
            let finding = Finding::fatal("plugin/missing", text)
                .at(node.map_or(&instance.package.node.origin, |n| &n.origin));
            let finding = instance
                .origin
                .iter()
                .fold(finding, |f, o| f.related(o, format!("{} is turned on here", instance.name)));
            findings
                .push(finding.help(format!("turn it on:\n\n    plugins:\n      {required}: {{}}")));
        }
    }
}

/// Returns the plugin that `customise:` is: a contribution like any other.
fn customised(cx: &Cx<'_>, schema: &serde_json::Value, findings: &mut Findings) -> Instance {
    let empty = Node::empty_map(cx.node.origin.clone());
    let customise = cx.node.get("customise").cloned().unwrap_or_else(|| empty.clone());
    let mut node = empty.clone();
    if let Some(map) = node.as_map_mut() {
        map.insert("initialise".to_owned(), customise);
    }
    let manifest = json!({"apiVersion": "kaws/v1", "name": "cluster", "version": env!("CARGO_PKG_VERSION"),
        "description": "What cluster.yaml says under customise.", "nodes": ["etcd", "controller", "worker"]});
    let manifest = serde_json::from_value(manifest).expect("it is a manifest");
    let home = Home::User("cluster.yaml".to_owned());
    let package = Package::made(manifest, node, home).expect("it is constant");
    findings.extend(Declared::check(&package, schema, cx.engine));
    Instance {
        name: package.name.clone(),
        package: Arc::new(package),
        settings: Node::new(
            Data::Map(BTreeMap::new()),
            Origin::file_start(&SourceFile::new("cluster.yaml", "")),
        ),
        pool_settings: BTreeMap::new(),
        nodes: cx.groups.iter().map(|g| g.key.clone()).collect(),
        stacks: cx.groups.iter().map(|g| g.stack.clone()).collect(),
        narrowed: false,
        origin: cx.node.get("customise").map(|n| n.key_origin().clone()),
        initialise: Arc::new(Declared),
        render: Arc::new(Idle),
    }
}

/// Compares the plugins with those that kaws.lock recorded.
pub(super) fn check_locked(
    instances: &[Instance],
    config: &Cluster,
    lock: &Lock,
    locked: bool,
) -> Findings {
    let mut findings: Findings =
        instances.iter().filter_map(|i| unsigned(i, config, lock)).collect();
    for instance in instances.iter().filter(|i| i.package.home != Home::Builtin) {
        let Some(recorded) = lock.plugin(instance.package.name.as_str()) else { continue };
        let hash = instance.package.hash();
        if hash == recorded.tree() {
            continue;
        }
        let installed = matches!(instance.package.home, Home::Installed(_));
        let text = format!("{} is not the plugin that kaws.lock recorded", instance.name);
        // What was installed is nobody's to change; what is worked on is.
        let finding = if installed {
            let help =
                "somebody changed its files on this machine: kaws plugin install puts them back";
            Finding::fatal("lock/plugin-changed", text).help(help)
        } else if locked {
            Finding::fatal("lock/plugin-changed", text)
        } else {
            Finding::warning("lock/plugin-changed", text)
        };
        let finding = instance.origin.iter().fold(finding, super::super::finding::Finding::at);
        let note = format!(
            "recorded {} with {}, found {} with {}",
            recorded.version,
            &recorded.tree()[..8],
            instance.package.manifest.version,
            &hash[..8]
        );
        findings.push(finding.note(note).about(format!("plugins.{}", instance.name)));
    }
    findings
}

/// An installed plugin that nobody signed whom the cluster trusts.
fn unsigned(instance: &Instance, config: &Cluster, lock: &Lock) -> Option<Finding> {
    let trusted = &config.signatures;
    let source = lock.plugin(instance.package.name.as_str())?.source.as_ref()?;
    let known = source.signer.as_ref().is_some_and(|signer| trusted.keys.contains_key(signer));
    let installed = matches!(instance.package.home, Home::Installed(_));
    let text = format!("{} is signed by nobody whom cluster.yaml trusts", instance.name);
    let finding = Finding::fatal("install/signature", text);
    let finding = instance.origin.iter().fold(finding, super::super::finding::Finding::at);
    (installed && trusted.required() && !known)
        .then(|| finding.help("install one that is signed, or say signatures.required: false"))
}

/// What programs ask for and were not granted: they are not told, and do not reach it.
pub(super) fn check_granted(instances: &[Instance], lock: &Lock) -> Findings {
    instances.iter().filter_map(|instance| not_granted(instance, lock)).collect()
}

fn not_granted(instance: &Instance, lock: &Lock) -> Option<Finding> {
    let manifest = &instance.package.manifest;
    let missing = lock.not_granted(instance.name.as_str(), &manifest.capabilities.rights());
    let at = instance.package.node.get("capabilities").unwrap_or(&instance.package.node);
    let text =
        format!("{} asks for rights that nobody granted: {}", instance.name, missing.join(", "));
    let finding = Finding::warning("lock/not-granted", text).at(at.key_origin());
    let help = format!(
        "kaws lock asks you, and keeps it in kaws.lock; or: kaws lock --grant {}",
        instance.name
    );
    (!missing.is_empty()).then(|| finding.help(help).about(format!("plugins.{}", instance.name)))
}
