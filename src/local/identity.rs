//! Ids and attributes of made-up resources: shaped as AWS's own, and always the same for the same stack.

use serde_json::{Map, Value, json};

use super::stack::Made;
use crate::cloudformation::Pseudo;
use crate::value::sha256;

/// Types whose `Ref` is a name that the template may give, and the property that gives it.
const NAMED: &[(&str, &str)] = &[
    ("AWS::AutoScaling::AutoScalingGroup", "AutoScalingGroupName"),
    ("AWS::DynamoDB::Table", "TableName"),
    ("AWS::Events::Rule", "Name"),
    ("AWS::IAM::InstanceProfile", "InstanceProfileName"),
    ("AWS::IAM::Role", "RoleName"),
    ("AWS::KMS::Alias", "AliasName"),
    ("AWS::Logs::LogGroup", "LogGroupName"),
    ("AWS::Route53::RecordSet", "Name"),
    ("AWS::S3::Bucket", "BucketName"),
    ("AWS::SSM::Parameter", "Name"),
];

/// Types whose physical id begins with a word of AWS's own.
const PREFIXED: &[(&str, &str)] = &[
    ("AWS::EC2::EgressOnlyInternetGateway", "eigw"),
    ("AWS::EC2::Instance", "i"),
    ("AWS::EC2::InternetGateway", "igw"),
    ("AWS::EC2::LaunchTemplate", "lt"),
    ("AWS::EC2::NatGateway", "nat"),
    ("AWS::EC2::NetworkInterface", "eni"),
    ("AWS::EC2::RouteTable", "rtb"),
    ("AWS::EC2::SecurityGroup", "sg"),
    ("AWS::EC2::SecurityGroupIngress", "sgr"),
    ("AWS::EC2::Subnet", "subnet"),
    ("AWS::EC2::SubnetRouteTableAssociation", "rtbassoc"),
    ("AWS::EC2::VPC", "vpc"),
    ("AWS::EC2::VPCEndpoint", "vpce"),
    ("AWS::EC2::Volume", "vol"),
    ("AWS::EFS::FileSystem", "fs"),
];

/// Types whose `Ref` is their ARN.
const BY_ARN: &[&str] = &[
    "AWS::ElasticLoadBalancingV2::Listener",
    "AWS::ElasticLoadBalancingV2::LoadBalancer",
    "AWS::ElasticLoadBalancingV2::TargetGroup",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::OIDCProvider",
    "AWS::SNS::Topic",
    "AWS::SecretsManager::Secret",
];

/// Returns the physical id of a resource: its `Ref`.
pub(super) fn physical(
    pseudo: &Pseudo,
    id: &str,
    kind: &str,
    properties: &Map<String, Value>,
    generation: u32,
) -> String {
    let seed = sha256(format!("{}/{id}/{generation}", pseudo.stack_id).as_bytes());
    let suffix = &seed[..17];
    if let Some((_, property)) = NAMED.iter().find(|(k, _)| *k == kind) {
        let given = properties.get(*property).and_then(Value::as_str).map(str::to_owned);
        // A name in DNS ends with a dot only where it is written.
        return given.map_or_else(
            || format!("{}-{id}-{}", pseudo.stack, &seed[..12].to_uppercase()),
            |name| name.trim_end_matches('.').to_owned(),
        );
    }
    if BY_ARN.contains(&kind) {
        let url = properties.get("Url").and_then(Value::as_str);
        let name = url.map_or_else(
            || format!("{}-{id}-{suffix}", pseudo.stack),
            |url| url.trim_start_matches("https://").to_owned(),
        );
        return arn(pseudo, kind, &name);
    }
    match kind {
        "AWS::EC2::EIP" => address(&seed),
        "AWS::KMS::Key" => {
            let part = |from: usize, to: usize| &seed[from..to];
            format!(
                "{}-{}-{}-{}-{}",
                part(0, 8),
                part(8, 12),
                part(12, 16),
                part(16, 20),
                part(20, 32)
            )
        }
        "AWS::Route53::HostedZone" => format!("Z{}", seed[..20].to_uppercase()),
        "AWS::SQS::Queue" => {
            let given = properties.get("QueueName").and_then(Value::as_str);
            let name =
                given.map_or_else(|| format!("{}-{id}-{suffix}", pseudo.stack), str::to_owned);
            format!("https://sqs.{}.amazonaws.com/{}/{name}", pseudo.region, pseudo.account)
        }
        _ => match PREFIXED.iter().find(|(k, _)| *k == kind) {
            Some((_, prefix)) => format!("{prefix}-{suffix}"),
            None => format!("{}-{id}-{}", pseudo.stack, &seed[..12].to_uppercase()),
        },
    }
}

