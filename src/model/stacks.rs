//! How stacks are wired: whose outputs become whose parameters, and which stack comes first.
//!
//! Not here: the templates' text, which is made of this.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::graph::DiGraph;

use super::tree::{Entity, Model};
use crate::finding::{Finding, Findings};
use crate::origin::Origin;
use crate::value::Node;

/// A parameter that a reference makes.
#[derive(Clone, Debug)]
pub struct Derived {
    /// Its CloudFormation type.
    pub kind: String,
    /// Where kaws takes its value from: `$output` or `$lock`, and the name.
    pub source: (&'static str, String),
    /// The plugins whose parts use it.
    pub owners: BTreeSet<String>,
}

/// Returns the name of the parameter that stands for `acme-agent.QueueArn` or `image/ubuntu-24.04/amd64`.
#[must_use]
pub fn parameter_name(source: &str) -> String {
    crate::name::camel(source)
}

/// Returns the output `stack.Name` names.
#[must_use]
pub fn output<'m>(model: &'m Model, reference: &str) -> Option<&'m Entity> {
    let (stack, name) = reference.split_once('.')?;
    model.entity(&["stacks", stack, "outputs", name])
}

/// Returns the parameters that the references in a stack make, by name.
#[must_use]
pub fn derived_parameters(model: &Model, stack: &str) -> BTreeMap<String, Derived> {
    let mut all: BTreeMap<String, Derived> = BTreeMap::new();
    for part in ["conditions", "outputs", "resources"] {
        for (_, entity) in model.entities(&["stacks", stack, part]) {
            let owners = entity.owner_names().join(", ");
            references(&entity.body, &owners, &mut |word, name, owners| {
                if word == "$output"
                    && name.split_once('.').is_some_and(|(other, _)| other == stack)
                {
                    return;
                }
                let kind = match word {
                    "$lock" => "AWS::EC2::Image::Id".to_owned(),
                    _ => output_type(model, name),
                };
                let new =
                    || Derived { kind, source: (word, name.to_owned()), owners: BTreeSet::new() };
                let derived = all.entry(parameter_name(name)).or_insert_with(new);
                derived.owners.extend(owners.split(", ").map(str::to_owned));
            });
        }
    }
    // A parameter that is written out can say where its value comes from.
    for (name, entity) in model.entities(&["stacks", stack, "parameters"]) {
        let Some(source) = entity.body.get("$source") else { continue };
        for word in ["$output", "$lock"] {
            if let Some(from) = source.sole(word).and_then(Node::as_str) {
                let kind =
                    entity.body.get("Type").and_then(Node::as_str).unwrap_or("String").to_owned();
                let owners = entity.owner_names().into_iter().map(str::to_owned).collect();
                all.insert(
                    name.to_owned(),
                    Derived { kind, source: (word, from.to_owned()), owners },
                );
            }
        }
    }
    all
}

