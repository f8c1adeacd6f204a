//! Patches: the one way to change or remove what another plugin contributed, applied when the part they
//! touch is finished, and refused when what they expected has changed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shape::PROTECTED;
use super::tree::{Branch, Model};
use crate::finding::{Finding, Findings};
use crate::name::{Name, did_you_mean};
use crate::origin::Origin;
use crate::value::{Data, Node, Path};

/// A patch as it is written.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a patch")]
pub(super) struct PatchForm {
    /// The place: a path of the model, and into the entity there. `worker` stands for all pools.
    at: String,
    /// What to do.
    op: Op,
    /// The new value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// What is there before: if it is something else by now, the run stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    was: Option<Value>,
    /// What to do when nothing is there.
    #[serde(default = "fatal")]
    #[schemars(extend("enum" = ["fatal", "skip"]))]
    if_missing: String,
    /// Why, in a sentence: `kaws explain` shows it.
    why: String,
}

/// What a patch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Op {
    /// Puts another value in place of the one that is there.
    Replace,
    /// Takes it away.
    Remove,
    /// Appends one element to a list, or adds one key to a map.
    Add,
}

/// A patch that can be applied.
#[derive(Clone, Debug)]
pub struct Patch {
    /// Its name: `<plugin>/<name>`.
    pub name: String,
    /// Whose it is.
    pub plugin: Name,
    /// Where it is written.
    pub origin: Origin,
    /// The place.
    pub at: Path,
    /// What to do.
    pub op: Op,
    /// The new value.
    pub value: Option<Node>,
    /// What is expected there.
    pub was: Option<Node>,
    /// Whether nothing there is fine.
    pub skip_missing: bool,
    /// Why.
    pub why: String,
}

/// What a patch did, for `kaws explain`.
#[derive(Clone, Debug)]
pub struct AppliedPatch {
    /// The patch.
    pub patch: Arc<Patch>,
    /// What stood there.
    pub before: Option<Node>,
}

impl Patch {
    /// Returns whether it comes from `cluster.yaml`.
    #[must_use]
    pub fn of_cluster(&self) -> bool {
        self.plugin.as_str() == "cluster"
    }

    /// Returns the name as its author wrote it.
    #[must_use]
    pub fn own_name(&self) -> &str {
        self.name.split_once('/').map_or(self.name.as_str(), |(_, own)| own)
    }

    fn fatal(&self, code: &str, message: String) -> Finding {
        Finding::fatal(code, message).at(&self.origin).by(&self.plugin)
    }
}

impl Model {
    /// Returns all patches in the model, and what is wrong with those that cannot be read.
    #[must_use]
    pub fn patches(&self) -> (Vec<Arc<Patch>>, Findings) {
        let mut patches = Vec::new();
        let mut findings = Findings::new();
        for (name, entity) in self.entities(&["patches"]) {
            let form: PatchForm = match serde_json::from_value(entity.body.to_value()) {
                Ok(form) => form,
                Err(_) => continue,
            };
            let body = &entity.body;
            let at_origin = body.get("at").map_or(&body.origin, |n| &n.origin);
            let at = match Path::parse(&form.at) {
                Ok(path) => path,
                Err(error) => {
                    findings.push(Finding::fatal("patch/value", error.to_string()).at(at_origin));
                    continue;
                }
            };
            let parts: Vec<&str> =
                super::SECTIONS.iter().filter_map(|s| s.path.split('.').next()).collect();
            if !parts.contains(&at.0[0].as_str()) {
                let finding =
                    Finding::fatal("patch/missing", format!("the model has no part `{}`", at.0[0]))
                        .at(at_origin);
                let near = did_you_mean(&at.0[0], parts.iter().copied());
                findings.push(
                    near.into_iter().fold(finding, |f, n| f.help(format!("did you mean `{n}`?"))),
                );
                continue;
            }
            let patch = Patch {
                name: name.to_owned(),
                plugin: entity.owners[0].plugin.clone(),
                origin: at_origin.clone(),
                at,
                op: form.op,
                value: body.get("value").cloned(),
                was: body.get("was").cloned(),
                skip_missing: form.if_missing == "skip",
                why: form.why,
            };
            if (patch.op == Op::Remove) == patch.value.is_some() {
                let text = if patch.op == Op::Remove {
                    "`remove` takes no value"
                } else {
                    "a value is missing"
                };
                findings.push(patch.fatal("patch/value", text.to_owned()));
                continue;
            }
            patches.push(Arc::new(patch));
        }
        // A patch of cluster.yaml comes last, so that it beats a plugin's.
        patches.sort_by_key(|p| (p.of_cluster(), p.name.clone()));
        (patches, findings)
    }

    /// Applies those of `patches` that touch `parts`, and finishes these: later additions are findings.
    #[must_use]
    pub fn seal(&mut self, parts: &[String], patches: &[Arc<Patch>]) -> Findings {
        let mut findings = Findings::new();
        let here: Vec<&Arc<Patch>> =
            patches.iter().filter(|p| parts.contains(&p.at.0[0])).collect();
        for patch in &here {
            findings.extend(self.apply(patch));
        }
        self.sealed.extend(parts.iter().cloned());
        findings
    }

