//! How the running cluster is reached: its API server, with a person's own certificate or a kubeconfig, or what a
//! controller last reported.

use std::path::PathBuf;

use base64::Engine as _;

use super::Session;
use super::live::clock;
use crate::deploy::{Access, Error, Reported, access};
use crate::port::{Answer, Cluster, ErrorKind};

/// What every command that asks the cluster takes.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct ClusterArguments {
    #[command(flatten)]
    pub cloud: super::CloudArguments,
    /// The kubeconfig whose current context is the cluster; by default a certificate from the state bucket.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// A way to the cluster.
#[derive(Debug)]
pub(in crate::cli) struct Reach<'a> {
    session: &'a Session,
    /// The kubeconfig that the user named: then nothing else stands in for it.
    named: Option<&'a PathBuf>,
    /// The one that is used, once it was found.
    found: tokio::sync::OnceCell<String>,
}

impl<'a> Reach<'a> {
    /// Returns the way of a session; it is found when somebody goes it.
    pub(in crate::cli) fn of(session: &'a Session, kubeconfig: Option<&'a PathBuf>) -> Self {
        Self { session, named: kubeconfig, found: tokio::sync::OnceCell::new() }
    }

    /// Returns the cluster, if its API server answers; else a controller's report of it, or why there is neither.
    pub(in crate::cli) async fn cluster(&self) -> Result<Box<dyn Cluster>, String> {
        let why = match self.api_server().await {
            Ok(cluster) => return Ok(cluster),
            Err(why) => why,
        };
        let cloud = &*self.session.cloud;
        if self.named.is_some() || cloud.is_local() {
            return Err(why);
        }
        match Reported::newest(cloud, &self.session.tree.cluster.bucket, clock()).await {
            Ok(Some(reported)) => Ok(Box::new(reported)),
            Ok(None) => Err(why),
            Err(error) => Err(format!("{why}; {error}")),
        }
    }

    /// Returns the API server itself, if it answers.
    pub(in crate::cli) async fn api_server(&self) -> Result<Box<dyn Cluster>, String> {
        let cluster = connect(self.found.get_or_try_init(|| self.kubeconfig()).await?).await;
        let cluster = cluster.map_err(|error| error.to_string())?;
        match cluster.version().await {
            // Whoever may not ask for that may still ask for the rest.
            Ok(_) => Ok(cluster),
            Err(error) if error.kind == ErrorKind::Denied => Ok(cluster),
            Err(error) => Err(format!("the API server cannot be reached: {}", error.message)),
        }
    }

    async fn kubeconfig(&self) -> Result<String, String> {
        match self.named {
            Some(path) => read(path),
            None if self.session.cloud.is_local() => {
                Err("the local cloud has no machines".to_owned())
            }
            None => {
                let own = own_kubeconfig(self.session).await;
                own.map(|(text, _)| text).map_err(|error| error.to_string())
            }
        }
    }
}

#[cfg(feature = "kubernetes")]
async fn connect(kubeconfig: &str) -> Answer<Box<dyn Cluster>> {
    Ok(Box::new(crate::cluster::ApiServer::of(kubeconfig).await?))
}

#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unused_async, reason = "as with the feature")]
async fn connect(_: &str) -> Answer<Box<dyn Cluster>> {
    let text = "this kaws was built without the crates that ask Kubernetes";
    Err(crate::port::CloudError::new("connect", ErrorKind::Refused, text))
}

#[expect(clippy::disallowed_methods, reason = "the user named the file")]
fn read(path: &PathBuf) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns a kubeconfig with a person's own certificate, and the host it is for.
pub(in crate::cli) async fn own_kubeconfig(session: &Session) -> Result<(String, String), Error> {
    let access = access(&*session.cloud, &session.tree).await?;
    let host = host(session).await?;
    Ok((text(&session.tree.cluster.name, &host, &access), host))
}

/// The cluster's own domain, or the name of its load balancer.
async fn host(session: &Session) -> Result<String, Error> {
    let cluster = &session.tree.cluster;
    if session.run.setup.config.api.domain.is_some() {
        return Ok(cluster.api.clone());
    }
    let network = session.tree.stacks.get("network").map(|stack| stack.name.clone());
    let deployed = match network {
        Some(name) => session.cloud.stack(&name).await?,
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
