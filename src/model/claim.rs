//! A contribution is split into claims: one for each entity, checked and normalised. Not here: where a
//! plugin may write (`scope`), what is the same in two spellings (`normal`), who may name a secret (`secrets`).

use std::sync::Arc;

use super::entities::Kind;
use super::flags::{FlagKind, flag_kind};
use super::scope::{Split, Target, shown};
use super::shape::{Reached, Section, reach};
use super::tree::Claimant;
use super::{normal, secrets};
use crate::finding::Findings;
use crate::name::did_you_mean;
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
    let cx = &Split { lowered: !from.is_empty(), ..*cx };
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
                        self.cx
                            .fatal("model/type", text)
                            .at(&node.origin)
                            .help(format!("of {help}")),
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
        let finding = self.cx.fatal("model/unknown-key", format!("{what} has no part `{last}`"));
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
                self.findings.push(self.cx.fatal("model/type", text).at(&item.origin));
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
                    return self.findings.push(self.cx.fatal("model/type", text).at(&node.origin));
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
                            self.findings.push(self.cx.fatal("model/type", text).at(&item.origin));
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
                    self.cx
                        .fatal("model/type", text)
                        .at(&node.origin)
                        .help(format!("write {form}")),
                );
            }
        }
    }

    fn claim(&mut self, node: Node, path: &[&str], section: &'static Section) {
        let (body, yields) = match node.sole("$default") {
            Some(inner) => (Node { key: node.key.clone(), ..inner.clone() }, true),
            None => (node, false),
        };
        if let Err(finding) = self.cx.allows(&body, path, section) {
            return self.findings.push(*finding);
        }
        let Some(body) = self.normalise(body, path, section) else { return };
        let Target { path, groups, through } = match self.cx.target(&body, path, section) {
            Ok(target) => target,
            Err(finding) => return self.findings.push(*finding),
        };
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

    fn normalise(&mut self, body: Node, path: &[&str], section: &'static Section) -> Option<Node> {
        let body = normal::with_text(body, section.kind);
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
            self.findings.push(self.cx.fatal(code, text).at(body.key_origin()).help(help));
            return None;
        }
        let body = normal::canonical(normal::with_defaults(body, section.kind), section.kind);
        if let Err(finding) = secrets::check(&body, path, section.kind, self.cx) {
            self.findings.push(*finding);
            return None;
        }
        Some(body)
    }
}
