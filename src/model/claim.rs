//! A contribution is split into claims: one for each entity, checked, normalised, expanded to groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entities::Kind;
use super::flags::{FlagKind, flag_kind};
use super::shape::{Reached, Section, reach};
use super::tree::{Claimant, Stage};
use crate::finding::{Finding, Findings};
use crate::name::{Name, did_you_mean};
use crate::schema::Wording;
use crate::value::{Data, Node, Path};

/// One plugin's wish for one entity, or for the same entity of several groups.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The path; where `groups` are given, its second segment stands for each of them.
    pub path: Path,
    /// Who, what and from where.
    pub claimant: Arc<Claimant>,
    /// What the second segment becomes, where it was `nodes` or `worker`.
    pub groups: Option<Arc<[String]>>,
}

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
    /// The keys of all groups of the cluster.
    pub groups: &'a [String],
    /// Whether `cluster.yaml` narrowed the plugin to fewer groups than its manifest offers.
    pub narrowed: bool,
    /// Whether the plugin is on in all pools, so that a literal `worker` means what it says.
    pub all_pools: bool,
    /// Where it may write: `None` for anywhere.
    pub writes: Option<&'a [Path]>,
}

/// Parts of the model whose second segment is a group.
pub const GROUPED: [&str; 4] = ["iam", "kubelet", "machines", "securityGroups"];

/// Returns the claims in `contribution`; what is wrong is left out and found.
#[must_use]
pub fn split(contribution: &Node, cx: &Split<'_>) -> (Vec<Claim>, Findings) {
    let mut splitter = Splitter { cx, claims: Vec::new(), findings: Findings::new() };
    splitter.descend(contribution, &mut Vec::new());
    (splitter.claims, splitter.findings)
}

/// Returns the claim on one entity, made from others.
#[must_use]
pub fn claim_at(
    path: &Path,
    body: Node,
    from: Vec<Path>,
    cx: &Split<'_>,
) -> (Vec<Claim>, Findings) {
    let segments = path.segments();
    let mut splitter = Splitter { cx, claims: Vec::new(), findings: Findings::new() };
    match reach(&segments) {
        Reached::Entity(section) => splitter.claim(body, &segments, section),
        _ => splitter.unknown(&body, &segments),
    }
    for claim in &mut splitter.claims {
        if let Some(claimant) = Arc::get_mut(&mut claim.claimant) {
            claimant.from.clone_from(&from);
        }
    }
    (splitter.claims, splitter.findings)
}

struct Splitter<'a> {
    cx: &'a Split<'a>,
    claims: Vec<Claim>,
    findings: Findings,
}

