//! Which resources a value names, and the order that follows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::template::{Resource, Template};

/// Returns the logical ids that a value names by `Ref`, `Fn::GetAtt` and `Fn::Sub`; parameters and
/// pseudo parameters are among them.
#[must_use]
pub fn references(value: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    collect(value, &mut all);
    all
}

fn collect(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, all)),
        Value::Object(map) => {
            for (key, inner) in map {
                match (key.as_str(), inner) {
                    ("Ref", Value::String(id)) => {
                        all.insert(id.clone());
                    }
                    ("Fn::GetAtt", Value::String(text)) => {
                        all.extend(text.split('.').next().map(str::to_owned));
                    }
                    ("Fn::GetAtt", Value::Array(parts)) => {
                        all.extend(parts.first().and_then(Value::as_str).map(str::to_owned));
                    }
                    ("Fn::Sub", Value::String(text)) => named(text, &Value::Null, all),
                    ("Fn::Sub", Value::Array(parts)) => {
                        let own = parts.get(1).unwrap_or(&Value::Null);
                        if let Some(Value::String(text)) = parts.first() {
                            named(text, own, all);
                        }
                        collect(own, all);
                    }
                    _ => collect(inner, all),
                }
            }
        }
        _ => {}
    }
}

/// The ids in `${Id}` and `${Id.Attribute}`, but for the names that the Sub brings itself.
fn named(text: &str, own: &Value, all: &mut BTreeSet<String>) {
    for (name, _) in super::intrinsics::placeholders(text) {
        if own.get(name).is_none() {
            all.extend(name.split('.').next().map(str::to_owned));
        }
    }
}

/// Returns the attributes that a template asks of each resource, by `Fn::GetAtt` and in `Fn::Sub`.
#[must_use]
pub fn attributes(template: &Template) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    let values = template.resources.values().flat_map(|r| r.properties.values());
    let outputs = template.outputs.values().map(|o| &o.value);
    values.chain(outputs).for_each(|value| asked(value, &mut all));
    all
}

fn asked(value: &Value, all: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| asked(item, all)),
        Value::Object(map) => {
            for (key, inner) in map {
                named_in(key, inner, all);
                asked(inner, all);
            }
        }
        _ => {}
    }
}

/// The attributes that one function asks for.
fn named_in(function: &str, argument: &Value, all: &mut BTreeMap<String, BTreeSet<String>>) {
    let names: Vec<String> = match (function, argument) {
        ("Fn::GetAtt", Value::String(text)) => vec![text.clone()],
        ("Fn::GetAtt", Value::Array(parts)) => {
            let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            vec![parts.join(".")]
        }
        ("Fn::Sub", value) => {
            let text = value.as_str().or_else(|| value.get(0)?.as_str()).unwrap_or_default();
            let names = super::intrinsics::placeholders(text);
            names.into_iter().map(|(name, _)| name.to_owned()).collect()
        }
        _ => Vec::new(),
    };
    for (id, attribute) in names.iter().filter_map(|name| name.split_once('.')) {
        all.entry(id.to_owned()).or_default().insert(attribute.to_owned());
    }
}

impl Resource {
    /// Returns the resources of `template` that it comes after.
    #[must_use]
    pub fn needs(&self, template: &Template) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        self.properties.values().for_each(|v| collect(v, &mut all));
        all.extend(self.depends_on.iter().cloned());
        all.retain(|id| template.resources.contains_key(id));
        all
    }
}

/// Returns the resources in an order in which each comes after what it needs, by logical id where that
/// leaves a choice.
///
/// # Errors
/// The ids that wait for each other in a circle.
pub fn order(template: &Template) -> Result<Vec<String>, Vec<String>> {
    let needs: BTreeMap<&String, BTreeSet<String>> =
        template.resources.iter().map(|(id, r)| (id, r.needs(template))).collect();
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut order = Vec::with_capacity(needs.len());
    while order.len() < needs.len() {
        let ready: Vec<String> = needs
            .iter()
            .filter(|(id, needs)| !done.contains(**id) && needs.iter().all(|n| done.contains(n)))
            .map(|(id, _)| (*id).clone())
            .collect();
        if ready.is_empty() {
            return Err(needs.into_keys().filter(|id| !done.contains(*id)).cloned().collect());
        }
        done.extend(ready.iter().cloned());
        order.extend(ready);
    }
    Ok(order)
}
