//! `destroy`: consumers first, the network last; the state stays, and so does what holds data, unless named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde::Serialize;

use super::error::Error;
use super::hold::Lock;
use super::plan::Plan;
use super::stacks::{STATE, Stacks};
use super::steps::{Ended, Steps};
use super::tree::{ClusterFacts, Tree};
use super::up::Operator;
use super::watch::Watcher;
use crate::cloudformation::{HOLDS_DATA, Resource, Template};
use crate::port::{Cloud, Leftover, Stack};

/// Types that can be removed after their stack kept them.
const REMOVABLE: [&str; 3] = ["AWS::EC2::Volume", "AWS::KMS::Key", "AWS::S3::Bucket"];

/// Something that is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Kept {
    /// `etcd/Etcd0Data`.
    pub resource: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id in the cloud.
    pub physical: String,
}

/// What destroying would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DestroyPlan {
    /// The cluster.
    pub cluster: String,
    /// Stacks that are deleted, in order, each with how many resources it has.
    pub stacks: Vec<(String, usize)>,
    /// What is kept.
    pub kept: Vec<Kept>,
    /// What is removed although it holds data, because it was named.
    pub lost: Vec<Kept>,
    /// What would be lost, and was not named: then nothing is done.
    pub refused: Vec<String>,
    /// Whether leftovers that hold data go, too: `leftovers` was named.
    #[serde(skip)]
    volumes_too: bool,
    /// What the cluster made outside its stacks.
    pub leftovers: Vec<Leftover>,
    /// Its resources, by `stack/LogicalId`.
    #[serde(skip)]
    resources: BTreeSet<String>,
    /// What each stack comes after.
    #[serde(skip)]
    edges: BTreeMap<String, BTreeSet<String>>,
    /// Their names in the cloud.
    #[serde(skip)]
    names: BTreeMap<String, String>,
    /// Whether there is a bucket, and in it the lock.
    #[serde(skip)]
    bucket: bool,
}

/// How to destroy.
#[derive(Clone, Debug, Default)]
pub struct DestroyOptions {
    /// Whether to remove what the cluster made outside its stacks.
    pub remove_leftovers: bool,
    /// Whether to take over a lock whose holder is gone.
    pub take_over: bool,
    /// The role that CloudFormation works with.
    pub role: Option<String>,
    /// Resources that stay if they cannot be deleted, by `stack/LogicalId`.
    pub leave: BTreeSet<String>,
}

impl DestroyPlan {
    /// Returns whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty() && self.leftovers.is_empty() && self.lost.is_empty()
    }
}

/// Looks at what is there; `allowed` names what may be lost: stacks, or `stack/LogicalId`.
///
/// # Errors
/// The cloud's.
pub async fn plan_destroy(
    cloud: &dyn Cloud,
    cluster: &str,
    allowed: &BTreeSet<String>,
) -> Result<DestroyPlan, Error> {
    let volumes_too = allowed.contains("leftovers");
    let mut plan =
        DestroyPlan { cluster: cluster.to_owned(), volumes_too, ..DestroyPlan::default() };
    let mut own = BTreeSet::new();
    let mut counts = BTreeMap::new();
    for stack in cloud.stacks(cluster).await? {
        let Some(short) = stack.tags.get("kaws/stack").cloned() else { continue };
        let empty = stack.status.is_empty_stack();
        plan.bucket |= short == STATE && !stack.status.never_came() && !empty;
        let template = if empty { Template::default() } else { template(cloud, &stack).await? };
        let resources = if empty { Vec::new() } else { cloud.resources(&stack.name).await? };
        own.extend(resources.iter().map(|r| r.physical.clone()).filter(|id| !id.is_empty()));
        counts.insert(short.clone(), resources.len());
        plan.resources.extend(resources.iter().map(|r| format!("{short}/{}", r.id)));
        for resource in resources.iter().filter(|r| HOLDS_DATA.contains(&r.kind.as_str())) {
            let name = format!("{short}/{}", resource.id);
            let retained = template.resources.get(&resource.id).is_some_and(Resource::is_retained);
            let kept = Kept {
                kind: resource.kind.clone(),
                physical: resource.physical.clone(),
                resource: name.clone(),
            };
            let named = allowed.contains(&name) || allowed.contains(&short);
            let removable = !retained || REMOVABLE.contains(&resource.kind.as_str());
            if named && removable {
                plan.lost.push(kept);
            } else if retained || short == STATE {
                plan.kept.push(kept);
            } else {
                plan.refused.push(name);
            }
        }
        plan.edges.insert(short.clone(), template.after().into_iter().collect());
        plan.names.insert(short, stack.name);
    }
    // The state is the last thing anybody needs of a cluster that is gone: it goes only by its own name.
    if !allowed.contains(STATE) {
        plan.names.remove(STATE);
        plan.lost.retain(|k| !k.resource.starts_with("state/"));
    }
    let order = order(&plan)?;
    plan.stacks = order.into_iter().map(|name| (name.clone(), counts[&name])).collect();
    let all = cloud.leftovers(cluster).await?;
    plan.leftovers = all
        .into_iter()
        .filter(|l| !own.iter().any(|id| *id == l.arn || l.arn.rsplit('/').next() == Some(id)))
        .collect();
    Ok(plan)
}

async fn template(cloud: &dyn Cloud, stack: &Stack) -> Result<Template, Error> {
    let text = cloud.template(&stack.name).await?;
    Ok(Template::read(&text).unwrap_or_default())
}

