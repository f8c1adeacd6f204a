//! Runs the stages initialise and render: plugins in lockstep, rank by rank, and the model between.
//!
//! Pure: everything has been read before (`load`), nothing is written here (`emit`). The order of stages
//! is in the types: [`render`] needs the [`Model`] that [`initialise`] returns.

mod addons;
mod events;
mod manifest;
mod pins;
mod stage;

pub use addons::{Addon, ChartPin, PHASES, addons, manifest_file};
pub use events::{EventHook, event_hooks, late_request};
pub use manifest::manifest;
pub(crate) use pins::lock_name;
pub use pins::{PinNeed, ScriptNeed, collect as collect_pins, scripts};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{Cluster, Group};
use crate::finding::{Finding, Findings, Outcome};
use crate::lock::Lock;
use crate::model::{Decisions, Model, Patch, Preference, Stage};
use crate::name::Name;
use crate::order::{Order, Ordered};
use crate::plugin::{self, Artifacts, Instance, Question, View};
use crate::template::Engine;
use crate::value::{Node, Path};

/// Everything that was read, ready to run.
#[derive(Debug)]
pub struct Setup {
    /// The config.
    pub config: Cluster,
    /// The config as it was written, with `extends` followed.
    pub node: Node,
    /// The config as templates see it.
    pub facts: Node,
    /// The groups of machines.
    pub groups: Vec<Group>,
    /// The plugins that are on, by name; the last is `cluster`, the user's own contribution.
    pub plugins: Vec<Instance>,
    /// Their order.
    pub order: Order,
    /// What is pinned.
    pub lock: Lock,
    /// The engine of text templates.
    pub engine: Engine,
}

/// The cluster, rendered.
#[derive(Debug)]
pub struct Rendered {
    /// The model as lowered.
    pub model: Model,
    /// The files.
    pub artifacts: Artifacts,
}

/// Runs initialise.
pub fn initialise(setup: &Setup) -> Outcome<Model> {
    let mut findings = Findings::new();
    let mut decisions = decisions(setup, &mut findings);
    let mut model = Model::default();
    let ran = stage::run(setup, Stage::Initialise, &mut model, &mut decisions, &[]);
    findings.extend(ran.findings);
    if !findings.any_fatal() {
        let (patches, wrong) = model.patches();
        findings.extend(wrong);
        let done: Vec<String> =
            stage::FINISHED_BY_INITIALISE.iter().map(|p| (*p).to_owned()).collect();
        findings.extend(model.seal(&done, &patches));
        // Values stay open, as render may compute more of them; patches of those that are there count now.
        for patch in patches.iter().filter(|p| p.at.0[0] == "values") {
            findings.extend(model.apply(patch));
        }
        findings.extend(pins::unresolved(setup, &model));
    }
    Outcome { value: model, findings }
}

/// Runs render on what initialise returned, which it lowers in place: a large cluster's model is not
/// held twice.
pub fn render(setup: &Setup, intent: Model) -> Outcome<Rendered> {
    let mut findings = Findings::new();
    let mut model = intent;
    let mut decisions = decisions(setup, &mut Findings::new());
    let (patches, _) = model.patches();
    let ran = stage::run(setup, Stage::Render, &mut model, &mut decisions, &patches);
    let artifacts = ran.collect(&mut findings);
    if !findings.any_fatal() {
        findings.extend(unused_preferences(&decisions, setup, &model));
    }
    Outcome { value: Rendered { model, artifacts }, findings }
}

/// Returns what the plugins that are on ask the outside: known before any of them is called.
pub fn lookups(setup: &Setup) -> Outcome<Vec<Question>> {
    let (values, view) = (Model::default().values(), View::default());
    let mut findings = Findings::new();
    let mut all = Vec::new();
    for me in setup.plugins.iter().filter(|p| !p.package.manifest.lookups.is_empty()) {
        let cx = stage::context(setup, &values, &view, me);
        all.extend(plugin::questions(&cx).collect(&mut findings));
    }
    Outcome { value: all, findings }
}

