//! Security groups: the matrix of who may reach whom, the groups, and each rule as a resource of its own.
//!
//! Groups of roles and named groups are here; a pool's own group, and every rule that names one, stand in
//! that pool's stack (`node-pools`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::vpc::{nat_zones, vpc_ref};
use super::{output, resource, tags};
use crate::config::ApiScheme;
use crate::finding::{Finding, Findings};
use crate::model::{Model, Rule};
use crate::name::{camel, did_you_mean};
use crate::plugin::{Context, Contribution};
use crate::value::{Node, Path};

/// Groups that are always there, with their logical ids.
pub(super) const ROLE_GROUPS: [(&str, &str); 4] = [
    ("api", "ApiGroup"),
    ("controller", "ControllersGroup"),
    ("etcd", "EtcdGroup"),
    ("worker", "WorkersGroup"),
];

/// Returns the logical id, and the output, of a group in the network's stack.
pub(in crate::builtin) fn group_logical_id(group: &str) -> String {
    let role = ROLE_GROUPS.iter().find(|(name, _)| *name == group);
    role.map_or_else(|| format!("{}Group", camel(group)), |(_, id)| (*id).to_owned())
}

/// Puts the matrix: nodes reach the API through its balancer, controllers reach etcd and kubelets, and
/// nobody else reaches etcd.
pub(super) fn matrix(cx: &Context<'_>, out: &mut Contribution) {
    let mut rule = |to: &str, name: &str, protocol: &str, port: Value, from: Value, why: &str| {
        let mut body = json!({"protocol": protocol, "from": from, "description": why});
        if let (false, Some(map)) = (port.is_null(), body.as_object_mut()) {
            map.insert("port".to_owned(), port);
        }
        out.put("network", ["securityGroups", to, "ingress", name], body);
    };
    let group = |name: &str| json!({"group": name});
    for (i, cidr) in cx.config.api.allowed_cidrs.iter().enumerate() {
        rule(
            "api",
            &format!("allowed-{i}"),
            "tcp",
            json!(443),
            json!({"cidr": cidr}),
            "The API, from a network cluster.yaml allows",
        );
    }
    rule("api", "controllers", "tcp", json!(443), group("controller"), "The API, from controllers");
    rule("api", "workers", "tcp", json!(443), group("worker"), "The API, from workers");
    if cx.config.api.scheme == ApiScheme::InternetFacing {
        for suffix in nat_zones(cx) {
            let cidr = json!({"Fn::Sub": format!("${{NatAddress{suffix}}}/32")});
            rule(
                "api",
                &format!("nat-{}", suffix.to_lowercase()),
                "tcp",
                json!(443),
                json!({"cidr": cidr}),
                "The API, from nodes through NAT",
            );
        }
    }
    rule(
        "controller",
        "api",
        "tcp",
        json!(6443),
        group("api"),
        "The API server, from its load balancer",
    );
    // The service `kubernetes` leads pods to controllers themselves, and not to the load balancer.
    rule(
        "controller",
        "api-workers",
        "tcp",
        json!(6443),
        group("worker"),
        "The API server, from pods of workers",
    );
    rule(
        "controller",
        "self",
        "all",
        Value::Null,
        group("controller"),
        "Controllers among themselves",
    );
    rule(
        "controller",
        "kubelet-workers",
        "tcp",
        json!(10250),
        group("worker"),
        "Kubelets of controllers, from the metrics server",
    );
    rule("etcd", "controllers", "tcp", json!(2379), group("controller"), "etcd, from API servers");
    rule("etcd", "self", "tcp", json!("2379-2380"), group("etcd"), "Members among themselves");
    rule(
        "worker",
        "kubelet-controllers",
        "tcp",
        json!(10250),
        group("controller"),
        "Kubelets, from API servers",
    );
    rule("worker", "self", "all", Value::Null, group("worker"), "Workers among themselves");
}

/// Returns whether a rule names a pool's group, on either side.
pub(in crate::builtin) fn touches_pool(target: &str, rule: &Rule) -> bool {
    target.starts_with("pool:") || rule.from.group.as_ref().is_some_and(|g| g.starts_with("pool:"))
}

/// Returns the first and last port of a rule, or nothing where there are none.
pub(in crate::builtin) fn port_range(rule: &Rule) -> Option<(u32, u32)> {
    match rule.port.as_ref()? {
        Value::Number(n) => n.as_u64().and_then(|n| u32::try_from(n).ok()).map(|n| (n, n)),
        Value::String(text) => {
            let (first, last) = text.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        }
        _ => None,
    }
}

