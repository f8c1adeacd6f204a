//! The step `addons`: what controllers apply lies in the state bucket by the hash of its content, and an
//! index under a fixed key says what there is, in order. A changed add-on changes no machine.
//!
//! The index is lines of words apart by tabs, as a shell reads them: phase, kind, name, namespace, object,
//! its SHA-256, values, their SHA-256, and whether it stays. Not here: applying (`plugins/helm`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::charts::chart_archive;
use super::error::Error;
use super::pki::Outputs;
use super::record::Deployment;
use super::tree::Tree;
use crate::pipeline::Addon;
use crate::port::{Cloud, Web, When};
use crate::value::sha256;

const INDEX: &str = "addons/index";
const OUTPUTS: &str = "addons/outputs";
const PKI: &str = "addons/pki";
const CHECKS: &str = "addons/checks";

/// An add-on that is not what was deployed last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddonChange {
    /// Its name.
    pub name: String,
    /// `new`, `changed`, `gone`, or `stays`.
    pub change: &'static str,
}

/// Returns the add-ons that differ from those of the last deployment.
pub(super) fn changes(tree: &Tree, last: Option<&Deployment>) -> Vec<AddonChange> {
    let Some(last) = last else {
        let new = |addon: &Addon| AddonChange { name: addon.name.clone(), change: "new" };
        return tree.addons.iter().map(new).collect();
    };
    let deployed = last.addons();
    let key = |addon: &Addon| (addon.name.clone(), addon.chart.is_some());
    let before: BTreeMap<_, _> = deployed.iter().map(|a| (key(a), a)).collect();
    let now: BTreeSet<_> = tree.addons.iter().map(key).collect();
    let mut changes = Vec::new();
    for addon in &tree.addons {
        let change = match before.get(&key(addon)) {
            None => "new",
            Some(old)
                if *old == addon && tree.files.get(&addon.file) == last.files.get(&old.file) =>
            {
                continue;
            }
            Some(_) => "changed",
        };
        changes.push(AddonChange { name: addon.name.clone(), change });
    }
    for addon in deployed.iter().filter(|a| !now.contains(&key(a))) {
        let change = if addon.keep { "stays" } else { "gone" };
        changes.push(AddonChange { name: addon.name.clone(), change });
    }
    changes
}

/// Uploads what is missing, then the index. Returns what was done, in words.
pub(super) async fn publish(
    cloud: &dyn Cloud,
    web: &dyn Web,
    tree: &Tree,
    outputs: &Outputs,
) -> Result<String, Error> {
    let bucket = &tree.cluster.bucket;
    let there: BTreeSet<String> = cloud.list(bucket, "addons/").await?.into_iter().collect();
    let mut work = Work { cloud, web, bucket, there, charts: 0 };
    let mut lines = Vec::new();
    for addon in &tree.addons {
        let bytes = tree.files.get(&addon.file).cloned().unwrap_or_else(|| Arc::from(&b""[..]));
        let text = String::from_utf8_lossy(&bytes);
        match &addon.chart {
            Some(_) => {
                let (chart, hash) = work.chart(addon).await?;
                let (values, values_hash) = work.object(&text).await?;
                let namespace = addon.namespace.as_deref().unwrap_or("default");
                lines.push(line(
                    addon,
                    "release",
                    &addon.name,
                    namespace,
                    (&chart, &hash),
                    (&values, &values_hash),
                ));
            }
            None => {
                // One object each: what is taken out of a manifest is deleted, and nothing else.
                for object in text.split("\n---\n") {
                    let (key, hash) = work.object(object).await?;
                    let name = format!("{}/{}", addon.name, identity(object));
                    lines.push(line(addon, "object", &name, "-", (&key, &hash), ("-", "-")));
                }
            }
        }
    }
    publish_outputs(cloud, tree, outputs).await?;
    let files = crate::pki::files(&tree.pki);
    let pki: String =
        files.iter().map(|(name, file)| format!("{name}={}\n", file.object)).collect();
    put_if_other(cloud, bucket, PKI, pki).await?;
    put_if_other(cloud, bucket, CHECKS, checks(tree)).await?;
    let count = lines.len();
    put_if_other(cloud, bucket, INDEX, lines.concat()).await?;
    Ok(match work.charts {
        0 => format!("{count} things to apply"),
        n => format!("{count} things to apply, {n} charts uploaded"),
    })
}

/// Writes down the outputs of stacks that add-ons name, as far as they are known.
pub(super) async fn publish_outputs(
    cloud: &dyn Cloud,
    tree: &Tree,
    outputs: &Outputs,
) -> Result<(), Error> {
    let mut named = BTreeMap::new();
    for addon in &tree.addons {
        let text = tree.files.get(&addon.file).map(|b| String::from_utf8_lossy(b).into_owned());
        let text = text.unwrap_or_default();
        for (_, name) in crate::model::placeholders(&text).filter(|(word, _)| *word == "output") {
            let value = name.split_once('.').and_then(|(stack, o)| outputs.get(stack)?.get(o));
            named.extend(value.map(|value| (name.to_owned(), value.clone())));
        }
    }
    let text: String = named.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    put_if_other(cloud, &tree.cluster.bucket, OUTPUTS, text).await
}

