//! Why deploying stopped.

use crate::port::{CloudError, Event};

use super::reports::Report;
use super::tree::TreeError;

/// Why deploying stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud did not do what was asked.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The tree cannot be deployed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Stacks are in states that no change set can start from.
    #[error("{}", .0.iter().map(super::stuck::Stuck::title).collect::<Vec<_>>().join("; "))]
    Stuck(Vec<super::stuck::Stuck>),
    /// CloudFormation refuses a template before anything is made of it.
    #[error("{stack}: CloudFormation refuses the template; nothing of it was made")]
    Invalid {
        /// The stack.
        stack: String,
        /// What is wrong.
        faults: Vec<crate::port::Fault>,
    },
    /// A resource is to be left as it is, and does not stand in the way.
    #[error("{name} does not stand in the way of anything")]
    NothingToLeave {
        /// `network/Vpc`.
        name: String,
        /// What does.
        can: std::collections::BTreeSet<String>,
    },
    /// Pods do not leave a node.
    #[error("the pods of {node} have not all gone in time: {}", .pods.keys().cloned().collect::<Vec<_>>().join(", "))]
    Drain {
        /// The node.
        node: String,
        /// The pods, and what holds each.
        pods: std::collections::BTreeMap<String, String>,
    },
    /// Pods would be gone for good.
    #[error("nobody would make these pods of {node} anew: {}", .pods.join(", "))]
    Unmanaged {
        /// The node.
        node: String,
        /// The pods.
        pods: Vec<String>,
    },
    /// Checks do not hold, so that no more machines are taken.
    #[error("no machine is taken while checks do not hold: {}", .0.join(", "))]
    Gate(Vec<String>),
    /// A group does not come back to its strength.
    #[error("{missing} of the machines of {group} are missing, and none has come for too long")]
    NotWhole {
        /// The group's folder.
        group: String,
        /// How many are missing.
        missing: usize,
        /// What is known of those that are there and do not work.
        why: Vec<String>,
    },
    /// A machine that was ended is still there.
    #[error("{machine} was ended, and is still there")]
    Stays {
        /// The machine.
        machine: String,
    },
    /// A roll was told to take no more machines.
    #[error("paused: {left} machines of {group} are left")]
    Paused {
        /// The group's folder.
        group: String,
        /// How many are left.
        left: usize,
    },
    /// A roll was begun, and is not over.
    #[error("{who} began a roll at {since}, which is not over")]
    NotOver {
        /// When.
        since: String,
        /// Who.
        who: String,
    },
    /// What is to be done needs the API server itself.
    #[error("this needs the API server: {0}")]
    Unreachable(String),
    /// There is no such group of machines.
    #[error("there is no group of machines {name}")]
    NoGroup {
        /// What was asked for.
        name: String,
        /// What there is.
        there: Vec<String>,
    },
    /// A kubelet would be newer than its API server.
    #[error("new nodes would have the kubelet {kubelet}, and the API server is {server}")]
    Skew {
        /// The kubelet's release.
        kubelet: String,
        /// The API server's.
        server: String,
    },
    /// The lock was lost to somebody else while this went on.
    #[error("somebody else took the lock while this went on")]
    LostLock,
    /// A stack did not come to be what it should.
    #[error("{}", .0.title())]
    Stack(Box<RootCause>),
    /// The credentials are for another account.
    #[error("the credentials are for account {found}, and the cluster is in {wanted}")]
    Account {
        /// The cluster's.
        wanted: String,
        /// The credentials'.
        found: String,
    },
    /// The endpoint or profile is for another region.
    #[error("kaws would work in {found}, and the cluster is in {wanted}")]
    Region {
        /// The cluster's.
        wanted: String,
        /// What the environment or the profile says.
        found: String,
    },
    /// Somebody else is deploying.
    #[error("{who} has been deploying this cluster since {since}")]
    Held {
        /// Who.
        who: String,
        /// Since when.
        since: String,
        /// Whether they have not been heard of for so long that they are probably gone.
        stale: bool,
    },
    /// A change set holds what was not confirmed.
    #[error("{stack}: the change set holds more than the plan that was confirmed")]
    MoreThanPlan {
        /// The stack.
        stack: String,
        /// What is more, a line each.
        more: Vec<String>,
    },
    /// The plan is another one by now.
    #[error("the plan in {file} no longer holds: its digest is {saved}, and now it would be {now}")]
    OtherPlan {
        /// The file.
        file: String,
        /// Its digest.
        saved: String,
        /// Today's.
        now: String,
    },
    /// Between the plan and the lock somebody else deployed.
    #[error("somebody else deployed after the plan was made")]
    Overtaken,
    /// Something would be lost that was not named.
    #[error("data is at risk: {}", .0.join(", "))]
    DataAtRisk(Vec<String>),
    /// A parameter has no value.
    #[error("{stack} needs {parameter}, and {source_name} has no value")]
    NoValue {
        /// The stack.
        stack: String,
        /// The parameter.
        parameter: String,
        /// `network.VpcId`, `image/ubuntu-24.04/amd64`.
        source_name: String,
    },
    /// A secret that machines will read has not been set.
    #[error("{} not set: {}", if .0.len() == 1 { "a secret is" } else { "secrets are" }, .0.join(", "))]
    NoSecret(Vec<String>),
    /// A key or certificate could not be minted.
    #[error("{name} could not be minted")]
    Mint {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: super::pki::MintError,
    },
    /// A certificate is not there to be read.
    #[error("{0} has not been minted")]
    NotMinted(String),
    /// A minor of Kubernetes would be left out, or taken back.
    #[error("Kubernetes goes from {from} to {to}, and one minor at a time forward")]
    SkipsMinor {
        /// What is deployed.
        from: String,
        /// What is rendered.
        to: String,
    },
    /// CloudFormation would refuse the change.
    #[error("CloudFormation refuses the change of {resource}")]
    Unsupported {
        /// `etcd/Etcd0Data`.
        resource: String,
        /// Which properties.
        properties: Vec<String>,
    },
    /// A stack that is no longer rendered, and stays, uses what another would drop.
    #[error("{producer} drops {output}, and {consumer} still uses it")]
    StillUsed {
        /// The stack that drops it.
        producer: String,
        /// The output.
        output: String,
        /// The stack that uses it, and is no longer rendered.
        consumer: String,
    },
    /// A stack is not there to be removed.
    #[error("there is no stack {0} that is deployed and no longer rendered")]
    NothingToRemove(String),
    /// What was remembered of the last deployment cannot be read.
    #[error("{key} in {bucket} is no record of a deployment: {reason}")]
    Record {
        /// The bucket.
        bucket: String,
        /// The object.
        key: String,
        /// Why.
        reason: String,
    },
    /// The cluster made things outside its stacks, and nobody said that they may go.
    #[error("the cluster made things outside its stacks: {}", .0.join(", "))]
    Leftovers(Vec<String>),
    /// The steps wait for each other.
    #[error("these steps wait for each other: {}", .0.join(" -> "))]
    Circle(Vec<String>),
    /// A step of a plugin failed.
    #[error("step {step}: {reason}")]
    Step {
        /// The step.
        step: String,
        /// Why.
        reason: String,
    },
    /// Interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Why a stack failed: the first resource that did, and what followed.
