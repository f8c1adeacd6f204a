//! The local cloud against the mock server: for every example both make the same, in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use kaws::cloudformation::Template;
use serde_json::{Map, Value};

use crate::mock::{Folder, Mock, examples};
use crate::{KAWS, shown};

/// One stack, as a cloud has it.
struct Made {
    kinds: BTreeMap<String, String>,
    properties: BTreeMap<String, Value>,
    outputs: BTreeMap<String, Value>,
    order: Vec<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn of_mock(stack: &Value) -> Made {
    let resources = stack["resources"].as_object().unwrap();
    Made {
        kinds: resources.iter().map(|(id, r)| (id.clone(), text(&r["type"]))).collect(),
        properties: resources.iter().map(|(id, r)| (id.clone(), r["properties"].clone())).collect(),
        outputs: stack["outputs"].as_object().unwrap().clone().into_iter().collect(),
        order: stack["order"].as_array().unwrap().iter().map(text).collect(),
    }
}

fn of_local(stack: &Value) -> Made {
    let resources = stack["resources"].as_object().unwrap();
    let events = stack["events"].as_array().unwrap().iter();
    let complete =
        events.filter(|e| e["status"] == "CREATE_COMPLETE").map(|e| text(&e["resource"]));
    Made {
        kinds: resources.iter().map(|(id, r)| (id.clone(), text(&r["kind"]))).collect(),
        properties: resources.iter().map(|(id, r)| (id.clone(), r["properties"].clone())).collect(),
        outputs: stack["outputs"].as_object().unwrap().clone().into_iter().collect(),
        order: complete.filter(|id| resources.contains_key(id)).collect(),
    }
}

/// What each cloud calls a resource, and what the template calls it.
fn names(
    stack: &str,
    resources: &Map<String, Value>,
    key: &str,
    asked: &Map<String, Value>,
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (id, resource) in resources {
        let name = text(&resource[key]);
        if name.len() > 6 {
            all.push((name, format!("<{stack}/{id}>")));
        }
        // The mock server knows more attributes than a template asks for.
        for (attribute, _) in asked[id]["attributes"].as_object().unwrap() {
            let value = &resource["attributes"][attribute];
            if let Some(value) = value.as_str().filter(|v| v.len() > 6) {
                all.push((value.to_owned(), format!("<{stack}/{id}.{attribute}>")));
            }
        }
    }
    all
}

/// Ids, in whatever way they were made up, become one sign each; what is left must be equal.
fn plain(value: &Value, names: &[(String, String)]) -> Value {
    match value {
        Value::String(text) => {
            let mut text = decoded(text);
            for (name, sign) in names {
                // An attribute and an id of one resource are told apart by the template alone.
                let sign = sign.split('.').next().unwrap_or(sign).trim_end_matches('>');
                text = text.replace(name, &format!("{sign}>"));
            }
            Value::String(text)
        }
        Value::Array(items) => items.iter().map(|item| plain(item, names)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), plain(value, names))).collect()
        }
        // CloudFormation takes numbers and truth values for text, and text for them.
        Value::Number(_) | Value::Bool(_) => Value::String(value.to_string()),
        Value::Null => Value::Null,
    }
}

/// User data is text behind its encoding, with names in it.
fn decoded(text: &str) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok();
    let inside =
        bytes.and_then(|b| String::from_utf8(b).ok()).filter(|t| t.starts_with("#cloud-config"));
    inside.unwrap_or_else(|| text.to_owned())
}

fn check_order(name: &str, made: &Made, template: &Template) -> Vec<String> {
    let at: BTreeMap<&String, usize> =
        made.order.iter().enumerate().map(|(i, id)| (id, i)).collect();
    let mut wrong = Vec::new();
    for (id, resource) in &template.resources {
        for first in resource.needs(template) {
            if let (Some(a), Some(b)) = (at.get(&first), at.get(id))
                && a > b
            {
                wrong.push(format!("{name}: {id} before {first}"));
            }
        }
    }
    wrong
}

fn local(folder: &Folder, arguments: &[&str], input: Option<&str>) {
    use std::io::Write as _;
    let mut child = Command::new(KAWS)
        .args(arguments)
        .args(["--cloud", "local"])
        .current_dir(folder.path())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
}

fn local_stacks(folder: &Path) -> BTreeMap<String, Value> {
    let entries = std::fs::read_dir(folder.join(".kaws/local/stacks")).unwrap();
    entries
        .map(|e| {
            let path = e.unwrap().path();
            let stack: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            (text(&stack["name"]), stack)
        })
        .collect()
}

#[test]
fn the_local_cloud_and_the_mock_server_make_the_same() {
    let mock = Mock::start();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (example, file) in examples() {
        mock.reset();
        let folder = Folder::of(&file);
        folder.set_secrets(&mock.0.address);
        folder.fine(&mock.0.address, &["up", "--yes"]);
        for secret in &folder.secrets {
            local(&folder, &["secret", "set", secret, "--yes"], Some("a-value"));
        }
        local(&folder, &["up", "--yes"], None);
        let theirs: BTreeMap<String, Value> =
            mock.stacks().into_iter().map(|s| (text(&s["name"]), s)).collect();
        let ours = local_stacks(folder.path());
        let both: (BTreeSet<&String>, BTreeSet<&String>) =
            (theirs.keys().collect(), ours.keys().collect());
        assert_eq!(both.0, both.1, "{example}");
        let (mut mock_names, mut local_names) = (Vec::new(), Vec::new());
        for (name, stack) in &theirs {
            let asked = ours[name]["resources"].as_object().unwrap();
            let made = stack["resources"].as_object().unwrap();
            mock_names.extend(names(name, made, "physicalId", asked));
            local_names.extend(names(name, asked, "physical", asked));
        }
        // Longer names first: one can be a part of another.
        for all in [&mut mock_names, &mut local_names] {
            all.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        }
        for (name, stack) in &theirs {
            let (a, b) = (of_mock(stack), of_local(&ours[name]));
            let said = format!("{example}: {name}");
            assert_eq!(a.kinds, b.kinds, "{said}");
            let template = Template::read(&text(&ours[name]["deployed"]["template"])).unwrap();
            wrong.extend(check_order(&format!("{said}, mock"), &a, &template));
            wrong.extend(check_order(&format!("{said}, local"), &b, &template));
            for (id, theirs) in &a.properties {
                let (x, y) = (plain(theirs, &mock_names), plain(&b.properties[id], &local_names));
                compared += 1;
                if x != y {
                    wrong.push(format!("{said}/{id}\n  mock  {x}\n  local {y}"));
                }
            }
            for (output, theirs) in &a.outputs {
                let (x, y) = (plain(theirs, &mock_names), plain(&b.outputs[output], &local_names));
                if x != y {
                    wrong.push(format!("{said}, output {output}\n  mock  {x}\n  local {y}"));
                }
            }
        }
    }
    assert!(compared > 300, "{compared} resources compared");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