impl Splitter<'_> {
    fn descend<'n>(&mut self, node: &'n Node, path: &mut Vec<&'n str>) {
        match reach(path) {
            Reached::Entity(section) => self.entity(node, path, section),
            Reached::Map(names) => match &node.data {
                Data::Map(map) => {
                    for (name, value) in map {
                        path.push(name);
                        self.descend(value, path);
                        path.pop();
                    }
                }
                Data::List(items) => self.listed(items, path, node),
                Data::Null => {}
                _ => {
                    let text = format!("{} must be a map", shown(path));
                    let help = if names.is_empty() { "a map".to_owned() } else { names.join(", ") };
                    self.findings.push(
                        self.fatal("model/type", text).at(&node.origin).help(format!("of {help}")),
                    );
                }
            },
            Reached::Unknown => self.unknown(node, path),
        }
    }

    fn unknown(&mut self, node: &Node, path: &[&str]) {
        let (last, before) = path.split_last().expect("the root is known");
        let names = if let Reached::Map(names) = reach(before) { names } else { Vec::new() };
        let what = if before.is_empty() { "the model".to_owned() } else { shown(before) };
        let finding = self.fatal("model/unknown-key", format!("{what} has no part `{last}`"));
        let finding = match did_you_mean(last, names.iter().copied()) {
            Some(near) => finding.at_with(node.key_origin(), format!("did you mean `{near}`?")),
            None => finding.at(node.key_origin()).help(format!("it has: {}", names.join(", "))),
        };
        self.findings.push(finding);
    }

    /// A list of names in place of a map, where the section allows it.
    fn listed<'n>(&mut self, items: &'n [Node], path: &mut Vec<&'n str>, node: &Node) {
        for item in items {
            let Some(name) = item.as_str() else {
                let text = format!("{} is a list of names", shown(path));
                self.findings.push(self.fatal("model/type", text).at(&item.origin));
                continue;
            };
            path.push(name);
            match reach(path) {
                Reached::Entity(section) if section.listed => {
                    let body = Node::new(Data::Bool(true), item.origin.clone());
                    self.claim(body, path, section);
                }
                _ => {
                    path.pop();
                    let text = format!("{} must be a map", shown(path));
                    return self.findings.push(self.fatal("model/type", text).at(&node.origin));
                }
            }
            path.pop();
        }
    }

    fn entity<'n>(&mut self, node: &'n Node, path: &mut Vec<&'n str>, section: &'static Section) {
        if node.is_null() {
            return;
        }
        if matches!(section.kind, Kind::Flag | Kind::KubeletSetting) {
            let name = path.last().copied().unwrap_or_default();
            let kind = flag_kind(path[0], name);
            if kind != FlagKind::Scalar {
                return self.flag_items(node, path, section, kind);
            }
        }
        self.claim(node.clone(), path, section);
    }

    /// Items of a list- or map-valued flag are entities of their own.
    fn flag_items<'n>(
        &mut self,
        node: &'n Node,
        path: &mut Vec<&'n str>,
        section: &'static Section,
        kind: FlagKind,
    ) {
        match &node.data {
            Data::Map(map) => {
                for (name, value) in map {
                    path.push(name);
                    self.claim(value.clone(), path, section);
                    path.pop();
                }
            }
            Data::List(items) if kind != FlagKind::Map => {
                for item in items {
                    match item.as_str() {
                        Some(name) => {
                            path.push(name);
                            let body = Node::new(Data::Bool(true), item.origin.clone());
                            self.claim(body, path, section);
                            path.pop();
                        }
                        None => {
                            let text = format!("{} is a list of texts", shown(path));
                            self.findings.push(self.fatal("model/type", text).at(&item.origin));
                        }
                    }
                }
            }
            Data::String(text) if kind != FlagKind::Map && !text.contains(',') => {
                path.push(text);
                self.claim(Node { data: Data::Bool(true), ..node.clone() }, path, section);
                path.pop();
            }
            _ => {
                let form = if kind == FlagKind::Map {
                    "a map: {Name: true}"
                } else {
                    "a list: [one, two]"
                };
                let text =
                    format!("{} holds several values, so that plugins can add theirs", shown(path));
                self.findings.push(
                    self.fatal("model/type", text).at(&node.origin).help(format!("write {form}")),
                );
            }
        }
    }

    fn claim(&mut self, node: Node, path: &[&str], section: &'static Section) {
        let (body, yields) = match node.sole("$default") {
            Some(inner) => (Node { key: node.key.clone(), ..inner.clone() }, true),
            None => (node, false),
        };
        if !self.allowed(&body, path, section) {
            return;
        }
        let Some(body) = self.normalise(body, path, section) else { return };
        let Some((path, groups, through)) = self.target(&body, path, section) else { return };
        let claimant = Claimant {
            plugin: self.cx.plugin.clone(),
            stage: self.cx.stage,
            body: Arc::new(body),
            yields,
            through,
            from: Vec::new(),
        };
        self.claims.push(Claim { path, claimant: Arc::new(claimant), groups });
    }

    /// Whether the manifest's `writes:` and the stage cover the path.
    fn allowed(&mut self, body: &Node, path: &[&str], section: &Section) -> bool {
        let own = path[0] == "values" && path.get(1) == Some(&self.cx.plugin.as_str());
        let render = self.cx.stage == Stage::Render
            && !["machines", "manifests", "stacks", "values"].contains(&path[0]);
        if render {
            let text = format!("{} is intent: it belongs to initialise", shown(path));
            let help = "in render a plugin may add to machines, stacks, manifests and values";
            self.findings
                .push(self.fatal("model/render-scope", text).at(body.key_origin()).help(help));
            return false;
        }
        let Some(writes) = self.cx.writes else { return true };
        // A patch writes where it points.
        let patched = body.get("at").and_then(Node::as_str).filter(|_| section.kind == Kind::Patch);
        let at = patched.and_then(|text| Path::parse(text).ok());
        let target: Vec<&str> = at.as_ref().map_or_else(|| path.to_vec(), Path::segments);
        let path = target.as_slice();
        let covered = writes.iter().any(|w| {
            let fits = |(i, (a, b)): (usize, (&String, &&str))| {
                a == b || (i == 1 && self.stands_for(a, b))
            };
            w.0.len() <= path.len() && w.0.iter().zip(path).enumerate().all(fits)
        });
        let free = section.private && section.kind != Kind::Patch;
        if own || free || covered {
            return true;
        }
        let help = format!(
            "add it to the manifest, if it should:\n\n    writes:\n      - {}",
            shown(path)
        );
        let text =
            format!("{} contributes to {}, and does not declare it", self.cx.plugin, shown(path));
        self.findings
            .push(self.fatal("merge/undeclared-write", text).at(body.key_origin()).help(help));
        false
    }

    /// Whether a declared `nodes` or `worker` stands for the group or stack that is named.
    fn stands_for(&self, declared: &str, named: &str) -> bool {
        match declared {
            "nodes" => self.cx.nodes.iter().chain(self.cx.stacks.iter()).any(|n| n == named),
            "worker" => named.starts_with("pool:"),
            _ => false,
        }
    }

    /// Returns the final path, and the groups its second segment stands for.
    #[expect(
        clippy::type_complexity,
        reason = "three parts of one answer, named at the only caller"
    )]
    fn target(
        &mut self,
        body: &Node,
        path: &[&str],
        section: &Section,
    ) -> Option<(Path, Option<Arc<[String]>>, Option<String>)> {
        let mut full = Path::of(path.iter().copied());
        if section.private {
            let last = full.0.last_mut()?;
            *last = format!("{}/{last}", self.cx.plugin);
        }
        let group = path.get(1).copied().unwrap_or_default();
        let through = Some(group.to_owned());
        if path[0] == "stacks" && self.cx.narrowed && self.others_stack(group) {
            let text =
                format!("{} contributes to the stack {group}, and is not on there", self.cx.plugin);
            let finding = self.fatal("merge/outside-pools", text).at(body.key_origin());
            let help = "write stacks.nodes, which means the stacks of the groups the plugin is on";
            self.findings.push(finding.help(help));
            return None;
        }
        match (path[0], group) {
            ("stacks", "nodes") => Some((full, Some(Arc::clone(self.cx.stacks)), through)),
            (part, "nodes") if GROUPED.contains(&part) => {
                Some((full, Some(Arc::clone(self.cx.nodes)), through))
            }
            (part, group) if GROUPED.contains(&part) && group != "serviceAccounts" => {
                if self.unknown_group(part, group) {
                    let text = format!("the cluster has no group `{group}`");
                    let known = self.cx.groups.join(", ");
                    let finding = self
                        .fatal("model/unknown-group", text)
                        .at(body.key_origin())
                        .help(format!("it has: {known}, worker"));
                    self.findings.push(finding);
                    return None;
                }
                if self.outside(part, group) {
                    self.findings.push(self.literal_role(body, path, group));
                    return None;
                }
                let all_pools = group == "worker" && part != "securityGroups";
                let groups = all_pools.then(|| Arc::clone(self.cx.pools));
                Some((full, groups, all_pools.then(|| "worker".to_owned())))
            }
            _ => Some((full, None, None)),
        }
    }

    /// Whether a stack is that of a group the plugin is not on.
    fn others_stack(&self, stack: &str) -> bool {
        let of = |group: &String| match group.strip_prefix("pool:") {
            Some(pool) => format!("pool-{pool}"),
            None if group == "controller" => "control-plane".to_owned(),
            None => group.clone(),
        };
        self.cx.groups.iter().any(|g| of(g) == stack) && !self.cx.stacks.iter().any(|s| s == stack)
    }

    /// Whether no machines have this name; security groups can have names of their own.
    fn unknown_group(&self, part: &str, group: &str) -> bool {
        let named = part == "securityGroups" && !group.starts_with("pool:");
        !named && group != "worker" && !self.cx.groups.iter().any(|g| g == group)
    }

    /// Whether a literally named group is none of those the plugin was narrowed to.
    fn outside(&self, part: &str, group: &str) -> bool {
        let known = ["etcd", "controller", "worker"].contains(&group) || group.starts_with("pool:");
        if !self.cx.narrowed || !known {
            return false;
        }
        if group == "worker" {
            return part == "securityGroups" || !self.cx.all_pools;
        }
        !self.cx.nodes.iter().any(|n| n == group)
    }

    fn literal_role(&self, body: &Node, path: &[&str], group: &str) -> Finding {
        let on = self.cx.nodes.join(", ");
        let text = format!("{} names `{group}`, and is only on: {on}", self.cx.plugin);
        let mut nodes = path.to_vec();
        nodes[1] = "nodes";
        self.fatal("merge/outside-pools", text).at(body.key_origin()).help(format!(
            "write `nodes`, which means the nodes the plugin is on: {}",
            shown(&nodes)
        ))
    }

    fn normalise(&mut self, body: Node, path: &[&str], section: &'static Section) -> Option<Node> {
        let body = match section.kind {
            Kind::File | Kind::Unit | Kind::DropIn => with_text(body),
            _ => body,
        };
        let wording = Wording { area: "model", subject: "the entity", label: None, source: None };
        let found = section.kind.schema().check(&body, &wording);
        if !found.is_empty() {
            let subject = shown(path);
            self.findings.extend(
                found.into_iter().map(|f| f.note(format!("in {subject}")).by(self.cx.plugin)),
            );
            return None;
        }
        if let Some((code, text, help)) = super::naming::wrong(section.kind, path, &body) {
            self.findings.push(self.fatal(code, text).at(body.key_origin()).help(help));
            return None;
        }
        let body = with_defaults(body, section.kind);
        let body = if section.kind == Kind::Statement { canonical_statement(body) } else { body };
        self.others_secrets(&body, path)?;
        self.secret_modes(&body, path, section)?;
        Some(body)
    }

    /// A plugin names its own secrets; only cluster.yaml may name everybody's.
    fn others_secrets(&mut self, body: &Node, path: &[&str]) -> Option<()> {
        let own = format!("{}/", self.cx.plugin);
        if self.cx.plugin.as_str() == "cluster" || path[0] == "values" {
            return Some(());
        }
        let mut foreign: Option<(String, crate::origin::Origin)> = None;
        body.walk(&mut |part| {
            let text = part.as_str().unwrap_or_default();
            let placed = super::placeholders(text)
                .filter(|(word, _)| *word == "secret")
                .map(|(_, name)| name);
            let named = part.sole("$secret").and_then(Node::as_str);
            if let Some(name) = placed.chain(named).find(|name| !name.starts_with(&own)) {
                foreign = Some((name.to_owned(), part.origin.clone()));
            }
        });
        let Some((name, origin)) = foreign else { return Some(()) };
        let text = format!("{} names the secret {name}, which is not its own", self.cx.plugin);
        let help = "a plugin reads its own secrets: {{secret \"name\"}} or {$secret: name}";
        self.findings.push(self.fatal("template/secret", text).at(&origin).help(help));
        None
    }

    /// A file that holds a secret is for its owner alone.
    fn secret_modes(&mut self, body: &Node, path: &[&str], section: &Section) -> Option<()> {
        let content = body.get("content").and_then(Node::as_str).unwrap_or_default();
        let filled = body.get("fill").and_then(Node::as_bool) == Some(true);
        let secret = filled
            && super::placeholders(content)
                .any(|(word, name)| word == "secret" || (word == "pki" && name.ends_with(".key")));
        if secret && matches!(section.kind, Kind::Unit | Kind::DropIn) {
            let text = format!(
                "{} holds a secret, and everybody on the machine may read units",
                shown(path)
            );
            let help = "put it into a file with mode \"0600\", and name that: EnvironmentFile=…";
            let finding =
                self.fatal("model/file-wider-than-secret", text).at(body.key_origin()).help(help);
            self.findings.push(finding);
            return None;
        }
        let wide =
            body.get("mode").and_then(Node::as_str).is_some_and(|mode| !mode.ends_with("00"));
        if !secret || section.kind != Kind::File || !wide {
            return Some(());
        }
        let at =
            body.get("mode").filter(|m| m.key.is_some()).map_or(body.key_origin(), |m| &m.origin);
        let text = format!("{} holds a secret, and others than its owner may read it", shown(path));
        self.findings.push(
            self.fatal("model/file-wider-than-secret", text).at(at).help("write mode: \"0600\""),
        );
        None
    }

    fn fatal(&self, code: &str, message: String) -> Finding {
        Finding::fatal(code, message).by(self.cx.plugin)
    }
}

