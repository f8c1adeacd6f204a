//! `kaws lock`.

pub(super) mod lookups;
pub(super) mod scripts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures_util::StreamExt as _;
use serde_json::json;

use super::{Exit, only_file, rendered};
use crate::causes::plugin_records;
use crate::cli::deploying::{connect, fail, runtime};
use crate::cli::report::{say, say_error, say_findings};
use crate::cli::{Common, LockArguments, Output};
use crate::finding::{Finding, Findings};
use crate::lock::{LockFile, LockedPlugin, Pinned};
use crate::pipeline::{PinNeed, collect_pins};
use crate::port::CloudError;
use crate::run::Run;
use crate::web::Http;

/// How many publishers are asked at once.
const AT_ONCE: usize = 8;

/// Resolves what has no entry, or what is named.
pub(super) fn run(common: &Common, arguments: &LockArguments) -> Exit {
    runtime().block_on(lock(common, arguments)).into()
}

async fn lock(common: &Common, arguments: &LockArguments) -> Result<Exit, Exit> {
    let file = only_file(common)?;
    let path = file.parent().unwrap_or(Path::new("")).join("kaws.lock");
    // Programs cannot be asked before what they look up is known, and that not before it is granted.
    let mut asked = lookups::ask(common, arguments, &path).await?;
    asked.extend(scripts::fetch(common, arguments, &path).await?);
    let run = rendered(common)?;
    let needs = collect_pins(&run.setup, &run.rendered.model);
    let config = &run.setup.config;
    unknown(&arguments.update, &needs, &asked)?;
    let cloud =
        connect(&arguments.cloud, config, file, BTreeMap::new()).await.map_err(|e| fail(&e))?;
    let old = run.setup.lock.file();
    let open: Vec<&PinNeed> =
        needs.iter().filter(|n| wanted(n, &run, arguments, cloud.is_local())).collect();
    let web = Http::default();
    let answers = futures_util::stream::iter(open.iter().map(|need| {
        let (cloud, web) = (&*cloud, &web);
        async move { (*need, crate::resolve::resolve(need, cloud, web).await) }
    }));
    let answers: Vec<_> = answers.buffered(AT_ONCE).collect().await;
    let (mut pins, mut findings) = (BTreeMap::new(), Findings::new());
    // Entries that nothing needs any more go.
    for need in &needs {
        pins.extend(old.pins.get(&need.name).map(|p| (need.name.clone(), p.clone())));
    }
    let mut changed = Vec::new();
    for (need, answer) in answers {
        match answer {
            Ok(pin) => {
                let before = pins.insert(need.name.clone(), pin.clone());
                changed.extend((before.as_ref() != Some(&pin)).then(|| (need.name.clone(), pin)));
            }
            Err(error) => findings.push(unresolved(need, &error)),
        }
    }
    let lookups = old.lookups.clone();
    let kaws = env!("CARGO_PKG_VERSION").to_owned();
    let scripts = old.scripts.clone();
    let locked = LockFile { kaws, pins, lookups, scripts, plugins: plugins(&run) };
    write(&path, &locked)?;
    tell(common, &path, &changed, &locked, &findings);
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Findings })
}

/// What has no entry yet, or is named by `--update`; what the local cloud made up is asked for on AWS.
fn wanted(need: &PinNeed, run: &Run, arguments: &LockArguments, local: bool) -> bool {
    let pin = run.setup.lock.pin(&need.name, Some(&need.from));
    let made_up = pin.is_some_and(|p| p.from.starts_with("local:"));
    pin.is_none() || arguments.update.contains(&need.name) || (made_up && !local)
}

fn unknown(update: &[String], needs: &[PinNeed], lookups: &[String]) -> Result<(), Exit> {
    let names = needs.iter().map(|n| n.name.as_str()).chain(lookups.iter().map(String::as_str));
    let names: BTreeSet<&str> = names.collect();
    let Some(name) = update.iter().find(|n| !names.contains(n.as_str())) else { return Ok(()) };
    say_error(&format!("this cluster fetches nothing called {name}"));
    if let Some(near) = crate::name::did_you_mean(name, names.iter().copied()) {
        say_error(&format!("did you mean {near}?"));
    }
    Err(Exit::Findings)
}

fn unresolved(need: &PinNeed, error: &CloudError) -> Finding {
    let finding = Finding::fatal("lock/failed", format!("{} cannot be resolved", need.name))
        .note(error.to_string());
    match &need.origin {
        Some(origin) => finding.at(origin),
        None => finding,
    }
}

/// Plugins that are not kaws's own: users' and contrib ones.
fn plugins(run: &Run) -> BTreeMap<String, LockedPlugin> {
    let records = plugin_records(run);
    // What was installed stays as it was installed.
    let locked = &run.setup.lock.file().plugins;
    let installed = locked.iter().filter(|(_, plugin)| plugin.source.is_some());
    let mut all: BTreeMap<_, _> = installed.map(|(n, p)| (n.clone(), p.clone())).collect();
    let rest = run.setup.plugins.iter().filter(|i| !all.contains_key(i.name.as_str()));
    for instance in rest.collect::<Vec<_>>() {
        let source = instance.package.node.origin.file().name.clone();
        let Some(record) = records.get(instance.name.as_str()) else { continue };
        if source.starts_with("builtin:") {
            continue;
        }
        let rights = instance.package.manifest.capabilities.rights();
        let accepted = source.starts_with("contrib:").then(|| "contrib".to_owned());
        let locked = LockedPlugin {
            version: record.version.clone(),
            sha256: record.sha256.clone(),
            accepted,
            granted: run.setup.lock.granted(instance.name.as_str(), &rights),
            source: None,
        };
        all.insert(instance.name.to_string(), locked);
    }
    all
}

#[expect(clippy::disallowed_methods, reason = "the command that writes kaws.lock")]
pub(super) fn write(path: &Path, file: &LockFile) -> Result<(), Exit> {
    let value = serde_json::to_value(file).expect("it has text keys");
    let text = format!(
        "# Written by kaws; commit it. What comes from outside this folder, rendering takes from here alone.\n{}",
        crate::value::text_of(&value)
    );
    let mut aside = path.as_os_str().to_owned();
    aside.push(".kaws-aside");
    let put = std::fs::write(&aside, text).and_then(|()| std::fs::rename(&aside, path));
    put.map_err(|error| {
        say_error(&format!("cannot write {}: {error}", path.display()));
        Exit::Files
    })
}

fn tell(
    common: &Common,
    path: &Path,
    changed: &[(String, Pinned)],
    file: &LockFile,
    findings: &Findings,
) {
    if common.output == Output::Json {
        let rows: Vec<_> = changed
            .iter()
            .map(|(n, p)| json!({"name": n, "value": p.value, "from": p.from}))
            .collect();
        let findings = crate::cli::report::findings_json(findings);
        say(&json!({"file": path, "pins": file.pins.len(), "changed": rows, "findings": findings})
            .to_string());
        return;
    }
    say_findings(findings, true);
    for (name, pin) in changed {
        say(&format!("  {name}\n    {}\n    from {}", pin.value, pin.from));
    }
    let counts = (changed.len(), file.pins.len(), findings.counts().0);
    say(&format!(
        "{}: {} written, {} in all, {} unresolved",
        path.display(),
        counts.0,
        counts.1,
        counts.2
    ));
}