/// Returns the properties of an `AWS::EC2::SecurityGroupIngress`.
pub(in crate::builtin) fn ingress(rule: &Rule, group: Value, source: Option<Value>) -> Value {
    let protocol = if rule.protocol == "all" { "-1" } else { rule.protocol.as_str() };
    let mut properties = json!({"GroupId": group, "IpProtocol": protocol});
    let Some(map) = properties.as_object_mut() else { return properties };
    if let Some(description) = &rule.description {
        map.insert("Description".to_owned(), json!(description));
    }
    match (port_range(rule), rule.protocol.as_str()) {
        (_, "icmp") => {
            map.extend([("FromPort".to_owned(), json!(-1)), ("ToPort".to_owned(), json!(-1))]);
        }
        (Some((first, last)), "tcp" | "udp") => {
            map.extend([("FromPort".to_owned(), json!(first)), ("ToPort".to_owned(), json!(last))]);
        }
        _ => {}
    }
    match (source, &rule.from.cidr, &rule.from.prefix_list) {
        (Some(group), ..) => map.insert("SourceSecurityGroupId".to_owned(), group),
        (_, Some(cidr), _) => map.insert("CidrIp".to_owned(), cidr.clone()),
        (.., Some(list)) => map.insert("SourcePrefixListId".to_owned(), json!(list)),
        _ => None,
    };
    properties
}

/// Returns a finding for each rule whose source is no group that there is.
pub(super) fn unknown_sources(cx: &Context<'_>, model: &Model) -> Findings {
    let mut names: Vec<&str> = ROLE_GROUPS.iter().map(|(name, _)| *name).collect();
    names.extend(model.names(&["securityGroups"]));
    names.extend(cx.groups.iter().filter(|g| g.pool.is_some()).map(|g| g.key.as_str()));
    let mut findings = Findings::new();
    model.walk(&["securityGroups"], &mut |path, entity| {
        let Some(source) = entity.body.at(&["from", "group"]) else { return };
        let name = source.as_str().unwrap_or_default();
        if names.contains(&name) {
            return;
        }
        let text = format!(
            "the rule {} names the security group `{name}`, which is not there",
            Path::of(path.iter().copied())
        );
        let finding = Finding::fatal("model/rule-source", text)
            .at(&source.origin)
            .by(&entity.owners[0].plugin);
        findings.push(match did_you_mean(name, names.iter().copied()) {
            Some(near) => finding.help(format!("did you mean `{near}`?")),
            None => finding.help(format!("there are: {}", names.join(", "))),
        });
    });
    findings
}

/// Puts the groups, and all rules that name no pool; equal tuples are one, as AWS refuses them twice.
pub(super) fn groups(cx: &Context<'_>, model: &Model, out: &mut Contribution) {
    let mut names: Vec<&str> = ROLE_GROUPS.iter().map(|(name, _)| *name).collect();
    names.extend(model.names(&["securityGroups"]).into_iter().filter(|n| !n.starts_with("pool:")));
    names.sort_unstable();
    names.dedup();
    for name in names {
        group(cx, model, out, name);
    }
}

fn group(cx: &Context<'_>, model: &Model, out: &mut Contribution, name: &str) {
    let id = group_logical_id(name);
    let cluster = format!("kubernetes.io/cluster/{}", cx.config.name);
    // The cloud controller refuses nodes with two tagged groups, so only these two are.
    let owned: &[(&str, &str)] =
        &[(cluster.as_str(), "owned"), ("KubernetesCluster", cx.config.name.as_str())];
    let more = if ["controller", "worker"].contains(&name) { owned } else { &[] };
    let properties = json!({"GroupDescription": format!("{} of Kubernetes cluster {}", title(name), cx.config.name),
        "Tags": tags(&format!("{}-{name}", cx.config.name), more), "VpcId": vpc_ref(cx)});
    let made =
        resource(out, &id, json!({"Type": "AWS::EC2::SecurityGroup", "Properties": properties}));
    let rules: Vec<(&str, Rule)> = model
        .entities(&["securityGroups", name, "ingress"])
        .filter_map(|(rule, e)| Some((rule, serde_json::from_value(Node::to_value(&e.body)).ok()?)))
        .collect();
    for (rule, _) in &rules {
        made.from(Path::of(["securityGroups", name, "ingress", *rule]));
    }
    output(out, &id, json!({"Fn::GetAtt": [id, "GroupId"]}), Some("AWS::EC2::SecurityGroup::Id"));
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (rule, body) in rules.iter().filter(|(_, body)| !touches_pool(name, body)) {
        let path = Path::of(["securityGroups", name, "ingress", *rule]);
        let tuple = json!([body.protocol, port_range(body), body.from]).to_string();
        let resource_id = format!("{}Ingress{}", id.trim_end_matches("Group"), camel(rule));
        if let Some(first) = seen.get(&tuple) {
            let first = first.clone();
            if let Some(made) = out.entities.iter_mut().find(|m| m.path.0.last() == Some(&first)) {
                made.from(path);
            }
            continue;
        }
        seen.insert(tuple, resource_id.clone());
        let source = body
            .from
            .group
            .as_ref()
            .map(|g| json!({"Fn::GetAtt": [group_logical_id(g), "GroupId"]}));
        let properties = ingress(body, json!({"Fn::GetAtt": [id, "GroupId"]}), source);
        let body = json!({"Type": "AWS::EC2::SecurityGroupIngress", "Properties": properties});
        resource(out, &resource_id, body).from(path);
    }
}

fn title(name: &str) -> &str {
    match name {
        "api" => "Load balancers of the API",
        "controller" => "Controllers",
        "etcd" => "Members of etcd",
        "worker" => "Workers",
        other => other,
    }
}
