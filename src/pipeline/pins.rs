//! Pins: what is fetched from outside, collected from the merged model after initialise.

use super::Setup;
use crate::finding::{Finding, Findings};
use crate::model::{Model, Pin, Release};
use crate::origin::Origin;

/// Something that needs an exact identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinNeed {
    /// Its name in kaws.lock: `kubelet/1.36.3/amd64`, `chart/dex/0.24.0`, `image/ubuntu-24.04/amd64`.
    pub name: String,
    /// Where it comes from.
    pub from: String,
    /// Who needs it, and where it says so.
    pub origin: Option<Origin>,
}

/// Returns everything the cluster fetches, sorted by name.
#[must_use]
pub fn collect(setup: &Setup, model: &Model) -> Vec<PinNeed> {
    let mut needs = Vec::new();
    for group in &setup.groups {
        for (_, file) in model.entities(&["machines", &group.key, "files"]) {
            let Some(name) = file.body.get("pin").and_then(crate::value::Node::as_str) else {
                continue;
            };
            let Some(pin) = model.entity(&["pins", name]) else { continue };
            let Ok(form) = serde_json::from_value::<Pin>(pin.body.to_value()) else { continue };
            needs.push(PinNeed {
                name: lock_name(name, &form.version, group.arch.as_ref()),
                from: form.url.get(group.arch.as_ref()).cloned().unwrap_or_default(),
                origin: Some(pin.body.key_origin().clone()),
            });
        }
    }
    for (_, release) in model.entities(&["helm", "releases"]) {
        let Ok(form) = serde_json::from_value::<Release>(release.body.to_value()) else { continue };
        let chart = &form.chart;
        needs.push(PinNeed {
            name: format!("chart/{}/{}", chart.name, chart.version),
            from: format!("{}#{}", chart.repository, chart.name),
            origin: release.body.get("chart").map(|n| n.key_origin().clone()),
        });
    }
    needs.extend(images(setup));
    needs.extend(named_images(model));
    needs.sort();
    needs.dedup_by(|a, b| a.name == b.name);
    needs
}

/// A script of a hook that comes from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptNeed {
    /// Its name in kaws.lock: EVENT/PLUGIN/NAME.
    pub name: String,
    /// Where it comes from.
    pub from: String,
    /// The hash it must have, where the hook says one.
    pub sha256: Option<String>,
    /// The place that names it.
    pub origin: Origin,
}

/// Returns the scripts that hooks take from elsewhere, sorted by name.
#[must_use]
pub fn scripts(model: &Model) -> Vec<ScriptNeed> {
    let mut needs = Vec::new();
    for event in model.names(&["hooks"]) {
        for (name, hook) in model.entities(&["hooks", event]) {
            let text = |key: &str| hook.body.get(key).and_then(crate::value::Node::as_str);
            let Some(script) = hook.body.get("script") else { continue };
            needs.push(ScriptNeed {
                name: format!("{event}/{name}"),
                from: script.as_str().unwrap_or_default().to_owned(),
                sha256: text("sha256").map(str::to_owned),
                origin: script.origin.clone(),
            });
        }
    }
    needs
}

/// Machines' images, where `cluster.yaml` names none of its own.
fn images(setup: &Setup) -> Vec<PinNeed> {
    let own = |group: &crate::config::Group| match (&group.pool, group.role) {
        (Some(pool), _) => setup.config.node_pools.get(pool).and_then(|p| p.image.id.clone()),
        (None, crate::config::Role::Etcd) => setup.config.etcd.image.id.clone(),
        (None, _) => setup.config.control_plane.image.id.clone(),
    };
    let needed = setup.groups.iter().filter(|g| own(g).is_none());
    needed
        .filter_map(|g| {
            Some(PinNeed {
                name: format!("image/{}/{}", g.os.as_ref(), g.arch.as_ref()),
                from: format!("ssm:{}", g.os.image_parameter(g.arch)?),
                origin: None,
            })
        })
        .collect()
}

/// Images that plugins' own stacks name: `{$lock: image/ubuntu-24.04/amd64}`.
fn named_images(model: &Model) -> Vec<PinNeed> {
    let mut needs = Vec::new();
    model.walk(&["stacks"], &mut |_, entity| {
        entity.body.walk(&mut |part| {
            let name = part
                .sole("$lock")
                .and_then(crate::value::Node::as_str)
                .and_then(|n| n.strip_prefix("image/"));
            let Some((os, arch)) = name.and_then(|n| n.split_once('/')) else { return };
            let parsed = (serde_json::from_value(os.into()), serde_json::from_value(arch.into()));
            if let (Ok(os), Ok(arch)) = parsed {
                let os: crate::config::Os = os;
                let Some(parameter) = os.image_parameter(arch) else { return };
                let from = format!("ssm:{parameter}");
                needs.push(PinNeed {
                    name: format!("image/{}/{}", os.as_ref(), arch.as_ref()),
                    from,
                    origin: Some(part.origin.clone()),
                });
            }
        });
    });
    needs
}

/// Returns a pin's name in kaws.lock: `plugin/pin/version/arch`, or `pin/version/arch` where both are one.
#[must_use]
pub(crate) fn lock_name(pin: &str, version: &str, arch: &str) -> String {
    let name = match pin.split_once('/') {
        Some((plugin, own)) if plugin == own => own,
        _ => pin,
    };
    format!("{name}/{version}/{arch}")
}

/// Returns one warning that names all pins without an entry.
pub(super) fn unresolved(setup: &Setup, model: &Model) -> Findings {
    let missing: Vec<PinNeed> = collect(setup, model)
        .into_iter()
        .filter(|n| setup.lock.pin(&n.name, Some(&n.from)).is_none())
        .collect();
    let Some(first) = missing.first() else { return Findings::new() };
    let count = missing.len();
    let noun = if count == 1 { "thing that is" } else { "things that are" };
    let mut finding = Finding::warning(
        "lock/unresolved",
        format!("{count} {noun} fetched from outside have no entry in kaws.lock"),
    );
    if let Some(origin) = missing.iter().find_map(|n| n.origin.as_ref()) {
        finding = finding.at(origin);
    }
    let mut names: Vec<&str> = missing.iter().map(|n| n.name.as_str()).collect();
    names.truncate(6);
    let more = if count > names.len() {
        format!(", and {} more", count - names.len())
    } else {
        String::new()
    };
    let note = format!("{}{more}", names.join(", "));
    let _ = first;
    finding
        .note(note)
        .help("kaws lock asks for them; --locked, and all that is deployed on AWS, need them")
        .about("kaws.lock")
        .into()
}
