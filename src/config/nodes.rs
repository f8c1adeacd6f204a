//! The `etcd:`, `controlPlane:` and `nodePools:` parts of `cluster.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arch, Duration, PoolPlugin, Size};

/// The machines that keep the cluster's state.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "etcd")]
pub struct Etcd {
    /// Number of members: 1, 3 or 5.
    #[serde(default = "three")]
    pub members: u32,
    /// Type of their machines.
    #[serde(default = "default_etcd_type")]
    #[schemars(regex(pattern = "^[a-z0-9-]+\\.[a-z0-9-]+$"))]
    pub instance_type: String,
    /// The volume of each member. It outlives its machine, and is kept when the stack goes.
    #[serde(default = "default_etcd_volume")]
    pub volume: Volume,
    /// Snapshots into the state bucket.
    #[serde(default)]
    pub backup: Backup,
    /// A snapshot that the members make their data anew from; `kaws etcd restore` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restore>,
    /// The machines' operating system.
    #[serde(default)]
    pub image: Image,
    /// How long a new member may take until it says that it is healthy.
    #[serde(default = "fifteen_minutes")]
    pub timeout: Duration,
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            members: three(),
            instance_type: default_etcd_type(),
            volume: default_etcd_volume(),
            backup: Backup::default(),
            restore: None,
            image: Image::default(),
            timeout: fifteen_minutes(),
        }
    }
}

/// Snapshots of etcd.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "etcd.backup")]
pub struct Backup {
    /// How often one is made.
    #[serde(default = "one_hour")]
    pub every: Duration,
    /// How long one is kept.
    #[serde(default = "thirty_days")]
    #[schemars(regex(pattern = "^[1-9][0-9]{0,3}d$"))]
    pub keep: Duration,
}

impl Default for Backup {
    fn default() -> Self {
        Self { every: one_hour(), keep: thirty_days() }
    }
}

/// A snapshot to make etcd's data anew from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "etcd.restore")]
pub struct Restore {
    /// Which restore it is, counted from 1: members that have done it do not do it again.
    #[schemars(range(min = 1, max = 9999))]
    pub generation: u32,
    /// The snapshot's key in the state bucket: `backups/etcd/….db`.
    #[schemars(regex(pattern = "^backups/etcd/[^/ ]+\\.db$"))]
    pub snapshot: String,
}

/// The machines that run the control plane.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "controlPlane")]
pub struct ControlPlane {
    /// Number of machines, from 1 to 9.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 9))]
    pub count: u32,
    /// Type of the machines.
    #[serde(default = "default_controller_type")]
    #[schemars(regex(pattern = "^[a-z0-9-]+\\.[a-z0-9-]+$"))]
    pub instance_type: String,
    /// The volume of each machine; it goes with the machine.
    #[serde(default = "default_root_volume")]
    pub root_volume: Volume,
    /// The machines' operating system.
    #[serde(default)]
    pub image: Image,
    /// How long a new machine may take until it says that it is healthy.
    #[serde(default = "thirty_minutes")]
    pub timeout: Duration,
}

impl Default for ControlPlane {
    fn default() -> Self {
        Self {
            count: three(),
            instance_type: default_controller_type(),
            root_volume: default_root_volume(),
            image: Image::default(),
            timeout: thirty_minutes(),
        }
    }
}

/// A named group of workers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a node pool")]
pub struct NodePool {
    /// Types of the machines; of several, AWS takes what it has. All of one architecture.
    #[schemars(length(min = 1, max = 40), inner(regex(pattern = "^[a-z0-9-]+\\.[a-z0-9-]+$")))]
    pub instance_types: Vec<String>,
    /// Number of machines.
    #[serde(default)]
    pub size: PoolSize,
    /// Zones the pool is in; by default all of the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub zones: Option<Vec<String>>,
    /// Labels of the nodes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes, by key.
    #[serde(default)]
    pub taints: BTreeMap<String, Taint>,
    /// Spot machines: how many are on demand none the less. Without it all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<Spot>,
    /// How changed nodes replace the old ones.
    #[serde(default)]
    pub roll: Roll,
    /// The volume of each machine; it goes with the machine.
    #[serde(default = "default_root_volume")]
    pub root_volume: Volume,
    /// The machines' operating system.
    #[serde(default)]
    pub image: Image,
    /// Processor; by default that of the instance types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Arch>,
    /// How long a new machine may take until it says that it is healthy.
    #[serde(default = "twenty_minutes")]
    pub timeout: Duration,
    /// Whether the cluster autoscaler may change the number of machines.
    #[serde(default = "super::yes")]
    pub autoscale: bool,
    /// Tags of this pool's machines, beside the cluster's.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Settings of plugins for this pool's nodes.
    #[serde(default)]
    pub plugins: BTreeMap<String, PoolPlugin>,
}

/// Number of machines of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a pool's size")]
pub struct PoolSize {
    /// Fewest; also how many must come up when the pool is created.
    #[serde(default = "one")]
    #[schemars(range(max = 5000))]
    pub min: u32,
    /// Most.
    #[serde(default = "three")]
    #[schemars(range(max = 5000))]
    pub max: u32,
}

impl Default for PoolSize {
    fn default() -> Self {
        Self { min: 1, max: 3 }
    }
}

