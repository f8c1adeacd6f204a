//! `kaws kubeconfig`: how a person reaches the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use super::{Exit, only_file};
use crate::cli::deploying::{CloudArguments, Purpose, Session, fail, own_kubeconfig, runtime};
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output};

/// Prints a kubeconfig, or writes it for its owner alone.
pub(super) fn run(common: &Common, cloud: &CloudArguments, to: Option<&PathBuf>) -> Exit {
    runtime().block_on(kubeconfig(common, cloud, to)).into()
}

async fn kubeconfig(
    common: &Common,
    cloud: &CloudArguments,
    to: Option<&PathBuf>,
) -> Result<(), Exit> {
    let file = only_file(common)?;
    let session = Session::open(common, file, cloud, BTreeMap::new(), Purpose::Other).await?;
    let (text, host) = own_kubeconfig(&session).await.map_err(|e| fail(&e))?;
    let Some(path) = to else {
        say(text.trim_end());
        return Ok(());
    };
    write(path, &text)?;
    match common.output {
        Output::Json => {
            say(&json!({"kubeconfig": path, "server": format!("https://{host}")}).to_string());
        }
        Output::Text => {
            say(&format!("{} is written, for you alone.", path.display()));
            say(&format!("  kubectl --kubeconfig {} get nodes", path.display()));
        }
    }
    Ok(())
}

/// A key is in it: the file is made for its owner alone before anything is written.
#[expect(clippy::disallowed_methods, reason = "the user named the file")]
fn write(path: &PathBuf, text: &str) -> Result<(), Exit> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let aside = path.with_extension("new");
    let _ = std::fs::remove_file(&aside);
    let written = options
        .open(&aside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&aside, path));
    written.map_err(|error| {
        say_error(&format!("cannot write {}: {error}", path.display()));
        Exit::Files
    })
}
