//! The plan: what deploying a tree would do to every resource, and why.
//!
//! Only reads. Not here: how it is printed (`cli`), and the experiment that finds causes (`causes`).

mod compare;
mod detail;
mod risk;

pub use detail::Detail;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::addons::AddonChange;
use super::assets;
use super::error::Error;
use super::record::{Deployment, Record};
use super::reported::Reported;
use super::tree::{ClusterFacts, Tree};
use crate::cloudformation::{Action, Change, Fate, Template};
use crate::port::{Cloud, Cluster as _, DeprecatedApi, Drift, Drifted, Stack};

/// A difference of the input, and what it makes different.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// `A`, `B`…
    pub letter: String,
    /// Where it is written: `cluster.yaml:6`.
    pub place: String,
    /// What it is: a path of the config, `kaws.lock`, a plugin.
    pub what: String,
    /// Before, as it is shown.
    pub before: String,
    /// After.
    pub after: String,
    /// What it makes different, by `stack/LogicalId` and by path of a file.
    #[serde(skip)]
    pub touches: BTreeSet<String>,
}

/// What is done to a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackAction {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// It is deployed and no longer rendered, and stays until `--remove` names it.
    Leave,
    /// Nothing.
    None,
}

/// One stack in the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StackPlan {
    /// Its name in the cluster.
    pub stack: String,
    /// What is done.
    pub action: StackAction,
    /// What it waits for before it is known exactly: `network/SubnetPrivateA`.
    pub predicted: BTreeSet<String>,
    /// Its resources that change.
    pub changes: Vec<ResourcePlan>,
    /// The machines that are replaced.
    pub nodes: Option<Nodes>,
    /// Stacks that, as they are deployed, still use outputs that it drops: it drops them in a second step,
    /// after those stacks.
    pub drops_after: BTreeSet<String>,
    /// The state of a creation that failed, where what is left of it is deleted first.
    pub clears: Option<String>,
    /// Whether its protection against deletion is set or taken away.
    pub protect: Option<bool>,
    /// The state of a stack that somebody else is changing: what is planned is of before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
    /// What somebody changed by hand, where that was looked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<DriftPlan>,
    /// Outputs whose value may be another one afterwards, each with the letters of why.
    #[serde(skip)]
    pub unsure: BTreeMap<String, BTreeSet<String>>,
}

/// A resource that somebody changed by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftPlan {
    /// What differs.
    #[serde(flatten)]
    pub drifted: Drifted,
    /// The plugins that own it.
    pub owners: Vec<String>,
    /// What becomes of it.
    pub fate: DriftFate,
}

/// What becomes of what somebody changed by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftFate {
    /// It stays as it is.
    Stays,
    /// This plan changes the same setting.
    Overwritten,
    /// It is made what the template says.
    Reverted,
}

/// The machines of a stack that are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// How many.
    pub rolls: u64,
    /// How many there are.
    pub of: u64,
    /// How many at a time.
    pub batch: u64,
    /// Whether these are the least: a group that scales by itself may have more.
    pub at_least: bool,
    /// Whether kaws does it, once the stack is changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_kaws: bool,
}

/// One resource in the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePlan {
    /// What changes.
    #[serde(flatten)]
    pub change: Change,
    /// The plugins that own it.
    pub owners: Vec<String>,
    /// The letters of its causes.
    pub causes: BTreeSet<String>,
    /// Files on machines that change with it.
    pub details: Vec<Detail>,
    /// Whether it loses what it keeps.
    pub data_at_risk: bool,
}

/// The plan.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The cluster's name.
    pub cluster: String,
    /// Its region.
    pub region: String,
    /// Its account.
    pub account: String,
    /// `aws` or `local`.
    pub cloud: String,
    /// What it is compared with.
    pub base: Option<Base>,
    /// Why things change.
    pub causes: Vec<Cause>,
    /// Every stack, in the order of deployment; what is deleted comes last.
    pub stacks: Vec<StackPlan>,
    /// What controllers apply anew, or delete.
    pub addons: Vec<AddonChange>,
    /// Hooks that run where kaws runs, in their order.
    pub hooks: Vec<PlannedHook>,
    /// Bundles to upload.
    pub upload: Upload,
    /// APIs that workloads still ask for and that the new minor no longer has; none where the minor stays.
    pub removed_apis: RemovedApis,
    /// Secrets that machines will read and that are not set.
    pub missing_secrets: Vec<String>,
    /// The identity of what it does: of two plans with one digest either can be confirmed for the other.
    pub digest: String,
}

/// A hook that runs where kaws runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedHook {
    /// When: `before-update`.
    pub event: String,
    /// PLUGIN/NAME.
    pub name: String,
    /// Its line for the shell, its script or its program, as it is written.
    pub runs: String,
}

