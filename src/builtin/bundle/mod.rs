//! `node-bundle`: everything on a group's machines becomes one bundle with one hash, and user data that
//! fetches it.
//!
//! The hash is that of a canonical, uncompressed tar: compression is transport, and no release of it can
//! change a hash. Not here: the launch templates that carry the user data.

mod archive;
mod boot;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::Group;
use crate::finding::Outcome;
use crate::model::{File, Model, Pin};
use crate::name::Name;
use crate::plugin::{Artifact, Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Style, write};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct NodeBundle;

/// One file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its bytes.
    pub(super) bytes: Arc<[u8]>,
    /// Its permissions.
    pub(super) mode: u32,
    /// Its SHA-256, known once however many groups have the file.
    pub(super) digest: [u8; 32],
}

/// A bundle: its files by path, without the leading slash.
pub(super) type Bundle = BTreeMap<String, Arc<Entry>>;

impl Plugin for NodeBundle {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
                let mut made = Artifacts::new();
        let mut cache = Cache::default();
        let bundles: Vec<(&Group, Bundle)> =
            cx.groups.iter().map(|g| (g, bundle(cx, model, g, &mut cache))).collect();
        for (group, bundle) in &bundles {
            let hash = archive::hash(bundle);
            let text = boot::user_data(cx, model, group, &hash);
            made.insert(format!("nodes/{}/user-data", group.folder()), Artifact::text(&cx.me.name, &text));
        }
        written(&cx.me.name, &bundles, &mut made);
        Outcome::clean(Rendering { artifacts: made, ..Rendering::default() })
    }
}

/// Entries by the entity they are made of: a file that 500 pools share is read and hashed once.
#[derive(Default)]
struct Cache {
    entries: BTreeMap<(usize, String), Arc<Entry>>,
    owned: Vec<Arc<Node>>,
}

impl Cache {
    fn entry(&mut self, body: &Arc<Node>, part: &str, make: impl FnOnce() -> (Vec<u8>, u32)) -> Arc<Entry> {
        let key = (Arc::as_ptr(body) as usize, part.to_owned());
        if let Some(entry) = self.entries.get(&key) {
            return Arc::clone(entry);
        }
        let (bytes, mode) = make();
        let entry = Arc::new(entry(bytes, mode));
        // The entity is kept, so that no other can come to lie at its address.
        self.owned.push(Arc::clone(body));
        self.entries.insert(key, Arc::clone(&entry));
        entry
    }
}

fn entry(bytes: Vec<u8>, mode: u32) -> Entry {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(&bytes).into();
    Entry { bytes: bytes.into(), mode, digest }
}

fn bundle(cx: &Context<'_>, model: &Model, group: &Group, cache: &mut Cache) -> Bundle {
    let mut bundle = Bundle::new();
    let key = group.key.as_str();
    let mut assets = Vec::new();
    let mut lists = Lists::default();
    for (path, entity) in model.entities(&["machines", key, "files"]) {
        let body = &entity.body;
        lists.attributes(path, body);
        if let Some(pin) = body.get("pin").and_then(Node::as_str) {
            assets.extend(asset(cx, model, group, path, body, pin));
            continue;
        }
        let entry = cache.entry(body, "file", || (bytes(body), mode(body)));
        bundle.insert(path.trim_start_matches('/').to_owned(), entry);
    }
    for (name, entity) in model.entities(&["machines", key, "units"]) {
        let entry = cache.entry(&entity.body, "unit", || (bytes(&entity.body), 0o644));
        bundle.insert(format!("etc/systemd/system/{name}"), entry);
        lists.unit(name, &entity.body);
    }
    for (name, entity) in model.entities(&["machines", key, "dropins"]) {
        let entry = cache.entry(&entity.body, "dropin", || (bytes(&entity.body), 0o644));
        let (unit, file) = name.split_once('/').unwrap_or((name, "10-kaws.conf"));
        bundle.insert(format!("etc/systemd/system/{unit}.d/{file}"), entry);
        lists.fills(&format!("/etc/systemd/system/{unit}.d/{file}"), &entity.body);
    }
    settings(model, key, &mut bundle);
    let mut add = |path: &str, value: &Value| {
        if value.as_array().is_none_or(|a| !a.is_empty()) {
            let origin = crate::origin::Origin::file_start(&crate::origin::SourceFile::new("bundle", ""));
            let text = write(&Node::from_value(value.clone(), &origin), &Style::plain());
            bundle.insert(path.to_owned(), Arc::new(entry(text.into_bytes(), 0o644)));
        }
    };
    add("etc/kaws/assets.yaml", &json!(assets));
    add("etc/kaws/units.yaml", &json!(lists.units));
    add("etc/kaws/fill.yaml", &json!(lists.fill));
    add("etc/kaws/owners.yaml", &json!(lists.owners));
    for (list, path) in [("packages", "etc/kaws/packages.yaml"), ("images", "etc/kaws/images.yaml")] {
        add(path, &json!(model.names(&["machines", key, list])));
    }
    bundle
}

