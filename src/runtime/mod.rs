//! Runs plugins that are programs: JSON on their standard input, JSON on their standard output, and no more of this
//! machine than they need.
//!
//! Each call has a process of its own, the supervisor of the program ([`supervise`]): it has the time, the limits and the
//! sandbox, and ends all that the program leaves behind. Not here: what is said to and fro (`plugin::contract`).

mod cache;
mod call;
mod callable;
mod enter;
mod failure;
mod find;
mod folder;
mod hooks;
mod leak;
#[cfg(target_os = "linux")]
mod sandbox;
mod spare;
pub mod supervise;

pub use call::{Call, Ran, Rights};
pub use callable::Callable;
pub use failure::Failure;
pub use hooks::Runs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::finding::{Finding, Findings, Outcome};
use crate::model::Model;
use crate::name::platform;
use crate::origin::{Origin, SourceFile};
use crate::plugin::contract::Response;
use crate::plugin::program::{Command, Exec, Word, of_stage};
use crate::plugin::{
    Artifacts, Context, Contribution, Files, Home, Package, Plugin, Rendering, answers, ask,
    own_parts, take,
};
use folder::{Folder, Places};
use spare::Spare;

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
    /// The user's environment, of which programs see what was granted.
    pub environment: BTreeMap<String, String>,
}

/// Runs programs.
#[derive(Debug)]
pub struct Runtime {
    host: Host,
    folders: Mutex<BTreeMap<String, Arc<Folder>>>,
    places: Mutex<Option<Arc<Places>>>,
    spare: Spare,
    record: Option<Mutex<Vec<Recorded>>>,
}

/// A program's answer in a stage, and all that it was an answer to.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The plugin's name in its cluster.
    pub plugin: String,
    /// The stage.
    pub stage: &'static str,
    /// What it was asked.
    pub request: Vec<u8>,
    /// What it answered.
    pub answer: Vec<u8>,
    package: Arc<Package>,
    command: Command,
    environment: BTreeMap<String, String>,
}

impl Runtime {
    /// Returns what runs programs on `host`.
    #[must_use]
    pub fn new(host: Host) -> Arc<Self> {
        Arc::new(Self {
            host,
            folders: Mutex::default(),
            places: Mutex::default(),
            spare: Spare::default(),
            record: None,
        })
    }

    /// Returns the same, which writes down what programs say, and asks each time.
    #[must_use]
    pub fn recording(self: &Arc<Self>) -> Arc<Self> {
        let host = Host { cache: None, ..self.host.clone() };
        let record = Some(Mutex::new(Vec::new()));
        Arc::new(Self {
            host,
            folders: Mutex::default(),
            places: Mutex::default(),
            spare: Spare::default(),
            record,
        })
    }

