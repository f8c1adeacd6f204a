//! What is in a group's bundle: files, units, and what the node's program reads beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::archive::{Bundle, Entry};
use crate::builtin::group::filled_texts;
use crate::config::Group;
use crate::model::{File, Model, Pin, placeholders};
use crate::pki;
use crate::plugin::Context;
use crate::value::Node;

/// Entries by the entity they are made of: a file that 500 pools share is made once.
#[derive(Default)]
pub(super) struct Cache {
    entries: BTreeMap<(usize, &'static str), Arc<Entry>>,
    owned: Vec<Arc<Node>>,
}

impl Cache {
    fn entry(
        &mut self,
        body: &Arc<Node>,
        part: &'static str,
        make: impl FnOnce() -> (Vec<u8>, u32),
    ) -> Arc<Entry> {
        let key = (Arc::as_ptr(body) as usize, part);
        if let Some(entry) = self.entries.get(&key) {
            return Arc::clone(entry);
        }
        let (bytes, mode) = make();
        let entry = Arc::new(Entry { bytes: bytes.into(), mode });
        // The entity is kept, so that no other can come to lie at its address.
        self.owned.push(Arc::clone(body));
        self.entries.insert(key, Arc::clone(&entry));
        entry
    }

    /// Returns a file with a line for each pair that `make` gives of an entity: what a shell reads with sed.
    fn list(
        &mut self,
        body: &Arc<Node>,
        part: &'static str,
        make: impl FnOnce() -> Vec<(&'static str, String)>,
    ) -> Arc<Entry> {
        self.entry(body, part, || {
            let lines: String =
                make().iter().map(|(key, text)| format!("{key}={text}\n")).collect();
            (lines.into_bytes(), 0o644)
        })
    }
}

/// Returns the bundle of a group.
pub(super) fn bundle(
    cx: &Context<'_>,
    model: &Model,
    group: &Group,
    files: &BTreeMap<String, pki::File>,
    cache: &mut Cache,
) -> Bundle {
    let mut bundle = Bundle::new();
    let key = group.key.as_str();
    for (path, entity) in model.entities(&["machines", key, "files"]) {
        let body = &entity.body;
        attributes(path, body, &mut bundle, cache);
        if let Some(pin) = body.get("pin").and_then(Node::as_str) {
            let make = || asset(cx, model, group, path, body, pin).unwrap_or_default();
            bundle.insert(listed("assets.d", path), cache.list(body, group.arch.into(), make));
            continue;
        }
        let entry = cache.entry(body, "file", || (bytes(body), mode(body)));
        bundle.insert(path.trim_start_matches('/').to_owned(), entry);
    }
    for (name, entity) in model.entities(&["machines", key, "units"]) {
        let body = &entity.body;
        text(&format!("etc/systemd/system/{name}"), body, &mut bundle, cache);
        let flag = |key: &str| body.get(key).and_then(Node::as_bool) == Some(true);
        // Of a unit that others start there is nothing to be said.
        if !flag("enabled") && !flag("required") {
            continue;
        }
        let make = || {
            vec![
                ("name", name.to_owned()),
                ("enabled", flag("enabled").to_string()),
                ("required", flag("required").to_string()),
            ]
        };
        bundle.insert(listed("units.d", name), cache.list(body, "unit", make));
    }
    for (name, entity) in model.entities(&["machines", key, "dropins"]) {
        let (unit, file) = name.split_once('/').unwrap_or((name, "10-kaws.conf"));
        text(&format!("etc/systemd/system/{unit}.d/{file}"), &entity.body, &mut bundle, cache);
    }
    settings(model, key, &mut bundle, cache);
    let pki = pki_map(model, group, files);
    if !pki.is_empty() {
        let entry = Entry { bytes: pki.into_bytes().into(), mode: 0o644 };
        bundle.insert("etc/kaws/pki".to_owned(), Arc::new(entry));
    }
    bundle
}

/// Returns which object each certificate and key is that the group's files name: `apiserver.crt=OBJECT`.
fn pki_map(model: &Model, group: &Group, files: &BTreeMap<String, pki::File>) -> String {
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for (_, text) in filled_texts(model, &group.key) {
        for (_, name) in placeholders(text).filter(|(word, _)| *word == "pki") {
            let matching = files.iter().filter(|(file, _)| pki::matches(name, file));
            named.extend(matching.map(|(name, file)| (name.as_str(), file.object.as_str())));
        }
    }
    named.iter().map(|(name, object)| format!("{name}={object}\n")).collect()
}

/// Returns where the node's program reads of an entity. One file for each, so that what a plugin adds to
/// one pool changes no file that the other pools have.
fn listed(folder: &str, name: &str) -> String {
    let slug = name.trim_start_matches('/').replace(['/', ' '], "-");
    // Different names can have one slug; their hashes differ.
    format!("etc/kaws/{folder}/{slug}-{}", &crate::value::sha256(name.as_bytes())[..8])
}

/// Adds a unit or drop-in.
fn text(path: &str, body: &Arc<Node>, bundle: &mut Bundle, cache: &mut Cache) {
    attributes(&format!("/{path}"), body, bundle, cache);
    bundle.insert(path.to_owned(), cache.entry(body, "file", || (bytes(body), 0o644)));
}

/// Adds what the node's program must do to a file: fill in placeholders, set an owner.
fn attributes(path: &str, body: &Arc<Node>, bundle: &mut Bundle, cache: &mut Cache) {
    let fill = body.get("fill").and_then(Node::as_bool) == Some(true);
    let owner = body.get("owner").and_then(Node::as_str).unwrap_or("root");
    if fill || owner != "root" {
        let make = || {
            vec![("path", path.to_owned()), ("fill", fill.to_string()), ("owner", owner.to_owned())]
        };
        bundle.insert(listed("files.d", path), cache.list(body, "attributes", make));
    }
}

/// Adds kernel parameters and modules as systemd reads them, packages and images for the node's program.
fn settings(model: &Model, group: &str, bundle: &mut Bundle, cache: &mut Cache) {
    let mut put = |path: String, body: &Arc<Node>, text: String| {
        bundle.insert(path, cache.entry(body, "setting", || (text.into_bytes(), 0o644)));
    };
    for (key, entity) in model.entities(&["machines", group, "sysctls"]) {
        let body = &entity.body;
        let value = body.as_str().map_or_else(|| body.to_value().to_string(), str::to_owned);
        put(format!("etc/sysctl.d/90-kaws-{key}.conf"), body, format!("{key} = {value}\n"));
    }
    for (module, entity) in model.entities(&["machines", group, "modules"]) {
        put(format!("etc/modules-load.d/kaws-{module}.conf"), &entity.body, format!("{module}\n"));
    }
    for (part, folder) in [("packages", "packages.d"), ("images", "images.d")] {
        for (name, entity) in model.entities(&["machines", group, part]) {
            let entry = cache.list(&entity.body, "name", || vec![("name", name.to_owned())]);
            bundle.insert(listed(folder, name), entry);
        }
    }
}

fn bytes(body: &Node) -> Vec<u8> {
    use base64::Engine as _;
    let text = |key: &str| body.get(key).and_then(Node::as_str);
    match (text("content"), text("base64")) {
        (Some(content), _) => content.as_bytes().to_vec(),
        (_, Some(encoded)) => {
            base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn mode(body: &Node) -> u32 {
    let text = body.get("mode").and_then(Node::as_str).unwrap_or("0644");
    u32::from_str_radix(text, 8).unwrap_or(0o644)
}

/// Returns what a node needs to download a file: where from, its hash if it is known, and where to.
fn asset(
    cx: &Context<'_>,
    model: &Model,
    group: &Group,
    path: &str,
    body: &Node,
    pin: &str,
) -> Option<Vec<(&'static str, String)>> {
    let arch = group.arch.as_ref();
    let form: Pin = serde_json::from_value(model.entity(&["pins", pin])?.body.to_value()).ok()?;
    let file: File = serde_json::from_value(body.to_value()).ok()?;
    let url = form.url.get(arch)?;
    let name = crate::pipeline::lock_name(pin, &form.version, arch);
    let hash =
        cx.lock.pin(&name, Some(url)).map(|p| p.value.trim_start_matches("sha256:").to_owned());
    let mut asset = vec![
        ("path", path.to_owned()),
        ("url", url.clone()),
        ("sha256", hash.unwrap_or_default()),
        ("mode", file.mode),
        ("owner", file.owner),
    ];
    asset.extend(file.extract.or(form.extract).map(|name| ("extract", name)));
    Some(asset)
}