/// Calls `visit` with every reference below `node`, and the owners of the innermost part that has some.
fn references(node: &Node, owners: &str, visit: &mut dyn FnMut(&'static str, &str, &str)) {
    let owners = node.note().unwrap_or(owners);
    for word in ["$output", "$lock"] {
        if let Some(name) = node.sole(word).and_then(Node::as_str) {
            return visit(word, name, owners);
        }
    }
    node.as_list().into_iter().flatten().for_each(|n| references(n, owners, visit));
    node.as_map().into_iter().flatten().for_each(|(_, n)| references(n, owners, visit));
}

fn output_type(model: &Model, name: &str) -> String {
    let kind = output(model, name).and_then(|o| o.body.get("$type")).and_then(Node::as_str);
    kind.unwrap_or("String").to_owned()
}

/// Returns a finding for each parameter whose name two references make, or a resource has as well.
#[must_use]
pub fn parameter_clashes(model: &Model, stack: &str) -> Findings {
    let mut sources: BTreeMap<String, (String, Origin)> = BTreeMap::new();
    let mut findings = Findings::new();
    model.walk(&["stacks", stack], &mut |path, entity| {
        entity.body.walk(&mut |part| {
            let Some(name) =
                part.sole("$output").and_then(Node::as_str).filter(|_| path[2] != "parameters")
            else {
                return;
            };
            let parameter = parameter_name(name);
            let (first, at) = sources
                .entry(parameter.clone())
                .or_insert_with(|| (name.to_owned(), part.origin.clone()));
            if first != name {
                let text = format!(
                    "{first} and {name} would both be the parameter {parameter} of {stack}"
                );
                findings.push(
                    Finding::fatal("model/parameter-clash", text)
                        .at(&part.origin)
                        .related(at, "the other one"),
                );
            }
        });
    });
    for (parameter, (name, origin)) in &sources {
        let own = name.split_once('.').is_some_and(|(other, _)| other == stack);
        if let Some(resource) =
            model.entity(&["stacks", stack, "resources", parameter]).filter(|_| !own)
        {
            let text = format!(
                "{stack} has a resource {parameter}, and {name} would be a parameter of that name"
            );
            let finding = Finding::fatal("model/parameter-clash", text).at(origin);
            findings.push(finding.related(resource.body.key_origin(), "the resource"));
        }
    }
    findings.sort();
    findings
}

/// Returns a finding for each reference to an output that no stack has.
#[must_use]
pub fn dangling_outputs(model: &Model) -> Findings {
    let mut findings = Findings::new();
    let mut check = |entity: &Entity| {
        let plugin = &entity.owners[0].plugin;
        entity.body.walk(&mut |part| {
            if let Some(name) = part.sole("$output").and_then(Node::as_str) {
                findings.extend(dangling(model, name, &part.origin).map(|f| f.by(plugin)));
            }
        });
        let filled = entity.body.get("fill").and_then(Node::as_bool) == Some(true);
        if let Some(content) = entity.body.get("content").filter(|_| filled) {
            for (word, name) in super::placeholders(content.as_str().unwrap_or_default()) {
                if word == "output" {
                    findings.extend(dangling(model, name, &content.origin).map(|f| f.by(plugin)));
                }
            }
        }
    };
    for part in ["stacks", "machines", "helm", "manifests", "iam"] {
        model.walk(&[part], &mut |_, entity| check(entity));
    }
    findings.sort();
    findings
}

fn dangling(model: &Model, name: &str, origin: &Origin) -> Option<Finding> {
    if output(model, name).is_some() {
        return None;
    }
    let (stack, own) = name.split_once('.').unwrap_or((name, ""));
    let finding =
        Finding::fatal("model/dangling-output", format!("no stack has the output {name}"))
            .at(origin);
    let stacks = model.names(&["stacks"]);
    let outputs = model.names(&["stacks", stack, "outputs"]);
    let near = if outputs.is_empty() {
        crate::name::did_you_mean(stack, stacks.iter().copied()).map(|s| format!("{s}.{own}"))
    } else {
        crate::name::did_you_mean(own, outputs.iter().copied()).map(|o| format!("{stack}.{o}"))
    };
    Some(match near {
        Some(near) => finding.help(format!("did you mean {near}?")),
        None if outputs.is_empty() => {
            finding.help(format!("the stacks are: {}", stacks.join(", ")))
        }
        None => finding.help(format!("{stack} has: {}", outputs.join(", "))),
    })
}

/// For each stack the stacks it comes after, each with the places that make it so.
pub type Edges = BTreeMap<String, BTreeMap<String, Vec<Origin>>>;

/// Returns the edges between stacks.
#[must_use]
pub fn stack_edges(model: &Model) -> Edges {
    let mut edges = Edges::new();
    for stack in model.names(&["stacks"]) {
        let mine = edges.entry(stack.to_owned()).or_default();
        model.walk(&["stacks", stack], &mut |path, entity| {
            if path.get(2) == Some(&"after") {
                let other = path.last().copied().unwrap_or_default();
                mine.entry(other.to_owned()).or_default().push(entity.body.origin.clone());
            }
            entity.body.walk(&mut |part| {
                let used =
                    part.sole("$output").and_then(Node::as_str).and_then(|o| o.split_once('.'));
                if let Some((other, _)) = used.filter(|(other, _)| *other != stack) {
                    mine.entry(other.to_owned()).or_default().push(part.origin.clone());
                }
            });
        });
    }
    for others in edges.values_mut() {
        for origins in others.values_mut() {
            origins.sort();
            origins.dedup();
        }
    }
    edges
}

/// Returns the stacks in an order in which each comes after those it needs; ties go by name.
///
/// # Errors
/// Cycles, with every line involved.
pub fn stack_order(edges: &Edges) -> Result<Vec<String>, Findings> {
    let mut graph = DiGraph::<&str, ()>::new();
    let nodes: BTreeMap<&str, _> =
        edges.keys().map(|s| (s.as_str(), graph.add_node(s.as_str()))).collect();
    for (stack, others) in edges {
        for other in others.keys().filter_map(|o| nodes.get(o.as_str())) {
            graph.update_edge(*other, nodes[stack.as_str()], ());
        }
    }
    let circles: Vec<Vec<_>> = petgraph::algo::tarjan_scc(&graph)
        .into_iter()
        .filter(|c| c.len() > 1 || graph.contains_edge(c[0], c[0]))
        .collect();
    if !circles.is_empty() {
        return Err(circles
            .iter()
            .map(|c| cycle(&c.iter().map(|i| graph[*i]).collect(), edges))
            .collect());
    }
    let mut left: BTreeSet<&str> = edges.keys().map(String::as_str).collect();
    let mut order = Vec::new();
    while let Some(next) =
        left.iter().copied().find(|s| edges[*s].keys().all(|o| !left.contains(o.as_str())))
    {
        left.remove(next);
        order.push(next.to_owned());
    }
    Ok(order)
}

fn cycle(stacks: &BTreeSet<&str>, edges: &Edges) -> Finding {
    let names: Vec<&str> = stacks.iter().copied().collect();
    let text = format!("stacks need each other in a circle: {}", names.join(", "));
    let mut finding = Finding::fatal("model/stack-cycle", text);
    for stack in &names {
        for (other, origins) in edges[*stack].iter().filter(|(o, _)| stacks.contains(o.as_str())) {
            for origin in origins {
                let label = format!("{stack} needs {other}");
                finding = if finding.origin.is_none() {
                    finding.at_with(origin, label)
                } else {
                    finding.related(origin, label)
                };
            }
        }
    }
    finding.help("a policy that would close the circle can use a tag condition or a name pattern")
}
