//! `node-pools`: a stack for each pool, with its own security group and the rules that name it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::group::{
    Launch, creation_policy, drain_hook, image, launch_template, machine_tags, propagated, role,
    rolling_update, root_device, user_data,
};
use super::network::{group_logical_id, ingress, port_range, touches_pool};
use crate::config::{Group, NodePool, RollBy};
use crate::finding::{Findings, Outcome};
use crate::model::{Model, Rule};
use crate::name::camel;
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Path};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct NodePools;

impl Plugin for NodePools {
    fn render(&self, cx: &Context<'_>, model: &Model, made: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let mut findings = Findings::new();
        let values = cx.values;
        for group in cx.groups {
            let Some(pool) = group.pool.as_ref().and_then(|name| cx.config.node_pools.get(name))
            else {
                continue;
            };
            let name = group.label();
            let description = format!("Kubernetes cluster {}, node pool {name}", cx.config.name);
            let me = cx.me.name.as_str();
            out.contribution.put(me, ["stacks", &group.stack, "description"], json!(description));
            // A kubelet is never newer than its API server, and a node is healthy only once it has joined.
            out.contribution.put(
                me,
                ["stacks", &group.stack, "after", "control-plane"],
                json!(true),
            );
            role(cx, model, group, &mut out, &mut findings);
            template(cx, model, made, group, pool, &mut out);
            scaling_group(cx, values, group, pool, &mut out);
            security_group(cx, values, group, &mut out);
        }
        rules(cx, model, &mut out);
        Outcome { value: out, findings }
    }
}

fn template(
    cx: &Context<'_>,
    model: &Model,
    made: &Artifacts,
    group: &Group,
    pool: &NodePool,
    out: &mut Rendering,
) {
    let one_type = pool.instance_types.len() == 1 && pool.spot.is_none();
    let launch = Launch {
        image: image(group, pool.image.id.as_ref()),
        instance_type: one_type.then(|| pool.instance_types[0].clone()),
        devices: root_device(group, &pool.root_volume),
        interface: json!({"AssociatePublicIpAddress": false, "DeleteOnTermination": true, "DeviceIndex": 0,
            "Groups": [{"$output": "network.WorkersGroup"}, {"Fn::GetAtt": ["PoolGroup", "GroupId"]}]}),
        user_data: user_data(model, made, group, &[]),
        tags: Vec::new(),
    };
    let (template, from) = launch_template(cx, model, group, launch);
    let me = cx.me.name.as_str();
    let made =
        out.contribution.put(me, ["stacks", &group.stack, "resources", "LaunchTemplate"], template);
    from.into_iter().for_each(|path| {
        made.from(path);
    });
}

fn scaling_group(
    cx: &Context<'_>,
    values: &Node,
    group: &Group,
    pool: &NodePool,
    out: &mut Rendering,
) {
    let subnets: Vec<Value> = pool
        .zones
        .as_ref()
        .unwrap_or(&cx.config.network.zones)
        .iter()
        .filter_map(|zone| values.at(&["network", "privateSubnets", zone]).map(Node::to_value))
        .collect();
    let template = json!({"LaunchTemplateId": {"Ref": "LaunchTemplate"},
        "Version": {"Fn::GetAtt": ["LaunchTemplate", "LatestVersionNumber"]}});
    let mut tags = machine_tags(cx, group);
    tags.extend(autoscaler_tags(cx, group, pool));
    tags.sort();
    let tags = propagated(&tags);
    let mut properties = json!({
        "HealthCheckGracePeriod": 600,
        "HealthCheckType": "EC2",
        "MaxSize": pool.size.max.to_string(),
        "MinSize": pool.size.min.to_string(),
        "Tags": tags,
        "VPCZoneIdentifier": subnets,
    });
    if let Some(map) = properties.as_object_mut() {
        if pool.instance_types.len() == 1 && pool.spot.is_none() {
            map.insert("LaunchTemplate".to_owned(), template);
        } else {
            map.insert("MixedInstancesPolicy".to_owned(), mixed(pool, &template));
            map.extend(pool.spot.as_ref().map(|_| ("CapacityRebalance".to_owned(), json!(true))));
        }
    }
    let mut body = json!({"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": properties});
    if let Some(map) = body.as_object_mut() {
        if pool.size.min > 0 {
            map.insert("CreationPolicy".to_owned(), creation_policy(pool.size.min, &pool.timeout));
        }
        // A pool that kaws rolls has no update policy: its machines stay until the step replaces them.
        if pool.roll.by == RollBy::Cloudformation {
            // With room to grow the new machines come first; a pool at its largest gives up a batch.
            let room = pool.size.max - pool.size.min;
            let keep = if room >= pool.roll.batch {
                pool.size.min
            } else {
                pool.size.min.saturating_sub(pool.roll.batch)
            };
            let keep = keep.min(pool.size.max.saturating_sub(1));
            map.insert(
                "UpdatePolicy".to_owned(),
                rolling_update(pool.roll.batch, keep, &pool.timeout),
            );
        }
    }
    let me = cx.me.name.as_str();
    out.contribution.put(me, ["stacks", &group.stack, "resources", "Group"], body);
    out.contribution.put(me, ["stacks", &group.stack, "resources", "DrainHook"], drain_hook());
}

