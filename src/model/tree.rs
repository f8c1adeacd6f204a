//! The tree itself: branches, entities, and who claimed them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::patch::AppliedPatch;
use crate::name::Name;
use crate::origin::Origin;
use crate::value::{Node, Path};

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Collects intent.
    Initialise,
    /// Lowers it into what runs.
    Render,
    /// Makes it run.
    Deploy,
    /// Looks whether it does.
    Validate,
}

/// One plugin's claim on one entity.
#[derive(Debug, PartialEq)]
pub struct Claimant {
    /// The plugin.
    pub plugin: Name,
    /// The stage it claimed in.
    pub stage: Stage,
    /// What it wants.
    pub body: Arc<Node>,
    /// Whether it yields to any plain value (`$default`).
    pub yields: bool,
    /// The role it named, where that stood for several groups: `nodes`, `worker`.
    pub through: Option<String>,
    /// The entities it was made from, for entities made in render.
    pub from: Vec<Path>,
}

impl Claimant {
    /// Returns where the claim is written.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        self.body.key_origin()
    }
}

/// The smallest thing that is merged.
#[derive(Clone, Debug)]
pub struct Entity {
    /// What it is.
    pub body: Arc<Node>,
    /// Who wants it so, by name; never empty.
    pub owners: Vec<Arc<Claimant>>,
    /// Who wanted it otherwise and yielded, and what patches did; rare.
    pub history: Option<Box<History>>,
}

/// What an entity was before.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Claims that yielded to the owners', with the reason.
    pub yielded: Vec<(Arc<Claimant>, &'static str)>,
    /// Patches, in the order they were applied.
    pub patches: Vec<AppliedPatch>,
}

impl Entity {
    /// Returns the entity that `claimant` alone owns.
    #[must_use]
    pub fn new(claimant: Arc<Claimant>) -> Self {
        Self { body: Arc::clone(&claimant.body), owners: vec![claimant], history: None }
    }

    /// Returns the owners' names, sorted, without repetition.
    #[must_use]
    pub fn owner_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.owners.iter().map(|o| o.plugin.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns whether every owner yields to plain values.
    #[must_use]
    pub fn yields(&self) -> bool {
        self.owners.iter().all(|o| o.yields)
    }

    pub(super) fn history(&mut self) -> &mut History {
        self.history.get_or_insert_default()
    }
}

/// A part of the tree: branches by name, or an entity.
#[derive(Clone, Debug)]
pub enum Branch {
    /// More of the tree.
    Map(BTreeMap<String, Branch>),
    /// A leaf.
    Leaf(Entity),
}

/// The whole cluster.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) root: Branch,
    /// Parts that are finished: later additions to them are findings.
    pub(super) sealed: Vec<String>,
}

impl Default for Model {
    fn default() -> Self {
        Self { root: Branch::Map(BTreeMap::new()), sealed: Vec::new() }
    }
}

impl Model {
    /// Returns the part at `path`.
    #[must_use]
    pub fn branch(&self, path: &[&str]) -> Option<&Branch> {
        path.iter().try_fold(&self.root, |branch, segment| match branch {
            Branch::Map(map) => map.get(*segment),
            Branch::Leaf(_) => None,
        })
    }

    /// Returns the entity at `path`.
    #[must_use]
    pub fn entity(&self, path: &[&str]) -> Option<&Entity> {
        match self.branch(path)? {
            Branch::Leaf(entity) => Some(entity),
            Branch::Map(_) => None,
        }
    }

    /// Returns the names below `path`, sorted.
    #[must_use]
    pub fn names(&self, path: &[&str]) -> Vec<&str> {
        match self.branch(path) {
            Some(Branch::Map(map)) => map.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the entities directly below `path`, by name.
    pub fn entities<'a>(
        &'a self,
        path: &[&str],
    ) -> impl Iterator<Item = (&'a str, &'a Entity)> + use<'a> {
        let map = match self.branch(path) {
            Some(Branch::Map(map)) => Some(map),
            _ => None,
        };
        map.into_iter().flatten().filter_map(|(name, branch)| match branch {
            Branch::Leaf(entity) => Some((name.as_str(), entity)),
            Branch::Map(_) => None,
        })
    }

    /// Calls `visit` with every entity below `path`, in order.
    pub fn walk<'a>(&'a self, path: &[&str], visit: &mut dyn FnMut(&[&'a str], &'a Entity)) {
        fn go<'a>(
            branch: &'a Branch,
            at: &mut Vec<&'a str>,
            visit: &mut dyn FnMut(&[&'a str], &'a Entity),
        ) {
            match branch {
                Branch::Leaf(entity) => visit(at, entity),
                Branch::Map(map) => {
                    for (name, branch) in map {
                        at.push(name);
                        go(branch, at, visit);
                        at.pop();
                    }
                }
            }
        }
        let mut at = Vec::new();
        let mut branch = &self.root;
        for segment in path {
            let Branch::Map(map) = branch else { return };
            let Some((name, next)) = map.get_key_value(*segment) else { return };
            at.push(name.as_str());
            branch = next;
        }
        go(branch, &mut at, visit);
    }

    /// Returns the entity that `path` names or leads into, and what is left of the path inside it.
    #[must_use]
    pub fn entity_around<'p>(&self, path: &'p [String]) -> Option<(&Entity, &'p [String])> {
        let mut branch = &self.root;
        for (i, segment) in path.iter().enumerate() {
            let Branch::Map(map) = branch else { return None };
            branch = map.get(segment)?;
            if let Branch::Leaf(entity) = branch {
                return Some((entity, &path[i + 1..]));
            }
        }
        None
    }

    /// Returns the values that plugins computed, as templates see them: `{network: {vpcId: …}}`.
    #[must_use]
    pub fn values(&self) -> Node {
        let origin = Origin::file_start(&crate::origin::SourceFile::new("model", ""));
        let mut plugins: BTreeMap<String, Node> = BTreeMap::new();
        self.walk(&["values"], &mut |path, entity| {
            if let [_, plugin, key] = path {
                let all = plugins
                    .entry((*plugin).to_owned())
                    .or_insert_with(|| Node::empty_map(origin.clone()));
                if let Some(map) = all.as_map_mut() {
                    map.insert((*key).to_owned(), (*entity.body).clone());
                }
            }
        });
        Node::new(crate::value::Data::Map(plugins), origin)
    }
}
