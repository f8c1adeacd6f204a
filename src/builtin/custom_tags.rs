//! `custom-tags`: tags that are computed from the whole cluster, for whoever looks for it in AWS's bills and lists.
//!
//! Code without a plugin of kaws's own: a manifest of the user's that names it turns it on.

use std::collections::BTreeSet;

use crate::finding::Outcome;
use crate::model::Model;
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::Path;

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct CustomTags;

impl Plugin for CustomTags {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let key = cx.setting(&["key"]);
        let key = key.as_str().unwrap_or("kaws/topology");
        let groups = cx.groups.iter().map(|group| group.stack.as_str());
        let stacks: BTreeSet<&str> = model.names(&["stacks"]).into_iter().chain(groups).collect();
        for stack in stacks {
            let path = Path::of(["stacks", stack, "tags", key]);
            out.contribution.put(cx.me.name.as_str(), path, topology(cx).into());
        }
        Outcome::clean(out)
    }
}

/// `kubernetes=1.36.4 etcd=3 controllers=3 pools=2`: only characters that AWS takes in tags.
fn topology(cx: &Context<'_>) -> String {
    let config = cx.config;
    format!(
        "kubernetes={} etcd={} controllers={} pools={}",
        config.kubernetes_version,
        config.etcd.members,
        config.control_plane.count,
        config.node_pools.len()
    )
}
