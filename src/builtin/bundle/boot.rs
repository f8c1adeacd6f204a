//! User data: the little that a machine needs to fetch its bundle, check its hash and start it.
//!
//! cloud-init's format. It holds no secret, and only what differs between groups.

use std::fmt::Write as _;

use crate::config::{Group, Role};
use crate::model::Model;
use crate::plugin::Context;

/// The program that fetches the bundle; the same on every machine of every cluster.
const BOOTSTRAP: &str = include_str!("../../../plugins/node-bundle/files/bootstrap");
/// The unit that runs it.
const UNIT: &str = include_str!("../../../plugins/node-bundle/files/kaws-bootstrap.service");

/// Returns the user data of a group; `${Name}` are CloudFormation's, filled in when the stack is deployed.
pub(super) fn user_data(cx: &Context<'_>, model: &Model, group: &Group, hash: &str) -> String {
    let config = cx.config;
    let folder = group.folder();
    let stack = format!("{}-{}", config.name, group.stack);
    let signal = if group.role == Role::Etcd { "${Signal}" } else { "Group" };
    let mut facts = vec![
        ("KAWS_BUCKET", config.bucket()),
        ("KAWS_BUNDLE", format!("nodes/{folder}/{hash}.tar.gz")),
        ("KAWS_BUNDLE_SHA256", hash.to_owned()),
        ("KAWS_CLUSTER", config.name.clone()),
        ("KAWS_DNS_SUFFIX", config.partition().dns_suffix().to_owned()),
        ("KAWS_ENDPOINT", config.endpoint()),
        ("KAWS_GROUP", group.key.clone()),
        ("KAWS_REGION", config.region.clone()),
        ("KAWS_ROLE", group.role.as_ref().to_owned()),
        ("KAWS_SIGNAL", signal.to_owned()),
        ("KAWS_STACK", stack),
    ];
    if group.role == Role::Etcd {
        facts.push(("KAWS_MEMBER", "${Member}".to_owned()));
        facts.push(("KAWS_VOLUME", "${Volume}".to_owned()));
    }
    if let Some(pool) = &group.pool {
        facts.push(("KAWS_POOL", pool.clone()));
    }
    facts.sort();
    let facts: String = facts.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let outputs: String = super::super::group::outputs_of(model, group)
        .iter()
        .map(|name| format!("{name}=${{{}}}\n", crate::model::parameter_name(name)))
        .collect();
    let mut text =
        "#cloud-config\npackage_update: false\npackage_upgrade: false\nwrite_files:\n".to_owned();
    file(&mut text, "/etc/kaws/node.env", "0644", &facts);
    if !outputs.is_empty() {
        file(&mut text, "/etc/kaws/outputs", "0644", &outputs);
    }
    file(&mut text, "/opt/kaws/bin/kaws-bootstrap", "0755", BOOTSTRAP);
    file(&mut text, "/etc/systemd/system/kaws-bootstrap.service", "0644", UNIT);
    text.push_str("runcmd:\n  - [systemctl, daemon-reload]\n  - [systemctl, enable, --now, --no-block, kaws-bootstrap.service]\n");
    text
}

fn file(text: &mut String, path: &str, mode: &str, content: &str) {
    let _ = write!(text, "  - path: {path}\n    permissions: \"{mode}\"\n    content: |\n");
    for line in content.lines() {
        let _ = if line.is_empty() { writeln!(text) } else { writeln!(text, "      {line}") };
    }
}
