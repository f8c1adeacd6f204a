//! Runs plugins that are programs: JSON on their standard input, JSON on their standard output, and no more of this
//! machine than they need.
//!
//! Each call starts kaws once more, as the supervisor of the program ([`supervise`]): it has the time, the limits and
//! the sandbox, and ends all that the program leaves behind. Not here: what is said to and fro (`plugin::contract`).

mod cache;
mod call;
mod failure;
mod find;
mod folder;
mod leak;
#[cfg(target_os = "linux")]
mod sandbox;
pub mod supervise;

pub use call::{Call, Ran, Rights};
pub use failure::Failure;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::finding::{Finding, Findings, Outcome};
use crate::model::Model;
use crate::origin::Origin;
use crate::plugin::contract::Response;
use crate::plugin::program::{Exec, platform};
use crate::plugin::{
    Artifacts, Context, Contribution, Package, Plugin, Rendering, ask, own_parts, take,
};
use folder::Folder;

/// What programs are run with: of this machine, as the command line found it.
#[derive(Clone, Debug)]
pub struct Host {
    /// The program that supervises: kaws itself.
    pub supervisor: PathBuf,
    /// Where programs are looked for.
    pub path: Vec<PathBuf>,
    /// The user's home, which programs do not see.
    pub home: Option<PathBuf>,
    /// Where answers are kept; nowhere without it.
    pub cache: Option<PathBuf>,
}

/// Runs programs.
#[derive(Debug)]
pub struct Runtime {
    host: Host,
    folders: Mutex<BTreeMap<String, Arc<Folder>>>,
}

impl Runtime {
    /// Returns what runs programs on `host`.
    #[must_use]
    pub fn new(host: Host) -> Arc<Self> {
        Arc::new(Self { host, folders: Mutex::new(BTreeMap::new()) })
    }

    /// Takes the copies of plugins' folders away.
    pub fn close(&self) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns a private copy of a plugin's folder, just as it was read and hashed: what is run is what was checked.
    fn folder(&self, package: &Package) -> Result<Arc<Folder>, Failure> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(package.hash()) {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(Folder::write(package)?);
        folders.insert(package.hash().to_owned(), Arc::clone(&folder));
        Ok(folder)
    }
}

/// The program of one stage of a plugin.
#[derive(Debug)]
pub struct Program {
    /// What runs it; nothing where kaws is used as a library that runs no programs.
    pub runtime: Option<Arc<Runtime>>,
    /// The program.
    pub exec: Exec,
    /// The place that names it.
    pub origin: Origin,
}

impl Plugin for Program {
    fn waits(&self) -> bool {
        true
    }

    fn initialise(&self, cx: &Context<'_>, draft: &Model) -> Outcome<Contribution> {
        let mut outcome =
            self.asked(cx, "initialise", draft, &Artifacts::new()).map(|made| made.contribution);
        let own = own_parts(cx).collect(&mut outcome.findings);
        outcome.value.parts.extend(own);
        outcome
    }

    fn render(&self, cx: &Context<'_>, model: &Model, made: &Artifacts) -> Outcome<Rendering> {
        self.asked(cx, "render", model, made)
    }
}

impl Program {
    fn asked(
        &self,
        cx: &Context<'_>,
        stage: &'static str,
        model: &Model,
        made: &Artifacts,
    ) -> Outcome<Rendering> {
        match self.answer(cx, stage, model, made) {
            Ok((response, notes)) => {
                let mut outcome = take(response, stage, cx, model, &self.origin);
                outcome.findings.extend(notes);
                let by = |finding: Finding| match finding.plugin {
                    None if finding.origin.is_some() => finding.by(&cx.me.name),
                    _ => finding,
                };
                outcome.findings = outcome.findings.into_iter().map(by).collect();
                outcome
            }
            Err(failure) => {
                let finding = failure.finding(&cx.me.package, stage).at(&self.origin);
                Outcome { value: Rendering::default(), findings: finding.by(&cx.me.name).into() }
            }
        }
    }

    /// Returns the answer: one that is kept, or what the program says now.
    fn answer(
        &self,
        cx: &Context<'_>,
        stage: &'static str,
        model: &Model,
        made: &Artifacts,
    ) -> Result<(Response, Findings), Box<Failure>> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Box::new(Failure::NoRuntime))?;
        let package = &cx.me.package;
        let mut request = ask(cx, stage);
        let told = [
            Some(cx.view.model(model, cx)),
            Some(cx.view.plugins(cx)),
            if stage == "render" { cx.view.artifacts(made, cx) } else { None },
        ];
        let kept = runtime.host.cache.as_ref().map(|dir| {
            let hashes = told.iter().flatten().map(|t| t.sha256.as_str());
            cache::Entry::of(dir, package, &request, hashes)
        });
        if let Some(response) = kept.as_ref().and_then(cache::Entry::read) {
            return Ok((response, Findings::new()));
        }
        let [model, plugins, artifacts] = &told;
        request.model = model.as_ref().map(|t| &*t.json);
        request.plugins = plugins.as_ref().map(|t| &*t.json);
        request.artifacts = artifacts.as_ref().map(|t| &*t.json);
        let input = serde_json::to_vec(&request).map_err(|e| Box::new(Failure::Io(e.into())))?;
        let call = Call {
            package,
            command: self.exec.command(&platform()).map_err(|e| Box::new(Failure::Missing(e)))?,
            input: &input,
            environment: environment(cx, stage),
            rights: Rights::none(),
        };
        let ran = runtime.run(&call)?;
        let response = ran.response()?;
        if let Some(entry) = kept {
            entry.write(&ran.answer);
        }
        let mut notes = Findings::new();
        notes.extend(ran.notes().into_iter().map(|note| note.at(&self.origin).by(&cx.me.name)));
        notes.extend(degraded(&ran.without));
        Ok((response, notes))
    }
}

/// Says which parts of the sandbox this machine does not have: the same for all programs, and so said once.
fn degraded(without: &[String]) -> Option<Finding> {
    let text = format!("programs of plugins run here without {}", without.join(" and "));
    let help = "look at what they do before you run them here, or run them on Linux 5.13 or later";
    (!without.is_empty()).then(|| Finding::warning("exec/sandbox", text).help(help))
}

/// Returns the environment variables that every program is given.
fn environment(cx: &Context<'_>, stage: &str) -> BTreeMap<String, String> {
    let network = &cx.config.network;
    let pairs = |pairs: Vec<(String, String)>| {
        let all: Vec<String> = pairs.into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        all.join(";")
    };
    let pools = cx.config.node_pools.iter().map(|(name, pool)| (name.clone(), pool.size.min.to_string()));
    [
        ("KAWS_COMMAND", "EXEC".to_owned()),
        ("KAWS_STAGE", stage.to_owned()),
        ("KAWS_CLUSTER", cx.config.name.to_string()),
        ("KAWS_CONTROLLERS", pairs(vec![("count".to_owned(), cx.config.control_plane.count.to_string())])),
        ("KAWS_WORKERS", pairs(pools.collect())),
        ("KAWS_NETWORK", pairs(vec![
            ("vpc".to_owned(), network.vpc.cidr.clone()),
            ("pods".to_owned(), network.pod_cidr.clone()),
            ("services".to_owned(), network.service_cidr.clone()),
        ])),
        ("KAWS_PLUGIN", cx.me.name.to_string()),
        ("KAWS_VERSION", env!("CARGO_PKG_VERSION").to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
