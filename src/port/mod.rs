//! The ports: what deploying asks of AWS, or of the cloud in a folder that stands in for it; of the cluster's
//! API server; and of the web.
//!
//! Not here: any implementation (`aws`, `local`, `cluster`, `web`), and what is done with the answers (`deploy`).

mod cluster;
mod machines;
mod programs;
mod status;
mod web;

pub use cluster::{Cluster, DeprecatedApi, Eviction, Keeper, Node, Pod, Pods, Release};
pub use machines::{Machine, ScalingGroup};
pub use programs::{NoPrograms, Outputs, Programs, Task};

pub use status::Status;
pub use web::{Request, Response, Web};

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;

use crate::cloudformation::Action;

/// Why the cloud did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct CloudError {
    /// What was asked, as AWS calls it: `CreateChangeSet`, `PutObject`.
    pub operation: String,
    /// What kind of answer it was.
    pub kind: ErrorKind,
    /// What the cloud said.
    pub message: String,
    /// What it says is wrong with resources of a template, found before anything is made.
    pub faults: Vec<Fault>,
}

/// What is wrong with one resource of a template.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Fault {
    /// Its logical id.
    pub resource: String,
    /// Where in the template: `/Resources/Group/Properties/MinSize`.
    pub path: String,
    /// What is wrong.
    pub reason: String,
}

/// What kind of answer an error is, as far as kaws does something else then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No credentials, or none that are valid.
    Credentials,
    /// The credentials do not allow it.
    Denied,
    /// It is not there.
    NotFound,
    /// Somebody was faster: it exists, or is no longer what was expected.
    Conflict,
    /// What was sent does not fit, or the state of things does not allow it.
    Refused,
    /// The network, or the cloud itself, after all retries.
    Unavailable,
}

impl CloudError {
    /// Returns an error.
    #[must_use]
    pub fn new(operation: &str, kind: ErrorKind, message: impl Into<String>) -> Self {
        let (operation, message) = (operation.to_owned(), message.into());
        Self { operation, kind, message, faults: Vec::new() }
    }

    /// Says what is wrong with which resource.
    #[must_use]
    pub fn because(self, faults: Vec<Fault>) -> Self {
        Self { faults, ..self }
    }

    /// Returns whether the thing is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// Returns whether somebody was faster.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind == ErrorKind::Conflict
    }
}

/// What a call answers.
pub type Answer<T> = Result<T, CloudError>;

/// Whom the credentials are for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Identity {
    /// Twelve digits.
    pub account: String,
    /// The user or role.
    pub arn: String,
}

/// A stack as it is deployed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// Its name: `prod-pool-general`.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Where it is in its life.
    pub status: Status,
    /// Why, if the cloud says so.
    pub reason: Option<String>,
    /// Values of its parameters.
    pub parameters: BTreeMap<String, String>,
    /// Its outputs.
    pub outputs: BTreeMap<String, String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Whether it cannot be deleted.
    pub protected: bool,
}

/// A resource as it is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct StackResource {
    /// Its logical id.
    pub id: String,
    /// Its id in the cloud.
    pub physical: String,
    /// Its type.
    pub kind: String,
    /// Where it is in its life.
    pub status: Status,
}

/// One line of a stack's history.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Event {
    /// Its id.
    pub id: String,
    /// When, in UTC: `2026-11-20T12:41:09Z`.
    pub time: String,
    /// The logical id of the resource; the stack's name for the stack itself.
    pub resource: String,
    /// Its type.
    pub kind: String,
    /// Its id in the cloud.
    pub physical: String,
    /// What happened.
    pub status: Status,
    /// Why.
    pub reason: Option<String>,
}

impl Event {
    /// Returns whether it only tells that another resource failed.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.reason.as_deref().is_some_and(|r| r.contains("cancelled") || r.contains("canceled"))
    }
}

/// Where a template is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// In the call itself: at most 51,200 bytes.
    Inline(String),
    /// In an object: bucket and key.
    Object(String, String),
}

/// What a change set is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeSetRequest {
    /// The stack's name.
    pub stack: String,
    /// The change set's name.
    pub name: String,
    /// Whether the stack is new.
    pub create: bool,
    /// The template.
    pub body: Body,
    /// Values of parameters.
    pub parameters: BTreeMap<String, String>,
    /// Parameters that keep their value.
    pub previous: std::collections::BTreeSet<String>,
    /// The stack's tags.
    pub tags: BTreeMap<String, String>,
    /// The role that CloudFormation works with, if not the caller's own.
    pub role: Option<String>,
    /// Whether what failed stays as it is, to be looked at, in place of going back.
    pub keep_failed: bool,
    /// Whether what somebody changed by hand is put back, whether or not the template changes it.
    pub revert_drift: bool,
}

/// Whether a resource is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replacement {
    /// No.
    No,
    /// It depends on what the provider finds.
    Conditional,
    /// Yes.
    Yes,
}

/// One resource in a change set.
#[derive(Clone, Debug, PartialEq)]
pub struct SetChange {
    /// Its logical id.
    pub id: String,
    /// Its type.
    pub kind: String,
    /// What is done.
    pub action: Action,
    /// Whether it is replaced.
    pub replacement: Replacement,
    /// Whether the change is only there because what it refers to changes.
    pub dynamic: bool,
}

