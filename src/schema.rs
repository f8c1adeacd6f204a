//! Checks located values against JSON Schemas and says what is wrong in a user's words, all at once.
//!
//! The checking itself is the `jsonschema` crate's; here are places, words and "did you mean". Not
//! here: the schemas, which come from the Rust types of config and model and from plugins' manifests.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};

use crate::finding::{Finding, Findings};
use crate::name::did_you_mean;
use crate::origin::Origin;
use crate::value::Node;

/// A compiled schema.
///
/// Beside JSON Schema's words it knows `format: cidr` (an IPv4 network), `format: file` (a path) and
/// `format: secret` (written `{$secret: NAME}`).
#[derive(Debug)]
pub struct Schema {
    value: Value,
    validator: Validator,
}

/// How findings of one check are worded.
#[derive(Clone, Copy, Debug)]
pub struct Wording<'a> {
    /// One of `finding::SCHEMA_AREAS`.
    pub area: &'a str,
    /// What an object without a title of its own is called: `the settings of dex`.
    pub subject: &'a str,
    /// What stands under the caret: `setting of dex`.
    pub label: Option<&'a str>,
    /// The schema as its author wrote it, to show the line that asks.
    pub source: Option<&'a Node>,
}

impl Schema {
    /// Compiles `value`.
    ///
    /// # Errors
    /// What is wrong with it, in the words of the `jsonschema` crate.
    pub fn compile(value: &Value) -> Result<Self, String> {
        let value = prepared(value);
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .with_format("cidr", |text: &str| is_cidr(text))
            .build(&value)
            .map_err(|error| {
                format!("{error} (at /{})", error.instance_path().as_str().trim_start_matches('/'))
            })?;
        Ok(Self { value, validator })
    }

    /// Returns the schema itself.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns all that is wrong with `node`.
    #[must_use]
    pub fn check(&self, node: &Node, wording: &Wording<'_>) -> Findings {
        let value = node.to_value();
        if self.validator.is_valid(&value) {
            return Findings::new();
        }
        let mut findings = Findings::new();
        for error in self.validator.iter_errors(&value) {
            self.report(&error, node, wording, &mut findings);
        }
        findings
    }

    fn report(
        &self,
        error: &ValidationError<'_>,
        node: &Node,
        wording: &Wording<'_>,
        findings: &mut Findings,
    ) {
        use ValidationErrorKind as Kind;
        if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind()
            && let Some(branch) = nearest(context)
        {
            return branch.iter().for_each(|e| self.report(e, node, wording, findings));
        }
        let segments = segments(error.instance_path().as_str());
        let here = node.at(&segments).unwrap_or(node);
        let schema_path = crate::schema::segments(error.schema_path().as_str());
        let parent = &schema_path[..schema_path.len().saturating_sub(1)];
        let of = Asked { schema: at(&self.value, parent), wording, key: segments.last() };
        match error.kind() {
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                for key in unexpected {
                    findings.push(unknown_key(key, here, &of));
                }
            }
            kind => {
                let (what, message, help) = words(kind, here, &of);
                let mut finding = Finding::fatal(&format!("{}/{what}", wording.area), message);
                finding = match wording.label {
                    Some(label) => finding.at_with(&here.origin, label),
                    None => finding.at(&here.origin),
                };
                if let Some(asked) = wording.source.and_then(|s| s.at(&schema_path))
                    && what == "pattern"
                {
                    let whole = covering(asked.key_origin(), &asked.origin);
                    finding = finding.related(&whole, "as the plugin asks");
                }
                findings.push(help.into_iter().fold(finding, Finding::help));
            }
        }
    }
}

/// What a part of a schema asks for.
struct Asked<'a> {
    schema: Option<&'a Value>,
    wording: &'a Wording<'a>,
    key: Option<&'a String>,
}

impl Asked<'_> {
    fn title(&self) -> String {
        let title = self.schema.and_then(|s| s.get("title")).and_then(Value::as_str);
        match (title, self.key) {
            (Some(title), _) if title.starts_with(char::is_lowercase) => title.to_owned(),
            (_, Some(key)) => format!("`{key}`"),
            _ => self.wording.subject.to_owned(),
        }
    }

    fn properties(&self) -> Vec<&str> {
        let properties = self.schema.and_then(|s| s.get("properties")).and_then(Value::as_object);
        properties.map(|p| p.keys().map(String::as_str).collect()).unwrap_or_default()
    }
}

fn unknown_key(key: &str, here: &Node, of: &Asked<'_>) -> Finding {
    let origin = here.get(key).map_or(&here.origin, Node::key_origin);
    let known = of.properties();
    let message = format!("{} has no setting `{key}`", of.title());
    let finding = Finding::fatal(&format!("{}/unknown-key", of.wording.area), message);
    match did_you_mean(key, known.iter().copied()) {
        Some(near) => finding.at_with(origin, format!("did you mean `{near}`?")),
        None if known.is_empty() => finding.at(origin),
        None => finding.at(origin).help(format!("it has: {}", known.join(", "))),
    }
}

