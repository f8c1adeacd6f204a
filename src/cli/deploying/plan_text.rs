//! The plan, as people read it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cloudformation::{Action, Fate, PropertyChange};
use crate::deploy::Tree;
use crate::deploy::plan::{Cause, DriftFate, Nodes, Plan, ResourcePlan, StackAction, StackPlan};
use crate::finding::plain;

/// The width everything fits.
const WIDTH: usize = 80;
/// So many properties of a resource are shown.
const PROPERTIES: usize = 6;

/// Returns the whole plan as text.
pub(in crate::cli) fn plan_text(plan: &Plan, tree: &Tree) -> String {
    plan_against(plan, tree, &base(plan))
}

/// Returns the plan as text; `base` says what it is compared with.
pub(in crate::cli) fn plan_against(plan: &Plan, tree: &Tree, base: &str) -> String {
    let mut out = Vec::new();
    let local = if plan.cloud == "local" { ", local cloud" } else { "" };
    out.push(format!("{}, {}, account {}{local}", plan.cluster, plan.region, plan.account));
    out.push(base.to_owned());
    if !plan.causes.is_empty() {
        out.push(String::new());
        out.push("Why".to_owned());
        why(&plan.causes, &mut out);
    }
    for stack in plan.stacks.iter().filter(|s| s.action != StackAction::None) {
        out.push(String::new());
        block(stack, &mut out);
    }
    if !plan.addons.is_empty() {
        out.push(String::new());
        addons(plan, &mut out);
    }
    hooks(plan, &mut out);
    removed_apis(plan, &mut out);
    busy(plan, &mut out);
    drifted(plan, &mut out);
    let idle: Vec<&str> = named(plan, |s| s.action == StackAction::None);
    if !idle.is_empty() {
        out.push(String::new());
        out.extend(wrapped(&format!("Nothing to do in {}.", idle.join(", ")), ""));
    }
    if !plan.is_empty() {
        out.push(String::new());
        facts(plan, tree, &mut out);
        out.push(String::new());
        out.extend(wrapped(&summary(plan), ""));
    }
    out.join("\n")
}

/// Hooks that run here, with what they run.
fn hooks(plan: &Plan, out: &mut Vec<String>) {
    if plan.hooks.is_empty() {
        return;
    }
    out.extend([String::new(), "Hooks, which run here".to_owned()]);
    for hook in &plan.hooks {
        let runs = plain(hook.runs.lines().next().unwrap_or_default());
        out.push(format!("  {:<14} {}: {runs}", hook.event, plain(&hook.name)));
    }
}

/// APIs that workloads ask for, and that are gone after this.
fn removed_apis(plan: &Plan, out: &mut Vec<String>) {
    let Some(minor) = plan.removed_apis.minor else { return };
    let asked_for = plan.removed_apis.asked_for.as_deref();
    let text = match asked_for {
        None if plan.cloud == "local" => return,
        None => format!(
            "Whether workloads still ask for APIs that 1.{minor} no longer has, nobody knows: no controller has reported lately."
        ),
        Some([]) => format!(
            "Nothing has asked for an API that 1.{minor} no longer has, since the API server started."
        ),
        Some(_) => format!("Asked for by workloads, and gone in 1.{minor}"),
    };
    out.push(String::new());
    out.extend(wrapped(&text, ""));
    if let Some(all @ [_, ..]) = asked_for {
        out.extend(all.iter().map(|api| format!("  ! {}", api.api)));
        let help = "kubectl get --raw /metrics counts them, and the audit log says who asks: change those first";
        out.extend(wrapped(help, "    "));
    }
}

/// Stacks that somebody else is changing.
fn busy(plan: &Plan, out: &mut Vec<String>) {
    let all: Vec<String> = plan
        .stacks
        .iter()
        .filter_map(|s| Some(format!("{} ({})", s.stack, s.busy.as_ref()?)))
        .collect();
    if !all.is_empty() {
        out.push(String::new());
        let text = format!(
            "Somebody is changing {}: this plan is of before. kaws up waits until that is over, and plans anew.",
            all.join(", ")
        );
        out.extend(wrapped(&text, ""));
    }
}