fn mixed(pool: &NodePool, template: &Value) -> Value {
    let overrides: Vec<Value> =
        pool.instance_types.iter().map(|t| json!({"InstanceType": t})).collect();
    let distribution = match &pool.spot {
        Some(spot) => json!({
            "OnDemandBaseCapacity": spot.on_demand_base,
            "OnDemandPercentageAboveBaseCapacity": spot.on_demand_percentage,
            "SpotAllocationStrategy": spot.strategy.as_ref(),
        }),
        None => {
            json!({"OnDemandAllocationStrategy": "prioritized", "OnDemandPercentageAboveBaseCapacity": 100})
        }
    };
    json!({"InstancesDistribution": distribution,
        "LaunchTemplate": {"LaunchTemplateSpecification": template, "Overrides": overrides}})
}

/// The tags by which the cluster autoscaler finds a pool, and knows its nodes before there are any.
fn autoscaler_tags(cx: &Context<'_>, group: &Group, pool: &NodePool) -> Vec<(String, String)> {
    if !pool.autoscale {
        return Vec::new();
    }
    let prefix = "k8s.io/cluster-autoscaler";
    let mut tags = BTreeMap::from([
        (format!("{prefix}/{}", cx.config.name), "owned".to_owned()),
        (format!("{prefix}/enabled"), "true".to_owned()),
        (
            format!("{prefix}/node-template/label/kubernetes.io/arch"),
            group.arch.as_ref().to_owned(),
        ),
    ]);
    for (label, value) in &pool.labels {
        tags.insert(format!("{prefix}/node-template/label/{label}"), value.clone());
    }
    for (taint, body) in &pool.taints {
        let value =
            format!("{}:{}", body.value.as_deref().unwrap_or_default(), body.effect.as_ref());
        tags.insert(format!("{prefix}/node-template/taint/{taint}"), value);
    }
    tags.into_iter().collect()
}

/// Every pool has a group of its own, beside the workers'.
fn security_group(cx: &Context<'_>, values: &Node, group: &Group, out: &mut Rendering) {
    let vpc = values.at(&["network", "vpcId"]).map(Node::to_value).unwrap_or_default();
    let name = format!("{}-{}", cx.config.name, group.label());
    let properties = json!({
        "GroupDescription": format!("Node pool {} of Kubernetes cluster {}", group.label(), cx.config.name),
        "Tags": [{"Key": "Name", "Value": name}],
        "VpcId": vpc,
    });
    let me = cx.me.name.as_str();
    let body = json!({"Type": "AWS::EC2::SecurityGroup", "Properties": properties});
    out.contribution.put(me, ["stacks", &group.stack, "resources", "PoolGroup"], body);
    let output = json!({"Value": {"Fn::GetAtt": ["PoolGroup", "GroupId"]}, "$type": "AWS::EC2::SecurityGroup::Id"});
    out.contribution.put(me, ["stacks", &group.stack, "outputs", "PoolGroup"], output);
}

/// A rule that names a pool's group stands in that pool's stack; between two pools, in the later one's.
fn rules(cx: &Context<'_>, model: &Model, out: &mut Rendering) {
    let mut seen: BTreeMap<(String, String), String> = BTreeMap::new();
    for target in model.names(&["securityGroups"]) {
        for (name, entity) in model.entities(&["securityGroups", target, "ingress"]) {
            let Ok(rule) = serde_json::from_value::<Rule>(Node::to_value(&entity.body)) else {
                continue;
            };
            if !touches_pool(target, &rule) {
                continue;
            }
            let source = rule.from.group.clone();
            let pools = [Some(target), source.as_deref()]
                .into_iter()
                .flatten()
                .filter(|g| g.starts_with("pool:"));
            let home = pools.max().unwrap_or(target).to_owned();
            let stack = format!("pool-{}", home.trim_start_matches("pool:"));
            let id = if target == home {
                format!("PoolGroup{}", camel(name))
            } else {
                format!("{}{}", camel(&group_logical_id(target)), camel(name))
            };
            let tuple = json!([target, rule.protocol, port_range(&rule), rule.from]).to_string();
            let path = Path::of(["securityGroups", target, "ingress", name]);
            if let Some(first) = seen.get(&(stack.clone(), tuple.clone())) {
                let place = Path::of(["stacks", stack.as_str(), "resources", first.as_str()]);
                if let Some(made) = out.contribution.entities.iter_mut().find(|m| m.path == place) {
                    made.from(path);
                }
                continue;
            }
            seen.insert((stack.clone(), tuple), id.clone());
            let properties =
                ingress(&rule, reference(target, &home), source.map(|s| reference(&s, &home)));
            let body = json!({"Type": "AWS::EC2::SecurityGroupIngress", "Properties": properties});
            out.contribution
                .put(cx.me.name.as_str(), ["stacks", &stack, "resources", &id], body)
                .from(path);
        }
    }
}

/// Returns what names a group inside the stack of the pool `home`.
fn reference(group: &str, home: &str) -> Value {
    match group.strip_prefix("pool:") {
        Some(_) if group == home => json!({"Fn::GetAtt": ["PoolGroup", "GroupId"]}),
        Some(pool) => json!({"$output": format!("pool-{pool}.PoolGroup")}),
        None => json!({"$output": format!("network.{}", group_logical_id(group))}),
    }
}
