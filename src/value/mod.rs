//! Located values: YAML's shapes, each knowing the place it came from.
//!
//! Every input is one of these before it is typed, so that any finding can point at a line, and every
//! contribution stays one, so that two plugins that disagree can both be shown. Not here: what the
//! values mean.

mod path;
mod read;
mod write;

pub use path::{Path, PathError};
pub use read::{MAX_BYTES, read};
pub use write::{Style, quoted, write};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Number, Value};

use crate::origin::Origin;

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub data: Data,
    /// Where it stands.
    pub origin: Origin,
    /// Where its key stands, for values in maps.
    pub key: Option<Origin>,
    /// What few values have, so that the others stay small.
    pub rare: Option<Arc<Rare>>,
}

/// What is known about a few values.
#[derive(Clone, Debug, Default)]
pub struct Rare {
    /// The settings it was made from, where a template made it.
    pub causes: Vec<Origin>,
    /// What is written behind it as a comment.
    pub note: Option<Arc<str>>,
}

/// The shapes of JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Nothing: adds nothing, unsets a setting.
    Null,
    /// True or false.
    Bool(bool),
    /// A number; integers stay integers.
    Number(Number),
    /// Text.
    String(Arc<str>),
    /// A sequence.
    List(Vec<Node>),
    /// A map, sorted by key.
    Map(BTreeMap<String, Node>),
}

