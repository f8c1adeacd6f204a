//! Stacks that no change set can start from: what keeps them there, and the way out of it.
//!
//! Not here: stacks that never came to be, which are deleted and made anew as part of a deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::error::{Error, RootCause};
use super::hold::Lock;
use super::plan::Plan;
use super::stacks::{STATE, Stacks};
use super::steps::{Ended, Steps};
use super::tree::{ClusterFacts, Tree, TreeError};
use super::up::Operator;
use super::watch::Watcher;
use crate::cloudformation::{HOLDS_DATA, Resource, Template};
use crate::port::{Cloud, Event, Stack, StackResource};

/// A stack that is stuck.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// Its name in the cluster.
    pub stack: String,
    /// Its name in the cloud.
    #[serde(skip)]
    pub name: String,
    /// Its status: `UPDATE_ROLLBACK_FAILED`.
    pub status: String,
    /// What gets it out.
    pub way_out: WayOut,
    /// Its resources that failed, each with the last thing that the cloud said of it.
    pub failed: Vec<Event>,
    /// What holds data, and goes with it, by `stack/LogicalId`.
    pub loses: Vec<String>,
    /// Stacks that use it and stay: it is not deleted from under them.
    pub used_by: Vec<String>,
    /// Stacks that it comes after.
    #[serde(skip)]
    pub after: BTreeSet<String>,
}

/// What gets a stack out of where it is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WayOut {
    /// The update that failed, and was kept to be looked at, is taken back.
    RollBack,
    /// The rollback that failed goes on.
    ContinueRollback,
    /// It is deleted once more.
    DeleteAgain,
    /// Its state is one that kaws knows no way out of.
    ByHand,
}

impl WayOut {
    fn of(status: &str) -> Self {
        match status {
            "UPDATE_FAILED" => Self::RollBack,
            "UPDATE_ROLLBACK_FAILED" => Self::ContinueRollback,
            "DELETE_FAILED" => Self::DeleteAgain,
            _ => Self::ByHand,
        }
    }
}

impl Stuck {
    /// Returns what is the matter, in a sentence.
    #[must_use]
    pub fn title(&self) -> String {
        let what = match self.way_out {
            WayOut::RollBack => "an update failed, and was kept as it was",
            WayOut::ContinueRollback => "an update failed, and so did its rollback",
            WayOut::DeleteAgain => "it could not be deleted as a whole",
            WayOut::ByHand => "kaws does not know the state that it is in",
        };
        format!("{} is stuck: {what} ({})", self.stack, self.status)
    }

    /// Returns whether kaws can get it out: not where others live on it, or its state is not known.
    #[must_use]
    pub fn can_be_freed(&self) -> bool {
        self.used_by.is_empty() && self.way_out != WayOut::ByHand
    }

    /// Returns its resources that can be left as they are, by `stack/LogicalId`.
    #[must_use]
    pub fn can_be_left(&self) -> BTreeSet<String> {
        let goes_on = matches!(self.way_out, WayOut::ContinueRollback | WayOut::DeleteAgain);
        let all = self.failed.iter().filter(|_| goes_on);
        all.map(|event| format!("{}/{}", self.stack, event.resource)).collect()
    }
}

/// Returns those of a cluster's stacks that are stuck.
///
/// # Errors
/// The cloud's.
pub async fn stuck(cloud: &dyn Cloud, stacks: &[Stack]) -> Result<Vec<Stuck>, Error> {
    let mut all = Vec::new();
    for stack in stacks {
        let Some(short) = stack.tags.get("kaws/stack") else { continue };
        let status = &stack.status;
        if status.is_updatable()
            || status.is_in_progress()
            || status.is_empty_stack()
            || status.never_came()
        {
            continue;
        }
        let way_out = WayOut::of(status.as_str());
        let resources = cloud.resources(&stack.name).await?;
        let (mut loses, mut used_by, mut after) = (Vec::new(), Vec::new(), BTreeSet::new());
        if way_out == WayOut::DeleteAgain {
            let template = template(cloud, stack, short).await?;
            loses = data(&template, short, &resources);
            used_by = users(cloud, stacks, short).await?;
            after = template.after().into_iter().collect();
        }
        all.push(Stuck {
            stack: short.clone(),
            name: stack.name.clone(),
            status: status.to_string(),
            way_out,
            failed: failed(cloud, stack, &resources, way_out).await?,
            loses,
            used_by,
            after,
        });
    }
    Ok(all)
}

async fn template(cloud: &dyn Cloud, stack: &Stack, short: &str) -> Result<Template, Error> {
    let text = cloud.template(&stack.name).await?;
    let read = Template::read(&text);
    Ok(read.map_err(|source| TreeError::Template { stack: short.to_owned(), source })?)
}

/// Returns the last thing that was said of each resource that stands in the way: of a rollback those that could
/// not go back, of a deletion those that could not be deleted.
async fn failed(
    cloud: &dyn Cloud,
    stack: &Stack,
    resources: &[StackResource],
    way_out: WayOut,
) -> Result<Vec<Event>, Error> {
    let stands = if way_out == WayOut::DeleteAgain { "DELETE_FAILED" } else { "UPDATE_FAILED" };
    let failed = resources.iter().filter(|r| r.status.as_str() == stands);
    let now: BTreeSet<&String> = failed.map(|r| &r.id).collect();
    let mut last: BTreeMap<String, Event> = BTreeMap::new();
    for event in cloud.events(&stack.id, None).await? {
        if now.contains(&event.resource) && event.status.as_str() == stands && !event.is_cancelled()
        {
            last.entry(event.resource.clone()).or_insert(event);
        }
    }
    Ok(last.into_values().collect())
}

