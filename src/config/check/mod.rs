//! Checks that no schema can express: settings of `cluster.yaml` against each other.

mod network;

use super::{
    ApiScheme, Arch, Cluster, Image, IpFamily, Nat, Partition, Volume, VolumeType, instance_arch,
};
use crate::finding::{Finding, Findings};
use crate::name::is_secret_key;
use crate::origin::Origin;
use crate::value::{Node, Path};

/// The Kubernetes minors that kaws renders.
const MINORS: std::ops::RangeInclusive<u32> = 34..=37;

/// Returns the values in a plugin's own settings file that look like secrets written out.
#[must_use]
pub fn secrets_in(node: &Node, prefix: &[&str], accept: &dyn Fn(&str) -> bool) -> Findings {
    let mut path: Vec<String> = prefix.iter().map(|s| (*s).to_owned()).collect();
    let mut found = Vec::new();
    plain_secrets(node, &mut path, &mut found);
    let shown = found.into_iter().map(|(path, origin)| (Path(path).to_string(), origin));
    shown
        .filter(|(path, _)| !accept(path))
        .map(|(path, origin)| plain_secret(&path, &origin))
        .collect()
}

fn plain_secret(path: &str, origin: &Origin) -> Finding {
    Finding::fatal("config/plain-secret", format!("{path} looks like a secret written out"))
        // The line holds it: it goes to no terminal and no log.
        .at(&origin.hidden())
        .help("write {$secret: NAME}: the value is set when the cluster is deployed")
        .help(format!("if it is none, allow it with the reason:\n\n    accept:\n      {path}: why"))
}

/// Returns all findings on `cluster`, which `node` is the text of.
#[must_use]
pub fn check(cluster: &Cluster, node: &Node) -> Findings {
    let mut cx = Check { cluster, node, findings: Findings::new() };
    cx.basics();
    cx.networks();
    cx.zones();
    cx.existing_vpc();
    cx.api();
    cx.machines();
    cx.names();
    cx.timeouts();
    cx.secrets();
    cx.findings
}

struct Check<'a> {
    cluster: &'a Cluster,
    node: &'a Node,
    findings: Findings,
}

