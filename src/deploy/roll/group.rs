//! One group: which machines are taken next, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;

use super::drain::{Left, drain};
use super::state::{GroupRoll, RollState};
use super::{Rolling, step};
use crate::deploy::error::Error;
use crate::deploy::reports;
use crate::deploy::watch::Progress;
use crate::port::{Answer, ErrorKind, Machine};

/// The group whose machines are no nodes.
const ETCD: &str = "etcd";

/// A group as it is now.
#[derive(Debug, Default)]
struct Look {
    /// How many machines it is to have.
    desired: usize,
    /// Those it has, but for those that leave.
    there: BTreeMap<String, Machine>,
    /// Those that do their work.
    whole: BTreeSet<String>,
    /// Why others do not.
    why: BTreeMap<String, String>,
}

impl Look {
    /// How many machines are missing, those included that are being replaced.
    fn missing(&self, taken: &BTreeSet<String>) -> usize {
        self.desired.saturating_sub(self.whole.difference(taken).count())
    }

    /// The machines that may be taken now: broken ones first, which nobody misses more than before, then so many that
    /// no more than a batch is missing. No more are taken than a batch, those counted that are still coming up.
    fn next(
        &self,
        group: &GroupRoll,
        taken: &BTreeSet<String>,
        broken: &BTreeSet<String>,
        by_zone: bool,
    ) -> Vec<Machine> {
        let wanted = |m: &&Machine| group.todo.contains(&m.id) && !taken.contains(&m.id);
        let left: Vec<&Machine> = self.there.values().filter(wanted).collect();
        let zone = by_zone.then(|| self.zone(&left, taken)).flatten();
        let here = left.into_iter().filter(|m| zone.as_ref().is_none_or(|zone| m.zone == *zone));
        let (whole, others): (Vec<&Machine>, Vec<&Machine>) =
            here.partition(|m| self.whole.contains(&m.id));
        let room = group.batch.saturating_sub(taken.len() + self.coming(&group.todo));
        let slots = group.batch.saturating_sub(self.missing(taken));
        let next = others.into_iter().filter(|m| broken.contains(&m.id)).take(room);
        let next: Vec<Machine> = next.cloned().collect();
        let more = whole.into_iter().take(slots.min(room - next.len()));
        next.iter().chain(more).cloned().collect()
    }

    /// How many new machines are still coming up, or not there yet.
    fn coming(&self, todo: &BTreeSet<String>) -> usize {
        let new = |id: &&String| !todo.contains(*id) && !self.whole.contains(*id);
        self.desired.saturating_sub(self.there.len()) + self.there.keys().filter(new).count()
    }

    /// The zone that machines are taken from: that of those under way, or the first that has some left, once nothing is
    /// missing.
    fn zone(&self, left: &[&Machine], taken: &BTreeSet<String>) -> Option<String> {
        let under_way = taken.iter().find_map(|id| self.there.get(id)).map(|m| m.zone.clone());
        under_way.or_else(|| left.iter().map(|m| m.zone.clone()).min())
    }
}