/// What somebody changed by hand, whose it is, and what becomes of it.
fn drifted(plan: &Plan, out: &mut Vec<String>) {
    let all = plan.stacks.iter().flat_map(|s| s.drift.iter().map(|d| (s.stack.as_str(), d)));
    for (at, (stack, drift)) in all.enumerate() {
        if at == 0 {
            out.extend([String::new(), "Changed by hand".to_owned()]);
        }
        let of = &drift.drifted;
        let gone = if of.deleted { "  is gone" } else { "" };
        let becomes = match drift.fate {
            DriftFate::Stays => "stays until the same setting changes, or --revert-drift",
            DriftFate::Overwritten => "this plan changes the same setting",
            DriftFate::Reverted => "is put back",
        };
        let name = format!("{stack}/{}{gone}", of.resource);
        out.push(format!("  ! {name}    {}", drift.owners.join(", ")).trim_end().to_owned());
        for (path, should, is) in &of.properties {
            out.extend(wrapped(&format!("{path:24} {should} → {is}"), "      "));
        }
        out.extend(wrapped(becomes, "      "));
    }
}

/// What controllers apply by themselves: no machine is replaced for it.
fn addons(plan: &Plan, out: &mut Vec<String>) {
    out.push(format!("{:15} applied by the controllers; no node rolls", "add-ons"));
    for (change, sign) in [("new", "+"), ("changed", "~"), ("gone", "-"), ("stays", "=")] {
        let of = plan.addons.iter().filter(|a| a.change == change);
        let names: Vec<&str> = of.map(|a| a.name.as_str()).collect();
        if !names.is_empty() {
            let word = match change {
                "gone" => "uninstalled",
                "stays" => "no longer rendered, and stays",
                other => other,
            };
            out.extend(wrapped(&format!("{sign} {}   {word}", names.join(", ")), "  "));
        }
    }
}

fn base(plan: &Plan) -> String {
    match &plan.base {
        None if plan.stacks.iter().all(|s| s.action == StackAction::Create) => {
            "nothing is deployed yet".to_owned()
        }
        None => "compared with what is deployed; no deployment was ever complete".to_owned(),
        Some(base) => {
            let commit = base.commit.as_ref().map(|c| format!(", commit {c}")).unwrap_or_default();
            format!("compared with deployment {} of {}{commit}", base.number, base.date)
        }
    }
}

fn why(causes: &[Cause], out: &mut Vec<String>) {
    let places = causes.iter().map(|c| c.place.chars().count()).max().unwrap_or(0);
    for cause in causes {
        let head = format!("  {}  {:places$}  ", cause.letter, cause.place);
        let values = if cause.before.is_empty() && cause.after.is_empty() {
            String::new()
        } else {
            format!("{} → {}", cause.before, cause.after)
        };
        let line = format!("{head}{}  {values}", cause.what);
        if line.chars().count() <= WIDTH {
            out.push(line.trim_end().to_owned());
        } else {
            let indent = " ".repeat(head.chars().count());
            out.push(cut(&format!("{head}{}", cause.what), WIDTH));
            out.extend(wrapped(&values, &indent));
        }
    }
}

fn block(stack: &StackPlan, out: &mut Vec<String>) {
    let count = |n: usize| if n == 1 { "1 resource".to_owned() } else { format!("{n} resources") };
    let title = match stack.action {
        StackAction::Create => format!("new, {}", count(stack.changes.len())),
        StackAction::Delete => format!("removed, {}", count(stack.changes.len())),
        StackAction::Leave => format!("no longer rendered; stays until --remove {}", stack.stack),
        StackAction::Update | StackAction::None => {
            stack.nodes.as_ref().map_or_else(|| quiet(stack).to_owned(), rolled)
        }
    };
    out.push(format!("{:15} {title}", stack.stack).trim_end().to_owned());
    if !stack.predicted.is_empty() && stack.action == StackAction::Update {
        let waits: Vec<&str> = stack.predicted.iter().map(String::as_str).collect();
        out.extend(wrapped(&format!("predicted (waits for {})", waits.join(", ")), "  "));
    }
    if let Some(status) = &stack.clears {
        out.push(format!("  first what is left of a creation that failed is deleted ({status})"));
    }
    if !stack.drops_after.is_empty() {
        let users: Vec<&str> = stack.drops_after.iter().map(String::as_str).collect();
        let text = format!("in two steps: what goes is removed after {}", users.join(", "));
        out.extend(wrapped(&text, "  "));
    }
    match stack.action {
        StackAction::Leave => {}
        StackAction::Create => out.extend(wrapped(&kinds(stack), "  ")),
        _ => {
            let (alike, others) = tagged(stack);
            if let [first, _, _, ..] = alike.as_slice() {
                together(first, alike.len(), out);
            } else {
                alike.iter().for_each(|change| resource(change, out));
            }
            others.iter().for_each(|change| resource(change, out));
        }
    }
}

