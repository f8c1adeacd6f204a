//! One command's dealings with a cloud: the cluster as rendered, and the cloud it belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cloud::{CloudArguments, connect};
use super::events::{events_of_up, planned};
use super::refusal::fail;
use crate::causes::{causes, owners, plugin_records};
use crate::cli::Common;
use crate::cli::commands::{options, rendered};
use crate::cli::exit::Exit;
use crate::cli::report::say_findings;
use crate::deploy::plan::{Deployed, Plan, Wanted, deployed, plan, removed_apis};
use crate::deploy::{Error, Operator, Record, Source, Tree, drifts};
use crate::finding::{Finding, Findings};
use crate::port::{Cloud, Identity};
use crate::run::Run;
use crate::runtime::Runtime;

/// A cluster and its cloud.
#[derive(Debug)]
pub(in crate::cli) struct Session {
    pub run: Run,
    pub tree: Tree,
    pub cloud: Box<dyn Cloud>,
    pub owners: BTreeMap<String, Vec<String>>,
    /// Values of entries in kaws.lock.
    pub locked: BTreeMap<String, String>,
    file: PathBuf,
    common: Common,
}

/// What becomes of what somebody changed by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Drifting {
    /// Nobody looks for it.
    Unseen,
    /// It is shown.
    Shown,
    /// It is put back.
    Reverted,
}

/// What a command wants of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Purpose {
    /// To deploy, or to say what that would do.
    Deploy,
    /// Something else, for which no pin is needed.
    Other,
}

impl Session {
    /// Renders the cluster and connects to its cloud, which is asked nothing but whom it takes us for.
    pub(in crate::cli) async fn open(
        common: &Common,
        file: &Path,
        arguments: &CloudArguments,
        faults: BTreeMap<String, String>,
        purpose: Purpose,
    ) -> Result<Self, Exit> {
        // What is deployed on AWS must be in kaws.lock, whatever is fetched; what is deleted need not.
        let pinned = purpose == Purpose::Deploy && !arguments.is_local();
        let locked_too = Common { locked: common.locked || pinned, ..common.clone() };
        let run = rendered(&locked_too)?;
        let tree = tree(&run).map_err(|error| fail(&error))?;
        let cloud = connect(arguments, &run.setup.config, file, faults).await;
        let cloud = cloud.map_err(|error| fail(&error))?;
        if purpose == Purpose::Deploy {
            check_lock(&run, &*cloud)?;
        }
        let identity = cloud.identity().await.map_err(|error| fail(&error.into()))?;
        check_account(&tree, &identity)?;
        let locked = match purpose {
            Purpose::Deploy => locked(&run, &tree, &*cloud).await?,
            Purpose::Other => BTreeMap::new(),
        };
        let owners = owners(&run);
        Ok(Self { run, tree, cloud, owners, locked, file: file.to_owned(), common: locked_too })
    }

    /// Reads what is deployed and makes the plan.
    pub(in crate::cli) async fn plan(
        &self,
        remove: &BTreeSet<String>,
        drifting: Drifting,
    ) -> Result<(Plan, Deployed), Exit> {
        let mut there = deployed(&*self.cloud, &self.tree).await.map_err(|error| fail(&error))?;
        if drifting != Drifting::Unseen {
            there.drift = drifts(&*self.cloud, there.stacks.values().map(|(s, _)| s)).await;
        }
        let options = options(&self.common, &self.file);
        let wanted = Wanted {
            tree: &self.tree,
            owners: &self.owners,
            causes: causes(&options, &self.run, &self.tree, &there, &self.locked),
            locked: self.locked.clone(),
            remove,
            revert_drift: drifting == Drifting::Reverted,
        };
        let mut made = plan(self.cloud.name(), wanted, &there).map_err(|error| fail(&error))?;
        let removed = removed_apis(&*self.cloud, &self.tree, &there, super::clock()).await;
        made.removed_apis = removed.map_err(|error| fail(&error))?;
        if !made.is_empty() {
            let events = events_of_up(there.last.is_none()).concat();
            made.hooks = planned(&self.run, &events);
        }
        Ok((made, there))
    }

    /// Returns what runs programs.
    pub(super) fn programs(&self) -> Option<&Arc<Runtime>> {
        self.common.programs.as_ref()
    }

    /// Returns the folder of the cluster's file.
    pub(super) fn folder(&self) -> PathBuf {
        super::events::folder_of(&self.file)
    }

