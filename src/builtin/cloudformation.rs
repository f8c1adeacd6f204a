//! `cloudformation`: every stack of the model becomes one template, in canonical order, with the owners of
//! each part as comments.

use std::collections::BTreeMap;

use serde_json::json;

use crate::finding::{Finding, Findings, Outcome};
use crate::model::{
    Entity, Model, dangling_outputs, derived_parameters, output, parameter_clashes, parameter_name,
    stack_edges, stack_order,
};
use crate::origin::{Origin, SourceFile};
use crate::plugin::{Artifact, Artifacts, Context, Plugin, Rendering};
use crate::value::{Data, Node, Style, write};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct CloudFormation;

impl Plugin for CloudFormation {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let edges = stack_edges(model);
        let mut findings = stack_order(&edges).err().unwrap_or_default();
        findings.extend(dangling_outputs(model));
        let mut made = Artifacts::new();
        for stack in model.names(&["stacks"]) {
            // A stack without resources is none, whatever else it has.
            if model.names(&["stacks", stack, "resources"]).is_empty() {
                continue;
            }
            let after: Vec<&String> =
                edges.get(stack).map(|e| e.keys().collect()).unwrap_or_default();
            findings.extend(raw_words(model, stack));
            findings.extend(parameter_clashes(model, stack));
            let text = template(cx, model, stack, &after);
            made.insert(format!("stacks/{stack}.yaml"), Artifact::text(&cx.me.name, &text));
        }
        Outcome { value: Rendering { artifacts: made, ..Rendering::default() }, findings }
    }
}

fn template(cx: &Context<'_>, model: &Model, stack: &str, after: &[&String]) -> String {
    let nowhere = Origin::file_start(&SourceFile::new("template", ""));
    let node = |value| Node::from_value(value, &nowhere);
    let name = &cx.config.name;
    let description = model
        .entity(&["stacks", stack, "description"])
        .and_then(|e| e.body.as_str().map(str::to_owned));
    let description = description.unwrap_or_else(|| format!("Kubernetes cluster {name}, {stack}"));
    let mut root = BTreeMap::from([
        ("AWSTemplateFormatVersion".to_owned(), node(json!("2010-09-09"))),
        ("Description".to_owned(), node(json!(description))),
    ]);
    if !after.is_empty() {
        root.insert("Metadata".to_owned(), node(json!({"kaws": {"after": after}})));
    }
    let parameters = parameters(model, stack, &nowhere);
    if !parameters.is_empty() {
        root.insert("Parameters".to_owned(), Node::new(Data::Map(parameters), nowhere.clone()));
    }
    for (part, key) in [
        ("mappings", "Mappings"),
        ("conditions", "Conditions"),
        ("resources", "Resources"),
        ("outputs", "Outputs"),
    ] {
        let entities: BTreeMap<String, Node> = model
            .entities(&["stacks", stack, part])
            .map(|(id, entity)| {
                let body = lowered(&entity.body, model, stack);
                (id.to_owned(), body.noted(owners(entity, model)))
            })
            .collect();
        if !entities.is_empty() {
            root.insert(key.to_owned(), Node::new(Data::Map(entities), nowhere.clone()));
        }
    }
    let style = Style { first_keys: &first_keys, short_tags: true, note_column: 56 };
    let body = write(&Node::new(Data::Map(root), nowhere), &style);
    format!("{}{body}", head(cx, model, stack))
}

/// Returns a finding for each word of kaws's own that CloudFormation would take literally: secrets and
/// keys are filled in on nodes, and templates are no place for them.
fn raw_words(model: &Model, stack: &str) -> Findings {
    let mut findings = Findings::new();
    let known = ["$output", "$lock", "$type", "$source"];
    model.walk(&["stacks", stack], &mut |path, entity| {
        entity.body.walk(&mut |part| {
            let word = part
                .as_map()
                .into_iter()
                .flatten()
                .find(|(key, _)| key.starts_with('$') && !known.contains(&key.as_str()));
            let text = part
                .as_str()
                .filter(|text| crate::model::has_placeholder(text) && path[2] != "description");
            let userdata = path.last() == Some(&"LaunchTemplate");
            let shown = word.map(|(key, _)| key.as_str()).or(text.filter(|_| !userdata));
            if let Some(shown) = shown {
                let text = format!("`{shown}` means nothing to CloudFormation");
                let finding = Finding::fatal("model/raw-word", text)
                    .at(&part.origin)
                    .by(&entity.owners[0].plugin);
                findings.push(finding.help(
                    "in stacks there are {$output: stack.Name}, alone, and {$lock: image/…}",
                ));
            }
        });
    });
    findings
}