/// What the node's program reads beside the files: units, placeholders to fill, owners to set.
#[derive(Default)]
struct Lists {
    units: Vec<Value>,
    fill: Vec<String>,
    owners: Vec<Value>,
}

impl Lists {
    fn fills(&mut self, path: &str, body: &Node) {
        if body.get("fill").and_then(Node::as_bool) == Some(true) {
            self.fill.push(path.to_owned());
        }
    }

    fn attributes(&mut self, path: &str, body: &Node) {
        self.fills(path, body);
        let owner = body.get("owner").and_then(Node::as_str).unwrap_or("root");
        if owner != "root" {
            self.owners.push(json!({"path": path, "owner": owner}));
        }
    }

    fn unit(&mut self, name: &str, body: &Node) {
        let flag = |key: &str| body.get(key).and_then(Node::as_bool) == Some(true);
        self.units.push(json!({"name": name, "enabled": flag("enabled"), "required": flag("required")}));
        self.fills(&format!("/etc/systemd/system/{name}"), body);
    }
}

/// Kernel parameters and modules, as systemd reads them.
fn settings(model: &Model, group: &str, bundle: &mut Bundle) {
    let sysctls: String = model
        .entities(&["machines", group, "sysctls"])
        .map(|(key, e)| {
            let value = e.body.as_str().map_or_else(|| e.body.to_value().to_string(), str::to_owned);
            format!("{key} = {value}\n")
        })
        .collect();
    let modules: String = model.names(&["machines", group, "modules"]).iter().map(|m| format!("{m}\n")).collect();
    for (path, text) in [("etc/sysctl.d/99-kaws.conf", sysctls), ("etc/modules-load.d/kaws.conf", modules)] {
        if !text.is_empty() {
            bundle.insert(path.to_owned(), Arc::new(entry(text.into_bytes(), 0o644)));
        }
    }
}

fn bytes(body: &Node) -> Vec<u8> {
    use base64::Engine as _;
    let text = |key: &str| body.get(key).and_then(Node::as_str);
    match (text("content"), text("base64")) {
        (Some(content), _) => content.as_bytes().to_vec(),
        (_, Some(encoded)) => base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn mode(body: &Node) -> u32 {
    let text = body.get("mode").and_then(Node::as_str).unwrap_or("0644");
    u32::from_str_radix(text, 8).unwrap_or(0o644)
}

/// Returns what a node needs to download a file: where from, its hash if it is known, and where to.
fn asset(cx: &Context<'_>, model: &Model, group: &Group, path: &str, body: &Node, pin: &str) -> Option<Value> {
    let arch = group.arch.as_str();
    let form: Pin = serde_json::from_value(model.entity(&["pins", pin])?.body.to_value()).ok()?;
    let file: File = serde_json::from_value(body.to_value()).ok()?;
    let url = form.url.get(arch)?;
    let name = crate::pipeline::lock_name(pin, &form.version, arch);
    let hash = cx.lock.pin(&name, Some(url)).map(|p| p.value.trim_start_matches("sha256:").to_owned());
    let mut asset = json!({"path": path, "url": url, "sha256": hash, "mode": file.mode, "owner": file.owner});
    if let (Some(extract), Some(map)) = (form.extract, asset.as_object_mut()) {
        map.insert("extract".to_owned(), extract.into());
    }
    Some(asset)
}

/// Writes the bundles unpacked. What all pools have is written once, under `nodes/worker`: a view that
/// enters no hash.
fn written(me: &Name, bundles: &[(&Group, Bundle)], made: &mut Artifacts) {
    let artifact = |entry: &Entry| Artifact { bytes: Arc::clone(&entry.bytes), plugin: me.clone(), executable: entry.mode & 0o100 != 0 };
    let pools: Vec<&Bundle> = bundles.iter().filter(|(g, _)| g.pool.is_some()).map(|(_, b)| b).collect();
    let common: BTreeMap<&String, &Arc<Entry>> = match pools.split_first() {
        Some((first, rest)) => first.iter().filter(|(path, e)| rest.iter().all(|b| b.get(*path) == Some(e))).collect(),
        None => BTreeMap::new(),
    };
    for (path, entry) in &common {
        made.insert(format!("nodes/worker/bundle/{path}"), artifact(entry));
    }
    for (group, bundle) in bundles {
        let own = bundle.iter().filter(|(path, _)| group.pool.is_none() || !common.contains_key(path));
        let folder = group.folder();
        made.extend(own.map(|(path, entry)| (format!("nodes/{folder}/bundle/{path}"), artifact(entry))));
    }
}
