//! `up`: the steps of a deployment, from the plan that was confirmed to what is remembered of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::assets;
use super::error::Error;
use super::hold::{Holder, Lock};
use super::plan::{Deployed, Plan, StackAction};
use super::record::{self, Deployment, Record};
use super::requests::With;
use super::roll::{Gate, GroupRoll, Pace, Rolling, plan_roll};
use super::stacks::{STATE, Stacks};
use super::steps::{Ended, Steps};
use super::tree::Tree;
use super::watch::Watcher;
use crate::port::{Cloud, Cluster, Programs, Web};

/// Who deploys, and what time it is for them.
#[derive(Clone, Debug)]
pub struct Operator {
    /// This run and no other.
    pub id: String,
    /// `ana@laptop`.
    pub who: String,
    /// Where process numbers are counted, if that is known.
    pub machine: Option<String>,
    /// Their process.
    pub process: u32,
    /// Whether a process on their machine still runs.
    pub alive: fn(u32) -> bool,
    /// Seconds since 1970.
    pub clock: fn() -> u64,
    /// The same as text, in UTC.
    pub stamp: fn() -> String,
}

impl Operator {
    /// Returns what the lock says of them.
    #[must_use]
    pub fn holder(&self) -> Holder {
        Holder {
            id: self.id.clone(),
            who: self.who.clone(),
            machine: self.machine.clone(),
            process: self.process,
            since: (self.stamp)(),
            renewed: (self.clock)(),
        }
    }
}

/// How to deploy.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// How many steps go on at once.
    pub at_most: usize,
    /// The role that CloudFormation works with.
    pub role: Option<String>,
    /// Whether to take over a lock whose holder has not been heard of.
    pub take_over: bool,
    /// Whether a stack that fails stays as it is, to be looked at.
    pub keep_failed: bool,
    /// Whether machines of pools that kaws rolls are replaced.
    pub roll: bool,
}

/// What is deployed.
pub struct Up<'a> {
    /// The cloud.
    pub cloud: &'a dyn Cloud,
    /// The web, for steps that ask it.
    pub web: &'a dyn Web,
    /// The tree.
    pub tree: &'a Tree,
    /// `manifest.yaml`.
    pub manifest: &'a str,
    /// The plan that was confirmed.
    pub plan: &'a Plan,
    /// What was there when it was made.
    pub deployed: &'a Deployed,
    /// Values of entries in kaws.lock.
    pub locked: &'a BTreeMap<String, String>,
    /// What is remembered of this deployment, but for its number and its time.
    pub record: Record,
    /// Who is told how far things are.
    pub watcher: &'a dyn Watcher,
    /// Makes the plan anew, and returns its digest.
    pub again: Again<'a>,
    /// The cluster, once it runs.
    pub running: &'a dyn Running,
    /// What runs programs of plugins.
    pub programs: &'a dyn Programs,
}

/// A cluster that runs, or is about to.
#[async_trait]
pub trait Running: Gate {
    /// Returns its API server, if that answers.
    async fn api_server(&self) -> Result<Box<dyn Cluster>, Error>;
}

/// Something that makes the plan anew.
pub type Again<'a> =
    &'a (dyn Fn() -> futures_util::future::BoxFuture<'a, Result<String, Error>> + Sync);

/// Deploys.
///
/// # Errors
/// Whatever keeps the steps from being begun; what goes wrong in one is in what is returned.
pub async fn up(up: Up<'_>, operator: &Operator, options: &UpOptions) -> Result<Ended, Error> {
    let bucket = &up.tree.cluster.bucket;
    let stacks = Stacks {
        cloud: up.cloud,
        tree: up.tree,
        plan: up.plan,
        watcher: up.watcher,
        locked: up.locked,
        role: options.role.as_deref(),
        keep_failed: options.keep_failed,
        outputs: Mutex::new(
            up.deployed.stacks.iter().map(|(n, (s, _))| (n.clone(), s.outputs.clone())).collect(),
        ),
    };
    let mut steps = steps(up.tree, up.plan, up.deployed)?;
    if options.roll {
        rolls(&mut steps, up.tree);
    }
    let lock = Lock::new(up.cloud, bucket, operator, options.take_over);
    // The lock lies in the bucket: where that is not there yet, the step that makes it takes the lock.
    if up.deployed.stacks.contains_key(STATE) {
        lock.take().await?;
    }
    let watcher = lock.guard(up.watcher);
    let work = async {
        // Somebody may have deployed between the plan and the lock.
        let now = (up.again)().await?;
        if now != up.plan.digest {
            return Err(Error::Overtaken);
        }
        let ended = steps
            .run(options.at_most, &watcher, async |step: String| {
                let done = match step.strip_prefix("roll:") {
                    Some(short) => roll_pool(&up, &watcher, short).await?,
                    None => one(&up, &stacks, &step, (operator.clock)()).await?,
                };
                if step == format!("stack:{STATE}") {
                    lock.take().await?;
                }
                Ok(done)
            })
            .await?;
        if ended.failed.is_empty() && ended.not_run.is_empty() {
            stacks.close_policies().await?;
            remember(&up, operator).await?;
        }
        Ok(ended)
    };
    let ended = lock.during(work).await;
    lock.give_back().await?;
    ended
}

