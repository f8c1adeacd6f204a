//! `node-bundle`: everything on a group's machines becomes one bundle with one hash, and user data that
//! fetches it.
//!
//! The hash is that of a canonical, uncompressed tar: compression is transport, and no release of it can
//! change a hash. Not here: the launch templates that carry the user data.

mod boot;
mod content;

use std::sync::Arc;

use content::{Cache, bundle};

use crate::archive::{self, Bundle, Entry};
use crate::config::Group;
use crate::finding::Outcome;
use crate::model::Model;
use crate::name::Name;
use crate::pki;
use crate::plugin::{Artifact, Artifacts, Context, Plugin, Rendering};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct NodeBundle;

impl Plugin for NodeBundle {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut made = Artifacts::new();
        let mut cache = Cache::default();
        let files = pki::files(&pki::Requests::of(model, cx.config));
        let bundles: Vec<(&Group, Bundle)> =
            cx.groups.iter().map(|g| (g, bundle(cx, model, g, &files, &mut cache))).collect();
        let hashes = archive::hashes(&bundles.iter().map(|(_, bundle)| bundle).collect::<Vec<_>>());
        for ((group, _), hash) in bundles.iter().zip(&hashes) {
            let text = boot::user_data(cx, model, group, hash);
            let path = format!("nodes/{}/user-data", group.folder());
            made.insert(path, Artifact::text(&cx.me.name, &text));
        }
        written(&cx.me.name, &bundles, &mut made);
        Outcome::clean(Rendering { artifacts: made, ..Rendering::default() })
    }
}

/// Writes the bundles unpacked. What all pools have is written once, under `nodes/worker`: a view that
/// enters no hash.
fn written(me: &Name, bundles: &[(&Group, Bundle)], made: &mut Artifacts) {
    let artifact = |entry: &Entry| Artifact {
        bytes: Arc::clone(&entry.bytes),
        plugin: me.clone(),
        mode: entry.mode,
    };
    let pools: Vec<&Bundle> =
        bundles.iter().filter(|(g, _)| g.pool.is_some()).map(|(_, b)| b).collect();
    let common = common(&pools);
    for (path, entry) in &common {
        made.insert(format!("nodes/worker/bundle/{path}"), artifact(entry));
    }
    for (group, bundle) in bundles {
        let shared = if group.pool.is_some() { common.as_slice() } else { &[] };
        let folder = group.folder();
        let own = besides(bundle, shared);
        made.extend(
            own.map(|(path, entry)| (format!("nodes/{folder}/bundle/{path}"), artifact(entry))),
        );
    }
}

/// What is in every one of some bundles: both sides are sorted, and one walk over them is enough.
fn common<'b>(bundles: &[&'b Bundle]) -> Vec<(&'b String, &'b Arc<Entry>)> {
    let Some((first, rest)) = bundles.split_first() else { return Vec::new() };
    let mut common: Vec<_> = first.iter().collect();
    for bundle in rest {
        let mut theirs = bundle.iter().peekable();
        common.retain(|(path, entry)| {
            while theirs.next_if(|(other, _)| other < path).is_some() {}
            theirs.next_if(|(other, _)| other == path).is_some_and(|(_, other)| other == *entry)
        });
    }
    common
}

/// What a bundle has besides what is shared.
fn besides<'b>(
    bundle: &'b Bundle,
    shared: &'b [(&'b String, &'b Arc<Entry>)],
) -> impl Iterator<Item = (&'b String, &'b Arc<Entry>)> {
    let mut shared = shared.iter().map(|(path, _)| *path).peekable();
    bundle.iter().filter(move |(path, _)| {
        while shared.next_if(|other| other < path).is_some() {}
        shared.next_if(|other| other == path).is_none()
    })
}
