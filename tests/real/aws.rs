//! `kaws` against the mock AWS server: what it calls, in which order, and what is there afterwards.

use serde_json::{Value, json};

use crate::mock::{Call, Folder, Mock, examples};
use crate::{program, root, shown};

fn at(calls: &[Call], action: &str, stack: &str) -> Option<usize> {
    calls.iter().position(|c| c.action == action && c.parameter("StackName").contains(stack))
}

fn executed(calls: &[Call]) -> Vec<String> {
    let sets = calls.iter().filter(|c| c.action == "ExecuteChangeSet");
    sets.map(|c| stack_of(c.parameter("StackName"))).collect()
}

/// A stack's name, from its name or its ARN.
fn stack_of(text: &str) -> String {
    text.split('/').nth(1).unwrap_or(text).to_owned()
}

/// Objects under `nodes/` are what their names say.
fn check_bundles(mock: &Mock, calls: &[Call]) -> usize {
    let bundles = calls
        .iter()
        .filter(|c| c.action == "PutObject" && c.parameter("Key").starts_with("nodes/"));
    let mut count = 0;
    for call in bundles {
        let (bucket, key) = (call.parameter("Bucket"), call.parameter("Key"));
        let url = format!("http://{}/{bucket}/{key}", mock.0.address);
        let signed = "--user test:test --aws-sigv4 aws:amz:eu-west-1:s3";
        let sum = format!("curl -sSf {signed} '{url}' | gzip -dc | sha256sum");
        let output = program("sh", &["-c", &sum], &root());
        let said = shown(&output);
        let hash = key.rsplit('/').next().unwrap().trim_end_matches(".tar.gz");
        assert!(said.starts_with(hash), "{key}: {said}");
        count += 1;
    }
    count
}

#[test]
fn every_example_goes_up_in_order_and_comes_down_to_what_is_kept() {
    let mock = Mock::start();
    for (name, file) in examples() {
        mock.reset();
        let folder = Folder::of(&file);
        folder.set_secrets(&mock.0.address);
        // Each resource takes a moment, so that what goes on side by side shows.
        mock.delay(0.04);
        let out = folder.fine(&mock.0.address, &["up", "--yes"]);
        mock.delay(0.0);
        let calls = mock.calls();
        let order = executed(&calls);
        let stacks = mock.stacks();
        assert!(stacks.iter().all(|s| s["status"] == "CREATE_COMPLETE"), "{name}\n{out}");
        assert_eq!(order.len(), stacks.len(), "{name}: each is made once: {order:?}");
        assert!(order[0].ends_with("-state"), "{name}: {order:?}");
        in_order(&name, &folder, &order);
        side_by_side(&name, &calls, &order);
        assert!(check_bundles(&mock, &calls) >= 3, "{name}");

        let again = folder.fine(&mock.0.address, &["up", "--yes"]);
        assert!(again.contains("no changes"), "{name}: {again}");
        let writing: Vec<String> =
            mock.calls().into_iter().filter(Call::writes).map(|c| c.action).collect();
        assert!(writing.is_empty(), "{name}: {writing:?}");

        folder.fine(&mock.0.address, &["destroy", "--yes"]);
        let left: Vec<String> =
            mock.stacks().iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect();
        assert!(left.len() == 1 && left[0].ends_with("-state"), "{name}: {left:?}");
    }
}

/// Every stack comes after those that the manifest says.
fn in_order(name: &str, folder: &Folder, order: &[String]) {
    let text = std::fs::read_to_string(folder.path().join("rendered/manifest.yaml")).unwrap();
    let manifest: Value = serde_yaml::from_str(&text).unwrap();
    let stacks = manifest["stacks"].as_object().unwrap();
    let at = |short: &str| {
        let full = stacks[short]["name"].as_str().unwrap();
        order.iter().position(|s| s == full).unwrap_or_else(|| panic!("{name}: no {full}"))
    };
    for (short, stack) in stacks {
        for first in stack["after"].as_array().unwrap() {
            assert!(at(first.as_str().unwrap()) < at(short), "{name}: {short} before {first}");
        }
    }
}

/// Pools are begun before the first of them is complete.
fn side_by_side(name: &str, calls: &[Call], order: &[String]) {
    let pools: Vec<&String> = order.iter().filter(|s| s.contains("-pool-")).collect();
    let Some((first, rest)) = pools.split_first() else { return };
    let last_look = calls
        .iter()
        .rposition(|c| {
            c.action == "DescribeStacks" && stack_of(c.parameter("StackName")) == **first
        })
        .unwrap();
    // Those further behind may be begun when the first is done: a change set takes its time.
    for pool in rest.iter().take(1) {
        let begun = at(calls, "ExecuteChangeSet", pool).unwrap();
        assert!(begun < last_look, "{name}: {pool} waits for {first}");
    }
}

