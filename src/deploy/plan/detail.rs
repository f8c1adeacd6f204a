//! What changes on machines: files of a bundle, before and after.

use serde::Serialize;

use super::{Deployed, Wanted};
use crate::cloudformation::Change;

/// A file on machines that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// The plugin that owns it.
    pub plugin: String,
    /// The file's name.
    pub file: String,
    /// What differs, in a few words.
    pub what: String,
}

/// Returns the files that change with a launch template, by name.
pub(super) fn details(change: &Change, wanted: &Wanted<'_>, deployed: &Deployed) -> Vec<Detail> {
    let texts = change.properties.iter().filter(|p| p.path.ends_with("UserData"));
    let Some((before, after)) =
        texts.filter_map(|p| Some((bundle(&p.before)?, bundle(&p.after)?))).next()
    else {
        return Vec::new();
    };
    let Some(last) = &deployed.last else { return Vec::new() };
    if before == after {
        return Vec::new();
    }
    let group = after.0.as_str();
    let folders = [format!("nodes/{group}/bundle/"), "nodes/worker/bundle/".to_owned()];
    let folders = if group.starts_with("pool-") { &folders[..] } else { &folders[..1] };
    let old_hash = last
        .files
        .get(&format!("nodes/{group}/user-data"))
        .and_then(|text| name(&String::from_utf8_lossy(text)));
    // Only of the bundle that is deployed is it known what was in it.
    if old_hash.as_ref() != Some(&before) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for folder in folders {
        let inside = |path: &&String| path.starts_with(folder.as_str());
        let old = last.files.keys().filter(inside);
        let paths: std::collections::BTreeSet<&String> =
            old.chain(wanted.tree.files.keys().filter(inside)).collect();
        for path in paths {
            let (a, b) = (last.files.get(path), wanted.tree.files.get(path));
            if a == b {
                continue;
            }
            let owner = wanted.owners.get(path).or_else(|| last.record.owners.get(path));
            let text = |bytes: Option<&std::sync::Arc<[u8]>>| {
                bytes.map(|b| String::from_utf8_lossy(b).into_owned())
            };
            let (a, b) = (text(a), text(b));
            all.push(Detail {
                plugin: owner.and_then(|o| o.first()).cloned().unwrap_or_default(),
                file: shown(path, b.as_deref().or(a.as_deref())),
                what: fetched(path, a.as_deref(), b.as_deref())
                    .unwrap_or_else(|| difference(a.as_deref(), b.as_deref())),
            });
        }
    }
    all.sort_by(|a, b| (&a.plugin, &a.what, &a.file).cmp(&(&b.plugin, &b.what, &b.file)));
    together(all)
}

/// Files of one plugin that change in the same way are one line.
fn together(all: Vec<Detail>) -> Vec<Detail> {
    let mut joined: Vec<Detail> = Vec::new();
    for detail in all {
        match joined.last_mut() {
            Some(last) if last.plugin == detail.plugin && last.what == detail.what => {
                if last.file.split(", ").all(|name| name != detail.file) {
                    last.file = format!("{}, {}", last.file, detail.file);
                }
            }
            _ => joined.push(detail),
        }
    }
    joined
}

/// A file's own name; of what is said about a file to the node's program, the name of that file.
fn shown(path: &str, text: Option<&str>) -> String {
    let about = text.filter(|_| path.contains("/etc/kaws/")).and_then(|t| field(t, "path"));
    let path = about.unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Of something that is downloaded, the part of its address that differs: its version.
fn fetched(path: &str, before: Option<&str>, after: Option<&str>) -> Option<String> {
    if !path.contains("/etc/kaws/assets.d/") {
        return None;
    }
    let (a, b) = (field(before?, "url")?, field(after?, "url")?);
    let differing = a.split('/').zip(b.split('/')).find(|(a, b)| a != b);
    differing.map(|(a, b)| format!("{} → {}", a.trim_start_matches('v'), b.trim_start_matches('v')))
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='))
}

/// The group and the hash that a machine's user data names.
fn bundle(value: &Option<serde_json::Value>) -> Option<(String, String)> {
    use base64::Engine as _;
    let text = value.as_ref()?.as_str()?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    name(&String::from_utf8_lossy(&bytes))
}

fn name(text: &str) -> Option<(String, String)> {
    let (_, rest) = text.split_once("KAWS_BUNDLE=nodes/")?;
    let (group, rest) = rest.split_once('/')?;
    Some((group.to_owned(), rest.split_once(".tar.gz")?.0.to_owned()))
}

/// What differs between two texts: the one line that does, or how many.
fn difference(before: Option<&str>, after: Option<&str>) -> String {
    let (Some(before), Some(after)) = (before, after) else {
        return if before.is_some() { "goes" } else { "new" }.to_owned();
    };
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let differing: Vec<(&str, &str)> = if old.len() == new.len() {
        old.iter().zip(&new).filter(|(a, b)| a != b).map(|(a, b)| (*a, *b)).collect()
    } else {
        Vec::new()
    };
    match differing.as_slice() {
        [(a, b)] => one_line(a.trim(), b.trim()),
        [] => {
            let (more, less) =
                (new.len().saturating_sub(old.len()), old.len().saturating_sub(new.len()));
            let noun = if more + less == 1 { "line" } else { "lines" };
            if more > 0 { format!("{more} more {noun}") } else { format!("{less} fewer {noun}") }
        }
        several => format!("{} lines", several.len()),
    }
}

/// `image: a:v1 → a:v2` becomes `image → v2`: what is equal at the start is not said twice.
fn one_line(before: &str, after: &str) -> String {
    let key = |line: &str| {
        line.split_once([':', '='])
            .map(|(k, v)| (k.trim_start_matches("- ").trim().to_owned(), v.trim().to_owned()))
    };
    let short = |text: &str| -> String {
        let text = text.trim_matches('"');
        if text.chars().count() > 28 {
            format!("{}…", text.chars().take(27).collect::<String>())
        } else {
            text.to_owned()
        }
    };
    match (key(before), key(after)) {
        (Some((a, _)), Some((b, value))) if a == b => {
            // Of an image the version is what differs.
            let version = value.rsplit_once(':').filter(|_| a == "image").map(|(_, v)| v);
            let tail = version.unwrap_or(value.as_str());
            format!("{a} → {}", short(tail))
        }
        _ => format!("{} → {}", short(before), short(after)),
    }
}