/// The resources that change in nothing but the stack's tags, which is the same for all, and the others.
fn tagged(stack: &StackPlan) -> (Vec<&ResourcePlan>, Vec<&ResourcePlan>) {
    let only = |plan: &&ResourcePlan| {
        plan.change.action == Action::Modify
            && plan.change.properties.iter().all(|p| p.path.starts_with("Tags."))
    };
    let first = stack.changes.iter().find(only).map(|c| &c.change.properties);
    stack.changes.iter().partition(|c| only(c) && Some(&c.change.properties) == first)
}

fn together(first: &ResourcePlan, count: usize, out: &mut Vec<String>) {
    let letters = first.causes.iter().cloned().collect::<Vec<_>>().join(" ");
    let room = (WIDTH - 5).saturating_sub(letters.chars().count());
    let left = format!("  ~ {:16} in place, by the stack's tags", format!("{count} resources"));
    out.push(format!("{left:room$}{letters}").trim_end().to_owned());
    let nobody = ResourcePlan { owners: Vec::new(), ..first.clone() };
    properties(&nobody, out);
}

/// `rolls 3 of 3 nodes, one at a time`; of a group that scales only the least is known.
fn rolled(nodes: &Nodes) -> String {
    let batch = match nodes.batch {
        1 => "one at a time".to_owned(),
        2 => "two at a time".to_owned(),
        n => format!("{n} at a time"),
    };
    let batch = if nodes.by_kaws { format!("{batch}, by kaws") } else { batch };
    let noun = if nodes.of == 1 { "node" } else { "nodes" };
    match nodes {
        Nodes { rolls: 0, .. } => format!("rolls all nodes it has, {batch}"),
        Nodes { at_least: true, .. } => {
            format!("rolls all nodes, {} or more, {batch}", nodes.rolls)
        }
        _ => format!("rolls {} of {} {noun}, {batch}", nodes.rolls, nodes.of),
    }
}

/// What changes of a stack whose resources do not.
fn quiet(stack: &StackPlan) -> &'static str {
    let renewed = stack.changes.iter().any(|c| {
        c.change.kind == "AWS::EC2::LaunchTemplate"
            && c.change.action == Action::Modify
            && c.change.properties.iter().any(|p| p.path.starts_with("LaunchTemplateData"))
    });
    let reverts = stack.drift.iter().any(|d| d.fate == DriftFate::Reverted);
    match (stack.changes.is_empty(), stack.protect) {
        (true, None) if reverts => "what was changed by hand is put back",
        (false, _) if renewed => "new nodes only; those that run stay as they are",
        (false, _) => "",
        (true, Some(true)) => "protected against deletion",
        (true, Some(false)) => "no longer protected against deletion",
        (true, None) => "other outputs",
    }
}

/// The types of a new stack's resources, and how many there are of each.
fn kinds(stack: &StackPlan) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for change in &stack.changes {
        *counts.entry(change.change.kind.rsplit("::").next().unwrap_or_default()).or_default() += 1;
    }
    let parts: Vec<String> = counts
        .iter()
        .map(|(kind, n)| if *n == 1 { (*kind).to_owned() } else { format!("{n} {kind}") })
        .collect();
    format!("+ {}", parts.join(", "))
}

fn resource(plan: &ResourcePlan, out: &mut Vec<String>) {
    let change = &plan.change;
    let sign = match (change.action, change.fate) {
        (Action::Add, _) => '+',
        (Action::Remove, _) => '-',
        (Action::Modify, Fate::InPlace | Fate::Rolls) => '~',
        (Action::Modify, _) => '±',
    };
    let risk = if plan.data_at_risk { "DATA AT RISK, " } else { "" };
    let said = format!("{risk}{}", fate(plan));
    let letters = plan.causes.iter().cloned().collect::<Vec<_>>().join(" ");
    let width = change.id.chars().count().max(16);
    let left = format!("  {sign} {:width$} {said}", change.id);
    let room = (WIDTH - 5).saturating_sub(letters.chars().count()).max(1);
    let left = cut(&left, room - 1);
    out.push(format!("{left:room$}{letters}").trim_end().to_owned());
    for detail in &plan.details {
        let line =
            format!("      {:20} {:28} {}", detail.plugin, cut(&detail.file, 28), detail.what);
        out.push(cut(&line, WIDTH));
    }
    if plan.details.is_empty() && change.action == Action::Modify {
        properties(plan, out);
    }
}

