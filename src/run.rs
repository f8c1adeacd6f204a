//! Renders a cluster, from its file to the finished files: what the command, the tests of plugins and
//! ours all call.
//!
//! Not here: writing (`emit`) and printing (`cli`).

use std::collections::BTreeSet;

use crate::finding::{Finding, Findings, Outcome, Severity};
use crate::load::{self, Options};
use crate::pipeline::{self, Rendered, Setup};
use crate::plugin::Artifact;
use crate::value::{Data, Node, Style, write};

/// A cluster, read and rendered.
#[derive(Debug)]
pub struct Run {
    /// What was read.
    pub setup: Setup,
    /// What was rendered.
    pub rendered: Rendered,
    /// `manifest.yaml`.
    pub manifest: String,
}

/// Reads and renders.
///
/// # Errors
/// Files that cannot be read; everything else is a finding, and with a fatal one there is no run.
pub fn render(options: &Options) -> Result<Outcome<Option<Run>>, load::Error> {
    render_with(options, None)
}

/// Reads and renders with `over` laid over the cluster's file.
///
/// # Errors
/// As [`render`].
pub fn render_with(
    options: &Options,
    over: Option<&Node>,
) -> Result<Outcome<Option<Run>>, load::Error> {
    let mut findings = Findings::new();
    let setup = load::load_with(options, &crate::builtin::native, over)?.collect(&mut findings);
    let Some(setup) = setup else { return Ok(Outcome { value: None, findings }) };
    let rendered = stages(&setup, options.locked, &mut findings);
    let value = rendered.map(|mut rendered| {
        rendered.artifacts.insert("model.yaml".to_owned(), model_file(&setup, &rendered));
        let manifest = manifest_text(&pipeline::manifest(&setup, &rendered));
        Run { setup, rendered, manifest }
    });
    Ok(Outcome { value, findings })
}

/// Renders once more what was read, with the plugins rearranged: the order they are found in changes
/// nothing, and this is how that is tested.
#[must_use]
pub fn again(
    run: &Run,
    rearrange: impl FnOnce(&mut Vec<crate::plugin::Instance>),
) -> Option<crate::plugin::Artifacts> {
    let setup = &run.setup;
    let mut plugins: Vec<crate::plugin::Instance> =
        setup.plugins.iter().map(crate::plugin::Instance::share).collect();
    rearrange(&mut plugins);
    let other = Setup {
        config: setup.config.clone(),
        node: setup.node.clone(),
        facts: setup.facts.clone(),
        groups: setup.groups.clone(),
        plugins,
        order: setup.order.clone(),
        lock: setup.lock.clone(),
        engine: crate::template::Engine::new(load::partials()),
    };
    let mut rendered = stages(&other, false, &mut Findings::new())?;
    rendered.artifacts.insert("model.yaml".to_owned(), model_file(&other, &rendered));
    Some(rendered.artifacts)
}

fn stages(setup: &Setup, locked: bool, findings: &mut Findings) -> Option<Rendered> {
    let intent = pipeline::initialise(setup).collect(findings);
    if locked {
        escalate(findings);
    }
    let rendered = if findings.any_fatal() {
        None
    } else {
        Some(pipeline::render(setup, &intent).collect(findings))
    };
    accept(setup, findings);
    findings.sort();
    rendered.filter(|_| !findings.any_fatal())
}

/// With `--locked` what is not in kaws.lock is fatal.
fn escalate(findings: &mut Findings) {
    let raised = std::mem::take(findings).into_iter().map(|mut finding| {
        if finding.code == "lock/unresolved" {
            finding.severity = Severity::Fatal;
        }
        finding
    });
    findings.extend(raised);
}

/// Takes out the warnings that `accept:` silences by code or by path; an entry that silences none is said.
fn accept(setup: &Setup, findings: &mut Findings) {
    let accept = &setup.config.accept;
    let mut used = BTreeSet::new();
    findings.retain(|finding| {
        if finding.severity == Severity::Fatal {
            return true;
        }
        let names = [Some(finding.code.clone()), finding.subject.clone()];
        let hit = names.into_iter().flatten().find(|name| accept.contains_key(name));
        used.extend(hit.clone());
        hit.is_none()
    });
    for key in accept.keys().filter(|key| !used.contains(*key)) {
        let path = crate::value::Path::parse(key).ok();
        // A path that is there allows a value that looks secret: the check of the config used it.
        let allows =
            path.and_then(|p| setup.node.at(&p.0).map(|n| n.as_str().is_some())) == Some(true);
        if allows || findings.any_fatal() {
            continue;
        }
        let at = setup.node.at(&["accept", key]).map_or(&setup.node.origin, Node::key_origin);
        findings.push(
            Finding::warning(
                "config/stale-accept",
                format!("`accept` silences nothing by `{key}`"),
            )
            .at(at),
        );
    }
}

