//! What deploying shows while it goes on.

use std::sync::atomic::{AtomicBool, Ordering};

/// Somebody who is told how far things are.
pub trait Watcher: Send + Sync {
    /// Something happened.
    fn on(&self, progress: Progress);

    /// Returns whether to begin nothing new.
    fn stopping(&self) -> bool {
        false
    }
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    /// It waits for others.
    Waiting(Vec<String>),
    /// It is under way.
    Running,
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It was not begun.
    NotRun,
}

/// Something to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step is in another state.
    Step {
        /// Its name: `stack:network`, `assets`.
        step: String,
        /// Its state.
        state: StepState,
        /// What became of it: "no changes", "12 resources".
        note: String,
    },
    /// Something happened inside a step.
    Detail {
        /// The step.
        step: String,
        /// The resource, or whatever it is about.
        subject: String,
        /// What happened: `CREATE_IN_PROGRESS`, or in words.
        status: String,
        /// Why, if it failed.
        reason: Option<String>,
    },
}

/// Tells nobody, and stops when it is told to.
#[derive(Debug, Default)]
pub struct Silent(pub AtomicBool);

impl Watcher for Silent {
    fn on(&self, _: Progress) {}

    fn stopping(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
