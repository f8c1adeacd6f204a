//! Intrinsic functions and conditions, worked out.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::template::Template;

/// Why a value cannot be worked out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResolveError(pub String);

fn wrong<T>(text: impl Into<String>) -> Result<T, ResolveError> {
    Err(ResolveError(text.into()))
}

/// What the pseudo parameters say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pseudo {
    /// Twelve digits.
    pub account: String,
    /// `eu-west-1`.
    pub region: String,
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// The stack's name.
    pub stack: String,
    /// The stack's id.
    pub stack_id: String,
}

impl Pseudo {
    fn get(&self, name: &str) -> Option<Value> {
        Some(Value::String(match name {
            "AWS::AccountId" => self.account.clone(),
            "AWS::Region" => self.region.clone(),
            "AWS::Partition" => self.partition.clone(),
            "AWS::StackName" => self.stack.clone(),
            "AWS::StackId" => self.stack_id.clone(),
            "AWS::URLSuffix" if self.partition == "aws-cn" => "amazonaws.com.cn".to_owned(),
            "AWS::URLSuffix" => "amazonaws.com".to_owned(),
            "AWS::NotificationARNs" => return Some(json!([])),
            _ => return None,
        }))
    }
}

/// What names stand for.
pub struct Scope<'a> {
    /// The template: its mappings, conditions and parameters' types.
    pub template: &'a Template,
    /// Values of parameters.
    pub parameters: &'a BTreeMap<String, String>,
    /// Pseudo parameters.
    pub pseudo: &'a Pseudo,
    /// A resource's attribute; `Ref` asks for the empty one.
    pub attribute: &'a dyn Fn(&str, &str) -> Option<Value>,
    /// Whether `${Name}` may stand for what is not known: a function of it stands for itself.
    pub symbols: bool,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("parameters", self.parameters).finish_non_exhaustive()
    }
}

/// Returns the value with every function worked out; `None` is `AWS::NoValue`.
///
/// # Errors
/// A name that nothing has, or a function whose arguments do not fit.
pub fn resolve(value: &Value, scope: &Scope<'_>) -> Result<Option<Value>, ResolveError> {
    match value {
        Value::Array(items) => {
            let mut all = Vec::with_capacity(items.len());
            for item in items {
                all.extend(resolve(item, scope)?);
            }
            Ok(Some(Value::Array(all)))
        }
        Value::Object(map) => {
            if map.len() == 1
                && let Some((name, argument)) = map.iter().next()
                && (name == "Ref" || name.starts_with("Fn::"))
            {
                return call(name, argument, scope);
            }
            let mut all = Map::new();
            for (key, inner) in map {
                if let Some(inner) = resolve(inner, scope)? {
                    all.insert(key.clone(), inner);
                }
            }
            Ok(Some(Value::Object(all)))
        }
        plain => Ok(Some(plain.clone())),
    }
}

/// Returns whether a condition of the template holds; one without a name does.
///
/// # Errors
/// As [`resolve`].
pub fn truth(name: Option<&str>, scope: &Scope<'_>) -> Result<bool, ResolveError> {
    let Some(name) = name else { return Ok(true) };
    match scope.template.conditions.get(name) {
        Some(condition) => holds(condition, scope),
        None => wrong(format!("there is no condition {name}")),
    }
}

fn holds(condition: &Value, scope: &Scope<'_>) -> Result<bool, ResolveError> {
    let sole = condition.as_object().filter(|m| m.len() == 1).and_then(|m| m.iter().next());
    let Some((name, argument)) = sole else { return wrong("a condition is one function") };
    let all = || argument.as_array().map(Vec::as_slice).unwrap_or_default();
    match name.as_str() {
        "Condition" => truth(argument.as_str(), scope),
        "Fn::And" => all().iter().try_fold(true, |so_far, c| Ok(holds(c, scope)? && so_far)),
        "Fn::Or" => all().iter().try_fold(false, |so_far, c| Ok(holds(c, scope)? || so_far)),
        "Fn::Not" => all().first().map_or(Ok(true), |c| Ok(!holds(c, scope)?)),
        "Fn::Equals" => match all() {
            [a, b] => {
                let text = |v: &Value| Ok(resolve(v, scope)?.as_ref().map(plain));
                Ok(text(a)? == text(b)?)
            }
            _ => wrong("Fn::Equals takes two values"),
        },
        other => wrong(format!("{other} is no condition")),
    }
}

