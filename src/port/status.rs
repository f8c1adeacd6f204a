//! Where a stack or a resource is in its life.

use std::fmt;

/// As CloudFormation spells it: `UPDATE_ROLLBACK_COMPLETE`.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Status(String);

impl Status {
    /// Returns the status spelled `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns its spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether something is under way; a stack that only has change sets is not.
    #[must_use]
    pub fn is_in_progress(&self) -> bool {
        self.0.ends_with("_IN_PROGRESS") && !self.is_empty_stack()
    }

    /// Returns whether the stack has never been more than a change set.
    #[must_use]
    pub fn is_empty_stack(&self) -> bool {
        self.0 == "REVIEW_IN_PROGRESS"
    }

    /// Returns whether the last thing that was tried succeeded.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.0.as_str(), "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "IMPORT_COMPLETE")
    }

    /// Returns whether it can be updated as it is.
    #[must_use]
    pub fn is_updatable(&self) -> bool {
        let back = ["UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE"];
        self.is_done() || back.contains(&self.0.as_str())
    }

    /// Returns whether it never came to be: all that can be done is to delete it.
    #[must_use]
    pub fn never_came(&self) -> bool {
        matches!(self.0.as_str(), "ROLLBACK_COMPLETE" | "CREATE_FAILED" | "ROLLBACK_FAILED")
    }

    /// Returns whether it is gone.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.0 == "DELETE_COMPLETE"
    }

    /// Returns whether it says that something went wrong.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.0.ends_with("_FAILED")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
