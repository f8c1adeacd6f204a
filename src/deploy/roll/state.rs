//! What is remembered of a roll that is not over: an object in the state bucket, by which another process pauses it and
//! whoever comes later goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::port::{Answer, Cloud, When};

const KEY: &str = "kaws/roll.json";

/// A roll that is not over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollState {
    /// Since when, in UTC.
    pub since: String,
    /// Who began it.
    pub who: String,
    /// Whether to begin nothing new.
    pub paused: bool,
    /// The groups, in order.
    pub groups: Vec<GroupRoll>,
    /// How fast.
    pub pace: Pace,
}

/// A group that is rolled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRoll {
    /// The folder of its machines below `nodes/`.
    pub folder: String,
    /// Its Auto Scaling groups: one, but for etcd, where each member has its own.
    pub names: Vec<String>,
    /// The machines to replace; those that are gone are done.
    pub todo: BTreeSet<String>,
    /// How many at a time.
    pub batch: usize,
}

/// How fast machines are replaced; times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// Whether only machines of one zone are taken at a time.
    pub by_zone: bool,
    /// How long a drain may take.
    pub drain: u64,
    /// How long a new machine may take until it is ready.
    pub ready: u64,
    /// How long checks may take until they hold.
    pub gate: u64,
    /// How often everything is looked at.
    pub look: u64,
    /// Whether pods go too that nobody makes anew.
    pub unmanaged: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { by_zone: false, drain: 900, ready: 1_800, gate: 900, look: 5, unmanaged: false }
    }
}

impl Pace {
    /// How long to wait before everything is looked at again.
    pub(super) fn look(self) -> Duration {
        Duration::from_secs(self.look)
    }
}

impl RollState {
    /// Returns the roll that is not over, if there is one.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn load(cloud: &dyn Cloud, bucket: &str) -> Answer<Option<Self>> {
        let object = cloud.get(bucket, KEY).await?;
        Ok(object.and_then(|object| serde_json::from_slice(&object.bytes).ok()))
    }

    /// Remembers it.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn store(&self, cloud: &dyn Cloud, bucket: &str) -> Answer<()> {
        let text = serde_json::to_vec(self).expect("it has text keys");
        cloud.put(bucket, KEY, text, When::Always).await.map(|_| ())
    }

    /// Lets the roll that is under way take no more machines; says whether there was one.
    ///
    /// # Errors
    /// The cloud's; a conflict where it came to its end in this very moment.
    pub async fn pause(cloud: &dyn Cloud, bucket: &str) -> Answer<bool> {
        let Some(object) = cloud.get(bucket, KEY).await? else { return Ok(false) };
        let Ok(state) = serde_json::from_slice::<Self>(&object.bytes) else { return Ok(false) };
        let paused = serde_json::to_vec(&Self { paused: true, ..state }).expect("it has text keys");
        cloud.put(bucket, KEY, paused, When::Is(object.etag)).await?;
        Ok(true)
    }

    /// Forgets it.
    ///
    /// # Errors
    /// The cloud's.
    pub async fn clear(cloud: &dyn Cloud, bucket: &str) -> Answer<()> {
        cloud.delete(bucket, KEY, When::Always).await
    }
}
