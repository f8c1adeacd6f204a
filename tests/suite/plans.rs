//! Plans: edits of a cluster that is deployed on the local cloud, each with what it must be classed as,
//! whose it is and what it comes from. The plan's text is in `tests/plans/`, to be looked at.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::plan_edits::EDITS;
use crate::support::{Output, expect_file, kaws, kaws_with_input};

const BASE: &str = r#"apiVersion: kaws/v1
name: edits
account: "111122223333"
region: eu-west-1
kubernetesVersion: 1.36.2
network:
  vpc: {cidr: 10.40.0.0/16}
  zones: [eu-west-1a, eu-west-1b, eu-west-1c]
  nat: perZone
api: {scheme: internal}
etcd: {members: 3, instanceType: m7i.large, volume: {size: 50GiB, type: gp3}}
controlPlane: {count: 3, instanceType: m7i.large}
nodePools:
  general:
    instanceTypes: [m7i.large]
    size: {min: 2, max: 4}
  batch:
    instanceTypes: [c6i.large, m6i.large]
    size: {min: 1, max: 4}
    roll: {batch: 2}
tags: {team: platform}
plugins:
  acme-agent:
    enabled: true
    settings: {collector: https://collector.acme.example}
  guard:
    enabled: true
"#;

/// A plugin with a queue and a unit, so that data, secrets and machines are all in it.
const GUARD: &str = "apiVersion: kaws/v1
name: guard
version: 1.0.0
description: Keeps watch.
nodes: [controller]
secrets:
  first: {description: One.}
  second: {description: Another.}
initialise:
  stacks:
    guard:
      resources:
        Topic:
          Type: AWS::SNS::Topic
          Properties: {DisplayName: guard}
        Table:
          Type: AWS::DynamoDB::Table
          Properties:
            BillingMode: PAY_PER_REQUEST
            AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
            KeySchema: [{AttributeName: id, KeyType: HASH}]
            TableName: guard
  machines:
    nodes:
      files:
        /etc/guard: {content: 'token={{secret \"first\"}}', mode: \"0600\"}
";

const LOCK: &str = "kaws: 0.1.0
pins:
  image/ubuntu-24.04/amd64:
    value: ami-0a1b2c3d4e5f60718
    from: ssm:/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id
";

/// What a resource must be classed as.
pub(super) struct Expected {
    resource: &'static str,
    /// `add`, `remove`, or the fate of what is modified; ` data` behind it: its data is at risk.
    class: &'static str,
    /// What it comes from, as the plan names it.
    cause: &'static str,
    /// The plugin that owns it.
    plugin: &'static str,
}

pub(super) const fn expect(
    resource: &'static str,
    class: &'static str,
    cause: &'static str,
    plugin: &'static str,
) -> Expected {
    Expected { resource, class, cause, plugin }
}

pub(super) struct Edit {
    pub(super) name: &'static str,
    /// In which file what is replaced by what.
    pub(super) change: &'static [(&'static str, &'static str, &'static str)],
    pub(super) arguments: &'static [&'static str],
    pub(super) expected: &'static [Expected],
    /// Stacks whose nodes are replaced, and no others.
    pub(super) rolls: &'static [&'static str],
}

pub(super) const CLUSTER: &str = "cluster.yaml";
pub(super) const PLUGIN: &str = "plugins/guard/plugin.yaml";

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// A folder with the base cluster, deployed.
fn deployed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let full = dir.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
    };
    put(CLUSTER, BASE);
    put("kaws.lock", LOCK);
    put(PLUGIN, GUARD);
    copy(Path::new("tests/plugins"), &{
        let plugins = dir.path().join("plugins");
        std::fs::create_dir_all(&plugins).unwrap();
        plugins
    });
    for secret in ["acme-agent/token", "guard/first", "guard/second"] {
        let set = ["secret", "set", secret, "--cloud", "local", "--yes"];
        fine(&kaws_with_input(dir.path(), &set, "a-value"));
    }
    fine(&kaws(dir.path(), &["up", "--cloud", "local", "--yes"]));
    dir
}

fn fine(output: &Output) {
    assert_eq!(output.code, 0, "{}\n{}", output.out, output.err);
}

fn edited(base: &Path, edit: &Edit) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(base, dir.path());
    for (file, from, to) in edit.change {
        let path: PathBuf = dir.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{}: {file} has no {from}", edit.name);
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    }
    dir
}