/// Returns the stacks that come after one, and are not being deleted themselves.
async fn users(cloud: &dyn Cloud, stacks: &[Stack], short: &str) -> Result<Vec<String>, Error> {
    let mut users = Vec::new();
    for stack in stacks {
        let gone = stack.status.is_empty_stack()
            || ["DELETE_FAILED", "ROLLBACK_COMPLETE"].contains(&stack.status.as_str());
        let Some(own) = stack.tags.get("kaws/stack").filter(|own| !gone && *own != short) else {
            continue;
        };
        if template(cloud, stack, own).await?.after().iter().any(|first| first == short) {
            users.push(own.clone());
        }
    }
    Ok(users)
}

/// Returns what holds data in a stack, and is not kept when it goes.
fn data(template: &Template, short: &str, resources: &[StackResource]) -> Vec<String> {
    let kept = |id: &String| template.resources.get(id).is_some_and(Resource::is_retained);
    let there = resources.iter().filter(|r| !r.status.is_deleted());
    let lost = there.filter(|r| HOLDS_DATA.contains(&r.kind.as_str()) && !kept(&r.id));
    lost.map(|r| format!("{short}/{}", r.id)).collect()
}

/// How to free stacks.
#[derive(Clone, Debug, Default)]
pub struct FreeOptions {
    /// Resources that stay as they are, by `stack/LogicalId`.
    pub leave: BTreeSet<String>,
    /// Whether to take over a lock whose holder is gone.
    pub take_over: bool,
    /// The role that CloudFormation works with.
    pub role: Option<String>,
}

/// Gets stacks out of where they are stuck, side by side.
///
/// # Errors
/// Whatever keeps it from being begun, one that cannot be freed among it; what goes wrong with one stack is in
/// what is returned.
pub async fn free(
    cloud: &dyn Cloud,
    facts: &ClusterFacts,
    all: &[Stuck],
    options: &FreeOptions,
    watcher: &dyn Watcher,
    operator: &Operator,
) -> Result<Ended, Error> {
    if !all.iter().all(Stuck::can_be_freed) {
        return Err(Error::Stuck(all.to_vec()));
    }
    let can: BTreeSet<String> = all.iter().flat_map(Stuck::can_be_left).collect();
    if let Some(name) = options.leave.difference(&can).next() {
        return Err(Error::NothingToLeave { name: name.clone(), can });
    }
    let (tree, nothing, none) = (Tree::empty(facts.clone()), Plan::empty(facts), BTreeMap::new());
    let stacks = Stacks {
        cloud,
        tree: &tree,
        plan: &nothing,
        watcher,
        locked: &none,
        role: options.role.as_deref(),
        keep_failed: false,
        outputs: Mutex::default(),
    };
    // The lock lies in the bucket of `state`: a state that is half deleted has none.
    let bucket = cloud.stacks(&facts.name).await?.iter().any(|s| {
        s.tags.get("kaws/stack").is_some_and(|short| short == STATE)
            && (s.status.is_updatable() || s.status.as_str().starts_with("UPDATE_"))
    });
    let lock = Lock::new(cloud, &facts.bucket, operator, options.take_over);
    if bucket {
        lock.take().await?;
    }
    let mut steps = Steps::default();
    for one in all {
        steps.add(&format!("stack:{}", one.stack));
    }
    // What is deleted goes before what it uses.
    for one in all {
        for producer in &one.after {
            steps.before(&format!("stack:{}", one.stack), &format!("stack:{producer}"));
        }
    }
    let guarded = lock.guard(watcher);
    let work = steps.run(8, &guarded, async |step: String| {
        let short = step.trim_start_matches("stack:");
        let one = all.iter().find(|s| s.stack == short).expect("the steps are made of them");
        stacks.free(one, &options.leave).await
    });
    let ended = lock.during(work).await;
    lock.give_back().await?;
    ended
}

impl Stacks<'_> {
    async fn free(&self, stuck: &Stuck, leave: &BTreeSet<String>) -> Result<String, Error> {
        let (short, name) = (&stuck.stack, &stuck.name);
        let leave: Vec<String> = leave
            .iter()
            .filter_map(|l| l.strip_prefix(&format!("{short}/")).map(str::to_owned))
            .collect();
        if stuck.way_out == WayOut::DeleteAgain {
            return self.remove(short, name, &leave).await;
        }
        let since = self.cloud.last_event(name).await?;
        match stuck.way_out {
            WayOut::RollBack => self.cloud.roll_back(name, self.role).await?,
            _ => self.cloud.continue_rollback(name, &leave, self.role).await?,
        }
        match self.follow(short, name, since.as_deref()).await? {
            Some(stack) if stack.status.is_updatable() => Ok("as it was before".to_owned()),
            Some(stack) => Err(self.failure(short, &stack, since.as_deref()).await?),
            None => {
                let cause = RootCause::of(short, "DELETE_COMPLETE", &[]);
                Err(Error::Stack(Box::new(cause)))
            }
        }
    }
}
