//! The network: ranges of addresses, zones, subnets, and what an existing VPC must say of itself.

use ipnet::Ipv4Net;

use super::Check;
use crate::finding::Finding;
use crate::name::did_you_mean;

impl Check<'_> {
    pub(super) fn networks(&mut self) {
        let network = &self.cluster.network;
        let parts: [(&str, &str, &[&str]); 3] = [
            ("the VPC", &network.vpc.cidr, &["network", "vpc", "cidr"]),
            ("the pods", &network.pod_cidr, &["network", "podCIDR"]),
            ("the services", &network.service_cidr, &["network", "serviceCIDR"]),
        ];
        let nets: Vec<Option<Ipv4Net>> =
            parts.iter().map(|(_, cidr, _)| cidr.parse().ok()).collect();
        for (i, j) in [(0, 1), (0, 2), (1, 2)] {
            let (Some(a), Some(b)) = (nets[i], nets[j]) else { continue };
            if a.contains(&b.network()) || b.contains(&a.network()) {
                self.overlap((parts[i].0, a, parts[i].2), (parts[j].0, b, parts[j].2));
            }
        }
        self.prefixes(&nets);
    }

    fn overlap(&mut self, a: (&str, Ipv4Net, &[&str]), b: (&str, Ipv4Net, &[&str])) {
        let range =
            |what: &str, net: Ipv4Net| format!("{what}: {} to {}", net.network(), net.broadcast());
        let inside = if a.1.contains(&b.1) {
            format!("{}' addresses lie inside {}", b.0, owner(a.0))
        } else {
            format!("{} and {} share addresses", a.0, b.0)
        };
        let key = b.2.last().copied().unwrap_or_default();
        let mut finding = Finding::fatal("network/overlap", inside)
            .at_with(&self.origin(b.2), range(b.0, b.1))
            .related(&self.origin(a.2), range(a.0, a.1))
            .note(format!(
                "a node could not tell {} from another node (plugin network)",
                one_of(b.0)
            ));
        let default = if key == "podCIDR" { "10.2.0.0/16" } else { "10.3.0.0/16" };
        let free = default
            .parse::<Ipv4Net>()
            .is_ok_and(|d| !d.contains(&a.1.network()) && !a.1.contains(&d.network()));
        if free && b.1.to_string() != default {
            finding = finding.help(format!("leave {key} out to get {default}, which is free here"));
        }
        self.push(finding);
    }

    fn prefixes(&mut self, nets: &[Option<Ipv4Net>]) {
        let vpc = &["network", "vpc", "cidr"][..];
        let bounds = [
            (
                nets[0],
                16,
                22,
                vpc,
                "a VPC has a prefix from /16, AWS's largest, to /22, kaws's smallest",
            ),
            (
                nets[1],
                8,
                20,
                &["network", "podCIDR"][..],
                "pods need a /20 or larger: each node takes a /24 of it",
            ),
            (
                nets[2],
                12,
                24,
                &["network", "serviceCIDR"][..],
                "services need a prefix from /12 to /24",
            ),
        ];
        for (net, largest, smallest, path, text) in bounds {
            let Some(net) = net else { continue };
            let existing = path == vpc && self.cluster.network.vpc.id.is_some();
            let length = net.prefix_len();
            if (length < largest || length > smallest) && !existing {
                self.push(Finding::fatal("network/prefix", text).at(&self.origin(path)));
            }
        }
    }

    pub(super) fn zones(&mut self) {
        let cluster = self.cluster;
        let zones = &cluster.network.zones;
        for (i, zone) in zones.iter().enumerate() {
            let at = self.origin(&["network", "zones", &i.to_string()]);
            if !zone.starts_with(&cluster.region) {
                let text = format!("the zone {zone} is not in the region {}", cluster.region);
                self.push(Finding::fatal("config/zone", text).at(&at));
            }
            if zones[..i].contains(zone) {
                self.push(
                    Finding::fatal("config/zone", format!("the zone {zone} is named twice"))
                        .at(&at),
                );
            }
        }
        for (name, pool) in &cluster.node_pools {
            for (i, zone) in pool.zones.iter().flatten().enumerate() {
                if !zones.contains(zone) {
                    let at = self.origin(&["nodePools", name, "zones", &i.to_string()]);
                    let text = format!("the cluster is not in the zone {zone}");
                    self.push(
                        Finding::fatal("config/zone", text)
                            .at(&at)
                            .help(format!("it is in: {}", zones.join(", "))),
                    );
                }
            }
        }
    }

    pub(super) fn existing_vpc(&mut self) {
        let network = &self.cluster.network;
        let vpc: Option<Ipv4Net> = network.vpc.cidr.parse().ok();
        let exists = network.vpc.id.is_some();
        for (kind, subnets) in
            [("private", &network.subnets.private), ("public", &network.subnets.public)]
        {
            for (zone, subnet) in subnets {
                let at = self.origin(&["network", "subnets", kind, zone]);
                if !network.zones.contains(zone) {
                    let text = format!("the {kind} subnet's zone {zone} is none of network.zones");
                    let near = did_you_mean(zone, network.zones.iter().map(String::as_str));
                    let finding = Finding::fatal("network/subnets", text).at(&at);
                    self.push(
                        near.into_iter().fold(finding, |f, n| f.help(format!("did you mean {n}?"))),
                    );
                }
                if subnet.id.is_some() != exists {
                    let text = if exists {
                        "an existing VPC's subnet needs its id"
                    } else {
                        "a new VPC has no existing subnets"
                    };
                    self.push(Finding::fatal("network/subnets", text).at(&at));
                }
                let cidr = subnet.cidr.as_ref().and_then(|c| c.parse::<Ipv4Net>().ok());
                if let (Some(vpc), Some(cidr)) = (vpc, cidr)
                    && !vpc.contains(&cidr)
                {
                    let text = format!("the subnet {cidr} lies outside the VPC {vpc}");
                    self.push(Finding::fatal("network/subnets", text).at(&at));
                }
            }
        }
        self.subnets_apart();
        let zone = &network.private_zone;
        if zone.id.is_some() && zone.name.is_none() {
            let at = self.origin(&["network", "privateZone", "id"]);
            let text = "an existing private zone needs its name: records are created in it";
            self.push(Finding::fatal("config/needs", text).at(&at));
        }
        let public = exists && (self.cluster.api.scheme.internet_facing());
        for zone in network.zones.iter().filter(|_| exists) {
            let kinds = [
                ("private", &network.subnets.private, true),
                ("public", &network.subnets.public, public),
            ];
            for (kind, subnets, needed) in kinds {
                if needed && !subnets.contains_key(zone) {
                    let text = format!("the existing VPC has no {kind} subnet for {zone}");
                    let at = self.origin(&["network", "vpc", "id"]);
                    let help = format!(
                        "write it: network.subnets.{kind}.{zone}: {{id: subnet-…, cidr: …}}"
                    );
                    self.push(Finding::fatal("network/subnets", text).at(&at).help(help));
                }
            }
        }
    }

    /// Subnets that kaws creates, chosen or written, share no addresses.
    fn subnets_apart(&mut self) {
        let network = &self.cluster.network;
        if network.vpc.id.is_some() {
            return;
        }
        let zones = 0..network.zones.len();
        let private = zones.clone().filter_map(|i| Some(("private", i, network.private_cidr(i)?)));
        let all: Vec<_> = private
            .chain(zones.filter_map(|i| Some(("public", i, network.public_cidr(i)?))))
            .collect();
        for (n, (kind, i, cidr)) in all.iter().enumerate() {
            let other =
                all[..n].iter().find(|(.., other)| other.contains(cidr) || cidr.contains(other));
            if let Some((other_kind, j, other)) = other {
                let zones = &network.zones;
                let text = format!(
                    "the {kind} subnet {cidr} of {} and the {other_kind} subnet {other} of {} share addresses",
                    zones[*i], zones[*j]
                );
                let written = self.origin(&["network", "subnets"]);
                self.push(Finding::fatal("network/overlap", text).at(&written));
            }
        }
    }
}

fn owner(what: &str) -> String {
    if what.ends_with('s') { format!("{what}'") } else { format!("{what}'s") }
}

fn one_of(what: &str) -> &'static str {
    if what == "the pods" { "a pod" } else { "a service" }
}
