//! Whether a change loses what a resource keeps.

use crate::cloudformation::{Action, Change, Fate, HOLDS_DATA};

/// Returns whether the change deletes something that holds data, with nothing kept of it.
pub(super) fn at_risk(change: &Change) -> bool {
    let goes = match change.action {
        Action::Add => false,
        Action::Remove => !change.kept.as_deref().is_some_and(|p| p.starts_with("Retain")),
        Action::Modify => matches!(change.fate, Fate::Replaces | Fate::MayReplace),
    };
    // Of one that is replaced the data may be kept, and yet nothing uses it any more: the new one is empty.
    goes && HOLDS_DATA.contains(&change.kind.as_str())
}