/// Deploys the stack that holds the bucket, and nothing else: what a secret needs that is set first.
///
/// # Errors
/// Whatever keeps the step from being begun.
pub async fn up_state(
    cloud: &dyn Cloud,
    tree: &Tree,
    plan: &Plan,
    role: Option<&str>,
    watcher: &dyn Watcher,
) -> Result<Ended, Error> {
    let none = BTreeMap::new();
    let outputs = Mutex::default();
    let stacks =
        Stacks { cloud, tree, plan, watcher, locked: &none, role, keep_failed: false, outputs };
    let mut steps = Steps::default();
    steps.add(&format!("stack:{STATE}"));
    steps.run(1, watcher, async |_: String| stacks.deploy(STATE).await).await
}

async fn one(up: &Up<'_>, stacks: &Stacks<'_>, step: &str, now: u64) -> Result<String, Error> {
    let outputs = || stacks.outputs.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(short) = step.strip_prefix("stack:") {
        return stacks.deploy(short).await;
    }
    if let Some(short) = step.strip_prefix("drop:") {
        return stacks.drop_rest(short).await;
    }
    if let Some(short) = step.strip_prefix("remove:") {
        let (stack, _) = &up.deployed.stacks[short];
        return stacks.remove(short, &stack.name, &[]).await;
    }
    match step {
        "assets" => {
            let all: Vec<_> = up.tree.stacks.values().filter(|s| s.short != STATE).collect();
            let changing: Vec<_> = all
                .into_iter()
                .filter(|s| up.plan.stack(&s.short).is_some_and(|p| p.action != StackAction::None))
                .collect();
            assets::upload(up.cloud, up.tree, &changing).await
        }
        "secrets" => {
            let set = super::secrets::list_secrets(up.cloud, &up.tree.cluster.bucket).await?;
            let missing: Vec<String> =
                up.tree.secrets.iter().filter(|s| !set.contains(*s)).cloned().collect();
            if missing.is_empty() {
                Ok("all are set".to_owned())
            } else {
                Err(Error::NoSecret(missing))
            }
        }
        "addons" => super::addons::publish(up.cloud, up.web, up.tree, &outputs()).await,
        "addons:outputs" => {
            super::addons::publish_outputs(up.cloud, up.tree, &outputs()).await?;
            Ok("outputs of all stacks written".to_owned())
        }
        "pki" => super::pki::mint_missing(up.cloud, up.tree, &outputs(), now).await,
        plugin => {
            let step = &up.tree.steps[plugin];
            let with =
                With { cloud: up.cloud, web: up.web, running: up.running, programs: up.programs };
            super::requests::run(with, plugin, step, &outputs()).await
        }
    }
}

/// Replaces the machines of a pool that CloudFormation does not roll.
async fn roll_pool(up: &Up<'_>, watcher: &dyn Watcher, short: &str) -> Result<String, Error> {
    if up.cloud.is_local() {
        return Ok("not run: the local cloud has no machines".to_owned());
    }
    let batch = up.tree.rolls.get(short).map_or(1, |batch| usize::try_from(*batch).unwrap_or(1));
    let groups = plan_roll(up.cloud, up.tree, &[short.to_owned()], true).await?;
    let outdated = groups.into_iter().find(|group| !group.todo.is_empty());
    let Some(group) = outdated else { return Ok("all machines are up to date".to_owned()) };
    let cluster = up.running.api_server().await?;
    let work = Rolling {
        cloud: up.cloud,
        cluster: &*cluster,
        tree: up.tree,
        watcher,
        gate: up.running,
        pace: Pace::default(),
        remembered: false,
    };
    work.group(&GroupRoll { batch, ..group }).await
}

