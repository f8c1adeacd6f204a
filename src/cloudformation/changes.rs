//! What becomes of each resource when one template takes the place of another.
//!
//! Works on names: `${Vpc}` stands for whatever the VPC will be. So what is replaced shows in everything
//! that refers to it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::depends::order;
use super::intrinsics::{Pseudo, ResolveError, Scope, resolve, truth};
use super::template::{Resource, Template};
use super::updates::{Effect, carries_tags, effect};

/// One side of the comparison: a template and what is passed to it.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The template.
    pub template: &'a Template,
    /// Values of its parameters; of one that is not known yet `${Name}`.
    pub parameters: &'a BTreeMap<String, String>,
    /// The stack's own tags, which CloudFormation hands on to its resources.
    pub tags: &'a BTreeMap<String, String>,
}

/// What is done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It is made.
    Add,
    /// It is changed, or replaced.
    Modify,
    /// It leaves the stack.
    Remove,
}

/// What becomes of a resource that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It stays, and changes.
    InPlace,
    /// It stays, and its machines are replaced.
    Rolls,
    /// The provider decides whether it is replaced.
    MayReplace,
    /// A new one takes its place.
    Replaces,
    /// CloudFormation refuses the change.
    Unsupported,
}

/// One property that differs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PropertyChange {
    /// `Tags.team`, `LaunchTemplateData.UserData`; `UpdatePolicy` and its like stand beside properties.
    pub path: String,
    /// Before, with names for what is not known.
    pub before: Option<Value>,
    /// After.
    pub after: Option<Value>,
    /// What the change does by itself.
    pub effect: Effect,
    /// The resources whose own change makes this one, where nothing was written differently.
    pub through: BTreeSet<String>,
}

/// One resource that is made, changed or removed.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Its logical id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is done.
    pub action: Action,
    /// What becomes of it; for what is made or removed it says nothing.
    pub fate: Fate,
    /// What differs.
    pub properties: Vec<PropertyChange>,
    /// `Retain`, `Snapshot`…: what becomes of the one that goes, if one goes.
    pub kept: Option<String>,
}

impl Change {
    /// Returns the change that takes a resource out of its stack.
    #[must_use]
    pub fn removal(id: &str, resource: &Resource) -> Self {
        Self {
            id: id.to_owned(),
            kind: resource.kind.clone(),
            action: Action::Remove,
            fate: Fate::Replaces,
            properties: Vec::new(),
            kept: resource.deletion_policy.clone(),
        }
    }
}

impl PropertyChange {
    /// Returns whether the new value names the resource `id` as another one, or an attribute of it that
    /// will be another.
    #[must_use]
    pub fn names_renewed(&self, id: &str) -> bool {
        let Some(after) = &self.after else { return false };
        let text = after.to_string();
        text.contains(&format!("${{{id} (new)}}"))
            || text.match_indices(&format!("${{{id}.")).any(|(at, _)| {
                text[at..].split('}').next().is_some_and(|name| name.ends_with(" (new)"))
            })
    }
}

/// Attributes that change though the resource stays, and the property that makes them.
const RENEWED: &[(&str, &str, &str)] =
    &[("AWS::EC2::LaunchTemplate", "LatestVersionNumber", "LaunchTemplateData")];

/// Properties of an Auto Scaling group whose change rolls it under an `AutoScalingRollingUpdate` policy.
const ROLLING: &[&str] = &[
    "AvailabilityZones",
    "LaunchConfigurationName",
    "LaunchTemplate",
    "MixedInstancesPolicy",
    "VPCZoneIdentifier",
];

