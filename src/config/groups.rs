//! The groups of machines that follow from `cluster.yaml`: etcd, controllers, and one for each pool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cluster, Os};

/// What a machine is for.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::AsRefStr,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// Keeps the cluster's state.
    Etcd,
    /// Runs the control plane.
    Controller,
    /// Runs everything else.
    Worker,
}

/// A processor's architecture.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::AsRefStr,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[strum(serialize_all = "lowercase")]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// 64-bit Arm, as in Graviton.
    Arm64,
}

/// Machines that have one launch template and one bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `etcd`, `controller`, or `pool:` and the pool's name: its key in the model.
    pub key: String,
    /// What the machines are for.
    pub role: Role,
    /// The pool's name, for workers.
    pub pool: Option<String>,
    /// Their stack.
    pub stack: String,
    /// Their processor.
    pub arch: Arch,
    /// Their operating system.
    pub os: Os,
}

impl Group {
    /// Returns the folder below `nodes/` and the first part of S3 keys: `etcd`, `pool-general`.
    #[must_use]
    pub fn folder(&self) -> String {
        self.key.replace(':', "-")
    }

    /// Returns the name that people read: `prod-general`, `prod-controller`.
    #[must_use]
    pub fn label(&self) -> &str {
        self.pool.as_deref().unwrap_or(self.role.as_ref())
    }
}

/// Returns all groups of a cluster: etcd, the controllers, then the pools by name.
#[must_use]
pub fn groups(cluster: &Cluster) -> Vec<Group> {
    let core = |role: Role, stack: &str, kind: &str, os: Os| Group {
        key: role.as_ref().to_owned(),
        role,
        pool: None,
        stack: stack.to_owned(),
        arch: instance_arch(kind),
        os,
    };
    let etcd = &cluster.etcd;
    let control_plane = &cluster.control_plane;
    let mut all = vec![
        core(Role::Etcd, "etcd", &etcd.instance_type, etcd.image.os),
        core(
            Role::Controller,
            "control-plane",
            &control_plane.instance_type,
            control_plane.image.os,
        ),
    ];
    all.extend(cluster.node_pools.iter().map(|(name, pool)| {
        Group {
            key: format!("pool:{name}"),
            role: Role::Worker,
            pool: Some(name.clone()),
            stack: format!("pool-{name}"),
            arch: pool
                .architecture
                .unwrap_or_else(|| instance_arch(pool.instance_types.first().map_or("", |t| t))),
            os: pool.image.os,
        }
    }));
    all
}

/// Returns the architecture of an instance type.
///
/// AWS names Graviton families with a `g` behind the generation (`m7g`, `c7gn`, `im4gn`), and `a1`.
#[must_use]
pub fn instance_arch(instance_type: &str) -> Arch {
    let family = instance_type.split('.').next().unwrap_or_default();
    let behind = family
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .trim_start_matches(|c: char| c.is_ascii_digit());
    if family == "a1" || behind.starts_with('g') { Arch::Arm64 } else { Arch::Amd64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graviton_is_told_by_its_name() {
        for arm in [
            "m7g.large",
            "c7gn.xlarge",
            "t4g.nano",
            "im4gn.large",
            "is4gen.large",
            "g5g.xlarge",
            "a1.large",
        ] {
            assert_eq!(instance_arch(arm), Arch::Arm64, "{arm}");
        }
        for amd in [
            "m7i.large",
            "g5.xlarge",
            "g4dn.xlarge",
            "c6a.large",
            "p4d.24xlarge",
            "u-6tb1.56xlarge",
        ] {
            assert_eq!(instance_arch(amd), Arch::Amd64, "{amd}");
        }
    }
}