/// What a reader of the file needs to know first.
fn head(cx: &Context<'_>, model: &Model, stack: &str) -> String {
    let title = match stack.strip_prefix("pool-") {
        Some(pool) => format!("Node pool `{pool}`"),
        None => format!("Stack `{stack}`"),
    };
    let first = model.names(&["stacks", stack, "resources"]).first().map_or("Group", |id| id);
    let id = if model.entity(&["stacks", stack, "resources", "Group"]).is_some() {
        "Group"
    } else {
        first
    };
    format!(
        "# {title} of cluster {}. Written by `kaws render`: change\n\
         # cluster.yaml or a plugin instead. After each # is the plugin that owns what\n\
         # stands there; `kaws explain {stack}/{id}` says from which file and line.\n",
        cx.config.name
    )
}

/// Returns who is named behind a part: its owners, or those of the intent that it merely spells out.
fn owners(entity: &Entity, model: &Model) -> String {
    let mut names: Vec<&str> = Vec::new();
    for owner in &entity.owners {
        let from: Vec<&Entity> =
            owner.from.iter().filter_map(|p| model.entity(&p.segments())).collect();
        let spelled = !from.is_empty() && owner.from.iter().all(|p| p.0[0] == "securityGroups");
        if spelled
            && entity.body.get("Type").and_then(Node::as_str)
                == Some("AWS::EC2::SecurityGroupIngress")
        {
            names.extend(from.iter().flat_map(|e| e.owner_names()));
        } else {
            names.push(owner.plugin.as_str());
        }
    }
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// The stack's own parameters, and those that references make.
fn parameters(model: &Model, stack: &str, nowhere: &Origin) -> BTreeMap<String, Node> {
    let mut all: BTreeMap<String, Node> = model
        .entities(&["stacks", stack, "parameters"])
        .map(|(id, entity)| {
            let mut body = (*entity.body).clone();
            if let Some(map) = body.as_map_mut() {
                map.retain(|key, _| !key.starts_with('$'));
            }
            (id.to_owned(), body.noted(owners(entity, model)))
        })
        .collect();
    for (name, derived) in derived_parameters(model, stack) {
        let owners: Vec<String> = derived.owners.into_iter().collect();
        let body =
            Node::from_value(json!({"Type": derived.kind}), nowhere).noted(owners.join(", "));
        all.entry(name).or_insert(body);
    }
    all
}

/// Puts CloudFormation's own words in place of kaws's: references to other stacks become parameters,
/// those to the stack itself what the output stands for.
fn lowered(body: &Node, model: &Model, stack: &str) -> Node {
    let mut node = body.map_parts(&|part| {
        if let Some(name) = part.sole("$output").and_then(Node::as_str) {
            let own = name.split_once('.').is_some_and(|(other, _)| other == stack);
            if own {
                let value = output(model, name).and_then(|o| o.body.get("Value"));
                // An output that is made of others is lowered as well; one of itself is what it was.
                return value.map(|v| if v == part { v.clone() } else { lowered(v, model, stack) });
            }
            return Some(Node::from_value(json!({"Ref": parameter_name(name)}), &part.origin));
        }
        let image = part.sole("$lock").and_then(Node::as_str)?;
        Some(Node::from_value(json!({"Ref": parameter_name(image)}), &part.origin))
    });
    if let Some(map) = node.as_map_mut() {
        map.retain(|key, _| !key.starts_with('$'));
        // A resource without properties says nothing with an empty map.
        if map.get("Properties").and_then(Node::as_map).is_some_and(BTreeMap::is_empty) {
            map.remove("Properties");
        }
    }
    node
}

/// Returns the keys that come first, as people write templates; the others follow by name.
fn first_keys(path: &[&str]) -> &'static [&'static str] {
    match path {
        [] => &[
            "AWSTemplateFormatVersion",
            "Description",
            "Metadata",
            "Parameters",
            "Mappings",
            "Conditions",
            "Resources",
            "Outputs",
        ],
        ["Resources", _] => &[
            "Type",
            "Metadata",
            "Condition",
            "DependsOn",
            "DeletionPolicy",
            "UpdateReplacePolicy",
            "CreationPolicy",
            "UpdatePolicy",
            "Properties",
        ],
        ["Outputs", _] => &["Description", "Value"],
        ["Parameters", _] => &["Type", "Description"],
        [.., "Statement", "-"] => {
            &["Sid", "Effect", "Principal", "Action", "Resource", "Condition"]
        }
        _ => &[],
    }
}
