//! The `network:` and `api:` parts of `cluster.yaml`, and the arithmetic of subnets.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Addresses, zones and ways out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "network")]
pub struct Network {
    /// The VPC: a new one, or an existing one by its id.
    #[serde(default)]
    pub vpc: Vpc,
    /// Availability zones, one to six. Their order is fixed: add at the end.
    #[schemars(
        length(min = 1, max = 6),
        inner(regex(pattern = "^[a-z]{2}(-[a-z]+)+-[0-9][a-z0-9-]*$"))
    )]
    pub zones: Vec<String>,
    /// Subnets by kind and zone: ids where they exist, CIDRs where kaws creates them and should not choose.
    #[serde(default)]
    pub subnets: Subnets,
    /// NAT gateways: one in each zone, a single one, or none. An existing VPC has its own.
    #[serde(default)]
    pub nat: Nat,
    /// Addresses of pods.
    #[serde(default = "default_pod_cidr", rename = "podCIDR")]
    #[schemars(extend("format" = "cidr"))]
    pub pod_cidr: String,
    /// Addresses of services; the 10th is the cluster's DNS.
    #[serde(default = "default_service_cidr", rename = "serviceCIDR")]
    #[schemars(extend("format" = "cidr"))]
    pub service_cidr: String,
    /// Families of addresses.
    #[serde(default)]
    pub ip_family: IpFamily,
    /// The private DNS zone, in which etcd's members and the API have their names.
    #[serde(default)]
    pub private_zone: PrivateZone,
}

/// The VPC.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "the VPC")]
pub struct Vpc {
    /// Its addresses.
    #[serde(default = "default_vpc_cidr")]
    #[schemars(extend("format" = "cidr"))]
    pub cidr: String,
    /// Id of an existing VPC; kaws then creates no subnets, gateways or routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^vpc-[0-9a-f]{8,17}$"))]
    pub id: Option<String>,
}

impl Default for Vpc {
    fn default() -> Self {
        Self { cidr: default_vpc_cidr(), id: None }
    }
}

/// Subnets by kind and zone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "subnets")]
pub struct Subnets {
    /// Subnets of nodes, by zone.
    #[serde(default)]
    pub private: BTreeMap<String, Subnet>,
    /// Subnets of load balancers and NAT gateways, by zone.
    #[serde(default)]
    pub public: BTreeMap<String, Subnet>,
}

/// One subnet.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a subnet")]
pub struct Subnet {
    /// Id of an existing subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^subnet-[0-9a-f]{8,17}$"))]
    pub id: Option<String>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "cidr"))]
    pub cidr: Option<String>,
}

/// NAT gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Nat {
    /// One in each zone: a zone's failure stays in it.
    #[default]
    PerZone,
    /// One for all zones: cheaper, and the way out fails with its zone.
    Single,
    /// None: nodes reach only what is inside.
    None,
}

/// Families of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum IpFamily {
    /// IPv4 alone.
    #[default]
    Ipv4,
    /// IPv4 and IPv6; refused until it works.
    DualStack,
}

/// The private DNS zone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "the private zone")]
pub struct PrivateZone {
    /// Its name; by default the cluster's name and `.internal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$"))]
    pub name: Option<String>,
    /// Id of an existing zone that is attached to the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^Z[A-Z0-9]{8,31}$"))]
    pub id: Option<String>,
}

/// How people and nodes reach the API server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "api")]
pub struct Api {
    /// Host name for people; without it they use the load balancer's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$"))]
    pub domain: Option<String>,
    /// Id of the Route 53 zone in which kaws creates that name; without it you do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^Z[A-Z0-9]{8,31}$"))]
    pub hosted_zone: Option<String>,
    /// Load balancers: an internal one, one that faces the internet, or both (people from outside, nodes inside).
    #[serde(default)]
    pub scheme: ApiScheme,
    /// Networks that may reach the API server from outside the cluster.
    #[serde(default, rename = "allowedCIDRs")]
    #[schemars(extend("items" = {"type": "string", "format": "cidr"}))]
    pub allowed_cidrs: Vec<String>,
    /// Whether the load balancers refuse to be deleted.
    #[serde(default)]
    pub deletion_protection: bool,
}