/// Returns what changes from one side to the other, in the order the new template is worked through;
/// what is removed comes last.
///
/// # Errors
/// A template whose functions cannot be worked out, or whose resources wait for each other.
pub fn changes(old: Side<'_>, new: Side<'_>, pseudo: &Pseudo) -> Result<Vec<Change>, ResolveError> {
    let circle =
        |ids: Vec<String>| ResolveError(format!("these wait for each other: {}", ids.join(", ")));
    let mut fates = Fates::new();
    let mut all = Vec::new();
    let before = there(old, pseudo)?;
    for id in order(new.template).map_err(circle)? {
        let resource = &new.template.resources[&id];
        let attribute = |id: &str, name: &str| symbol(new.template, &fates, id, name);
        let scope = scope(new, pseudo, &attribute);
        if !truth(resource.condition.as_deref(), &scope)? {
            continue;
        }
        let after = properties(resource, &scope)?;
        let Some((was, properties)) = before.get(&id) else {
            all.push(made(&id, resource));
            fates.insert(id, Renewal::Whole);
            continue;
        };
        let change = if was.kind == resource.kind {
            let mut differing = differing(&resource.kind, properties, &after);
            for change in &mut differing {
                change.through = through(change, &fates);
            }
            differing.extend(beside(was, resource));
            if carries_tags(&resource.kind) {
                differing.extend(stack_tags(old, new, &differing));
            }
            (!differing.is_empty()).then(|| changed(&id, was, resource, differing))
        } else {
            Some(retyped(&id, was, resource))
        };
        if let Some(change) = change {
            fates.extend(Renewal::of(&change).map(|renewal| (id, renewal)));
            all.push(change);
        }
    }
    all.extend(removed(&before, new, pseudo)?);
    Ok(all)
}

/// What of a resource is another one afterwards.
#[derive(Clone, Debug)]
enum Renewal {
    /// Its id, and every attribute.
    Whole,
    /// These attributes.
    Attributes(Vec<&'static str>),
}

type Fates = BTreeMap<String, Renewal>;

impl Renewal {
    fn of(change: &Change) -> Option<Self> {
        if matches!(change.fate, Fate::Replaces | Fate::MayReplace) {
            return Some(Self::Whole);
        }
        let made_by =
            |property: &str| change.properties.iter().any(|p| first_part(&p.path) == property);
        let renewed: Vec<&'static str> = RENEWED
            .iter()
            .filter(|(kind, _, property)| *kind == change.kind && made_by(property))
            .map(|(_, attribute, _)| *attribute)
            .collect();
        (!renewed.is_empty()).then_some(Self::Attributes(renewed))
    }
}

type There<'a> = BTreeMap<String, (&'a Resource, Map<String, Value>)>;

/// The resources of a side that its conditions let be, with their properties worked out.
fn there<'a>(side: Side<'a>, pseudo: &Pseudo) -> Result<There<'a>, ResolveError> {
    let none = BTreeMap::new();
    let attribute = |id: &str, name: &str| symbol(side.template, &none, id, name);
    let scope = scope(side, pseudo, &attribute);
    let mut all = BTreeMap::new();
    for (id, resource) in &side.template.resources {
        if truth(resource.condition.as_deref(), &scope)? {
            all.insert(id.clone(), (resource, properties(resource, &scope)?));
        }
    }
    Ok(all)
}

fn removed(
    before: &There<'_>,
    new: Side<'_>,
    pseudo: &Pseudo,
) -> Result<Vec<Change>, ResolveError> {
    let after = there(new, pseudo)?;
    let gone = before.iter().filter(|(id, _)| !after.contains_key(*id));
    Ok(gone.map(|(id, (resource, _))| Change::removal(id, resource)).collect())
}

fn scope<'a>(
    side: Side<'a>,
    pseudo: &'a Pseudo,
    attribute: &'a dyn Fn(&str, &str) -> Option<Value>,
) -> Scope<'a> {
    Scope { template: side.template, parameters: side.parameters, pseudo, attribute, symbols: true }
}

/// The name that stands for a resource's attribute; another one where the attribute will be another.
fn symbol(template: &Template, fates: &Fates, id: &str, name: &str) -> Option<Value> {
    if !template.resources.contains_key(id) {
        return None;
    }
    let renewed = match fates.get(id) {
        Some(Renewal::Whole) => true,
        Some(Renewal::Attributes(all)) => all.contains(&name),
        None => false,
    };
    let dot = if name.is_empty() { "" } else { "." };
    let new = if renewed { " (new)" } else { "" };
    Some(format!("${{{id}{dot}{name}{new}}}").into())
}

fn properties(resource: &Resource, scope: &Scope<'_>) -> Result<Map<String, Value>, ResolveError> {
    let mut all = Map::new();
    for (name, value) in &resource.properties {
        if let Some(value) = resolve(value, scope)? {
            all.insert(name.clone(), value);
        }
    }
    Ok(all)
}

fn made(id: &str, resource: &Resource) -> Change {
    Change {
        id: id.to_owned(),
        kind: resource.kind.clone(),
        action: Action::Add,
        fate: Fate::InPlace,
        properties: Vec::new(),
        kept: None,
    }
}

