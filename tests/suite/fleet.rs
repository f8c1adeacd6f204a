//! Machines that come up, work, run pods, break and go, in a time of their own: what rolling sees of a cluster.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use kaws::port::{
    Answer, Cluster, DeprecatedApi, Eviction, Keeper, Machine, Node, Pod, Pods, Release,
    ScalingGroup,
};
use serde_json::Value;
use tokio::time::Instant;

const ZONES: [&str; 3] = ["a", "b", "c"];
/// How long a machine takes until it is gone.
const GOING: Duration = Duration::from_secs(30);
/// How long a pod takes until it is ready elsewhere.
const MOVING: Duration = Duration::from_secs(20);

/// What a new machine is like.
#[derive(Clone, Copy, Debug)]
pub enum Nature {
    /// It is ready after so many seconds.
    Ready(u64),
    /// It never is.
    Never,
    /// It is ready after so many seconds, and breaks so many later.
    Dies(u64, u64),
}

#[derive(Clone, Debug)]
struct One {
    group: String,
    zone: String,
    born: Instant,
    nature: Nature,
    cordoned: bool,
    ended: Option<Instant>,
    old: bool,
}

#[derive(Clone, Debug)]
struct Running {
    pod: Pod,
    app: String,
    ready: Instant,
}

/// The machines.
#[derive(Debug, Default)]
pub struct Fleet {
    world: Mutex<World>,
}

#[derive(Debug, Default)]
struct World {
    groups: BTreeMap<String, usize>,
    machines: BTreeMap<String, One>,
    pods: Vec<Running>,
    /// So many pods of an app must be ready.
    budgets: BTreeMap<String, usize>,
    /// What the next machines are like.
    natures: VecDeque<Nature>,
    made: usize,
    log: Vec<String>,
    /// The most machines of one group that were missing whenever one was taken, that one included.
    most_missing: usize,
    /// The zones that machines were missing in at the same time, whenever one was taken.
    zones_missing: usize,
    version: String,
}

impl One {
    fn is_ready(&self) -> bool {
        let age = self.born.elapsed().as_secs();
        self.ended.is_none()
            && match self.nature {
                Nature::Ready(after) => age >= after,
                Nature::Never => false,
                Nature::Dies(after, later) => age >= after && age < after + later,
            }
    }
}

impl World {
    /// What has happened since the last look: what was ended is gone, and another comes.
    fn move_on(&mut self) {
        let gone: Vec<String> = self
            .machines
            .iter()
            .filter(|(_, one)| one.ended.is_some_and(|at| at.elapsed() >= GOING))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            let one = self.machines.remove(&id).unwrap();
            let nature = self.natures.pop_front().unwrap_or(Nature::Ready(60));
            self.launch(&one.group, &one.zone, nature, false);
        }
    }

    fn launch(&mut self, group: &str, zone: &str, nature: Nature, old: bool) -> String {
        self.made += 1;
        let id = format!("i-{:03}", self.made);
        let one = One {
            group: group.to_owned(),
            zone: zone.to_owned(),
            born: Instant::now(),
            nature,
            cordoned: false,
            ended: None,
            old,
        };
        self.machines.insert(id.clone(), one);
        id
    }

    fn whole(&self, group: &str) -> usize {
        let of = |one: &&One| one.group == group && one.is_ready() && !one.cordoned;
        self.machines.values().filter(of).count()
    }

    /// Remembers how much is missing, now that a machine was taken.
    fn measure(&mut self, group: &str) {
        let missing = self.groups[group].saturating_sub(self.whole(group));
        self.most_missing = self.most_missing.max(missing);
        let out = |one: &&One| one.group == group && (!one.is_ready() || one.cordoned);
        let zones: std::collections::BTreeSet<&str> =
            self.machines.values().filter(out).map(|one| one.zone.as_str()).collect();
        self.zones_missing = self.zones_missing.max(zones.len());
    }

    fn ready_pods(&self, app: &str) -> usize {
        let up = |r: &&Running| {
            r.app == app
                && r.ready.elapsed() > Duration::ZERO
                && self.machines.get(&r.pod.node).is_some_and(One::is_ready)
        };
        self.pods.iter().filter(up).count()
    }

    /// A node that takes pods: the one with the fewest.
    fn free(&self) -> String {
        let takes = self.machines.iter().filter(|(_, one)| one.is_ready() && !one.cordoned);
        let count = |id: &str| self.pods.iter().filter(|r| r.pod.node == id).count();
        takes.min_by_key(|(id, _)| count(id)).map(|(id, _)| id.clone()).unwrap_or_default()
    }
}

