//! The cluster, through its API server: the port's other side, with the crates of kube.
//!
//! Not here: where the kubeconfig comes from (`cli`), and what is done with the answers (`deploy`).

mod errors;
mod shown;

use std::time::Duration;

use async_trait::async_trait;
use hyper_util::client::proxy::matcher::Matcher;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DynamicObject, EvictParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::discovery::Discovery;
use kube::{Client, Config};
use serde_json::{Value, json};

use errors::failed;

use crate::port::{
    Answer, CloudError, Cluster, DeprecatedApi, ErrorKind, Eviction, Node, Pod, Pods, Release,
};

/// How long the API server may take to be reached, and to answer.
const CONNECT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);
/// So many objects come in one answer.
const PAGE: u32 = 500;

/// The API server of a cluster.
pub struct ApiServer {
    client: Client,
    /// Asks once: what a budget refuses is answered like what a busy server cannot do now.
    once: Client,
    address: String,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiServer({})", self.address)
    }
}

impl ApiServer {
    /// Returns the API server of a kubeconfig's current context; asks it nothing yet.
    ///
    /// # Errors
    /// A kubeconfig that is none, or with keys that are none.
    pub async fn of(kubeconfig: &str) -> Answer<Self> {
        let wrong = |text: String| CloudError::new("kubeconfig", ErrorKind::Credentials, text);
        let read = Kubeconfig::from_yaml(kubeconfig).map_err(|e| wrong(e.to_string()))?;
        let named =
            read.clusters.iter().any(|c| c.cluster.as_ref().is_some_and(|c| c.proxy_url.is_some()));
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|e| wrong(e.to_string()))?;
        if !named {
            let way = Matcher::from_env().intercept(&config.cluster_url);
            config.proxy_url = way.map(|way| way.uri().clone());
        }
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(PATIENCE);
        config.reset_reader_on_write = true;
        let address = config.cluster_url.to_string();
        let client = Client::try_from(config.clone()).map_err(|e| wrong(e.to_string()))?;
        config.default_retry = false;
        let once = Client::try_from(config).map_err(|e| wrong(e.to_string()))?;
        Ok(Self { client, once, address })
    }

    async fn text(&self, path: &str) -> Result<String, kube::Error> {
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await
    }

    async fn listed<K>(&self, api: &Api<K>, wanted: ListParams, what: &str) -> Answer<Vec<K>>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let mut wanted = wanted.limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = api.list(&wanted).await.map_err(|e| failed(what, &e))?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => wanted = wanted.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}

#[async_trait]
impl Cluster for ApiServer {
    async fn failing(&self) -> Answer<Vec<String>> {
        // Not ready it answers 500, with what fails in its text.
        match self.text("/readyz?verbose").await {
            Ok(_) => Ok(Vec::new()),
            Err(kube::Error::Api(said)) if said.code == 500 => Ok(shown::failing(&said.message)),
            Err(error) => Err(failed("GET /readyz", &error)),
        }
    }

    async fn version(&self) -> Answer<String> {
        let said = self.client.apiserver_version().await.map_err(|e| failed("GET /version", &e))?;
        Ok(said.git_version.trim_start_matches('v').to_owned())
    }

    async fn nodes(&self) -> Answer<Vec<Node>> {
        let api: Api<core::Node> = Api::all(self.client.clone());
        let all = self.listed(&api, ListParams::default(), "list nodes").await?;
        Ok(all.iter().map(shown::node).collect())
    }

    async fn pods(&self, which: &Pods) -> Answer<Vec<Pod>> {
        let all: Api<core::Pod> = Api::all(self.client.clone());
        let found = match which {
            Pods::On(node) => {
                let wanted = ListParams::default().fields(&format!("spec.nodeName={node}"));
                self.listed(&all, wanted, "list pods").await?
            }
            // Critical classes are admitted in all namespaces; the API server has no index of them.
            Pods::Critical => self.listed(&all, ListParams::default(), "list pods").await?,
        };
        let wanted = |pod: &Pod| matches!(which, Pods::On(_)) || pod.critical;
        Ok(found.iter().map(shown::pod).filter(wanted).collect())
    }

    async fn status(&self, kind: &str, namespace: &str, name: &str) -> Answer<Option<Value>> {
        let what = format!("get {kind} {name}");
        let discovery = Discovery::new(self.client.clone()).run_aggregated().await;
        let discovery = discovery.map_err(|e| failed(&what, &e))?;
        let mut kinds =
            discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
        let Some((resource, _)) = kinds.find(|(resource, _)| resource.kind == kind) else {
            let text = format!("the API server knows no kind {kind}");
            return Err(CloudError::new(&what, ErrorKind::NotFound, text));
        };
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        };
        let found = api.get_opt(name).await.map_err(|e| failed(&what, &e))?;
        Ok(found.map(|object| shown::status(&object)))
    }

    async fn ready_addresses(&self, namespace: &str, service: &str) -> Answer<usize> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), namespace);
        let wanted = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let slices = self.listed(&api, wanted, "list endpointslices").await?;
        let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        // Where nothing is said, it is ready.
        let ready =
            endpoints.filter(|e| e.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true));
        Ok(ready.map(|e| e.addresses.len()).sum())
    }

    async fn releases(&self) -> Answer<Vec<Release>> {
        // What Helm keeps in a secret is none of ours: its labels say enough.
        let api: Api<core::Secret> = Api::all(self.client.clone());
        let mut wanted = ListParams::default().labels("owner=helm").limit(PAGE);
        let mut all: Vec<PartialObjectMeta<core::Secret>> = Vec::new();
        loop {
            let page = api.list_metadata(&wanted).await.map_err(|e| failed("list releases", &e))?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => wanted = wanted.continue_token(&token),
                None => return Ok(shown::releases(&all)),
            }
        }
    }

    async fn deprecated(&self) -> Answer<Vec<DeprecatedApi>> {
        let text = self.text("/metrics").await.map_err(|e| failed("GET /metrics", &e))?;
        Ok(DeprecatedApi::counted(&text))
    }

    async fn cordon(&self, node: &str, on: bool) -> Answer<()> {
        let api: Api<core::Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": on}}));
        match api.patch(node, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(said)) if said.code == 404 => Ok(()),
            Err(error) => Err(failed(&format!("patch node {node}"), &error)),
        }
    }

    async fn evict(&self, pod: &Pod) -> Answer<Eviction> {
        let api: Api<core::Pod> = Api::namespaced(self.once.clone(), &pod.namespace);
        match api.evict(&pod.name, &EvictParams::default()).await {
            Ok(_) => Ok(Eviction::Going),
            Err(kube::Error::Api(said)) if said.code == 404 => Ok(Eviction::Gone),
            // A budget says 429; two budgets for one pod, which no eviction gets past, say 500.
            Err(kube::Error::Api(said)) if matches!(said.code, 429 | 500) => {
                let causes = said.details.iter().flat_map(|d| &d.causes);
                let why: Vec<&str> =
                    causes.map(|c| c.message.as_str()).filter(|m| !m.is_empty()).collect();
                Ok(Eviction::Refused(if why.is_empty() {
                    said.message.clone()
                } else {
                    why.join("; ")
                }))
            }
            Err(error) => Err(failed(&format!("evict {}", pod.full_name()), &error)),
        }
    }
}
