//! The model as people read it: what all pools share is written once, as `worker`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::scope::GROUPED;
use super::tree::{Branch, Entity, Model};
use crate::origin::{Origin, SourceFile};
use crate::value::{Data, Node};

impl Model {
    /// Returns the model as plain values, without owners: what `model.yaml` holds.
    #[must_use]
    pub fn to_node(&self) -> Node {
        let origin = Origin::file_start(&SourceFile::new("model", ""));
        let mut all = BTreeMap::new();
        if let Branch::Map(parts) = &self.root {
            for (part, branch) in parts {
                let fold = GROUPED.contains(&part.as_str()) && part != "securityGroups";
                let node = if fold { folded(branch, &origin) } else { plain(branch, &origin) };
                all.insert(part.clone(), node);
            }
        }
        Node::new(Data::Map(all), origin)
    }
}

fn plain(branch: &Branch, origin: &Origin) -> Node {
    match branch {
        Branch::Leaf(entity) => (*entity.body).clone(),
        Branch::Map(map) => {
            let map = map.iter().map(|(key, inner)| (key.clone(), plain(inner, origin))).collect();
            Node::new(Data::Map(map), origin.clone())
        }
    }
}

/// Returns the groups of one part, with the pools' common entities under `worker`.
fn folded(branch: &Branch, origin: &Origin) -> Node {
    let Branch::Map(groups) = branch else { return plain(branch, origin) };
    let (pools, others): (Vec<_>, Vec<_>) =
        groups.iter().partition(|(name, _)| name.starts_with("pool:"));
    let mut all: BTreeMap<String, Node> =
        others.into_iter().map(|(name, inner)| (name.clone(), plain(inner, origin))).collect();
    let branches: Vec<&Branch> = pools.iter().map(|(_, inner)| *inner).collect();
    if !branches.is_empty() {
        let (common, own) = divided(&branches, origin);
        all.extend(common.map(|node| ("worker".to_owned(), node)));
        let named =
            pools.iter().zip(own).filter_map(|((name, _), node)| Some(((*name).clone(), node?)));
        all.extend(named);
    }
    Node::new(Data::Map(all), origin.clone())
}

/// Divides branches into what all of them have, and what each has besides.
fn divided(branches: &[&Branch], origin: &Origin) -> (Option<Node>, Vec<Option<Node>>) {
    let leaves: Vec<&Entity> = branches
        .iter()
        .filter_map(|b| if let Branch::Leaf(e) = b { Some(e) } else { None })
        .collect();
    if leaves.len() == branches.len() {
        let first = &leaves[0].body;
        if leaves.iter().all(|e| Arc::ptr_eq(&e.body, first) || *e.body == **first) {
            return (Some((**first).clone()), vec![None; branches.len()]);
        }
        return (None, leaves.iter().map(|e| Some((*e.body).clone())).collect());
    }
    let maps: Vec<&BTreeMap<String, Branch>> = branches
        .iter()
        .filter_map(|b| if let Branch::Map(m) = b { Some(m) } else { None })
        .collect();
    if maps.len() < branches.len() {
        return (None, branches.iter().map(|b| Some(plain(b, origin))).collect());
    }
    let mut common = BTreeMap::new();
    let mut own: Vec<BTreeMap<String, Node>> = vec![BTreeMap::new(); maps.len()];
    let keys: BTreeSet<&String> = maps.iter().flat_map(|m| m.keys()).collect();
    for key in keys {
        let inner: Vec<Option<&Branch>> = maps.iter().map(|m| m.get(key)).collect();
        if let Some(all) = inner.iter().copied().collect::<Option<Vec<&Branch>>>() {
            let (shared, besides) = divided(&all, origin);
            common.extend(shared.map(|node| (key.clone(), node)));
            for (mine, node) in own.iter_mut().zip(besides) {
                mine.extend(node.map(|node| (key.clone(), node)));
            }
        } else {
            for (mine, branch) in own.iter_mut().zip(inner) {
                mine.extend(branch.map(|b| (key.clone(), plain(b, origin))));
            }
        }
    }
    let node = |map: BTreeMap<String, Node>| {
        (!map.is_empty()).then(|| Node::new(Data::Map(map), origin.clone()))
    };
    (node(common), own.into_iter().map(node).collect())
}
