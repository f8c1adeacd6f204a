//! Hooks where kaws runs: which there are for an event, and what programs are told after render.
//!
//! Not here: running them (`runtime`), and when which event is (`cli`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Setup, stage};
use crate::finding::{Findings, Outcome};
use crate::model::{HostHook, Model};
use crate::origin::Origin;
use crate::plugin::contract::Occasion;
use crate::plugin::{Instance, View, ask};

/// A hook of an event.
#[derive(Clone, Debug)]
pub struct EventHook<'a> {
    /// PLUGIN/NAME.
    pub name: &'a str,
    /// The event.
    pub event: &'a str,
    /// The plugin.
    pub me: &'a Instance,
    /// What it says.
    pub form: HostHook,
    /// The text of its script, wherever it is from.
    pub script: Option<String>,
    /// The place that says it.
    pub origin: Origin,
}

/// Returns the hooks of an event, by plugin; those of a deletion the other way round, as what came last goes first.
pub fn event_hooks<'a>(
    setup: &'a Setup,
    model: &'a Model,
    event: &'a str,
) -> Outcome<Vec<EventHook<'a>>> {
    let (mut all, mut findings) = (Vec::new(), Findings::new());
    for (name, entity) in model.entities(&["hooks", event]) {
        let plugin = name.split('/').next().unwrap_or_default();
        let me = setup.plugins.iter().find(|instance| instance.name.as_str() == plugin);
        let form = serde_json::from_value::<HostHook>(entity.body.to_value());
        let (Some(me), Ok(form)) = (me, form) else { continue };
        let origin = entity.body.key_origin().clone();
        let script = match (&form.content, &form.script) {
            (Some(content), _) => Some(content.clone()),
            (None, Some(from)) => {
                let named = format!("{event}/{name}");
                let found = setup.lock.script(&named, from, form.sha256.as_deref());
                found.map(str::to_owned).map_err(|none| findings.push(none.at(&origin))).ok()
            }
            _ => None,
        };
        all.push(EventHook { name, event, me, form, script, origin });
    }
    if event.ends_with("-delete") {
        all.reverse();
    }
    Outcome { value: all, findings }
}

/// Returns what a program is told at an event, or in a stage after render.
#[must_use]
pub fn late_request(
    setup: &Setup,
    me: &Instance,
    occasion: Occasion<'_>,
    facts: Value,
    secrets: BTreeMap<String, String>,
) -> Vec<u8> {
    let (values, view) = (Model::default().values(), View::default());
    let cx = stage::context(setup, &values, &view, me);
    let mut request = ask(&cx, "");
    (request.stage, request.event) = match occasion {
        Occasion::Stage(stage) => (Some(stage), None),
        Occasion::Event(event) => (None, Some(event)),
    };
    (request.facts, request.secrets) = (facts, secrets);
    serde_json::to_vec(&request).unwrap_or_default()
}