/// Two nodes are equal when they say the same, wherever they stand.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl Node {
    /// Returns `data` at `origin`.
    #[must_use]
    pub fn new(data: Data, origin: Origin) -> Self {
        Self { data, origin, key: None, rare: None }
    }

    /// Returns an empty map.
    #[must_use]
    pub fn empty_map(origin: Origin) -> Self {
        Self::new(Data::Map(BTreeMap::new()), origin)
    }

    /// Returns a text.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>, origin: Origin) -> Self {
        Self::new(Data::String(text.into()), origin)
    }

    /// Returns `value` with every part at `origin`.
    #[must_use]
    pub fn from_value(value: Value, origin: &Origin) -> Self {
        let data = match value {
            Value::Null => Data::Null,
            Value::Bool(b) => Data::Bool(b),
            Value::Number(n) => Data::Number(n),
            Value::String(s) => Data::String(s.into()),
            Value::Array(items) => {
                Data::List(items.into_iter().map(|v| Self::from_value(v, origin)).collect())
            }
            Value::Object(map) => {
                Data::Map(map.into_iter().map(|(k, v)| (k, Self::from_value(v, origin))).collect())
            }
        };
        Self::new(data, origin.clone())
    }

    /// Returns the plain value.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(b) => Value::Bool(*b),
            Data::Number(n) => Value::Number(n.clone()),
            Data::String(s) => Value::String(s.to_string()),
            Data::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Data::Map(map) => {
                Value::Object(map.iter().map(|(k, v)| (k.clone(), v.to_value())).collect())
            }
        }
    }

    /// Returns the map, if it is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        if let Data::Map(map) = &self.data { Some(map) } else { None }
    }

    /// Returns the map to change, if it is one.
    pub fn as_map_mut(&mut self) -> Option<&mut BTreeMap<String, Self>> {
        if let Data::Map(map) = &mut self.data { Some(map) } else { None }
    }

    /// Returns the items, if it is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        if let Data::List(items) = &self.data { Some(items) } else { None }
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Data::String(text) = &self.data { Some(text) } else { None }
    }

    /// Returns the truth value, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Data::Bool(b) = &self.data { Some(*b) } else { None }
    }

    /// Returns whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    /// Returns what stands under `key`, if this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.get(key)
    }

    /// Returns the value if this is a map with `key` alone: the form of kaws's and CloudFormation's words.
    #[must_use]
    pub fn sole(&self, key: &str) -> Option<&Self> {
        self.as_map().filter(|m| m.len() == 1)?.get(key)
    }

    /// Returns the part that a JSON pointer's segments lead to.
    #[must_use]
    pub fn at<S: AsRef<str>>(&self, segments: &[S]) -> Option<&Self> {
        segments.iter().try_fold(self, |node, segment| match &node.data {
            Data::Map(map) => map.get(segment.as_ref()),
            Data::List(items) => items.get(segment.as_ref().parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Returns where the key stands, or else the value.
    #[must_use]
    pub fn key_origin(&self) -> &Origin {
        self.key.as_ref().unwrap_or(&self.origin)
    }

    /// Adds `comment` behind it.
    #[must_use]
    pub fn noted(mut self, comment: impl Into<Arc<str>>) -> Self {
        self.set_note(comment);
        self
    }

    /// Adds `comment` behind it, in place.
    pub fn set_note(&mut self, comment: impl Into<Arc<str>>) {
        self.rare().note = Some(comment.into());
    }

    /// Says which settings it was made from.
    #[must_use]
    pub fn caused_by(mut self, causes: Vec<Origin>) -> Self {
        if !causes.is_empty() || self.rare.is_some() {
            self.rare().causes = causes;
        }
        self
    }

    fn rare(&mut self) -> &mut Rare {
        Arc::make_mut(self.rare.get_or_insert_default())
    }

    /// Returns the settings it was made from.
    #[must_use]
    pub fn causes(&self) -> &[Origin] {
        self.rare.as_ref().map_or(&[], |rare| &rare.causes)
    }

    /// Returns what is written behind it as a comment.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.rare.as_ref()?.note.as_deref()
    }

    /// Removes map entries that are null, deeply: null means "not there".
    #[must_use]
    pub fn without_nulls(mut self) -> Self {
        self.drop_nulls();
        self
    }

    fn drop_nulls(&mut self) {
        match &mut self.data {
            Data::Map(map) => {
                map.retain(|_, v| !v.is_null());
                map.values_mut().for_each(Self::drop_nulls);
            }
            Data::List(items) => items.iter_mut().for_each(Self::drop_nulls),
            _ => {}
        }
    }

    /// Calls `visit` on this and on everything inside, outermost first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        visit(self);
        match &self.data {
            Data::List(items) => items.iter().for_each(|item| item.walk(visit)),
            Data::Map(map) => map.values().for_each(|value| value.walk(visit)),
            _ => {}
        }
    }

    /// Returns this with every part for which `change` gives a value replaced by that, outermost first.
    #[must_use]
    pub fn map_parts(&self, change: &dyn Fn(&Self) -> Option<Self>) -> Self {
        if let Some(new) = change(self) {
            return Self { key: self.key.clone(), ..new };
        }
        let data = match &self.data {
            Data::List(items) => Data::List(items.iter().map(|i| i.map_parts(change)).collect()),
            Data::Map(map) => {
                Data::Map(map.iter().map(|(k, v)| (k.clone(), v.map_parts(change))).collect())
            }
            other => other.clone(),
        };
        Self { data, ..self.clone_shell() }
    }

    /// Returns everything but the data, with null in its place.
    #[must_use]
    pub fn clone_shell(&self) -> Self {
        Self {
            data: Data::Null,
            origin: self.origin.clone(),
            key: self.key.clone(),
            rare: self.rare.clone(),
        }
    }
}

/// Returns a plain value as YAML.
#[must_use]
pub fn text_of(value: &Value) -> String {
    let origin = Origin::file_start(&crate::origin::SourceFile::new("value", ""));
    write(&Node::from_value(value.clone(), &origin), &Style::plain())
}

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    hex(&sha2::Sha256::digest(bytes))
}

/// Returns `bytes` in lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns the path to the first part in which `a` and `b` differ; empty if they differ as wholes.
#[must_use]
pub fn first_difference(a: &Node, b: &Node) -> Vec<String> {
    match (&a.data, &b.data) {
        (Data::Map(x), Data::Map(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                match (x.get(key), y.get(key)) {
                    (Some(v), Some(w)) if v == w => {}
                    (Some(v), Some(w)) => {
                        let mut path = vec![key.clone()];
                        path.extend(first_difference(v, w));
                        return path;
                    }
                    _ => return Vec::new(),
                }
            }
            Vec::new()
        }
        (Data::List(x), Data::List(y)) if x.len() == y.len() => {
            let differing = x.iter().zip(y).enumerate().find(|(_, (v, w))| v != w);
            differing.map_or_else(Vec::new, |(i, (v, w))| {
                let mut path = vec![i.to_string()];
                path.extend(first_difference(v, w));
                path
            })
        }
        _ => Vec::new(),
    }
}
