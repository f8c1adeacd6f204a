//! `network`: the VPC and its ways out, the private zone, the load balancers of the API, and all security
//! groups but the pools' own.

mod balancer;
mod rules;
mod vpc;

pub(super) use rules::{group_logical_id, ingress, port_range, touches_pool};

use serde_json::{Value, json};

use crate::config::Network as Settings;
use crate::finding::Outcome;
use crate::model::Model;
use crate::plugin::{Artifacts, Context, Contribution, Plugin, Rendering};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Network;

impl Plugin for Network {
    fn initialise(&self, cx: &Context<'_>, _: &Model) -> Outcome<Contribution> {
        let mut out = Contribution::default();
        values(cx, &mut out);
        rules::matrix(cx, &mut out);
        let cluster = format!("kubernetes.io/cluster/{}", cx.config.name);
        for (kind, role) in
            [("private", "kubernetes.io/role/internal-elb"), ("public", "kubernetes.io/role/elb")]
        {
            out.put("network", ["network", "subnets", kind, "tags", role], json!("1"));
            out.put(
                "network",
                ["network", "subnets", kind, "tags", cluster.as_str()],
                json!("shared"),
            );
        }
        Outcome::clean(out)
    }

    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Contribution::default();
        let name = &cx.config.name;
        out.put(
            "network",
            ["stacks", "network", "description"],
            json!(format!("Kubernetes cluster {name}, network")),
        );
        if cx.config.network.vpc.id.is_none() {
            vpc::vpc(cx, model, &mut out);
        }
        vpc::private_zone(cx, &mut out);
        balancer::balancers(cx, &mut out);
        let findings = rules::unknown_sources(cx, model);
        // A group that is not there would only be refused again, in worse words.
        if findings.is_empty() {
            rules::groups(cx, model, &mut out);
        }
        Outcome { value: Rendering { contribution: out, ..Rendering::default() }, findings }
    }
}

/// A subnet's kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Private,
    Public,
}

impl Kind {
    fn word(self) -> &'static str {
        if self == Self::Private { "Private" } else { "Public" }
    }
}

/// Returns the zones with their suffix for logical ids.
fn zones<'a>(cx: &Context<'a>) -> impl Iterator<Item = (usize, &'a str, String)> {
    let config = cx.config;
    config
        .network
        .zones
        .iter()
        .enumerate()
        .map(|(i, z)| (i, z.as_str(), Settings::zone_suffix(z, &config.region)))
}

/// Returns whether there are public subnets: for load balancers that face the internet, and for NAT.
fn has_public(cx: &Context<'_>) -> bool {
    let network = &cx.config.network;
    if network.vpc.id.is_some() { !network.subnets.public.is_empty() } else { true }
}

/// Returns what names a subnet for other stacks: its id, or the output.
fn subnet(cx: &Context<'_>, kind: Kind, zone: &str, suffix: &str) -> Value {
    let subnets = &cx.config.network.subnets;
    let written = if kind == Kind::Private { &subnets.private } else { &subnets.public };
    match written.get(zone).and_then(|s| s.id.as_ref()) {
        Some(id) => json!(id),
        None => json!({"$output": format!("network.Subnet{}{suffix}", kind.word())}),
    }
}

/// What other plugins need to know; a reference or a literal, which they never have to tell apart.
fn values(cx: &Context<'_>, out: &mut Contribution) {
    let network = &cx.config.network;
    let mut put = |key: &str, value: Value| {
        out.put("network", ["values", "network", key], value);
    };
    put(
        "vpcId",
        network.vpc.id.as_ref().map_or_else(|| json!({"$output": "network.VpcId"}), |id| json!(id)),
    );
    put("vpcCIDR", json!(network.vpc.cidr));
    for (kind, by_zone, ids) in [
        (Kind::Private, "privateSubnets", "privateSubnetIds"),
        (Kind::Public, "publicSubnets", "publicSubnetIds"),
    ] {
        if kind == Kind::Public && !has_public(cx) {
            put(by_zone, json!({}));
            put(ids, json!([]));
            continue;
        }
        let all: serde_json::Map<String, Value> = zones(cx)
            .map(|(_, zone, suffix)| (zone.to_owned(), subnet(cx, kind, zone, &suffix)))
            .collect();
        let list: Vec<Value> = network.zones.iter().filter_map(|z| all.get(z).cloned()).collect();
        put(by_zone, Value::Object(all));
        put(ids, json!(list));
    }
    let zone = network.private_zone.id.as_ref();
    put("privateZoneId", zone.map_or_else(|| json!({"$output": "network.ZoneId"}), |id| json!(id)));
    let scheme = cx.config.api.scheme;
    let mut targets = Vec::new();
    if scheme.internal() {
        targets.push(json!({"$output": "network.ApiTargets"}));
    }
    if scheme.internet_facing() {
        targets.push(json!({"$output": "network.ApiPublicTargets"}));
    }
    put("apiTargetGroups", json!(targets));
    put("endpoint", json!(cx.config.endpoint()));
    let groups: serde_json::Map<String, Value> = rules::ROLE_GROUPS
        .iter()
        .map(|(group, id)| ((*group).to_owned(), json!({"$output": format!("network.{id}")})))
        .collect();
    put("securityGroups", Value::Object(groups));
}

/// Puts a resource into the network's stack.
#[track_caller]
fn resource<'a>(out: &'a mut Contribution, id: &str, body: Value) -> &'a mut crate::plugin::Made {
    out.put("network", ["stacks", "network", "resources", id], body)
}

/// Puts an output into the network's stack; `kind` is the CloudFormation type of parameters that take it.
#[track_caller]
fn output(out: &mut Contribution, id: &str, value: Value, kind: Option<&str>) {
    let mut body = json!({"Value": value});
    if let (Some(kind), Some(map)) = (kind, body.as_object_mut()) {
        map.insert("$type".to_owned(), kind.into());
    }
    out.put("network", ["stacks", "network", "outputs", id], body);
}

/// Returns tags as CloudFormation spells them: a `Name`, and others.
fn tags(name: &str, more: &[(&str, &str)]) -> Value {
    let mut all = vec![json!({"Key": "Name", "Value": name})];
    all.extend(more.iter().map(|(key, value)| json!({"Key": key, "Value": value})));
    Value::Array(all)
}
