//! What Kubernetes knows: flags, feature gates and admission plugins of each minor that kaws renders, and
//! what was removed before.
//!
//! The tables are data: `flags.json`, generated from the components' own programs, and `removed.json`, by
//! hand. Not here: what is said about a cluster that does not fit (`builtin`).

mod configs;
mod duration;
mod metrics;

pub use configs::{Fault, config_versions, faults, field_faults};
pub use duration::seconds;
pub use metrics::deprecated_apis;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The tables. A cluster asks for few of the many rows, so each is read when it is asked for.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Tables {
    flags: BTreeMap<&'static str, Rows>,
    gates: Rows,
    #[serde(rename = "gates apart")]
    apart: BTreeMap<String, BTreeMap<String, GateRows>>,
    admission: BTreeMap<String, Admission>,
}

type Rows = BTreeMap<&'static str, &'static RawValue>;

/// By minor: stage, default, and whether it is locked to the default.
type GateRows = BTreeMap<String, Option<(String, bool, bool)>>;

#[derive(Debug, Deserialize)]
struct Row {
    #[serde(rename = "type")]
    kind: Value,
    #[serde(default)]
    default: Option<Value>,
    since: Option<u32>,
    removed: Option<u32>,
    deprecated: Option<Deprecated>,
}

#[derive(Debug, Deserialize)]
struct Deprecated {
    since: u32,
    message: String,
    until: Option<u32>,
}

/// The admission plugins of a minor.
#[derive(Clone, Debug, Deserialize)]
pub struct Admission {
    /// All of them.
    pub known: Vec<String>,
    /// Those that are on unless they are turned off.
    pub on: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Removed {
    flags: BTreeMap<String, BTreeMap<String, Gone>>,
    admission: BTreeMap<String, Gone>,
}

/// Something that Kubernetes no longer has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Gone {
    /// The first minor without it: `1.24`.
    pub removed: String,
    /// What to do instead.
    pub instead: String,
}

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| serde_json::from_str(include_str!("flags.json")).expect("a test reads it"));
static REMOVED: LazyLock<Removed> =
    LazyLock::new(|| serde_json::from_str(include_str!("removed.json")).expect("a test reads it"));

/// Returns a row of a table.
fn row<T: Deserialize<'static>>(rows: &Rows, name: &str) -> Option<T> {
    rows.get(name).map(|raw| serde_json::from_str(raw.get()).expect("a test reads every row"))
}

/// What a component makes of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flag {
    /// It takes it.
    Known(Known),
    /// It takes it from a later minor on.
    Later(u32),
    /// It no longer takes it.
    Gone(Gone),
    /// No minor ever took it.
    Unknown,
}

/// A flag that a component takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its type, as the component's help names it: `bool`, `duration`, `stringSlice`.
    pub kind: String,
    /// Its default, as text.
    pub default: String,
    /// Why it is deprecated, if it is.
    pub deprecated: Option<String>,
}

/// Returns what a component (`kube-apiserver`) of a minor makes of a flag.
#[must_use]
pub fn flag(component: &str, name: &str, minor: u32) -> Flag {
    let row = TABLES.flags.get(component).and_then(|flags| row::<Row>(flags, name));
    let Some(row) = row else {
        let gone = [component, "*"].iter().find_map(|c| REMOVED.flags.get(*c)?.get(name));
        return gone.map_or(Flag::Unknown, |gone| Flag::Gone(gone.clone()));
    };
    if let Some(since) = row.since.filter(|since| *since > minor) {
        return Flag::Later(since);
    }
    if let Some(removed) = row.removed.filter(|removed| *removed <= minor) {
        let instead = row.deprecated.as_ref().map_or("Leave it out.", |d| d.message.as_str());
        return Flag::Gone(Gone { removed: format!("1.{removed}"), instead: instead.to_owned() });
    }
    let deprecated = row
        .deprecated
        .as_ref()
        .filter(|d| d.since <= minor && d.until.is_none_or(|until| until > minor));
    Flag::Known(Known {
        kind: at(&row.kind, minor),
        default: row.default.as_ref().map(|v| at(v, minor)).unwrap_or_default(),
        deprecated: deprecated.map(|d| d.message.clone()),
    })
}

/// A text, or the text of the newest minor that is not newer than `minor`.
fn at(value: &Value, minor: u32) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let fits = map.iter().filter(|(m, _)| m.parse::<u32>().is_ok_and(|m| m <= minor));
            let last = fits.max_by_key(|(m, _)| m.parse::<u32>().unwrap_or(0));
            last.and_then(|(_, v)| v.as_str()).unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

/// Returns the flags that a component of a minor takes.
#[must_use]
pub fn flags(component: &str, minor: u32) -> Vec<&'static str> {
    let all = TABLES.flags.get(component).into_iter().flat_map(|flags| flags.keys());
    all.copied().filter(|name| matches!(flag(component, name, minor), Flag::Known(_))).collect()
}

/// A feature gate, as a component of a minor has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// `Alpha`, `Beta`, `GA` or `Deprecated`.
    pub stage: String,
    /// Its value unless it is set.
    pub default: bool,
    /// Whether it can have no other.
    pub locked: bool,
}

