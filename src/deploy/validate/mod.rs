//! The validate stage: all checks of the running cluster at once, kaws's own and those of plugins. Only reads.
//!
//! What is looked at is gathered first (`seen`); a check is then a function of that. Not here: waiting until checks
//! pass, and printing (`cli`).

mod declared;
mod machines;
mod nodes;
mod seen;

pub(super) use declared::unmet;

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::Error;
use super::tree::Tree;
use crate::finding::{Finding, Severity};
use crate::origin::Origin;
use crate::port::{Cloud, Cluster, Programs, Web};

/// What checks may look at.
pub struct Asked<'a> {
    /// The cloud.
    pub cloud: &'a dyn Cloud,
    /// The web.
    pub web: &'a dyn Web,
    /// The cluster, or why it cannot be asked.
    pub cluster: Result<&'a dyn Cluster, String>,
    /// What is deployed.
    pub tree: &'a Tree,
    /// What runs programs of plugins.
    pub programs: &'a dyn Programs,
    /// Where plugins' checks are written.
    pub origins: &'a BTreeMap<String, Origin>,
    /// How many workers may be missing.
    pub tolerated: usize,
    /// Seconds since 1970.
    pub now: u64,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not hold, which is no reason to stop.
    Warned,
    /// It does not hold.
    Failed,
    /// Nobody could look.
    Unknown,
}

/// A check, and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Its name: the plugin's, and its own.
    pub check: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was seen, in a few words.
    pub note: String,
    /// What does not hold.
    pub findings: Vec<Finding>,
    /// How long after a deployment it may take until it holds, in seconds.
    pub within: u64,
}

/// How long a check may take that does not say.
const WITHIN: u64 = 600;

impl Checked {
    /// Returns a check that was looked at: it holds where nothing was found.
    fn looked(check: &str, note: impl Into<String>, findings: Vec<Finding>) -> Self {
        let verdict = match findings.iter().map(|f| f.severity).max() {
            None => Verdict::Passed,
            Some(Severity::Warning) => Verdict::Warned,
            Some(Severity::Fatal) => Verdict::Failed,
        };
        Self { check: check.to_owned(), verdict, note: note.into(), findings, within: WITHIN }
    }

    /// Returns a check that nobody could look at.
    fn unknown(check: &str, why: impl Into<String>) -> Self {
        let (check, note) = (check.to_owned(), why.into());
        Self { check, verdict: Verdict::Unknown, note, findings: Vec::new(), within: WITHIN }
    }
}

/// Runs all checks; returns them sorted by name.
///
/// # Errors
/// The cloud's, where not even the stacks can be read.
pub async fn validate(asked: &Asked<'_>) -> Result<Vec<Checked>, Error> {
    let seen = seen::Seen::gather(asked).await?;
    let mut all = vec![machines::stacks(asked, &seen)];
    if !asked.cloud.is_local() {
        all.extend(machines::machines(&seen));
        all.push(machines::current(&seen));
        all.push(machines::targets(&seen));
        all.push(machines::addons(&seen));
        all.push(machines::backups(asked, &seen));
        all.extend(machines::domain(asked).await);
        all.push(nodes::api_server(&seen));
        all.push(nodes::joined(asked, &seen));
        all.push(nodes::versions(&seen));
        all.push(nodes::control_plane(&seen));
        all.push(nodes::critical_pods(&seen));
        all.push(nodes::releases(asked, &seen));
    }
    let own = asked.tree.checks.iter();
    let own = own.map(|(name, check)| declared::run(asked, &seen, name, check));
    all.extend(futures_util::future::join_all(own).await);
    all.sort_by(|a, b| a.check.cmp(&b.check));
    Ok(all)
}