fn model_file(setup: &Setup, rendered: &Rendered) -> Artifact {
    let name = &setup.config.name;
    let head = format!(
        "# The model of cluster {name} after initialise: what all plugins contributed, merged. Written by\n# `kaws render`; `kaws explain PATH` says who put something here, and from which line.\n"
    );
    let node = folded(&rendered.intent.to_node());
    let cluster = crate::name::Name::new("cluster").expect("it is a name");
    Artifact::text(&cluster, &format!("{head}{}", write(&node, &Style::plain())))
}

/// What is equal in all pools is written once, as `worker`.
fn folded(model: &Node) -> Node {
    let mut model = model.clone();
    let Some(map) = model.as_map_mut() else { return model };
    for part in crate::model::GROUPED.iter().filter(|p| **p != "securityGroups") {
        let Some(groups) = map.get_mut(*part).and_then(Node::as_map_mut) else { continue };
        let pools: Vec<String> =
            groups.keys().filter(|k| k.starts_with("pool:")).cloned().collect();
        let Some(first) = pools.first().and_then(|p| groups.get(p)).cloned() else { continue };
        let common =
            common(&first, &pools.iter().filter_map(|p| groups.get(p)).collect::<Vec<_>>());
        for pool in &pools {
            if let Some(own) = groups.get(pool) {
                let own = without(own, &common);
                groups.insert(pool.clone(), own);
            }
        }
        groups.retain(|_, node| node.as_map().is_none_or(|m| !m.is_empty()));
        if common.as_map().is_some_and(|m| !m.is_empty()) {
            groups.insert("worker".to_owned(), common);
        }
    }
    model
}

/// Returns what is in all of `nodes`, entity by entity: two levels down.
fn common(first: &Node, nodes: &[&Node]) -> Node {
    let mut out = first.clone_shell();
    let sections = first.as_map().into_iter().flatten().filter_map(|(section, body)| {
        let kept = match body.as_map() {
            None => {
                return nodes
                    .iter()
                    .all(|n| n.get(section) == Some(body))
                    .then(|| (section.clone(), body.clone()));
            }
            Some(map) => map.iter().filter(|(key, value)| {
                nodes.iter().all(|n| n.at(&[section.as_str(), key.as_str()]) == Some(value))
            }),
        };
        let kept: std::collections::BTreeMap<_, _> =
            kept.map(|(k, v)| (k.clone(), v.clone())).collect();
        (!kept.is_empty())
            .then(|| (section.clone(), Node { data: Data::Map(kept), ..body.clone_shell() }))
    });
    out.data = Data::Map(sections.collect());
    out
}

fn without(node: &Node, common: &Node) -> Node {
    let mut out = node.clone_shell();
    let sections = node.as_map().into_iter().flatten().filter_map(|(section, body)| {
        let Some(map) = body.as_map() else {
            return (common.get(section) != Some(body)).then(|| (section.clone(), body.clone()));
        };
        let kept =
            map.iter().filter(|(key, _)| common.at(&[section.as_str(), key.as_str()]).is_none());
        let kept: std::collections::BTreeMap<_, _> =
            kept.map(|(k, v)| (k.clone(), v.clone())).collect();
        (!kept.is_empty())
            .then(|| (section.clone(), Node { data: Data::Map(kept), ..body.clone_shell() }))
    });
    out.data = Data::Map(sections.collect());
    out
}

fn manifest_text(manifest: &serde_json::Value) -> String {
    let origin =
        crate::origin::Origin::file_start(&crate::origin::SourceFile::new("manifest.yaml", ""));
    let head = "# Written by `kaws render`, last of all files. `kaws up` deploys what is written here, and refuses a\n# tree whose files have other hashes.\n";
    format!("{head}{}", write(&Node::from_value(manifest.clone(), &origin), &Style::plain()))
}