/// Returns the plugins as far as their order goes.
#[must_use]
pub fn ordered(setup: &Setup, stage: Stage) -> Vec<Ordered> {
    let one = |instance: &Instance| {
        let manifest = &instance.package.manifest;
        let acts = match stage {
            Stage::Render => !manifest.render.is_empty(),
            _ => true,
        };
        let place = |list: &str, i: usize| {
            let node = instance.package.node.at(&[list, &i.to_string()]);
            node.map_or_else(|| instance.package.node.origin.clone(), |n| n.origin.clone())
        };
        let edges = |list: &str, names: &[String]| -> Vec<_> {
            names.iter().enumerate().map(|(i, n)| (n.clone(), place(list, i))).collect()
        };
        let mut after = edges("after", &manifest.after);
        // What a plugin requires is there before it in initialise. Render lowers in the order of the file,
        // in which whoever adds to a part comes before the plugin that lowers it.
        if stage == Stage::Initialise {
            after.extend(edges("requires", &manifest.requires));
        }
        Ordered { name: instance.name.to_string(), acts, after }
    };
    setup.plugins.iter().map(one).collect()
}

/// Returns `prefer:` as paths, and the places that patches of `cluster.yaml` settle.
fn decisions(setup: &Setup, findings: &mut Findings) -> Decisions {
    let mut decisions = Decisions::default();
    if let Some(prefer) = setup.node.get("prefer") {
        preferences(prefer, &mut Vec::new(), &mut decisions.prefer, findings);
    }
    let patches = setup.node.at(&["customise", "patches"]).and_then(Node::as_map);
    for patch in patches.into_iter().flatten().map(|(_, patch)| patch) {
        let replaces = matches!(patch.get("op").and_then(Node::as_str), Some("replace" | "remove"));
        let at = patch.get("at").and_then(Node::as_str).and_then(|text| Path::parse(text).ok());
        decisions.settled.extend(at.filter(|_| replaces));
    }
    decisions
}

fn preferences(
    node: &Node,
    path: &mut Vec<String>,
    all: &mut BTreeMap<Path, Preference>,
    findings: &mut Findings,
) {
    for (key, value) in node.as_map().into_iter().flatten() {
        path.push(key.clone());
        match (value.as_str(), value.as_map()) {
            (Some(text), _) => match Name::new(text) {
                Some(plugin) => {
                    all.insert(
                        Path(path.clone()),
                        Preference { plugin, origin: value.origin.clone() },
                    );
                }
                None => {
                    let text = format!("`{text}` is no plugin's name");
                    findings.push(Finding::fatal("config/type", text).at(&value.origin));
                }
            },
            (_, Some(_)) => preferences(value, path, all, findings),
            _ => {
                let text = format!("{} needs a plugin's name", Path(path.clone()));
                findings.push(Finding::fatal("config/type", text).at(&value.origin));
            }
        }
        path.pop();
    }
}

/// A preference that decides nothing is a mistake, or left over: of initialise's parts, it is known now.
fn unused_preferences(decisions: &Decisions, setup: &Setup, model: &Model) -> Findings {
    let names: BTreeSet<&str> = setup.plugins.iter().map(|p| p.name.as_str()).collect();
    let decided = |entity: &crate::model::Entity| {
        entity
            .history
            .as_ref()
            .is_some_and(|h| h.yielded.iter().any(|(_, why)| *why == crate::model::PREFERRED))
    };
    let used = |path: &Path| {
        let generic = path.0.get(1).is_some_and(|g| g == "worker") && path.0[0] != "securityGroups";
        let groups = setup.groups.iter().filter(|g| generic && g.pool.is_some()).map(|g| {
            let mut path = path.clone();
            path.0[1].clone_from(&g.key);
            path
        });
        let mut all = std::iter::once(path.clone()).chain(groups);
        all.any(|p| model.entity_around(&p.0).is_some_and(|(entity, _)| decided(entity)))
    };
    let unused = decisions.prefer.iter().filter(|(path, _)| !used(path));
    unused
        .map(|(path, preference)| {
            let text = format!("`prefer` decides nothing at {path}");
            let finding = Finding::warning("merge/unused-prefer", text)
                .at(&preference.origin)
                .about(path.to_string());
            let plugin = preference.plugin.as_str();
            if !names.contains(plugin) {
                let near = crate::name::did_you_mean(plugin, names.iter().copied());
                let help = near.map_or_else(
                    || format!("no plugin {plugin} is on"),
                    |n| format!("did you mean {n}?"),
                );
                finding.help(help)
            } else if model.entity_around(&path.0).is_none() {
                finding.help("nothing is there")
            } else {
                finding.help("nobody disagrees there: take the entry out")
            }
        })
        .collect()
}

/// Returns patches in the order they are applied, for those who look at them.
#[must_use]
pub fn patches(model: &Model) -> Vec<Arc<Patch>> {
    model.patches().0
}
