//! A stack of the local cloud, as its file holds it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::port::{Event, Status};

/// One stack: everything about it, in one file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StackFile {
    pub name: String,
    pub id: String,
    pub status: Status,
    pub reason: Option<String>,
    pub protected: bool,
    /// What updates may not do, as AWS writes policies.
    #[serde(default)]
    pub policy: Option<String>,
    /// What is deployed.
    pub deployed: Input,
    pub outputs: BTreeMap<String, String>,
    pub resources: BTreeMap<String, Made>,
    /// What is under way.
    pub operation: Option<Operation>,
    /// What failed and was left so: it can be taken back, or its rollback continued.
    #[serde(default)]
    pub failed: Option<Operation>,
    pub change_sets: BTreeMap<String, Prepared>,
    /// Oldest first.
    pub events: Vec<Event>,
}

/// What a stack is made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Input {
    pub template: String,
    pub parameters: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
}

/// A resource that has been made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    pub kind: String,
    pub physical: String,
    pub status: Status,
    pub properties: Map<String, Value>,
    /// What its template made of it, whatever somebody has done to it since.
    #[serde(default)]
    pub wanted: Map<String, Value>,
    /// Attributes that its template asks of it.
    #[serde(default)]
    pub attributes: BTreeMap<String, Value>,
    /// How often it has been replaced: part of its physical id.
    pub generation: u32,
    /// How often it has changed in place: the version of a launch template.
    pub version: u32,
    /// What becomes of it when it goes.
    pub deletion_policy: Option<String>,
    /// Resources it came after.
    pub needs: BTreeSet<String>,
}

/// What is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Operation {
    pub kind: Kind,
    /// What the stack is to become.
    pub target: Input,
    /// What it was, to go back to.
    pub before: BTreeMap<String, Made>,
    /// Logical ids that are done.
    pub done: BTreeSet<String>,
    /// Those that were replaced or left the template, still to be deleted: by logical id and generation.
    pub old: Vec<(String, Made)>,
    /// Whether a failure is left as it is.
    #[serde(default)]
    pub keep_failed: bool,
    /// Whether what somebody changed by hand is put back.
    #[serde(default)]
    pub reverts: bool,
    /// Logical ids that are left alone: by a deletion, or by a rollback that goes on.
    #[serde(default)]
    pub leave: BTreeSet<String>,
}

impl Operation {
    /// Returns one that begins.
    pub(super) fn new(kind: Kind, target: Input, before: BTreeMap<String, Made>) -> Self {
        let (done, old, leave) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
        Self { kind, target, before, done, old, keep_failed: false, reverts: false, leave }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Create,
    Update,
    Delete,
    /// Back to what was, or to nothing.
    Rollback,
}

/// A change set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Prepared {
    pub create: bool,
    pub target: Input,
    #[serde(default)]
    pub keep_failed: bool,
    #[serde(default)]
    pub reverts: bool,
}

impl StackFile {
    /// Adds a line about the stack itself, which is then in that state.
    pub(super) fn turn(&mut self, status: &str, reason: Option<String>) {
        self.status = Status::new(status);
        self.reason.clone_from(&reason);
        let (name, id) = (self.name.clone(), self.id.clone());
        self.log(&name, "AWS::CloudFormation::Stack", &id, status, reason);
    }

    /// Adds a line about a resource.
    pub(super) fn log(
        &mut self,
        resource: &str,
        kind: &str,
        physical: &str,
        status: &str,
        reason: Option<String>,
    ) {
        self.events.push(Event {
            id: format!("{}#{}", self.id, self.events.len()),
            time: super::now(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            physical: physical.to_owned(),
            status: Status::new(status),
            reason,
        });
    }

    /// Returns the history newest first, up to the event `since`.
    pub(super) fn history(&self, since: Option<&str>) -> Vec<Event> {
        self.events.iter().rev().take_while(|e| since != Some(e.id.as_str())).cloned().collect()
    }
}