#[test]
fn a_changed_pool_is_the_only_stack_that_is_touched() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/mixed/cluster.yaml"));
    folder.set_secrets(&mock.0.address);
    folder.fine(&mock.0.address, &["up", "--yes"]);
    mock.calls();
    let before = mock.stacks();
    let text = std::fs::read_to_string(folder.path().join("cluster.yaml")).unwrap();
    let size = text.lines().find(|l| l.contains("size: {min:")).unwrap().to_owned();
    let (head, _) = size.split_once("size:").unwrap();
    folder.edit(&size, &format!("{head}size: {{min: 1, max: 17}}"));
    folder.fine(&mock.0.address, &["up", "--yes", "--render"]);
    let order = executed(&mock.calls());
    assert_eq!(order.len(), 1, "{order:?}");
    assert!(order[0].contains("-pool-"), "{order:?}");
    for (old, new) in before.iter().zip(mock.stacks()) {
        let touched = old["name"] == order[0];
        assert_eq!(*old != new, touched, "{}", old["name"]);
    }
}

#[test]
fn a_plan_of_an_empty_account_only_reads() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/ha/cluster.yaml"));
    let out = folder.fine(&mock.0.address, &["plan"]);
    assert!(out.contains("nothing is deployed yet"), "{out}");
    let calls = mock.calls();
    assert!(!calls.is_empty());
    let writing: Vec<&Call> = calls.iter().filter(|c| c.writes()).collect();
    assert!(writing.is_empty(), "{writing:?}");
}

#[test]
fn another_account_or_region_is_refused_before_any_other_call() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/ha/cluster.yaml"));
    for command in [&["plan"][..], &["up", "--yes"], &["destroy", "--yes"]] {
        let mut other = folder.command(&mock.0.address, command);
        let output = other.env("AWS_REGION", "ap-south-1").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        assert!(shown(&output).contains("deploy/region"), "{}", shown(&output));
        assert!(mock.calls().is_empty());
    }
    folder.edit("\"111122223333\"", "\"999988887777\"");
    for command in [&["plan"][..], &["up", "--yes"], &["destroy", "--yes"]] {
        let output = folder.kaws(&mock.0.address, command);
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        assert!(shown(&output).contains("deploy/account"), "{}", shown(&output));
        let calls: Vec<String> = mock.calls().into_iter().map(|c| c.action).collect();
        assert_eq!(calls, ["GetCallerIdentity"]);
    }
}

#[test]
fn without_a_lock_nothing_goes_to_aws() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/ha/cluster.yaml"));
    let lock = folder.path().join("kaws.lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    std::fs::remove_file(&lock).unwrap();
    let output = folder.kaws(&mock.0.address, &["up", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(shown(&output).contains("fatal[lock/unresolved]"), "{}", shown(&output));
    // What the local cloud made up is as good as nothing.
    let made_up = text.replace("from: 'ssm:", "from: 'local:");
    std::fs::write(&lock, made_up).unwrap();
    let output = folder.kaws(&mock.0.address, &["up", "--yes"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(shown(&output).contains("lock/local"), "{}", shown(&output));
    assert!(mock.calls().is_empty());
    std::fs::write(&lock, text).unwrap();
    folder.fine(&mock.0.address, &["plan"]);
}

#[test]
fn images_are_locked_by_their_published_parameter() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/ha/cluster.yaml"));
    let image = "image/ubuntu-24.04/amd64";
    folder.fine(&mock.0.address, &["lock", "--update", image]);
    let text = std::fs::read_to_string(folder.path().join("kaws.lock")).unwrap();
    assert!(text.contains("from: ssm:/aws/service/canonical/ubuntu/server/24.04/"), "{text}");
    let calls: Vec<String> = mock.calls().into_iter().map(|c| c.action).collect();
    assert_eq!(calls, ["GetParameter"]);
}

#[test]
fn after_a_failure_siblings_finish_and_the_next_run_does_what_is_left() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/ha/cluster.yaml"));
    folder.set_secrets(&mock.0.address);
    let fault = json!({"resource": "etcd/Etcd1Data", "reason": "Not enough capacity"});
    mock.0.ask("POST", "/mock/fail", &fault);
    let output = folder.kaws(&mock.0.address, &["up", "--yes"]);
    assert_eq!(output.status.code(), Some(4), "{}", shown(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = "error[deploy/stack-failed]: etcd: Etcd1Data could not be created";
    assert_eq!(said.lines().next(), Some(first), "{said}");
    assert!(said.contains("Not enough capacity"), "{said}");
    let status = |short: &str| {
        let stacks = mock.stacks();
        let stack = stacks.iter().find(|s| s["name"].as_str().unwrap().ends_with(short));
        stack.map(|s| s["status"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    assert_eq!(status("-iam"), "CREATE_COMPLETE");
    assert_eq!(status("-etcd"), "ROLLBACK_COMPLETE");
    assert_eq!(status("-control-plane"), "");
    mock.calls();
    folder.fine(&mock.0.address, &["up", "--yes"]);
    let order = executed(&mock.calls());
    assert!(order[0].ends_with("-etcd"), "{order:?}");
    assert!(!order.iter().any(|s| s.ends_with("-network") || s.ends_with("-iam")), "{order:?}");
}

#[test]
fn a_first_deployment_that_fails_in_the_state_leaves_nothing_in_the_way() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/minimal/cluster.yaml"));
    let fault = json!({"resource": "state/KeyAlias", "reason": "The alias is taken"});
    mock.0.ask("POST", "/mock/fail", &fault);
    let output = folder.kaws(&mock.0.address, &["up", "--yes"]);
    assert_eq!(output.status.code(), Some(4), "{}", shown(&output));
    // The buckets that were made are gone, or their names would be taken.
    folder.fine(&mock.0.address, &["up", "--yes"]);
}