/// A change set that is ready.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeSet {
    /// Its name.
    pub name: String,
    /// Its stack.
    pub stack: String,
    /// What it holds.
    pub changes: Vec<SetChange>,
}

/// What differs from what a stack made.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Drift {
    /// Its resources that differ.
    pub resources: Vec<Drifted>,
    /// Why not all of them could be looked at, if so.
    pub unchecked: Option<String>,
}

/// A resource that is not what its stack made of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Drifted {
    /// Its logical id.
    pub resource: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is gone.
    pub deleted: bool,
    /// Its properties that differ, each as it should be and as it is.
    pub properties: Vec<(String, String, String)>,
}

/// An object.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The mark of this version of it.
    pub etag: String,
}

/// Objects can be secrets: their bytes are not printed.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} bytes, {})", self.bytes.len(), self.etag)
    }
}

/// Under which condition an object is written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// If there is none.
    Absent,
    /// If it is this version.
    Is(String),
}

/// Something the cluster itself made in the account, outside every stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Leftover {
    /// What it is: `AWS::ElasticLoadBalancingV2::LoadBalancer`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its ARN.
    pub arn: String,
    /// Whether it holds data.
    pub data: bool,
}

/// The cloud.
#[async_trait]
pub trait Cloud: fmt::Debug + Send + Sync {
    /// Returns `aws` or `local`, as it is printed.
    fn name(&self) -> &'static str;

    /// Returns whether it is the cloud in a folder: then nothing it makes is real.
    fn is_local(&self) -> bool {
        self.name() == "local"
    }

    /// Returns how long to wait before asking again how far something is.
    fn pause(&self) -> std::time::Duration;

    /// Returns whom the credentials are for.
    async fn identity(&self) -> Answer<Identity>;

    /// Returns the stacks tagged with the cluster's name.
    async fn stacks(&self, cluster: &str) -> Answer<Vec<Stack>>;

    /// Returns a stack, by name or id; a deleted one by id only.
    async fn stack(&self, name: &str) -> Answer<Option<Stack>>;

    /// Returns the text of a stack's template.
    async fn template(&self, stack: &str) -> Answer<String>;

    /// Returns a stack's resources.
    async fn resources(&self, stack: &str) -> Answer<Vec<StackResource>>;

    /// Compares a stack's resources with what is really there.
    async fn drift(&self, stack: &str) -> Answer<Drift>;

    /// Returns a stack's history, newest first, up to the event `since`.
    async fn events(&self, stack: &str, since: Option<&str>) -> Answer<Vec<Event>>;

    /// Returns the id of a stack's newest event, if there is the stack.
    async fn last_event(&self, stack: &str) -> Answer<Option<String>>;

    /// Makes a change set and waits until it is ready; `None` if there is nothing to change.
    async fn change_set(&self, request: &ChangeSetRequest) -> Answer<Option<ChangeSet>>;

    /// Begins to do what a change set holds.
    async fn execute(&self, stack: &str, change_set: &str) -> Answer<()>;

    /// Throws a change set away.
    async fn discard(&self, stack: &str, change_set: &str) -> Answer<()>;

    /// Begins to delete a stack; of one whose deletion failed, the resources `retain` stay.
    async fn delete_stack(&self, stack: &str, retain: &[String], role: Option<&str>) -> Answer<()>;

    /// Begins to take back an update that failed and was kept.
    async fn roll_back(&self, stack: &str, role: Option<&str>) -> Answer<()>;

    /// Goes on with a rollback that failed; the resources `skip` stay as they are.
    async fn continue_rollback(
        &self,
        stack: &str,
        skip: &[String],
        role: Option<&str>,
    ) -> Answer<()>;

    /// Sets what updates of a stack may not do, as AWS writes policies; nothing is done where it is so already.
    async fn set_policy(&self, stack: &str, policy: &str) -> Answer<()>;

    /// Sets whether a stack can be deleted.
    async fn protect(&self, stack: &str, on: bool) -> Answer<()>;

    /// Writes an object, and returns the mark of its version.
    async fn put(&self, bucket: &str, key: &str, bytes: Vec<u8>, when: When) -> Answer<String>;

    /// Returns an object.
    async fn get(&self, bucket: &str, key: &str) -> Answer<Option<Object>>;

    /// Returns the keys that begin with `prefix`; none where there is no bucket.
    async fn list(&self, bucket: &str, prefix: &str) -> Answer<Vec<String>>;

    /// Deletes an object.
    async fn delete(&self, bucket: &str, key: &str, when: When) -> Answer<()>;

    /// Returns a public parameter's value: what AWS publishes under `/aws/service/`.
    async fn parameter(&self, name: &str) -> Answer<Option<String>>;

    /// Returns Auto Scaling groups with their machines, by the groups' names.
    async fn scaling_groups(&self, names: &[String]) -> Answer<Vec<ScalingGroup>>;

    /// Returns the targets of a target group that are not healthy, each with why.
    async fn unhealthy_targets(&self, arn: &str) -> Answer<Vec<(String, String)>>;

    /// Ends a machine; its group makes another in its place.
    async fn terminate(&self, machine: &str) -> Answer<()>;

    /// Returns what the cluster itself made outside its stacks.
    async fn leftovers(&self, cluster: &str) -> Answer<Vec<Leftover>>;

    /// Removes one of them, and waits until it is gone.
    async fn remove(&self, leftover: &Leftover) -> Answer<()>;
}
