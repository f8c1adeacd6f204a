//! One stack: what is deployed against what is rendered.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::detail::details;
use super::risk::at_risk;
use super::{
    Cause, Deployed, DriftFate, DriftPlan, Nodes, ResourcePlan, StackAction, StackPlan, Wanted,
};
use crate::cloudformation::{Action, Change, Fate, Pseudo, Side, Template, changes, references};
use crate::deploy::error::Error;
use crate::deploy::tree::{Source, Tree, TreeStack};
use crate::port::Drifted;
use crate::port::{CloudError, ErrorKind, Stack};

/// Outputs that may change, by stack, each with the letters of why.
pub(super) type Unsure = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

pub(super) fn stack(
    stack: &TreeStack,
    wanted: &Wanted<'_>,
    deployed: &Deployed,
    unsure: &Unsure,
) -> Result<StackPlan, Error> {
    let (parameters, predicted) = parameters(stack, wanted, deployed, unsure);
    let there = deployed.stacks.get(&stack.short);
    let parameters = shown(stack, parameters, there.map(|(s, _)| s));
    let (empty, none) = (Template::default(), BTreeMap::new());
    let new = Side { template: &stack.template, parameters: &parameters, tags: &stack.tags };
    let old = there.map_or(Side { template: &empty, parameters: &none, tags: &none }, |(s, t)| {
        Side { template: t, parameters: &s.parameters, tags: &s.tags }
    });
    let pseudo = pseudo(wanted.tree, stack, there.map(|(s, _)| s));
    let found = changes(old, new, &pseudo).map_err(|e| {
        let text = format!("stacks/{}.yaml: {e}", stack.short);
        CloudError::new("plan", ErrorKind::Refused, text)
    })?;
    let outputs_differ = there.is_some_and(|(_, t)| t.outputs != stack.template.outputs);
    let protect = there.is_some_and(|(s, _)| s.protected != stack.protected);
    let protect = protect.then_some(stack.protected);
    let drift = drifted(&stack.short, &found, wanted, deployed);
    let reverts = drift.iter().any(|d| d.fate == DriftFate::Reverted);
    let action = match there {
        None => StackAction::Create,
        Some(_) if reverts || !found.is_empty() || outputs_differ || protect.is_some() => {
            StackAction::Update
        }
        Some(_) => StackAction::None,
    };
    let nodes = nodes(&stack.template, &found, wanted.tree.rolls.get(&stack.short));
    let passed_on = passed_on(stack, unsure);
    let changes = resources(&stack.short, found, &stack.template, &passed_on, wanted, deployed);
    // Parameters that get another value, or may.
    let moved: BTreeSet<String> = parameters
        .iter()
        .filter(|(name, value)| there.is_none_or(|(s, _)| s.parameters.get(*name) != Some(*value)))
        .map(|(name, _)| name.clone())
        .collect();
    let unsure = unsure_outputs(stack, there.map(|(_, t)| t), &changes, &moved);
    let predicted = if action == StackAction::None { BTreeSet::new() } else { predicted };
    Ok(StackPlan {
        stack: stack.short.clone(),
        action,
        predicted,
        changes,
        nodes,
        drops_after: BTreeSet::new(),
        clears: deployed.never_came.get(&stack.short).cloned(),
        protect,
        busy: there
            .and_then(|(now, _)| now.status.is_in_progress().then(|| now.status.to_string())),
        drift,
        unsure,
    })
}

/// What somebody changed by hand of a stack, and what becomes of it.
fn drifted(
    stack: &str,
    changes: &[Change],
    wanted: &Wanted<'_>,
    deployed: &Deployed,
) -> Vec<DriftPlan> {
    // `/Tags/0/Value` of CloudFormation and `Tags` of the local cloud are the same setting.
    let setting =
        |path: &str| path.trim_start_matches('/').split(['/', '.']).next().map(str::to_owned);
    let one = |drifted: &Drifted| {
        let owners = wanted.owners.get(&format!("{stack}/{}", drifted.resource));
        let change = changes.iter().find(|c| c.id == drifted.resource);
        let same = change.is_some_and(|change| {
            let changed: BTreeSet<_> = change.properties.iter().map(|p| setting(&p.path)).collect();
            change.fate == Fate::Replaces
                || drifted.properties.iter().any(|(path, ..)| changed.contains(&setting(path)))
        });
        let fate = match (wanted.revert_drift, same) {
            (true, _) => DriftFate::Reverted,
            (false, true) => DriftFate::Overwritten,
            (false, false) => DriftFate::Stays,
        };
        DriftPlan { drifted: drifted.clone(), owners: owners.cloned().unwrap_or_default(), fate }
    };
    deployed.drift.get(stack).into_iter().flat_map(|d| &d.resources).map(one).collect()
}