/// A resource whose type is another one: the old goes, a new one comes.
fn retyped(id: &str, was: &Resource, now: &Resource) -> Change {
    let property = PropertyChange {
        path: "Type".to_owned(),
        before: Some(was.kind.clone().into()),
        after: Some(now.kind.clone().into()),
        effect: Effect::Unsupported,
        through: BTreeSet::new(),
    };
    Change {
        id: id.to_owned(),
        kind: now.kind.clone(),
        action: Action::Modify,
        fate: Fate::Unsupported,
        properties: vec![property],
        kept: None,
    }
}

fn changed(id: &str, was: &Resource, now: &Resource, properties: Vec<PropertyChange>) -> Change {
    let gravest = properties.iter().map(|p| p.effect).max().unwrap_or(Effect::InPlace);
    let rolls = !now.update_policy["AutoScalingRollingUpdate"].is_null()
        && properties.iter().any(|p| ROLLING.iter().any(|r| first_part(&p.path) == *r));
    let will_replace = now.update_policy["AutoScalingReplacingUpdate"]["WillReplace"] == true
        && properties.iter().any(|p| ROLLING.iter().any(|r| first_part(&p.path) == *r));
    let fate = match gravest {
        Effect::Unsupported => Fate::Unsupported,
        Effect::Replaces => Fate::Replaces,
        _ if will_replace => Fate::Replaces,
        Effect::MayReplace => Fate::MayReplace,
        Effect::InPlace if rolls => Fate::Rolls,
        Effect::InPlace => Fate::InPlace,
    };
    let replaces = matches!(fate, Fate::Replaces | Fate::MayReplace);
    Change {
        id: id.to_owned(),
        kind: now.kind.clone(),
        action: Action::Modify,
        fate,
        properties,
        // The policy that counts is the one the stack has when the resource is replaced: the new one.
        kept: now
            .replace_policy
            .clone()
            .or_else(|| was.replace_policy.clone())
            .filter(|_| replaces),
    }
}

fn first_part(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// The resources whose own change is all that makes this difference.
fn through(change: &PropertyChange, fates: &Fates) -> BTreeSet<String> {
    let Some(after) = &change.after else { return BTreeSet::new() };
    let plain = after.to_string().replace(" (new)}", "}");
    if change.before.as_ref().map(ToString::to_string).as_deref() != Some(plain.as_str()) {
        return BTreeSet::new();
    }
    fates.keys().filter(|id| change.names_renewed(id)).cloned().collect()
}

/// What stands beside the properties: policies and metadata change in place.
fn beside(was: &Resource, now: &Resource) -> Vec<PropertyChange> {
    let policy = |p: &Option<String>| p.clone().map_or(Value::Null, Value::String);
    let parts = [
        ("CreationPolicy", was.creation_policy.clone(), now.creation_policy.clone()),
        ("DeletionPolicy", policy(&was.deletion_policy), policy(&now.deletion_policy)),
        ("Metadata", was.metadata.clone(), now.metadata.clone()),
        ("UpdatePolicy", was.update_policy.clone(), now.update_policy.clone()),
        ("UpdateReplacePolicy", policy(&was.replace_policy), policy(&now.replace_policy)),
    ];
    let differing = parts.into_iter().filter(|(_, a, b)| a != b);
    let there = |value: Value| (!value.is_null()).then_some(value);
    differing
        .map(|(path, a, b)| PropertyChange {
            path: path.to_owned(),
            before: there(a),
            after: there(b),
            effect: Effect::InPlace,
            through: BTreeSet::new(),
        })
        .collect()
}

/// The stack's tags, which CloudFormation hands on to every resource that can carry them.
fn stack_tags(old: Side<'_>, new: Side<'_>, own: &[PropertyChange]) -> Vec<PropertyChange> {
    let names: BTreeSet<&String> = old.tags.keys().chain(new.tags.keys()).collect();
    let said = |name: &String| own.iter().any(|p| p.path == format!("Tags.{name}"));
    let differing =
        names.into_iter().filter(|name| old.tags.get(*name) != new.tags.get(*name) && !said(name));
    differing
        .map(|name| PropertyChange {
            path: format!("Tags.{name}"),
            before: old.tags.get(name).cloned().map(Value::String),
            after: new.tags.get(name).cloned().map(Value::String),
            effect: Effect::InPlace,
            through: BTreeSet::new(),
        })
        .collect()
}

/// Returns the properties of a resource of `kind` that differ, each with what that does by itself.
#[must_use]
pub fn differing(
    kind: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<PropertyChange> {
    let mut all = Vec::new();
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        walk(name, before.get(name), after.get(name), &mut all);
    }
    all.into_iter()
        .map(|(path, before, after)| PropertyChange {
            effect: effect(kind, &path),
            path,
            before,
            after,
            through: BTreeSet::new(),
        })
        .collect()
}

type Difference = (String, Option<Value>, Option<Value>);

fn walk(path: &str, before: Option<&Value>, after: Option<&Value>, all: &mut Vec<Difference>) {
    match (before, after) {
        (Some(a), Some(b)) if same(a, b) => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                walk(&format!("{path}.{name}"), a.get(name), b.get(name), all);
            }
        }
        (Some(a), Some(b)) if tags(a).is_some() && tags(b).is_some() => {
            let (a, b) = (tags(a).unwrap_or_default(), tags(b).unwrap_or_default());
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names.into_iter().filter(|n| a.get(*n) != b.get(*n)) {
                let value = |side: &BTreeMap<String, Value>| side.get(name).cloned();
                all.push((format!("{path}.{name}"), value(&a), value(&b)));
            }
        }
        (a, b) => all.push((path.to_owned(), a.cloned(), b.cloned())),
    }
}