/// A former deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Base {
    /// Its number.
    pub number: u64,
    /// Its day.
    pub date: String,
    /// Its commit.
    pub commit: Option<String>,
}

/// What is uploaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    /// Node bundles.
    pub bundles: usize,
    /// Their compressed size in bytes.
    pub bytes: u64,
}

/// What is deployed, as far as the plan needs it.
#[derive(Debug, Default)]
pub struct Deployed {
    /// Stacks by their name in the cluster.
    pub stacks: BTreeMap<String, (Stack, Template)>,
    /// The states of those whose creation failed.
    pub never_came: BTreeMap<String, String>,
    /// The last complete deployment.
    pub last: Option<Deployment>,
    /// Keys of bundles in the bucket.
    pub bundles: Vec<String>,
    /// Names of secrets that are set.
    pub secrets: BTreeSet<String>,
    /// What somebody changed by hand, by stack, where that was looked for.
    pub drift: BTreeMap<String, Drift>,
}

/// Reads what is deployed.
///
/// # Errors
/// The cloud's.
pub async fn deployed(cloud: &dyn Cloud, tree: &Tree) -> Result<Deployed, Error> {
    let cluster = &tree.cluster;
    let (mut stacks, mut never_came) = (BTreeMap::new(), BTreeMap::new());
    let all = cloud.stacks(&cluster.name).await?;
    // What comes after them would be made of something half there.
    let stuck = super::stuck::stuck(cloud, &all).await?;
    if !stuck.is_empty() {
        return Err(Error::Stuck(stuck));
    }
    for stack in all {
        let Some(short) = stack.tags.get("kaws/stack").cloned() else { continue };
        if stack.status.is_empty_stack() {
            continue;
        }
        // A stack that never came to be is made anew, if it is still wanted.
        if stack.status.never_came() && tree.stacks.contains_key(&short) {
            never_came.insert(short, stack.status.to_string());
            continue;
        }
        let text = cloud.template(&stack.name).await?;
        let template = if text.is_empty() {
            Template::default()
        } else {
            Template::read(&text)
                .map_err(|source| super::TreeError::Template { stack: short.clone(), source })?
        };
        stacks.insert(short, (stack, template));
    }
    // Without the stack that holds the bucket there is nothing in it.
    if !stacks.contains_key(super::stacks::STATE) {
        return Ok(Deployed { stacks, never_came, ..Deployed::default() });
    }
    let last = super::record::recorded(cloud, &cluster.bucket).await?;
    let bundles = cloud.list(&cluster.bucket, "nodes/").await?;
    let secrets = super::secrets::list_secrets(cloud, &cluster.bucket).await?;
    Ok(Deployed { stacks, never_came, last, bundles, secrets, ..Deployed::default() })
}

/// What the cluster's workloads ask for that a new minor no longer has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedApis {
    /// The minor, where it is another than the one that is deployed.
    pub minor: Option<u64>,
    /// The APIs; nobody knows them where no controller has reported lately.
    pub asked_for: Option<Vec<DeprecatedApi>>,
}

/// Finds out what workloads still ask for and the new minor no longer has, as a controller reports it; `now` is in
/// seconds since 1970.
///
/// # Errors
/// The cloud's.
pub async fn removed_apis(
    cloud: &dyn Cloud,
    tree: &Tree,
    deployed: &Deployed,
    now: u64,
) -> Result<RemovedApis, Error> {
    let minor = |version: &str| semver::Version::parse(version).ok().map(|v| v.minor);
    let before = deployed.last.as_ref().and_then(Deployment::kubernetes).and_then(|v| minor(&v));
    let after = minor(&tree.cluster.kubernetes);
    let (Some(before), Some(after)) = (before, after) else { return Ok(RemovedApis::default()) };
    if after <= before {
        return Ok(RemovedApis::default());
    }
    let asked_for = match Reported::newest(cloud, &tree.cluster.bucket, now).await? {
        Some(cluster) => {
            let gone = |api: &DeprecatedApi| {
                api.removed
                    .rsplit('.')
                    .next()
                    .and_then(|m| m.parse::<u64>().ok())
                    .is_some_and(|m| m <= after)
            };
            let all = cluster.deprecated().await?;
            Some(all.into_iter().filter(gone).collect())
        }
        None => None,
    };
    Ok(RemovedApis { minor: Some(after), asked_for })
}

/// What the plan is made from, beside what is deployed.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// Owners of resources and files, as rendered.
    pub owners: &'a BTreeMap<String, Vec<String>>,
    /// Why things differ from the last deployment.
    pub causes: Vec<Cause>,
    /// Values of entries in kaws.lock: from the manifest, or made up by the local cloud.
    pub locked: BTreeMap<String, String>,
    /// Stacks to remove.
    pub remove: &'a BTreeSet<String>,
    /// Whether what somebody changed by hand is put back.
    pub revert_drift: bool,
}