/// A stack that is deployed and no longer rendered.
pub(super) fn leaving(name: &str, wanted: &Wanted<'_>, deployed: &Deployed) -> StackPlan {
    let (_, template) = &deployed.stacks[name];
    let removed = template.resources.iter().map(|(id, resource)| Change::removal(id, resource));
    let removes = wanted.remove.contains(name);
    let action = if removes { StackAction::Delete } else { StackAction::Leave };
    let none = BTreeMap::new();
    let mut changes = resources(name, removed.collect(), template, &none, wanted, deployed);
    if !removes {
        changes.iter_mut().for_each(|c| c.data_at_risk = false);
    }
    StackPlan {
        stack: name.to_owned(),
        action,
        predicted: BTreeSet::new(),
        changes,
        nodes: None,
        drops_after: BTreeSet::new(),
        clears: None,
        protect: None,
        busy: None,
        drift: Vec::new(),
        unsure: BTreeMap::new(),
    }
}

/// Values of parameters, as far as they are known, and what the others wait for.
fn parameters(
    stack: &TreeStack,
    wanted: &Wanted<'_>,
    deployed: &Deployed,
    unsure: &Unsure,
) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let (mut known, mut waits) = (BTreeMap::new(), BTreeSet::new());
    for (name, parameter) in &stack.parameters {
        let value = match &parameter.source {
            Source::Lock(lock) => wanted.locked.get(lock).cloned(),
            Source::Output(producer, output) => {
                let open = unsure.get(producer).is_some_and(|all| all.contains_key(output));
                let now = deployed.stacks.get(producer).and_then(|(s, _)| s.outputs.get(output));
                now.filter(|_| !open).cloned()
            }
        };
        match (value, &parameter.source) {
            (Some(value), _) => {
                known.insert(name.clone(), value);
            }
            (None, Source::Output(producer, output)) => {
                waits.insert(format!("{producer}/{output}"));
            }
            (None, Source::Lock(lock)) => {
                waits.insert(lock.clone());
            }
        }
    }
    (known, waits)
}

/// Every parameter has a value to compare with: one that is not known yet its own name, one that is not
/// to be seen what is deployed.
fn shown(
    stack: &TreeStack,
    mut known: BTreeMap<String, String>,
    there: Option<&Stack>,
) -> BTreeMap<String, String> {
    for (name, parameter) in &stack.template.parameters {
        let before = there.and_then(|s| s.parameters.get(name));
        if let Some(before) = before.filter(|_| parameter.no_echo) {
            known.insert(name.clone(), before.clone());
        }
        if stack.parameters.contains_key(name) || parameter.default.is_none() {
            known.entry(name.clone()).or_insert_with(|| format!("${{{name}}}"));
        }
    }
    known
}

fn pseudo(tree: &Tree, stack: &TreeStack, there: Option<&Stack>) -> Pseudo {
    Pseudo {
        account: tree.cluster.account.clone(),
        region: tree.cluster.region.clone(),
        partition: tree.cluster.partition.clone(),
        stack: stack.name.clone(),
        stack_id: there.map(|s| s.id.clone()).unwrap_or_default(),
    }
}

/// Parameters that take what may change, each with the letters of why.
fn passed_on(stack: &TreeStack, unsure: &Unsure) -> BTreeMap<String, BTreeSet<String>> {
    let letters = |source: &Source| match source {
        Source::Output(producer, output) => unsure.get(producer)?.get(output).cloned(),
        Source::Lock(_) => None,
    };
    let parameters = stack.parameters.iter();
    parameters.filter_map(|(name, p)| Some((name.clone(), letters(&p.source)?))).collect()
}

/// Outputs whose value may be another one after the change, each with the letters of why.
fn unsure_outputs(
    stack: &TreeStack,
    before: Option<&Template>,
    changes: &[ResourcePlan],
    moved: &BTreeSet<String>,
) -> BTreeMap<String, BTreeSet<String>> {
    let renewed: BTreeMap<&str, &BTreeSet<String>> = changes
        .iter()
        .filter(|plan| {
            let change = &plan.change;
            let moves = matches!(change.fate, Fate::Replaces | Fate::MayReplace);
            change.action == Action::Add || moves || change.kind == "AWS::EC2::LaunchTemplate"
        })
        .map(|plan| (plan.change.id.as_str(), &plan.causes))
        .collect();
    let mut all = BTreeMap::new();
    for (name, output) in &stack.template.outputs {
        let written = before.is_none_or(|t| {
            t.outputs.get(name) != Some(output)
                || t.mappings != stack.template.mappings
                || t.conditions != stack.template.conditions
        });
        let named = references(&output.value);
        let taken = named.iter().any(|id| moved.contains(id));
        let causes: Vec<&&BTreeSet<String>> =
            named.iter().filter_map(|id| renewed.get(id.as_str())).collect();
        if written || taken || !causes.is_empty() {
            all.insert(name.clone(), causes.into_iter().flat_map(|c| c.iter().cloned()).collect());
        }
    }
    all
}