fn call(name: &str, argument: &Value, scope: &Scope<'_>) -> Result<Option<Value>, ResolveError> {
    if name == "Ref" {
        return match argument.as_str() {
            Some("AWS::NoValue") => Ok(None),
            Some(id) => reference(id, scope).map(Some),
            None => wrong("Ref takes a name"),
        };
    }
    if name == "Fn::If" {
        let parts = argument.as_array().map(Vec::as_slice).unwrap_or_default();
        let [condition, yes, no] = parts else { return wrong("Fn::If takes three values") };
        return resolve(if truth(condition.as_str(), scope)? { yes } else { no }, scope);
    }
    if name == "Fn::GetAtt" {
        return attribute(argument, scope).map(Some);
    }
    if name == "Fn::Sub" {
        return substitute(argument, scope).map(Some);
    }
    let argument = resolve(argument, scope)?.unwrap_or(Value::Null);
    if scope.symbols
        && name != "Fn::Base64"
        && name != "Fn::Join"
        && argument.to_string().contains("${")
    {
        return Ok(Some(Value::String(format!("{name} {argument}"))));
    }
    let parts = argument.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| plain(value);
    let value = match (name, parts) {
        ("Fn::Join", [separator, Value::Array(items)]) => {
            let items: Vec<String> = items.iter().map(text).collect();
            Value::String(items.join(&text(separator)))
        }
        ("Fn::Split", [separator, source]) => {
            text(source).split(&text(separator)).map(|s| Value::String(s.to_owned())).collect()
        }
        ("Fn::Select", [index, Value::Array(items)]) => {
            let at = text(index).parse::<usize>().ok().and_then(|i| items.get(i));
            at.cloned().ok_or_else(|| ResolveError("Fn::Select goes past the end".to_owned()))?
        }
        ("Fn::FindInMap", [map, first, second]) => {
            let (map, first, second) = (text(map), text(first), text(second));
            let found = scope.template.mappings.get(&map).and_then(|m| m.get(&first)?.get(&second));
            found
                .cloned()
                .ok_or_else(|| ResolveError(format!("no {map}.{first}.{second} in Mappings")))?
        }
        ("Fn::Cidr", [block, count, rest @ ..]) => {
            subnets(&text(block), &text(count), rest.first().map(text).as_deref())?
        }
        ("Fn::Base64", _) => {
            Value::String(base64::engine::general_purpose::STANDARD.encode(text(&argument)))
        }
        ("Fn::GetAZs", _) => {
            let region = text(&argument);
            let region = if region.is_empty() { scope.pseudo.region.clone() } else { region };
            ["a", "b", "c"].iter().map(|z| Value::String(format!("{region}{z}"))).collect()
        }
        ("Fn::Length", items) => json!(items.len()),
        ("Fn::ToJsonString", _) => Value::String(argument.to_string()),
        _ => return wrong(format!("{name} is not understood here, or not with these arguments")),
    };
    Ok(Some(value))
}

fn reference(id: &str, scope: &Scope<'_>) -> Result<Value, ResolveError> {
    if let Some(value) = scope.pseudo.get(id) {
        return Ok(value);
    }
    if let Some(parameter) = scope.template.parameters.get(id) {
        let value = scope.parameters.get(id).or(parameter.default.as_ref());
        let Some(value) = value else { return wrong(format!("parameter {id} has no value")) };
        let list = parameter.kind == "CommaDelimitedList" || parameter.kind.starts_with("List<");
        return Ok(if list {
            value.split(',').map(|part| Value::String(part.trim().to_owned())).collect()
        } else {
            Value::String(value.clone())
        });
    }
    (scope.attribute)(id, "").ok_or_else(|| ResolveError(format!("nothing is called {id}")))
}

fn attribute(argument: &Value, scope: &Scope<'_>) -> Result<Value, ResolveError> {
    let parts = match argument {
        Value::String(text) => text.split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())),
        Value::Array(parts) => {
            let part = |i: usize| parts.get(i).and_then(Value::as_str).map(str::to_owned);
            let rest: Vec<&str> = parts.iter().skip(1).filter_map(Value::as_str).collect();
            part(0).map(|id| (id, rest.join(".")))
        }
        _ => None,
    };
    let Some((id, name)) = parts else { return wrong("Fn::GetAtt takes a name and an attribute") };
    (scope.attribute)(&id, &name)
        .ok_or_else(|| ResolveError(format!("{id} has no attribute {name}")))
}

/// Returns the names in `${…}` and where they stand, but not `${!literal}`.
pub(super) fn placeholders(text: &str) -> Vec<(&str, std::ops::Range<usize>)> {
    let starts = text.match_indices("${");
    starts
        .filter_map(|(at, _)| {
            let end = at + text[at..].find('}')?;
            let name = &text[at + 2..end];
            (!name.starts_with('!')).then_some((name.trim(), at..end + 1))
        })
        .collect()
}

fn substitute(argument: &Value, scope: &Scope<'_>) -> Result<Value, ResolveError> {
    let (text, own) = match argument {
        Value::String(text) => (text.as_str(), None),
        Value::Array(parts) => match parts.as_slice() {
            [Value::String(text), own] => (text.as_str(), Some(own)),
            _ => return wrong("Fn::Sub takes a text and a map"),
        },
        _ => return wrong("Fn::Sub takes a text"),
    };
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (name, range) in placeholders(text) {
        out.push_str(&text[from..range.start]);
        from = range.end;
        let value = match own.and_then(|own| own.get(name)) {
            Some(own) => resolve(own, scope)?.unwrap_or(Value::Null),
            None if name.contains('.') => attribute(&Value::String(name.to_owned()), scope)?,
            None => reference(name, scope)?,
        };
        out.push_str(&plain(&value));
    }
    out.push_str(&text[from..]);
    Ok(Value::String(out.replace("${!", "${")))
}

/// Returns the first `count` networks of `block` that leave `bits` for hosts.
fn subnets(block: &str, count: &str, bits: Option<&str>) -> Result<Value, ResolveError> {
    let fail = || ResolveError(format!("Fn::Cidr cannot divide {block}"));
    let net: ipnet::IpNet = block.parse().map_err(|_| fail())?;
    let bits: u8 = bits.unwrap_or("8").parse().map_err(|_| fail())?;
    let count: usize = count.parse().map_err(|_| fail())?;
    let length = net.max_prefix_len().checked_sub(bits).ok_or_else(fail)?;
    let all = net.subnets(length).map_err(|_| fail())?;
    Ok(all.take(count).map(|n| Value::String(n.to_string())).collect())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