/// Returns a feature gate, if a component of a minor knows it.
#[must_use]
pub fn gate(component: &str, name: &str, minor: u32) -> Option<Gate> {
    let apart = TABLES.apart.get(component).and_then(|gates| gates.get(name)).cloned();
    let rows: GateRows = apart.or_else(|| row(&TABLES.gates, name))?;
    let fits = rows.iter().filter(|(m, _)| m.parse::<u32>().is_ok_and(|m| m <= minor));
    let (_, row) = fits.max_by_key(|(m, _)| m.parse::<u32>().unwrap_or(0))?;
    row.clone().map(|(stage, default, locked)| Gate { stage, default, locked })
}

/// Returns the minors that know a gate, from the first to the last; for what to say of one that is not known.
#[must_use]
pub fn gate_minors(name: &str) -> Option<(u32, Option<u32>)> {
    let rows: GateRows = row(&TABLES.gates, name)?;
    let mut minors: Vec<(u32, bool)> =
        rows.iter().filter_map(|(m, row)| Some((m.parse().ok()?, row.is_some()))).collect();
    minors.sort_unstable();
    let first = minors.iter().find(|(_, there)| *there)?.0;
    Some((first, minors.iter().find(|(m, there)| !there && *m > first).map(|(m, _)| *m)))
}

/// Returns all gates.
pub fn gates() -> impl Iterator<Item = &'static str> {
    TABLES.gates.keys().copied()
}

/// The groups of kube-apiserver's own APIs, and the first minor that has each (modules k8s.io/api,
/// apiextensions-apiserver and kube-aggregator of 1.34 to 1.37).
const API_GROUPS: [(&str, u32); 26] = [
    ("admission.k8s.io", 34),
    ("admissionregistration.k8s.io", 34),
    ("apiextensions.k8s.io", 34),
    ("apiregistration.k8s.io", 34),
    ("apps", 34),
    ("authentication.k8s.io", 34),
    ("authorization.k8s.io", 34),
    ("autoscaling", 34),
    ("batch", 34),
    ("certificates.k8s.io", 34),
    ("coordination.k8s.io", 34),
    ("discovery.k8s.io", 34),
    ("events.k8s.io", 34),
    ("extensions", 34),
    ("flowcontrol.apiserver.k8s.io", 34),
    ("imagepolicy.k8s.io", 34),
    ("internal.apiserver.k8s.io", 34),
    ("lifecycle.k8s.io", 37),
    ("networking.k8s.io", 34),
    ("node.k8s.io", 34),
    ("policy", 34),
    ("rbac.authorization.k8s.io", 34),
    ("resource.k8s.io", 34),
    ("scheduling.k8s.io", 34),
    ("storage.k8s.io", 34),
    ("storagemigration.k8s.io", 34),
];

/// Returns the groups of APIs that kube-apiserver of a minor has of its own, without the core's.
#[must_use]
pub fn api_groups(minor: u32) -> Vec<&'static str> {
    API_GROUPS.iter().filter(|(_, since)| *since <= minor).map(|(group, _)| *group).collect()
}

/// Returns the admission plugins of a minor.
///
/// # Panics
/// Never: a test reads the table.
#[must_use]
pub fn admission(minor: u32) -> &'static Admission {
    let fits = TABLES.admission.iter().filter(|(m, _)| m.parse::<u32>().is_ok_and(|m| m <= minor));
    let last = fits.max_by_key(|(m, _)| m.parse::<u32>().unwrap_or(0));
    last.map(|(_, plugins)| plugins).expect("the table begins with the first minor")
}

/// Returns what was said of an admission plugin that is gone.
#[must_use]
pub fn gone_admission(name: &str) -> Option<&'static Gone> {
    REMOVED.admission.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read() {
        let rows: usize = TABLES.flags.values().map(BTreeMap::len).sum();
        assert!(rows > 400, "{rows}");
        for component in TABLES.flags.keys() {
            let known: usize = (34..=37).map(|minor| flags(component, minor).len()).sum();
            assert!(known > 0, "{component}");
        }
        assert!(gates().filter_map(gate_minors).count() > 200);
    }

    #[test]
    fn a_flag_is_known_from_one_minor_up_to_another() {
        let later = flag("kube-apiserver", "tls-curve-preferences", 34);
        assert_eq!(later, Flag::Later(36));
        let Flag::Gone(gone) = flag("kube-controller-manager", "concurrent-service-syncs", 37)
        else {
            panic!("1.37 has it no more");
        };
        assert_eq!(gone.removed, "1.37");
        let Flag::Gone(gone) = flag("kube-apiserver", "insecure-port", 36) else {
            panic!("long gone")
        };
        assert_eq!(gone.removed, "1.24");
        assert_eq!(flag("kube-apiserver", "no-such-flag", 36), Flag::Unknown);
        let Flag::Known(known) = flag("kube-apiserver", "audit-log-maxage", 36) else { panic!() };
        assert_eq!((known.kind.as_str(), known.default.as_str()), ("int", "366"));
    }

    #[test]
    fn gates_and_plugins_change_with_the_minor() {
        assert!(gate("kube-apiserver", "SidecarContainers", 36).is_some_and(|g| g.locked));
        assert_eq!(gate("kube-apiserver", "SidecarContainers", 37), None);
        assert_eq!(gate_minors("SidecarContainers"), Some((34, Some(37))));
        assert!(admission(37).known.iter().any(|p| p == "NodeRestriction"));
        assert!(gone_admission("PodSecurityPolicy").is_some());
    }
}
