//! User data: the little that a machine needs to fetch its bundle, check its hash and start it.
//!
//! cloud-init's format, or Ignition's. It holds no secret, and only what differs between groups.

use std::fmt::Write as _;

use serde_json::json;

use super::super::group::{has_variables, outputs_of};
use crate::config::{Duration, Group, Role};
use crate::model::{Model, parameter_name};
use crate::plugin::Context;

/// What every machine of every cluster has, by path: the program that fetches the bundle, what it asks AWS
/// with, and the unit that runs it.
const FILES: [(&str, u32, &str); 3] = [
    ("/opt/kaws/lib/aws.sh", 0o644, include_str!("../../../plugins/node-bundle/files/aws.sh")),
    (
        "/opt/kaws/bin/kaws-bootstrap",
        0o755,
        include_str!("../../../plugins/node-bundle/files/bootstrap"),
    ),
    (
        "/etc/systemd/system/kaws-bootstrap.service",
        0o644,
        include_str!("../../../plugins/node-bundle/files/kaws-bootstrap.service"),
    ),
];

/// Version 3.3.0 is the newest that every Flatcar since 2022 reads.
const IGNITION: &str = "3.3.0";

/// A file of user data.
struct File {
    path: &'static str,
    mode: u32,
    text: String,
    /// Whether CloudFormation fills values into it.
    filled: bool,
}

/// Returns the user data of a group; `${Name}` are CloudFormation's, filled in when the stack is deployed.
pub(super) fn user_data(cx: &Context<'_>, model: &Model, group: &Group, hash: &str) -> String {
    let filled = |path, text| File { path, mode: 0o644, text, filled: true };
    let mut files = vec![filled("/etc/kaws/node.env", facts(cx, group, hash))];
    let outputs: String = outputs_of(model, group)
        .iter()
        .map(|name| format!("{name}=${{{}}}\n", parameter_name(name)))
        .collect();
    if !outputs.is_empty() {
        files.push(filled("/etc/kaws/outputs", outputs));
    }
    files.extend(FILES.iter().map(|(path, mode, text)| File {
        path,
        mode: *mode,
        text: (*text).to_owned(),
        filled: false,
    }));
    let substituted = has_variables(model, group);
    if group.os.ignites() { ignition(&files) } else { cloud_init(&files, substituted) }
}

/// What the machine must know of itself.
fn facts(cx: &Context<'_>, group: &Group, hash: &str) -> String {
    let config = cx.config;
    let folder = group.folder();
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
        ("KAWS_STACK", format!("{}-{}", config.name, group.stack)),
        ("KAWS_TIMEOUT", timeout(cx, group).seconds().to_string()),
    ];
    if group.role == Role::Etcd {
        facts.push(("KAWS_MEMBER", "${Member}".to_owned()));
        facts.push(("KAWS_VOLUME", "${Volume}".to_owned()));
    }
    if let Some(pool) = &group.pool {
        facts.push(("KAWS_POOL", pool.clone()));
    }
    facts.sort();
    facts.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

/// How long CloudFormation waits for a machine's signal.
fn timeout<'c>(cx: &Context<'c>, group: &Group) -> &'c Duration {
    let pool = group.pool.as_ref().and_then(|name| cx.config.node_pools.get(name));
    match (group.role, pool) {
        (_, Some(pool)) => &pool.timeout,
        (Role::Etcd, None) => &cx.config.etcd.timeout,
        _ => &cx.config.control_plane.timeout,
    }
}

/// Where CloudFormation fills in, the shell's own variables are marked as not meant for it.
fn cloud_init(files: &[File], substituted: bool) -> String {
    let mut text =
        "#cloud-config\npackage_update: false\npackage_upgrade: false\nwrite_files:\n".to_owned();
    for file in files {
        let _ = write!(
            text,
            "  - path: {}\n    permissions: \"{:04o}\"\n    content: |\n",
            file.path, file.mode
        );
        let escape = substituted && !file.filled;
        let content = if escape { file.text.replace("${", "${!") } else { file.text.clone() };
        for line in content.lines() {
            let _ = if line.is_empty() { writeln!(text) } else { writeln!(text, "      {line}") };
        }
    }
    text.push_str("runcmd:\n  - [systemctl, daemon-reload]\n  - [systemctl, enable, --now, --no-block, kaws-bootstrap.service]\n");
    text
}

/// Units are Ignition's own; what would update and restart the system beside kaws is masked.
fn ignition(files: &[File]) -> String {
    let (units, files): (Vec<&File>, Vec<&File>) =
        files.iter().partition(|file| file.path.ends_with(".service"));
    let stored: Vec<_> = files
        .iter()
        .map(|file| {
            json!({"path": file.path, "mode": file.mode, "overwrite": true,
                "contents": {"source": data_url(file)}})
        })
        .collect();
    let mut all: Vec<_> = units
        .iter()
        .map(|unit| {
            let name = unit.path.rsplit('/').next().unwrap_or_default();
            json!({"name": name, "enabled": true, "contents": unit.text})
        })
        .collect();
    for name in ["locksmithd.service", "update-engine.service"] {
        all.push(json!({"name": name, "mask": true}));
    }
    let config = json!({"ignition": {"version": IGNITION}, "storage": {"files": stored}, "systemd": {"units": all}});
    format!("{config:#}\n")
}

/// A text as a URL; where CloudFormation fills in, `${Name}` stays as it is.
fn data_url(file: &File) -> String {
    let mut url = "data:,".to_owned();
    for byte in file.text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.!~*'();/?:@&=+$,".contains(&byte);
        if plain || (file.filled && b"{}".contains(&byte)) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}