fn order(plan: &DestroyPlan) -> Result<Vec<String>, Error> {
    let steps = steps(plan)?;
    let order = steps.order()?;
    Ok(order.into_iter().filter_map(|s| s.strip_prefix("remove:").map(str::to_owned)).collect())
}

/// Consumers before what they use; what the cluster itself made goes before the network it lies in.
fn steps(plan: &DestroyPlan) -> Result<Steps, Error> {
    let mut steps = Steps::default();
    for name in plan.names.keys() {
        steps.add(&format!("remove:{name}"));
    }
    steps.add("leftovers");
    for (consumer, producers) in &plan.edges {
        for producer in producers {
            steps.before(&format!("remove:{consumer}"), &format!("remove:{producer}"));
        }
        let uses_network = producers.contains("network");
        if uses_network {
            steps.before(&format!("remove:{consumer}"), "leftovers");
        }
    }
    steps.before("leftovers", "remove:network");
    for name in plan.names.keys().filter(|n| *n != STATE) {
        steps.before(&format!("remove:{name}"), &format!("remove:{STATE}"));
    }
    steps.order()?;
    Ok(steps)
}

/// Destroys what the plan names.
///
/// # Errors
/// Whatever keeps the steps from being begun.
pub async fn destroy(
    cloud: &dyn Cloud,
    facts: &ClusterFacts,
    plan: &DestroyPlan,
    options: &DestroyOptions,
    watcher: &dyn Watcher,
    operator: &Operator,
) -> Result<Ended, Error> {
    if !plan.refused.is_empty() {
        return Err(Error::DataAtRisk(plan.refused.clone()));
    }
    if let Some(name) = options.leave.difference(&plan.resources).next() {
        return Err(Error::NothingToLeave { name: name.clone(), can: BTreeSet::new() });
    }
    let (role, remove_leftovers) = (options.role.as_deref(), options.remove_leftovers);
    let lock = Lock::new(cloud, &facts.bucket, operator, options.take_over);
    if plan.bucket {
        lock.take().await?;
    }
    let (tree, none) = (Tree::empty(facts.clone()), BTreeMap::new());
    let nothing = Plan::empty(facts);
    let stacks = Stacks {
        cloud,
        tree: &tree,
        plan: &nothing,
        watcher,
        locked: &none,
        role,
        keep_failed: false,
        outputs: Mutex::default(),
    };
    let steps = steps(plan)?;
    let guarded = lock.guard(watcher);
    let work = steps.run(8, &guarded, async |step: String| {
        if step == "leftovers" {
            return leftovers(cloud, plan, remove_leftovers).await;
        }
        let short = step.trim_start_matches("remove:");
        one(&stacks, facts, plan, short, &options.leave).await
    });
    let ended = lock.during(work).await;
    let complete = ended.as_ref().is_ok_and(|e| e.failed.is_empty() && e.not_run.is_empty());
    // With the state its bucket is gone, and the lock in it.
    let gone = complete && plan.names.contains_key(STATE);
    if plan.bucket && !gone {
        if complete {
            super::record::forget(cloud, &facts.bucket).await?;
        }
        lock.give_back().await?;
    }
    ended
}

/// Removes a stack, and of what its policies kept that which was named.
async fn one(
    stacks: &Stacks<'_>,
    facts: &ClusterFacts,
    plan: &DestroyPlan,
    short: &str,
    leave: &BTreeSet<String>,
) -> Result<String, Error> {
    let of_stack = |name: &String| name.strip_prefix(short)?.strip_prefix('/').map(str::to_owned);
    let leave: Vec<String> = leave.iter().filter_map(of_stack).collect();
    let done = stacks.remove(short, &plan.names[short], &leave).await?;
    let own = plan.lost.iter().filter(|k| k.resource.split('/').next() == Some(short));
    for kept in own {
        remove_data(stacks.cloud, facts, kept).await?;
    }
    Ok(done)
}

async fn leftovers(cloud: &dyn Cloud, plan: &DestroyPlan, remove: bool) -> Result<String, Error> {
    if plan.leftovers.is_empty() {
        return Ok("none".to_owned());
    }
    let in_the_way = plan.leftovers.iter().any(|l| !l.data);
    if !remove && !in_the_way {
        return Ok("kept".to_owned());
    }
    if !remove {
        return Err(Error::Leftovers(plan.leftovers.iter().map(|l| l.arn.clone()).collect()));
    }
    let (mut removed, mut kept) = (0, 0);
    for leftover in &plan.leftovers {
        // Volumes hold data, and are no reason for a network to stay.
        if leftover.data && !plan.volumes_too {
            kept += 1;
            continue;
        }
        cloud.remove(leftover).await?;
        removed += 1;
    }
    Ok(if kept == 0 {
        format!("{removed} removed")
    } else {
        format!("{removed} removed, {kept} kept")
    })
}

/// Removes what its stack's policy kept, because it was named.
async fn remove_data(cloud: &dyn Cloud, facts: &ClusterFacts, kept: &Kept) -> Result<(), Error> {
    let arn = match kept.kind.as_str() {
        "AWS::S3::Bucket" => format!("arn:{}:s3:::{}", facts.partition, kept.physical),
        "AWS::KMS::Key" => format!(
            "arn:{}:kms:{}:{}:key/{}",
            facts.partition, facts.region, facts.account, kept.physical
        ),
        "AWS::EC2::Volume" => format!(
            "arn:{}:ec2:{}:{}:volume/{}",
            facts.partition, facts.region, facts.account, kept.physical
        ),
        _ => return Ok(()),
    };
    let leftover = Leftover { kind: kept.kind.clone(), arn, data: true };
    match cloud.remove(&leftover).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