/// Returns an attribute of a resource, for `Fn::GetAtt`.
pub(super) fn attribute(pseudo: &Pseudo, made: &Made, name: &str) -> Value {
    let seed = sha256(made.physical.as_bytes());
    let last = made.physical.rsplit('/').next().unwrap_or(&made.physical);
    let value = match (made.kind.as_str(), name) {
        ("AWS::EC2::LaunchTemplate", "LatestVersionNumber") => (made.version + 1).to_string(),
        ("AWS::EC2::LaunchTemplate", "DefaultVersionNumber") => "1".to_owned(),
        ("AWS::EC2::EIP", "AllocationId") => format!("eipalloc-{}", &seed[..17]),
        ("AWS::EC2::EIP", "PublicIp") => made.physical.clone(),
        ("AWS::EC2::NetworkInterface", "PrimaryPrivateIpAddress") => address(&seed),
        (_, "RegionalDomainName") => format!("{last}.s3.{}.amazonaws.com", pseudo.region),
        ("AWS::S3::Bucket", "DomainName") => format!("{last}.s3.amazonaws.com"),
        ("AWS::EC2::Subnet" | "AWS::EC2::Volume", "AvailabilityZone") => {
            let zone = made.properties.get("AvailabilityZone").and_then(Value::as_str);
            zone.unwrap_or("").to_owned()
        }
        ("AWS::EC2::VPC", "CidrBlock") => {
            made.properties.get("CidrBlock").and_then(Value::as_str).unwrap_or("").to_owned()
        }
        ("AWS::EC2::VPC", "DefaultSecurityGroup") => format!("sg-{}", &seed[..17]),
        ("AWS::EC2::VPC", "CidrBlockAssociations") => {
            return json!([format!("vpc-cidr-assoc-{}", &seed[..17])]);
        }
        ("AWS::Route53::HostedZone", "NameServers") => {
            return json!(["ns-1.local", "ns-2.local"]);
        }
        (_, "DNSName") => {
            let name = last.chars().take(24).collect::<String>().to_lowercase();
            format!("{name}.elb.{}.amazonaws.com", pseudo.region)
        }
        (_, "CanonicalHostedZoneID") => format!("Z{}", seed[..13].to_uppercase()),
        (kind, name) if name.ends_with("FullName") => {
            let word = if kind.ends_with("TargetGroup") { "targetgroup" } else { "net" };
            format!("{word}/{last}/{}", &seed[..16])
        }
        (kind, name) if name.ends_with("Arn") => {
            if made.physical.starts_with("arn:") {
                made.physical.clone()
            } else {
                arn(pseudo, kind, last)
            }
        }
        (_, name) if name.ends_with("Id") || name == "Name" || name.ends_with("Name") => {
            made.physical.clone()
        }
        (_, name) => {
            // What the template said, if the attribute is named as a property.
            let said = made.properties.get(name).cloned();
            return said.unwrap_or_else(|| format!("local-{}-{name}", &seed[..8]).into());
        }
    };
    value.into()
}

/// An address in 203.0.113.0/24, which is for documentation.
fn address(seed: &str) -> String {
    let last = u8::from_str_radix(&seed[..2], 16).unwrap_or(7);
    format!("203.0.113.{last}")
}

fn arn(pseudo: &Pseudo, kind: &str, name: &str) -> String {
    let Pseudo { partition, region, account, .. } = pseudo;
    let service = match kind.split("::").nth(1).unwrap_or_default() {
        "ElasticLoadBalancingV2" => "elasticloadbalancing".to_owned(),
        other => other.to_lowercase(),
    };
    let word = match kind {
        "AWS::ElasticLoadBalancingV2::Listener" => "listener/net/",
        "AWS::ElasticLoadBalancingV2::LoadBalancer" => "loadbalancer/net/",
        "AWS::ElasticLoadBalancingV2::TargetGroup" => "targetgroup/",
        "AWS::IAM::InstanceProfile" => "instance-profile/",
        "AWS::IAM::ManagedPolicy" => "policy/",
        "AWS::IAM::OIDCProvider" => "oidc-provider/",
        "AWS::IAM::Role" => "role/",
        "AWS::KMS::Key" => "key/",
        "AWS::DynamoDB::Table" => "table/",
        _ => "",
    };
    match service.as_str() {
        "iam" => format!("arn:{partition}:iam::{account}:{word}{name}"),
        "s3" => format!("arn:{partition}:s3:::{name}"),
        "route53" => format!("arn:{partition}:route53:::hostedzone/{name}"),
        _ => format!("arn:{partition}:{service}:{region}:{account}:{word}{name}"),
    }
}
