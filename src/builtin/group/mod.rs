//! What all groups of machines have in their stacks: a role and profile, a launch template, tags. Used by
//! `etcd-members`, `control-plane` and `node-pools`.

mod launch;
mod role;

pub(super) use launch::{
    Launch, filled_texts, has_variables, launch_template, outputs_of, user_data,
};
pub(super) use role::{for_existing, profile, role};

use serde_json::{Value, json};

use crate::config::{Duration, Group, Volume, VolumeType};
use crate::plugin::Context;

/// What CloudFormation must not do to a group while it replaces its machines.
pub(super) const SUSPENDED: [&str; 5] =
    ["AZRebalance", "AlarmNotification", "HealthCheck", "ReplaceUnhealthy", "ScheduledActions"];

/// Returns the policy by which CloudFormation replaces machines, each waiting for its own signal.
pub(super) fn rolling_update(batch: u32, min_in_service: u32, timeout: &Duration) -> Value {
    json!({
        "AutoScalingRollingUpdate": {
            "MaxBatchSize": batch,
            "MinInstancesInService": min_in_service,
            "PauseTime": timeout.iso(),
            "SuspendProcesses": SUSPENDED,
            "WaitOnResourceSignals": true,
        },
        "AutoScalingScheduledAction": {"IgnoreUnmodifiedGroupSizeProperties": true},
    })
}

/// Returns the hook that holds a machine that is ended until its pods have gone. Its own program completes it; of one
/// on which nothing runs the hook lets go after ten minutes.
pub(super) fn drain_hook() -> Value {
    json!({
        "Type": "AWS::AutoScaling::LifecycleHook",
        "Metadata": {"kaws": {"completedBy": "kaws-drain.service"}},
        "Properties": {
            "AutoScalingGroupName": {"Ref": "Group"},
            "DefaultResult": "CONTINUE",
            "HeartbeatTimeout": 600,
            "LifecycleHookName": "drain",
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        },
    })
}

/// Returns what creation waits for: a signal of each machine.
pub(super) fn creation_policy(count: u32, timeout: &Duration) -> Value {
    json!({"ResourceSignal": {"Count": count, "Timeout": timeout.iso()}})
}

/// Returns the image of a group: its own, or the one that kaws.lock pins.
pub(super) fn image(group: &Group, own: Option<&String>) -> Value {
    own.map_or_else(
        || json!({"$lock": format!("image/{}/{}", group.os.as_ref(), group.arch.as_ref())}),
        |id| json!(id),
    )
}

/// Returns the root volume of a launch template.
pub(super) fn root_device(group: &Group, volume: &Volume) -> Value {
    let mut ebs = json!({"DeleteOnTermination": true, "Encrypted": true, "VolumeSize": volume.size.gib(),
        "VolumeType": volume_type(volume)});
    if let Some(map) = ebs.as_object_mut() {
        map.extend(volume.iops.map(|iops| ("Iops".to_owned(), json!(iops))));
        map.extend(volume.throughput.map(|t| ("Throughput".to_owned(), json!(t))));
    }
    json!([{"DeviceName": group.os.root_device(), "Ebs": ebs}])
}

/// Returns a volume's type as AWS spells it.
pub(super) fn volume_type(volume: &Volume) -> &'static str {
    match volume.kind {
        VolumeType::Gp3 => "gp3",
        VolumeType::Io2 => "io2",
    }
}

/// Returns the tags of a group's machines, sorted by key, as pairs.
pub(super) fn machine_tags(cx: &Context<'_>, group: &Group) -> Vec<(String, String)> {
    let config = cx.config;
    let mut tags = config.tags.clone();
    if let Some(pool) = group.pool.as_ref().and_then(|p| config.node_pools.get(p)) {
        tags.extend(pool.tags.clone());
    }
    tags.insert("Name".to_owned(), format!("{}-{}", config.name, group.label()));
    tags.insert("kaws/cluster".to_owned(), config.name.clone());
    tags.insert("kaws/group".to_owned(), group.key.clone());
    if group.role != crate::config::Role::Etcd {
        tags.insert(format!("kubernetes.io/cluster/{}", config.name), "owned".to_owned());
        tags.insert("KubernetesCluster".to_owned(), config.name.clone());
    }
    tags.into_iter().collect()
}

/// Returns tags as resources spell them.
pub(super) fn tag_list(tags: &[(String, String)]) -> Value {
    tags.iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect()
}

/// Returns tags as Auto Scaling groups spell them; machines get them as well.
pub(super) fn propagated(tags: &[(String, String)]) -> Vec<Value> {
    tags.iter()
        .map(|(key, value)| json!({"Key": key, "PropagateAtLaunch": true, "Value": value}))
        .collect()
}
