//! One stage: its ranks and seals, in order. All plugins of a rank get the same input.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Setup, ordered};
use crate::finding::{Finding, Findings, Outcome};
use crate::model::{Claim, Decisions, Model, Patch, Split, Stage, claim_at, split};
use crate::name::Name;
use crate::order::Step;
use crate::plugin::{Artifacts, Context, Contribution, Instance, Rendering, View};
use crate::value::{Node, Path};

/// The parts that render does not add to: they are finished when initialise is.
pub(super) const FINISHED_BY_INITIALISE: [&str; 17] = [
    "apiServer",
    "checks",
    "controllerManager",
    "etcd",
    "helm",
    "hooks",
    "iam",
    "kubeProxy",
    "kubelet",
    "network",
    "patches",
    "pins",
    "pki",
    "scheduler",
    "secrets",
    "securityGroups",
    "steps",
];

/// Files that are not any plugin's.
const RESERVED: [&str; 3] = ["manifest.yaml", "model.yaml", ".journal.yaml"];

/// Runs the stage on `model`, and returns the files it made.
pub(super) fn run(
    setup: &Setup,
    stage: Stage,
    model: &mut Model,
    decisions: &mut Decisions,
    patches: &[Arc<Patch>],
) -> Outcome<Artifacts> {
    let mut artifacts = Artifacts::new();
    let mut findings = Findings::new();
    let steps = match setup.order.steps(stage, &ordered(setup, stage)) {
        Ok(steps) => steps,
        Err(findings) => return Outcome { value: artifacts, findings },
    };
    let pools: Arc<[String]> =
        setup.groups.iter().filter(|g| g.pool.is_some()).map(|g| g.key.clone()).collect();
    for step in steps {
        match step {
            Step::Seal(parts) => findings.extend(model.seal(&parts, patches)),
            Step::Rank(names) => {
                let rank: Vec<&Instance> =
                    setup.plugins.iter().filter(|p| names.contains(&p.name.to_string())).collect();
                let (claims, made) =
                    call(setup, stage, &rank, model, &artifacts, &pools, &mut findings);
                findings.extend(model.merge(claims, decisions));
                findings.extend(add(&mut artifacts, made, &rank));
            }
        }
        if findings.any_fatal() {
            break;
        }
    }
    Outcome { value: artifacts, findings }
}

/// Calls every plugin of a rank with the same input; what they say is taken in the order of their names.
fn call(
    setup: &Setup,
    stage: Stage,
    rank: &[&Instance],
    model: &Model,
    artifacts: &Artifacts,
    pools: &Arc<[String]>,
    findings: &mut Findings,
) -> (Vec<Claim>, Vec<Artifacts>) {
    let mut claims = Vec::new();
    let mut made = Vec::new();
    let (values, view) = (model.values(), View::default());
    let one = |instance: &Instance| {
        let cx = context(setup, &values, &view, instance);
        match stage {
            Stage::Render => instance.render.render(&cx, model, artifacts),
            _ => instance.initialise.initialise(&cx, model).map(Rendering::from),
        }
    };
    let waits = |instance: &Instance| match stage {
        Stage::Render => instance.render.waits(),
        _ => instance.initialise.waits(),
    };
    let slow: Vec<&Instance> = rank.iter().copied().filter(|i| waits(i)).collect();
    let mut waited_for = side_by_side(&slow, &one);
    for instance in rank {
        let outcome = waited_for.remove(&instance.name).unwrap_or_else(|| one(instance));
        let rendering = outcome.collect(findings);
        let (new, wrong) = claims_of(setup, &rendering.contribution, instance, stage, pools);
        claims.extend(new);
        findings.extend(wrong);
        made.push(rendering.artifacts);
    }
    (claims, made)
}

/// Returns what a plugin is given beside the model.
pub(super) fn context<'a>(
    setup: &'a Setup,
    values: &'a Node,
    view: &'a View,
    me: &'a Instance,
) -> Context<'a> {
    Context {
        config: &setup.config,
        facts: &setup.facts,
        groups: &setup.groups,
        lock: &setup.lock,
        engine: &setup.engine,
        values,
        plugins: &setup.plugins,
        view,
        me,
    }
}