impl Rolling<'_> {
    /// Replaces the machines of a group; says in words what was done.
    pub(in crate::deploy) async fn group(&self, group: &GroupRoll) -> Result<String, Error> {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut under_way = FuturesUnordered::new();
        let mut failed: Option<Error> = None;
        let mut quiet = Quiet::default();
        let mut gated = false;
        let mut since: BTreeMap<String, Instant> = BTreeMap::new();
        loop {
            let now = match self.look(group).await {
                Ok(now) => now,
                // Who is replaced may be who answers: it is asked again, for as long as a machine may take.
                Err(error) if passes(&error) && failed.is_none() => {
                    quiet.check(self.pace.ready).map_err(|()| error)?;
                    self.wait(&mut under_way, &mut taken, &mut failed).await;
                    continue;
                }
                Err(error) => {
                    failed.get_or_insert(error);
                    if under_way.is_empty() {
                        return Err(failed.expect("it was just set"));
                    }
                    self.wait(&mut under_way, &mut taken, &mut failed).await;
                    continue;
                }
            };
            let broken = now.broken(&mut since);
            let left = group.todo.iter().filter(|id| now.there.contains_key(*id)).count();
            if under_way.is_empty() {
                if let Some(error) = failed {
                    return Err(error);
                }
                if self.is_stopping().await? && left > 0 {
                    return Err(Error::Paused { group: group.folder.clone(), left });
                }
                if left == 0 && now.missing(&taken) == 0 {
                    self.gated().await?;
                    return Ok(format!("{} replaced", group.todo.len()));
                }
            }
            let mut next = now.next(group, &taken, &broken, self.pace.by_zone);
            let stop = failed.is_some() || self.is_stopping().await?;
            // A zone is left, and a batch begun, only when everybody is back and all checks hold.
            let between = under_way.is_empty() && now.missing(&taken) == 0;
            if !stop && between && !next.is_empty() && !gated {
                self.gated().await?;
                gated = true;
                continue;
            }
            // While something is missing checks need not hold: what is broken may be why.
            next.retain(|machine| gated || broken.contains(&machine.id));
            if !stop && !next.is_empty() {
                quiet.reset();
                for machine in next {
                    taken.insert(machine.id.clone());
                    let whole = now.whole.contains(&machine.id);
                    under_way.push(async move {
                        let outcome = self.replace(group, &machine, whole).await;
                        (machine.id, outcome)
                    });
                }
                gated = false;
            } else if under_way.is_empty() {
                quiet.check(self.pace.ready).map_err(|()| not_whole(group, &now))?;
            }
            if self.wait(&mut under_way, &mut taken, &mut failed).await {
                quiet.reset();
            }
        }
    }

    /// Waits until a machine is replaced, or for a moment; says whether one was.
    async fn wait<F>(
        &self,
        under_way: &mut FuturesUnordered<F>,
        taken: &mut BTreeSet<String>,
        failed: &mut Option<Error>,
    ) -> bool
    where
        F: Future<Output = (String, Result<(), Error>)>,
    {
        tokio::select! {
            Some((id, outcome)) = under_way.next(), if !under_way.is_empty() => {
                taken.remove(&id);
                if let Err(error) = outcome {
                    failed.get_or_insert(error);
                }
                true
            }
            () = tokio::time::sleep(self.pace.look()) => false,
        }
    }

    /// Whether to take no more machines.
    async fn is_stopping(&self) -> Answer<bool> {
        if self.watcher.stopping() {
            return Ok(true);
        }
        match RollState::load(self.cloud, &self.tree.cluster.bucket).await {
            // Somebody gave it up.
            Ok(state) => Ok(state.map_or(self.remembered, |state| state.paused)),
            Err(error) if error.kind == ErrorKind::Unavailable => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Looks at a group: its machines, and which of them do their work.
    async fn look(&self, group: &GroupRoll) -> Result<Look, Error> {
        let mut look = Look::default();
        for scaling in self.cloud.scaling_groups(&group.names).await? {
            look.desired += scaling.desired;
            let staying = scaling.machines.into_iter().filter(|m| !m.is_leaving());
            look.there.extend(staying.map(|m| (m.id.clone(), m)));
        }
        let working = self.working(group).await?;
        for (id, machine) in &look.there {
            match working.get(id) {
                _ if !machine.in_service() => {
                    look.why.insert(id.clone(), format!("it is {}", machine.state));
                }
                Some(None) => {
                    look.whole.insert(id.clone());
                }
                Some(Some(why)) => {
                    look.why.insert(id.clone(), why.clone());
                }
                // An old member of etcd that has said nothing for long is no broken one.
                None if group.folder == ETCD && group.todo.contains(id) => {
                    look.whole.insert(id.clone());
                }
                None => {
                    look.why.insert(id.clone(), "nothing has been heard of it".to_owned());
                }
            }
        }
        Ok(look)
    }

    /// Which machines work, and why others do not, as far as anything is known of them: nodes as the API server knows
    /// them, members of etcd as they say themselves.
    async fn working(&self, group: &GroupRoll) -> Result<BTreeMap<String, Option<String>>, Error> {
        if group.folder != ETCD {
            let nodes = self.cluster.nodes().await?;
            let why = |node: &crate::port::Node| (!node.ready).then(|| node.why.clone());
            return Ok(nodes.into_iter().map(|node| (node.name.clone(), why(&node))).collect());
        }
        let said = reports::all(self.cloud, &self.tree.cluster.bucket, ETCD).await?;
        let why = |r: &reports::Report| (r.state != "healthy").then(|| r.message.clone());
        Ok(said.into_iter().map(|report| (report.instance.clone(), why(&report))).collect())
    }

    /// Drains one machine, ends it, and waits until it is gone.
    async fn replace(
        &self,
        group: &GroupRoll,
        machine: &Machine,
        whole: bool,
    ) -> Result<(), Error> {
        let say = |status: String| {
            self.watcher.on(Progress::Detail {
                step: step(&group.folder),
                subject: machine.id.clone(),
                status,
                reason: None,
            });
        };
        // What a broken node runs is lost already, and its kubelet would let no pod go.
        if whole && group.folder != ETCD {
            let within = Duration::from_secs(self.pace.drain);
            let last = std::sync::Mutex::new(None);
            let told = |left: Left| {
                let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if last.replace(left) != Some(left) {
                    say(format!("draining, {} of {} pods left", left.pods, left.of));
                }
            };
            let look = self.pace.look();
            drain(self.cluster, &machine.id, within, look, self.pace.unmanaged, &told).await?;
        }
        say("is ended".to_owned());
        self.cloud.terminate(&machine.id).await?;
        let mut quiet = Quiet::default();
        loop {
            match self.look(group).await {
                Ok(now) if !now.there.contains_key(&machine.id) => break,
                Err(error) if !passes(&error) => return Err(error),
                _ => {}
            }
            let stays = || Error::Stays { machine: machine.id.clone() };
            quiet.check(self.pace.ready).map_err(|()| stays())?;
            tokio::time::sleep(self.pace.look()).await;
        }
        say("is gone".to_owned());
        Ok(())
    }

    /// Waits until all checks hold.
    async fn gated(&self) -> Result<(), Error> {
        let mut quiet = Quiet::default();
        loop {
            let failing = match self.gate.failing().await {
                Err(error) if passes(&error) => vec![error.to_string()],
                other => other?,
            };
            if failing.is_empty() {
                return Ok(());
            }
            if self.watcher.stopping() {
                return Err(Error::Interrupted);
            }
            quiet.check(self.pace.gate).map_err(|()| Error::Gate(failing))?;
            tokio::time::sleep(self.pace.look()).await;
        }
    }
}

/// So long a machine must have been broken until it is taken for broken: a moment without a word is none.
const BROKEN: Duration = Duration::from_secs(120);

impl Look {
    /// The machines that have been broken for a while; `since` remembers since when.
    fn broken(&self, since: &mut BTreeMap<String, Instant>) -> BTreeSet<String> {
        since.retain(|id, _| self.why.contains_key(id));
        for id in self.why.keys() {
            since.entry(id.clone()).or_insert_with(Instant::now);
        }
        since.iter().filter(|(_, at)| at.elapsed() >= BROKEN).map(|(id, _)| id.clone()).collect()
    }
}

/// Whether it may be over in a moment.
fn passes(error: &Error) -> bool {
    match error {
        Error::Cloud(error) => error.kind == ErrorKind::Unavailable,
        Error::Unreachable(_) => true,
        _ => false,
    }
}

fn not_whole(group: &GroupRoll, now: &Look) -> Error {
    let missing = now.missing(&BTreeSet::new());
    let why = now.why.iter().map(|(id, why)| format!("{id}: {why}")).collect();
    Error::NotWhole { group: group.folder.clone(), missing, why }
}

/// How long nothing has happened.
#[derive(Debug, Default)]
struct Quiet(Option<Instant>);

impl Quiet {
    fn reset(&mut self) {
        self.0 = None;
    }

    /// Fails once nothing has happened for so many seconds.
    fn check(&mut self, seconds: u64) -> Result<(), ()> {
        let since = *self.0.get_or_insert_with(Instant::now);
        if since.elapsed() < Duration::from_secs(seconds) { Ok(()) } else { Err(()) }
    }
}
