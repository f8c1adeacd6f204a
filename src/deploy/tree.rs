//! What `rendered/` holds, as deploying needs it: stacks, where their parameters come from, bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::archive::{Bundle, Entry};
use crate::cloudformation::{Template, TemplateError};

/// Why a tree cannot be deployed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Its manifest is none.
    #[error("manifest.yaml: {0}")]
    Manifest(String),
    /// A file is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// A template is none.
    #[error("stacks/{stack}.yaml")]
    Template {
        /// The stack.
        stack: String,
        /// What is wrong with it.
        #[source]
        source: TemplateError,
    },
    /// A bundle's files are not those that its machines will ask for.
    #[error(
        "nodes/{group}/bundle is not what nodes/{group}/user-data names: kaws render writes both anew"
    )]
    Bundle {
        /// The group's folder.
        group: String,
    },
}

/// A rendered tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The cluster.
    pub cluster: ClusterFacts,
    /// Its stacks.
    pub stacks: BTreeMap<String, TreeStack>,
    /// Secrets that its machines read.
    pub secrets: Vec<String>,
    /// Steps of plugins.
    pub steps: BTreeMap<String, crate::model::Step>,
    /// Stacks of pools that CloudFormation does not roll, and how many machines kaws takes at a time.
    pub rolls: BTreeMap<String, u64>,
    /// Checks of plugins.
    pub checks: BTreeMap<String, crate::model::Check>,
    /// What its controllers apply, in order.
    pub addons: Vec<crate::pipeline::Addon>,
    /// What is minted for it.
    pub pki: crate::pki::Requests,
    /// All files, by path; the manifest is not among them.
    pub files: BTreeMap<String, Arc<[u8]>>,
    /// Permissions of files on a node, where they are not 0644.
    modes: BTreeMap<String, String>,
    /// The SHA-256 of the manifest, which names every file by its own: the tree's identity.
    pub digest: String,
}

/// Which cluster it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClusterFacts {
    /// Its name.
    pub name: String,
    /// The account it belongs to.
    pub account: String,
    /// Its region.
    pub region: String,
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// The bucket that holds its state.
    pub bucket: String,
    /// Where its API server answers.
    pub endpoint: String,
    /// Where people reach its API server.
    #[serde(default)]
    pub api: String,
    /// Its release of Kubernetes.
    #[serde(default)]
    pub kubernetes: String,
    /// Who issues its service accounts' tokens.
    #[serde(default)]
    pub issuer: Issuer,
}

/// The issuer of service accounts' tokens, as everybody may ask it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Issuer {
    /// The bucket of its two documents.
    pub bucket: String,
    /// Its address.
    pub url: String,
}

/// One stack of the tree.
#[derive(Clone, Debug)]
pub struct TreeStack {
    /// Its name in the cluster: `pool-general`.
    pub short: String,
    /// Its name in the cloud: `prod-pool-general`.
    pub name: String,
    /// Stacks that come first.
    pub after: BTreeSet<String>,
    /// Where its parameters come from.
    pub parameters: BTreeMap<String, Parameter>,
    /// Whether it cannot be deleted by accident.
    pub protected: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its template's text.
    pub text: Arc<str>,
    /// Its template.
    pub template: Arc<Template>,
}

/// Where a parameter's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The source.
    pub source: Source,
    /// The lock's value, as the manifest records it.
    pub locked: Option<String>,
}

/// The source of a parameter's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An output: stack and name.
    Output(String, String),
    /// An entry of kaws.lock.
    Lock(String),
}