/// Returns the graph: the state first, then what everything else fetches, then stacks side by side.
fn steps(tree: &Tree, plan: &Plan, deployed: &Deployed) -> Result<Steps, Error> {
    let mut steps = Steps::default();
    let changes = |name: &str| plan.stack(name).is_some_and(|p| p.action != StackAction::None);
    for name in tree.stacks.keys().filter(|n| changes(n)) {
        steps.add(&format!("stack:{name}"));
    }
    steps.add("assets");
    if !tree.secrets.is_empty() {
        steps.add("secrets");
    }
    let mints = tree.pki != crate::pki::Requests::default();
    if mints {
        steps.add("pki");
    }
    if !tree.addons.is_empty() || deployed.last.is_some() {
        steps.add("addons");
        steps.add("addons:outputs");
        steps.before("addons", "addons:outputs");
    }
    for name in tree.steps.keys() {
        steps.add(name);
    }
    steps.before(&format!("stack:{STATE}"), "assets");
    steps.before(&format!("stack:{STATE}"), "secrets");
    steps.before(&format!("stack:{STATE}"), "pki");
    steps.before(&format!("stack:{STATE}"), "addons");
    steps.before("addons", "stack:control-plane");
    for name in tree.stacks.keys() {
        steps.before(&format!("stack:{name}"), "addons:outputs");
    }
    // Names of load balancers stand in certificates.
    for first in tree.pki.stacks() {
        steps.before(&format!("stack:{first}"), "pki");
    }
    for (name, stack) in &tree.stacks {
        let step = format!("stack:{name}");
        if name != STATE {
            steps.before("assets", &step);
        }
        for first in &stack.after {
            steps.before(&format!("stack:{first}"), &step);
        }
        // Machines read secrets when they start.
        if stack.text.contains("KAWS_BUNDLE=") {
            steps.before("secrets", &step);
            steps.before("pki", &step);
        }
    }
    for stack in plan.stacks.iter().filter(|s| !s.drops_after.is_empty()) {
        let second = format!("drop:{}", stack.stack);
        steps.add(&second);
        steps.before(&format!("stack:{}", stack.stack), &second);
        for user in &stack.drops_after {
            steps.before(&format!("stack:{user}"), &second);
        }
    }
    removals(&mut steps, plan, deployed);
    for (name, step) in &tree.steps {
        for first in &step.after {
            steps.before(first, name);
        }
        for later in &step.before {
            steps.before(name, later);
        }
    }
    steps.order()?;
    Ok(steps)
}

/// Pools that kaws rolls come last, one after the other: checks hold only once no stack is being changed.
fn rolls(steps: &mut Steps, tree: &Tree) {
    let mut before: Option<String> = None;
    for short in tree.rolls.keys() {
        let step = format!("roll:{short}");
        steps.add(&step);
        for stack in tree.stacks.keys() {
            steps.before(&format!("stack:{stack}"), &step);
        }
        if let Some(before) = before {
            steps.before(&before, &step);
        }
        before = Some(step);
    }
}

/// What is removed goes after those that use it, and before what it uses.
fn removals(steps: &mut Steps, plan: &Plan, deployed: &Deployed) {
    let leaving: BTreeSet<&str> = plan
        .stacks
        .iter()
        .filter(|s| s.action == StackAction::Delete)
        .map(|s| s.stack.as_str())
        .collect();
    for name in &leaving {
        steps.add(&format!("remove:{name}"));
    }
    for (consumer, (_, template)) in &deployed.stacks {
        for producer in template.after() {
            let (stays, goes) =
                (leaving.contains(consumer.as_str()), leaving.contains(producer.as_str()));
            match (stays, goes) {
                (true, true) => {
                    steps.before(&format!("remove:{consumer}"), &format!("remove:{producer}"));
                }
                (false, true) => {
                    steps.before(&format!("stack:{consumer}"), &format!("remove:{producer}"));
                }
                (true, false) => {
                    steps.before(&format!("remove:{consumer}"), &format!("stack:{producer}"));
                }
                (false, false) => {}
            }
        }
    }
}

/// Stores what is now deployed, as one archive.
async fn remember(up: &Up<'_>, operator: &Operator) -> Result<(), Error> {
    let last = up.deployed.last.as_ref().map(|last| &last.record);
    let mut files = up.tree.files.clone();
    files.insert("manifest.yaml".to_owned(), Arc::from(up.manifest.as_bytes()));
    let record = Record {
        number: last.map_or(0, |r| r.number) + 1,
        time: (operator.stamp)(),
        tree: up.tree.digest.clone(),
        ..up.record.clone()
    };
    record::store(up.cloud, &up.tree.cluster.bucket, &Deployment { record, files }).await
}
