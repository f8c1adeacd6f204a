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
            made.insert(
                format!("nodes/{}/user-data", group.folder()),
                Artifact::text(&cx.me.name, &text),
            );
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
    fn entry(
        &mut self,
        body: &Arc<Node>,
        part: &str,
        make: impl FnOnce() -> (Vec<u8>, u32),
    ) -> Arc<Entry> {
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
    for (path, entity) in model.entities(&["machines", key, "files"]) {
        let body = &entity.body;
        attributes(path, body, &mut bundle);
        if let Some(pin) = body.get("pin").and_then(Node::as_str) {
            let asset = asset(cx, model, group, path, body, pin).unwrap_or_default();
            list(&mut bundle, "assets.d", path, &asset);
            continue;
        }
        let entry = cache.entry(body, "file", || (bytes(body), mode(body)));
        bundle.insert(path.trim_start_matches('/').to_owned(), entry);
    }
    for (name, entity) in model.entities(&["machines", key, "units"]) {
        let body = &entity.body;
        let path = format!("etc/systemd/system/{name}");
        bundle.insert(path.clone(), cache.entry(body, "unit", || (bytes(body), 0o644)));
        attributes(&format!("/{path}"), body, &mut bundle);
        let flag = |key: &str| body.get(key).and_then(Node::as_bool) == Some(true);
        list(
            &mut bundle,
            "units.d",
            name,
            &json!({"name": name, "enabled": flag("enabled"), "required": flag("required")}),
        );
    }
    for (name, entity) in model.entities(&["machines", key, "dropins"]) {
        let body = &entity.body;
        let (unit, file) = name.split_once('/').unwrap_or((name, "10-kaws.conf"));
        let path = format!("etc/systemd/system/{unit}.d/{file}");
        bundle.insert(path.clone(), cache.entry(body, "dropin", || (bytes(body), 0o644)));
        attributes(&format!("/{path}"), body, &mut bundle);
    }
    settings(model, key, &mut bundle);
    bundle
}

/// Adds what the node's program reads beside the files. One file for each entity, so that what a plugin
/// adds to one pool changes no file that the other pools have.
fn list(bundle: &mut Bundle, folder: &str, name: &str, value: &Value) {
    let origin = crate::origin::Origin::file_start(&crate::origin::SourceFile::new("bundle", ""));
    let text = write(&Node::from_value(value.clone(), &origin), &Style::plain());
    let slug = name.trim_start_matches('/').replace(['/', ' '], "-");
    bundle.insert(
        format!("etc/kaws/{folder}/{slug}.yaml"),
        Arc::new(entry(text.into_bytes(), 0o644)),
    );
}

/// Adds what the node's program must do to a file: fill in placeholders, set an owner.
fn attributes(path: &str, body: &Node, bundle: &mut Bundle) {
    let fill = body.get("fill").and_then(Node::as_bool) == Some(true);
    let owner = body.get("owner").and_then(Node::as_str).unwrap_or("root");
    if fill || owner != "root" {
        list(bundle, "files.d", path, &json!({"path": path, "fill": fill, "owner": owner}));
    }
}

/// Kernel parameters and modules as systemd reads them; packages and images for the node's program.
fn settings(model: &Model, group: &str, bundle: &mut Bundle) {
    let mut put = |path: String, text: String| {
        bundle.insert(path, Arc::new(entry(text.into_bytes(), 0o644)));
    };
    for (key, entity) in model.entities(&["machines", group, "sysctls"]) {
        let value =
            entity.body.as_str().map_or_else(|| entity.body.to_value().to_string(), str::to_owned);
        put(format!("etc/sysctl.d/90-kaws-{key}.conf"), format!("{key} = {value}\n"));
    }
    for module in model.names(&["machines", group, "modules"]) {
        put(format!("etc/modules-load.d/kaws-{module}.conf"), format!("{module}\n"));
    }
    for (part, folder) in [("packages", "packages.d"), ("images", "images.d")] {
        for name in model.names(&["machines", group, part]) {
            list(bundle, folder, name, &json!({"name": name}));
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
) -> Option<Value> {
    let arch = group.arch.as_str();
    let form: Pin = serde_json::from_value(model.entity(&["pins", pin])?.body.to_value()).ok()?;
    let file: File = serde_json::from_value(body.to_value()).ok()?;
    let url = form.url.get(arch)?;
    let name = crate::pipeline::lock_name(pin, &form.version, arch);
    let hash =
        cx.lock.pin(&name, Some(url)).map(|p| p.value.trim_start_matches("sha256:").to_owned());
    let mut asset =
        json!({"path": path, "url": url, "sha256": hash, "mode": file.mode, "owner": file.owner});
    if let (Some(extract), Some(map)) = (form.extract, asset.as_object_mut()) {
        map.insert("extract".to_owned(), extract.into());
    }
    Some(asset)
}

/// Writes the bundles unpacked. What all pools have is written once, under `nodes/worker`: a view that
/// enters no hash.
fn written(me: &Name, bundles: &[(&Group, Bundle)], made: &mut Artifacts) {
    let artifact = |entry: &Entry| Artifact {
        bytes: Arc::clone(&entry.bytes),
        plugin: me.clone(),
        executable: entry.mode & 0o100 != 0,
    };
    let pools: Vec<&Bundle> =
        bundles.iter().filter(|(g, _)| g.pool.is_some()).map(|(_, b)| b).collect();
    let common: BTreeMap<&String, &Arc<Entry>> = match pools.split_first() {
        Some((first, rest)) => {
            first.iter().filter(|(path, e)| rest.iter().all(|b| b.get(*path) == Some(e))).collect()
        }
        None => BTreeMap::new(),
    };
    for (path, entry) in &common {
        made.insert(format!("nodes/worker/bundle/{path}"), artifact(entry));
    }
    for (group, bundle) in bundles {
        let own =
            bundle.iter().filter(|(path, _)| group.pool.is_none() || !common.contains_key(path));
        let folder = group.folder();
        made.extend(
            own.map(|(path, entry)| (format!("nodes/{folder}/bundle/{path}"), artifact(entry))),
        );
    }
}
