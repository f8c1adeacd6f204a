//! `kaws explain`: who put an entity there, what it overrode, where it went; or what a code means.

use serde_json::{Value, json};

use super::commands::rendered;
use super::exit::Exit;
use super::report::{say, say_error};
use super::{Common, Output};
use crate::finding::explanation;
use crate::model::{Claimant, Entity, Model};
use crate::name::did_you_mean;
use crate::run::Run;
use crate::value::{Data, Node, Path, Style, write};

/// Explains a path, a resource or a code.
pub(super) fn run(what: &str, common: &Common) -> Exit {
    if let Some(meaning) = explanation(what) {
        match common.output {
            Output::Json => say(&json!({"code": what, "meaning": meaning}).to_string()),
            Output::Text => say(&format!("{what}\n  {meaning}")),
        }
        return Exit::Done;
    }
    let run = match rendered(common) {
        Ok(run) => run,
        Err(exit) => return exit,
    };
    let Some(path) = target(what, &run.rendered.model) else { return unknown(what, &run) };
    let places = places(&path, &run.rendered.model);
    let found: Vec<(Path, &Entity)> = places
        .iter()
        .filter_map(|p| Some((p.clone(), run.rendered.model.entity(&p.segments())?)))
        .collect();
    if found.is_empty() {
        return branch(&path, common, &run).unwrap_or_else(|| unknown(what, &run));
    }
    match common.output {
        Output::Json => say(&to_json(&path, &found, &run).to_string()),
        Output::Text => say(&text(&path, &found, &run)),
    }
    Exit::Done
}

/// Returns the path a text names: one of the model, or `STACK/LOGICAL_ID`.
fn target(what: &str, model: &Model) -> Option<Path> {
    if let Some((stack, id)) = what.split_once('/').filter(|(s, id)| {
        !s.contains(['.', '[']) && id.starts_with(|c: char| c.is_ascii_uppercase())
    }) {
        let parts = ["resources", "parameters", "outputs"];
        let found = parts.iter().find(|part| model.entity(&["stacks", stack, part, id]).is_some());
        return found.map(|part| Path::of(["stacks", stack, *part, id]));
    }
    Path::parse(what).ok()
}

/// Returns the entities that a path stands for: `worker` for all pools, and the entity around a path into it.
fn places(path: &Path, model: &Model) -> Vec<Path> {
    let all_pools = path.0.get(1).is_some_and(|g| g == "worker") && path.0[0] != "securityGroups";
    let paths: Vec<Path> = if all_pools {
        let pools = model.names(&[path.0[0].as_str()]);
        pools
            .iter()
            .filter(|p| p.starts_with("pool:"))
            .map(|pool| {
                let mut path = path.clone();
                (*pool).clone_into(&mut path.0[1]);
                path
            })
            .collect()
    } else {
        vec![path.clone()]
    };
    paths
        .into_iter()
        .filter_map(|p| {
            let (_, inside) = model.entity_around(&p.0)?;
            Some(Path(p.0[..p.0.len() - inside.len()].to_vec()))
        })
        .collect()
}

fn unknown(what: &str, run: &Run) -> Exit {
    say_error(&format!("nothing is at `{what}`, and no code has that name"));
    let model = &run.rendered.model;
    if let Ok(path) = Path::parse(what) {
        let depth = (0..path.0.len())
            .rev()
            .find(|n| model.branch(&path.segments()[..*n]).is_some())
            .unwrap_or(0);
        let names = model.names(&path.segments()[..depth]);
        let before = Path(path.0[..depth].to_vec());
        if let Some(near) = path.0.get(depth).and_then(|w| did_you_mean(w, names.iter().copied())) {
            say_error(&format!("did you mean {}?", before.join(near)));
        } else if !names.is_empty() {
            let shown: Vec<&str> = names.iter().take(12).copied().collect();
            let head =
                if depth == 0 { "the model has".to_owned() } else { format!("{before} has") };
            say_error(&format!("{head}: {}", shown.join(", ")));
        }
    }
    Exit::Findings
}

/// A path that leads to several entities: their names and owners.
fn branch(path: &Path, common: &Common, run: &Run) -> Option<Exit> {
    let model = &run.rendered.model;
    let mut path = path.clone();
    // `worker` stands for all pools: the first one speaks for them.
    if path.0.get(1).is_some_and(|g| g == "worker") && model.branch(&path.segments()).is_none() {
        let pools = model.names(&[path.0[0].as_str()]);
        path.0[1] = pools.into_iter().find(|p| p.starts_with("pool:"))?.to_owned();
    }
    model.branch(&path.segments())?;
    let mut rows = Vec::new();
    model.walk(&path.segments(), &mut |at, entity| {
        rows.push((Path::of(at.iter().copied()).to_string(), entity.owner_names().join(", ")));
    });
    match common.output {
        Output::Json => say(&rows
            .iter()
            .map(|(p, o)| json!({"path": p, "owners": o}))
            .collect::<Value>()
            .to_string()),
        Output::Text => {
            say(&format!("{path}: {} entities", rows.len()));
            rows.iter().for_each(|(path, owners)| say(&format!("  {path}  {owners}")));
        }
    }
    Some(Exit::Done)
}

