//! `kaws pki`: until when certificates are valid, and their rotation as a change of cluster.yaml.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{Exit, only_file, rendered};
use crate::cli::deploying::{CloudArguments, Purpose, Session, clock, fail, runtime};
use crate::cli::report::{say, say_error, say_findings};
use crate::cli::{Common, Output, PkiCommand};
use crate::config::Cluster;
use crate::deploy::{Row, pki_status};
use crate::edit::set;
use crate::name::did_you_mean;
use crate::pki::Requests;

/// Certificates that end sooner are pointed out.
const SOON_DAYS: i64 = 60;

/// Shows what has been minted, or changes what is to be.
pub(super) fn run(common: &Common, command: &PkiCommand) -> Exit {
    let done = match command {
        PkiCommand::Status { cloud } => runtime().block_on(status(common, cloud)),
        PkiCommand::Rotate { what } => rotate(common, what),
    };
    done.into()
}

async fn status(common: &Common, cloud: &CloudArguments) -> Result<(), Exit> {
    let file = only_file(common)?;
    let session = Session::open(common, file, cloud, BTreeMap::new(), Purpose::Other).await?;
    let status = pki_status(&*session.cloud, &session.tree).await.map_err(|e| fail(&e))?;
    if common.output == Output::Json {
        say(&json!({"certificates": status.rows}).to_string());
        return Ok(());
    }
    let now = i64::try_from(clock()).unwrap_or(i64::MAX);
    say(&format!("{:28} {:12} {:10}  {}", "certificate", "generation", "ends", "in"));
    for row in &status.rows {
        say(&line(row, now));
    }
    // That of people is renewed by `kaws up`, without a rotation.
    let of_machines =
        status.rows.iter().filter(|r| r.name != "admin").filter_map(|r| r.said.as_ref());
    let soon = of_machines.filter(|s| (s.not_after - now) / 86_400 < SOON_DAYS).count();
    if soon > 0 {
        say(&format!("\n{soon} end within {SOON_DAYS} days: kaws pki rotate leaves, then kaws up"));
    }
    Ok(())
}

fn line(row: &Row, now: i64) -> String {
    let generation = row.generation.split('-').next().unwrap_or_default();
    let generation = match row.signs {
        Some(true) => format!("{generation}, signs"),
        Some(false) => format!("{generation}, trusted"),
        None => generation.to_owned(),
    };
    let Some(said) = &row.said else {
        return format!("{:28} {generation:12} not minted yet", row.name);
    };
    let end = u64::try_from(said.not_after).unwrap_or(0);
    let end = std::time::UNIX_EPOCH + std::time::Duration::from_secs(end);
    let day = humantime::format_rfc3339_seconds(end).to_string();
    let days = (said.not_after - now) / 86_400;
    format!("{:28} {generation:12} {:10}  {days} days", row.name, &day[..10])
}

/// One change: where in cluster.yaml, and to what.
type Edit = (Vec<String>, Value);

fn rotate(common: &Common, what: &str) -> Result<(), Exit> {
    let file = only_file(common)?;
    let run = rendered(common)?;
    let config = &run.setup.config;
    let requests = Requests::of(&run.rendered.model, config);
    let (edits, next) = step(config, &requests, what)?;
    let text = read(file)?;
    let name = file.display().to_string();
    let mut edited = text;
    for (path, value) in &edits {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        edited = set(&name, &edited, &path, value).map_err(|findings| {
            say_findings(&findings, true);
            Exit::Findings
        })?;
    }
    write(file, &edited)?;
    if common.output == Output::Json {
        let changed: Vec<Value> = edits
            .iter()
            .map(|(path, value)| json!({"path": path.join("."), "value": value}))
            .collect();
        say(&json!({"changed": changed, "next": next}).to_string());
        return Ok(());
    }
    for (path, value) in &edits {
        say(&format!("{name}: {} is now {value}", path.join(".")));
    }
    say("Next");
    say("  git diff, kaws render, kaws up");
    for line in next {
        say(&format!("  {line}"));
    }
    Ok(())
}

/// The next step of a rotation, and what comes after it.
fn step(
    config: &Cluster,
    requests: &Requests,
    what: &str,
) -> Result<(Vec<Edit>, Vec<String>), Exit> {
    let path = |parts: &[&str]| {
        ["pki"].iter().chain(parts).map(|part| (*part).to_owned()).collect::<Vec<String>>()
    };
    let leaves = (path(&["leaves"]), json!(config.pki.leaves + 1));
    if what == "leaves" {
        return Ok((
            vec![leaves],
            vec!["every group rolls, and has new certificates then".to_owned()],
        ));
    }
    let authority =
        requests.authorities.get(what).map(|a| (a.signs, a.trusted.clone(), "authorities"));
    let key = requests.keys.get(what).map(|k| (k.signs, k.trusted.clone(), "keys"));
    let Some((signs, trusted, part)) = authority.or(key) else {
        return Err(unknown(requests, what));
    };
    let at = |key: &str| path(&[part, what, key]);
    let newest = trusted.iter().copied().max().unwrap_or(signs).max(signs);
    let again = format!("then kaws pki rotate {what} again");
    // Trust, sign, drop: each is a deployment of its own, as machines of both sides meet in each.
    Ok(if trusted == [signs] {
        let both: Vec<u32> = vec![signs, signs + 1];
        let edits = vec![(at("signs"), json!(signs)), (at("trusted"), json!(both))];
        (
            edits,
            vec![format!("step 1 of 3: generation {} is trusted everywhere; {again}", signs + 1)],
        )
    } else if newest > signs {
        let mut edits = vec![(at("signs"), json!(newest))];
        if part == "authorities" {
            edits.push(leaves);
        }
        (edits, vec![format!("step 2 of 3: generation {newest} is used; {again}")])
    } else {
        let edits = vec![(at("trusted"), json!([signs]))];
        (edits, vec![format!("step 3 of 3: only generation {signs} is trusted")])
    })
}

fn unknown(requests: &Requests, what: &str) -> Exit {
    let mut all: Vec<&str> = vec!["leaves"];
    all.extend(requests.authorities.keys().map(String::as_str));
    all.extend(requests.keys.keys().map(String::as_str));
    say_error(&format!("there is no {what} to rotate"));
    match did_you_mean(what, all.iter().copied()) {
        Some(near) => say_error(&format!("did you mean {near}?")),
        None => say_error(&format!("there are: {}", all.join(", "))),
    }
    Exit::Usage
}

#[expect(clippy::disallowed_methods, reason = "the user named the file")]
pub(super) fn read(file: &Path) -> Result<String, Exit> {
    std::fs::read_to_string(file).map_err(|error| {
        say_error(&format!("cannot read {}: {error}", file.display()));
        Exit::Files
    })
}

/// Writes a file aside and renames it: it is never half written.
#[expect(clippy::disallowed_methods, reason = "the user named the file")]
pub(super) fn write(file: &Path, text: &str) -> Result<(), Exit> {
    let aside = file.with_extension("yaml.new");
    let written = std::fs::write(&aside, text).and_then(|()| std::fs::rename(&aside, file));
    written.map_err(|error| {
        say_error(&format!("cannot write {}: {error}", file.display()));
        Exit::Files
    })
}