/// Returns the kind, the message and the help for one error.
fn words(
    kind: &ValidationErrorKind,
    here: &Node,
    of: &Asked<'_>,
) -> (&'static str, String, Option<String>) {
    use ValidationErrorKind as Kind;
    let secret = of.schema.is_some_and(|s| s.get("x-secret").is_some());
    let shown = if secret || of.key.is_some_and(|k| crate::name::is_secret_key(k)) {
        "…".to_owned()
    } else {
        shown(here)
    };
    let limit = |what: &str, limit: &dyn std::fmt::Display| {
        ("range", format!("`{shown}` {what} {limit}"), None)
    };
    let key = of.key.map_or_else(|| of.wording.subject.to_owned(), |k| format!("`{k}`"));
    match kind {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let about =
                of.schema.and_then(|s| s.pointer(&format!("/properties/{name}/description")));
            let help = about.and_then(Value::as_str).map(|d| format!("{name}: {}", first_line(d)));
            ("missing", format!("{} needs `{name}`", of.title()), help)
        }
        Kind::Type { kind } => type_words(kind, here, &key, &shown, of),
        Kind::Pattern { pattern } => {
            let about = of.schema.and_then(|s| s.get("description")).and_then(Value::as_str);
            (
                "pattern",
                format!("`{shown}` does not match {pattern}"),
                about.map(|d| first_line(d).to_owned()),
            )
        }
        Kind::Enum { options } => {
            let options: Vec<&str> =
                options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let near = here.as_str().and_then(|text| did_you_mean(text, options.iter().copied()));
            let help = near.map_or_else(
                || format!("one of: {}", options.join(", ")),
                |n| format!("did you mean `{n}`?"),
            );
            ("enum", format!("{key} cannot be `{shown}`"), Some(help))
        }
        Kind::Constant { expected_value } => {
            let expected =
                expected_value.as_str().map_or_else(|| expected_value.to_string(), str::to_owned);
            ("enum", format!("{key} cannot be `{shown}`"), Some(format!("write {expected}")))
        }
        Kind::Format { format } => {
            let what = if format == "cidr" { "a network like 10.0.0.0/16" } else { format };
            ("format", format!("`{shown}` is not {what}"), None)
        }
        Kind::Minimum { limit: l } => limit("is smaller than", l),
        Kind::Maximum { limit: l } => limit("is larger than", l),
        Kind::ExclusiveMinimum { limit: l } => limit("is not larger than", l),
        Kind::ExclusiveMaximum { limit: l } => limit("is not smaller than", l),
        Kind::MinItems { limit } => ("range", count(&key, "at least", *limit, "item"), None),
        Kind::MaxItems { limit } => ("range", count(&key, "at most", *limit, "item"), None),
        Kind::MinLength { limit } => ("range", count(&key, "at least", *limit, "character"), None),
        Kind::MaxLength { limit } => ("range", count(&key, "at most", *limit, "character"), None),
        Kind::MinProperties { limit } => ("range", count(&key, "at least", *limit, "entry"), None),
        Kind::MaxProperties { limit } => ("range", count(&key, "at most", *limit, "entry"), None),
        Kind::UniqueItems => ("value", format!("{key} names something twice"), None),
        Kind::PropertyNames { error } => {
            let name = error.instance().as_str().unwrap_or_default().to_owned();
            ("pattern", format!("`{name}` cannot be a name here: {}", masked(error)), None)
        }
        Kind::FalseSchema => ("value", format!("{key} cannot be set here"), None),
        _ => ("value", format!("{key} has none of the forms it can have"), None),
    }
}

/// Returns the sentence on how many parts something must have.
fn count(key: &str, bound: &str, limit: u64, part: &str) -> String {
    let parts = match (limit, part) {
        (1, part) => part.to_owned(),
        (_, "entry") => "entries".to_owned(),
        (_, part) => format!("{part}s"),
    };
    format!("{key} must have {bound} {limit} {parts}")
}

fn masked(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Pattern { pattern } => format!("it must match {pattern}"),
        _ => error.to_string(),
    }
}

