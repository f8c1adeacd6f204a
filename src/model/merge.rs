//! Merging: the union of claims, down to entities, which are equal or in conflict and never blended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::Claim;
use super::tree::{Branch, Claimant, Entity, Model};
use crate::finding::{Finding, Findings};
use crate::name::Name;
use crate::origin::Origin;
use crate::value::{Data, Node, Path, first_difference};

/// Why a claim yielded to a preference.
pub const PREFERRED: &str = "cluster.yaml prefers the other";

/// Whose value is right at one path.
#[derive(Clone, Debug)]
pub struct Preference {
    /// The plugin.
    pub plugin: Name,
    /// Where it says so.
    pub origin: Origin,
}

/// What the user decided about conflicts.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// `prefer:`, flattened.
    pub prefer: BTreeMap<Path, Preference>,
    /// Paths that a patch of `cluster.yaml` replaces or removes as a whole: conflicts there are settled.
    pub settled: BTreeSet<Path>,
}

impl Decisions {
    /// Returns the preference at `path`; `worker` stands for all pools.
    fn at(&self, path: &Path) -> Option<Name> {
        let worker = generic(path);
        let key = [Some(path.clone()), worker]
            .into_iter()
            .flatten()
            .find(|p| self.prefer.contains_key(p))?;
        Some(self.prefer[&key].plugin.clone())
    }

    fn settles(&self, path: &Path) -> bool {
        self.settled.contains(path) || generic(path).is_some_and(|p| self.settled.contains(&p))
    }
}

/// Returns the path with `worker` in place of a pool.
fn generic(path: &Path) -> Option<Path> {
    path.0.get(1).filter(|g| g.starts_with("pool:") && path.0[0] != "securityGroups")?;
    let mut generic = path.clone();
    generic.0[1] = "worker".to_owned();
    Some(generic)
}

impl Model {
    /// Adds `claims`; what is in conflict keeps its first value, and is found.
    ///
    /// The result does not depend on the order of claims.
    #[must_use]
    pub fn merge(&mut self, mut claims: Vec<Claim>, decisions: &mut Decisions) -> Findings {
        // Plain values first: a default then never meets another one that both would yield to it.
        // Then whoever is preferred, so that a third party's wish finds the decision made.
        let preferred = |claim: &Claim| {
            let at = |path: &Path| {
                decisions.prefer.get(path).is_some_and(|p| p.plugin == claim.claimant.plugin)
            };
            let expanded = claim.groups.iter().flat_map(|groups| groups.iter()).map(|group| {
                let mut path = claim.path.clone();
                path.0[1].clone_from(group);
                path
            });
            let mut paths = std::iter::once(claim.path.clone()).chain(expanded);
            !decisions.prefer.is_empty()
                && paths.any(|p| at(&p) || generic(&p).is_some_and(|g| at(&g)))
        };
        claims.sort_by_cached_key(|c| {
            (c.claimant.yields, !preferred(c), c.claimant.plugin.clone(), c.path.clone())
        });
        let mut conflicts: BTreeMap<(Path, Name, Name), Conflict> = BTreeMap::new();
        let mut findings = Findings::new();
        for claim in &claims {
            if self.sealed.contains(&claim.path.0[0]) {
                findings.push(sealed(claim));
                continue;
            }
            match &claim.groups {
                None => self.insert(&claim.path, &claim.claimant, decisions, &mut conflicts),
                Some(groups) => {
                    let mut path = claim.path.clone();
                    for group in groups.iter() {
                        path.0[1].clone_from(group);
                        self.insert(&path, &claim.claimant, decisions, &mut conflicts);
                    }
                }
            }
        }
        findings.extend(conflicts.into_values().map(|c| c.finding()));
        findings
    }

    fn insert(
        &mut self,
        path: &Path,
        claimant: &Arc<Claimant>,
        decisions: &mut Decisions,
        conflicts: &mut BTreeMap<(Path, Name, Name), Conflict>,
    ) {
        let (last, before) = path.0.split_last().expect("no entity stands at the root");
        let mut branch = &mut self.root;
        for segment in before {
            let Branch::Map(map) = branch else { return };
            if !map.contains_key(segment) {
                map.insert(segment.clone(), Branch::Map(BTreeMap::new()));
            }
            branch = map.get_mut(segment).expect("it was put there");
        }
        let Branch::Map(map) = branch else { return };
        match map.get_mut(last) {
            None => {
                map.insert(last.clone(), Branch::Leaf(Entity::new(Arc::clone(claimant))));
            }
            Some(Branch::Leaf(entity)) => {
                if let Some(conflict) = join(entity, claimant, path, decisions) {
                    let general = generic(path)
                        .filter(|_| claimant.through.is_some())
                        .unwrap_or_else(|| path.clone());
                    let key = (
                        general.clone(),
                        conflict.first.plugin.clone(),
                        conflict.second.plugin.clone(),
                    );
                    conflicts.entry(key).or_insert(Conflict { path: general, ..conflict });
                }
            }
            Some(Branch::Map(_)) => {}
        }
    }
}

