//! One stack: its change set, checked against the plan and executed, or its deletion, followed to the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::assets::template_key;
use super::change_set::more_than;
use super::error::{Error, RootCause};
use super::plan::{DriftFate, Plan};
use super::tree::{Source, Tree, TreeError, TreeStack};
use super::watch::{Progress, Watcher};
use crate::cloudformation::{Fate, interim};
use crate::port::{Body, ChangeSetRequest, Cloud, CloudError, Stack, When};
use crate::value::sha256;

/// The stack that holds the bucket everything else is fetched from: its template goes with the call.
pub(super) const STATE: &str = "state";

/// What deploying stacks needs.
pub(super) struct Stacks<'a> {
    pub cloud: &'a dyn Cloud,
    pub tree: &'a Tree,
    pub plan: &'a Plan,
    pub watcher: &'a dyn Watcher,
    /// Values of entries in kaws.lock.
    pub locked: &'a BTreeMap<String, String>,
    /// The role that CloudFormation works with.
    pub role: Option<&'a str>,
    /// Whether what failed stays as it is, to be looked at.
    pub keep_failed: bool,
    /// Outputs of stacks, as far as they are known.
    pub outputs: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
}

/// So often a stack is looked at without anything happening before its status is believed.
const LOOKS: u32 = 40;
/// Only from here on CloudFormation lets go of resources that it cannot delete.
const DELETE_FAILED: &str = "DELETE_FAILED";

/// Waits until nothing of a cluster is under way, and returns its stacks: an interrupted run may have left
/// something.
///
/// # Errors
/// The cloud's.
pub async fn settle(
    cloud: &dyn Cloud,
    cluster: &str,
    watcher: &dyn Watcher,
) -> Result<Vec<Stack>, Error> {
    let mut told: BTreeSet<(String, String)> = BTreeSet::new();
    loop {
        let all = cloud.stacks(cluster).await?;
        let moving: Vec<&Stack> = all.iter().filter(|s| s.status.is_in_progress()).collect();
        if moving.is_empty() {
            return Ok(all);
        }
        if watcher.stopping() {
            return Err(Error::Interrupted);
        }
        for stack in moving {
            if told.insert((stack.name.clone(), stack.status.to_string())) {
                watcher.on(Progress::Detail {
                    step: "waiting".to_owned(),
                    subject: stack.name.clone(),
                    status: format!("is in {}", stack.status),
                    reason: None,
                });
            }
        }
        tokio::time::sleep(cloud.pause()).await;
    }
}