/// The machines that the changes replace: those of groups that roll.
fn nodes(template: &Template, changes: &[Change], by_kaws: Option<&u64>) -> Option<Nodes> {
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let size = |id: &str| {
        let properties = &template.resources.get(id)?.properties;
        let sizes = ["DesiredCapacity", "MinSize"].iter().find_map(|key| properties.get(*key));
        sizes.and_then(number)
    };
    let groups: Vec<&str> = template
        .resources
        .iter()
        .filter(|(_, r)| r.kind == "AWS::AutoScaling::AutoScalingGroup")
        .map(|(id, _)| id.as_str())
        .collect();
    let of: u64 = groups.iter().filter_map(|id| size(id)).sum();
    let renewed = changes.iter().any(renews_machines);
    let rolling: Vec<&str> = match by_kaws.filter(|_| renewed) {
        Some(_) => groups,
        None => changes.iter().filter(|c| c.fate == Fate::Rolls).map(|c| c.id.as_str()).collect(),
    };
    let first = rolling.first()?;
    let policy = &template.resources.get(*first)?.update_policy["AutoScalingRollingUpdate"];
    let batch = by_kaws.copied().or_else(|| number(&policy["MaxBatchSize"])).unwrap_or(1);
    let rolls = rolling.iter().filter_map(|id| size(id)).sum();
    let scales = |id: &&str| {
        let properties = &template.resources[*id].properties;
        !properties.contains_key("DesiredCapacity")
            && properties.get("MaxSize") != properties.get("MinSize")
    };
    let at_least = rolling.iter().any(scales);
    Some(Nodes { rolls, of, batch, at_least, by_kaws: by_kaws.is_some() })
}

/// Whether machines are made from something else from now on.
fn renews_machines(change: &Change) -> bool {
    change.kind == "AWS::EC2::LaunchTemplate"
        && change.action == Action::Modify
        && change.properties.iter().any(|p| p.path.starts_with("LaunchTemplateData"))
}

fn resources(
    stack: &str,
    changes: Vec<Change>,
    template: &Template,
    passed_on: &BTreeMap<String, BTreeSet<String>>,
    wanted: &Wanted<'_>,
    deployed: &Deployed,
) -> Vec<ResourcePlan> {
    let mut letters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut all = Vec::with_capacity(changes.len());
    for change in changes {
        let key = format!("{stack}/{}", change.id);
        let mut causes = direct(&key, &change, template, &wanted.causes);
        for (parameter, passed) in passed_on {
            if shows(&change, parameter) {
                causes.extend(passed.iter().cloned());
            }
        }
        for (id, passed) in &letters {
            if change.properties.iter().any(|p| p.names_renewed(id)) {
                causes.extend(passed.iter().cloned());
            }
        }
        if causes.is_empty() {
            // What nothing explains alone is laid to what may explain anything.
            let any = wanted.causes.iter().filter(|c| c.touches.contains("*"));
            causes.extend(any.map(|c| c.letter.clone()));
        }
        letters.insert(change.id.clone(), causes.clone());
        all.push(ResourcePlan {
            owners: owners(&key, wanted, deployed),
            data_at_risk: at_risk(&change),
            details: details(&change, wanted, deployed),
            causes,
            change,
        });
    }
    all
}

/// Whether a parameter without a value yet stands in what changes.
fn shows(change: &Change, parameter: &str) -> bool {
    let sign = format!("${{{parameter}}}");
    change.properties.iter().filter_map(|p| p.after.as_ref()).any(|v| v.to_string().contains(&sign))
}

/// The causes that make the resource itself different, or a parameter that it takes.
fn direct(key: &str, change: &Change, template: &Template, causes: &[Cause]) -> BTreeSet<String> {
    let stack = key.split('/').next().unwrap_or_default();
    let taken: BTreeSet<String> = template
        .resources
        .get(&change.id)
        .map(|r| r.properties.values().flat_map(references).collect())
        .unwrap_or_default();
    let tagged = change.properties.iter().any(|p| p.path.starts_with("Tags."));
    let parameters: Vec<&String> =
        template.parameters.keys().filter(|p| taken.contains(*p)).collect();
    let touches = |cause: &&Cause| {
        cause.touches.contains(key)
            || (tagged && cause.touches.contains(&format!("{stack}/tags")))
            || parameters.iter().any(|p| cause.touches.contains(&format!("{stack}/{p}")))
    };
    causes.iter().filter(touches).map(|c| c.letter.clone()).collect()
}

fn owners(key: &str, wanted: &Wanted<'_>, deployed: &Deployed) -> Vec<String> {
    let before = || deployed.last.as_ref().and_then(|last| last.record.owners.get(key));
    wanted.owners.get(key).or_else(before).cloned().unwrap_or_default()
}
