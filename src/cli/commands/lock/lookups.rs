//! What comes before anything is rendered: the rights that programs ask for, and what they look up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::write;
use crate::cli::arguments::LockArguments;
use crate::cli::commands::{Exit, asked, only_file, options, tell, unreadable};
use crate::cli::deploying::{CloudArguments, connect, fail};
use crate::cli::report::{say, say_findings};
use crate::cli::{Common, Output};
use crate::finding::{Finding, Findings};
use crate::load;
use crate::lock::{Answered, LockFile, LockedPlugin};
use crate::pipeline::{Setup, lookups};
use crate::plugin::{How, Instance, Question};
use crate::port::Cloud;
use crate::runtime::Rights;
use crate::web::Http;

/// Grants and asks what is open, and writes kaws.lock if anything has changed; returns the names of all lookups.
pub(super) async fn ask(
    common: &Common,
    arguments: &LockArguments,
    path: &Path,
) -> Result<Vec<String>, Exit> {
    let file = only_file(common)?;
    let outcome = load::load(&options(common, file), &crate::builtin::natives())
        .map_err(|error| unreadable(&error))?;
    let Some(setup) = outcome.value else {
        tell(common, &outcome.findings);
        return Err(Exit::Findings);
    };
    let mut findings = Findings::new();
    let questions = lookups(&setup).collect(&mut findings);
    stop(common, &mut findings)?;
    let old = setup.lock.file();
    let mut new = LockFile { kaws: env!("CARGO_PKG_VERSION").to_owned(), ..old.clone() };
    for instance in &setup.plugins {
        grant(common, arguments, instance, &setup, &mut new, &mut findings);
    }
    stop(common, &mut findings)?;
    let open: Vec<&Question> = questions.iter().filter(|q| is_open(q, &setup, arguments)).collect();
    let names: BTreeSet<&String> = questions.iter().map(|q| &q.name).collect();
    new.lookups.retain(|name, _| names.contains(name));
    let asked = Asked { common, cloud: &arguments.cloud, file, setup: &setup };
    new.lookups.extend(answers(&asked, &open, &mut findings).await?);
    let (before, after) = (crate::value::text_of(&value(old)), crate::value::text_of(&value(&new)));
    if before != after && (setup.lock.exists || !new.lookups.is_empty() || !new.plugins.is_empty())
    {
        write(path, &new)?;
    }
    stop(common, &mut findings)?;
    say_findings(&findings, true);
    Ok(questions.into_iter().map(|question| question.name).collect())
}

/// Whom to ask for, and with what.
pub(in crate::cli::commands) struct Asked<'a> {
    /// What every command takes.
    pub common: &'a Common,
    /// Which cloud.
    pub cloud: &'a CloudArguments,
    /// The cluster's file; what is beside the cluster lies in its folder.
    pub file: &'a Path,
    /// What was read.
    pub setup: &'a Setup,
}

impl Asked<'_> {
    pub(super) async fn connect(&self) -> Result<Box<dyn Cloud>, Exit> {
        let cloud = connect(self.cloud, &self.setup.config, self.file, BTreeMap::new());
        cloud.await.map_err(|error| fail(&error))
    }
}

/// Asks some questions, and shows what is answered.
pub(in crate::cli::commands) async fn answers(
    asked: &Asked<'_>,
    open: &[&Question],
    findings: &mut Findings,
) -> Result<BTreeMap<String, Answered>, Exit> {
    let in_cloud = open.iter().any(|question| matches!(question.how, How::Ssm(_)));
    let cloud = if in_cloud { Some(asked.connect().await?) } else { None };
    let mut all = BTreeMap::new();
    for question in open {
        match answer(asked, question, cloud.as_deref(), findings).await {
            Ok(answered) => {
                if asked.common.output == Output::Text {
                    let Answered { value, from } = &answered;
                    say(&format!("  {}\n    {value}\n    from {from}", question.name));
                }
                all.insert(question.name.clone(), answered);
            }
            Err(finding) => findings.push(*finding),
        }
    }
    Ok(all)
}

