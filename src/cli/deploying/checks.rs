//! Checks of the running cluster: run until they hold, and shown.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::granted::PluginPrograms;
use super::{Reach, Session, clock, fail};
use crate::cli::report::{findings_json, say, say_findings, say_line};
use crate::cli::{Common, Exit, Output};
use crate::deploy::{
    Asked, Checked, Error, Gate, Running, Tree, Verdict, former, recorded, validate,
};
use crate::finding::Findings;
use crate::origin::Origin;
use crate::port::Cluster;
use crate::web::Http;

/// How long, and how often, checks are run.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Patience {
    /// How long they may take until they hold.
    pub wait: Wait,
    /// How often they must hold, one time after the other.
    pub count: u32,
    /// How long to wait before they are run again.
    pub interval: Duration,
    /// How many workers may be missing.
    pub tolerated: usize,
}

/// How long checks may take until they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Wait {
    /// They are looked at once.
    Not,
    /// So long.
    For(Duration),
    /// Each as long as it says itself.
    AsTheySay,
}

/// What the checks said last, and whom they asked.
pub(in crate::cli) struct Seen {
    pub all: Vec<Checked>,
    whom: String,
    /// Whether they held as often as was asked for.
    steady: bool,
}

/// What must hold while machines are replaced.
pub(in crate::cli) struct Holding<'a> {
    pub session: &'a Session,
    pub reach: &'a Reach<'a>,
    /// What must hold; by default what was deployed last.
    pub tree: Option<&'a Tree>,
}

/// Checks that may be unknown, and machines replaced all the same: they ask others than the API server.
const MAY_BE_UNKNOWN: [&str; 3] = ["etcd-members/snapshots", "helm/addons", "network/targets"];

#[async_trait]
impl Gate for Holding<'_> {
    async fn failing(&self) -> Result<Vec<String>, Error> {
        // A report may be of before the last machine was ended: only the API server itself counts.
        let cluster = self.reach.api_server().await;
        let seen = look(self.session, cluster, &Http::default(), 0, self.tree).await?;
        let unknown = |c: &Checked| {
            c.verdict == Verdict::Unknown && !MAY_BE_UNKNOWN.contains(&c.check.as_str())
        };
        let failed = seen.all.iter().filter(|c| c.verdict == Verdict::Failed || unknown(c));
        Ok(failed.map(|c| format!("{} ({})", c.check, c.note)).collect())
    }
}

#[async_trait]
impl Running for Holding<'_> {
    async fn api_server(&self) -> Result<Box<dyn Cluster>, Error> {
        self.reach.api_server().await.map_err(Error::Unreachable)
    }
}

/// Runs the checks until they hold often enough, or the time is over.
pub(in crate::cli) async fn run(
    common: &Common,
    session: &Session,
    reach: &Reach<'_>,
    patience: Patience,
) -> Result<Seen, Exit> {
    let web = Http::default();
    let start = clock();
    let mut held = 0;
    let mut before = String::new();
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    loop {
        let looking =
            async { look(session, reach.cluster().await, &web, patience.tolerated, None).await };
        let seen = tokio::select! {
            seen = looking => seen.map_err(|error| fail(&error))?,
            _ = &mut stop => return Err(Exit::Interrupted),
        };
        held = if seen.fails() { 0 } else { held + 1 };
        if held >= patience.count || seen.are_over(patience.wait, clock() - start) {
            return Ok(Seen { steady: held >= patience.count, ..seen });
        }
        if common.output == Output::Text {
            let now = seen.waits_for(held, patience.count);
            if now != before {
                say_line(&now);
            }
            before = now;
        }
        tokio::select! {
            () = tokio::time::sleep(patience.interval) => {}
            _ = &mut stop => return Err(Exit::Interrupted),
        }
    }
}

async fn look(
    session: &Session,
    cluster: Result<Box<dyn Cluster>, String>,
    web: &Http,
    tolerated: usize,
    tree: Option<&Tree>,
) -> Result<Seen, Error> {
    let cloud = &*session.cloud;
    let whom = match (&cluster, cloud.is_local()) {
        (_, true) => "the local cloud has no machines: only its stacks are looked at".to_owned(),
        (Ok(cluster), _) => match cluster.reported() {
            None => "asked the API server".to_owned(),
            Some(whose) => format!("the API server cannot be reached from here: {whose}"),
        },
        (Err(why), _) => why.clone(),
    };
    let deployed = match tree {
        Some(tree) => Some(tree.clone()),
        None => deployed_tree(session).await?,
    };
    let origins = origins(session);
    let asked = Asked {
        cloud,
        web,
        cluster: cluster.as_deref().map_err(Clone::clone),
        tree: deployed.as_ref().unwrap_or(&session.tree),
        programs: &PluginPrograms(session),
        origins: &origins,
        tolerated,
        now: clock(),
    };
    let all = validate(&asked).await?;
    Ok(Seen { all, whom, steady: true })
}