fn type_words(
    kind: &TypeKind,
    here: &Node,
    key: &str,
    shown: &str,
    of: &Asked<'_>,
) -> (&'static str, String, Option<String>) {
    let wanted = match kind {
        TypeKind::Single(kind) => type_name(&kind.to_string()).to_owned(),
        TypeKind::Multiple(kinds) => {
            let names: Vec<String> =
                kinds.iter().map(|k| type_name(&k.to_string()).to_owned()).collect();
            names.join(" or ")
        }
    };
    let secret = of.schema.is_some_and(|s| s.get("x-secret").is_some());
    let help = if secret {
        Some("a secret is never written here: write {$secret: NAME}".to_owned())
    } else if wanted.contains("text")
        && here.as_str().is_none()
        && here.as_map().is_none()
        && here.as_list().is_none()
    {
        let text = &here.origin.file().text[here.origin.range()];
        // What a program answered has no text of its own: its place is the program's.
        let own = !text.contains('/') && !text.starts_with(['[', '{']);
        own.then(|| format!("write it in quotes: \"{text}\""))
    } else {
        None
    };
    ("type", format!("{key} must be {wanted}, and is {}", describe(here, shown)), help)
}

fn type_name(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "object" => "a map",
        "array" => "a list",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        _ => "null",
    }
}

fn describe(here: &Node, shown: &str) -> String {
    use crate::value::Data;
    match here.data {
        Data::Null => "empty".to_owned(),
        Data::Bool(_) => format!("`{shown}`"),
        Data::Number(_) => format!("the number {shown}"),
        Data::String(_) => format!("the text `{shown}`"),
        Data::List(_) => "a list".to_owned(),
        Data::Map(_) => "a map".to_owned(),
    }
}

fn shown(here: &Node) -> String {
    let text = match here.to_value() {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn first_line(text: &str) -> &str {
    text.split("\n\n").next().unwrap_or(text)
}

/// Returns the branch of an `anyOf` that was most likely meant: the one that fails deepest, then least.
fn nearest<'a>(
    context: &'a [Vec<ValidationError<'static>>],
) -> Option<&'a Vec<ValidationError<'static>>> {
    let depth = |branch: &Vec<ValidationError<'static>>| {
        branch.iter().map(|e| e.instance_path().as_str().matches('/').count()).max().unwrap_or(0)
    };
    let base = context.iter().map(depth).min()?;
    context.iter().filter(|b| depth(b) > base).max_by_key(|b| (depth(b), usize::MAX - b.len()))
}

/// Returns the segments of a JSON pointer.
#[must_use]
pub fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|s| s.replace("~1", "/").replace("~0", "~")).collect()
}

fn at<'a>(value: &'a Value, segments: &[String]) -> Option<&'a Value> {
    segments.iter().try_fold(value, |v, segment| match v {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        _ => None,
    })
}

fn covering(from: &Origin, to: &Origin) -> Origin {
    Origin::new(from.file(), from.range().start, to.range().end)
}

fn is_cidr(text: &str) -> bool {
    text.parse::<ipnet::Ipv4Net>().is_ok_and(|net| net.trunc() == net)
}

/// Rewrites what kaws adds to JSON Schema into JSON Schema: a secret is a map with `$secret` alone, and
/// an object with named properties has no others unless it says so.
fn prepared(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.get("format").and_then(Value::as_str) == Some("secret") => {
            let description = map.get("description").and_then(Value::as_str).unwrap_or("A secret.");
            json!({"type": "object", "x-secret": true, "description": description,
                "required": ["$secret"], "additionalProperties": false,
                "properties": {"$secret": {"type": "string"}}})
        }
        Value::Object(map) => {
            let mut map: serde_json::Map<_, _> =
                map.iter().map(|(k, v)| (k.clone(), prepared(v))).collect();
            if map.get("properties").is_some_and(Value::is_object)
                && !map.contains_key("additionalProperties")
            {
                map.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            Value::Object(map)
        }
        Value::Array(items) => Value::Array(items.iter().map(prepared).collect()),
        other => other.clone(),
    }
}

/// Returns the schema of `T`, without null: in kaws null unsets, so it is gone before any check.
#[must_use]
pub fn of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
    without_null(&mut value);
    value
}