/// Makes the plan.
///
/// # Errors
/// Templates that cannot be worked out; a stack to remove that is not there.
pub fn plan(cloud: &str, wanted: Wanted<'_>, deployed: &Deployed) -> Result<Plan, Error> {
    let tree = wanted.tree;
    one_minor(tree, deployed.last.as_ref())?;
    let mut stacks: Vec<StackPlan> = Vec::new();
    let mut unsure = compare::Unsure::new();
    for stack in tree.order() {
        let made = compare::stack(stack, &wanted, deployed, &unsure)?;
        unsure.insert(stack.short.clone(), made.unsure.clone());
        stacks.push(made);
    }
    for stack in &mut stacks {
        stack.drops_after = still_used(&stack.stack, &wanted, deployed)?;
    }
    let gone = deployed.stacks.keys().filter(|name| !tree.stacks.contains_key(*name));
    for name in gone.rev() {
        stacks.push(compare::leaving(name, &wanted, deployed));
    }
    if let Some(name) = wanted
        .remove
        .iter()
        .find(|n| tree.stacks.contains_key(*n) || !deployed.stacks.contains_key(*n))
    {
        return Err(Error::NothingToRemove(name.clone()));
    }
    let causes = used(wanted.causes, &mut stacks);
    let new = assets::missing_bundles(tree, &deployed.bundles);
    let upload = Upload { bundles: new.len(), bytes: assets::size(tree, &new) };
    let missing_secrets =
        tree.secrets.iter().filter(|s| !deployed.secrets.contains(*s)).cloned().collect();
    let addons = super::addons::changes(tree, deployed.last.as_ref());
    let mut plan = Plan {
        cluster: tree.cluster.name.clone(),
        region: tree.cluster.region.clone(),
        account: tree.cluster.account.clone(),
        cloud: cloud.to_owned(),
        base: deployed.last.as_ref().map(|last| base(&last.record)),
        causes,
        stacks,
        addons,
        hooks: Vec::new(),
        upload,
        removed_apis: RemovedApis::default(),
        missing_secrets,
        digest: String::new(),
    };
    plan.digest = digest(&plan, tree);
    Ok(plan)
}

/// Components of Kubernetes work with those of the minor before, and with no other older ones; what etcd
/// holds is not read by older ones at all.
fn one_minor(tree: &Tree, last: Option<&Deployment>) -> Result<(), Error> {
    let minor = |version: &str| version.split('.').nth(1).and_then(|m| m.parse::<u32>().ok());
    let Some(from) = last.and_then(Deployment::kubernetes) else { return Ok(()) };
    let to = tree.cluster.kubernetes.clone();
    match (minor(&from), minor(&to)) {
        (Some(before), Some(after)) if after > before + 1 || after < before => {
            Err(Error::SkipsMinor { from, to })
        }
        _ => Ok(()),
    }
}

/// The stacks that use an output which `producer` drops; one that is no longer rendered, and stays, would
/// be left with nothing.
fn still_used(
    producer: &str,
    wanted: &Wanted<'_>,
    deployed: &Deployed,
) -> Result<BTreeSet<String>, Error> {
    let Some((there, _)) = deployed.stacks.get(producer) else { return Ok(BTreeSet::new()) };
    let outputs = &wanted.tree.stacks[producer].template.outputs;
    let mut users = BTreeSet::new();
    for (output, value) in there.outputs.iter().filter(|(name, _)| !outputs.contains_key(*name)) {
        let using = deployed.stacks.iter().filter(|(name, (stack, _))| {
            *name != producer
                && !wanted.remove.contains(*name)
                && stack.parameters.values().any(|given| given == value)
        });
        for (consumer, _) in using {
            if !wanted.tree.stacks.contains_key(consumer) {
                return Err(Error::StillUsed {
                    producer: producer.to_owned(),
                    output: output.clone(),
                    consumer: consumer.clone(),
                });
            }
            users.insert(consumer.clone());
        }
    }
    Ok(users)
}

fn base(record: &Record) -> Base {
    let date = record.time.split('T').next().unwrap_or_default().to_owned();
    Base { number: record.number, date, commit: record.commit.clone() }
}

