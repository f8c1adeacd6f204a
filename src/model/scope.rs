//! Where a plugin may write, and which groups the names it uses stand for.

use std::sync::Arc;

use super::entities::Kind;
use super::shape::Section;
use super::tree::Stage;
use crate::config::{Group, Role};
use crate::finding::Finding;
use crate::name::Name;
use crate::value::{Node, Path};

/// Parts of the model whose second segment is a group.
pub const GROUPED: [&str; 4] = ["iam", "kubelet", "machines", "securityGroups"];

/// Parts of the model that render may still add to.
const RENDERED: [&str; 4] = ["machines", "manifests", "stacks", "values"];

/// How a contribution is split: for whom, and what its role names stand for.
#[derive(Clone, Copy, Debug)]
pub struct Split<'a> {
    /// The plugin.
    pub plugin: &'a Name,
    /// The stage.
    pub stage: Stage,
    /// The groups that `nodes` stands for.
    pub nodes: &'a Arc<[String]>,
    /// Their stacks, in the same order.
    pub stacks: &'a Arc<[String]>,
    /// All pools, for a literal `worker`.
    pub pools: &'a Arc<[String]>,
    /// All groups of the cluster.
    pub groups: &'a [Group],
    /// The roles that the manifest offers: what `nodes` can stand for at all.
    pub offered: &'a [Role],
    /// Whether `cluster.yaml` narrowed the plugin to fewer groups than its manifest offers.
    pub narrowed: bool,
    /// Whether the plugin is on in all pools, so that a literal `worker` means what it says.
    pub all_pools: bool,
    /// Whether the entity is made from others: what those name, their plugins were asked about.
    pub lowered: bool,
    /// Where it may write: `None` for anywhere.
    pub writes: Option<&'a [Path]>,
}

/// Where a claim ends up.
#[derive(Debug)]
pub(super) struct Target {
    /// The path; where `groups` are given, its second segment stands for each of them.
    pub path: Path,
    /// What the second segment becomes.
    pub groups: Option<Arc<[String]>>,
    /// The word that stood for them.
    pub through: Option<String>,
}