    /// Applies one patch, wherever `worker` leads.
    #[must_use]
    pub fn apply(&mut self, patch: &Arc<Patch>) -> Findings {
        let mut findings = Findings::new();
        if let Some(finding) = protected(patch) {
            let stop = finding.severity == crate::finding::Severity::Fatal;
            findings.push(finding);
            if stop {
                return findings;
            }
        }
        let targets = self.targets(&patch.at);
        let mut touched = 0;
        let mut missing = None;
        for target in &targets {
            match self.apply_at(patch, target) {
                Ok(true) => touched += 1,
                Ok(false) => missing = Some(target),
                Err(finding) => findings.push(*finding),
            }
        }
        if touched == 0 && findings.is_empty() && !patch.skip_missing {
            findings.push(self.missing(patch, missing.unwrap_or(&patch.at)));
        }
        findings
    }

    fn targets(&self, at: &Path) -> Vec<Path> {
        let all_pools = at.0.get(1).is_some_and(|g| g == "worker") && at.0[0] != "securityGroups";
        if !all_pools {
            return vec![at.clone()];
        }
        let pools = self.names(&[at.0[0].as_str()]);
        let mut targets = Vec::new();
        for pool in pools.into_iter().filter(|p| p.starts_with("pool:")) {
            let mut path = at.clone();
            pool.clone_into(&mut path.0[1]);
            targets.push(path);
        }
        targets
    }

    /// Returns whether something was there to patch.
    fn apply_at(&mut self, patch: &Arc<Patch>, at: &Path) -> Result<bool, Box<Finding>> {
        let Some((entity, inside)) = self.entity_around(&at.0) else { return Ok(false) };
        let inside = inside.to_vec();
        let depth = at.0.len() - inside.len();
        if let Some(earlier) = clash(entity, patch, &inside) {
            return Err(Box::new(earlier));
        }
        let exists = entity.body.at(&inside).cloned();
        let adds_key = patch.op == Op::Add && exists.is_none();
        if exists.is_none() && !adds_key {
            return Ok(false);
        }
        if let (Some(was), Some(there)) = (&patch.was, &exists)
            && was != there
        {
            return Err(Box::new(stale(patch, was, there, entity)));
        }
        let before = exists.clone();
        if inside.is_empty() && patch.op == Op::Remove {
            self.remove(&at.0[..depth]);
            return Ok(true);
        }
        let mut body = (*entity.body).clone();
        change(&mut body, &inside, patch)?;
        fits(&body, &at.0[..depth], patch)?;
        let entity = self.entity_mut(&at.0[..depth]).expect("it was found above");
        entity.body = Arc::new(body);
        entity.history().patches.push(AppliedPatch { patch: Arc::clone(patch), before });
        Ok(true)
    }

    fn entity_mut(&mut self, path: &[String]) -> Option<&mut super::tree::Entity> {
        let mut branch = &mut self.root;
        for segment in path {
            let Branch::Map(map) = branch else { return None };
            branch = map.get_mut(segment)?;
        }
        if let Branch::Leaf(entity) = branch { Some(entity) } else { None }
    }

    fn remove(&mut self, path: &[String]) {
        let Some((last, before)) = path.split_last() else { return };
        let mut branch = &mut self.root;
        for segment in before {
            let Branch::Map(map) = branch else { return };
            let Some(next) = map.get_mut(segment) else { return };
            branch = next;
        }
        if let Branch::Map(map) = branch {
            map.remove(last);
        }
    }

    fn missing(&self, patch: &Patch, at: &Path) -> Finding {
        let finding = patch.fatal("patch/missing", format!("nothing is at {at}"));
        let known = (0..at.0.len()).rev().find(|n| {
            let segments: Vec<&str> = at.0[..*n].iter().map(String::as_str).collect();
            self.branch(&segments).is_some()
        });
        let before: Vec<&str> = at.0[..known.unwrap_or(0)].iter().map(String::as_str).collect();
        let names = self.names(&before);
        let near =
            at.0.get(before.len()).and_then(|word| did_you_mean(word, names.iter().copied()));
        let finding = match near {
            Some(near) => finding
                .help(format!("did you mean {}?", Path::of(before.iter().copied()).join(near))),
            None => finding,
        };
        finding.help("where that is fine, say ifMissing: skip")
    }
}

