//! Plugins: what a manifest says, what a plugin is given, and what it gives back. One trait for all
//! runtimes.
//!
//! Not here: finding plugins on disk (`load`), calling them in order (`pipeline`), and the native parts
//! of kaws's own plugins (`builtin`).

mod ask;
mod content;
pub mod contract;
mod declared;
mod lookups;
mod manifest;
pub mod program;
mod settings;
mod short;

pub use ask::{View, ask, groups, take};
pub use declared::{Declared, own_parts};
pub use lookups::{How, LookupForm, Question, answers, questions};
pub use manifest::{
    CommandForm, Files, Home, Manifest, Maturity, Package, PinForm, Provision, SecretForm, Slot,
};
pub use settings::{defaults_of, prepare};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use crate::config::{Cluster, Group};
use crate::finding::Outcome;
use crate::name::Name;
use crate::origin::Origin;
use crate::template::Engine;
use crate::value::{Node, Path};
use crate::{lock::Lock, model::Model};

/// A runtime of plugins: declared in YAML, native in the binary, a program.
///
/// Both calls are pure: the same input gives the same output, and nothing outside is asked.
pub trait Plugin: Debug + Send + Sync {
    /// Returns whether calling it waits for something else than this process: such calls go on side by side.
    fn waits(&self) -> bool {
        false
    }

    /// Returns what the plugin adds in initialise; `draft` is what earlier ranks contributed.
    fn initialise(&self, cx: &Context<'_>, draft: &Model) -> Outcome<Contribution> {
        let _ = (cx, draft);
        Outcome::default()
    }

    /// Returns what the plugin adds in render, and the files it makes.
    ///
    /// `model` is the model as lowered by earlier ranks, `made` their artifacts. It may add to
    /// `machines`, `stacks`, `manifests` and `values` only.
    fn render(&self, cx: &Context<'_>, model: &Model, made: &Artifacts) -> Outcome<Rendering> {
        let _ = (cx, model, made);
        Outcome::default()
    }
}

/// What a plugin is given beside the model.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The config.
    pub config: &'a Cluster,
    /// The config as templates see it, with the places of `cluster.yaml`.
    pub facts: &'a Node,
    /// All groups of machines.
    pub groups: &'a [Group],
    /// What kaws.lock and the table of known hashes say.
    pub lock: &'a Lock,
    /// The engine of text templates.
    pub engine: &'a Engine,
    /// What plugins of earlier ranks computed, as templates see it.
    pub values: &'a Node,
    /// All plugins that are on.
    pub plugins: &'a [Instance],
    /// The model as programs are told it; made once for all of a rank, where one of them is a program.
    pub view: &'a View,
    /// This plugin, as it is used.
    pub me: &'a Instance,
}

impl<'a> Context<'a> {
    /// Returns the plugin's setting at `path`; null where it is not set.
    #[must_use]
    pub fn setting(&self, path: &[&str]) -> Value {
        self.me.settings.at(path).map_or(Value::Null, Node::to_value)
    }

    /// Returns the groups the plugin is on.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Group> + use<'a> {
        let on: BTreeSet<&'a str> = self.me.nodes.iter().map(String::as_str).collect();
        self.groups.iter().filter(move |group| on.contains(group.key.as_str()))
    }
}

/// A plugin as one cluster uses it: a package, under a name, with settings, on some groups.
#[derive(Debug)]
pub struct Instance {
    /// Its name: the package's, or another for a second instance.
    pub name: Name,
    /// The package.
    pub package: Arc<Package>,
    /// Its settings with defaults.
    pub settings: Node,
    /// Settings of pools that have their own.
    pub pool_settings: BTreeMap<String, Node>,
    /// The keys of the groups it is on.
    pub nodes: Arc<[String]>,
    /// Their stacks.
    pub stacks: Arc<[String]>,
    /// Whether `cluster.yaml` narrowed it to fewer groups than its manifest offers.
    pub narrowed: bool,
    /// Where `cluster.yaml` turns it on, if it does.
    pub origin: Option<Origin>,
    /// What does its work in initialise.
    pub initialise: Arc<dyn Plugin>,
    /// What does its work in render.
    pub render: Arc<dyn Plugin>,
}

impl Instance {
    /// Returns the same instance once more.
    #[must_use]
    pub fn share(&self) -> Self {
        Self {
            name: self.name.clone(),
            package: Arc::clone(&self.package),
            settings: self.settings.clone(),
            pool_settings: self.pool_settings.clone(),
            nodes: Arc::clone(&self.nodes),
            stacks: Arc::clone(&self.stacks),
            narrowed: self.narrowed,
            origin: self.origin.clone(),
            initialise: Arc::clone(&self.initialise),
            render: Arc::clone(&self.render),
        }
    }

    /// Returns the settings that count for a group.
    #[must_use]
    pub fn settings_for(&self, group: &Group) -> &Node {
        group.pool.as_ref().and_then(|pool| self.pool_settings.get(pool)).unwrap_or(&self.settings)
    }
}

/// What a plugin adds in one stage.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    /// Parts of the model as trees, each with the groups its `nodes` stands for, if not all.
    pub parts: Vec<Part>,
    /// Single entities, as native plugins put them.
    pub entities: Vec<Made>,
}

/// A part of the model as a tree.
#[derive(Clone, Debug)]
pub struct Part {
    /// The tree.
    pub tree: Node,
    /// The groups that `nodes` and `worker` stand for in it.
    pub groups: Option<Vec<String>>,
}

/// A single entity.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its path.
    pub path: Path,
    /// What it is.
    pub body: Node,
    /// The entities it was made from.
    pub from: Vec<Path>,
}

impl Contribution {
    /// Adds an entity; its place is the line of code that calls this.
    #[track_caller]
    pub fn put(&mut self, plugin: &str, path: impl Into<PathLike>, body: Value) -> &mut Made {
        let origin = Origin::code(plugin, std::panic::Location::caller());
        self.put_node(path, Node::from_value(body, &origin))
    }

    /// Adds an entity that has places of its own.
    pub fn put_node(&mut self, path: impl Into<PathLike>, body: Node) -> &mut Made {
        self.entities.push(Made { path: path.into().0, body, from: Vec::new() });
        self.entities.last_mut().expect("it was just pushed")
    }
}

impl Made {
    /// Names what the entity was made from.
    pub fn from(&mut self, path: Path) -> &mut Self {
        if !self.from.contains(&path) {
            self.from.push(path);
        }
        self
    }
}

/// A path, or what it can be made of.
#[derive(Clone, Debug)]
pub struct PathLike(pub Path);

impl From<Path> for PathLike {
    fn from(path: Path) -> Self {
        Self(path)
    }
}

impl<const N: usize> From<[&str; N]> for PathLike {
    fn from(segments: [&str; N]) -> Self {
        Self(Path::of(segments))
    }
}

/// What a plugin adds in render.
#[derive(Clone, Debug, Default)]
pub struct Rendering {
    /// What it adds to the model.
    pub contribution: Contribution,
    /// The files it makes, by path below `rendered/`.
    pub artifacts: BTreeMap<String, Artifact>,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// The plugin that made it.
    pub plugin: Name,
    /// Its permissions where it ends up: on a node, for files of bundles.
    pub mode: u32,
}

impl Artifact {
    /// Returns a text made by `plugin`.
    #[must_use]
    pub fn text(plugin: &Name, text: &str) -> Self {
        Self { bytes: text.as_bytes().into(), plugin: plugin.clone(), mode: 0o644 }
    }
}

/// All finished files, by path.
pub type Artifacts = BTreeMap<String, Artifact>;