impl Split<'_> {
    /// Refuses a claim that the stage or the manifest's `writes:` does not cover.
    pub(super) fn allows(
        &self,
        body: &Node,
        path: &[&str],
        section: &Section,
    ) -> Result<(), Box<Finding>> {
        let refused = |code, text: String, help: &str| {
            Err(Box::new(self.fatal(code, text).at(body.key_origin()).help(help)))
        };
        if self.stage == Stage::Render && !RENDERED.contains(&path[0]) {
            let text = format!("{} is intent: it belongs to initialise", shown(path));
            let help = "in render a plugin may add to machines, stacks, manifests and values";
            return refused("model/render-scope", text, help);
        }
        let Some(writes) = self.writes else { return Ok(()) };
        let own = path[0] == "values" && path.get(1) == Some(&self.plugin.as_str());
        let free = section.private
            && !matches!(section.kind, Kind::Patch | Kind::NodeHook | Kind::HostHook);
        // A patch writes where it points.
        let at = body.get("at").and_then(Node::as_str).filter(|_| section.kind == Kind::Patch);
        let at = at.and_then(|text| Path::parse(text).ok());
        let target = at.as_ref().map_or_else(|| path.to_vec(), Path::segments);
        if own || free || writes.iter().any(|w| self.covers(w, &target)) {
            return Ok(());
        }
        let target = shown(&target);
        let text = format!("{} contributes to {target}, and does not declare it", self.plugin);
        let help =
            format!("add it to the manifest, if it should:\n\n    writes:\n      - {target}");
        refused("merge/undeclared-write", text, &help)
    }

    /// Whether a declared path is the target, or above it.
    fn covers(&self, declared: &Path, target: &[&str]) -> bool {
        declared.0.len() <= target.len()
            && declared.0.iter().zip(target).enumerate().all(|(i, (declared, named))| {
                declared == named || (i == 1 && self.stands_for(declared, named))
            })
    }

    /// Whether a declared `nodes` or `worker` stands for the group or stack that is named.
    fn stands_for(&self, declared: &str, named: &str) -> bool {
        match declared {
            "nodes" => self.nodes.iter().chain(self.stacks.iter()).any(|n| n == named),
            "worker" => named.starts_with("pool:"),
            _ => false,
        }
    }

    /// Returns where a claim ends up, or why it may not go there.
    pub(super) fn target(
        &self,
        body: &Node,
        path: &[&str],
        section: &Section,
    ) -> Result<Target, Box<Finding>> {
        let mut full = Path::of(path.iter().copied());
        if let Some(last) = full.0.last_mut().filter(|_| section.private) {
            *last = format!("{}/{last}", self.plugin);
        }
        let part = path[0];
        let named = path.get(1).copied().unwrap_or_default();
        let grouped = GROUPED.contains(&part) && named != "serviceAccounts";
        let refused = |finding: Finding| Err(Box::new(finding.at(body.key_origin())));
        if part == "stacks" && self.narrowed && self.others_stack(named) {
            let text =
                format!("{} contributes to the stack {named}, and is not on there", self.plugin);
            let help = "write stacks.nodes, which means the stacks of the groups the plugin is on";
            return refused(self.fatal("merge/outside-pools", text).help(help));
        }
        if named == "nodes" && (grouped || part == "stacks") && self.offered.is_empty() {
            let text = format!("{} says `nodes`, and its manifest is for no nodes", self.plugin);
            let help = "say in plugin.yaml which: nodes: [controller, worker]";
            return refused(self.fatal("plugin/nodes", text).help(help));
        }
        let groups = match named {
            "nodes" if part == "stacks" => Some(self.stacks),
            "nodes" if grouped => Some(self.nodes),
            _ if grouped && self.unknown_group(part, named) => {
                let text = format!("the cluster has no group `{named}`");
                let known: Vec<&str> = self.groups.iter().map(|g| g.key.as_str()).collect();
                let help = format!("it has: {}, worker", known.join(", "));
                return refused(self.fatal("model/unknown-group", text).help(help));
            }
            _ if grouped && self.outside(part, named) => {
                return refused(self.literal_role(path, named));
            }
            "worker" if grouped && part != "securityGroups" => Some(self.pools),
            _ => None,
        };
        let through = groups.map(|_| named.to_owned());
        Ok(Target { path: full, groups: groups.map(Arc::clone), through })
    }

    /// Whether a stack is that of a group the plugin is not on.
    fn others_stack(&self, stack: &str) -> bool {
        self.groups.iter().any(|g| g.stack == stack) && !self.stacks.iter().any(|s| s == stack)
    }

    /// Whether no machines have this name; security groups can have names of their own.
    fn unknown_group(&self, part: &str, group: &str) -> bool {
        let named = part == "securityGroups" && !group.starts_with("pool:");
        !named && group != "worker" && !self.groups.iter().any(|g| g.key == group)
    }

    /// Whether a literally named group is none of those the plugin was narrowed to.
    fn outside(&self, part: &str, group: &str) -> bool {
        let known = ["etcd", "controller", "worker"].contains(&group) || group.starts_with("pool:");
        if !self.narrowed || !known {
            return false;
        }
        if group == "worker" {
            return part == "securityGroups" || !self.all_pools;
        }
        !self.nodes.iter().any(|n| n == group)
    }

    fn literal_role(&self, path: &[&str], group: &str) -> Finding {
        let on = self.nodes.join(", ");
        let text = format!("{} names `{group}`, and is only on: {on}", self.plugin);
        let mut nodes = path.to_vec();
        nodes[1] = "nodes";
        let nodes = shown(&nodes);
        let help = format!("write `nodes`, which means the nodes the plugin is on: {nodes}");
        self.fatal("merge/outside-pools", text).help(help)
    }

    /// Returns a fatal finding about the plugin.
    pub(super) fn fatal(&self, code: &str, message: String) -> Finding {
        Finding::fatal(code, message).by(self.plugin)
    }
}

/// Returns a path as findings write it.
pub(super) fn shown(path: &[&str]) -> String {
    Path::of(path.iter().copied()).to_string()
}
