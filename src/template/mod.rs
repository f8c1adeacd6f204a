//! Templates: handlebars in the leaves of contributions and in `.hbs` files, and the words that begin
//! with `$`. Pure: values in, values out.
//!
//! A leaf that is exactly one expression keeps its type; anything else is text. What an expression gives
//! is data and never expanded again. Not here: what contributions mean (`model`).

mod check;
mod evaluate;
mod expression;
mod helpers;
mod text;

pub use check::{Checked, check_text, check_tree, uses_root};
pub use evaluate::evaluate;
pub use expression::Expression;
pub use helpers::{HELPERS, Helper, HelperError};
pub use text::Engine;

use std::collections::BTreeMap;

use crate::name::Name;
use crate::value::{Data, Node};

/// The names a template may begin a path with, and what they are.
pub const ROOTS: &[(&str, &str)] = &[
    ("arch", "The architecture that is downloaded for, in a pin's url: amd64 or arm64."),
    ("cluster", "cluster.yaml with its defaults, and what follows from it."),
    ("key", "The key or index, inside `$each`."),
    (
        "machine",
        "The group of machines a part is made for: group, stack, pool, role, arch, os, instanceTypes, labels.",
    ),
    ("plugin", "The plugin itself: name, version."),
    ("settings", "The plugin's settings."),
    ("value", "The item, inside `$each`."),
    ("version", "The pin's version, in a pin's url."),
    ("values", "What other plugins computed: values.PLUGIN.KEY."),
];

/// What the paths in a template lead to.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// The values by their first name.
    pub roots: BTreeMap<&'a str, &'a Node>,
    /// The plugin whose template it is: `secret "x"` means its own.
    pub plugin: &'a Name,
}

impl<'a> Scope<'a> {
    /// Returns the scope with one more root.
    #[must_use]
    pub fn with(&self, name: &'a str, node: &'a Node) -> Self {
        let mut scope = self.clone();
        scope.roots.insert(name, node);
        scope
    }

    /// Returns what `path` leads to; nothing is null.
    #[must_use]
    pub fn lookup(&self, path: &[String]) -> Option<&'a Node> {
        let (root, rest) = path.split_first()?;
        self.roots.get(root.as_str())?.at(rest).filter(|n| !n.is_null())
    }
}

/// Returns whether `text` holds an expression, and is not only text with braces of AWS.
#[must_use]
pub fn is_template(text: &str) -> bool {
    text.match_indices("{{").any(|(at, _)| !text[at..].starts_with("{{resolve:"))
}

/// Returns `text` with CloudFormation's dynamic references guarded: they are AWS's, and pass through.
fn guarded(text: &str) -> String {
    text.replace("{{resolve:", "\\{{resolve:")
}

/// Returns whether a value counts as true: not false, 0, "", null, or empty.
#[must_use]
pub fn is_truthy(node: &Node) -> bool {
    match &node.data {
        Data::Null => false,
        Data::Bool(b) => *b,
        Data::Number(n) => n.as_f64() != Some(0.0),
        Data::String(s) => !s.is_empty(),
        Data::List(items) => !items.is_empty(),
        Data::Map(map) => !map.is_empty(),
    }
}
