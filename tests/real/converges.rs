//! Deployments that are killed, and calls that go wrong: run again, everything ends as it would have
//! undisturbed, and nothing is made twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::mock::{Folder, Listening, Mock};
use crate::{KAWS, root, shown};

/// A run is killed at so many moments on the local cloud.
const LOCAL_KILLS: u32 = 100;
/// And at so many on the mock server.
const MOCK_KILLS: u32 = 20;
/// So many seeds of calls that go wrong.
const SEEDS: u32 = 20;

fn local(dir: &Path) -> Command {
    let mut command = Command::new(KAWS);
    command
        .args(["up", "--cloud", "local", "--yes"])
        .current_dir(dir)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Everything the local cloud holds, but for times, and for the history, which tells of interruptions.
fn local_state(dir: &Path) -> BTreeMap<String, Value> {
    let cloud = dir.join(".kaws/local");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(cloud.join("stacks")).unwrap() {
        let path = entry.unwrap().path();
        let mut stack: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let made: Vec<(Value, Value)> = stack["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|e| e["status"] == "CREATE_COMPLETE")
            .map(|e| (e["resource"].clone(), e["physical"].clone()))
            .collect();
        // Each resource was made once.
        let mut once = made.clone();
        once.sort_by_key(|(id, _)| id.to_string());
        once.dedup();
        assert_eq!(once.len(), made.len(), "{}: something is made twice", path.display());
        stack["events"] = Value::Null;
        all.insert(path.file_name().unwrap().to_string_lossy().into_owned(), stack);
    }
    for bucket in std::fs::read_dir(cloud.join("buckets")).unwrap() {
        let objects = bucket.unwrap().path().join("objects");
        for object in std::fs::read_dir(&objects).into_iter().flatten() {
            let path = object.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // The record of the deployment has its time in it, and keys are other ones in each cluster.
            let own = ["deployments", "pki%2F", "openid%2F"].iter().any(|p| name.starts_with(p));
            let hash = if own { String::new() } else { kaws::value::sha256(&bytes) };
            all.insert(name, Value::String(hash));
        }
    }
    all
}

/// Names what differs: the whole would be pages.
fn same(is: &BTreeMap<String, Value>, expected: &BTreeMap<String, Value>, moment: Duration) {
    let names: std::collections::BTreeSet<&String> = is.keys().chain(expected.keys()).collect();
    let differing: Vec<_> = names.into_iter().filter(|n| is.get(*n) != expected.get(*n)).collect();
    assert!(differing.is_empty(), "killed after {moment:?}: {differing:?}");
}

fn cluster(dir: &Path) {
    std::fs::copy(root().join("examples/ha/cluster.yaml"), dir.join("cluster.yaml")).unwrap();
}

/// Moments spread over the time an undisturbed run takes, from a fixed seed.
fn moments(whole: Duration, count: u32) -> impl Iterator<Item = Duration> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        whole.mul_f64((state % 10_000) as f64 / 10_000.0)
    })
}

fn kill_after(command: &mut Command, moment: Duration) {
    let mut child = command.spawn().unwrap();
    std::thread::sleep(moment);
    // SIGKILL: nothing in the process has a chance to put things in order.
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_run_that_is_killed_on_the_local_cloud_converges() {
    let undisturbed = tempfile::tempdir().unwrap();
    cluster(undisturbed.path());
    let start = Instant::now();
    assert!(local(undisturbed.path()).status().unwrap().success());
    let whole = start.elapsed();
    let expected = local_state(undisturbed.path());
    let mut half_done = 0;
    for moment in moments(whole, LOCAL_KILLS) {
        let dir = tempfile::tempdir().unwrap();
        cluster(dir.path());
        kill_after(&mut local(dir.path()), moment);
        half_done += u32::from(dir.path().join(".kaws/local/stacks").exists());
        let mut again = local(dir.path());
        // The lock that the dead process held is taken over, with consent.
        let output = again.arg("--take-over").stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "killed after {moment:?}:\n{}", shown(&output));
        same(&local_state(dir.path()), &expected, moment);
    }
    // The moments are not all before the first or after the last step.
    assert!(half_done > LOCAL_KILLS / 4, "{half_done} of {LOCAL_KILLS} runs had begun");
}

/// What is on the mock server, but for ids and histories: names, types, outputs' names, counts.
fn mock_state(mock: &Mock) -> Value {
    let stacks = mock.stacks();
    let shape = |stack: &Value| {
        let resources: BTreeMap<String, Value> = stack["resources"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(id, r)| (id.clone(), r["type"].clone()))
            .collect();
        let outputs: Vec<&String> = stack["outputs"].as_object().unwrap().keys().collect();
        let shape = serde_json::json!({"status": stack["status"], "resources": resources,
            "outputs": outputs});
        (stack["name"].as_str().unwrap().to_owned(), shape)
    };
    Value::Object(stacks.iter().map(shape).collect())
}