fn change(body: &mut Node, inside: &[String], patch: &Patch) -> Result<(), Box<Finding>> {
    let wrong = |text: &str| Box::new(patch.fatal("patch/value", text.to_owned()));
    let new = || patch.value.clone().ok_or_else(|| wrong("a value is missing"));
    let Some((last, before)) = inside.split_last() else {
        return match (patch.op, &mut body.data) {
            (Op::Replace, _) => {
                let new = new()?;
                body.data = new.data;
                body.origin = new.origin;
                Ok(())
            }
            (Op::Add, Data::List(items)) => {
                items.push(new()?);
                Ok(())
            }
            _ => Err(wrong("`add` needs a list there, or a new key of a map")),
        };
    };
    let parent = before.iter().try_fold(body, |node, segment| match &mut node.data {
        Data::Map(map) => map.get_mut(segment),
        Data::List(items) => items.get_mut(segment.parse::<usize>().ok()?),
        _ => None,
    });
    let parent = parent.ok_or_else(|| wrong("the place lies inside a text or number"))?;
    match (&mut parent.data, patch.op) {
        (Data::Map(map), Op::Remove) => {
            map.remove(last);
        }
        (Data::Map(map), Op::Add) => match map.get_mut(last) {
            Some(Node { data: Data::List(items), .. }) => items.push(new()?),
            Some(_) => {
                return Err(wrong(
                    "something is there already: `add` appends to lists, `replace` changes",
                ));
            }
            None => {
                map.insert(last.clone(), new()?);
            }
        },
        (Data::Map(map), Op::Replace) => {
            map.insert(last.clone(), new()?);
        }
        (Data::List(items), op) => {
            let i = last
                .parse::<usize>()
                .ok()
                .filter(|i| *i < items.len())
                .ok_or_else(|| wrong("the list is shorter"))?;
            match (op, &mut items[i].data) {
                (Op::Remove, _) => drop(items.remove(i)),
                (Op::Replace, _) => items[i] = new()?,
                (Op::Add, Data::List(inner)) => inner.push(new()?),
                (Op::Add, _) => return Err(wrong("`add` needs a list there")),
            }
        }
        _ => return Err(wrong("the place lies inside a text or number")),
    }
    Ok(())
}

/// What a patch leaves must still be an entity of its kind.
fn fits(body: &Node, path: &[String], patch: &Patch) -> Result<(), Box<Finding>> {
    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
    let Some(section) = super::section_of(&segments) else { return Ok(()) };
    let wording =
        crate::schema::Wording { area: "model", subject: "the entity", label: None, source: None };
    let found = section.kind.schema().check(body, &wording);
    let said = found.into_iter().next().map(|f| f.message);
    let named = || super::naming::wrong(section.kind, &segments, body).map(|(_, text, _)| text);
    let Some(first) = said.or_else(named) else { return Ok(()) };
    let text = format!("the patch {} leaves what cannot be there: {}", patch.own_name(), first);
    Err(Box::new(patch.fatal("patch/value", text)))
}

/// Two plugins that patch one place differently disagree; cluster.yaml's patch beats both.
fn clash(entity: &super::tree::Entity, patch: &Patch, inside: &[String]) -> Option<Finding> {
    let history = entity.history.as_ref()?;
    let depth = patch.at.0.len() - inside.len();
    let earlier = history.patches.iter().map(|a| &a.patch).find(|earlier| {
        let other = &earlier.at.0[depth.min(earlier.at.0.len())..];
        let overlap = other.starts_with(inside) || inside.starts_with(other);
        let both_add = earlier.op == Op::Add && patch.op == Op::Add;
        let same = earlier.op == patch.op && earlier.value == patch.value && other == inside;
        overlap && !both_add && !same && !patch.of_cluster() && earlier.plugin != patch.plugin
    })?;
    let text = format!("{} and {} patch {} differently", earlier.plugin, patch.plugin, patch.at);
    Some(
        patch
            .fatal("patch/conflict", text)
            .related(&earlier.origin, format!("{} patches it here", earlier.plugin))
            .help("a patch under `customise:` in cluster.yaml beats both"),
    )
}

fn stale(patch: &Patch, was: &Node, there: &Node, entity: &super::tree::Entity) -> Finding {
    let owners = entity.owner_names().join(" and ");
    let text = format!("the patch {} expects another value at {}", patch.own_name(), patch.at);
    patch
        .fatal("patch/stale", text)
        .at_with(&was.origin, format!("it expects {}", was.to_value()))
        .related(&there.origin, format!("{owners}: {}", there.to_value()))
        .note(format!("why it was written: {}", patch.why))
        .help("look whether the patch is still right, then change `was`")
}

fn protected(patch: &Patch) -> Option<Finding> {
    let path = patch.at.to_string();
    let fits =
        |pattern: &str, name: &str| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(end), _) => name.ends_with(end),
            (_, Some(start)) => name.starts_with(start),
            _ => pattern == name,
        };
    // A patch of something around a protected place, or inside it, touches it as well.
    let hit = PROTECTED.iter().any(|p| {
        p.iter().zip(&patch.at.0).all(|(pattern, name)| fits(pattern, name))
            && patch.at.0.len() > 3.min(p.len() - 1)
    });
    if !hit {
        return None;
    }
    Some(if patch.of_cluster() {
        let text = format!("{path} is what nodes need to come up, and cluster.yaml patches it");
        Finding::warning("patch/protected-used", text).at(&patch.origin).about(path)
    } else {
        let text = format!("{} patches {path}, which only cluster.yaml may", patch.plugin);
        patch.fatal("patch/protected", text).help(
            "write the patch under `customise:` in cluster.yaml, if it is right for this cluster",
        )
    })
}

fn fatal() -> String {
    "fatal".to_owned()
}