fn text(path: &Path, found: &[(Path, &Entity)], run: &Run) -> String {
    let (_, entity) = &found[0];
    let mut out = String::new();
    let shown = if found.len() > 1 { path.clone() } else { found[0].0.clone() };
    match inline(&entity.body) {
        Some(value) => out.push_str(&format!("{shown} = {value}\n\n")),
        None => out.push_str(&format!("{shown}\n{}\n\n", indented(&body(&entity.body)))),
    }
    let width = value_width(entity);
    for applied in entity.history.iter().flat_map(|h| h.patches.iter().rev()) {
        let patch = &applied.patch;
        let value = patch.value.as_ref().and_then(inline).unwrap_or_default();
        let at = patch.value.as_ref().map_or(&patch.origin, |v| &v.origin);
        out.push_str(&format!("  {value:>width$}  {at}\n"));
        let mut why = format!("patch {}: {}.", patch.own_name(), patch.why.trim_end_matches('.'));
        if let (Some(was), Some(before)) = (&patch.was, &applied.before) {
            let (was, before) =
                (inline(was).unwrap_or_default(), inline(before).unwrap_or_default());
            why.push_str(&format!(" It expects {was} to be there before it, and {before} is."));
        }
        out.push_str(&wrapped(&why, width + 4));
    }
    for owner in &entity.owners {
        out.push_str(&line(owner, width, found, run));
        out.push('\n');
    }
    for (claimant, why) in entity.history.iter().flat_map(|h| h.yielded.iter()) {
        out.push_str(&format!("{}   {why}\n", line(claimant, width, &[], run)));
    }
    let from: Vec<String> =
        entity.owners.iter().flat_map(|o| o.from.iter().map(ToString::to_string)).collect();
    if !from.is_empty() {
        out.push_str("\n  made from");
        from.iter().take(12).enumerate().for_each(|(i, f)| {
            out.push_str(&format!(
                "{}{f}\n",
                if i == 0 { "         " } else { "                    " }
            ));
        });
        if from.len() > 12 {
            out.push_str(&format!("                    and {} more\n", from.len() - 12));
        }
    }
    let mut places: Vec<String> = found.iter().flat_map(|(p, _)| lands(p, run)).collect();
    places.sort();
    places.dedup();
    for (i, place) in places.iter().take(8).enumerate() {
        let head = if i == 0 { "\n  rendered into     " } else { "                    " };
        out.push_str(&format!("{head}{place}\n"));
    }
    if places.len() > 8 {
        out.push_str(&format!("                    and {} more\n", places.len() - 8));
    }
    out.trim_end().to_owned()
}

/// One claim: its value, its place, and what it stood for.
fn line(owner: &Claimant, width: usize, found: &[(Path, &Entity)], run: &Run) -> String {
    let value = inline(&owner.body).unwrap_or_default();
    let origin = owner.body.key_origin();
    let at = if owner.body.key.is_some() && inline(&owner.body).is_none() {
        origin
    } else {
        &owner.body.origin
    };
    let mut line = if width > 0 { format!("  {value:>width$}  {at}") } else { format!("  {at}") };
    if let Some(through) = &owner.through {
        let pools = run.setup.groups.iter().filter(|g| g.pool.is_some()).count();
        let all = found.len() == pools && pools > 1;
        line.push_str(&format!(
            "   through `{through}`{}",
            if all { ", for all workers" } else { "" }
        ));
    }
    for cause in owner.body.causes().iter().take(3) {
        line.push_str(&format!("\n  {:width$}  which it takes from {cause}", ""));
    }
    line
}

fn value_width(entity: &Entity) -> usize {
    let of = |node: &Node| inline(node).map_or(0, |v| v.chars().count());
    let owners = entity.owners.iter().map(|o| of(&o.body));
    let patches = entity
        .history
        .iter()
        .flat_map(|h| h.patches.iter())
        .filter_map(|p| p.patch.value.as_ref())
        .map(of);
    owners.chain(patches).max().unwrap_or(0)
}

/// Returns a scalar as text; anything longer is shown on lines of its own.
fn inline(node: &Node) -> Option<String> {
    match &node.data {
        Data::String(text) if !text.contains('\n') && text.len() <= 60 => Some(text.to_string()),
        Data::Bool(_) | Data::Number(_) => Some(node.to_value().to_string()),
        _ => None,
    }
}