impl Check<'_> {
    /// Returns where the setting at `path` is written, or else the nearest thing around it.
    fn origin(&self, path: &[&str]) -> Origin {
        (0..=path.len())
            .rev()
            .find_map(|n| self.node.at(&path[..n]))
            .map_or_else(|| self.node.origin.clone(), |n| n.origin.clone())
    }

    fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn basics(&mut self) {
        let minor = self.cluster.kubernetes_minor();
        let at = self.origin(&["kubernetesVersion"]);
        let version = &self.cluster.kubernetes_version;
        if minor < *MINORS.start() || minor > *MINORS.end() + 1 {
            let text = format!("kaws renders Kubernetes 1.34 to 1.37, and not {version}");
            self.push(Finding::fatal("config/kubernetes-version", text).at(&at));
        } else if minor > *MINORS.end() {
            let text = format!("Kubernetes {version} is newer than this kaws knows");
            self.push(Finding::warning("config/kubernetes-version", text).at(&at));
        }
        let lies_in = Partition::of_region(&self.cluster.region);
        if let Some(written) = self.cluster.partition.filter(|p| *p != lies_in) {
            let text = format!(
                "{} lies in {}, and not in {}",
                self.cluster.region,
                lies_in.as_ref(),
                written.as_ref()
            );
            self.push(Finding::fatal("config/partition", text).at(&self.origin(&["partition"])));
        }
        if self.cluster.network.ip_family == IpFamily::DualStack {
            let finding = Finding::fatal("config/dual-stack", "dual stack is not built yet")
                .at(&self.origin(&["network", "ipFamily"]))
                .help("leave ipFamily out, or write ipv4");
            self.push(finding);
        }
    }

    fn api(&mut self) {
        let api = &self.cluster.api;
        let scheme = self.origin(&["api", "scheme"]);
        if api.scheme.internet_facing() && api.allowed_cidrs.is_empty() {
            let finding = Finding::fatal(
                "config/needs",
                "an API that faces the internet needs api.allowedCIDRs",
            )
            .at(&scheme)
            .help("name your offices' networks: allowedCIDRs: [198.51.100.0/24]");
            self.push(finding);
        }
        if let Some(i) = api.allowed_cidrs.iter().position(|c| c.ends_with("/0")) {
            let at = self.origin(&["api", "allowedCIDRs", &i.to_string()]);
            let finding =
                Finding::warning("config/apiserver-open", "everybody may reach the API server");
            self.push(finding.at(&at).about("api.allowedCIDRs"));
        }
        let own_nat =
            self.cluster.network.vpc.id.is_none() && self.cluster.network.nat != Nat::None;
        if api.scheme == ApiScheme::InternetFacing && !own_nat {
            let text = "nodes cannot reach an API that only faces the internet: kaws knows no NAT gateway's address";
            self.push(
                Finding::fatal("config/internet-facing", text)
                    .at(&scheme)
                    .help("write scheme: both"),
            );
        }
        if api.hosted_zone.is_some() && api.domain.is_none() {
            let at = self.origin(&["api", "hostedZone"]);
            let finding = Finding::fatal(
                "config/needs",
                "api.hostedZone needs api.domain, the name to create there",
            );
            self.push(finding.at(&at));
        }
    }

    fn machines(&mut self) {
        let cluster = self.cluster;
        let etcd = &cluster.etcd;
        let at = self.origin(&["etcd", "members"]);
        if ![1, 3, 5].contains(&etcd.members) {
            let text = format!("etcd has 1, 3 or 5 members, and not {}", etcd.members);
            self.push(Finding::fatal("config/even-etcd", text).at(&at));
        } else if etcd.members == 1 {
            let text = "a single etcd member: the cluster stops when its machine does";
            self.push(
                Finding::warning("config/one-controller", text).at(&at).about("etcd.members"),
            );
        } else if cluster.network.zones.len() < 3 {
            let text = "etcd loses its majority when a zone fails: there are fewer than three";
            let at = self.origin(&["network", "zones"]);
            self.push(Finding::warning("config/etcd-zones", text).at(&at).about("network.zones"));
        }
        if cluster.control_plane.count == 1 {
            let text = "a single controller: the API is away when its machine is";
            let at = self.origin(&["controlPlane", "count"]);
            self.push(
                Finding::warning("config/one-controller", text).at(&at).about("controlPlane.count"),
            );
        }
        self.image(&etcd.image, &["etcd", "image"]);
        self.image(&cluster.control_plane.image, &["controlPlane", "image"]);
        self.volume(&etcd.volume, &["etcd", "volume"]);
        self.volume(&cluster.control_plane.root_volume, &["controlPlane", "rootVolume"]);
        for (name, pool) in &cluster.node_pools {
            self.image(&pool.image, &["nodePools", name, "image"]);
            self.volume(&pool.root_volume, &["nodePools", name, "rootVolume"]);
            if pool.size.min > pool.size.max {
                let text = format!(
                    "the pool {name} is to have at least {} and at most {}",
                    pool.size.min, pool.size.max
                );
                self.push(Finding::fatal("config/pool-size", text).at(&self.origin(&[
                    "nodePools",
                    name,
                    "size",
                ])));
            }
            self.architecture(name, pool);
        }
    }

    /// Flatcar's images have no parameter that says which is the newest.
    fn image(&mut self, image: &Image, path: &[&str]) {
        if image.id.is_none() && image.os.image_parameter(Arch::Amd64).is_none() {
            let text = format!("{} says no image of {}", path.join("."), image.os.as_ref());
            let finding = Finding::fatal("config/image", text).at(&self.origin(path));
            self.push(finding.help("write id: ami-…, the image in this region; Flatcar lists them at https://www.flatcar.org/releases"));
        }
    }

    /// Names that AWS limits: buckets to 63 characters, roles to 64.
    fn names(&mut self) {
        let bucket = self.cluster.issuer_bucket();
        if bucket.len() > 63 {
            let text =
                format!("the bucket {bucket} has {} characters, and AWS allows 63", bucket.len());
            let finding = Finding::fatal("config/name-length", text).at(&self.origin(&["name"]));
            self.push(finding.help("give the cluster a shorter name"));
        }
        let Some(prefix) = &self.cluster.iam.prefix else { return };
        for pool in self.cluster.node_pools.keys() {
            let role = format!("{prefix}{}-{pool}", self.cluster.name);
            if role.len() > 64 {
                let text =
                    format!("the role {role} has {} characters, and AWS allows 64", role.len());
                let at = self
                    .node
                    .at(&["nodePools", pool])
                    .map_or(&self.node.origin, Node::key_origin)
                    .clone();
                self.push(
                    Finding::fatal("config/name-length", text)
                        .at(&at)
                        .help("give the pool a shorter name"),
                );
            }
        }
    }

    /// CloudFormation waits at most an hour for a machine that it replaces.
    fn timeouts(&mut self) {
        let cluster = self.cluster;
        let mut all = vec![
            (&cluster.etcd.timeout, vec!["etcd", "timeout"]),
            (&cluster.control_plane.timeout, vec!["controlPlane", "timeout"]),
        ];
        all.extend(
            cluster
                .node_pools
                .iter()
                .map(|(name, p)| (&p.timeout, vec!["nodePools", name, "timeout"])),
        );
        for (timeout, path) in all {
            if timeout.seconds() > 3_600 {
                let text =
                    format!("{} is longer than the hour that CloudFormation waits", timeout.0);
                self.push(Finding::fatal("config/timeout", text).at(&self.origin(&path)));
            }
        }
    }

    fn architecture(&mut self, name: &str, pool: &super::NodePool) {
        let wanted = pool.architecture.unwrap_or_else(|| instance_arch(&pool.instance_types[0]));
        for (i, kind) in pool.instance_types.iter().enumerate() {
            if instance_arch(kind) == wanted {
                continue;
            }
            let at = self.origin(&["nodePools", name, "instanceTypes", &i.to_string()]);
            let text = format!(
                "{kind} is {}, and the pool is {}",
                instance_arch(kind).as_ref(),
                wanted.as_ref()
            );
            let help = "give each architecture a pool of its own";
            self.push(Finding::fatal("config/architecture", text).at(&at).help(help));
        }
    }

    fn volume(&mut self, volume: &Volume, path: &[&str]) {
        let text = match (volume.kind, volume.iops, volume.throughput) {
            (VolumeType::Io2, None, _) => "a volume of type io2 needs `iops`",
            (VolumeType::Io2, _, Some(_)) => "only gp3 has a `throughput` to set",
            (VolumeType::Gp3, Some(iops), _) if iops > 16_000 => {
                "gp3 has at most 16,000 operations a second"
            }
            _ => return,
        };
        self.push(Finding::fatal("config/needs", text).at(&self.origin(path)));
    }

    fn secrets(&mut self) {
        let accept =
            |path: &str| self.cluster.accept.contains_key(path) || path.starts_with("accept");
        let found = secrets_in(self.node, &[], &accept);
        self.findings.extend(found);
    }
}

fn plain_secrets(node: &Node, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Origin)>) {
    for (key, value) in node.as_map().into_iter().flatten() {
        path.push(key.clone());
        if is_secret_key(key) && !key.starts_with('$') && holds_literal(value) {
            found.push((path.clone(), value.origin.clone()));
        }
        plain_secrets(value, path, found);
        path.pop();
    }
    for (i, item) in node.as_list().into_iter().flatten().enumerate() {
        path.push(i.to_string());
        plain_secrets(item, path, found);
        path.pop();
    }
}

/// Whether a value is written out: a text or number, or a list of such.
fn holds_literal(value: &Node) -> bool {
    match &value.data {
        crate::value::Data::String(text) => !text.is_empty(),
        crate::value::Data::Number(_) => true,
        crate::value::Data::List(items) => items.iter().any(holds_literal),
        _ => false,
    }
}
