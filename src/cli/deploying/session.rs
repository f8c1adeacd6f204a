//! One command's dealings with a cloud: the cluster as rendered, and the cloud it belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cloud::{CloudArguments, connect};
use super::failure::say_root_cause;
use crate::causes::{causes, owners, plugin_records};
use crate::cli::Common;
use crate::cli::commands::{options, rendered};
use crate::cli::exit::Exit;
use crate::cli::report::{say_error, say_findings, say_line};
use crate::deploy::plan::{Deployed, Plan, Wanted, deployed, plan};
use crate::deploy::{Error, Operator, Record, Source, Tree, WayOut};
use crate::finding::{Finding, Findings};
use crate::port::{Cloud, Event, Identity};
use crate::run::Run;

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
    ) -> Result<(Plan, Deployed), Exit> {
        let there = deployed(&*self.cloud, &self.tree).await.map_err(|error| fail(&error))?;
        let options = options(&self.common, &self.file);
        let wanted = Wanted {
            tree: &self.tree,
            owners: &self.owners,
            causes: causes(&options, &self.run, &self.tree, &there, &self.locked),
            locked: self.locked.clone(),
            remove,
        };
        let made = plan(self.cloud.name(), wanted, &there).map_err(|error| fail(&error))?;
        Ok((made, there))
    }

    /// Makes the plan anew, without its causes, and returns its digest.
    pub(in crate::cli) async fn digest(&self, remove: &BTreeSet<String>) -> Result<String, Error> {
        let there = deployed(&*self.cloud, &self.tree).await?;
        let wanted = Wanted {
            tree: &self.tree,
            owners: &self.owners,
            causes: Vec::new(),
            locked: self.locked.clone(),
            remove,
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

/// Says why the command stopped and what to do, and returns how it ends.
pub(in crate::cli) fn fail(error: &Error) -> Exit {
    if let Error::Stack(cause) = error {
        say_root_cause(cause, &[]);
        return Exit::Aws;
    }
    let code = match error {
        Error::Account { .. } => "deploy/account",
        Error::Region { .. } => "deploy/region",
        Error::Held { .. } => "deploy/held",
        Error::Invalid { .. } => "deploy/invalid-template",
        Error::MoreThanPlan { .. } => "deploy/more-than-plan",
        Error::OtherPlan { .. } => "deploy/other-plan",
        Error::DataAtRisk(_) => "deploy/data-at-risk",
        Error::NoSecret(_) => "deploy/no-secret",
        Error::Unsupported { .. } => "deploy/unsupported",
        Error::SkipsMinor { .. } => "deploy/skips-minor",
        Error::StillUsed { .. } => "deploy/still-used",
        Error::NothingToRemove(_) => "deploy/nothing-to-remove",
        Error::Leftovers(_) => "deploy/leftovers",
        Error::NoValue { .. } => "deploy/no-value",
        Error::Stuck(_) => "deploy/stack-state",
        Error::NothingToLeave { .. } => "deploy/nothing-to-leave",
        Error::Overtaken => "deploy/overtaken",
        Error::LostLock => "deploy/lost-lock",
        Error::Circle(_) => "deploy/step-order",
        _ => "",
    };
    if code.is_empty() {
        say_error(&error.to_string());
        for line in advice(error) {
            say_line(&format!("  {line}"));
        }
        return match error {
            Error::Interrupted => Exit::Interrupted,
            Error::Tree(_) => Exit::Files,
            _ => Exit::Aws,
        };
    }
    let mut finding = Finding::fatal(code, error.to_string());
    for line in notes(error) {
        finding = finding.note(line);
    }
    for line in advice(error) {
        finding = finding.help(line);
    }
    say_findings(&finding.into(), true);
    Exit::Findings
}

fn notes(error: &Error) -> Vec<String> {
    match error {
        Error::MoreThanPlan { more, .. } => more.clone(),
        Error::Invalid { faults, .. } => {
            faults.iter().map(|f| format!("{}: {}\n{}", f.resource, f.reason, f.path)).collect()
        }
        Error::Unsupported { properties, .. } => {
            vec![format!("it cannot change {}", properties.join(", "))]
        }
        Error::Leftovers(all) => all.clone(),
        Error::Stuck(all) => {
            let events = all.iter().flat_map(|stuck| stuck.failed.iter().map(move |e| (stuck, e)));
            let why = |e: &Event| e.reason.clone().unwrap_or_else(|| e.status.to_string());
            let used = all.iter().filter(|s| !s.used_by.is_empty());
            events
                .map(|(s, e)| format!("{}/{}: {}", s.stack, e.resource, why(e)))
                .chain(used.map(|s| format!("{} is used by {}", s.stack, s.used_by.join(", "))))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn advice(error: &Error) -> Vec<String> {
    let one = |text: String| vec![text];
    match error {
        Error::Account { wanted, .. } => {
            one(format!("use a profile of account {wanted}: kaws … --profile NAME"))
        }
        Error::Region { wanted, .. } => one(format!("set AWS_REGION to {wanted}, or unset it")),
        Error::Held { stale: true, .. } => one(
            "their process has ended, or has not been heard of for two minutes; if they are gone: --take-over"
                .to_owned(),
        ),
        Error::Held { .. } => one("wait until they are done".to_owned()),
        Error::Invalid { .. } => {
            one("put right what it says, and render and deploy again".to_owned())
        }
        Error::MoreThanPlan { .. } => {
            one("nothing of this stack was changed; look again: kaws plan".to_owned())
        }
        Error::OtherPlan { .. } => one("look at what it is now: kaws plan --save FILE".to_owned()),
        Error::DataAtRisk(all) => {
            all.iter().map(|name| format!("to lose it: --allow-data-loss {name}")).collect()
        }
        Error::NoSecret(all) => all.iter().map(|name| format!("kaws secret set {name}")).collect(),
        Error::Unsupported { .. } => one(
            "put the setting back; what must be made anew needs another name, and its data moved"
                .to_owned(),
        ),
        Error::SkipsMinor { .. } => one(
            "deploy the minors between first; a minor is taken back by restoring etcd in a cluster of its own".to_owned(),
        ),
        Error::NotMinted(_) => one("kaws up mints what is missing".to_owned()),
        Error::StillUsed { consumer, .. } => {
            one(format!("it is no longer rendered: kaws up --remove {consumer}"))
        }
        Error::Stuck(all) if all.iter().any(|stuck| stuck.way_out == WayOut::ByHand) => {
            one("bring it out of this state in CloudFormation, then run this again".to_owned())
        }
        Error::Stuck(all) if all.iter().any(|stuck| !stuck.used_by.is_empty()) => one(
            "CloudFormation can only delete it, and kaws deletes nothing that others live on: kaws destroy deletes all of it, or delete what uses it first"
                .to_owned(),
        ),
        Error::Stuck(_) => one(
            "put right what it says; kaws up then gets it out first, and plans what is left to do"
                .to_owned(),
        ),
        Error::NothingToLeave { can, .. } if can.is_empty() => {
            one("run it without, or name what kaws said could not be rolled back or deleted".to_owned())
        }
        Error::NothingToLeave { can, .. } => {
            can.iter().map(|name| format!("what does: --leave {name}")).collect()
        }
        Error::Overtaken => one("look at what there is to do now: kaws plan".to_owned()),
        Error::LostLock => one("see who deploys, then run kaws up again".to_owned()),
        Error::NothingToRemove(_) => one("kaws plan lists what can be removed".to_owned()),
        Error::Leftovers(_) => one("kaws destroy --remove-leftovers removes them too".to_owned()),
        Error::NoValue { source_name, .. } if !source_name.contains('.') => {
            one("kaws lock asks AWS for it".to_owned())
        }
        Error::Cloud(error) => match error.kind {
            crate::port::ErrorKind::Credentials => {
                one("name a profile: --profile NAME, or set AWS_PROFILE".to_owned())
            }
            crate::port::ErrorKind::Denied => {
                one("the credentials need the right to do this".to_owned())
            }
            crate::port::ErrorKind::Unavailable => {
                one("run the command again: it goes on from where it stopped".to_owned())
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