/// Whether two values are one for CloudFormation, which takes `"3"` for `3` and `"true"` for `true`.
fn same(a: &Value, b: &Value) -> bool {
    let scalar = |v: &Value| match v {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(v.to_string()),
        _ => None,
    };
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b || (scalar(a).is_some() && scalar(a) == scalar(b)),
    }
}

/// A list of tags by their keys.
fn tags(value: &Value) -> Option<BTreeMap<String, Value>> {
    let items = value.as_array()?;
    let tag = |item: &Value| {
        let mut rest = item.as_object()?.clone();
        let Some(Value::String(key)) = rest.remove("Key") else { return None };
        let alone = rest.len() == 1;
        let value = rest.get("Value")?.clone();
        Some((key, if alone { value } else { Value::Object(rest) }))
    };
    items.iter().map(tag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(old: &str, new: &str) -> Vec<Change> {
        let (old, new) = (Template::read(old).unwrap(), Template::read(new).unwrap());
        let parameters = BTreeMap::from([("Zones".to_owned(), "${Zones}".to_owned())]);
        let tags = BTreeMap::new();
        let side = |template| Side { template, parameters: &parameters, tags: &tags };
        let pseudo = Pseudo {
            account: "1".to_owned(),
            region: "eu-west-1".to_owned(),
            partition: "aws".to_owned(),
            stack: "s".to_owned(),
            stack_id: "arn".to_owned(),
        };
        changes(side(&old), side(&new), &pseudo).unwrap()
    }

    const BASE: &str = "Resources:
  Vpc: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  Net: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Vpc, CidrBlock: !Select [0, !Cidr [!GetAtt Vpc.CidrBlock, 4, 8]]}}
";

    #[test]
    fn functions_of_what_is_not_known_stand_for_themselves() {
        assert_eq!(between(BASE, BASE), []);
    }

    #[test]
    fn what_is_replaced_shows_in_what_refers_to_it() {
        let found = between(BASE, &BASE.replace("10.0.0.0/16", "10.1.0.0/16"));
        let fates: Vec<(&str, Fate)> = found.iter().map(|c| (c.id.as_str(), c.fate)).collect();
        assert_eq!(fates, [("Vpc", Fate::Replaces), ("Net", Fate::Replaces)]);
        assert!(found[1].properties.iter().any(|p| p.through.contains("Vpc")));
    }

    #[test]
    fn a_condition_on_what_is_not_known_can_be_told() {
        let text = "Parameters: {Zones: {Type: String}}
Conditions: {Many: !Equals [!Ref Zones, many]}
Resources:
  A: {Type: AWS::SNS::Topic, Condition: Many}
  B: {Type: AWS::SNS::Topic, Properties: {DisplayName: !Ref Zones}}
";
        assert_eq!(between(text, text), []);
    }

    #[test]
    fn numbers_and_texts_that_say_the_same_are_no_change() {
        let text =
            "Resources: {G: {Type: AWS::AutoScaling::AutoScalingGroup, Properties: {MaxSize: 3}}}";
        assert_eq!(between(text, &text.replace("MaxSize: 3", "MaxSize: \"3\"")), []);
    }
}