/// Load balancers of the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ApiScheme {
    /// Reached from the VPC alone.
    #[default]
    Internal,
    /// Reached from the internet; nodes come through NAT.
    InternetFacing,
    /// One of each.
    Both,
}

impl ApiScheme {
    /// Returns whether there is a load balancer inside.
    #[must_use]
    pub fn internal(self) -> bool {
        self != Self::InternetFacing
    }

    /// Returns whether there is one that faces the internet.
    #[must_use]
    pub fn internet_facing(self) -> bool {
        self != Self::Internal
    }
}

impl Network {
    /// Returns the part of `zone` that tells it apart inside the region, in CamelCase: `A`, `Lax1A`.
    #[must_use]
    pub fn zone_suffix(zone: &str, region: &str) -> String {
        crate::name::camel(zone.strip_prefix(region).unwrap_or(zone))
    }

    /// Returns the addresses of a zone's private subnet: what is written, or the zone's eighth of the VPC.
    #[must_use]
    pub fn private_cidr(&self, zone: usize) -> Option<Ipv4Net> {
        self.subnet_cidr(&self.subnets.private, zone, 3, zone)
    }

    /// Returns the addresses of a zone's public subnet: what is written, or an eighth of the VPC's seventh eighth.
    #[must_use]
    pub fn public_cidr(&self, zone: usize) -> Option<Ipv4Net> {
        self.subnet_cidr(&self.subnets.public, zone, 6, 48 + zone)
    }

    fn subnet_cidr(
        &self,
        written: &BTreeMap<String, Subnet>,
        zone: usize,
        bits: u8,
        index: usize,
    ) -> Option<Ipv4Net> {
        if let Some(cidr) = written.get(self.zones.get(zone)?).and_then(|s| s.cidr.as_ref()) {
            return cidr.parse().ok();
        }
        let vpc: Ipv4Net = self.vpc.cidr.parse().ok()?;
        vpc.subnets(vpc.prefix_len() + bits).ok()?.nth(index)
    }
}

/// Returns the address at `index` of `cidr`, or nothing if that is no network.
#[must_use]
pub(crate) fn host(cidr: &str, index: u32) -> String {
    let net = cidr.parse::<Ipv4Net>().ok();
    let address = net.and_then(|n| u32::from(n.network()).checked_add(index));
    address.map(|a| std::net::Ipv4Addr::from(a).to_string()).unwrap_or_default()
}

fn default_vpc_cidr() -> String {
    "10.0.0.0/16".to_owned()
}

fn default_pod_cidr() -> String {
    "10.2.0.0/16".to_owned()
}

fn default_service_cidr() -> String {
    "10.3.0.0/16".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_zone_moves_no_subnet() {
        let text = serde_json::json!({"zones": ["eu-west-1a", "eu-west-1b"], "vpc": {"cidr": "10.40.0.0/16"}});
        let network: Network = serde_json::from_value(text).unwrap();
        assert_eq!(network.private_cidr(1).unwrap().to_string(), "10.40.32.0/19");
        assert_eq!(network.public_cidr(0).unwrap().to_string(), "10.40.192.0/22");
    }

    #[test]
    fn zones_end_in_camel_case() {
        assert_eq!(Network::zone_suffix("eu-west-1a", "eu-west-1"), "A");
        assert_eq!(Network::zone_suffix("us-west-2-lax-1a", "us-west-2"), "Lax1a");
    }

    #[test]
    fn the_dns_service_is_the_tenth_address() {
        assert_eq!(host("10.3.0.0/16", 10), "10.3.0.10");
    }
}
