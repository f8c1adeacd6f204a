//! What a plugin names in place of bytes: files and templates of its folder, pins of its manifest.
//!
//! Not here: which parts of a contribution there are (`declared`, `runtime`).

use std::collections::BTreeMap;

use super::{Context, Package};
use crate::finding::{Finding, Findings};
use crate::model::has_placeholder;
use crate::template::Scope;
use crate::value::{Data, Node};

/// Returns a contribution with bytes in the files, units and drop-ins of its machines.
pub(super) fn resolved(
    mut tree: Node,
    cx: &Context<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Node {
    let Some(parts) = tree.as_map_mut() else { return tree };
    for group in within(parts.get_mut("machines")) {
        for part in ["files", "units", "dropins"] {
            for body in within(group.as_map_mut().and_then(|m| m.get_mut(part))) {
                let new = resolve(body.clone(), cx, scope, findings);
                *body = Node { key: body.key.clone(), ..new };
            }
        }
    }
    for event in within(parts.get_mut("hooks")) {
        for body in within(Some(event)) {
            // What is filled in is for what is written here to say; a file's own bytes never are.
            if let Some(map) = body.as_map_mut() {
                map.remove("fill");
            }
            let new = own_script(resolve(body.clone(), cx, scope, findings), cx, findings);
            *body = Node { key: body.key.clone(), ..new };
        }
    }
    tree
}

/// What stands in a map.
fn within(map: Option<&mut Node>) -> impl Iterator<Item = &mut Node> {
    map.and_then(Node::as_map_mut).into_iter().flat_map(BTreeMap::values_mut)
}

/// Puts a script of the plugin's own folder in place of its name.
fn own_script(mut body: Node, cx: &Context<'_>, findings: &mut Findings) -> Node {
    let package = &cx.me.package;
    let named = body.get("script").cloned();
    let Some(script) = named.filter(|s| s.as_str().is_some_and(|text| text.starts_with("./")))
    else {
        return body;
    };
    let path = script.as_str().unwrap_or_default().trim_start_matches("./").to_owned();
    let Some(map) = body.as_map_mut() else { return body };
    map.remove("script");
    match package.text(&path) {
        Some(text) => {
            map.insert("content".to_owned(), Node { data: Data::String(text.into()), ..script });
        }
        None => findings.push(missing_file(package, &path, &script)),
    }
    body
}

/// Puts the bytes of `file:` and the text of `template:` in their place, and the full name of `pin:`.
pub(super) fn resolve(
    mut body: Node,
    cx: &Context<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Node {
    let package = &cx.me.package;
    let Some(map) = body.as_map_mut() else { return body };
    if let Some(pin) = map.get_mut("pin") {
        let name = pin.as_str().unwrap_or_default().to_owned();
        if !package.manifest.pins.contains_key(&name) {
            let text = format!("{} has no pin `{name}` in its manifest", cx.me.name);
            findings.push(Finding::fatal("model/pin", text).at(&pin.origin));
        }
        pin.data = Data::String(format!("{}/{name}", cx.me.name).into());
    }
    let raw = map.contains_key("file");
    if let Some(named) = map.remove("file") {
        let path = format!("files/{}", named.as_str().unwrap_or_default());
        match package.files.get(&path) {
            Some(bytes) => {
                let (key, text) = match std::str::from_utf8(bytes) {
                    Ok(text) => ("content", text.to_owned()),
                    Err(_) => {
                        use base64::Engine as _;
                        ("base64", base64::engine::general_purpose::STANDARD.encode(bytes))
                    }
                };
                map.insert(key.to_owned(), Node { data: Data::String(text.into()), ..named });
            }
            None => {
                findings.push(missing_file(package, &path, &named));
                map.insert("content".to_owned(), Node { data: Data::String("".into()), ..named });
            }
        }
    }
    if let Some(named) = map.remove("template") {
        let path = format!("templates/{}", named.as_str().unwrap_or_default());
        let Some(text) = package.text(&path) else {
            findings.push(missing_file(package, &path, &named));
            map.insert("content".to_owned(), Node { data: Data::String("".into()), ..named });
            return body;
        };
        let file = crate::origin::SourceFile::new(
            package.home.file_name(package.name.as_str(), &path),
            text,
        );
        match cx.engine.render(text, scope, &crate::origin::Origin::file_start(&file)) {
            Ok(text) => {
                mark_filled(map, &text, &named);
                map.insert("content".to_owned(), Node { data: Data::String(text.into()), ..named });
            }
            Err(finding) => findings.push(finding.by(&cx.me.name)),
        }
    } else if let Some(content) = map.get("content").filter(|_| !raw).cloned() {
        mark_filled(map, content.as_str().unwrap_or_default(), &content);
    }
    body
}

fn mark_filled(map: &mut BTreeMap<String, Node>, text: &str, at: &Node) {
    // A file's own bytes are never filled in: only what the author wrote here is.
    if has_placeholder(text) {
        map.insert("fill".to_owned(), Node::new(Data::Bool(true), at.origin.clone()));
    }
}

pub(super) fn missing_file(package: &Package, path: &str, at: &Node) -> Finding {
    let folder = path.split('/').next().unwrap_or_default();
    let there: Vec<&str> =
        package.files.keys().filter(|f| f.starts_with(folder)).map(String::as_str).collect();
    let finding = Finding::fatal("plugin/file", format!("{} has no file {path}", package.name))
        .at(&at.origin);
    match crate::name::did_you_mean(path, there.iter().copied()) {
        Some(near) => finding.help(format!("did you mean {near}?")),
        None => finding.help(format!(
            "its folder has: {}",
            if there.is_empty() { "none".to_owned() } else { there.join(", ") }
        )),
    }
}
