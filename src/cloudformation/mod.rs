//! CloudFormation's own language, read and understood: templates, intrinsic functions, what depends on
//! what, and what a changed property does to its resource.
//!
//! Not here: composing templates (`builtin`), and talking to AWS (`aws`).

mod changes;
mod depends;
mod interim;
mod intrinsics;
mod template;
mod updates;

pub use changes::{Action, Change, Fate, PropertyChange, Side, changes, differing};
pub use depends::{attributes, order, references};
pub use interim::interim;
pub use intrinsics::{Pseudo, ResolveError, Scope, resolve, truth};
pub use template::{Output, Parameter, Resource, Template, TemplateError};
pub use updates::{Effect, HOLDS_DATA, carries_tags, effect};