fn fate(plan: &ResourcePlan) -> String {
    let change = &plan.change;
    let kind = change.kind.trim_start_matches("AWS::");
    let first = |wanted: &dyn Fn(&&PropertyChange) -> bool| {
        change.properties.iter().find(wanted).map(|p| p.path.clone()).unwrap_or_default()
    };
    let through: BTreeSet<&String> = change.properties.iter().flat_map(|p| &p.through).collect();
    match (change.action, change.fate) {
        (Action::Add, _) => format!("new, {kind}"),
        (Action::Remove, _) => match change.kept.as_deref() {
            Some(policy) if policy.starts_with("Retain") => {
                format!("leaves the stack, is kept; {kind}")
            }
            _ => format!("removed, {kind}"),
        },
        (Action::Modify, Fate::InPlace) if change.kind == "AWS::EC2::LaunchTemplate" => {
            "in place, a new version".to_owned()
        }
        (Action::Modify, Fate::InPlace) => "in place".to_owned(),
        (Action::Modify, Fate::Rolls) => match through.first() {
            Some(id) => format!("rolls, because {id} has a new version"),
            None => format!("rolls, because {} changes", first(&|_| true)),
        },
        (Action::Modify, Fate::Replaces) => {
            let path = first(&|p| p.effect == crate::cloudformation::Effect::Replaces);
            match through.first() {
                Some(id) => format!("replaced, because {id} is"),
                None => format!("replaced, because {path} changes"),
            }
        }
        (Action::Modify, Fate::MayReplace) => {
            let path = first(&|p| p.effect == crate::cloudformation::Effect::MayReplace);
            format!("may be replaced, because {path} changes")
        }
        (Action::Modify, Fate::Unsupported) => {
            let path = first(&|p| p.effect == crate::cloudformation::Effect::Unsupported);
            format!("refused by CloudFormation: {path} cannot change")
        }
    }
}

fn properties(plan: &ResourcePlan, out: &mut Vec<String>) {
    let owner = plan.owners.first().map_or("", String::as_str);
    let written: Vec<&PropertyChange> =
        plan.change.properties.iter().filter(|p| p.through.is_empty()).collect();
    let mut shown: Vec<String> = Vec::new();
    for property in written.iter().take(PROPERTIES) {
        let value = |value: &Option<Value>| {
            // A group's tags say whether machines get them, too: that is the same on both sides.
            let value = value.as_ref().map(|v| v.get("Value").unwrap_or(v));
            value.map_or_else(|| "-".to_owned(), inline)
        };
        let (before, after) = (value(&property.before), value(&property.after));
        let both = format!("{before} → {after}");
        let what = if both.chars().count() > 40 { "differs".to_owned() } else { both };
        let path = property.path.rsplit_once("Data.").map_or(property.path.as_str(), |(_, p)| p);
        let line = cut(&format!("      {owner:20} {:28} {what}", cut(path, 28)), WIDTH);
        if !shown.contains(&line) {
            shown.push(line);
        }
    }
    out.extend(shown);
    if written.len() > PROPERTIES {
        out.push(format!("      and {} more properties", written.len() - PROPERTIES));
    }
}

fn facts(plan: &Plan, tree: &Tree, out: &mut Vec<String>) {
    let order = order(plan, tree);
    if !order.is_empty() {
        out.extend(headed("Order", &order));
    }
    let nodes: Vec<&Nodes> = plan.stacks.iter().filter_map(|s| s.nodes.as_ref()).collect();
    let rolled: u64 = nodes.iter().map(|n| n.rolls).sum();
    if !nodes.is_empty() {
        let more = if nodes.iter().any(|n| n.at_least) { " or more" } else { "" };
        let noun = if rolled == 1 && more.is_empty() { "node is" } else { "nodes are" };
        out.extend(headed("Nodes", &format!("{rolled}{more} {noun} replaced")));
    }
    let risk = plan.data_at_risk(&BTreeSet::new());
    let data = if risk.is_empty() {
        "none at risk".to_owned()
    } else {
        format!("AT RISK: {}", risk.join(", "))
    };
    out.extend(headed("Data", &data));
    if plan.upload.bundles > 0 {
        let noun = if plan.upload.bundles == 1 { "bundle" } else { "bundles" };
        let text = format!("{} node {noun}, {}", plan.upload.bundles, bytes(plan.upload.bytes));
        out.extend(headed("Upload", &text));
    }
    if !plan.missing_secrets.is_empty() {
        let text = format!("not set yet: {}", plan.missing_secrets.join(", "));
        out.extend(headed("Secrets", &text));
    }
}

