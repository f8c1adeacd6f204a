//! Draining and rolling against Kubernetes' own API server: evictions, budgets, and machines of the mock AWS server.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kaws::cluster::ApiServer as Client;
use kaws::deploy::{Error, Left, drain};
use kaws::port::{Cluster as _, Eviction, Keeper, Pods};
use serde_json::{Value, json};

use crate::api_server::{ApiServer, node, pod};
use crate::checks::{Running, machines};
use crate::shown;
use crate::world::kubernetes_version;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A pod that somebody makes anew.
fn owned(name: &str, on: &str, kind: &str, app: &str) -> Value {
    let mut pod = pod("default", name, on, "", true);
    pod["metadata"]["labels"] = json!({"app": app});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "1", "controller": true}]);
    pod
}

/// A budget, with how many pods may go now, as the controller would say it.
fn budget(app: &str, allowed: u32) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": allowed + 1, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}})
}

fn names(api: &ApiServer) -> Vec<String> {
    let said = api.kubectl(&["get", "pods", "--output", "name"], "");
    said.lines().map(|l| l.rsplit('/').next().unwrap().to_owned()).collect()
}

#[test]
fn a_drain_evicts_pods_and_respects_budgets() {
    let api = ApiServer::start();
    let version = kubernetes_version();
    let mut mirror = pod("kube-system", "kube-apiserver-i-1", "i-1", "", true);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    api.put(&[node("i-1", &version, true), node("i-2", &version, true)]);
    api.put(&[
        owned("web-1", "i-1", "ReplicaSet", "web"),
        owned("web-2", "i-2", "ReplicaSet", "web"),
        owned("db-1", "i-1", "StatefulSet", "db"),
        owned("agent-1", "i-1", "DaemonSet", "agent"),
        mirror,
        budget("web", 1),
        budget("db", 0),
    ]);
    let runtime = runtime();
    let kubeconfig = std::fs::read_to_string(api.kubeconfig()).unwrap();
    let cluster = runtime.block_on(Client::of(&kubeconfig)).unwrap();
    assert_eq!(runtime.block_on(cluster.version()).unwrap(), version);
    let seen = runtime.block_on(cluster.pods(&Pods::On("i-1".to_owned()))).unwrap();
    let keepers: Vec<(&str, Keeper)> = seen.iter().map(|p| (p.name.as_str(), p.keeper)).collect();
    assert_eq!(
        keepers,
        [
            ("agent-1", Keeper::DaemonSet),
            ("db-1", Keeper::Workload),
            ("web-1", Keeper::Workload),
            ("kube-apiserver-i-1", Keeper::Node)
        ]
    );
    // One budget lets its pod go, the other does not.
    let told = Mutex::new(Vec::new());
    let tell = |left: Left| told.lock().unwrap().push((left.pods, left.of));
    let (within, look) = (Duration::from_secs(3), Duration::from_millis(500));
    let drained = runtime.block_on(drain(&cluster, "i-1", within, look, false, &tell));
    let Err(Error::Drain { node, pods }) = drained else { panic!("{drained:?}") };
    assert_eq!(node, "i-1");
    assert_eq!(pods.keys().collect::<Vec<_>>(), ["default/db-1"]);
    assert!(pods["default/db-1"].contains("The disruption budget db needs"), "{pods:?}");
    assert_eq!(names(&api), ["agent-1", "db-1", "web-2"]);
    let cordoned = |name: &str| {
        let nodes = runtime.block_on(cluster.nodes()).unwrap();
        nodes.iter().find(|n| n.name == name).unwrap().cordoned
    };
    assert!(!cordoned("i-1"), "it takes pods again");
    // Once another replica is there, the budget lets go, too.
    api.put(&[budget("db", 1)]);
    told.lock().unwrap().clear();
    runtime.block_on(drain(&cluster, "i-1", within, look, false, &tell)).unwrap();
    assert_eq!(*told.lock().unwrap(), [(1, 1), (0, 1)]);
    assert_eq!(names(&api), ["agent-1", "web-2"]);
    assert!(cordoned("i-1") && !cordoned("i-2"));
    // What nobody would make anew stays where it is.
    api.put(&[pod("default", "debug", "i-2", "", true)]);
    let refused = runtime.block_on(drain(&cluster, "i-2", within, look, false, &tell));
    let Err(Error::Unmanaged { pods, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(pods, ["default/debug"]);
    assert!(!cordoned("i-2"));
    let gone = kaws::port::Pod {
        namespace: "default".to_owned(),
        name: "none".to_owned(),
        ..Default::default()
    };
    assert_eq!(runtime.block_on(cluster.evict(&gone)).unwrap(), Eviction::Gone);
}

/// What new machines do, and what becomes of those that are gone, until it is over.
fn live(running: &Running, over: &AtomicBool) {
    let version = kubernetes_version();
    let mut known: BTreeSet<String> = all(running);
    while !over.load(Ordering::Relaxed) {
        let now = all(running);
        for id in now.difference(&known) {
            running.report("pool-general", id, "active");
            running.put(node(id, &version, true));
        }
        for id in known.difference(&now) {
            running.remove(&["node", id, "--ignore-not-found"]);
        }
        known = now;
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn all(running: &Running) -> BTreeSet<String> {
    machines(&running.mock)["pool-general"].iter().cloned().collect()
}

/// Runs the command while machines come and go.
fn kaws(running: &Running, words: &[&str]) -> std::process::Output {
    let over = AtomicBool::new(false);
    let kubeconfig = running.api.kubeconfig().display().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| live(running, &over));
        let words = [words, &["--kubeconfig", &kubeconfig]].concat();
        let output = running.folder.kaws(&running.mock.0.address, &words);
        over.store(true, Ordering::Relaxed);
        output
    })
}

#[test]
fn the_machines_of_a_pool_are_replaced() {
    let running = Running::start();
    let before = all(&running);
    let first = before.first().unwrap();
    running.put(owned("web-1", first, "ReplicaSet", "web"));
    running.mock.calls();
    // Nothing is outdated.
    let said = kaws(&running, &["roll", "general", "--outdated", "--yes"]);
    assert!(
        said.status.success() && shown(&said).contains("Nothing to replace"),
        "{}",
        shown(&said)
    );
    let said = kaws(&running, &["roll", "general", "--yes"]);
    let text = shown(&said);
    assert!(said.status.success(), "{text}");
    assert!(
        text.contains("draining, 1 of 1 pods left") && text.contains("all checks hold"),
        "{text}"
    );
    let after = all(&running);
    assert!(after.len() == before.len() && after.is_disjoint(&before), "{before:?} {after:?}");
    assert!(!names(&running.api).contains(&"web-1".to_owned()));
    let ends = |calls: Vec<crate::mock::Call>| {
        calls.iter().filter(|c| c.action == "TerminateInstanceInAutoScalingGroup").count()
    };
    assert_eq!(ends(running.mock.calls()), before.len());
    // A group that is not there, and a roll that is not.
    let said = kaws(&running, &["roll", "nothing", "--yes"]);
    assert!(
        shown(&said).contains("roll/no-group") && said.status.code() == Some(1),
        "{}",
        shown(&said)
    );
    assert!(shown(&kaws(&running, &["roll", "--resume"])).contains("No roll is under way"));

    // A pool that CloudFormation does not roll is rolled by a step, once its stack is changed.
    running.folder.edit("m7i.large]", "m7i.xlarge]\n    roll: {by: kaws}");
    let planned = running.folder.fine(&running.mock.0.address, &["plan"]);
    assert!(planned.contains("one at a time, by kaws"), "{planned}");
    let said = kaws(&running, &["up", "--yes", "--render"]);
    let text = shown(&said);
    assert!(
        said.status.success() && text.contains("roll pool-general") && text.contains("1 replaced"),
        "{text}"
    );
    assert!(all(&running).is_disjoint(&after));
    assert_eq!(running.broken(&[]), []);
}
