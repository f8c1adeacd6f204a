//! The scripts of hooks that come from elsewhere: their texts go into kaws.lock, where they are reviewed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::lookups::Asked;
use super::write;
use crate::cli::arguments::LockArguments;
use crate::cli::commands::{Exit, only_file, options, tell, unreadable};
use crate::cli::report::{say, say_findings};
use crate::cli::{Common, Output};
use crate::finding::{Finding, Findings};
use crate::install::{self, Fetcher, RELEASES};
use crate::lock::{LockFile, Script};
use crate::pipeline::{ScriptNeed, Setup};
use crate::plugin::Home;
use crate::web::Http;

/// Fetches what is open, and writes kaws.lock if anything has changed; returns the names of all scripts.
pub(super) async fn fetch(
    common: &Common,
    arguments: &LockArguments,
    path: &Path,
) -> Result<Vec<String>, Exit> {
    let file = only_file(common)?;
    let outcome = crate::load::load(&options(common, file), &crate::builtin::natives())
        .map_err(|error| unreadable(&error))?;
    let mut findings = outcome.findings;
    let model = outcome
        .value
        .map(|setup| (crate::pipeline::initialise(&setup).collect(&mut findings), setup));
    let Some((model, setup)) = model.filter(|_| !findings.any_fatal()) else {
        tell(common, &findings);
        return Err(Exit::Findings);
    };
    let needs = crate::pipeline::scripts(&model);
    let old = setup.lock.file();
    let is_open = |need: &&ScriptNeed| {
        let there = setup.lock.script(&need.name, &need.from, need.sha256.as_deref());
        there.is_err() || arguments.update.contains(&need.name)
    };
    let open: Vec<&ScriptNeed> = needs.iter().filter(is_open).collect();
    let names: BTreeSet<&String> = needs.iter().map(|need| &need.name).collect();
    let mut new = LockFile { kaws: env!("CARGO_PKG_VERSION").to_owned(), ..old.clone() };
    new.scripts.retain(|name, _| names.contains(name));
    let mut wrong = Findings::new();
    let asked = Asked { common, cloud: &arguments.cloud, file, setup: &setup };
    new.scripts.extend(fetched(&asked, &open, &mut wrong).await?);
    if new.scripts != old.scripts {
        write(path, &new)?;
    }
    if wrong.any_fatal() {
        tell(common, &wrong);
        return Err(Exit::Findings);
    }
    say_findings(&wrong, true);
    Ok(needs.into_iter().map(|need| need.name).collect())
}

/// Fetches some scripts, and shows which.
pub(in crate::cli::commands) async fn fetched(
    asked: &Asked<'_>,
    open: &[&ScriptNeed],
    wrong: &mut Findings,
) -> Result<BTreeMap<String, Script>, Exit> {
    let in_cloud = open.iter().any(|need| need.from.starts_with("s3://"));
    let cloud = if in_cloud { Some(asked.connect().await?) } else { None };
    let (web, folder) = (Http::patient(), crate::load::folder_of(asked.file));
    let from = Fetcher {
        folder: &folder,
        web: &web,
        cloud: cloud.as_deref(),
        api: RELEASES,
        signatures: &asked.setup.config.signatures,
        runtime: None,
    };
    let mut all = BTreeMap::new();
    for need in open {
        if let Some(finding) = foreign(asked.setup, need) {
            wrong.push(finding);
            continue;
        }
        match install::script(&need.from, need.sha256.as_deref(), &from).await {
            Ok(content) => {
                if asked.common.output == Output::Text {
                    let lines = content.lines().count();
                    say(&format!("  {}\n    {lines} lines\n    from {}", need.name, need.from));
                }
                all.insert(need.name.clone(), Script { content, from: need.from.clone() });
            }
            Err(findings) => {
                wrong.extend(findings.into_iter().map(|finding| finding.at(&need.origin)));
            }
        }
    }
    Ok(all)
}

/// A plugin of others names no file of this machine, and nothing that takes the user's rights: only what everybody can
/// read anyway.
fn foreign(setup: &Setup, need: &ScriptNeed) -> Option<Finding> {
    let plugin = need.name.split('/').nth(1)?;
    let home = &setup.plugins.iter().find(|me| me.name.as_str() == plugin)?.package.home;
    let open = need.from.starts_with("https://");
    let text = format!("{plugin} was installed, and wants {} read with your rights", need.from);
    (matches!(home, Home::Installed(_)) && !open).then(|| {
        Finding::fatal("install/source", text)
            .at(&need.origin)
            .help("a plugin of others brings its scripts itself, or names an https address")
    })
}