impl Stacks<'_> {
    /// Brings one stack to what is rendered; returns what was done, in words. What others still use stays
    /// for now.
    pub(super) async fn deploy(&self, short: &str) -> Result<String, Error> {
        let stack = &self.tree.stacks[short];
        let in_two = self.plan.stack(short).is_some_and(|p| !p.drops_after.is_empty());
        if !in_two {
            return self.bring(short, stack, false).await;
        }
        let old = self.cloud.template(&stack.name).await?;
        let text = interim(&old, &stack.text)
            .map_err(|source| TreeError::Template { stack: short.to_owned(), source })?;
        let kept = TreeStack { text: text.into(), ..stack.clone() };
        let (bucket, key) = (&self.tree.cluster.bucket, template_key(&kept));
        self.cloud.put(bucket, &key, kept.text.as_bytes().to_vec(), When::Always).await?;
        self.bring(short, &kept, true).await
    }

    /// The second step: nobody uses any more what the stack drops.
    pub(super) async fn drop_rest(&self, short: &str) -> Result<String, Error> {
        self.bring(short, &self.tree.stacks[short], false).await
    }

    async fn bring(&self, short: &str, stack: &TreeStack, kept: bool) -> Result<String, Error> {
        let mut there = self.settled(short, &stack.name).await?;
        if let Some(left) = there.as_ref().filter(|s| s.status.never_came()) {
            // It never came to be, so nothing in it is worth keeping. A deletion would keep what holds data; only
            // a rollback lets go of that.
            if left.status.as_str() == "CREATE_FAILED" {
                let since = self.cloud.last_event(&stack.name).await?;
                self.cloud.roll_back(&stack.name, self.role).await?;
                self.follow(short, &stack.name, since.as_deref()).await?;
            }
            self.remove(short, &stack.name, &[]).await?;
            there = None;
        }
        let request = self.request(stack, there.as_ref(), kept)?;
        let create = request.create;
        let refused = |error: CloudError| match error.faults.as_slice() {
            [] => Error::from(error),
            faults => Error::Invalid { stack: short.to_owned(), faults: faults.to_vec() },
        };
        let Some(set) = self.cloud.change_set(&request).await.map_err(refused)? else {
            let now = there.ok_or_else(|| self.vanished(short))?;
            self.know(short, &now);
            return self.protected(stack, &now, "no changes".to_owned()).await;
        };
        let more = more_than(self.plan.stack(short), &set);
        if !more.is_empty() {
            self.cloud.discard(&stack.name, &set.name).await?;
            return Err(Error::MoreThanPlan { stack: short.to_owned(), more });
        }
        let since = self.cloud.last_event(&stack.name).await?;
        let goes = super::policy::policy(stack, self.plan.stack(short));
        let stays = super::policy::policy(stack, None);
        if let (false, Some(goes)) = (create, &goes) {
            self.cloud.set_policy(&stack.name, goes).await?;
        }
        self.cloud.execute(&stack.name, &set.name).await?;
        let now = self.follow(short, &stack.name, since.as_deref()).await?;
        let now = now.ok_or_else(|| self.vanished(short))?;
        let closed = match stays.filter(|stays| create || goes.as_ref() != Some(stays)) {
            Some(stays) => self.cloud.set_policy(&stack.name, &stays).await,
            None => Ok(()),
        };
        // Why the stack failed is worth more than that its policy could not be set.
        if !now.status.is_done() {
            return Err(self.failure(short, &now, since.as_deref()).await?);
        }
        closed?;
        self.know(short, &now);
        let count = set.changes.len();
        let noun = if count == 1 { "resource" } else { "resources" };
        let verb = if create { "made" } else { "changed" };
        self.protected(stack, &now, format!("{count} {noun} {verb}")).await
    }

    /// Deletes a stack that is no longer rendered, or all of it that can go. What is in `retain` stays if it
    /// cannot be deleted: CloudFormation lets go of a resource only after that was tried.
    pub(super) async fn remove(
        &self,
        short: &str,
        name: &str,
        retain: &[String],
    ) -> Result<String, Error> {
        let Some(stack) = self.settled(short, name).await? else {
            return Ok("is gone".to_owned());
        };
        if stack.protected {
            self.cloud.protect(name, false).await?;
        }
        let mut tried = stack.status.as_str() == DELETE_FAILED;
        loop {
            let since = self.cloud.last_event(&stack.id).await?;
            let stays = if tried { retain } else { &[] };
            self.cloud.delete_stack(name, stays, self.role).await?;
            let Some(left) = self.follow(short, &stack.id, since.as_deref()).await? else {
                return Ok(match stays {
                    [] => "removed".to_owned(),
                    stays => format!("removed, but for {}", stays.join(", ")),
                });
            };
            if tried || retain.is_empty() || left.status.as_str() != DELETE_FAILED {
                return Err(self.failure(short, &left, since.as_deref()).await?);
            }
            tried = true;
        }
    }

    /// Returns why what was under way since the event `since` did not come to a good end.
    pub(super) async fn failure(
        &self,
        short: &str,
        stack: &Stack,
        since: Option<&str>,
    ) -> Result<Error, Error> {
        let history = self.cloud.events(&stack.id, since).await?;
        let mut cause = RootCause::of(short, stack.status.as_str(), &history);
        let began = history.last().map_or("", |event| event.time.as_str());
        if let Some(stack) = self.tree.stacks.get(short) {
            // What CloudFormation says is worth telling even where the machines' words cannot be read.
            match super::reports::failed(self.cloud, self.tree, stack, began).await {
                Ok(reports) => cause.reports = reports,
                Err(error) => cause.unread = Some(error.to_string()),
            }
        }
        Ok(Error::Stack(Box::new(cause)))
    }

    /// Waits until nothing is under way any more; an interrupted run may have left something.
    pub(super) async fn settled(&self, short: &str, name: &str) -> Result<Option<Stack>, Error> {
        loop {
            match self.cloud.stack(name).await? {
                Some(stack) if stack.status.is_in_progress() => {
                    self.say(short, &stack.name, stack.status.as_str(), None);
                    tokio::time::sleep(self.cloud.pause()).await;
                }
                other => return Ok(other.filter(|s| !s.status.is_deleted())),
            }
        }
    }

    /// Follows what is under way to its end, good or bad, and tells of every resource on the way.
    pub(super) async fn follow(
        &self,
        short: &str,
        name: &str,
        since: Option<&str>,
    ) -> Result<Option<Stack>, Error> {
        let mut seen = since.map(str::to_owned);
        let mut looks = 0;
        loop {
            // Events first: a status that is asked for before anything has happened is that of before.
            seen = self.tell(short, name, seen).await?;
            let Some(stack) = self.cloud.stack(name).await? else { return Ok(None) };
            looks += 1;
            let begun = seen.as_deref() != since || looks > LOOKS;
            if stack.status.is_in_progress() || !begun {
                tokio::time::sleep(self.cloud.pause()).await;
                continue;
            }
            self.tell(short, name, seen).await?;
            return Ok(Some(stack).filter(|s| !s.status.is_deleted()));
        }
    }

    /// Tells of what has happened since the event `seen`, and returns the newest.
    async fn tell(
        &self,
        short: &str,
        name: &str,
        seen: Option<String>,
    ) -> Result<Option<String>, Error> {
        let events = match self.cloud.events(name, seen.as_deref()).await {
            Ok(events) => events,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        for event in events.iter().rev() {
            self.say(short, &event.resource, event.status.as_str(), event.reason.clone());
        }
        Ok(events.into_iter().next().map(|e| e.id).or(seen))
    }

    fn request(
        &self,
        stack: &TreeStack,
        there: Option<&Stack>,
        kept: bool,
    ) -> Result<ChangeSetRequest, Error> {
        let create = there.is_none_or(|s| s.status.is_empty_stack());
        let parameters = self.parameters(stack)?;
        // A template that still has what will be dropped still has its parameters.
        let before = there.into_iter().flat_map(|s| s.parameters.keys());
        let previous =
            before.filter(|name| kept && !parameters.contains_key(*name)).cloned().collect();
        let body = if stack.short == STATE {
            Body::Inline(stack.text.to_string())
        } else {
            Body::Object(self.tree.cluster.bucket.clone(), template_key(stack))
        };
        let said = serde_json::to_string(&(&*stack.text, &parameters, &stack.tags))
            .expect("it has text keys");
        Ok(ChangeSetRequest {
            stack: stack.name.clone(),
            name: format!("kaws-{}", &sha256(said.as_bytes())[..16]),
            create,
            body,
            parameters,
            previous,
            tags: stack.tags.clone(),
            role: self.role.map(str::to_owned),
            keep_failed: self.keep_failed && !self.replaces(&stack.short),
            revert_drift: !create && self.reverts(&stack.short),
        })
    }

    /// Whether resources of a stack may be replaced: CloudFormation refuses that where a failure is to be kept.
    fn replaces(&self, short: &str) -> bool {
        let changes = self.plan.stack(short).into_iter().flat_map(|s| &s.changes);
        changes.map(|c| c.change.fate).any(|f| matches!(f, Fate::Replaces | Fate::MayReplace))
    }

    /// Sets the policies of stacks that hold data: a run that was cut off may have left one open, or none.
    pub(super) async fn close_policies(&self) -> Result<(), Error> {
        for stack in self.tree.stacks.values() {
            if let Some(policy) = super::policy::policy(stack, None) {
                self.cloud.set_policy(&stack.name, &policy).await?;
            }
        }
        Ok(())
    }

    /// Whether what somebody changed of a stack by hand is put back.
    fn reverts(&self, short: &str) -> bool {
        let drift = self.plan.stack(short).into_iter().flat_map(|s| &s.drift);
        drift.map(|d| d.fate).any(|fate| fate == DriftFate::Reverted)
    }

    fn parameters(&self, stack: &TreeStack) -> Result<BTreeMap<String, String>, Error> {
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let value = |(name, parameter): (&String, &super::tree::Parameter)| {
            let (found, source_name) = match &parameter.source {
                Source::Lock(lock) => (self.locked.get(lock), lock.clone()),
                Source::Output(producer, output) => (
                    outputs.get(producer).and_then(|all| all.get(output)),
                    format!("{producer}.{output}"),
                ),
            };
            let found = found.cloned().ok_or_else(|| Error::NoValue {
                stack: stack.short.clone(),
                parameter: name.clone(),
                source_name,
            })?;
            Ok((name.clone(), found))
        };
        stack.parameters.iter().map(value).collect()
    }

    /// Remembers a stack's outputs for those that come after it.
    pub(super) fn know(&self, short: &str, stack: &Stack) {
        let mut all = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(short.to_owned(), stack.outputs.clone());
    }

    async fn protected(
        &self,
        stack: &TreeStack,
        now: &Stack,
        note: String,
    ) -> Result<String, Error> {
        if stack.protected != now.protected {
            self.cloud.protect(&stack.name, stack.protected).await?;
        }
        Ok(note)
    }

    fn vanished(&self, short: &str) -> Error {
        let cause = RootCause::of(short, "DELETE_COMPLETE", &[]);
        Error::Stack(Box::new(cause))
    }

    fn say(&self, short: &str, subject: &str, status: &str, reason: Option<String>) {
        self.watcher.on(Progress::Detail {
            step: format!("stack:{short}"),
            subject: subject.to_owned(),
            status: status.to_owned(),
            reason,
        });
    }
}
