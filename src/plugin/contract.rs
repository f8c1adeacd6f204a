//! The contract with plugins that are programs: one JSON document to it, one back. The same for every runtime.
//!
//! Not here: processes (`runtime`), and what a contribution means (`model`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::name::Name;

/// The version of the contract: of requests, responses and manifests.
pub const VERSION: &str = "kaws/v1";

/// When a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion<'a> {
    /// In a stage.
    Stage(&'a str),
    /// At an event.
    Event(&'a str),
}

impl Occasion<'_> {
    /// Returns its word.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Stage(word) | Self::Event(word) => word,
        }
    }
}

/// What a program is asked: one JSON document on its standard input.
///
/// It is about a stage, an event or a lookup: just one of these is there.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "a request")]
pub struct Request<'a> {
    /// Version of the contract: `kaws/v1`.
    #[schemars(extend("const" = VERSION))]
    pub api_version: &'static str,
    /// The release of kaws that asks.
    pub kaws: &'static str,
    /// The stage: initialise, render, deploy or validate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["initialise", "render", "deploy", "validate"]))]
    pub stage: Option<&'a str>,
    /// The event, as after-deploy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<&'a str>,
    /// The name of the lookup, where it is about no stage and no event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// The plugin itself, as this cluster uses it.
    pub plugin: Asked,
    /// cluster.yaml with its defaults, and what follows from it.
    #[schemars(with = "Map<String, Value>")]
    pub cluster: Value,
    /// The groups of machines, by key: `etcd`, `controller`, `pool:NAME`.
    #[schemars(with = "BTreeMap<String, Map<String, Value>>")]
    pub groups: BTreeMap<String, Value>,
    /// What all plugins of earlier ranks contributed, merged: all of it, or what the manifest's `reads` names.
    #[schemars(with = "Option<Map<String, Value>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a RawValue>,
    /// The plugins that are on, by name: version, settings, nodes; all, or those that `reads` names.
    #[schemars(with = "Option<BTreeMap<String, Asked>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<&'a RawValue>,
    /// The files that earlier ranks made, by path, with sha256 and mode; in render, and where `reads` is there only if it
    /// names `artifacts`.
    #[schemars(with = "Option<BTreeMap<String, Seen>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<&'a RawValue>,
    /// What the manifest's lookups were answered, by name: from kaws.lock.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lookups: BTreeMap<String, Value>,
    /// What deploying learned: outputs of stacks and endpoints; in deploy, validate and events.
    #[schemars(with = "Option<Map<String, Value>>")]
    #[serde(skip_serializing_if = "Value::is_null")]
    pub facts: Value,
    /// The values of the secrets that were granted, by name; in deploy, validate and events.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
}

/// A plugin, as a cluster uses it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "a plugin in use")]
pub struct Asked {
    /// Its name in this cluster.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its settings, with defaults.
    #[schemars(with = "Map<String, Value>")]
    pub settings: Value,
    /// Settings of pools that have their own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, Map<String, Value>>>")]
    pub pool_settings: BTreeMap<String, Value>,
    /// The keys of the groups it is on.
    pub nodes: Vec<String>,
}

/// A file that was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "a made file")]
pub struct Seen {
    /// Its hash.
    pub sha256: String,
    /// Its permissions where it ends up.
    pub mode: String,
}

/// What a program answers: one JSON document on its standard output, or in the file that `KAWS_RESULT` names. Nothing
/// at all is an answer, too: nothing to add.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "a response")]
pub struct Response {
    /// Version of the contract, if it is said: `kaws/v1`.
    #[schemars(extend("const" = VERSION))]
    pub api_version: Option<String>,
    /// A part of the model, in the same shape; in initialise and render.
    #[schemars(with = "Map<String, Value>")]
    pub contribution: Option<Value>,
    /// Files below rendered/, by path; in render.
    pub artifacts: BTreeMap<String, Content>,
    /// What there is to say about the user's cluster.
    pub findings: Vec<Said>,
    /// The answer to a lookup.
    pub value: Option<Value>,
}

/// A file's bytes: a text, `{content: …}`, or `{base64: …}` where they are no text.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(title = "a content", untagged)]
pub enum Content {
    /// Text.
    Text(String),
    /// Text, as plugin.yaml spells it.
    Content {
        /// The text.
        content: String,
    },
    /// Bytes in Base64.
    Bytes {
        /// The bytes.
        base64: String,
    },
}

