//! `kaws schema`: the JSON Schemas, for editors.

use serde_json::{Value, json};

use super::{Exit, options};
use crate::cli::Common;
use crate::cli::arguments::ContractPart;
use crate::cli::report::say;
use crate::config::Cluster;
use crate::load::{catalogue, package};
use crate::plugin::contract;

/// Prints a schema.
pub(super) fn run(common: &Common, what: &str) -> Exit {
    let schema = match what {
        "plugin" => crate::schema::of::<crate::plugin::Manifest>(),
        "contribution" => crate::model::contribution_schema(),
        "lock" => crate::schema::of::<crate::lock::LockFile>(),
        _ => cluster(common),
    };
    say(&serde_json::to_string_pretty(&schema).unwrap_or_default());
    Exit::Done
}

/// Prints the schema of a part of the contract with plugins.
pub(super) fn contract(what: ContractPart) -> Exit {
    let schema = match what {
        ContractPart::Manifest => crate::schema::of::<crate::plugin::Manifest>(),
        ContractPart::Contribution => crate::model::contribution_schema(),
        ContractPart::Request => crate::schema::of::<contract::Request<'_>>(),
        ContractPart::Response => crate::schema::of::<contract::Response>(),
        ContractPart::Case => crate::schema::of::<crate::kit::Case>(),
    };
    say(&serde_json::to_string_pretty(&schema).unwrap_or_default());
    Exit::Done
}

/// Returns the schema of `cluster.yaml` with the settings of every plugin that is found.
pub(super) fn cluster(common: &Common) -> Value {
    let mut schema = Cluster::schema();
    let file = common.file.first().map_or(std::path::Path::new("cluster.yaml"), |file| file);
    let Ok(catalogue) = catalogue(&options(common, file), &[]) else { return schema };
    let mut uses = serde_json::Map::new();
    for name in catalogue.names() {
        let Some(found) = catalogue.places(name).last() else { continue };
        let Ok(Ok(package)) = package(name, found) else { continue };
        let settings = package.settings.value().clone();
        let described = json!({
            "description": package.manifest.description,
            "allOf": [{"$ref": "#/$defs/PluginUse"}],
            "properties": {"settings": settings},
        });
        uses.insert(name.to_owned(), described);
    }
    if let Some(plugins) = schema.pointer_mut("/properties/plugins").and_then(Value::as_object_mut)
    {
        plugins.insert("properties".to_owned(), Value::Object(uses));
    }
    schema
}
