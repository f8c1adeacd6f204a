//! The load balancers of the API server, their targets, and the names they answer to.

use serde_json::{Value, json};

use super::{Kind, output, resource, subnet, tags, zones};
use crate::plugin::{Context, Contribution};

/// One load balancer: the prefix of its logical ids, and where it stands.
struct Balancer {
    prefix: &'static str,
    scheme: &'static str,
    kind: Kind,
}

pub(super) fn balancers(cx: &Context<'_>, out: &mut Contribution) {
    let scheme = cx.config.api.scheme;
    let mut all = Vec::new();
    if scheme.internal() {
        all.push(Balancer { prefix: "Api", scheme: "internal", kind: Kind::Private });
    }
    if scheme.internet_facing() {
        all.push(Balancer { prefix: "ApiPublic", scheme: "internet-facing", kind: Kind::Public });
    }
    for balancer in &all {
        one(cx, out, balancer);
    }
    records(cx, out, &all);
    output(out, "ApiEndpoint", json!(cx.config.endpoint()), None);
}

fn one(cx: &Context<'_>, out: &mut Contribution, balancer: &Balancer) {
    let prefix = balancer.prefix;
    let name = &cx.config.name;
    // In its own stack a subnet is a reference, not an output.
    let subnets: Vec<Value> = zones(cx)
        .map(|(_, zone, suffix)| match subnet(cx, balancer.kind, zone, &suffix) {
            Value::String(id) => json!(id),
            _ => json!({"Ref": format!("Subnet{}{suffix}", balancer.kind.word())}),
        })
        .collect();
    let protection = cx.config.api.deletion_protection.to_string();
    let properties = json!({
        "LoadBalancerAttributes": [
            {"Key": "deletion_protection.enabled", "Value": protection},
            {"Key": "load_balancing.cross_zone.enabled", "Value": "true"},
        ],
        "Scheme": balancer.scheme,
        "SecurityGroups": [{"Fn::GetAtt": ["ApiGroup", "GroupId"]}],
        "Subnets": subnets,
        "Tags": tags(&format!("{name}-api"), &[]),
        "Type": "network",
    });
    let mut body =
        json!({"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer", "Properties": properties});
    if balancer.kind == Kind::Public
        && cx.config.network.vpc.id.is_none()
        && let Some(map) = body.as_object_mut()
    {
        map.insert("DependsOn".to_owned(), json!("InternetGatewayAttachment"));
    }
    resource(out, &format!("{prefix}Balancer"), body);
    targets(cx, out, prefix);
    let listener = json!({
        "DefaultActions": [{"TargetGroupArn": {"Ref": format!("{prefix}Targets")}, "Type": "forward"}],
        "LoadBalancerArn": {"Ref": format!("{prefix}Balancer")}, "Port": 443, "Protocol": "TCP",
    });
    resource(
        out,
        &format!("{prefix}Listener"),
        json!({"Type": "AWS::ElasticLoadBalancingV2::Listener", "Properties": listener}),
    );
    output(out, &format!("{prefix}Targets"), json!({"Ref": format!("{prefix}Targets")}), None);
    output(
        out,
        &format!("{prefix}DnsName"),
        json!({"Fn::GetAtt": [format!("{prefix}Balancer"), "DNSName"]}),
        None,
    );
}

/// Targets are healthy when their API server is ready; a controller reaches itself through the balancer
/// only if its address is not preserved.
fn targets(cx: &Context<'_>, out: &mut Contribution, prefix: &str) {
    let attribute = |key: &str, value: &str| json!({"Key": key, "Value": value});
    let properties = json!({
        "HealthCheckIntervalSeconds": 10,
        "HealthCheckPath": "/readyz",
        "HealthCheckPort": "traffic-port",
        "HealthCheckProtocol": "HTTPS",
        "HealthyThresholdCount": 2,
        "Port": 6443,
        "Protocol": "TCP",
        "Tags": tags(&format!("{}-api", cx.config.name), &[]),
        "TargetGroupAttributes": [
            attribute("deregistration_delay.connection_termination.enabled", "true"),
            attribute("deregistration_delay.timeout_seconds", "30"),
            attribute("preserve_client_ip.enabled", "false"),
        ],
        "TargetType": "instance",
        "UnhealthyThresholdCount": 2,
        "VpcId": super::vpc::vpc_ref(cx),
    });
    let body =
        json!({"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": properties});
    resource(out, &format!("{prefix}Targets"), body);
}

/// Nodes use a name in the private zone; people the one in `api.domain`, if kaws may create it.
fn records(cx: &Context<'_>, out: &mut Contribution, all: &[Balancer]) {
    let Some((inside, outside)) = all.first().zip(all.last()) else { return };
    let zone = cx
        .config
        .network
        .private_zone
        .id
        .as_ref()
        .map_or_else(|| json!({"Ref": "Zone"}), |id| json!(id));
    record(out, "ApiRecord", &cx.config.endpoint(), &zone, inside.prefix);
    let api = &cx.config.api;
    if let (Some(domain), Some(zone)) = (&api.domain, &api.hosted_zone) {
        record(out, "ApiPublicRecord", domain, &json!(zone), outside.prefix);
    }
}

fn record(out: &mut Contribution, id: &str, name: &str, zone: &Value, prefix: &str) {
    let balancer = format!("{prefix}Balancer");
    let alias = json!({"DNSName": {"Fn::GetAtt": [balancer, "DNSName"]},
        "HostedZoneId": {"Fn::GetAtt": [balancer, "CanonicalHostedZoneID"]}});
    let properties = json!({"AliasTarget": alias, "HostedZoneId": zone, "Name": format!("{name}."), "Type": "A"});
    resource(out, id, json!({"Type": "AWS::Route53::RecordSet", "Properties": properties}));
}