/// By hand, as what is wrong should be said.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || {
            D::Error::custom("a file is a text, {content: …}, or {base64: …}, and nothing beside")
        };
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Object(map) if map.len() == 1 => {
                let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
                let content = text("content").map(|content| Self::Content { content });
                content
                    .or_else(|| text("base64").map(|base64| Self::Bytes { base64 }))
                    .ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

/// A finding of a program's.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a finding of a program's")]
pub struct Said {
    /// Whether the run stops.
    pub severity: Level,
    /// Its name: the code is PLUGIN/NAME.
    #[schemars(regex(pattern = "^[a-z]([a-z0-9-]*[a-z0-9])?$"))]
    pub code: String,
    /// What is so, in a sentence.
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub help: Option<String>,
    /// What it is about, by which the place is found: `settings.collector`, `cluster.network.zones`, or a path of the
    /// model.
    #[serde(default)]
    pub at: Option<String>,
}

/// Whether a finding stops the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Level {
    /// It does.
    Fatal,
    /// It does not.
    Warning,
}

/// Why an answer is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

impl Response {
    /// Reads an answer: UTF-8, one document, no doubled keys, no unknown ones, this version.
    ///
    /// # Errors
    /// What is wrong with it, with the line and column.
    pub fn read(bytes: &[u8]) -> Result<Self, NoAnswer> {
        let no = |text: String| Err(NoAnswer(text));
        let Ok(text) = std::str::from_utf8(bytes) else {
            let at = std::str::from_utf8(bytes).err().map_or(0, |e| e.valid_up_to());
            return no(format!("it is not text in UTF-8, from byte {at} on"));
        };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = match Strict::deserialize(&mut reader).and_then(|v| reader.end().map(|()| v)) {
            Ok(Strict(value)) => value,
            Err(error) if error.is_eof() => return no(format!("it ends in the middle: {error}")),
            Err(error) => return no(error.to_string()),
        };
        if !value.is_object() {
            return no("it is no map".to_owned());
        }
        // An older or newer contract may have other fields: its version is the thing to say.
        if let Some(version) = value.get("apiVersion").filter(|v| v.as_str() != Some(VERSION)) {
            return no(format!("it is in the version {version}, and this kaws speaks {VERSION}"));
        }
        let response: Self = placed(value)?;
        match response.findings.iter().find(|said| Name::new(&said.code).is_none()) {
            Some(said) => no(format!("`{}` is no name for a finding", said.code.escape_debug())),
            None => Ok(response),
        }
    }
}

/// Reads the parts one by one, so that what is wrong has a place.
fn placed(mut value: Value) -> Result<Response, NoAnswer> {
    let at = |place: String| move |error: serde_json::Error| NoAnswer(format!("{place}: {error}"));
    let mut response = Response::default();
    if let Some(map) = value.as_object_mut() {
        if let Some(Value::Object(files)) = map.remove("artifacts") {
            for (path, file) in files {
                let file =
                    serde_json::from_value(file).map_err(at(format!("artifacts[{path:?}]")))?;
                response.artifacts.insert(path, file);
            }
        }
        if let Some(Value::Array(findings)) = map.remove("findings") {
            for (i, finding) in findings.into_iter().enumerate() {
                let said = serde_json::from_value(finding).map_err(at(format!("findings[{i}]")))?;
                response.findings.push(said);
            }
        }
    }
    let rest: Response =
        serde_json::from_value(value).map_err(|error| NoAnswer(error.to_string()))?;
    Ok(Response { artifacts: response.artifacts, findings: response.findings, ..rest })
}

/// A JSON value in which no key stands twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Strict, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Strict(all.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Strict, A::Error> {
        let mut all = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Strict(value) = entries.next_value()?;
            if all.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` stands there twice")));
            }
            all.insert(key, value);
        }
        Ok(Strict(Value::Object(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Response::read(text.as_bytes()).unwrap_err().0
    }

    #[test]
    fn what_is_no_answer_is_said_with_its_place() {
        assert!(wrong("{\"contribution\": {").contains("ends in the middle"));
        assert!(wrong("hello").contains("line 1 column 1"));
        assert!(wrong("{} {}").contains("trailing characters"));
        assert!(wrong("[]").contains("no map"));
        assert!(
            wrong("{\"contribution\": {\"a\": 1, \"a\": 2}}").contains("`a` stands there twice")
        );
        assert!(wrong("{\"contributions\": {}}").contains("unknown field `contributions`"));
        assert!(
            wrong("{\"apiVersion\": \"kaws/v2\", \"new\": 1}").contains("this kaws speaks kaws/v1")
        );
        assert!(wrong(&"[".repeat(500)).contains("recursion limit"));
        assert!(Response::read(&[b'{', 0xff, b'}']).unwrap_err().0.contains("from byte 1 on"));
    }

    #[test]
    fn nothing_is_an_answer() {
        let nothing = Response::read(b" \n").unwrap();
        assert!(nothing.contribution.is_none() && nothing.findings.is_empty());
    }

    #[test]
    fn numbers_keep_their_kind() {
        let text = r#"{"contribution": {"a": 1, "b": 1.5, "c": -3, "d": 18446744073709551615}}"#;
        let answer = Response::read(text.as_bytes()).unwrap();
        assert_eq!(
            answer.contribution.unwrap().to_string(),
            r#"{"a":1,"b":1.5,"c":-3,"d":18446744073709551615}"#
        );
    }
}