/// Keeps the causes that make a difference to what is deployed, and names them from `A` on.
fn used(causes: Vec<Cause>, stacks: &mut [StackPlan]) -> Vec<Cause> {
    let named: BTreeSet<String> = stacks
        .iter()
        .flat_map(|s| s.changes.iter().flat_map(|c| c.causes.iter().cloned()))
        .collect();
    let mut kept: Vec<Cause> = causes.into_iter().filter(|c| named.contains(&c.letter)).collect();
    let mut renamed = BTreeMap::new();
    for (at, cause) in kept.iter_mut().enumerate() {
        let letter = letter(at);
        renamed.insert(std::mem::replace(&mut cause.letter, letter.clone()), letter);
    }
    for change in stacks.iter_mut().flat_map(|s| s.changes.iter_mut()) {
        change.causes = change.causes.iter().filter_map(|old| renamed.get(old).cloned()).collect();
    }
    kept
}

/// Returns the letter of the cause at a position: `A` to `Z`, then `A1`…
#[must_use]
pub fn letter(at: usize) -> String {
    let sign = char::from(b'A' + u8::try_from(at % 26).unwrap_or(0));
    if at < 26 { sign.to_string() } else { format!("{sign}{}", at / 26) }
}

fn digest(plan: &Plan, tree: &Tree) -> String {
    let stacks: Vec<_> = plan
        .stacks
        .iter()
        .map(|s| {
            (
                &s.stack,
                s.action,
                s.protect,
                &s.drops_after,
                s.changes.iter().map(|c| &c.change).collect::<Vec<_>>(),
                s.drift
                    .iter()
                    .filter(|d| d.fate == DriftFate::Reverted)
                    .map(|d| &d.drifted.resource)
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let said =
        serde_json::to_vec(&(&plan.cloud, &plan.account, &plan.region, &tree.digest, stacks))
            .expect("it has text keys");
    crate::value::sha256(&said)
}

impl Plan {
    /// Returns a plan that does nothing.
    #[must_use]
    pub fn empty(cluster: &ClusterFacts) -> Self {
        Self {
            cluster: cluster.name.clone(),
            region: cluster.region.clone(),
            account: cluster.account.clone(),
            cloud: String::new(),
            base: None,
            causes: Vec::new(),
            stacks: Vec::new(),
            addons: Vec::new(),
            hooks: Vec::new(),
            upload: Upload::default(),
            removed_apis: RemovedApis::default(),
            missing_secrets: Vec::new(),
            digest: String::new(),
        }
    }

    /// Returns whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addons.is_empty()
            && self
                .stacks
                .iter()
                .all(|s| matches!(s.action, StackAction::None | StackAction::Leave))
    }

    /// Returns what a stack was planned to become.
    #[must_use]
    pub fn stack(&self, name: &str) -> Option<&StackPlan> {
        self.stacks.iter().find(|s| s.stack == name)
    }

    /// Returns what would lose data and is not among those that are allowed to, by `stack/LogicalId`.
    #[must_use]
    pub fn data_at_risk(&self, allowed: &BTreeSet<String>) -> Vec<String> {
        let all = self.stacks.iter().flat_map(|s| {
            s.changes
                .iter()
                .filter(|c| c.data_at_risk)
                .map(|c| format!("{}/{}", s.stack, c.change.id))
        });
        let stack = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
        all.filter(|name| !allowed.contains(name) && !allowed.contains(&stack(name))).collect()
    }

    /// Returns the first change that CloudFormation refuses.
    #[must_use]
    pub fn unsupported(&self) -> Option<Error> {
        self.stacks.iter().find_map(|s| {
            let found = s.changes.iter().find(|c| c.change.fate == Fate::Unsupported)?;
            let refused = found
                .change
                .properties
                .iter()
                .filter(|p| p.effect == crate::cloudformation::Effect::Unsupported);
            Some(Error::Unsupported {
                resource: format!("{}/{}", s.stack, found.change.id),
                properties: refused.map(|p| p.path.clone()).collect(),
            })
        })
    }

    /// Returns how many resources are added, changed in place, rolled, replaced and removed.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for change in
            self.stacks.iter().filter(|s| s.action != StackAction::Leave).flat_map(|s| &s.changes)
        {
            match (change.change.action, change.change.fate) {
                (Action::Add, _) => counts.add += 1,
                (Action::Remove, _) => counts.remove += 1,
                (Action::Modify, Fate::InPlace) => counts.in_place += 1,
                (Action::Modify, Fate::Rolls) => counts.roll += 1,
                (Action::Modify, Fate::Unsupported) => counts.refused += 1,
                (Action::Modify, _) => counts.replace += 1,
            }
        }
        counts
    }
}

/// How many resources are…
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Made.
    pub add: usize,
    /// Changed in place.
    pub in_place: usize,
    /// Changed so that nodes are replaced.
    pub roll: usize,
    /// Replaced.
    pub replace: usize,
    /// Not changed, because CloudFormation refuses.
    pub refused: usize,
    /// Removed.
    pub remove: usize,
}
