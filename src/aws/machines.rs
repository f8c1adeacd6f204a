//! Machines: Auto Scaling groups, and what load balancers say of their targets.

use aws_sdk_autoscaling::types::{AutoScalingGroup, Instance, LaunchTemplateSpecification};
use aws_sdk_elasticloadbalancingv2::types::TargetHealthStateEnum as State;

use super::errors::failed;
use crate::port::{Answer, Machine, ScalingGroup};

/// So many groups are asked for in one call: what the API takes.
const MOST: usize = 50;

pub(super) async fn groups(
    client: &aws_sdk_autoscaling::Client,
    names: &[String],
) -> Answer<Vec<ScalingGroup>> {
    let mut all = Vec::new();
    for some in names.chunks(MOST) {
        let call = client.describe_auto_scaling_groups();
        let call = call.set_auto_scaling_group_names(Some(some.to_vec()));
        let mut pages = call.into_paginator().items().send();
        while let Some(group) = pages.next().await {
            all.push(shown(&group.map_err(|e| failed("DescribeAutoScalingGroups", e))?));
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn shown(group: &AutoScalingGroup) -> ScalingGroup {
    let wanted = group.launch_template().or_else(|| {
        let mixed = group.mixed_instances_policy()?;
        mixed.launch_template()?.launch_template_specification()
    });
    let tag = |t: &aws_sdk_autoscaling::types::TagDescription| {
        Some((t.key()?.to_owned(), t.value().unwrap_or_default().to_owned()))
    };
    ScalingGroup {
        name: group.auto_scaling_group_name().unwrap_or_default().to_owned(),
        desired: usize::try_from(group.desired_capacity().unwrap_or_default()).unwrap_or_default(),
        machines: group.instances().iter().map(|one| machine(one, wanted)).collect(),
        tags: group.tags().iter().filter_map(tag).collect(),
    }
}

fn machine(one: &Instance, wanted: Option<&LaunchTemplateSpecification>) -> Machine {
    let version = |from: &LaunchTemplateSpecification| {
        Some((from.launch_template_id()?.to_owned(), from.version()?.to_owned()))
    };
    let own = one.launch_template().and_then(version);
    Machine {
        id: one.instance_id().unwrap_or_default().to_owned(),
        zone: one.availability_zone().unwrap_or_default().to_owned(),
        state: one.lifecycle_state().map(|s| s.as_str().to_owned()).unwrap_or_default(),
        healthy: one.health_status().is_none_or(|said| said.eq_ignore_ascii_case("healthy")),
        current: own.is_some() && own == wanted.and_then(version),
    }
}

pub(super) async fn unhealthy_targets(
    client: &aws_sdk_elasticloadbalancingv2::Client,
    arn: &str,
) -> Answer<Vec<(String, String)>> {
    let said = client.describe_target_health().target_group_arn(arn).send().await;
    let said = said.map_err(|e| failed("DescribeTargetHealth", e))?;
    let bad = said.target_health_descriptions().iter().filter_map(|target| {
        let health = target.target_health()?;
        // One that leaves is no fault, nor one that is looked at for the first time.
        let fine =
            matches!(health.state(), Some(State::Healthy | State::Draining | State::Initial));
        let why = health.description().or(health.state().map(State::as_str)).unwrap_or_default();
        (!fine).then(|| {
            (target.target().and_then(|t| t.id()).unwrap_or_default().to_owned(), why.to_owned())
        })
    });
    Ok(bad.collect())
}

pub(super) async fn terminate(client: &aws_sdk_autoscaling::Client, machine: &str) -> Answer<()> {
    let call = client.terminate_instance_in_auto_scaling_group().instance_id(machine);
    let said = call.should_decrement_desired_capacity(false).send().await;
    match said.map_err(|e| failed("TerminateInstanceInAutoScalingGroup", e)) {
        // Somebody was faster: it is gone, which is all that is wanted.
        Err(error) if error.message.to_lowercase().contains("not found") => Ok(()),
        other => other.map(|_| ()),
    }
}
