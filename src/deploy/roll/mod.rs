//! Rolling: every machine of a group is replaced by a new one, a few at a time, drained first, and only while all
//! checks hold.
//!
//! A group is looked at again and again; what to do next follows from what is there, so that whoever goes on after an
//! interruption does the same. Not here: what CloudFormation rolls by itself, which is what its policy says.

mod drain;
mod group;
mod state;

pub use drain::{Left, drain};
pub use state::{GroupRoll, Pace, RollState};

use async_trait::async_trait;

use super::error::Error;
use super::hold::Lock;
use super::steps::{Ended, Steps};
use super::tree::Tree;
use super::up::Operator;
use super::watch::Watcher;
use crate::port::{Cloud, Cluster, ScalingGroup};

/// The type of groups of machines.
pub(super) const GROUP: &str = "AWS::AutoScaling::AutoScalingGroup";

/// What must hold before a machine is taken.
#[async_trait]
pub trait Gate: Sync {
    /// Returns the checks that do not hold, each in a few words.
    async fn failing(&self) -> Result<Vec<String>, Error>;
}

/// What rolling works with.
pub struct Rolling<'a> {
    /// The cloud.
    pub cloud: &'a dyn Cloud,
    /// The cluster's API server.
    pub cluster: &'a dyn Cluster,
    /// What is deployed.
    pub tree: &'a Tree,
    /// Who is told how far things are.
    pub watcher: &'a dyn Watcher,
    /// What must hold before a machine is taken.
    pub gate: &'a dyn Gate,
    /// How fast.
    pub pace: Pace,
    /// Whether it is remembered in the state bucket: then it stops when somebody gives it up there.
    pub remembered: bool,
}

/// Returns what rolling would replace: of the groups that are named, by their folders, all machines, or those that were
/// not made from what their group makes machines from now.
///
/// # Errors
/// The cloud's, and a group that is not there.
pub async fn plan_roll(
    cloud: &dyn Cloud,
    tree: &Tree,
    wanted: &[String],
    outdated: bool,
) -> Result<Vec<GroupRoll>, Error> {
    let all = groups(cloud, tree).await?;
    if let Some(name) = wanted.iter().find(|name| !all.iter().any(|g| g.folder == **name)) {
        let there = all.iter().map(|g| g.folder.clone()).collect();
        return Err(Error::NoGroup { name: name.clone(), there });
    }
    let mut rolls = Vec::new();
    for mut group in all.into_iter().filter(|g| wanted.contains(&g.folder)) {
        let scaling = cloud.scaling_groups(&group.names).await?;
        let machines = scaling.iter().flat_map(|g| &g.machines).filter(|m| !m.is_leaving());
        let wanted = machines.filter(|m| !outdated || !m.current);
        group.todo = wanted.map(|m| m.id.clone()).collect();
        rolls.push(group);
    }
    Ok(rolls)
}

/// The groups of machines that are deployed, in the order in which they are rolled: what others live on comes first.
async fn groups(cloud: &dyn Cloud, tree: &Tree) -> Result<Vec<GroupRoll>, Error> {
    let mut names = Vec::new();
    for stack in tree.stacks.values().filter(|s| s.text.contains("KAWS_BUNDLE=")) {
        if cloud.stack(&stack.name).await?.is_some() {
            let resources = cloud.resources(&stack.name).await?;
            names.extend(resources.into_iter().filter(|r| r.kind == GROUP).map(|r| r.physical));
        }
    }
    let mut all: Vec<GroupRoll> = Vec::new();
    for scaling in cloud.scaling_groups(&names).await? {
        let folder = folder(&scaling);
        match all.iter_mut().find(|group| group.folder == folder) {
            Some(group) => group.names.push(scaling.name),
            None => {
                all.push(GroupRoll { names: vec![scaling.name], folder, ..GroupRoll::default() });
            }
        }
    }
    let rank = |group: &GroupRoll| match group.folder.as_str() {
        "etcd" => 0,
        "controller" => 1,
        _ => 2,
    };
    all.sort_by(|a, b| (rank(a), &a.folder).cmp(&(rank(b), &b.folder)));
    Ok(all)
}

/// The folder of a group's machines below `nodes/`.
fn folder(scaling: &ScalingGroup) -> String {
    scaling.tags.get("kaws/group").map(|key| key.replace(':', "-")).unwrap_or_default()
}

/// Rolls groups, one after the other, under the lock that deploying takes.
///
/// # Errors
/// Whatever keeps it from being begun; what goes wrong in a group is in what is returned.
pub async fn roll(
    work: &Rolling<'_>,
    state: &RollState,
    operator: &Operator,
    take_over: bool,
) -> Result<Ended, Error> {
    let bucket = &work.tree.cluster.bucket;
    skew(work, state).await?;
    let mut steps = Steps::default();
    for pair in state.groups.windows(2) {
        let (first, later) = (step(&pair[0].folder), step(&pair[1].folder));
        steps.add(&first);
        steps.add(&later);
        steps.before(&first, &later);
    }
    state.groups.iter().for_each(|group| {
        steps.add(&step(&group.folder));
    });
    let lock = Lock::new(work.cloud, bucket, operator, take_over);
    lock.take().await?;
    let watcher = lock.guard(work.watcher);
    let watched = Rolling { watcher: &watcher, ..*work };
    let run = async {
        state.store(work.cloud, bucket).await?;
        let ended = steps
            .run(1, &watcher, async |name: String| {
                let group = state.groups.iter().find(|group| step(&group.folder) == name);
                watched.group(group.expect("each step is a group's")).await
            })
            .await?;
        if ended.failed.is_empty() && ended.not_run.is_empty() {
            RollState::clear(work.cloud, bucket).await?;
        }
        Ok(ended)
    };
    let ended = lock.during(run).await;
    lock.give_back().await?;
    ended
}

/// Gives up a roll that nobody goes on with: nobody may be at it.
///
/// # Errors
/// The lock is held; the cloud's.
pub async fn forget_roll(
    cloud: &dyn Cloud,
    bucket: &str,
    operator: &Operator,
    take_over: bool,
) -> Result<(), Error> {
    let lock = Lock::new(cloud, bucket, operator, take_over);
    lock.take().await?;
    let cleared = RollState::clear(cloud, bucket).await;
    lock.give_back().await?;
    Ok(cleared?)
}

/// The step of a group.
#[must_use]
pub fn step(folder: &str) -> String {
    format!("roll:{folder}")
}

/// A kubelet must not be newer than its API server: what the deployed tree has for workers must be on controllers.
async fn skew(work: &Rolling<'_>, state: &RollState) -> Result<(), Error> {
    let workers = state.groups.iter().any(|g| g.folder.starts_with("pool-"));
    let controllers = state.groups.iter().any(|g| g.folder == "controller");
    let wanted = semver::Version::parse(&work.tree.cluster.kubernetes);
    // Rolled before them, controllers have it by then.
    let (true, false, Ok(wanted)) = (workers, controllers, wanted) else { return Ok(()) };
    let found = work.cluster.version().await?;
    match semver::Version::parse(&found) {
        Ok(server) if wanted > server => {
            Err(Error::Skew { kubelet: wanted.to_string(), server: found })
        }
        _ => Ok(()),
    }
}