#[derive(Deserialize)]
struct Manifest {
    cluster: ClusterFacts,
    #[serde(default)]
    stacks: BTreeMap<String, ManifestStack>,
    #[serde(default)]
    secrets: Vec<String>,
    #[serde(default)]
    steps: BTreeMap<String, crate::model::Step>,
    #[serde(default)]
    rolls: BTreeMap<String, u64>,
    #[serde(default)]
    checks: BTreeMap<String, crate::model::Check>,
    #[serde(default)]
    addons: Vec<crate::pipeline::Addon>,
    #[serde(default)]
    pki: crate::pki::Requests,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    modes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ManifestStack {
    name: String,
    #[serde(default)]
    after: BTreeSet<String>,
    #[serde(default)]
    parameters: BTreeMap<String, ManifestParameter>,
    #[serde(default)]
    protected: bool,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ManifestParameter {
    #[serde(rename = "$output")]
    output: Option<String>,
    #[serde(rename = "$lock")]
    lock: Option<String>,
    value: Option<String>,
}

impl Tree {
    /// Reads the tree from its manifest and its files.
    ///
    /// # Errors
    /// A manifest that is none, a file that is missing, a template that is none.
    pub fn read(manifest: &str, files: BTreeMap<String, Arc<[u8]>>) -> Result<Self, TreeError> {
        let read: Manifest = serde_yaml::from_str(manifest)
            .map_err(|e| TreeError::Manifest(e.to_string().lines().next().unwrap_or("").into()))?;
        if let Some(missing) = read.files.keys().find(|path| !files.contains_key(*path)) {
            return Err(TreeError::Missing(missing.clone()));
        }
        let mut stacks = BTreeMap::new();
        for (short, stack) in read.stacks {
            let path = format!("stacks/{short}.yaml");
            let bytes = files.get(&path).ok_or_else(|| TreeError::Missing(path.clone()))?;
            let text: Arc<str> = String::from_utf8_lossy(bytes).into();
            let template = Template::read(&text)
                .map_err(|source| TreeError::Template { stack: short.clone(), source })?;
            let parameters = stack
                .parameters
                .into_iter()
                .map(|(n, p)| parameter(&short, n, p))
                .collect::<Result<_, _>>()?;
            stacks.insert(
                short.clone(),
                TreeStack {
                    short,
                    name: stack.name,
                    after: stack.after,
                    parameters,
                    protected: stack.protected,
                    tags: stack.tags,
                    text,
                    template: Arc::new(template),
                },
            );
        }
        let digest = crate::value::sha256(manifest.as_bytes());
        let Manifest { cluster, secrets, steps, rolls, checks, addons, pki, modes, .. } =
            Manifest { stacks: BTreeMap::new(), ..read };
        Ok(Self {
            cluster,
            stacks,
            secrets,
            steps,
            rolls,
            checks,
            addons,
            pki,
            files,
            modes,
            digest,
        })
    }

    /// Returns a tree of a cluster that has nothing.
    #[must_use]
    pub fn empty(cluster: ClusterFacts) -> Self {
        Self {
            cluster,
            stacks: BTreeMap::new(),
            secrets: Vec::new(),
            steps: BTreeMap::new(),
            rolls: BTreeMap::new(),
            checks: BTreeMap::new(),
            addons: Vec::new(),
            pki: crate::pki::Requests::default(),
            files: BTreeMap::new(),
            modes: BTreeMap::new(),
            digest: String::new(),
        }
    }

    /// Returns the folders below `nodes/` that have machines: all but the view of what pools share.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let folder = |path: &String| {
            let rest = path.strip_prefix("nodes/")?.strip_suffix("/user-data")?;
            Some(rest.to_owned())
        };
        self.files.keys().filter_map(folder).collect()
    }

    /// Returns the hash of the bundle that a group's machines ask for.
    #[must_use]
    pub fn bundle_hash(&self, group: &str) -> Option<String> {
        let text = self.files.get(&format!("nodes/{group}/user-data"))?;
        let text = String::from_utf8_lossy(text);
        let (_, rest) = text.split_once("KAWS_BUNDLE_SHA256=")?;
        Some(rest.chars().take_while(char::is_ascii_hexdigit).collect())
    }

    /// Returns the files of a group's bundle, with what all pools share.
    #[must_use]
    pub fn bundle(&self, group: &str) -> Bundle {
        let mut bundle = Bundle::new();
        let shared = group.starts_with("pool-").then_some("worker");
        for folder in shared.into_iter().chain([group]) {
            let prefix = format!("nodes/{folder}/bundle/");
            for (path, bytes) in self.files.range(prefix.clone()..) {
                let Some(inside) = path.strip_prefix(&prefix) else { break };
                let mode = self.modes.get(path).and_then(|m| u32::from_str_radix(m, 8).ok());
                let entry = Entry { bytes: Arc::clone(bytes), mode: mode.unwrap_or(0o644) };
                bundle.insert(inside.to_owned(), Arc::new(entry));
            }
        }
        bundle
    }

    /// Returns a group's bundle, if it is the one that its machines ask for.
    ///
    /// # Errors
    /// Files that are not those that the user data names.
    pub fn checked_bundle(&self, group: &str) -> Result<(String, Bundle), TreeError> {
        let bundle = self.bundle(group);
        let hash = crate::archive::hash(&bundle);
        if self.bundle_hash(group).as_deref() == Some(hash.as_str()) {
            Ok((hash, bundle))
        } else {
            Err(TreeError::Bundle { group: group.to_owned() })
        }
    }

    /// Returns the stacks in the order in which they are made, those that wait for nothing first.
    #[must_use]
    pub fn order(&self) -> Vec<&TreeStack> {
        let mut done: BTreeSet<&str> = BTreeSet::new();
        let mut order: Vec<&TreeStack> = Vec::new();
        while order.len() < self.stacks.len() {
            let ready: Vec<&TreeStack> = self
                .stacks
                .values()
                .filter(|s| !done.contains(s.short.as_str()))
                .filter(|s| {
                    s.after
                        .iter()
                        .all(|a| done.contains(a.as_str()) || !self.stacks.contains_key(a))
                })
                .collect();
            if ready.is_empty() {
                break;
            }
            done.extend(ready.iter().map(|s| s.short.as_str()));
            order.extend(ready);
        }
        order
    }
}

fn parameter(
    stack: &str,
    name: String,
    from: ManifestParameter,
) -> Result<(String, Parameter), TreeError> {
    let wrong =
        || TreeError::Manifest(format!("parameter {name} of {stack} has no source kaws knows"));
    let source = match (&from.output, &from.lock) {
        (Some(output), None) => {
            let (stack, output) = output.split_once('.').ok_or_else(wrong)?;
            Source::Output(stack.to_owned(), output.to_owned())
        }
        (None, Some(lock)) => Source::Lock(lock.clone()),
        _ => return Err(wrong()),
    };
    Ok((name, Parameter { source, locked: from.value }))
}