fn body(node: &Node) -> String {
    write(node, &Style { short_tags: true, ..Style::plain() })
}

fn indented(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = lines.iter().take(40).map(|l| format!("  {l}")).collect();
    if lines.len() > 40 {
        out.push(format!("  … {} more lines", lines.len() - 40));
    }
    out.join("\n")
}

fn wrapped(text: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(78)
        .initial_indent(&indent)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    format!("{}\n", textwrap::fill(text, options))
}

/// Returns the files and lines an entity came into, following what was made from it.
fn lands(path: &Path, run: &Run) -> Vec<String> {
    let mut all = files_of(path, path.0.last().map_or("", |s| s), run);
    let word = path.0.last().map_or("", |s| s.as_str());
    run.rendered.model.walk(&[], &mut |at, entity| {
        let made = entity.owners.iter().any(|o| o.from.iter().any(|f| path.starts_with(f)));
        if made {
            all.extend(files_of(&Path::of(at.iter().copied()), word, run));
        }
    });
    all.sort();
    all.dedup();
    all
}

/// Returns the places of an entity that is itself part of a file.
fn files_of(path: &Path, word: &str, run: &Run) -> Vec<String> {
    let segments = path.segments();
    let file = match segments.as_slice() {
        ["stacks", stack, ..] => format!("stacks/{stack}.yaml"),
        ["machines", group, "files", file] => bundled(run, group, file.trim_start_matches('/')),
        ["machines", group, "units", unit] => {
            bundled(run, group, &format!("etc/systemd/system/{unit}"))
        }
        ["machines", group, "dropins", dropin] => {
            let (unit, file) = dropin.split_once('/').unwrap_or((dropin, ""));
            bundled(run, group, &format!("etc/systemd/system/{unit}.d/{file}"))
        }
        ["machines", group, "sysctls", key] => {
            bundled(run, group, &format!("etc/sysctl.d/90-kaws-{key}.conf"))
        }
        ["machines", group, "modules", name] => {
            bundled(run, group, &format!("etc/modules-load.d/kaws-{name}.conf"))
        }
        ["helm", "releases", name, ..] => format!("helm/{name}/values.yaml"),
        _ => return Vec::new(),
    };
    let Some(artifact) = run.rendered.artifacts.get(&file) else { return Vec::new() };
    let text = String::from_utf8_lossy(&artifact.bytes);
    let own = segments.last() == Some(&word);
    let line = match segments.as_slice() {
        // In a template the place is the resource's own, or that of the part inside it.
        ["stacks", .., id] => {
            let start = text
                .lines()
                .position(|l| l.trim_start().starts_with(&format!("{id}:")))
                .unwrap_or(0);
            let inner = text
                .lines()
                .enumerate()
                .skip(start)
                .find(|(_, l)| l.contains(word))
                .map(|(i, _)| i);
            if own { Some(start) } else { inner }
        }
        _ if own => None,
        _ => text.lines().position(|l| l.contains(word)),
    };
    vec![match line {
        Some(line) => format!("{file}:{}", line + 1),
        None => file,
    }]
}

/// Returns where a group's file is written: its own folder, or the pools' common one.
fn bundled(run: &Run, group: &str, file: &str) -> String {
    let own = format!("nodes/{}/bundle/{file}", group.replace(':', "-"));
    if run.rendered.artifacts.contains_key(&own) {
        own
    } else {
        format!("nodes/worker/bundle/{file}")
    }
}

fn to_json(path: &Path, found: &[(Path, &Entity)], run: &Run) -> Value {
    let claim = |c: &Claimant| {
        let (line, column) = c.origin().line_column();
        json!({"plugin": c.plugin.as_str(), "stage": c.stage, "file": c.origin().file().name, "line": line, "column": column,
            "through": c.through, "default": c.yields, "from": c.from.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "value": c.body.to_value()})
    };
    let entities: Vec<Value> = found
        .iter()
        .map(|(p, entity)| {
            let yielded: Vec<Value> = entity.history.iter().flat_map(|h| h.yielded.iter()).map(|(c, why)| json!({"claim": claim(c), "why": why})).collect();
            let patches: Vec<Value> = entity.history.iter().flat_map(|h| h.patches.iter()).map(|a| json!({"name": a.patch.name, "why": a.patch.why, "at": a.patch.origin.to_string()})).collect();
            json!({"path": p.to_string(), "value": entity.body.to_value(), "owners": entity.owners.iter().map(|o| claim(o)).collect::<Vec<_>>(),
                "yielded": yielded, "patches": patches, "renderedInto": lands(p, run)})
        })
        .collect();
    json!({"path": path.to_string(), "entities": entities})
}
