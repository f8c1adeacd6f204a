//! A VPC of its own: subnets, gateways, routes, the endpoint of S3; and the private zone of any.

use serde_json::{Value, json};

use super::{Kind, output, resource, tags, zones};
use crate::config::Nat;
use crate::model::Model;
use crate::plugin::{Context, Contribution};
use crate::value::Path;

const SUBNET: &str = "AWS::EC2::Subnet::Id";

pub(super) fn vpc(cx: &Context<'_>, model: &Model, out: &mut Contribution) {
    let name = &cx.config.name;
    let properties = json!({"CidrBlock": cx.config.network.vpc.cidr, "EnableDnsHostnames": true,
        "EnableDnsSupport": true, "Tags": tags(name, &[])});
    resource(out, "Vpc", json!({"Type": "AWS::EC2::VPC", "Properties": properties}));
    output(out, "VpcId", json!({"Ref": "Vpc"}), Some("AWS::EC2::VPC::Id"));
    resource(
        out,
        "InternetGateway",
        json!({"Type": "AWS::EC2::InternetGateway", "Properties": {"Tags": tags(name, &[])}}),
    );
    let attachment =
        json!({"InternetGatewayId": {"Ref": "InternetGateway"}, "VpcId": {"Ref": "Vpc"}});
    resource(
        out,
        "InternetGatewayAttachment",
        json!({"Type": "AWS::EC2::VPCGatewayAttachment", "Properties": attachment}),
    );
    public_routes(cx, out);
    for (i, zone, suffix) in zones(cx) {
        subnet(cx, model, out, Kind::Public, zone, &suffix, i);
        subnet(cx, model, out, Kind::Private, zone, &suffix, i);
        private_routes(cx, out, &suffix);
    }
    nat(cx, out);
    s3_endpoint(cx, out);
}

fn subnet(
    cx: &Context<'_>,
    model: &Model,
    out: &mut Contribution,
    kind: Kind,
    zone: &str,
    suffix: &str,
    i: usize,
) {
    let word = kind.word();
    let id = format!("Subnet{word}{suffix}");
    let network = &cx.config.network;
    let cidr = if kind == Kind::Private { network.private_cidr(i) } else { network.public_cidr(i) };
    let lower = word.to_lowercase();
    let name = format!("{}-{lower}-{zone}", cx.config.name);
    let path = ["network", "subnets", lower.as_str(), "tags"];
    let own: Vec<(&str, String)> = model
        .entities(&path)
        .map(|(key, e)| (key, e.body.as_str().unwrap_or_default().to_owned()))
        .collect();
    let more: Vec<(&str, &str)> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let properties = json!({"AvailabilityZone": zone, "CidrBlock": cidr.map(|c| c.to_string()),
        "MapPublicIpOnLaunch": false, "Tags": tags(&name, &more), "VpcId": {"Ref": "Vpc"}});
    let made = resource(out, &id, json!({"Type": "AWS::EC2::Subnet", "Properties": properties}));
    for (key, _) in &own {
        made.from(Path::of(path).join(*key));
    }
    output(out, &id, json!({"Ref": id}), Some(SUBNET));
    let table = if kind == Kind::Public {
        "RouteTablePublic".to_owned()
    } else {
        format!("RouteTablePrivate{suffix}")
    };
    let association = json!({"RouteTableId": {"Ref": table}, "SubnetId": {"Ref": id}});
    let body = json!({"Type": "AWS::EC2::SubnetRouteTableAssociation", "Properties": association});
    resource(out, &format!("{id}Routes"), body);
}

fn table(cx: &Context<'_>, out: &mut Contribution, id: &str, label: &str) {
    let name = format!("{}-{label}", cx.config.name);
    let body = json!({"Type": "AWS::EC2::RouteTable", "Properties": {"Tags": tags(&name, &[]), "VpcId": {"Ref": "Vpc"}}});
    resource(out, id, body);
}

fn public_routes(cx: &Context<'_>, out: &mut Contribution) {
    table(cx, out, "RouteTablePublic", "public");
    let route = json!({"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": {"Ref": "InternetGateway"},
        "RouteTableId": {"Ref": "RouteTablePublic"}});
    let body = json!({"Type": "AWS::EC2::Route", "DependsOn": "InternetGatewayAttachment", "Properties": route});
    resource(out, "RoutePublic", body);
}

