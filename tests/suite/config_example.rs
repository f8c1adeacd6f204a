//! `cluster.yaml.example` documents every setting, with its default.

use kaws::config::Cluster;
use kaws::schema::followed;
use kaws::value::{Node, read};
use serde_json::Value;

fn example() -> (String, Node) {
    let text = std::fs::read_to_string("cluster.yaml.example").unwrap();
    let node = read(&kaws::origin::SourceFile::new("cluster.yaml.example", text.as_str())).unwrap();
    (text, node)
}

/// Calls `visit` with every setting: its path, and its default if it has one.
fn settings(
    root: &Value,
    schema: &Value,
    path: &mut Vec<String>,
    visit: &mut dyn FnMut(&[String], Option<&Value>),
) {
    let schema = followed(root, schema);
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        path.push(name.clone());
        visit(path, property.get("default").or_else(|| followed(root, property).get("default")));
        settings(root, property, path, visit);
        path.pop();
    }
    if let Some(values) = schema.get("additionalProperties").filter(|a| a.is_object()) {
        // One pool and one subnet stand for all; free maps of others' keys are not kaws's settings.
        if path.last().is_some_and(|p| p == "nodePools") {
            path.push("general".to_owned());
            settings(root, values, path, visit);
            path.pop();
        }
    }
}

#[test]
fn it_names_every_setting() {
    let (text, node) = example();
    let schema = Cluster::schema();
    let mut missing = Vec::new();
    settings(&schema, &schema, &mut Vec::new(), &mut |path, _| {
        let written = node.at(path).is_some();
        let last = path.last().unwrap();
        // What has no default stands in a comment.
        let commented = text
            .lines()
            .filter_map(|l| l.split_once('#'))
            .any(|(_, comment)| comment.contains(&format!("{last}:")));
        if !written && !commented {
            missing.push(path.join("."));
        }
    });
    assert!(missing.is_empty(), "cluster.yaml.example does not mention: {missing:?}");
}

#[test]
fn its_values_are_the_defaults() {
    let (_, node) = example();
    let schema = Cluster::schema();
    // What a cluster must say for itself, and what follows from it.
    let own = [
        "apiVersion",
        "name",
        "account",
        "region",
        "partition",
        "network.zones",
        "nodePools",
        "nodePools.general.instanceTypes",
        "nodePools.general.zones",
        "nodePools.general.architecture",
    ];
    let mut checked = 0;
    settings(&schema, &schema, &mut Vec::new(), &mut |path, default| {
        let (Some(written), Some(default)) = (node.at(path), default) else { return };
        if written.as_map().is_some() || own.contains(&path.join(".").as_str()) {
            return;
        }
        checked += 1;
        assert_eq!(written.to_value(), *default, "{}", path.join("."));
    });
    assert!(checked > 25, "{checked}");
}

#[test]
fn it_renders_like_a_cluster_that_says_nothing() {
    let (_, node) = example();
    let typed: Cluster = serde_json::from_value(node.without_nulls().to_value()).unwrap();
    let short = "{apiVersion: kaws/v1, name: example, account: '111122223333', region: eu-west-1, network: {zones: [eu-west-1a, eu-west-1b, eu-west-1c]}, nodePools: {general: {instanceTypes: [m7i.large]}}}";
    let short = read(&kaws::origin::SourceFile::new("short", short)).unwrap();
    let mut short: Cluster = serde_json::from_value(short.to_value()).unwrap();
    short.partition = typed.partition;
    let pool = short.node_pools.get_mut("general").unwrap();
    pool.zones = typed.node_pools["general"].zones.clone();
    pool.architecture = typed.node_pools["general"].architecture;
    assert_eq!(serde_json::to_value(&typed).unwrap(), serde_json::to_value(&short).unwrap());
}