impl Fleet {
    fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.lock().unwrap();
        world.move_on();
        look(&mut world)
    }

    /// Adds a group with so many machines, spread over zones, that have all been ready for long.
    pub fn group(&self, name: &str, count: usize) -> Vec<String> {
        self.world(|world| {
            world.groups.insert(name.to_owned(), count);
            (0..count).map(|i| world.launch(name, ZONES[i % 3], Nature::Ready(0), true)).collect()
        })
    }

    /// Lets a machine be of another nature from now on.
    pub fn becomes(&self, id: &str, nature: Nature) {
        self.world(|world| {
            let one = world.machines.get_mut(id).unwrap();
            (one.nature, one.born) = (nature, Instant::now());
        });
    }

    /// Says what the next machines are like.
    pub fn next_are(&self, natures: &[Nature]) {
        self.world(|world| world.natures = natures.iter().copied().collect());
    }

    /// Adds a pod of an app.
    pub fn pod(&self, app: &str, node: &str, keeper: Keeper) {
        self.world(|world| {
            let name = format!("{app}-{}", world.pods.len());
            let pod = Pod {
                namespace: "default".to_owned(),
                name,
                node: node.to_owned(),
                phase: "Running".to_owned(),
                ready: true,
                critical: false,
                keeper,
            };
            let ready = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
            world.pods.push(Running { pod, app: app.to_owned(), ready });
        });
    }

    /// So many pods of an app must be ready.
    pub fn budget(&self, app: &str, least: usize) {
        self.world(|world| world.budgets.insert(app.to_owned(), least));
    }

    /// The API server's release.
    pub fn release(&self, version: &str) {
        self.world(|world| version.clone_into(&mut world.version));
    }

    /// What was done, in order, since it was asked last.
    pub fn log(&self) -> Vec<String> {
        self.world(|world| std::mem::take(&mut world.log))
    }

    /// The most machines that were missing whenever one was taken, and in how many zones.
    pub fn most_missing(&self) -> (usize, usize) {
        self.world(|world| (world.most_missing, world.zones_missing))
    }

    /// The machines of before, and those that are cordoned.
    pub fn left(&self) -> (Vec<String>, Vec<String>) {
        self.world(|world| {
            let all = |keep: fn(&One) -> bool| {
                let kept = world.machines.iter().filter(|(_, one)| keep(one));
                kept.map(|(id, _)| id.clone()).collect()
            };
            (
                all(|one| one.old && one.ended.is_none()),
                all(|one| one.cordoned && one.ended.is_none()),
            )
        })
    }

    pub fn scaling_groups(&self, names: &[String]) -> Vec<ScalingGroup> {
        self.world(|world| {
            let wanted = world.groups.iter().filter(|(name, _)| names.contains(name));
            let machine = |(id, one): (&String, &One)| Machine {
                id: id.clone(),
                zone: one.zone.clone(),
                state: if one.ended.is_some() { "Terminating" } else { "InService" }.to_owned(),
                healthy: true,
                current: !one.old,
            };
            wanted
                .map(|(name, desired)| ScalingGroup {
                    name: name.clone(),
                    desired: *desired,
                    machines: world
                        .machines
                        .iter()
                        .filter(|(_, o)| o.group == *name)
                        .map(machine)
                        .collect(),
                    tags: BTreeMap::from([("kaws/group".to_owned(), name.replacen('-', ":", 1))]),
                })
                .collect()
        })
    }

    pub fn terminate(&self, id: &str) {
        self.world(|world| {
            let one = world.machines.get_mut(id).unwrap();
            one.ended = Some(Instant::now());
            let group = one.group.clone();
            world.log.push(format!("end {id} of {group}"));
            world.pods.retain(|r| r.pod.node != id || r.pod.keeper == Keeper::Workload);
            world.measure(&group);
        });
    }
}

#[async_trait]
impl Cluster for Fleet {
    async fn failing(&self) -> Answer<Vec<String>> {
        Ok(Vec::new())
    }

    async fn version(&self) -> Answer<String> {
        Ok(self.world(|world| world.version.clone()))
    }

    async fn nodes(&self) -> Answer<Vec<Node>> {
        Ok(self.world(|world| {
            let node = |(id, one): (&String, &One)| Node {
                name: id.clone(),
                ready: one.is_ready(),
                why: if one.is_ready() {
                    String::new()
                } else {
                    "the kubelet is not ready".to_owned()
                },
                cordoned: one.cordoned,
                version: world.version.clone(),
                zone: one.zone.clone(),
            };
            world.machines.iter().map(node).collect()
        }))
    }

    async fn pods(&self, which: &Pods) -> Answer<Vec<Pod>> {
        let Pods::On(node) = which else { return Ok(Vec::new()) };
        Ok(self.world(|world| {
            world.pods.iter().filter(|r| r.pod.node == *node).map(|r| r.pod.clone()).collect()
        }))
    }

    async fn status(&self, _: &str, _: &str, _: &str) -> Answer<Option<Value>> {
        Ok(None)
    }

    async fn ready_addresses(&self, _: &str, _: &str) -> Answer<usize> {
        Ok(1)
    }

    async fn releases(&self) -> Answer<Vec<Release>> {
        Ok(Vec::new())
    }

    async fn deprecated(&self) -> Answer<Vec<DeprecatedApi>> {
        Ok(Vec::new())
    }

    async fn cordon(&self, node: &str, on: bool) -> Answer<()> {
        self.world(|world| {
            let one = world.machines.get_mut(node).unwrap();
            one.cordoned = on;
            let group = one.group.clone();
            world.log.push(format!("{} {node}", if on { "cordon" } else { "uncordon" }));
            world.measure(&group);
        });
        Ok(())
    }

    async fn evict(&self, pod: &Pod) -> Answer<Eviction> {
        Ok(self.world(|world| {
            let Some(at) = world.pods.iter().position(|r| r.pod.name == pod.name) else {
                return Eviction::Gone;
            };
            let app = world.pods[at].app.clone();
            if let Some(least) = world.budgets.get(&app)
                && world.ready_pods(&app) <= *least
            {
                return Eviction::Refused(format!("the budget of {app} needs {least}"));
            }
            // Whoever looks after it makes it anew elsewhere.
            let node = world.free();
            let running = &mut world.pods[at];
            running.pod.node = node;
            running.ready = Instant::now() + MOVING;
            Eviction::Going
        }))
    }
}