/// Who comes after whom, in ranks: `network, then etcd and pool-a side by side`.
fn order(plan: &Plan, tree: &Tree) -> String {
    let mut ranks: Vec<Vec<&str>> = Vec::new();
    let mut rank_of: BTreeMap<&str, usize> = BTreeMap::new();
    let moves = |s: &&StackPlan| matches!(s.action, StackAction::Create | StackAction::Update);
    let mut moving: Vec<&StackPlan> = plan.stacks.iter().filter(moves).collect();
    moving.sort_by_key(|s| s.stack != "state");
    for stack in moving {
        let after = tree.stacks.get(&stack.stack).map(|s| &s.after);
        // Everything else is fetched from the bucket that the state holds.
        let state = (stack.stack != "state").then_some("state");
        let rank = after
            .into_iter()
            .flatten()
            .map(String::as_str)
            .chain(state)
            .filter_map(|a| rank_of.get(a))
            .max()
            .map_or(0, |r| r + 1);
        rank_of.insert(&stack.stack, rank);
        if ranks.len() <= rank {
            ranks.push(Vec::new());
        }
        ranks[rank].push(&stack.stack);
    }
    let leaving = named(plan, |s| s.action == StackAction::Delete);
    let mut parts: Vec<String> = ranks.iter().map(|rank| side_by_side(rank)).collect();
    if !leaving.is_empty() {
        parts.push(format!("removal of {}", leaving.join(", ")));
    }
    parts.join(", then ")
}

fn side_by_side(rank: &[&str]) -> String {
    match rank {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last} side by side", first.join(", ")),
    }
}

fn named(plan: &Plan, wanted: impl Fn(&&StackPlan) -> bool) -> Vec<&str> {
    plan.stacks.iter().filter(wanted).map(|s| s.stack.as_str()).collect()
}

fn summary(plan: &Plan) -> String {
    let counts = plan.counts();
    let total = counts.add
        + counts.in_place
        + counts.roll
        + counts.replace
        + counts.remove
        + counts.refused;
    if total == 0 && !plan.addons.is_empty() {
        let (count, word) =
            (plan.addons.len(), if plan.addons.len() == 1 { "changes" } else { "change" });
        let noun = if count == 1 { "add-on" } else { "add-ons" };
        return format!("{count} {noun} {word}, and no stack.");
    }
    let stacks = plan
        .stacks
        .iter()
        .filter(|s| !matches!(s.action, StackAction::None | StackAction::Leave))
        .count();
    let nouns = (
        if total == 1 { "change" } else { "changes" },
        if stacks == 1 { "stack" } else { "stacks" },
    );
    let new = if counts.add > 0 { format!("{} new, ", counts.add) } else { String::new() };
    let refused =
        if counts.refused > 0 { format!(", {} refused", counts.refused) } else { String::new() };
    let drift = plan.stacks.iter().flat_map(|s| &s.drift);
    let back = match drift.filter(|d| d.fate == DriftFate::Reverted).count() {
        0 => String::new(),
        count => format!(", {count} put back"),
    };
    let rolls = if counts.roll == 1 { "rolls" } else { "roll" };
    format!(
        "{total} {} in {stacks} {}: {new}{} in place, {} {rolls} nodes, {} replace, {} remove{refused}{back}.",
        nouns.0, nouns.1, counts.in_place, counts.roll, counts.replace, counts.remove
    )
}

fn headed(head: &str, text: &str) -> Vec<String> {
    let mut lines = wrapped(text, "         ");
    if let Some(first) = lines.first_mut() {
        *first = format!("{head:8} {}", first.trim_start());
    }
    lines
}

fn wrapped(text: &str, indent: &str) -> Vec<String> {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(indent)
        .subsequent_indent(indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(width.saturating_sub(1)).collect::<String>())
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `1.6 MiB`
fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
    let count = count as f64;
    if count < 1024.0 {
        format!("{count} B")
    } else if count < 1024.0 * 1024.0 {
        format!("{:.1} KiB", count / 1024.0)
    } else {
        format!("{:.1} MiB", count / 1024.0 / 1024.0)
    }
}