#[derive(Clone, Debug, PartialEq)]
pub struct RootCause {
    /// The stack's short name.
    pub stack: String,
    /// Its status at the end.
    pub status: String,
    /// The resource that failed first, if one did.
    pub first: Option<Event>,
    /// The history of this attempt that says anything about failure, oldest first.
    pub events: Vec<Event>,
    /// What its machines said in this attempt of why they did not come up, oldest first.
    pub reports: Vec<Report>,
    /// Why that could not be read.
    pub unread: Option<String>,
}

impl RootCause {
    /// Returns it in a sentence.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.first {
            Some(event) => {
                let done = match event.status.as_str().split('_').next() {
                    Some("CREATE") => "created",
                    Some("DELETE") => "deleted",
                    _ => "changed",
                };
                format!("{}: {} could not be {done}", self.stack, event.resource)
            }
            None => format!("{} ended as {}", self.stack, self.status),
        }
    }

    /// Picks the root cause out of a stack's history, newest first.
    #[must_use]
    pub fn of(stack: &str, status: &str, history: &[Event]) -> Self {
        let telling = |e: &&Event| e.status.is_failed() || e.status.as_str().contains("ROLLBACK");
        let mut events: Vec<Event> =
            history.iter().filter(telling).filter(|e| !e.is_cancelled()).cloned().collect();
        events.reverse();
        let first = events
            .iter()
            .find(|e| e.status.is_failed() && e.kind != "AWS::CloudFormation::Stack")
            .cloned();
        let (stack, status) = (stack.to_owned(), status.to_owned());
        Self { stack, status, first, events, reports: Vec::new(), unread: None }
    }
}