#[test]
fn a_run_that_is_killed_on_the_mock_server_converges() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/ha/cluster.yaml"));
    let address = &mock.0.address;
    folder.fine(address, &["render"]);
    mock.delay(0.002);
    folder.set_secrets(address);
    let start = Instant::now();
    folder.fine(address, &["up", "--yes"]);
    let whole = start.elapsed();
    let expected = mock_state(&mock);
    for moment in moments(whole, MOCK_KILLS) {
        mock.reset();
        mock.delay(0.002);
        folder.set_secrets(address);
        let mut up = folder.command(address, &["up", "--yes"]);
        kill_after(up.stdout(Stdio::null()).stderr(Stdio::null()), moment);
        let output = folder.kaws(address, &["up", "--yes", "--take-over"]);
        assert!(output.status.success(), "killed after {moment:?}:\n{}", shown(&output));
        assert_eq!(mock_state(&mock), expected, "killed after {moment:?}");
        let created = mock.calls();
        for name in expected.as_object().unwrap().keys() {
            let executed = created.iter().filter(|c| {
                c.action == "ExecuteChangeSet" && c.parameter("StackName").contains(name)
            });
            assert_eq!(executed.count(), 1, "{name} after {moment:?}");
        }
    }
}

#[test]
fn ctrl_c_finishes_what_is_under_way_and_begins_nothing_new() {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/ha/cluster.yaml"));
    let address = &mock.0.address;
    folder.fine(address, &["render"]);
    folder.set_secrets(address);
    mock.delay(0.02);
    let mut up = folder.command(address, &["up", "--yes"]);
    let child = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The network has begun: Ctrl-C comes in the middle of it.
    let under_way = || mock.stacks().iter().any(|s| s["name"] == "ha-network");
    while !under_way() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", shown(&output));
    assert!(shown(&output).contains("Stopping: what is under way finishes"), "{}", shown(&output));
    let stacks = mock.stacks();
    let complete = |s: &&Value| s["status"] == "CREATE_COMPLETE";
    assert_eq!(stacks.iter().filter(complete).count(), stacks.len());
    assert!(!stacks.iter().any(|s| s["name"] == "ha-etcd"), "something new was begun");
    mock.delay(0.0);
    // The lock was given back, too: nothing need be taken over.
    folder.fine(address, &["up", "--yes"]);
    assert!(folder.fine(address, &["up", "--yes"]).contains("no changes"));
}

/// A small cluster, and how it ends through a good network.
fn undisturbed() -> (Mock, Folder, Value) {
    let mock = Mock::start();
    let folder = Folder::of(&root().join("examples/minimal/cluster.yaml"));
    folder.fine(&mock.0.address, &["render"]);
    folder.set_secrets(&mock.0.address);
    folder.fine(&mock.0.address, &["up", "--yes"]);
    let expected = mock_state(&mock);
    (mock, folder, expected)
}

/// Brings the cluster up through a proxy; returns how it ended and what it said.
fn through(mock: &Mock, folder: &Folder, seed: u32, faults: &[&str]) -> (Option<i32>, String) {
    mock.reset();
    folder.set_secrets(&mock.0.address);
    let seed = seed.to_string();
    let mut arguments = vec!["--to", &mock.0.address, "--seed", &seed];
    arguments.extend(faults);
    let proxy = Listening::start("fault_proxy.py", &arguments);
    let output = folder.kaws(&proxy.address, &["up", "--yes", "--take-over"]);
    (output.status.code(), shown(&output))
}

#[test]
fn with_throttling_errors_and_delays_it_converges_every_time() {
    let (mock, folder, expected) = undisturbed();
    let faults = ["--throttle", "0.3", "--error", "0.05", "--delay", "0.0015", "--seconds", "10"];
    for seed in 0..SEEDS {
        let (code, said) = through(&mock, &folder, seed, &faults);
        assert_eq!(code, Some(0), "seed {seed}:\n{said}");
        assert_eq!(mock_state(&mock), expected, "seed {seed}");
    }
}

#[test]
fn with_resets_and_cut_answers_too_it_converges_or_says_clearly_why_not() {
    let (mock, folder, expected) = undisturbed();
    let faults = [
        "--throttle",
        "0.3",
        "--error",
        "0.05",
        "--reset",
        "0.04",
        "--truncate",
        "0.04",
        "--delay",
        "0.001",
        "--seconds",
        "10",
    ];
    let mut converged = 0;
    for seed in 100..100 + SEEDS {
        let (code, said) = through(&mock, &folder, seed, &faults);
        match code {
            Some(0) => {
                assert_eq!(mock_state(&mock), expected, "seed {seed}: a wrong success");
                converged += 1;
            }
            Some(4) => assert!(said.contains("error"), "seed {seed}: no word of why:\n{said}"),
            other => panic!("seed {seed} ends with {other:?}:\n{said}"),
        }
        // Whatever happened, the next run through a good network puts it right.
        folder.fine(&mock.0.address, &["up", "--yes", "--take-over"]);
        assert_eq!(mock_state(&mock), expected, "seed {seed}");
    }
    assert!(converged > 0);
}