fn shown(path: &[&str]) -> String {
    Path::of(path.iter().copied()).to_string()
}

/// `content: {$secret: x}` and its like become the text that nodes fill in.
fn with_text(mut body: Node) -> Node {
    let Some(content) = body.get("content") else { return body };
    let filled = ["secret", "output", "pki", "node"].into_iter().find_map(|word| {
        let name = content.sole(&format!("${word}"))?.as_str()?;
        Some(format!("@{{{word} {name}}}"))
    });
    if let (Some(text), Some(map)) = (filled, body.as_map_mut()) {
        if let Some(content) = map.get_mut("content") {
            content.data = Data::String(text.into());
        }
        let origin = map["content"].origin.clone();
        map.insert("fill".to_owned(), Node::new(Data::Bool(true), origin));
    }
    body
}

/// Fills in the schema's defaults, so that a default and the same value written out are equal.
fn with_defaults(mut body: Node, kind: Kind) -> Node {
    let schema = kind.schema().value();
    let origin = body.origin.clone();
    let Some(properties) = schema.get("properties").and_then(serde_json::Value::as_object) else {
        return body;
    };
    if let Some(map) = body.as_map_mut() {
        for (name, property) in properties {
            if let Some(default) = property.get("default").filter(|_| !map.contains_key(name)) {
                map.insert(name.clone(), Node::from_value(default.clone(), &origin));
            }
        }
    }
    body
}

/// Actions and resources are sorted sets; one alone is no list.
fn canonical_statement(mut body: Node) -> Node {
    let Some(map) = body.as_map_mut() else { return body };
    for key in ["Action", "Resource"] {
        let Some(part) = map.get_mut(key) else { continue };
        if let Data::List(items) = &mut part.data {
            let mut unique: BTreeMap<String, Node> = BTreeMap::new();
            for item in std::mem::take(items) {
                unique.entry(item.to_value().to_string()).or_insert(item);
            }
            let mut items: Vec<Node> = unique.into_values().collect();
            part.data = if items.len() == 1 { items.remove(0).data } else { Data::List(items) };
        }
    }
    body
}