fn class(change: &Value) -> String {
    let action = change["action"].as_str().unwrap();
    let word = if action == "modify" { change["fate"].as_str().unwrap() } else { action };
    let data = if change["dataAtRisk"] == true { " data" } else { "" };
    format!("{word}{data}")
}

fn check(edit: &Edit, plan: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let stacks = plan["plan"]["stacks"].as_array().unwrap();
    let causes = plan["plan"]["causes"].as_array().unwrap();
    for expected in edit.expected {
        let (stack, id) = expected.resource.split_once('/').unwrap();
        let found = stacks
            .iter()
            .filter(|s| s["stack"] == stack)
            .find_map(|s| s["changes"].as_array().unwrap().iter().find(|c| c["id"] == id));
        let Some(found) = found else {
            wrong.push(format!("{}: {} does not change", edit.name, expected.resource));
            continue;
        };
        let class = class(found);
        let what: Vec<&str> = found["causes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|l| causes.iter().find(|c| c["letter"] == *l)?["what"].as_str())
            .collect();
        let owners: Vec<&str> =
            found["owners"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        if class != expected.class
            || !what.contains(&expected.cause)
            || !owners.contains(&expected.plugin)
        {
            wrong.push(format!(
                "{}: {} is {class}, because of {what:?}, of {owners:?}; expected {}, {}, {}",
                edit.name, expected.resource, expected.class, expected.cause, expected.plugin
            ));
        }
    }
    let rolls: Vec<&str> = stacks
        .iter()
        .filter(|s| !s["nodes"].is_null())
        .map(|s| s["stack"].as_str().unwrap())
        .collect();
    if rolls != edit.rolls {
        wrong.push(format!("{}: rolls {rolls:?}, expected {:?}", edit.name, edit.rolls));
    }
    wrong
}

/// Days and hashes that differ from release to release are taken out.
fn steady(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = match line.split_once("compared with deployment 1 of ") {
            Some(_) => "compared with deployment 1 of <day>",
            None => line,
        };
        let line = match line.split_once("node bundle") {
            Some((head, _)) if line.starts_with("Upload") => format!("{head}node bundles, <size>"),
            _ => line.to_owned(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn one(base: &Path, edit: &Edit) -> Vec<String> {
    let dir = edited(base, edit);
    let mut arguments = vec!["plan", "--cloud", "local"];
    arguments.extend(edit.arguments);
    let text = kaws(dir.path(), &arguments);
    arguments.extend(["--output", "json"]);
    let json = kaws(dir.path(), &arguments);
    if json.code != 0 {
        return vec![format!("{}: {}\n{}", edit.name, json.err, json.out)];
    }
    let wide = text.out.lines().filter(|l| l.chars().count() > 80).map(str::to_owned);
    let mut wrong: Vec<String> = wide.map(|l| format!("{}: too wide: {l}", edit.name)).collect();
    let plan: Value = serde_json::from_str(&json.out).unwrap();
    wrong.extend(check(edit, &plan));
    let shown =
        format!("$ kaws {}\n{}", arguments[..arguments.len() - 2].join(" "), steady(&text.out));
    expect_file(&Path::new("tests/plans").join(format!("{}.txt", edit.name)), &shown);
    // What CloudFormation refuses, or what loses data, does not go on unasked.
    let up = kaws(dir.path(), &["up", "--cloud", "local", "--yes", "--render"]);
    let at_risk = edit.expected.iter().any(|e| e.class.ends_with(" data"));
    let refused = edit.expected.iter().any(|e| e.class.starts_with("unsupported"));
    let code = if refused {
        "deploy/unsupported"
    } else if at_risk && edit.arguments.is_empty() {
        "deploy/data-at-risk"
    } else {
        ""
    };
    let refuses = up.code == 1 && up.err.contains(code);
    if !code.is_empty() && !refuses {
        wrong.push(format!("{}: up does not refuse with {code}: {}", edit.name, up.err));
    }
    if code.is_empty() && up.code != 0 {
        wrong.push(format!("{}: up fails: {}\n{}", edit.name, up.err, up.out));
    }
    wrong
}

#[test]
fn edits_are_classed_with_their_cause_and_their_plugin() {
    assert!(EDITS.len() >= 30, "{} edits", EDITS.len());
    let base = deployed();
    let threads = 2;
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                let base = base.path();
                scope.spawn(move || {
                    let own = EDITS.iter().enumerate().filter(|(i, _)| i % threads == part);
                    own.flat_map(|(_, edit)| one(base, edit)).collect::<Vec<_>>()
                })
            })
            .collect();
        parts.into_iter().flat_map(|p| p.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