/// Calls those that wait for something else than this process side by side, as many as there are processors.
fn side_by_side<'i>(
    instances: &[&'i Instance],
    one: &(dyn Fn(&Instance) -> Outcome<Rendering> + Sync),
) -> BTreeMap<&'i Name, Outcome<Rendering>> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).min(instances.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(instance) = instances.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((&instance.name, one(instance)));
        }
        done
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let ended = |w: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().flat_map(ended).collect()
    })
}

fn claims_of(
    setup: &Setup,
    contribution: &Contribution,
    instance: &Instance,
    stage: Stage,
    pools: &Arc<[String]>,
) -> (Vec<Claim>, Findings) {
    let on = instance.nodes.iter().filter(|n| n.starts_with("pool:")).count();
    let mut claims = Vec::new();
    let mut findings = Findings::new();
    let whole = Split {
        plugin: &instance.name,
        stage,
        nodes: &instance.nodes,
        stacks: &instance.stacks,
        pools,
        groups: &setup.groups,
        offered: &instance.package.manifest.nodes,
        narrowed: instance.narrowed,
        all_pools: on == pools.len(),
        lowered: false,
        writes: instance.package.writes.as_deref(),
    };
    // A part for each of 500 pools must not look through all of them.
    let places: BTreeMap<&str, usize> =
        instance.nodes.iter().enumerate().map(|(at, node)| (node.as_str(), at)).collect();
    for part in &contribution.parts {
        let (new, wrong) = match &part.groups {
            None => split(&part.tree, &whole),
            Some(groups) => {
                let mut chosen: Vec<usize> =
                    groups.iter().filter_map(|g| places.get(g.as_str()).copied()).collect();
                chosen.sort_unstable();
                let nodes: Arc<[String]> =
                    chosen.iter().map(|i| instance.nodes[*i].clone()).collect();
                let stacks: Arc<[String]> =
                    chosen.iter().map(|i| instance.stacks[*i].clone()).collect();
                let own: Arc<[String]> =
                    nodes.iter().filter(|n| n.starts_with("pool:")).cloned().collect();
                split(&part.tree, &Split { nodes: &nodes, stacks: &stacks, pools: &own, ..whole })
            }
        };
        claims.extend(new);
        findings.extend(wrong);
    }
    for made in &contribution.entities {
        let (new, wrong) = claim_at(&made.path, made.body.clone(), made.from.clone(), &whole);
        claims.extend(new);
        findings.extend(wrong);
    }
    (claims, findings)
}

/// Adds finished files; two plugins that make one file differently disagree.
fn add(artifacts: &mut Artifacts, made: Vec<Artifacts>, rank: &[&Instance]) -> Findings {
    let mut findings = Findings::new();
    let place = |plugin: &Name| {
        let instance = rank.iter().find(|instance| instance.name == *plugin)?;
        Some(instance.package.node.get("render").unwrap_or(&instance.package.node).key_origin())
    };
    for (path, artifact) in made.into_iter().flatten() {
        let safe = !path.starts_with('/')
            && path.split('/').all(|s| !s.is_empty() && s != "." && s != "..");
        if !safe
            || path.contains('\\')
            || RESERVED.contains(&path.as_str())
            || path.ends_with(".kaws-aside")
        {
            let text = format!(
                "{} makes a file at `{path}`, which is no place below rendered/",
                artifact.plugin
            );
            let finding = Finding::fatal("plugin/file", text).by(&artifact.plugin);
            findings.push(place(&artifact.plugin).into_iter().fold(finding, Finding::at));
            continue;
        }
        match artifacts.get(&path) {
            Some(other) if other.bytes != artifact.bytes => {
                let path = Path::of(["artifacts", &path]);
                let text = format!(
                    "{} and {} want different contents for one file\n  {path}",
                    other.plugin, artifact.plugin
                );
                let finding = Finding::fatal("merge/conflict", text).by(&artifact.plugin);
                findings.push(place(&artifact.plugin).into_iter().fold(finding, Finding::at));
            }
            Some(_) => {}
            None => {
                artifacts.insert(path, artifact);
            }
        }
    }
    findings
}
