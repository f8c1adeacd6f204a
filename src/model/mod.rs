//! The model: the whole cluster as a tree of maps whose leaves are entities, each with its owners.
//!
//! One shape for every contribution, built-in or not ([`SECTIONS`]), one way to merge ([`Model::merge`])
//! and one way to override ([`Model::apply`]). Not here: who contributes, and when (`pipeline`).

mod claim;
mod entities;
mod flags;
mod fold;
mod merge;
mod naming;
mod normal;
mod patch;
mod scope;
mod secrets;
mod shape;
mod stacks;
mod tree;

pub use claim::{Claim, claim_at, split};
pub use entities::{
    Authority, Behavior, Certificate, Check, File, HOST_EVENTS, HostBehavior, HostHook,
    HostVolume as HostVolumeForm, Key, KeyKind, Kind, NODE_EVENTS, NodeHook, Pin, Release, Rule,
    Step,
};
pub use flags::{FLAGS, Flag, FlagKind, flag_kind};
pub use merge::{Decisions, PREFERRED, Preference};
pub use patch::{AppliedPatch, Op, Patch};
pub use scope::{GROUPED, Split};
pub use shape::{PROTECTED, SECTIONS, Section, contribution_schema, section_of};
pub use stacks::{
    Derived, Edges, dangling_outputs, derived_parameters, output, parameter_clashes,
    parameter_name, stack_edges, stack_order,
};
pub use tree::{Branch, Claimant, Entity, Model, Stage};

/// The words that begin a placeholder which nodes fill in: `@{secret dex/github}`.
pub const PLACEHOLDERS: [&str; 4] = ["secret", "output", "node", "pki"];

/// Returns the placeholders in a text, as pairs of word and name.
pub fn placeholders(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("@{").filter_map(|(at, _)| {
        let inner = &text[at + 2..];
        let (word, name) = inner[..closing(inner)?].split_once(' ')?;
        PLACEHOLDERS.contains(&word).then_some((word, name))
    })
}

/// Returns where a placeholder ends; one may stand in the name of another: `@{pki etcd-@{node member}.key}`.
fn closing(inner: &str) -> Option<usize> {
    let mut open = 0;
    for (at, c) in inner.char_indices() {
        match c {
            '{' if inner[..at].ends_with('@') => open += 1,
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            '\n' => return None,
            _ => {}
        }
    }
    None
}

/// Returns whether a text holds a placeholder.
#[must_use]
pub fn has_placeholder(text: &str) -> bool {
    placeholders(text).next().is_some()
}