    /// Returns what a plugin's program has said so far, each time it was asked, in the order of the stages.
    #[must_use]
    pub fn recorded(&self, plugin: &str) -> Vec<Recorded> {
        let Some(record) = &self.record else { return Vec::new() };
        let all = record.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|call| call.plugin == plugin).cloned().collect()
    }

    /// Asks a program what it looks up, with the rights that were granted.
    ///
    /// # Errors
    /// As [`Runtime::run`]; and an answer without a value.
    pub fn look_up(
        &self,
        package: &Package,
        exec: &Exec,
        request: &[u8],
        rights: Rights,
    ) -> Result<(Value, Findings), Box<Failure>> {
        let command = exec.command(&platform()).map_err(|why| Box::new(Failure::Missing(why)))?;
        let told: Value = serde_json::from_slice(request).unwrap_or_default();
        let cluster = told.get("cluster").unwrap_or(&Value::Null);
        let mut environment = environment(cluster, package.name.as_str(), "");
        environment.remove("KAWS_STAGE");
        environment.extend(self.granted_environment(&rights));
        let ran = self.run(&Call { package, command, input: request, environment, rights })?;
        let mut notes = ran.notes();
        notes.extend(degraded(&ran.without));
        let value = ran.response()?.value.ok_or_else(|| {
            let (what, begins) = ("it has no `value`".to_owned(), String::new());
            Box::new(Failure::Answer { what, begins, says: Vec::new() })
        })?;
        Ok((value, notes))
    }

    /// Asks a program what it is: it answers its manifest. It is asked with `metadata` as its only argument, and with
    /// `KAWS_COMMAND=INFO`; `files` are all it sees.
    ///
    /// # Errors
    /// As [`Runtime::run`].
    pub fn info(&self, program: &str, files: Files) -> Result<Vec<u8>, Box<Failure>> {
        let text = format!(
            "{{apiVersion: kaws/v1, name: {program}, version: 0.0.0, description: says what it is}}"
        );
        let file = SourceFile::new("plugin.yaml", text);
        let none = |_| Box::new(Failure::Missing("it has no name".to_owned()));
        let node = crate::value::read(&file).map_err(none)?;
        let package = Package::read(node, Home::User(String::new()), files).map_err(none)?;
        let command = Command {
            program: Word::Own(program.to_owned()),
            arguments: vec!["metadata".to_owned()],
        };
        let environment = [("KAWS_COMMAND", "INFO"), ("KAWS_VERSION", env!("CARGO_PKG_VERSION"))];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let call = Call {
            package: &package,
            command,
            input: b"",
            environment: environment.into(),
            rights: Rights::none(),
        };
        let ran = self.run(&call)?;
        if ran.without.is_empty() {
            return Ok(ran.answer);
        }
        let why =
            format!("nobody knows it yet, and there is no {} here", ran.without.join(" and "));
        Err(Box::new(Failure::Missing(why)))
    }

    /// Asks the program of a stage what stands in a file: a request that was kept.
    ///
    /// # Errors
    /// As [`Runtime::run`]; and a request that is about no stage that the plugin has a program for.
    pub fn ask(&self, package: &Arc<Package>, request: &[u8]) -> Result<Ran, Box<Failure>> {
        let missing = |why: String| Box::new(Failure::Missing(why));
        let told: Value = serde_json::from_slice(request)
            .map_err(|e| missing(format!("the request is no JSON: {e}")))?;
        let word =
            |pointer: &str| told.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let stage = word("/stage");
        let Some(exec) = of_stage(&package.manifest, stage) else {
            return Err(missing(format!(
                "{} has no program for the stage `{stage}`",
                package.name
            )));
        };
        let command = exec.and_then(|exec| exec.command(&platform())).map_err(missing)?;
        let cluster = told.get("cluster").unwrap_or(&Value::Null);
        let environment = environment(cluster, word("/plugin/name"), stage);
        self.run(&Call { package, command, input: request, environment, rights: Rights::none() })
    }

    /// Asks a program once more, something else or elsewhere.
    ///
    /// # Errors
    /// As [`Runtime::run`].
    pub fn ask_again(
        &self,
        call: &Recorded,
        request: &[u8],
        environment: BTreeMap<String, String>,
    ) -> Result<Ran, Box<Failure>> {
        let mut all = call.environment.clone();
        all.extend(environment);
        self.run(&Call {
            package: &call.package,
            command: call.command.clone(),
            input: request,
            environment: all,
            rights: Rights::none(),
        })
    }

    /// Takes the copies of plugins' folders away, the folder of calls, and the supervisor that waits for one.
    pub fn close(&self) {
        self.spare.close();
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.places.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns where calls have their folders.
    fn places(&self) -> std::io::Result<Arc<Places>> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = &*places {
            return Ok(Arc::clone(places));
        }
        Ok(Arc::clone(places.insert(Arc::new(Places::new()?))))
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
        let lookups = answers(cx);
        if lookups.findings.any_fatal() {
            return Outcome { value: Rendering::default(), findings: lookups.findings };
        }
        match self.answer(cx, stage, lookups.value, (model, made)) {
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
        lookups: BTreeMap<String, Value>,
        (model, made): (&Model, &Artifacts),
    ) -> Result<(Response, Findings), Box<Failure>> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Box::new(Failure::NoRuntime))?;
        let package = &cx.me.package;
        let mut request = ask(cx, stage);
        request.lookups = lookups;
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
        let environment = environment(&request.cluster, &request.plugin.name, stage);
        let call = Call {
            package,
            command: self.exec.command(&platform()).map_err(|e| Box::new(Failure::Missing(e)))?,
            input: &input,
            environment: environment.clone(),
            rights: Rights::none(),
        };
        let ran = runtime.run(&call);
        if let Some(record) = &runtime.record {
            let answer = ran.as_ref().map(|ran| ran.answer.clone()).unwrap_or_default();
            record.lock().unwrap_or_else(PoisonError::into_inner).push(Recorded {
                plugin: cx.me.name.to_string(),
                stage,
                request: input.clone(),
                answer,
                package: Arc::clone(package),
                command: call.command.clone(),
                environment,
            });
        }
        let ran = ran?;
        let response = ran.response()?;
        // What there was to say would not be said the next time.
        if let Some(entry) = kept.filter(|_| ran.left == 0 && ran.without.is_empty()) {
            entry.write(&ran.answer);
        }
        let mut notes = Findings::new();
        notes.extend(ran.notes().into_iter().map(|note| note.at(&self.origin).by(&cx.me.name)));
        notes.extend(degraded(&ran.without));
        Ok((response, notes))
    }
}

/// Says which parts of the sandbox this machine does not have: the same for all programs, and so said once.
#[must_use]
pub fn degraded(without: &[String]) -> Option<Finding> {
    let text = format!("programs of plugins run here without {}", without.join(" and "));
    let help = "look at what they do before you run them here, or run them on Linux 5.13 or later";
    (!without.is_empty()).then(|| Finding::warning("exec/sandbox", text).help(help))
}

/// Returns the environment variables that tell of the cluster; all of them stand in the request, too.
#[must_use]
pub fn environment(cluster: &Value, plugin: &str, stage: &str) -> BTreeMap<String, String> {
    let text = |pointer: &str| {
        let value = cluster.pointer(pointer).cloned().unwrap_or_default();
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    let pools = cluster.pointer("/nodePools").and_then(Value::as_object);
    let workers = pools.into_iter().flatten().map(|(name, pool)| {
        format!("{name}={}", pool.pointer("/size/min").cloned().unwrap_or_default())
    });
    let network = [
        ("vpc", "/network/vpc/cidr"),
        ("pods", "/network/podCIDR"),
        ("services", "/network/serviceCIDR"),
    ];
    let network = network.map(|(name, pointer)| format!("{name}={}", text(pointer)));
    let all = [
        ("KAWS_CLUSTER", text("/name")),
        ("KAWS_COMMAND", "EXEC".to_owned()),
        ("KAWS_CONTROLLERS", format!("count={}", text("/controlPlane/count"))),
        ("KAWS_NETWORK", network.join(";")),
        ("KAWS_PLUGIN", plugin.to_owned()),
        ("KAWS_STAGE", stage.to_owned()),
        ("KAWS_VERSION", env!("CARGO_PKG_VERSION").to_owned()),
        ("KAWS_WORKERS", workers.collect::<Vec<_>>().join(";")),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
