//! Renders a cluster, from its file to the finished files: what the command, the tests of plugins and
//! ours all call.
//!
//! Not here: writing (`emit`) and printing (`cli`).

use std::collections::BTreeSet;

use crate::finding::{Finding, Findings, Outcome, Severity};
use crate::load::{self, Options};
use crate::model::Model;
use crate::pipeline::{self, Rendered, Setup};
use crate::plugin::Artifact;
use crate::value::{Node, Style, write};

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
    let setup = load::load_with(options, &crate::builtin::natives(), over)?.collect(&mut findings);
    let Some(setup) = setup else { return Ok(Outcome { value: None, findings }) };
    let rendered = stages(&setup, options.locked, &mut findings);
    let value = rendered.map(|rendered| {
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
    let rendered = stages(&other, false, &mut Findings::new())?;
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
        let file = model_file(setup, &intent);
        let mut rendered = pipeline::render(setup, intent).collect(findings);
        rendered.artifacts.insert("model.yaml".to_owned(), file);
        Some(rendered)
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

fn model_file(setup: &Setup, intent: &Model) -> Artifact {
    let name = &setup.config.name;
    let head = format!(
        "# The model of cluster {name} after initialise: what all plugins contributed, merged. Written by\n# `kaws render`; `kaws explain PATH` says who put something here, and from which line.\n"
    );
    let node = intent.to_node();
    let cluster = crate::name::Name::new("cluster").expect("it is a name");
    Artifact::text(&cluster, &format!("{head}{}", write(&node, &Style::plain())))
}

fn manifest_text(manifest: &serde_json::Value) -> String {
    let origin =
        crate::origin::Origin::file_start(&crate::origin::SourceFile::new("manifest.yaml", ""));
    let head = "# Written by `kaws render`, last of all files: a tree whose files have other hashes is not what was\n# rendered, and `kaws render --check` says so.\n";
    format!("{head}{}", write(&Node::from_value(manifest.clone(), &origin), &Style::plain()))
}
