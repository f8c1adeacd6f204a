//! Whether what is rendered would come up: flags that a component takes, settings that go together, and the
//! list of what a machine needs to boot. Each finding names who set what.
//!
//! Not here: AWS's limits (`limits`), and what is unwise but works (`policy`).

mod boot;
mod combinations;
mod flags;

pub(super) use boot::boot;
pub(super) use combinations::combinations;
pub(super) use flags::flags;

use crate::finding::Finding;
use crate::model::{Branch, Entity, Model};
use crate::origin::Origin;
use crate::value::Node;

/// A component's name, by the part of the model that its flags are in.
pub(super) const COMPONENTS: [(&str, &str); 3] = [
    ("apiServer", "kube-apiserver"),
    ("controllerManager", "kube-controller-manager"),
    ("scheduler", "kube-scheduler"),
];

/// Returns a finding about an entity: where it is written, by whom, and who patches it.
pub(super) fn about(finding: Finding, path: &[&str], entity: &Entity) -> Finding {
    let patches = entity.history.iter().flat_map(|history| &history.patches);
    let mut places: Vec<(&Origin, String)> = vec![(entity.body.key_origin(), String::new())];
    places.extend(patches.map(|p| (&p.patch.origin, format!("{} patches this", p.patch.plugin))));
    // A line of kaws's own code says less than the patch does.
    if let [first, _, ..] = places.as_slice()
        && !first.0.has_text()
    {
        places.remove(0);
    }
    let mut finding = finding.about(path.join("."));
    for (at, (origin, label)) in places.into_iter().enumerate() {
        finding = match (at, label.is_empty()) {
            (0, true) => finding.at(origin),
            (0, false) => finding.at_with(origin, label),
            _ => finding.related(origin, label),
        };
    }
    match entity.owners.first() {
        Some(owner) => finding.by(&owner.plugin),
        None => finding,
    }
}

/// Looks at every resource of a type, with its path (`stacks.STACK.resources.ID`) and what it says.
pub(super) fn resources(
    model: &Model,
    kind: &str,
    look: &mut dyn FnMut(&[&str], &Entity, &serde_json::Value),
) {
    model.walk(&["stacks"], &mut |path, entity| {
        // Most are of another type: only those that are asked for are written out.
        if entity.body.get("Type").and_then(Node::as_str) == Some(kind) {
            look(path, entity, &entity.body.to_value());
        }
    });
}

/// Returns the first entity that sets a flag: the flag's own, or the first of its items.
pub(super) fn setter<'m>(model: &'m Model, section: &str, flag: &str) -> Option<&'m Entity> {
    match model.branch(&[section, "flags", flag])? {
        Branch::Leaf(entity) => Some(entity),
        Branch::Map(_) => model.entities(&[section, "flags", flag]).next().map(|(_, e)| e),
    }
}

/// Returns a scalar flag's value as text.
pub(super) fn text(model: &Model, section: &str, flag: &str) -> Option<String> {
    match model.branch(&[section, "flags", flag])? {
        Branch::Leaf(entity) => Some(shown(&entity.body)),
        Branch::Map(_) => None,
    }
}

/// Returns a value as it stands on a command line.
pub(super) fn shown(body: &Node) -> String {
    body.as_str().map_or_else(|| body.to_value().to_string(), str::to_owned)
}