/// What plugins' checks look at, for controllers to report: `object`, kind, namespace and name, or `service`, `-`,
/// namespace and name.
fn checks(tree: &Tree) -> String {
    let mut lines = BTreeSet::new();
    for check in tree.checks.values() {
        let word = |form: &BTreeMap<String, serde_json::Value>, key: &str| {
            form.get(key).and_then(|v| v.as_str()).unwrap_or_default().to_owned()
        };
        if let Some(form) = &check.object {
            let (kind, name) = (word(form, "kind"), word(form, "name"));
            let namespace = Some(word(form, "namespace")).filter(|n| !n.is_empty());
            // A shell takes two tabs for one.
            let namespace = namespace.unwrap_or_else(|| "-".to_owned());
            lines.insert(format!("object\t{kind}\t{namespace}\t{name}\n"));
        }
        if let Some(form) = &check.service {
            lines.insert(format!(
                "service\t-\t{}\t{}\n",
                word(form, "namespace"),
                word(form, "name")
            ));
        }
    }
    lines.into_iter().collect()
}

async fn put_if_other(
    cloud: &dyn Cloud,
    bucket: &str,
    key: &str,
    text: String,
) -> Result<(), Error> {
    let known = cloud.get(bucket, key).await?;
    if known.is_none_or(|object| object.bytes != text.as_bytes()) {
        cloud.put(bucket, key, text.into_bytes(), When::Always).await?;
    }
    Ok(())
}

fn line(
    addon: &Addon,
    kind: &str,
    name: &str,
    namespace: &str,
    (object, hash): (&str, &str),
    (values, values_hash): (&str, &str),
) -> String {
    let keep = if addon.keep { "keep" } else { "-" };
    let wait = match &addon.wait {
        None => "all".to_owned(),
        Some(some) if some.is_empty() => "-".to_owned(),
        Some(some) => some.join(","),
    };
    format!(
        "{}\t{kind}\t{name}\t{namespace}\t{object}\t{hash}\t{values}\t{values_hash}\t{keep}\t{wait}\n",
        addon.phase
    )
}

/// What an object is, in a word: `ConfigMap.kube-system.coredns`. Read from our own YAML.
fn identity(object: &str) -> String {
    let read: Option<serde_json::Value> = serde_yaml::from_str(object).ok();
    let text = |pointer: &str| {
        let value = read.as_ref().and_then(|v| v.pointer(pointer)?.as_str());
        value.map(|v| v.replace(['\t', '/', ' ', '{', '}', '@'], "-"))
    };
    let parts = [text("/kind"), text("/metadata/namespace"), text("/metadata/name")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}

struct Work<'a> {
    cloud: &'a dyn Cloud,
    web: &'a dyn Web,
    bucket: &'a str,
    there: BTreeSet<String>,
    charts: usize,
}

impl Work<'_> {
    /// Puts a text under its hash; returns both.
    async fn object(&mut self, text: &str) -> Result<(String, String), Error> {
        let hash = sha256(text.as_bytes());
        let key = format!("addons/objects/{hash}");
        if self.there.insert(key.clone()) {
            self.cloud.put(self.bucket, &key, text.as_bytes().to_vec(), When::Always).await?;
        }
        Ok((key, hash))
    }

    /// Puts a chart's archive under its digest; returns its key and its own hash. On the local cloud nobody
    /// applies charts, and none are fetched.
    async fn chart(&mut self, addon: &Addon) -> Result<(String, String), Error> {
        let Some(chart) = &addon.chart else { return Ok(("-".to_owned(), "-".to_owned())) };
        let (Some(digest), false) = (&chart.digest, self.cloud.is_local()) else {
            return Ok(("-".to_owned(), "-".to_owned()));
        };
        let short = digest.trim_start_matches("sha256:");
        // A registry's digest is not the archive's: the archive's own stands in its name.
        let prefix = format!("addons/charts/{short}/");
        if let Some(key) = self.there.iter().find(|key| key.starts_with(&prefix)) {
            return Ok((key.clone(), key[prefix.len()..].trim_end_matches(".tgz").to_owned()));
        }
        let archive =
            chart_archive(&chart.repository, &chart.name, &chart.version, digest, self.web).await?;
        let hash = sha256(&archive);
        let key = format!("{prefix}{hash}.tgz");
        self.cloud.put(self.bucket, &key, archive, When::Always).await?;
        self.there.insert(key.clone());
        self.charts += 1;
        Ok((key, hash))
    }
}
