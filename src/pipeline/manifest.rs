//! `rendered/manifest.yaml`: every file with its hash, the graph of stacks, the sources of parameters,
//! steps, checks and requests for certificates. What `up` works from.

use serde_json::{Map, Value, json};

use super::{Rendered, Setup};
use crate::config::RollBy;
use crate::model::{derived_parameters, stack_edges, stack_order};
use crate::value::{Node, sha256};

/// Returns the manifest as a value; `files` are all files but the manifest itself.
#[must_use]
pub fn manifest(setup: &Setup, rendered: &Rendered) -> Value {
    let model = &rendered.model;
    let edges = stack_edges(model);
    let order = stack_order(&edges).unwrap_or_default();
    let mut stacks = Map::new();
    for stack in model.names(&["stacks"]) {
        if model.names(&["stacks", stack, "resources"]).is_empty() {
            continue;
        }
        let parameters: Map<String, Value> = derived_parameters(model, stack)
            .into_iter()
            .map(|(name, derived)| {
                let (word, source) = derived.source;
                let mut from = json!({word: source});
                let locked = (word == "$lock").then(|| setup.lock.pin(&source, None)).flatten();
                if let (Some(pin), Some(map)) = (locked, from.as_object_mut()) {
                    map.insert("value".to_owned(), pin.value.clone().into());
                }
                (name, from)
            })
            .collect();
        let tags: Map<String, Value> = model
            .entities(&["stacks", stack, "tags"])
            .map(|(k, e)| (k.to_owned(), e.body.to_value()))
            .collect();
        let position = order.iter().position(|s| s == stack);
        let protected = model
            .entity(&["stacks", stack, "protected"])
            .is_some_and(|e| e.body.as_bool() == Some(true));
        let after: Vec<&String> = edges.get(stack).map(|e| e.keys().collect()).unwrap_or_default();
        stacks.insert(
            stack.to_owned(),
            json!({"after": after, "order": position, "parameters": parameters, "protected": protected,
                "name": format!("{}-{stack}", setup.config.name), "tags": stack_tags(setup, stack, tags)}),
        );
    }
    let files: Map<String, Value> = rendered
        .artifacts
        .iter()
        .map(|(path, a)| (path.clone(), sha256(&a.bytes).into()))
        .collect();
    // What git does not keep.
    let modes: Map<String, Value> = rendered
        .artifacts
        .iter()
        .filter(|(_, a)| a.mode != 0o644)
        .map(|(path, a)| (path.clone(), format!("{:04o}", a.mode).into()))
        .collect();
    json!({
        "apiVersion": crate::config::API_VERSION,
        "cluster": {"name": setup.config.name, "account": setup.config.account, "region": setup.config.region,
            "partition": setup.config.partition().as_ref(), "bucket": setup.config.bucket(),
            "endpoint": setup.config.endpoint(), "api": setup.config.api_host(), "kubernetes": setup.config.kubernetes_version,
            "issuer": {"bucket": setup.config.issuer_bucket(), "url": setup.config.issuer()}},
        "stacks": stacks,
        "rolls": rolls(setup),
        "steps": named(model, &["steps"]),
        "checks": named(model, &["checks"]),
        "addons": super::addons(setup, model),
        "pki": crate::pki::Requests::of(model, &setup.config),
        "secrets": model.names(&["secrets"]),
        "files": files,
        "modes": modes,
    })
}

/// The pools that kaws rolls, by their stacks, and how many of their machines at a time.
fn rolls(setup: &Setup) -> Value {
    let pools = setup.config.node_pools.iter().filter(|(_, pool)| pool.roll.by == RollBy::Kaws);
    pools.map(|(name, pool)| (format!("pool-{name}"), json!(pool.roll.batch))).collect()
}

fn stack_tags(setup: &Setup, stack: &str, own: Map<String, Value>) -> Value {
    let mut tags: Map<String, Value> =
        setup.config.tags.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
    tags.extend(own);
    tags.insert("kaws/cluster".to_owned(), setup.config.name.clone().into());
    tags.insert("kaws/stack".to_owned(), stack.into());
    Value::Object(tags)
}

fn named(model: &crate::model::Model, path: &[&str]) -> Value {
    let map: Map<String, Value> = model
        .entities(path)
        .map(|(name, entity)| (name.to_owned(), Node::to_value(&entity.body)))
        .collect();
    Value::Object(map)
}