fn value(file: &LockFile) -> serde_json::Value {
    serde_json::to_value(file).expect("it has text keys")
}

fn stop(common: &Common, findings: &mut Findings) -> Result<(), Exit> {
    if findings.any_fatal() {
        tell(common, findings);
        return Err(Exit::Findings);
    }
    Ok(())
}

fn is_open(question: &Question, setup: &Setup, arguments: &LockArguments) -> bool {
    setup.lock.answer(&question.name, &question.from).is_none()
        || arguments.update.contains(&question.name)
}

/// Grants what a plugin asks for: named on the command line, or agreed to on the terminal.
fn grant(
    common: &Common,
    arguments: &LockArguments,
    instance: &Instance,
    setup: &Setup,
    new: &mut LockFile,
    findings: &mut Findings,
) {
    let (name, manifest) = (instance.name.as_str(), &instance.package.manifest);
    let rights = manifest.capabilities.rights();
    let missing = setup.lock.not_granted(name, &rights);
    if missing.is_empty() {
        return;
    }
    let list: String = missing.iter().map(|right| format!("\n  {right}")).collect();
    let named = arguments.grant.iter().any(|grant| grant == name);
    if !named {
        if common.output == Output::Text {
            say(&format!("{name} {} asks for:{list}", manifest.version));
        }
        let otherwise = format!("kaws lock --grant {name}");
        if asked("Grant it?", &otherwise).is_err() {
            let at = instance.package.node.get("capabilities").unwrap_or(&instance.package.node);
            let text =
                format!("{name} asks for rights that nobody granted: {}", missing.join(", "));
            let finding = Finding::fatal("lock/not-granted", text).at(at.key_origin());
            return findings.push(finding.help(format!("if it should have them: {otherwise}")));
        }
    }
    let locked = LockedPlugin {
        version: manifest.version.clone(),
        sha256: instance.package.hash().to_owned(),
        accepted: None,
        granted: Vec::new(),
        source: None,
    };
    new.plugins.entry(name.to_owned()).or_insert(locked).granted = rights;
}

async fn answer(
    asked: &Asked<'_>,
    question: &Question,
    cloud: Option<&dyn Cloud>,
    findings: &mut Findings,
) -> Result<Answered, Box<Finding>> {
    let Asked { common, setup, file, .. } = asked;
    let value = match &question.how {
        How::Exec(exec, request) => {
            let instance = setup
                .plugins
                .iter()
                .find(|instance| question.name.split('/').next() == Some(instance.name.as_str()));
            let (Some(runtime), Some(instance)) = (&common.programs, instance) else {
                let text = format!("{} cannot be asked: nothing here runs programs", question.name);
                return Err(Box::new(Finding::fatal("lock/failed", text).at(&question.origin)));
            };
            let capabilities = &instance.package.manifest.capabilities;
            let folder = load::folder_of(file);
            let beside = |file: &String| std::path::absolute(folder.join(file)).ok();
            let rights = Rights {
                ports: capabilities.ports().unwrap_or_default(),
                reads: capabilities.files.iter().filter_map(beside).collect(),
                env: capabilities.env.clone(),
                ..Rights::none()
            };
            let looked_up = runtime.look_up(&instance.package, exec, request, rights);
            let (value, notes) = looked_up.map_err(|failure| {
                let when = format!("the lookup {}", question.name);
                Box::new(failure.finding(&instance.package, &when).at(&question.origin))
            })?;
            findings.extend(notes.into_iter().map(|note| note.at(&question.origin)));
            value
        }
        how => crate::resolve::look_up(how, cloud, &Http::default()).await.map_err(|error| {
            let text = format!("{} was not answered", question.name);
            Box::new(
                Finding::fatal("lock/failed", text).at(&question.origin).note(error.to_string()),
            )
        })?,
    };
    Ok(Answered { value, from: question.from.clone() })
}