/// Adds a claim to an entity that is there; returns the conflict if they cannot both be.
fn join(
    entity: &mut Entity,
    claimant: &Arc<Claimant>,
    path: &Path,
    decisions: &mut Decisions,
) -> Option<Conflict> {
    if *entity.body == *claimant.body {
        let known = entity
            .owners
            .iter()
            .any(|o| o.plugin == claimant.plugin && o.origin() == claimant.origin());
        if entity.yields() && !claimant.yields {
            let owners = std::mem::replace(&mut entity.owners, vec![Arc::clone(claimant)]);
            entity
                .history()
                .yielded
                .extend(owners.into_iter().map(|o| (o, "a default, which agrees")));
        } else if !known {
            entity.owners.push(Arc::clone(claimant));
            entity.owners.sort_by(|a, b| a.plugin.cmp(&b.plugin));
        }
        return None;
    }
    match (entity.yields(), claimant.yields) {
        (true, false) => {
            let owners = std::mem::replace(&mut entity.owners, vec![Arc::clone(claimant)]);
            entity.body = Arc::clone(&claimant.body);
            entity
                .history()
                .yielded
                .extend(owners.into_iter().map(|o| (o, "a default, which yields")));
            return None;
        }
        (false, true) => {
            entity.history().yielded.push((Arc::clone(claimant), "a default, which yields"));
            return None;
        }
        _ => {}
    }
    decide(entity, claimant, path, decisions)
}

fn decide(
    entity: &mut Entity,
    claimant: &Arc<Claimant>,
    path: &Path,
    decisions: &mut Decisions,
) -> Option<Conflict> {
    let holds = |name: &Name| entity.owners.iter().any(|o| o.plugin == *name);
    let preferred = decisions.prefer.contains_key(path)
        || generic(path).is_some_and(|p| decisions.prefer.contains_key(&p));
    if preferred {
        match decisions.at(path) {
            Some(name) if name == claimant.plugin => {
                let owners = std::mem::replace(&mut entity.owners, vec![Arc::clone(claimant)]);
                entity.body = Arc::clone(&claimant.body);
                entity.history().yielded.extend(owners.into_iter().map(|o| (o, PREFERRED)));
                return None;
            }
            Some(name) if holds(&name) => {
                entity.history().yielded.push((Arc::clone(claimant), PREFERRED));
                return None;
            }
            _ => {}
        }
    }
    if decisions.settles(path) {
        entity.history().yielded.push((Arc::clone(claimant), "a patch of cluster.yaml settles it"));
        return None;
    }
    Some(Conflict {
        path: path.clone(),
        first: Arc::clone(&entity.owners[0]),
        second: Arc::clone(claimant),
    })
}

struct Conflict {
    path: Path,
    first: Arc<Claimant>,
    second: Arc<Claimant>,
}

impl Conflict {
    fn finding(&self) -> Finding {
        let (a, b) = (&self.first, &self.second);
        let difference = first_difference(&a.body, &b.body);
        let left = part(&a.body, &difference);
        let right = part(&b.body, &difference);
        let what = match self.path.0.get(2).map(String::as_str) {
            Some("files") => "contents for one file",
            Some("units") => "contents for one unit",
            Some("flags") => "values for one flag",
            Some("statements") => "statements under one Sid",
            Some("resources") => "resources under one logical id",
            _ => "values for one entity",
        };
        let message =
            format!("{} and {} want different {what}\n  {}", a.plugin, b.plugin, self.path);
        let label =
            |claimant: &Claimant, node: &Node| format!("{}: {}", claimant.plugin, summary(node));
        let mut finding =
            Finding::fatal("merge/conflict", message).at_with(&left.origin, label(a, left));
        for cause in left.causes() {
            finding = finding.related(cause, format!("which {} takes from here", a.plugin));
        }
        finding = finding.related(&right.origin, label(b, right));
        for cause in right.causes() {
            finding = finding.related(cause, format!("which {} takes from here", b.plugin));
        }
        if let (Some(x), Some(y)) = (left.as_str(), right.as_str()) {
            if x.contains('\n') || y.contains('\n') {
                let same = x.lines().zip(y.lines()).take_while(|(a, b)| a == b).count();
                finding = finding.note(format!("the texts differ from line {} on", same + 1));
            }
        } else if !difference.is_empty() {
            finding = finding.note(format!("they differ in {}", Path(difference)));
        }
        if a.plugin == b.plugin {
            return finding.help("one plugin says both: it can only want one of them");
        }
        finding
            .help("make them equal: equal values are no conflict, and both\nplugins then own it")
            .help(format!(
                "or say in cluster.yaml whose is right:\n\n{}",
                prefer_lines(&self.path, &a.plugin)
            ))
    }
}

fn part<'n>(body: &'n Node, difference: &[String]) -> &'n Node {
    body.at(difference).unwrap_or(body)
}

/// Returns the lines of `prefer:` to paste, indented by four.
fn prefer_lines(path: &Path, plugin: &Name) -> String {
    let mut lines = "    prefer:".to_owned();
    for (i, segment) in path.0.iter().enumerate() {
        lines.push_str(&format!("\n{}{}:", " ".repeat(6 + 2 * i), crate::value::quoted(segment)));
    }
    lines.push_str(&format!(" {plugin}"));
    lines
}

/// Returns a value in a few words: itself if short, else its size and hash. Secrets are names anyway.
fn summary(node: &Node) -> String {
    let (text, is_text) = match &node.data {
        Data::String(text) => (text.to_string(), true),
        _ => (node.to_value().to_string(), false),
    };
    if text.len() <= 40 && !text.contains('\n') {
        return text;
    }
    let hash = crate::value::sha256(text.as_bytes());
    let size = thousands(text.len());
    if is_text {
        format!("{size} B, sha256 {}", &hash[..8])
    } else {
        format!("{size} B as JSON, sha256 {}", &hash[..8])
    }
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn sealed(claim: &Claim) -> Finding {
    let text =
        format!("{} adds {} after that part was finished", claim.claimant.plugin, claim.path);
    Finding::fatal("merge/sealed", text)
        .at(claim.claimant.origin())
        .by(&claim.claimant.plugin)
        .help("let the plugin come before the seal: order.yaml, or `after:` in its manifest")
}