/// A taint, without its key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a taint")]
pub struct Taint {
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What happens to pods that do not tolerate it.
    pub effect: Effect,
}

/// What a taint does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::AsRefStr,
)]
#[schemars(inline)]
pub enum Effect {
    /// They are not scheduled there.
    NoSchedule,
    /// They are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// They are evicted.
    NoExecute,
}

/// Spot machines of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "spot")]
pub struct Spot {
    /// This many machines are on demand.
    #[serde(default)]
    pub on_demand_base: u32,
    /// And this share of the others, in percent.
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub on_demand_percentage: u32,
    /// How AWS chooses among the types.
    #[serde(default)]
    pub strategy: SpotStrategy,
}

/// How AWS chooses among types of spot machines.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::AsRefStr,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[strum(serialize_all = "kebab-case")]
pub enum SpotStrategy {
    /// By price and by the chance of interruption.
    #[default]
    PriceCapacityOptimized,
    /// By the chance of interruption.
    CapacityOptimized,
    /// By price.
    LowestPrice,
}

/// How changed nodes replace the old ones.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "roll")]
pub struct Roll {
    /// How many at a time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub batch: u32,
    /// Who does it: CloudFormation while it updates the stack, or kaws in a step of its own.
    #[serde(default)]
    pub by: RollBy,
}

impl Default for Roll {
    fn default() -> Self {
        Self { batch: 1, by: RollBy::Cloudformation }
    }
}

/// Who rolls a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum RollBy {
    /// CloudFormation, while it updates the stack.
    #[default]
    Cloudformation,
    /// kaws: the group has no update policy.
    Kaws,
}

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a volume")]
pub struct Volume {
    /// Its size, as 50GiB.
    #[serde(default = "fifty_gib")]
    pub size: Size,
    /// Its type.
    #[serde(default, rename = "type")]
    pub kind: VolumeType,
    /// Operations a second; by default what the type gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3000, max = 64000))]
    pub iops: Option<u32>,
    /// MiB a second, for gp3; by default what the type gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 125, max = 1000))]
    pub throughput: Option<u32>,
}

/// Types of volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum VolumeType {
    /// General purpose.
    #[default]
    Gp3,
    /// Provisioned operations; needs `iops`.
    Io2,
}

/// A machine's operating system.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an image")]
pub struct Image {
    /// The system; kaws.lock pins its image.
    #[serde(default)]
    pub os: Os,
    /// Id of an image of your own, with the same system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^ami-[0-9a-f]{8,17}$"))]
    pub id: Option<String>,
}

/// Operating systems.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::AsRefStr,
)]
#[schemars(inline)]
pub enum Os {
    /// Ubuntu 24.04.
    #[default]
    #[serde(rename = "ubuntu-24.04")]
    #[strum(serialize = "ubuntu-24.04")]
    Ubuntu2404,
    /// Debian 13.
    #[serde(rename = "debian-13")]
    #[strum(serialize = "debian-13")]
    Debian13,
    /// Amazon Linux 2023.
    #[serde(rename = "al2023")]
    #[strum(serialize = "al2023")]
    Al2023,
    /// Flatcar Container Linux. It publishes no parameter for its images: `image.id` names one.
    #[serde(rename = "flatcar")]
    #[strum(serialize = "flatcar")]
    Flatcar,
}

impl Os {
    /// Returns the device of the root volume.
    #[must_use]
    pub fn root_device(self) -> &'static str {
        match self {
            Self::Ubuntu2404 => "/dev/sda1",
            Self::Debian13 | Self::Al2023 | Self::Flatcar => "/dev/xvda",
        }
    }

    /// Returns whether its user data is Ignition's, and not cloud-init's.
    #[must_use]
    pub fn ignites(self) -> bool {
        self == Self::Flatcar
    }

    /// Returns the public SSM parameter that names the newest image, as each vendor documents it.
    #[must_use]
    pub fn image_parameter(self, arch: Arch) -> Option<String> {
        Some(match self {
            Self::Flatcar => return None,
            Self::Ubuntu2404 => format!(
                "/aws/service/canonical/ubuntu/server/24.04/stable/current/{}/hvm/ebs-gp3/ami-id",
                arch.as_ref()
            ),
            Self::Debian13 => format!("/aws/service/debian/release/13/latest/{}", arch.as_ref()),
            Self::Al2023 => {
                let arch = if arch == Arch::Amd64 { "x86_64" } else { "arm64" };
                format!("/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{arch}")
            }
        })
    }
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn default_etcd_type() -> String {
    "m7i.large".to_owned()
}

fn default_controller_type() -> String {
    "m7i.large".to_owned()
}

fn fifty_gib() -> Size {
    Size("50GiB".to_owned())
}

fn default_root_volume() -> Volume {
    Volume { size: fifty_gib(), kind: VolumeType::Gp3, iops: None, throughput: None }
}

fn default_etcd_volume() -> Volume {
    default_root_volume()
}

fn one_hour() -> Duration {
    Duration("1h".to_owned())
}

fn thirty_days() -> Duration {
    Duration("30d".to_owned())
}

fn fifteen_minutes() -> Duration {
    Duration("15m".to_owned())
}

fn twenty_minutes() -> Duration {
    Duration("20m".to_owned())
}

fn thirty_minutes() -> Duration {
    Duration("30m".to_owned())
}
