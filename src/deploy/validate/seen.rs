//! What checks look at, gathered once: stacks, machines, reports, and what the API server knows.

use std::collections::BTreeMap;

use super::Asked;
use crate::deploy::error::Error;
use crate::deploy::health::BACKUPS;
use crate::deploy::reports::{self, Report};
use crate::deploy::roll::GROUP;
use crate::port::{Answer, Cluster, Node, Pod, Pods, Release, ScalingGroup, Stack};

const TARGETS: &str = "AWS::ElasticLoadBalancingV2::TargetGroup";
/// The report of the program that applies add-ons.
const ADDONS: &str = "reports/controller/addons.json";

/// What was seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// Stacks, by their names in the cluster.
    pub(super) stacks: BTreeMap<String, Stack>,
    /// Groups of machines; those of etcd are one a member.
    pub(super) groups: Vec<Group>,
    /// Targets that are not healthy, by target group: `network/ApiTargets`.
    pub(super) targets: BTreeMap<String, Answer<Vec<(String, String)>>>,
    /// What machines said last, by the group's folder.
    pub(super) reports: BTreeMap<String, Vec<Report>>,
    /// What the program that applies add-ons said last.
    pub(super) addons: Option<Report>,
    /// The newest snapshot of etcd.
    pub(super) backup: Option<String>,
    /// Which of the API server's own checks fail, or why it cannot be asked.
    pub(super) failing: Result<Vec<String>, String>,
    /// What the API server knows, or why it cannot be asked.
    pub(super) cluster: Result<Known, String>,
}

/// An Auto Scaling group.
#[derive(Debug)]
pub(super) struct Group {
    /// The folder of its machines below `nodes/`: `controller`, `pool-general`.
    pub(super) folder: String,
    /// As Auto Scaling knows it.
    pub(super) scaling: ScalingGroup,
}

/// What the API server knows.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) version: String,
    pub(super) nodes: Vec<Node>,
    pub(super) pods: Vec<Pod>,
    pub(super) releases: Vec<Release>,
}

impl Seen {
    pub(super) async fn gather(asked: &Asked<'_>) -> Result<Self, Error> {
        let (cloud, bucket) = (asked.cloud, &asked.tree.cluster.bucket);
        let all = cloud.stacks(&asked.tree.cluster.name).await?;
        let short = |stack: Stack| Some((stack.tags.get("kaws/stack")?.clone(), stack));
        let stacks: BTreeMap<String, Stack> = all.into_iter().filter_map(short).collect();
        let mut seen = Self {
            groups: Vec::new(),
            targets: BTreeMap::new(),
            reports: BTreeMap::new(),
            addons: None,
            backup: None,
            failing: Err(String::new()),
            cluster: Err("the local cloud has no machines".to_owned()),
            stacks,
        };
        if cloud.is_local() {
            return Ok(seen);
        }
        seen.machines(asked).await?;
        for group in asked.tree.groups() {
            let said = reports::all(cloud, bucket, &group).await?;
            seen.reports.insert(group, said);
        }
        let said = cloud.get(bucket, ADDONS).await?;
        seen.addons = said.and_then(|o| serde_json::from_slice(&o.bytes).ok());
        seen.backup = cloud.list(bucket, BACKUPS).await?.into_iter().max();
        match &asked.cluster {
            Ok(cluster) => {
                seen.failing = cluster.failing().await.map_err(|error| error.to_string());
                let blind = seen.failing.as_ref().is_ok_and(|all| all.iter().any(|f| f == "etcd"));
                seen.cluster = if blind {
                    Err("the API server cannot read etcd".to_owned())
                } else {
                    known(*cluster).await.map_err(|error| error.to_string())
                };
            }
            Err(why) => (seen.failing, seen.cluster) = (Err(why.clone()), Err(why.clone())),
        }
        Ok(seen)
    }

    /// Finds the groups of machines and the load balancers' targets in the stacks.
    async fn machines(&mut self, asked: &Asked<'_>) -> Result<(), Error> {
        let mut names = Vec::new();
        for (short, stack) in self.stacks.iter().filter(|(_, s)| !s.status.is_empty_stack()) {
            for resource in asked.cloud.resources(&stack.name).await? {
                match resource.kind.as_str() {
                    GROUP => names.push(resource.physical),
                    TARGETS => {
                        let said = asked.cloud.unhealthy_targets(&resource.physical).await;
                        self.targets.insert(format!("{short}/{}", resource.id), said);
                    }
                    _ => {}
                }
            }
        }
        for scaling in asked.cloud.scaling_groups(&names).await? {
            let folder = scaling.tags.get("kaws/group").map(|key| key.replace(':', "-"));
            self.groups.push(Group { folder: folder.unwrap_or_default(), scaling });
        }
        self.groups.sort_by(|a, b| (&a.folder, &a.scaling.name).cmp(&(&b.folder, &b.scaling.name)));
        Ok(())
    }

    /// The machines in service of groups that run a kubelet.
    pub(super) fn kubelets(&self) -> impl Iterator<Item = (&str, &crate::port::Machine)> {
        let groups = self.groups.iter().filter(|group| group.folder != "etcd");
        groups.flat_map(|group| {
            let machines = group.scaling.machines.iter().filter(|m| !m.is_leaving());
            machines.map(|machine| (group.folder.as_str(), machine))
        })
    }
}

async fn known(cluster: &dyn Cluster) -> Answer<Known> {
    let (version, nodes, pods, releases) = futures_util::future::join4(
        cluster.version(),
        cluster.nodes(),
        cluster.pods(&Pods::Critical),
        cluster.releases(),
    )
    .await;
    Ok(Known { version: version?, nodes: nodes?, pods: pods?, releases: releases? })
}