/// What was deployed last: that is what runs, whatever is rendered by now.
async fn deployed_tree(session: &Session) -> Result<Option<Tree>, Error> {
    let last = recorded(&*session.cloud, &session.tree.cluster.bucket).await?;
    Ok(last.as_ref().and_then(former))
}

/// Where the checks of plugins are written.
fn origins(session: &Session) -> BTreeMap<String, Origin> {
    let checks = session.run.rendered.model.entities(&["checks"]);
    checks.map(|(name, entity)| (name.to_owned(), entity.body.key_origin().clone())).collect()
}

impl Seen {
    /// Whether something does not hold that is a reason to stop, or has not held for long enough.
    pub(in crate::cli) fn fails(&self) -> bool {
        !self.steady || self.all.iter().any(|checked| checked.verdict == Verdict::Failed)
    }

    /// Whether nothing is waited for any longer.
    fn are_over(&self, wait: Wait, waited: u64) -> bool {
        match wait {
            Wait::Not => true,
            Wait::For(longest) => waited >= longest.as_secs(),
            Wait::AsTheySay => {
                self.all.iter().any(|c| c.verdict == Verdict::Failed && waited >= c.within)
            }
        }
    }

    fn findings(&self) -> Findings {
        self.all.iter().flat_map(|checked| checked.findings.clone()).collect()
    }

    fn waits_for(&self, held: u32, count: u32) -> String {
        let failed = self.all.iter().filter(|c| c.verdict == Verdict::Failed);
        let names: Vec<String> = failed.map(|c| format!("{} ({})", c.check, c.note)).collect();
        if names.is_empty() {
            return format!("all hold, {held} of {count} times");
        }
        format!("waiting for {}", names.join(", "))
    }

    /// Shows every check, and what does not hold.
    pub(in crate::cli) fn show(&self, common: &Common, session: &Session) {
        if common.output == Output::Json {
            say(&self.to_json().to_string());
            return;
        }
        let cluster = &session.tree.cluster;
        let local = if session.cloud.is_local() { ", local cloud" } else { "" };
        say(&format!("{}, {}, account {}{local}", cluster.name, cluster.region, cluster.account));
        say(&format!("{}\n", self.whom));
        let width = self.all.iter().map(|c| c.check.len()).max().unwrap_or_default();
        for checked in &self.all {
            let sign = match checked.verdict {
                Verdict::Passed => "✔",
                Verdict::Warned => "!",
                Verdict::Failed => "✘",
                Verdict::Unknown => "?",
            };
            let line = format!("  {sign} {:width$}  {}", checked.check, checked.note);
            let indent = " ".repeat(width + 6);
            let options = textwrap::Options::new(80).subsequent_indent(&indent);
            textwrap::wrap(&line, options).iter().for_each(|line| say(line));
        }
        let findings = self.findings();
        if !findings.is_empty() {
            say("");
            say_findings(&findings, true);
        }
        say(&format!("\n{}", self.summary()));
    }

    fn summary(&self) -> String {
        let count = |verdict| self.all.iter().filter(|c| c.verdict == verdict).count();
        let passed = count(Verdict::Passed);
        let noun = if passed == 1 { "check holds" } else { "checks hold" };
        let mut parts = vec![format!("{passed} {noun}")];
        let others = [
            (Verdict::Failed, if count(Verdict::Failed) == 1 { "does not" } else { "do not" }),
            (Verdict::Warned, if count(Verdict::Warned) == 1 { "warns" } else { "warn" }),
            (Verdict::Unknown, "could not be looked at"),
        ];
        for (verdict, word) in others {
            let found = count(verdict);
            parts.extend((found > 0).then(|| format!("{found} {word}")));
        }
        format!("{}.", parts.join(", "))
    }

    fn to_json(&self) -> Value {
        let row = |checked: &Checked| {
            let findings: Findings = checked.findings.iter().cloned().collect();
            json!({"check": checked.check, "verdict": checked.verdict, "note": checked.note,
                "findings": findings_json(&findings)})
        };
        let rows: Vec<Value> = self.all.iter().map(row).collect();
        json!({"checks": rows, "holds": !self.fails(), "asked": self.whom})
    }
}
