//! `kaws secret`: values come on standard input, and go nowhere but into the bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Read as _};

use serde_json::json;

use super::{Exit, asked, only_file};
use crate::cli::deploying::{CloudArguments, Drifting, Live, Purpose, Session, fail, runtime};
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output, SecretCommand};
use crate::deploy::{list_secrets, remove_secret, set_secret, settle, up_state};
use crate::name::did_you_mean;

/// The largest secret, in bytes.
const LARGEST: u64 = 64 * 1024;

/// Sets, lists or removes secrets.
pub(super) fn run(common: &Common, command: &SecretCommand) -> Exit {
    let work = async {
        match command {
            SecretCommand::Set { cloud, name, yes } => set(common, cloud, name, *yes).await,
            SecretCommand::List { cloud } => list(common, cloud).await,
            SecretCommand::Remove { cloud, name } => remove(common, cloud, name).await,
        }
    };
    runtime().block_on(work).into()
}

async fn open(common: &Common, cloud: &CloudArguments) -> Result<Session, Exit> {
    Session::open(common, only_file(common)?, cloud, BTreeMap::new(), Purpose::Other).await
}

async fn set(
    common: &Common,
    arguments: &CloudArguments,
    name: &str,
    yes: bool,
) -> Result<(), Exit> {
    let session = open(common, arguments).await?;
    known(&session, name)?;
    let value = value(name)?;
    ensure_state(common, arguments, &session, yes).await?;
    let bucket = &session.tree.cluster.bucket;
    set_secret(&*session.cloud, bucket, name, value).await.map_err(|e| fail(&e))?;
    match common.output {
        Output::Json => say(&json!({"secret": name, "set": true}).to_string()),
        Output::Text => {
            say(&format!("Set {name}{}.", place(&session)));
            readers(&session, name).iter().for_each(|line| say(line));
        }
    }
    Ok(())
}

/// Who reads a secret, and how a changed one gets there.
fn readers(session: &Session, name: &str) -> Vec<String> {
    let placeholder = format!("@{{secret {name}}}");
    let reads = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&placeholder);
    let tree = &session.tree;
    let groups = tree.groups().into_iter();
    let groups: Vec<String> =
        groups.filter(|group| tree.bundle(group).values().any(|e| reads(&e.bytes))).collect();
    let mut lines = Vec::new();
    if tree.addons.iter().filter_map(|a| tree.files.get(&a.file)).any(|bytes| reads(bytes)) {
        lines.push("Controllers apply the add-ons that name it within a few minutes.".to_owned());
    }
    if !groups.is_empty() {
        lines.push("Machines read it when they start; for those that run:".to_owned());
        lines.push(format!("  kaws roll {}", groups.join(" ")));
    }
    lines
}

/// What is said behind a name where nothing is real.
fn place(session: &Session) -> &'static str {
    if session.cloud.is_local() { " on the local cloud" } else { "" }
}

/// The value, without the newline at its end that `echo` and editors put there.
fn value(name: &str) -> Result<Vec<u8>, Exit> {
    let refused = |text: &str| {
        say_error(text);
        Err(Exit::Usage)
    };
    if std::io::stdin().is_terminal() {
        return refused(&format!(
            "the value comes on standard input: pass show … | kaws secret set {name}"
        ));
    }
    let mut bytes = Vec::new();
    if let Err(error) = std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes) {
        say_error(&format!("cannot read the value: {error}"));
        return Err(Exit::Files);
    }
    if bytes.ends_with(b"\n") {
        bytes.pop();
    }
    match bytes.len() as u64 {
        0 => refused("the value is empty"),
        length if length > LARGEST => refused(&format!("the value is larger than {LARGEST} bytes")),
        _ => Ok(bytes),
    }
}

/// The bucket lies in the stack `state`, which may not be there yet.
async fn ensure_state(
    common: &Common,
    arguments: &CloudArguments,
    session: &Session,
    yes: bool,
) -> Result<(), Exit> {
    let state = &session.tree.stacks["state"].name;
    let there = session.cloud.stack(state).await.map_err(|e| fail(&e.into()))?;
    if there.is_some_and(|s| s.status.is_updatable() || s.status.as_str().starts_with("UPDATE_")) {
        return Ok(());
    }
    let live = Live::new(common.output);
    let cluster = &session.tree.cluster.name;
    settle(&*session.cloud, cluster, &*live).await.map_err(|e| fail(&e))?;
    let (plan, there) = session.plan(&BTreeSet::new(), Drifting::Unseen).await?;
    if there.stacks.contains_key("state") {
        return Ok(());
    }
    if !yes {
        let why = "The bucket for it is in the stack `state`, which is not there yet. Deploy it?";
        asked(why, "kaws secret set … --yes asks nothing; nothing was changed")?;
    }
    let role = arguments.service_role.as_deref();
    let ended = up_state(&*session.cloud, &session.tree, &plan, role, &*live).await;
    let ended = ended.map_err(|e| fail(&e))?;
    live.finish();
    match ended.failed.first() {
        Some((_, error)) => Err(fail(error)),
        None => Ok(()),
    }
}

/// A secret that nothing reads is a slip of the keyboard.
fn known(session: &Session, name: &str) -> Result<(), Exit> {
    let all = &session.tree.secrets;
    if all.iter().any(|s| s == name) {
        return Ok(());
    }
    say_error(&format!("nothing in this cluster reads a secret {name}"));
    if let Some(near) = did_you_mean(name, all.iter().map(String::as_str)) {
        say_error(&format!("did you mean {near}?"));
    } else if !all.is_empty() {
        say_error(&format!("it reads: {}", all.join(", ")));
    }
    Err(Exit::Findings)
}

async fn list(common: &Common, arguments: &CloudArguments) -> Result<(), Exit> {
    let session = open(common, arguments).await?;
    let bucket = &session.tree.cluster.bucket;
    let set = list_secrets(&*session.cloud, bucket).await.map_err(|e| fail(&e))?;
    let mut names: BTreeSet<&String> = session.tree.secrets.iter().collect();
    names.extend(&set);
    let state = |name: &String| match (set.contains(name), session.tree.secrets.contains(name)) {
        (true, true) => "set",
        (true, false) => "set, and nothing reads it",
        (false, _) => "not set",
    };
    match common.output {
        Output::Json => {
            let rows: Vec<_> = names
                .iter()
                .map(|n| json!({"secret": n, "set": set.contains(*n), "read": session.tree.secrets.contains(*n)}))
                .collect();
            say(&json!({"secrets": rows}).to_string());
        }
        Output::Text if names.is_empty() => say("Nothing in this cluster reads a secret."),
        Output::Text => names.iter().for_each(|n| say(&format!("{n:32} {}", state(n)))),
    }
    Ok(())
}

async fn remove(common: &Common, arguments: &CloudArguments, name: &str) -> Result<(), Exit> {
    let session = open(common, arguments).await?;
    let bucket = &session.tree.cluster.bucket;
    let set = list_secrets(&*session.cloud, bucket).await.map_err(|e| fail(&e))?;
    if !set.contains(name) {
        say_error(&format!("there is no secret {name}"));
        return Err(Exit::Findings);
    }
    remove_secret(&*session.cloud, bucket, name).await.map_err(|e| fail(&e))?;
    match common.output {
        Output::Json => say(&json!({"secret": name, "set": false}).to_string()),
        Output::Text => say(&format!("Removed {name}{}.", place(&session))),
    }
    Ok(())
}
