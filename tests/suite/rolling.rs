//! Rolling, with machines that are slow, break, never come up, and pods that a budget holds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kaws::deploy::{
    ClusterFacts, Ended, Error, Gate, GroupRoll, Operator, Progress, RollState, Rolling, Tree,
    Watcher, roll,
};
use kaws::port::{Cloud, Keeper, When};
use tokio::time::Instant;

use crate::fake_cloud::FakeCloud;
use crate::fleet::{Fleet, Nature};

const BUCKET: &str = "bucket";

/// Checks that hold, or do not.
#[derive(Default)]
struct Checks {
    fail: AtomicBool,
    asked: AtomicUsize,
}

#[async_trait]
impl Gate for Checks {
    async fn failing(&self) -> Result<Vec<String>, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let failing = self.fail.load(Ordering::Relaxed);
        Ok(if failing { vec!["coredns/available".to_owned()] } else { Vec::new() })
    }
}

#[derive(Default)]
struct Seen {
    lines: std::sync::Mutex<Vec<String>>,
}

impl Watcher for Seen {
    fn on(&self, progress: Progress) {
        if let Progress::Detail { subject, status, .. } = progress {
            self.lines.lock().unwrap().push(format!("{subject} {status}"));
        }
    }
}

struct Scene {
    cloud: FakeCloud,
    fleet: Arc<Fleet>,
    tree: Tree,
    checks: Checks,
    seen: Seen,
}

fn operator() -> Operator {
    Operator {
        id: "one".to_owned(),
        who: "ana".to_owned(),
        machine: None,
        process: 1,
        alive: |_| true,
        clock: || 0,
        stamp: String::new,
    }
}

impl Scene {
    fn new() -> Self {
        let fleet = Arc::new(Fleet::default());
        fleet.release("1.36.3");
        let cloud = FakeCloud::of(Arc::clone(&fleet));
        let facts = ClusterFacts {
            name: "prod".to_owned(),
            account: "1".to_owned(),
            region: "r".to_owned(),
            partition: "aws".to_owned(),
            bucket: BUCKET.to_owned(),
            endpoint: String::new(),
            api: String::new(),
            kubernetes: "1.36.3".to_owned(),
            issuer: kaws::deploy::Issuer::default(),
        };
        Self {
            cloud,
            fleet,
            tree: Tree::empty(facts),
            checks: Checks::default(),
            seen: Seen::default(),
        }
    }

    /// A roll of groups, by name, number of machines, and batch.
    fn of(&self, groups: &[(&str, usize, usize)]) -> RollState {
        let group = |(name, count, batch): &(&str, usize, usize)| GroupRoll {
            folder: (*name).to_owned(),
            names: vec![(*name).to_owned()],
            todo: self.fleet.group(name, *count).into_iter().collect::<BTreeSet<_>>(),
            batch: *batch,
        };
        RollState { groups: groups.iter().map(group).collect(), ..RollState::default() }
    }

    async fn roll(&self, state: &RollState) -> Result<Ended, Error> {
        let work = Rolling {
            cloud: &self.cloud,
            cluster: &*self.fleet,
            tree: &self.tree,
            watcher: &self.seen,
            gate: &self.checks,
            pace: state.pace,
            remembered: true,
        };
        roll(&work, state, &operator(), false).await
    }

    /// A roll that comes to its end.
    async fn whole(&self, state: &RollState) {
        let ended = self.roll(state).await.unwrap();
        assert!(ended.failed.is_empty() && ended.not_run.is_empty(), "{ended:?}");
        let (old, cordoned) = self.fleet.left();
        assert!(old.is_empty() && cordoned.is_empty(), "{old:?} {cordoned:?}");
        assert_eq!(RollState::load(&self.cloud, BUCKET).await.unwrap(), None);
    }

    /// A roll that stops; returns why.
    async fn stops(&self, state: &RollState) -> Error {
        let mut ended = self.roll(state).await.unwrap();
        assert_eq!(ended.failed.len(), 1, "{ended:?}");
        // Whoever goes on later finds what there is to do.
        assert_eq!(
            RollState::load(&self.cloud, BUCKET).await.unwrap().unwrap().groups,
            state.groups
        );
        ended.failed.remove(0).1
    }
}

