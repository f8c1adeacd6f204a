//! Steps, locks and refusals of a deployment, against a cloud in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use kaws::cloudformation::Action;
use kaws::deploy::plan::{Deployed, Plan, Wanted, deployed, plan};
use kaws::deploy::{
    DestroyOptions, Ended, Error, Operator, Record, Silent, Tree, Up, UpOptions, destroy,
    plan_destroy, up,
};
use kaws::port::{Cloud as _, Leftover, Replacement, SetChange, When};

use crate::fake_cloud::FakeCloud;
use crate::fake_web::FakeWeb;
use crate::support::Cluster;

/// Nobody runs a cluster here.
struct NoCluster;

#[async_trait]
impl kaws::deploy::Gate for NoCluster {
    async fn failing(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl kaws::deploy::Running for NoCluster {
    async fn api_server(&self) -> Result<Box<dyn kaws::port::Cluster>, Error> {
        Err(Error::Unreachable("there is none".to_owned()))
    }
}

fn tree() -> (Tree, String) {
    tree_of(&Cluster::small(""))
}

fn tree_of(cluster: &Cluster) -> (Tree, String) {
    let run = cluster.render();
    let files = run.rendered.artifacts.iter().map(|(p, a)| (p.clone(), Arc::clone(&a.bytes)));
    (Tree::read(&run.manifest, files.collect()).unwrap(), run.manifest.clone())
}

fn locked() -> BTreeMap<String, String> {
    BTreeMap::from([("image/ubuntu-24.04/amd64".to_owned(), "ami-0123456789abcdef0".to_owned())])
}

fn operator(process: u32, clock: fn() -> u64) -> Operator {
    Operator {
        id: format!("run {process}"),
        who: "ana@laptop".to_owned(),
        machine: Some("one".to_owned()),
        process,
        alive: |process| process < 10,
        clock,
        stamp: || "2026-11-20T12:00:00Z".to_owned(),
    }
}

async fn planned(cloud: &FakeCloud, tree: &Tree) -> (Plan, Deployed) {
    let there = deployed(cloud, tree).await.unwrap();
    let wanted = Wanted {
        tree,
        owners: &BTreeMap::new(),
        causes: Vec::new(),
        locked: locked(),
        remove: &BTreeSet::new(),
        revert_drift: false,
    };
    (plan("fake", wanted, &there).unwrap(), there)
}

async fn deploy(cloud: &FakeCloud, operator: &Operator, take_over: bool) -> Result<Ended, Error> {
    deploy_tree(cloud, &FakeWeb::default(), tree(), operator, take_over).await
}

async fn deploy_tree(
    cloud: &FakeCloud,
    web: &FakeWeb,
    (tree, manifest): (Tree, String),
    operator: &Operator,
    take_over: bool,
) -> Result<Ended, Error> {
    let (plan, there) = planned(cloud, &tree).await;
    let work = Up {
        cloud,
        web,
        tree: &tree,
        manifest: &manifest,
        plan: &plan,
        deployed: &there,
        locked: &locked(),
        record: Record::default(),
        watcher: &Silent::default(),
        again: &|| Box::pin(async { Ok(planned(cloud, &tree).await.0.digest) }),
        running: &NoCluster,
        programs: &kaws::port::NoPrograms,
    };
    up(
        work,
        operator,
        &UpOptions { at_most: 4, role: None, take_over, keep_failed: false, roll: true },
    )
    .await
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A cluster that is deployed, and whose lock somebody holds.
fn held_by(holder: &Operator) -> FakeCloud {
    let cloud = FakeCloud::default();
    run(deploy(&cloud, &operator(1, || 100), false)).unwrap();
    let bytes = serde_json::to_vec(&holder.holder()).unwrap();
    run(cloud.put("b", "kaws/up.lock", bytes, When::Always)).unwrap();
    cloud
}

fn executed(cloud: &FakeCloud) -> Vec<String> {
    let calls = cloud.calls().into_iter();
    calls.filter_map(|c| c.strip_prefix("ExecuteChangeSet ").map(str::to_owned)).collect()
}

#[test]
fn the_state_comes_first_and_everybody_after_those_they_need() {
    let cloud = FakeCloud::default();
    let ended = run(deploy(&cloud, &operator(1, || 100), false)).unwrap();
    assert!(ended.failed.is_empty() && ended.not_run.is_empty());
    let order = executed(&cloud);
    let at = |name: &str| order.iter().position(|s| s == name).unwrap();
    assert_eq!(order[0], "small-state");
    assert!(at("small-network") < at("small-etcd"));
    assert!(at("small-etcd") < at("small-control-plane"));
    assert!(at("small-control-plane") < at("small-pool-general"));
    assert_eq!(order.len(), 7);
    // The lock was there, and is gone; the deployment is remembered.
    assert!(cloud.calls().contains(&"PutObject kaws/up.lock".to_owned()));
    assert!(cloud.object("kaws/up.lock").is_none());
    assert!(cloud.object("deployments/last.tar.gz").is_some());
}

#[test]
fn a_change_set_that_holds_more_than_the_plan_is_not_executed() {
    let change = SetChange {
        id: "SomebodyElses".to_owned(),
        kind: "AWS::EC2::VPC".to_owned(),
        action: Action::Modify,
        replacement: Replacement::Yes,
        dynamic: false,
    };
    let extra = BTreeMap::from([("small-network".to_owned(), change)]);
    let mut cloud = FakeCloud::default();
    cloud.extra = extra;
    let ended = run(deploy(&cloud, &operator(1, || 100), false)).unwrap();
    let (step, error) = &ended.failed[0];
    assert_eq!(step, "stack:network");
    let Error::MoreThanPlan { more, .. } = error else { panic!("{error}") };
    assert_eq!(more, &["AWS::EC2::VPC SomebodyElses is replaced"]);
    // What stands beside it is done, what comes after it is not, and the change set is thrown away.
    assert_eq!(executed(&cloud), ["small-state", "small-iam"]);
    assert!(cloud.calls().contains(&"DeleteChangeSet small-network".to_owned()));
    assert!(cloud.object("deployments/last.tar.gz").is_none());
}

#[test]
fn while_one_deploys_a_second_is_refused_and_told_who_it_is() {
    let cloud = held_by(&operator(7, || 1_000));
    let error = run(deploy(&cloud, &operator(8, || 1_010), false)).unwrap_err();
    let Error::Held { who, stale, .. } = &error else { panic!("{error}") };
    assert_eq!((who.as_str(), *stale), ("ana@laptop", false));
    // Even when told to take over: whoever gives signs of life keeps it.
    let error = run(deploy(&cloud, &operator(8, || 1_010), true)).unwrap_err();
    assert!(matches!(error, Error::Held { stale: false, .. }), "{error}");
}

#[test]
fn a_lock_that_nobody_renews_is_recognised_and_taken_over_only_when_told() {
    let cloud = held_by(&operator(7, || 1_000));
    let error = run(deploy(&cloud, &operator(8, || 2_000), false)).unwrap_err();
    assert!(matches!(error, Error::Held { stale: true, .. }), "{error}");
    run(deploy(&cloud, &operator(8, || 2_000), true)).unwrap();
    assert!(cloud.object("kaws/up.lock").is_none());
}

#[test]
fn whoever_was_overtaken_between_plan_and_lock_changes_nothing() {
    let cloud = FakeCloud::default();
    run(deploy(&cloud, &operator(1, || 100), false)).unwrap();
    let before = executed(&cloud);
    let (tree, manifest) = tree_of(&Cluster::small("tags: {team: a}\n"));
    let (plan, there) = run(planned(&cloud, &tree));
    let work = Up {
        cloud: &cloud,
        web: &FakeWeb::default(),
        tree: &tree,
        manifest: &manifest,
        plan: &plan,
        deployed: &there,
        locked: &locked(),
        record: Record::default(),
        watcher: &Silent::default(),
        again: &|| Box::pin(async { Ok("another".to_owned()) }),
        running: &NoCluster,
        programs: &kaws::port::NoPrograms,
    };
    let options =
        UpOptions { at_most: 4, role: None, take_over: false, keep_failed: false, roll: true };
    let error = run(up(work, &operator(2, || 200), &options)).unwrap_err();
    assert!(matches!(error, Error::Overtaken), "{error}");
    assert_eq!(executed(&cloud), before);
    assert!(cloud.object("kaws/up.lock").is_none(), "the lock was given back");
}

#[test]
fn a_lock_of_a_process_that_has_ended_is_stale_at_once() {
    let cloud = held_by(&operator(77, || 1_000));
    let error = run(deploy(&cloud, &operator(8, || 1_001), false)).unwrap_err();
    assert!(matches!(error, Error::Held { stale: true, .. }), "{error}");
    run(deploy(&cloud, &operator(8, || 1_001), true)).unwrap();
}

#[test]
fn destroying_goes_from_consumers_to_producers_and_keeps_the_state() {
    let cloud = FakeCloud::default();
    run(deploy(&cloud, &operator(1, || 100), false)).unwrap();
    let (tree, _) = tree();
    let plan = run(plan_destroy(&cloud, "small", &BTreeSet::new())).unwrap();
    let (watcher, options) = (Silent::default(), DestroyOptions::default());
    let operator = operator(1, || 100);
    let work = destroy(&cloud, &tree.cluster, &plan, &options, &watcher, &operator);
    let ended = run(work).unwrap();
    assert!(ended.failed.is_empty());
    let calls = cloud.calls();
    let at = |name: &str| calls.iter().position(|c| *c == format!("DeleteStack small-{name}"));
    assert!(at("pool-general") < at("control-plane"));
    assert!(at("control-plane") < at("etcd"));
    assert!(at("etcd") < at("network") && at("etcd").is_some());
    assert_eq!(at("state"), None);
    assert_eq!(run(cloud.stacks("small")).unwrap().len(), 1);
}

#[test]
fn what_the_cluster_made_itself_goes_before_the_network_and_only_when_told() {
    let leftover = Leftover {
        kind: "AWS::ElasticLoadBalancingV2::LoadBalancer".to_owned(),
        arn: "arn:aws:elasticloadbalancing:eu-west-1:1:loadbalancer/net/a/b".to_owned(),
        data: false,
    };
    let mut cloud = FakeCloud::default();
    cloud.leftovers = vec![leftover];
    run(deploy(&cloud, &operator(1, || 100), false)).unwrap();
    let (tree, _) = tree();
    let plan = run(plan_destroy(&cloud, "small", &BTreeSet::new())).unwrap();
    assert_eq!(plan.leftovers.len(), 1);
    let (watcher, operator) = (Silent::default(), operator(1, || 100));
    let options = DestroyOptions::default();
    let ended = run(destroy(&cloud, &tree.cluster, &plan, &options, &watcher, &operator)).unwrap();
    assert!(matches!(ended.failed[0].1, Error::Leftovers(_)));
    assert_eq!(ended.not_run, ["remove:network"]);
    let plan = run(plan_destroy(&cloud, "small", &BTreeSet::new())).unwrap();
    let told = DestroyOptions { remove_leftovers: true, ..DestroyOptions::default() };
    let ended = run(destroy(&cloud, &tree.cluster, &plan, &told, &watcher, &operator)).unwrap();
    assert!(ended.failed.is_empty(), "{:?}", ended.failed);
    let calls = cloud.calls();
    let gone = calls.iter().position(|c| c.starts_with("DeleteResource")).unwrap();
    assert!(calls[gone..].contains(&"DeleteStack small-network".to_owned()));
}

/// A cluster whose plugin tells somebody when the network is there.
fn telling() -> Cluster {
    let cluster = Cluster::small("plugins: {teller: {}}\n");
    cluster.plugin(
        "teller",
        "deploy:\n  tell:\n    http: {url: 'https://hooks.acme.example/up', method: POST, body: {vpc: {$output: network.VpcId}}, expect: 202}\n    after: ['stack:network']\n    before: ['stack:etcd']\n    within: 1s\n",
    );
    cluster
}

#[test]
fn a_step_of_a_plugin_runs_in_its_place_with_what_stacks_put_out() {
    let cloud = FakeCloud::default();
    let web = FakeWeb::default().page("https://hooks.acme.example/up", 202, &[], "");
    let operator = operator(1, || 100);
    let work = deploy_tree(&cloud, &web, tree_of(&telling()), &operator, false);
    let ended = run(work).unwrap();
    assert!(ended.failed.is_empty(), "{:?}", ended.failed);
    let sent = web.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0.method, "POST");
    assert_eq!(sent[0].0.body.as_deref(), Some("{\"vpc\":\"small-network.VpcId\"}"));
}

#[test]
fn a_step_that_is_not_answered_stops_what_comes_after_it() {
    let cloud = FakeCloud::default();
    let web = FakeWeb::default().page("https://hooks.acme.example/up", 500, &[], "");
    let operator = operator(1, || 100);
    let work = deploy_tree(&cloud, &web, tree_of(&telling()), &operator, false);
    let ended = run(work).unwrap();
    let (step, error) = &ended.failed[0];
    assert_eq!(step, "teller/tell");
    assert!(error.to_string().contains("answers 500, not 202"), "{error}");
    assert!(ended.not_run.contains(&"stack:etcd".to_owned()), "{:?}", ended.not_run);
    assert!(executed(&cloud).contains(&"small-network".to_owned()));
}
