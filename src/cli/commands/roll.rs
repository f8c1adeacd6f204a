//! `kaws roll`.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Exit, asked, only_file};
use crate::cli::deploying::{
    Live, Purpose, Reach, Session, checks, fail, operator, runtime, said_failures, stamp,
};
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output, RollArguments};
use crate::deploy::{
    Ended, Error, GroupRoll, Pace, RollState, Rolling, Tree, forget_roll, former, plan_roll,
    recorded, roll,
};
use crate::port::Cluster;

/// Replaces machines, or says what becomes of a roll that is not over.
pub(super) fn run(common: &Common, arguments: &RollArguments) -> Exit {
    runtime().block_on(start(common, arguments)).into()
}

async fn start(common: &Common, arguments: &RollArguments) -> Result<(), Exit> {
    let file = only_file(common)?;
    let cloud = &arguments.cluster.cloud;
    let session = Session::open(common, file, cloud, BTreeMap::new(), Purpose::Other).await?;
    if session.cloud.is_local() {
        say("The local cloud has no machines: there is nothing to roll.");
        return Ok(());
    }
    let bucket = session.tree.cluster.bucket.clone();
    let last = RollState::load(&*session.cloud, &bucket).await.map_err(|e| fail(&e.into()))?;
    match (last, arguments.pause, arguments.resume, arguments.forget) {
        (Some(_), true, _, _) => pause(&session).await,
        (Some(state), _, _, true) => forget(&session, arguments, &state).await,
        (Some(state), _, true, _) => {
            let state = RollState { paused: false, ..state };
            go(common, arguments, &session, state).await
        }
        (Some(state), ..) => Err(fail(&Error::NotOver { since: state.since, who: state.who })),
        (None, true, ..) | (None, _, true, _) | (None, _, _, true) => {
            say("No roll is under way or paused.");
            Ok(())
        }
        (None, ..) => {
            let state = planned(common, arguments, &session).await?;
            match state {
                Some(state) => go(common, arguments, &session, state).await,
                None => Ok(()),
            }
        }
    }
}

async fn pause(session: &Session) -> Result<(), Exit> {
    let paused = RollState::pause(&*session.cloud, &session.tree.cluster.bucket).await;
    if !paused.map_err(|e| fail(&e.into()))? {
        say("It has just come to its end.");
        return Ok(());
    }
    say("Paused: the machines under way finish, and no more are taken.");
    say("  kaws roll --resume goes on");
    Ok(())
}

/// Forgets a roll that nobody is at; nodes of it that take no pods take them again.
async fn forget(
    session: &Session,
    arguments: &RollArguments,
    state: &RollState,
) -> Result<(), Exit> {
    let bucket = &session.tree.cluster.bucket;
    let forgotten = forget_roll(&*session.cloud, bucket, &operator(), arguments.take_over).await;
    forgotten.map_err(|e| fail(&e))?;
    let cluster = reached(session, arguments).await?;
    let nodes = cluster.nodes().await.map_err(|e| fail(&e.into()))?;
    for group in &state.groups {
        for node in nodes.iter().filter(|n| n.cordoned && group.todo.contains(&n.name)) {
            cluster.cordon(&node.name, false).await.map_err(|e| fail(&e.into()))?;
            say(&format!("{} takes pods again", node.name));
        }
    }
    say("Forgotten: what was replaced stays replaced.");
    Ok(())
}

/// What is to be rolled, once it was confirmed.
async fn planned(
    common: &Common,
    arguments: &RollArguments,
    session: &Session,
) -> Result<Option<RollState>, Exit> {
    let tree = deployed(session).await?;
    let wanted: Vec<String> = arguments.groups.iter().map(|name| folder(&tree, name)).collect();
    let wanted = if arguments.all { tree.groups() } else { wanted };
    if wanted.is_empty() {
        say_error(&format!("name the groups to roll, or --all: {}", tree.groups().join(", ")));
        return Err(Exit::Usage);
    }
    let groups = plan_roll(&*session.cloud, &tree, &wanted, arguments.outdated).await;
    let mut groups = groups.map_err(|e| fail(&e))?;
    for group in &mut groups {
        group.batch = batch(session, arguments, &group.folder);
    }
    groups.retain(|group| !group.todo.is_empty());
    match common.output {
        Output::Json => say(&json!({"roll": groups}).to_string()),
        Output::Text => text(&groups).iter().for_each(|line| say(line)),
    }
    if groups.is_empty() {
        return Ok(None);
    }
    if !arguments.yes {
        asked("Replace these?", "kaws roll --yes asks nothing; nothing was changed")?;
    }
    let pace = Pace {
        by_zone: arguments.by_zone,
        drain: arguments.drain_timeout.as_secs(),
        ready: arguments.ready_timeout.as_secs(),
        unmanaged: arguments.evict_unmanaged,
        ..Pace::default()
    };
    let who = operator().who;
    Ok(Some(RollState { since: stamp(), who, paused: false, groups, pace }))
}

