//! `kaws etcd`: the snapshots in the state bucket, and restoring one as a change of cluster.yaml.

use std::collections::BTreeMap;

use serde_json::json;

use super::pki::{read, write};
use super::{Exit, only_file};
use crate::cli::deploying::{CloudArguments, Purpose, Session, fail, runtime};
use crate::cli::report::{say, say_error, say_findings};
use crate::cli::{Common, EtcdCommand, Output};
use crate::deploy::BACKUPS;
use crate::edit::set;

/// Lists snapshots, or has one restored.
pub(super) fn run(common: &Common, command: &EtcdCommand) -> Exit {
    let done = runtime().block_on(async {
        match command {
            EtcdCommand::Backups { cloud } => list(common, cloud).await,
            EtcdCommand::Restore { cloud, snapshot } => restore(common, cloud, snapshot).await,
        }
    });
    done.into()
}

async fn snapshots(
    common: &Common,
    cloud: &CloudArguments,
) -> Result<(Session, Vec<String>), Exit> {
    let file = only_file(common)?;
    let session = Session::open(common, file, cloud, BTreeMap::new(), Purpose::Other).await?;
    let keys = session.cloud.list(&session.tree.cluster.bucket, BACKUPS).await;
    let keys = keys.map_err(|error| fail(&error.into()))?;
    Ok((session, keys))
}

async fn list(common: &Common, cloud: &CloudArguments) -> Result<(), Exit> {
    let (_, keys) = snapshots(common, cloud).await?;
    match common.output {
        Output::Json => say(&json!({"snapshots": keys}).to_string()),
        Output::Text if keys.is_empty() => say("There is no snapshot yet."),
        Output::Text => keys.iter().for_each(|key| say(key)),
    }
    Ok(())
}

async fn restore(common: &Common, cloud: &CloudArguments, snapshot: &str) -> Result<(), Exit> {
    let file = only_file(common)?;
    let (session, keys) = snapshots(common, cloud).await?;
    let key = if snapshot.starts_with(BACKUPS) {
        snapshot.to_owned()
    } else {
        format!("{BACKUPS}{snapshot}")
    };
    if !keys.contains(&key) {
        say_error(&format!("there is no snapshot {key}; kaws etcd backups lists them"));
        return Err(Exit::Findings);
    }
    let before = session.run.setup.config.etcd.restore.as_ref().map_or(0, |r| r.generation);
    let value = json!({"generation": before + 1, "snapshot": key});
    let name = file.display().to_string();
    let edited = set(&name, &read(file)?, &["etcd", "restore"], &value).map_err(|findings| {
        say_findings(&findings, true);
        Exit::Findings
    })?;
    write(file, &edited)?;
    match common.output {
        Output::Json => say(&json!({"restore": value}).to_string()),
        Output::Text => {
            say(&format!("{name}: etcd.restore is now generation {}, from {key}", before + 1));
            say("Next");
            say(
                "  git diff, kaws render, kaws up: each member makes its data anew from it, and what",
            );
            say("  was written since is lost; the old data stays beside it on each volume");
        }
    }
    Ok(())
}
