//! `kaws kubeconfig`: how a person reaches the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use serde_json::json;

use super::{Exit, only_file};
use crate::cli::deploying::{CloudArguments, Purpose, Session, fail, runtime};
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output};
use crate::deploy::{Access, access};

/// Prints a kubeconfig, or writes it for its owner alone.
pub(super) fn run(common: &Common, cloud: &CloudArguments, to: Option<&PathBuf>) -> Exit {
    match runtime().block_on(kubeconfig(common, cloud, to)) {
        Ok(()) => Exit::Done,
        Err(exit) => exit,
    }
}

async fn kubeconfig(
    common: &Common,
    cloud: &CloudArguments,
    to: Option<&PathBuf>,
) -> Result<(), Exit> {
    let file = only_file(common)?;
    let session = Session::open(common, file, cloud, BTreeMap::new(), Purpose::Other).await?;
    let cluster = &session.tree.cluster;
    let access = access(&*session.cloud, &session.tree).await.map_err(|e| fail(&e))?;
    let host = host(&session).await?;
    let text = text(&cluster.name, &host, &access);
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

/// The cluster's own domain, or the name of its load balancer.
async fn host(session: &Session) -> Result<String, Exit> {
    let cluster = &session.tree.cluster;
    if session.run.setup.config.api.domain.is_some() {
        return Ok(cluster.api.clone());
    }
    let network = session.tree.stacks.get("network").map(|stack| stack.name.clone());
    let deployed = match network {
        Some(name) => session.cloud.stack(&name).await.map_err(|error| fail(&error.into()))?,
        None => None,
    };
    let outputs = deployed.map(|stack| stack.outputs).unwrap_or_default();
    let found = outputs.get("ApiPublicDnsName").or_else(|| outputs.get("ApiDnsName"));
    Ok(found.cloned().unwrap_or_else(|| cluster.api.clone()))
}

fn text(name: &str, host: &str, access: &Access) -> String {
    let encoded = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n  - name: {name}\n    cluster:\n      certificate-authority-data: {}\n      \
         server: https://{host}\ncontexts:\n  - name: {name}\n    context: {{cluster: {name}, user: {name}-admin}}\n\
         current-context: {name}\nusers:\n  - name: {name}-admin\n    user:\n      client-certificate-data: {}\n      \
         client-key-data: {}\n",
        encoded(&access.authority),
        encoded(&access.certificate),
        encoded(&access.key)
    )
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