#[tokio::test(start_paused = true)]
async fn groups_come_one_after_the_other_and_their_machines_one_at_a_time() {
    let scene = Scene::new();
    let state = scene.of(&[("controller", 3, 1), ("pool-general", 4, 1)]);
    let begun = Instant::now();
    scene.whole(&state).await;
    assert_eq!(scene.fleet.most_missing(), (1, 1));
    let log = scene.fleet.log();
    let ends: Vec<&String> = log.iter().filter(|l| l.starts_with("end ")).collect();
    assert_eq!(ends.len(), 7);
    assert!(ends[..3].iter().all(|l| l.ends_with("controller")), "{log:?}");
    // Each takes no new pods before it goes.
    assert_eq!(log[..2], ["cordon i-001", "end i-001 of controller"]);
    // And the next is taken once the new one is ready: 30 s to go, 60 s to come.
    assert!(begun.elapsed() >= Duration::from_secs(7 * 90), "{:?}", begun.elapsed());
    // Checks are asked before every one, and at the end of each group.
    assert_eq!(scene.checks.asked.load(Ordering::Relaxed), 9);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_a_batch_is_ever_missing() {
    let scene = Scene::new();
    let state = scene.of(&[("pool-general", 7, 3)]);
    // Some are slow.
    scene.fleet.next_are(&[Nature::Ready(10), Nature::Ready(600), Nature::Ready(60)]);
    scene.whole(&state).await;
    assert_eq!(scene.fleet.most_missing().0, 3);
}

#[tokio::test(start_paused = true)]
async fn zone_by_zone_only_one_zone_is_short_of_machines() {
    let scene = Scene::new();
    let mut state = scene.of(&[("pool-general", 9, 3)]);
    state.pace.by_zone = true;
    scene.whole(&state).await;
    assert_eq!(scene.fleet.most_missing(), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn while_another_machine_is_broken_none_is_taken() {
    let scene = Scene::new();
    let state = scene.of(&[("pool-general", 4, 1)]);
    // The first new one breaks at once when it is ready; somebody repairs it an hour later.
    scene.fleet.next_are(&[Nature::Dies(60, 1)]);
    let fleet = Arc::clone(&scene.fleet);
    let repaired = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1_200)).await;
        fleet.becomes("i-005", Nature::Ready(0));
    });
    scene.whole(&state).await;
    repaired.await.unwrap();
    assert_eq!(scene.fleet.most_missing().0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_machine_that_never_comes_up_stops_the_roll() {
    let scene = Scene::new();
    let state = scene.of(&[("controller", 3, 1), ("pool-general", 2, 1)]);
    scene.fleet.next_are(&[Nature::Never]);
    let error = scene.stops(&state).await;
    let Error::NotWhole { group, missing: 1, why } = &error else { panic!("{error:?}") };
    assert!(group == "controller" && why == &["i-006: the kubelet is not ready"], "{why:?}");
    // Nothing else was touched.
    assert_eq!(scene.fleet.log(), ["cordon i-001", "end i-001 of controller"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_broken_already_goes_first_and_is_not_drained() {
    let scene = Scene::new();
    let state = scene.of(&[("pool-general", 4, 1)]);
    scene.fleet.becomes("i-003", Nature::Never);
    scene.whole(&state).await;
    assert_eq!(scene.fleet.log()[..2], ["end i-003 of pool-general", "cordon i-001"]);
    assert_eq!(scene.fleet.most_missing().0, 1);
}

#[tokio::test(start_paused = true)]
async fn pods_go_as_their_budget_allows() {
    let scene = Scene::new();
    let state = scene.of(&[("pool-general", 3, 1)]);
    for node in ["i-001", "i-001", "i-002"] {
        scene.fleet.pod("web", node, Keeper::Workload);
    }
    scene.fleet.pod("agent", "i-001", Keeper::DaemonSet);
    scene.fleet.budget("web", 2);
    scene.whole(&state).await;
    let lines = scene.seen.lines.lock().unwrap().clone();
    // One pod goes at once, the other when that is ready elsewhere; the agent is left.
    assert_eq!(
        lines[..4],
        [
            "i-001 draining, 2 of 2 pods left",
            "i-001 draining, 1 of 2 pods left",
            "i-001 draining, 0 of 2 pods left",
            "i-001 is ended"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_never_allows_it_stops_the_roll_and_the_node_takes_pods_again() {
    let scene = Scene::new();
    let state = scene.of(&[("pool-general", 3, 1)]);
    scene.fleet.pod("db", "i-001", Keeper::Workload);
    scene.fleet.budget("db", 1);
    let begun = Instant::now();
    let error = scene.stops(&state).await;
    let Error::Drain { node, pods } = &error else { panic!("{error:?}") };
    assert_eq!(
        (node.as_str(), pods["default/db-0"].as_str()),
        ("i-001", "the budget of db needs 1")
    );
    assert_eq!(scene.fleet.log(), ["cordon i-001", "uncordon i-001"]);
    assert!(begun.elapsed() >= Duration::from_secs(state.pace.drain));
}

#[tokio::test(start_paused = true)]
async fn pods_that_nobody_would_make_anew_stay_unless_it_is_said() {
    let scene = Scene::new();
    let mut state = scene.of(&[("pool-general", 2, 1)]);
    scene.fleet.pod("debug", "i-001", Keeper::Nobody);
    let error = scene.stops(&state).await;
    let Error::Unmanaged { pods, .. } = &error else { panic!("{error:?}") };
    assert_eq!(pods, &["default/debug-0"]);
    assert!(scene.fleet.log().is_empty());
    state.pace.unmanaged = true;
    scene.whole(&state).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_until_checks_hold() {
    let scene = Arc::new(Scene::new());
    let state = scene.of(&[("pool-general", 2, 1)]);
    scene.checks.fail.store(true, Ordering::Relaxed);
    let error = scene.stops(&state).await;
    assert!(
        matches!(&error, Error::Gate(failing) if failing == &["coredns/available"]),
        "{error:?}"
    );
    assert!(scene.fleet.log().is_empty());
    // They come to hold while it waits.
    let other = Arc::clone(&scene);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(600)).await;
        other.checks.fail.store(false, Ordering::Relaxed);
    });
    let begun = Instant::now();
    scene.whole(&state).await;
    assert!(begun.elapsed() > Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn paused_it_finishes_what_is_under_way_and_goes_on_later() {
    let scene = Arc::new(Scene::new());
    let state = scene.of(&[("pool-general", 4, 1)]);
    let (other, paused) = (Arc::clone(&scene), RollState { paused: true, ..state.clone() });
    tokio::spawn(async move {
        // While the second is under way.
        tokio::time::sleep(Duration::from_secs(110)).await;
        paused.store(&other.cloud, BUCKET).await.unwrap();
    });
    let ended = scene.roll(&state).await.unwrap();
    assert!(matches!(&ended.failed[0].1, Error::Paused { left: 2, .. }), "{ended:?}");
    let (old, cordoned) = scene.fleet.left();
    assert_eq!((old, cordoned), (vec!["i-003".to_owned(), "i-004".to_owned()], Vec::new()));
    scene.fleet.log();
    // New ones are not replaced again.
    scene.whole(&state).await;
    let ends: Vec<String> =
        scene.fleet.log().into_iter().filter(|l| l.starts_with("end")).collect();
    assert_eq!(ends, ["end i-003 of pool-general", "end i-004 of pool-general"]);
}

#[tokio::test(start_paused = true)]
async fn workers_that_would_be_newer_than_their_api_server_are_not_made() {
    let scene = Scene::new();
    scene.fleet.release("1.35.4");
    let state = scene.of(&[("pool-general", 2, 1)]);
    let error = scene.roll(&state).await.unwrap_err();
    assert!(matches!(error, Error::Skew { .. }), "{error:?}");
    // With the controllers first it is in order.
    let both = scene.of(&[("controller", 3, 1), ("pool-other", 2, 1)]);
    assert!(scene.roll(&both).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn nobody_rolls_while_somebody_deploys() {
    let scene = Scene::new();
    let state = scene.of(&[("pool-general", 2, 1)]);
    let holder =
        kaws::deploy::Operator { id: "other".to_owned(), who: "bo".to_owned(), ..operator() };
    let held = serde_json::to_vec(&holder.holder()).unwrap();
    scene.cloud.put(BUCKET, "kaws/up.lock", held, When::Always).await.unwrap();
    let said = scene.roll(&state).await;
    assert!(matches!(said, Err(Error::Held { .. })), "{said:?}");
    assert!(scene.fleet.log().is_empty());
}
