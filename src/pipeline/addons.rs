//! What controllers apply to the running cluster, in order: manifests and releases by phase, and in a phase
//! each after those it names.

use serde::{Deserialize, Serialize};

use super::Setup;
use crate::model::{Model, Release};
use crate::value::Node;

/// The phases, in order: each waits for the one before.
pub const PHASES: [&str; 7] = ["base", "cni", "cloud", "dns", "storage", "identity", "apps"];

/// A release or the objects of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Addon {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// The file of `rendered/` that it is: a manifest, or a release's values.
    pub file: String,
    /// Whether it stays when it is no longer rendered.
    #[serde(default)]
    pub keep: bool,
    /// The chart, of a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartPin>,
    /// The namespace, of a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What of a release must be ready before the next add-on is applied; none says all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Vec<String>>,
}

/// A chart, and which exactly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChartPin {
    /// `https://…` or `oci://…`.
    pub repository: String,
    /// Its name there.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What kaws.lock says it is: `sha256:…`.
    pub digest: Option<String>,
}

/// Returns everything that is applied, in order.
#[must_use]
pub fn addons(setup: &Setup, model: &Model) -> Vec<Addon> {
    let mut all: Vec<(Addon, Vec<String>)> = Vec::new();
    let text = |body: &Node, key: &str| {
        body.get(key).and_then(Node::as_str).map_or_else(|| "apps".to_owned(), str::to_owned)
    };
    let keep = |body: &Node| body.get("keep").and_then(Node::as_bool) == Some(true);
    for (name, entity) in model.entities(&["manifests"]) {
        let phase = text(&entity.body, "phase");
        let addon = Addon {
            name: name.to_owned(),
            file: manifest_file(name, &phase),
            phase,
            keep: keep(&entity.body),
            chart: None,
            namespace: None,
            wait: None,
        };
        all.push((addon, after(&entity.body)));
    }
    for (name, entity) in model.entities(&["helm", "releases"]) {
        let Ok(form) = serde_json::from_value::<Release>(entity.body.to_value()) else { continue };
        let pin = format!("chart/{}/{}", form.chart.name, form.chart.version);
        let addon = Addon {
            name: name.to_owned(),
            phase: form.phase,
            file: format!("helm/{name}/values.yaml"),
            keep: form.keep,
            chart: Some(ChartPin {
                repository: form.chart.repository,
                name: form.chart.name,
                version: form.chart.version,
                digest: setup.lock.pin(&pin, None).map(|p| p.value.clone()),
            }),
            namespace: Some(form.namespace),
            wait: form.wait,
        };
        all.push((addon, form.after));
    }
    // A manifest before a release of the same name and phase: it may be the release's namespace.
    all.sort_by(|(a, _), (b, _)| {
        (place(&a.phase), &a.name, a.chart.is_some()).cmp(&(
            place(&b.phase),
            &b.name,
            b.chart.is_some(),
        ))
    });
    in_sequence(all)
}

/// Returns the path of a manifest's file; its number is its phase's.
#[must_use]
pub fn manifest_file(name: &str, phase: &str) -> String {
    format!("manifests/{}0-{name}.yaml", place(phase))
}

fn place(phase: &str) -> usize {
    PHASES.iter().position(|p| *p == phase).unwrap_or(PHASES.len())
}

fn after(body: &Node) -> Vec<String> {
    let list = body.get("after").map(Node::to_value);
    list.and_then(|v| serde_json::from_value(v).ok()).unwrap_or_default()
}

/// Each after those of its phase that it names; in a circle the names decide.
fn in_sequence(mut left: Vec<(Addon, Vec<String>)>) -> Vec<Addon> {
    let mut done = Vec::new();
    while !left.is_empty() {
        let phase = left[0].0.phase.clone();
        let waits = |addon: &Addon, after: &[String]| {
            left.iter().any(|(other, _)| {
                other.phase == phase && other.name != addon.name && after.contains(&other.name)
            })
        };
        let next = left.iter().position(|(a, after)| a.phase == phase && !waits(a, after));
        done.push(left.remove(next.unwrap_or(0)).0);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_in_its_phase_and_after_those_it_names() {
        let addon = |name: &str, phase: &str, after: &[&str]| {
            let addon = Addon {
                name: name.to_owned(),
                phase: phase.to_owned(),
                file: String::new(),
                keep: false,
                chart: None,
                namespace: None,
                wait: None,
            };
            (addon, after.iter().map(|a| (*a).to_owned()).collect())
        };
        let all = vec![
            addon("z", "base", &[]),
            addon("a", "cni", &["c"]),
            addon("b", "cni", &["later"]),
            addon("c", "cni", &[]),
            addon("later", "apps", &[]),
        ];
        let names: Vec<String> = in_sequence(all).into_iter().map(|a| a.name).collect();
        assert_eq!(names, ["z", "b", "c", "a", "later"]);
    }
}