/// The folder of a group: a pool's name is enough.
fn folder(tree: &Tree, name: &str) -> String {
    let pool = format!("pool-{name}");
    let alias = if name == "control-plane" { "controller" } else { name };
    if tree.groups().contains(&pool) { pool } else { alias.to_owned() }
}

/// How many machines of a group may be missing. Of etcd and the control plane, which agree among themselves, never more
/// than one.
fn batch(session: &Session, arguments: &RollArguments, folder: &str) -> usize {
    let pools = &session.run.setup.config.node_pools;
    match folder.strip_prefix("pool-").and_then(|name| pools.get(name)) {
        Some(pool) => arguments.batch.unwrap_or(pool.roll.batch as usize).max(1),
        None => 1,
    }
}

fn text(groups: &[GroupRoll]) -> Vec<String> {
    if groups.is_empty() {
        return vec!["Nothing to replace.".to_owned()];
    }
    let line = |group: &GroupRoll| {
        let pace = if group.batch == 1 {
            "one at a time".to_owned()
        } else {
            format!("{} at a time", group.batch)
        };
        let noun = if group.todo.len() == 1 { "machine" } else { "machines" };
        format!("  {:15} {} {noun}, {pace}", group.folder, group.todo.len())
    };
    let head = "Replaced, drained first, each group after the one before:".to_owned();
    [head].into_iter().chain(groups.iter().map(line)).collect()
}

async fn deployed(session: &Session) -> Result<Tree, Exit> {
    let bucket = &session.tree.cluster.bucket;
    let last = recorded(&*session.cloud, bucket).await.map_err(|error| fail(&error))?;
    Ok(last.as_ref().and_then(former).unwrap_or_else(|| session.tree.clone()))
}

async fn reached(session: &Session, arguments: &RollArguments) -> Result<Box<dyn Cluster>, Exit> {
    let reach = Reach::of(session, arguments.cluster.kubeconfig.as_ref());
    reach.api_server().await.map_err(|why| fail(&Error::Unreachable(why)))
}

async fn go(
    common: &Common,
    arguments: &RollArguments,
    session: &Session,
    state: RollState,
) -> Result<(), Exit> {
    let cluster = reached(session, arguments).await?;
    let reach = Reach::of(session, arguments.cluster.kubeconfig.as_ref());
    let tree = deployed(session).await?;
    let live = Live::new(common.output);
    live.listen();
    let gate = checks::Holding { session, reach: &reach, tree: Some(&tree) };
    let work = Rolling {
        cloud: &*session.cloud,
        cluster: &*cluster,
        tree: &tree,
        watcher: &*live,
        gate: &gate,
        pace: state.pace,
        remembered: true,
    };
    let ended = roll(&work, &state, &operator(), arguments.take_over).await;
    let ended = ended.map_err(|error| fail(&error))?;
    live.finish();
    finish(common, &state, &ended, &live)
}

/// Says how it ended.
fn finish(common: &Common, state: &RollState, ended: &Ended, live: &Live) -> Result<(), Exit> {
    if let Some((_, Error::Paused { group, left })) = ended.failed.first() {
        let noun = if *left == 1 { "machine is" } else { "machines are" };
        say(&format!("\nPaused: {left} {noun} left of {group}. kaws roll --resume goes on."));
        // Whoever pressed Ctrl-C is told that it was heard.
        return if crate::deploy::Watcher::stopping(live) {
            Err(Exit::Interrupted)
        } else {
            Ok(())
        };
    }
    said_failures(ended, live, "kaws roll --resume", |error| {
        let exit = fail(error);
        say("  kaws roll --resume goes on once that is put right; --forget gives it up");
        exit
    })?;
    let count: usize = state.groups.iter().map(|group| group.todo.len()).sum();
    match common.output {
        Output::Json => say(&json!({"done": true, "replaced": count}).to_string()),
        Output::Text => {
            let noun = if count == 1 { "machine was" } else { "machines were" };
            say(&format!("\n{count} {noun} replaced, and all checks hold, {}.", live.elapsed()));
        }
    }
    Ok(())
}