    /// Makes the plan anew, without its causes, and returns its digest.
    pub(in crate::cli) async fn digest(
        &self,
        remove: &BTreeSet<String>,
        before: &Deployed,
        drifting: Drifting,
    ) -> Result<String, Error> {
        let mut there = deployed(&*self.cloud, &self.tree).await?;
        // What was changed by hand is looked for once: it takes minutes.
        there.drift = before.drift.clone();
        let wanted = Wanted {
            tree: &self.tree,
            owners: &self.owners,
            causes: Vec::new(),
            locked: self.locked.clone(),
            remove,
            revert_drift: drifting == Drifting::Reverted,
        };
        Ok(plan(self.cloud.name(), wanted, &there)?.digest)
    }

    /// Returns what is remembered of this deployment.
    pub(in crate::cli) fn record(&self) -> Record {
        Record {
            commit: commit(&self.file),
            kaws: env!("CARGO_PKG_VERSION").to_owned(),
            config: self.run.setup.node.to_value(),
            plugins: plugin_records(&self.run),
            owners: self.owners.clone(),
            ..Record::default()
        }
    }
}

/// Returns the tree of what was rendered, without going through files.
fn tree(run: &Run) -> Result<Tree, Error> {
    let artifacts = &run.rendered.artifacts;
    let files = artifacts.iter().map(|(p, a)| (p.clone(), Arc::clone(&a.bytes))).collect();
    Ok(Tree::read(&run.manifest, files)?)
}

fn check_account(tree: &Tree, identity: &Identity) -> Result<(), Exit> {
    if identity.account == tree.cluster.account {
        return Ok(());
    }
    Err(fail(&Error::Account {
        wanted: tree.cluster.account.clone(),
        found: identity.account.clone(),
    }))
}

/// Values of what stacks take from kaws.lock. On the local cloud it makes up what is missing; what it made
/// up never reaches AWS.
async fn locked(
    run: &Run,
    tree: &Tree,
    cloud: &dyn Cloud,
) -> Result<BTreeMap<String, String>, Exit> {
    let mut values = BTreeMap::new();
    let parameters = tree.stacks.values().flat_map(|s| s.parameters.values());
    for parameter in parameters {
        let Source::Lock(name) = &parameter.source else { continue };
        let value = match run.setup.lock.pin(name, None) {
            Some(pin) => Some(pin.value.clone()),
            None => cloud.parameter(name).await.map_err(|error| fail(&error.into()))?,
        };
        values.extend(value.map(|value| (name.clone(), value)));
    }
    Ok(values)
}

/// Entries of kaws.lock that the local cloud made up are no entries on AWS.
fn check_lock(run: &Run, cloud: &dyn Cloud) -> Result<(), Exit> {
    let pins = run.setup.lock.file().pins.iter();
    let made_up: Findings = pins
        .filter(|(_, pin)| !cloud.is_local() && pin.from.starts_with("local:"))
        .map(|(name, pin)| {
            Finding::fatal("lock/local", format!("the local cloud made up {name} in kaws.lock"))
                .note(format!("{} from {}", pin.value, pin.from))
                .help("kaws lock asks AWS for it")
        })
        .collect();
    if made_up.is_empty() {
        return Ok(());
    }
    say_findings(&made_up, true);
    Err(Exit::Findings)
}

/// The commit that the cluster's folder is at, if it is in git; with `+` if files differ from it.
#[expect(clippy::disallowed_methods, reason = "git knows the commit")]
fn commit(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let ask = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(arguments)
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let hash = ask(&["rev-parse", "--short", "HEAD"]).filter(|h| !h.is_empty())?;
    let clean = ask(&["status", "--porcelain", "--", "."]).is_some_and(|s| s.is_empty());
    Some(if clean { hash } else { format!("{hash}+") })
}

/// Returns the runtime that waits for the cloud.
pub(in crate::cli) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("the system gives threads")
}

/// Returns who deploys.
#[expect(clippy::disallowed_methods, reason = "the lock names whoever holds it")]
pub(in crate::cli) fn operator() -> Operator {
    let name = |key: &str| std::env::var(key).ok().filter(|v| !v.is_empty());
    let user = name("USER").or_else(|| name("LOGNAME")).unwrap_or_else(|| "somebody".to_owned());
    let host = name("HOSTNAME")
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok().map(|t| t.trim().to_owned()));
    let host = host.unwrap_or_else(|| "a machine".to_owned());
    let machine = machine();
    let seed =
        format!("{user}@{host} {machine:?} {} {:?}", std::process::id(), super::nanoseconds());
    Operator {
        id: crate::value::sha256(seed.as_bytes()),
        machine,
        who: format!("{user}@{host}"),
        process: std::process::id(),
        alive,
        clock: super::clock,
        stamp: super::stamp,
    }
}

/// Where this process's number is counted: a machine since it started, and the container in it.
#[expect(clippy::disallowed_methods, reason = "only the system knows")]
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), space.display()))
}

/// Whether a process of this machine still runs.
fn alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}