fn private_routes(cx: &Context<'_>, out: &mut Contribution, suffix: &str) {
    let id = format!("RouteTablePrivate{suffix}");
    table(cx, out, &id, &format!("private-{}", suffix.to_lowercase()));
    let gateway = match cx.config.network.nat {
        Nat::None => return,
        Nat::PerZone => format!("NatGateway{suffix}"),
        Nat::Single => first_gateway(cx),
    };
    let route = json!({"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": {"Ref": gateway}, "RouteTableId": {"Ref": id}});
    resource(
        out,
        &format!("RoutePrivate{suffix}"),
        json!({"Type": "AWS::EC2::Route", "Properties": route}),
    );
}

fn first_gateway(cx: &Context<'_>) -> String {
    zones(cx).next().map(|(_, _, suffix)| format!("NatGateway{suffix}")).unwrap_or_default()
}

/// Returns the suffixes of the zones that have a NAT gateway.
pub(super) fn nat_zones(cx: &Context<'_>) -> Vec<String> {
    let network = &cx.config.network;
    let count = match network.nat {
        _ if network.vpc.id.is_some() => 0,
        Nat::None => 0,
        Nat::Single => 1,
        Nat::PerZone => network.zones.len(),
    };
    zones(cx).take(count).map(|(_, _, suffix)| suffix).collect()
}

fn nat(cx: &Context<'_>, out: &mut Contribution) {
    for suffix in nat_zones(cx) {
        let name = format!("{}-nat-{}", cx.config.name, suffix.to_lowercase());
        let address = json!({"Domain": "vpc", "Tags": tags(&name, &[])});
        let id = format!("NatAddress{suffix}");
        let body = json!({"Type": "AWS::EC2::EIP", "DependsOn": "InternetGatewayAttachment", "Properties": address});
        resource(out, &id, body);
        let gateway = json!({"AllocationId": {"Fn::GetAtt": [id, "AllocationId"]},
            "SubnetId": {"Ref": format!("SubnetPublic{suffix}")}, "Tags": tags(&name, &[])});
        let body = json!({"Type": "AWS::EC2::NatGateway", "DependsOn": "RoutePublic", "Properties": gateway});
        resource(out, &format!("NatGateway{suffix}"), body);
    }
}

/// Bundles, charts and images of ECR come from S3: not through NAT, which costs by the byte.
fn s3_endpoint(cx: &Context<'_>, out: &mut Contribution) {
    let mut tables = vec![json!({"Ref": "RouteTablePublic"})];
    tables.extend(
        zones(cx).map(|(_, _, suffix)| json!({"Ref": format!("RouteTablePrivate{suffix}")})),
    );
    let service = json!({"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"});
    let properties = json!({"RouteTableIds": tables, "ServiceName": service, "VpcEndpointType": "Gateway", "VpcId": {"Ref": "Vpc"}});
    resource(out, "S3Endpoint", json!({"Type": "AWS::EC2::VPCEndpoint", "Properties": properties}));
}

pub(super) fn private_zone(cx: &Context<'_>, out: &mut Contribution) {
    if cx.config.network.private_zone.id.is_some() {
        return;
    }
    let vpc =
        cx.config.network.vpc.id.as_ref().map_or_else(|| json!({"Ref": "Vpc"}), |id| json!(id));
    let properties = json!({
        "HostedZoneConfig": {"Comment": format!("Names inside the Kubernetes cluster {}", cx.config.name)},
        "HostedZoneTags": [{"Key": "kaws/cluster", "Value": cx.config.name}],
        "Name": format!("{}.", cx.config.private_zone()),
        "VPCs": [{"VPCId": vpc, "VPCRegion": {"Ref": "AWS::Region"}}],
    });
    resource(out, "Zone", json!({"Type": "AWS::Route53::HostedZone", "Properties": properties}));
    output(out, "ZoneId", json!({"Ref": "Zone"}), Some("AWS::Route53::HostedZone::Id"));
}

/// Returns what names the VPC inside the network's own stack.
pub(super) fn vpc_ref(cx: &Context<'_>) -> Value {
    cx.config.network.vpc.id.as_ref().map_or_else(|| json!({"Ref": "Vpc"}), |id| json!(id))
}
