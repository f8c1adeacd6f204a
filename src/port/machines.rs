//! Machines, as Auto Scaling knows them.

use std::collections::BTreeMap;

/// An Auto Scaling group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalingGroup {
    /// Its name.
    pub name: String,
    /// How many machines it is to have.
    pub desired: usize,
    /// Those it has.
    pub machines: Vec<Machine>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// A machine of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// Where it is in its life: `InService`, `Terminating:Wait`.
    pub state: String,
    /// Whether Auto Scaling takes it for healthy.
    pub healthy: bool,
    /// Whether it was made from what the group makes machines from now.
    pub current: bool,
}

impl Machine {
    /// Returns whether it does its work, as far as Auto Scaling knows.
    #[must_use]
    pub fn in_service(&self) -> bool {
        self.state == "InService" && self.healthy
    }

    /// Returns whether it is on its way out.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.state.starts_with("Terminat") || self.state.starts_with("Detach")
    }
}