fn without_null(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|t| t != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            if let Some(options) = map.get("oneOf").and_then(constants) {
                map.remove("oneOf");
                map.insert("type".to_owned(), "string".into());
                map.insert("enum".to_owned(), options);
            }
            if map.get("default") == Some(&Value::Null) {
                map.remove("default");
            }
            if let Some(Value::Array(mut branches)) = map.remove("anyOf") {
                branches.retain(|b| b.get("type").and_then(Value::as_str) != Some("null"));
                match (branches.len(), branches.first()) {
                    (1, Some(Value::Object(only))) => {
                        for (key, part) in only {
                            map.entry(key.clone()).or_insert_with(|| part.clone());
                        }
                    }
                    _ => {
                        map.insert("anyOf".to_owned(), Value::Array(branches));
                    }
                }
            }
            map.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Returns the constants of branches that are nothing else: documented variants of an enum.
fn constants(branches: &Value) -> Option<Value> {
    branches.as_array()?.iter().map(|b| b.get("const").filter(|c| c.is_string()).cloned()).collect()
}

/// Returns the schema that `segments` lead to from `schema`, with references followed.
///
/// `None` if there is no such path; an empty schema (anything goes) where the schema is open.
#[must_use]
pub fn resolve<'a>(root: &'a Value, schema: &'a Value, segments: &[&str]) -> Option<&'a Value> {
    let schema = followed(root, schema);
    let Some((first, rest)) = segments.split_first() else { return Some(schema) };
    let Some(map) = schema.as_object() else {
        return (schema == &Value::Bool(true)).then_some(schema);
    };
    if let Some(next) = map.get("properties").and_then(|p| p.get(first)) {
        return resolve(root, next, rest);
    }
    if let (Some(items), Ok(_)) = (map.get("items"), first.parse::<usize>()) {
        return resolve(root, items, rest);
    }
    match map.get("additionalProperties") {
        Some(Value::Bool(false)) => None,
        Some(next) => resolve(root, next, rest),
        // An object with named properties is closed, unless it says otherwise; one without is free.
        None if map.contains_key("properties") => None,
        None => (map.get("type").is_none_or(|t| t == "object") && !map.contains_key("enum"))
            .then_some(&Value::Bool(true)),
    }
}

/// Returns what a `$ref` names, and anything else as it is.
#[must_use]
pub fn followed<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).unwrap_or(schema),
        None => schema,
    }
}

/// Returns a one-line type of `schema` for reference pages: `text`, `list of text`, `map`, `one of …`.
#[must_use]
pub fn type_line(root: &Value, schema: &Value) -> String {
    let schema = followed(root, schema);
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        let options: Vec<String> =
            options.iter().map(|o| format!("`{}`", o.as_str().unwrap_or("?"))).collect();
        return options.join(", ");
    }
    if let Some(branches) =
        schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)
    {
        let mut all: Vec<String> = branches.iter().map(|b| type_line(root, b)).collect();
        all.dedup();
        return all.join(" or ");
    }
    if let Some(constant) = schema.get("const").and_then(Value::as_str) {
        return format!("`{constant}`");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => {
            let mut line = "list of ".to_owned();
            let items =
                schema.get("items").map_or_else(|| "anything".to_owned(), |i| type_line(root, i));
            let _ = write!(line, "{items}");
            line
        }
        Some("object") => match schema.get("additionalProperties") {
            Some(values) if values.is_object() => format!("map of {}", type_line(root, values)),
            _ => "map".to_owned(),
        },
        Some(kind) => type_name(kind).to_owned(),
        None => "anything".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::SourceFile;

    fn check(schema: &Value, text: &str) -> Vec<String> {
        let node = crate::value::read(&SourceFile::new("c.yaml", text)).unwrap();
        let wording =
            Wording { area: "settings", subject: "the settings of x", label: None, source: None };
        let findings = Schema::compile(schema).unwrap().check(&node, &wording);
        let line = |f: &Finding| {
            let place = f.origin.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} {} {place} {}", f.code, f.message, f.label.clone().unwrap_or_default())
        };
        findings.iter().map(line).collect()
    }

    #[test]
    fn all_findings_come_at_once_with_their_places() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {"a": {"type": "string"}, "labels": {"type": "object"}, "net": {"type": "string", "format": "cidr"}}});
        let found = check(&schema, "lables: {}\nnet: 10.0.0.1/16\n");
        insta::assert_debug_snapshot!(found, @r#"
        [
            "settings/format `10.0.0.1/16` is not a network like 10.0.0.0/16 c.yaml:2:6 ",
            "settings/unknown-key the settings of x has no setting `lables` c.yaml:1:1 did you mean `labels`?",
            "settings/missing the settings of x needs `a` c.yaml:1:1 ",
        ]
        "#);
    }

    #[test]
    fn a_secret_is_a_reference() {
        let schema = json!({"properties": {"key": {"type": "string", "format": "secret"}}});
        assert!(check(&schema, "key: {$secret: a}").is_empty());
        assert_eq!(check(&schema, "key: abc").len(), 1);
    }

    #[test]
    fn paths_lead_through_references_and_open_maps() {
        let root = json!({"$defs": {"P": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "properties": {"pools": {"additionalProperties": {"$ref": "#/$defs/P"}}, "free": {"type": "object"}}});
        assert!(resolve(&root, &root, &["pools", "any", "x"]).is_some());
        assert!(resolve(&root, &root, &["pools", "any", "y"]).is_none());
        assert!(resolve(&root, &root, &["free", "a", "b"]).is_some());
        assert!(resolve(&root, &root, &["pool"]).is_none());
    }
}
