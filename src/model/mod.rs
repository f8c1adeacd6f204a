//! The model: the whole cluster as a tree of maps whose leaves are entities, each with its owners.
//!
//! One shape for every contribution, built-in or not ([`SECTIONS`]), one way to merge ([`Model::merge`])
//! and one way to override ([`Model::apply`]). Not here: who contributes, and when (`pipeline`).

mod claim;
mod entities;
mod flags;
mod merge;
mod patch;
mod shape;
mod tree;

pub use claim::{Claim, Split, split};
pub use entities::Kind;
pub use flags::{FLAGS, Flag, FlagKind, flag_kind};
pub use merge::{Decisions, Preference};
pub use patch::{AppliedPatch, Op, Patch};
pub use shape::{PROTECTED, SECTIONS, Section, contribution_schema, section_of};
pub use tree::{Branch, Claimant, Entity, Model, Stage};
