//! The local cloud: a CloudFormation engine and an object store in a folder, for trying, tests and
//! rehearsals. Nothing it makes is real, and no machine ever runs.
//!
//! It understands stacks, change sets, intrinsic functions, conditions, replacement, rollback, outputs,
//! protection and objects with conditions; not more.

mod engine;
mod identity;
mod objects;
mod seal;
mod stack;
mod store;
mod undo;

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;

use engine::Engine;
use stack::{Input, Kind, Operation, Prepared, StackFile};
use store::Store;

use crate::cloudformation::{Change, Fate, Pseudo, Side, Template, changes};
use crate::port::{
    Answer, Body, ChangeSet, ChangeSetRequest, Cloud, CloudError, Drift, ErrorKind, Event,
    Identity, Leftover, Object, Replacement, ScalingGroup, SetChange, Stack, StackResource, Status,
    When,
};
use crate::value::sha256;

/// A cloud in a folder.
#[derive(Debug)]
pub struct Local {
    store: Store,
    account: String,
    region: String,
    partition: String,
    faults: BTreeMap<String, String>,
}

/// The largest template in a call, in bytes: CloudFormation's own limit.
const INLINE: usize = 51_200;

#[expect(clippy::disallowed_methods, reason = "the local cloud writes a history with times")]
fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

fn refused<T>(operation: &str, text: impl Into<String>) -> Answer<T> {
    Err(CloudError::new(operation, ErrorKind::Refused, text))
}

impl Local {
    /// Returns the cloud below `folder`, as the given account sees it; `faults` are resources that fail,
    /// by `stack/LogicalId`.
    #[must_use]
    pub fn new(
        folder: PathBuf,
        account: &str,
        region: &str,
        partition: &str,
        faults: BTreeMap<String, String>,
    ) -> Self {
        Self {
            store: Store::new(folder),
            account: account.to_owned(),
            region: region.to_owned(),
            partition: partition.to_owned(),
            faults,
        }
    }

    fn pseudo(&self, stack: &StackFile) -> Pseudo {
        Pseudo {
            account: self.account.clone(),
            region: self.region.clone(),
            partition: self.partition.clone(),
            stack: stack.name.clone(),
            stack_id: stack.id.clone(),
        }
    }

    fn read(&self, stack: &str) -> Answer<Option<StackFile>> {
        let name = stack.strip_prefix("arn:").map_or(stack, |arn| {
            // arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/ID
            arn.split('/').nth(1).unwrap_or(arn)
        });
        let file: Option<StackFile> = self.store.read(&format!("stacks/{name}.json"))?;
        let by_id = stack.starts_with("arn:");
        Ok(file.filter(|f| if by_id { f.id == stack } else { !f.status.is_deleted() }))
    }

    fn write(&self, stack: &StackFile) -> Answer<()> {
        self.store.write(&format!("stacks/{}.json", stack.name), stack)
    }

    /// Looks at a stack, which moves on while it is looked at.
    fn look(&self, name: &str) -> Answer<Option<StackFile>> {
        let Some(file) = self.read(name)? else { return Ok(None) };
        if file.operation.is_none() {
            return Ok(Some(file));
        }
        let _held = self.store.hold()?;
        // Somebody else may have moved it on in the meantime.
        let Some(mut file) = self.read(name)? else { return Ok(None) };
        let engine =
            Engine { store: &self.store, pseudo: self.pseudo(&file), faults: &self.faults };
        if engine.advance(&mut file) {
            self.write(&file)?;
        }
        // What is gone is only there for those who know its id.
        Ok(Some(file).filter(|f| name == f.id || !f.status.is_deleted()))
    }

    fn expect(&self, stack: &str, operation: &str) -> Answer<StackFile> {
        match self.read(stack)? {
            Some(file) => Ok(file),
            None => Err(CloudError::new(
                operation,
                ErrorKind::NotFound,
                format!("Stack with id {stack} does not exist"),
            )),
        }
    }

    fn body(&self, body: &Body) -> Answer<String> {
        match body {
            Body::Inline(text) if text.len() > INLINE => refused(
                "CreateChangeSet",
                format!("the template has {} bytes, and {INLINE} are the most", text.len()),
            ),
            Body::Inline(text) => Ok(text.clone()),
            Body::Object(bucket, key) => match objects::get(&self.store, bucket, key)? {
                Some(object) => Ok(String::from_utf8_lossy(&object.bytes).into_owned()),
                None => refused("CreateChangeSet", format!("there is no object {bucket}/{key}")),
            },
        }
    }

    /// Whether two templates say the same of outputs, which are no resources and yet a change.
    fn same_outputs(&self, stack: &StackFile, target: &Input) -> Answer<bool> {
        let read = |text: &str| {
            Template::read(text)
                .map(|t| t.outputs)
                .map_err(|e| CloudError::new("CreateChangeSet", ErrorKind::Refused, e.to_string()))
        };
        Ok(read(&stack.deployed.template)? == read(&target.template)?)
    }

    /// Returns what a change set would hold.
    fn compare(&self, stack: &StackFile, target: &Input) -> Answer<Vec<Change>> {
        let unreadable =
            |text: String| CloudError::new("CreateChangeSet", ErrorKind::Refused, text);
        let read = |text: &str| {
            if text.is_empty() {
                return Ok(Template::default());
            }
            Template::read(text).map_err(|e| unreadable(e.to_string()))
        };
        let (old, new) = (read(&stack.deployed.template)?, read(&target.template)?);
        if let Some((name, _)) = new
            .parameters
            .iter()
            .find(|(n, p)| p.default.is_none() && !target.parameters.contains_key(*n))
        {
            return Err(unreadable(format!("Parameters: [{name}] must have values")));
        }
        if let Some(name) = target.parameters.keys().find(|n| !new.parameters.contains_key(*n)) {
            return Err(unreadable(format!("Parameters: [{name}] do not exist in the template")));
        }
        let old = Side {
            template: &old,
            parameters: &stack.deployed.parameters,
            tags: &stack.deployed.tags,
        };
        let new = Side { template: &new, parameters: &target.parameters, tags: &target.tags };
        changes(old, new, &self.pseudo(stack)).map_err(|e| unreadable(e.to_string()))
    }
}

fn shown(file: &StackFile) -> Stack {
    Stack {
        name: file.name.clone(),
        id: file.id.clone(),
        status: file.status.clone(),
        reason: file.reason.clone(),
        parameters: file.deployed.parameters.clone(),
        outputs: file.outputs.clone(),
        tags: file.deployed.tags.clone(),
        protected: file.protected,
    }
}

fn set_change(change: &Change) -> SetChange {
    SetChange {
        id: change.id.clone(),
        kind: change.kind.clone(),
        action: change.action,
        replacement: match change.fate {
            Fate::Replaces | Fate::Unsupported => Replacement::Yes,
            Fate::MayReplace => Replacement::Conditional,
            Fate::InPlace | Fate::Rolls => Replacement::No,
        },
        dynamic: !change.properties.is_empty()
            && change.properties.iter().all(|p| !p.through.is_empty()),
    }
}

#[async_trait]
impl Cloud for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn pause(&self) -> std::time::Duration {
        std::time::Duration::from_millis(5)
    }

    async fn identity(&self) -> Answer<Identity> {
        let arn = format!("arn:{}:iam::{}:user/local", self.partition, self.account);
        Ok(Identity { account: self.account.clone(), arn })
    }

    async fn stacks(&self, cluster: &str) -> Answer<Vec<Stack>> {
        let mut all = Vec::new();
        for name in self.store.names("stacks")? {
            let file = self.look(name.trim_end_matches(".json"))?;
            let stack = file.as_ref().map(shown);
            let own = |s: &Stack| s.tags.get("kaws/cluster").is_some_and(|c| c == cluster);
            all.extend(stack.filter(own));
        }
        Ok(all)
    }

    async fn stack(&self, name: &str) -> Answer<Option<Stack>> {
        Ok(self.look(name)?.as_ref().map(shown))
    }

    async fn template(&self, stack: &str) -> Answer<String> {
        Ok(self.expect(stack, "GetTemplate")?.deployed.template)
    }

    async fn resources(&self, stack: &str) -> Answer<Vec<StackResource>> {
        let file = self.expect(stack, "ListStackResources")?;
        let shown = file.resources.iter().map(|(id, made)| StackResource {
            id: id.clone(),
            physical: made.physical.clone(),
            kind: made.kind.clone(),
            status: made.status.clone(),
        });
        Ok(shown.collect())
    }

    async fn drift(&self, stack: &str) -> Answer<Drift> {
        let file = self.expect(stack, "DetectStackDrift")?;
        let engine =
            Engine { store: &self.store, pseudo: self.pseudo(&file), faults: &self.faults };
        let found = engine.drift(&file);
        found
            .map(|resources| Drift { resources, unchecked: None })
            .map_err(|text| CloudError::new("DetectStackDrift", ErrorKind::Refused, text))
    }

    async fn events(&self, stack: &str, since: Option<&str>) -> Answer<Vec<Event>> {
        Ok(self.expect(stack, "DescribeStackEvents")?.history(since))
    }

    async fn last_event(&self, stack: &str) -> Answer<Option<String>> {
        let file = self.read(stack)?;
        Ok(file.and_then(|f| f.events.last().map(|e| e.id.clone())))
    }

    async fn change_set(&self, request: &ChangeSetRequest) -> Answer<Option<ChangeSet>> {
        let target = Input {
            template: self.body(&request.body)?,
            parameters: request.parameters.clone(),
            tags: request.tags.clone(),
        };
        let _held = self.store.hold()?;
        let there = self.read(&request.stack)?;
        let mut target = target;
        for (name, value) in there.iter().flat_map(|f| &f.deployed.parameters) {
            if request.previous.contains(name) {
                target.parameters.insert(name.clone(), value.clone());
            }
        }
        let mut file = match there {
            Some(file) if request.create && !file.status.is_empty_stack() => {
                let text = format!("Stack [{}] already exists", file.name);
                return Err(CloudError::new("CreateChangeSet", ErrorKind::Conflict, text));
            }
            Some(file)
                if !request.create && !file.status.is_updatable()
                    || file.status.is_in_progress()
                    || file.status.never_came() =>
            {
                let text = format!("Stack [{}] is in {} state", file.name, file.status);
                return refused("CreateChangeSet", text);
            }
            Some(file) => file,
            None if request.create => self.empty(&request.stack)?,
            None => return self.expect(&request.stack, "CreateChangeSet").map(|_| None),
        };
        let mut all: Vec<SetChange> =
            self.compare(&file, &target)?.iter().map(set_change).collect();
        if request.revert_drift {
            let engine =
                Engine { store: &self.store, pseudo: self.pseudo(&file), faults: &self.faults };
            let found = engine.drift(&file);
            let found = found
                .map_err(|text| CloudError::new("CreateChangeSet", ErrorKind::Refused, text))?;
            for drifted in found {
                if all.iter().any(|change| change.id == drifted.resource) {
                    continue;
                }
                let (id, kind) = (drifted.resource, drifted.kind);
                let action = crate::cloudformation::Action::Modify;
                all.push(SetChange {
                    id,
                    kind,
                    action,
                    replacement: Replacement::No,
                    dynamic: false,
                });
            }
        }
        if all.is_empty() && !request.create && self.same_outputs(&file, &target)? {
            return Ok(None);
        }
        let (create, keep_failed) = (request.create, request.keep_failed);
        let prepared = Prepared { create, target, keep_failed, reverts: request.revert_drift };
        file.change_sets.insert(request.name.clone(), prepared);
        self.write(&file)?;
        Ok(Some(ChangeSet {
            name: request.name.clone(),
            stack: request.stack.clone(),
            changes: all,
        }))
    }

    async fn execute(&self, stack: &str, change_set: &str) -> Answer<()> {
        let _held = self.store.hold()?;
        let mut file = self.expect(stack, "ExecuteChangeSet")?;
        let Some(prepared) = file.change_sets.remove(change_set) else {
            let text = format!("ChangeSet [{change_set}] does not exist");
            return Err(CloudError::new("ExecuteChangeSet", ErrorKind::NotFound, text));
        };
        if file.status.is_in_progress() {
            return refused("ExecuteChangeSet", format!("{stack} is in {} state", file.status));
        }
        file.change_sets.clear();
        // What a new stack is made from is known from the start, and stays known if it fails.
        if prepared.create {
            file.deployed = prepared.target.clone();
        }
        let kind = if prepared.create { Kind::Create } else { Kind::Update };
        let before = if prepared.create { BTreeMap::new() } else { file.resources.clone() };
        file.operation = Some(Operation {
            keep_failed: prepared.keep_failed,
            reverts: prepared.reverts,
            ..Operation::new(kind, prepared.target, before)
        });
        let verb = if prepared.create { "CREATE" } else { "UPDATE" };
        file.turn(&format!("{verb}_IN_PROGRESS"), Some("User Initiated".to_owned()));
        self.write(&file)
    }

    async fn discard(&self, stack: &str, change_set: &str) -> Answer<()> {
        let _held = self.store.hold()?;
        let mut file = self.expect(stack, "DeleteChangeSet")?;
        file.change_sets.remove(change_set);
        self.write(&file)
    }

    async fn delete_stack(
        &self,
        stack: &str,
        retain: &[String],
        _role: Option<&str>,
    ) -> Answer<()> {
        let _held = self.store.hold()?;
        let Some(mut file) = self.read(stack)? else { return Ok(()) };
        if file.protected {
            return refused(
                "DeleteStack",
                format!("Stack [{stack}] cannot be deleted while TerminationProtection is enabled"),
            );
        }
        if file.status.is_in_progress() {
            return refused("DeleteStack", format!("{stack} is in {} state", file.status));
        }
        if !retain.is_empty() && file.status.as_str() != "DELETE_FAILED" {
            return refused(
                "DeleteStack",
                "resources can be retained only when the stack is in DELETE_FAILED state",
            );
        }
        file.failed = None;
        file.operation = Some(Operation {
            leave: retain.iter().cloned().collect(),
            ..Operation::new(Kind::Delete, Input::default(), BTreeMap::new())
        });
        file.turn("DELETE_IN_PROGRESS", Some("User Initiated".to_owned()));
        self.write(&file)
    }

    async fn roll_back(&self, stack: &str, _role: Option<&str>) -> Answer<()> {
        self.go_back(stack, "RollbackStack", &["CREATE_FAILED", "UPDATE_FAILED"], &[])
    }

    async fn continue_rollback(
        &self,
        stack: &str,
        skip: &[String],
        _role: Option<&str>,
    ) -> Answer<()> {
        self.go_back(stack, "ContinueUpdateRollback", &["UPDATE_ROLLBACK_FAILED"], skip)
    }

    async fn set_policy(&self, stack: &str, policy: &str) -> Answer<()> {
        let _held = self.store.hold()?;
        let mut file = self.expect(stack, "SetStackPolicy")?;
        file.policy = Some(policy.to_owned());
        self.write(&file)
    }

    async fn protect(&self, stack: &str, on: bool) -> Answer<()> {
        let _held = self.store.hold()?;
        let mut file = self.expect(stack, "UpdateTerminationProtection")?;
        file.protected = on;
        self.write(&file)
    }

    async fn put(&self, bucket: &str, key: &str, bytes: Vec<u8>, when: When) -> Answer<String> {
        objects::put(&self.store, bucket, key, &bytes, &when)
    }

    async fn get(&self, bucket: &str, key: &str) -> Answer<Option<Object>> {
        objects::get(&self.store, bucket, key)
    }

    async fn list(&self, bucket: &str, prefix: &str) -> Answer<Vec<String>> {
        objects::list(&self.store, bucket, prefix)
    }

    async fn delete(&self, bucket: &str, key: &str, when: When) -> Answer<()> {
        objects::delete(&self.store, bucket, key, &when)
    }

    /// Every public parameter has a value here, made up from its name.
    async fn parameter(&self, name: &str) -> Answer<Option<String>> {
        Ok(Some(format!("ami-{}", &sha256(name.as_bytes())[..17])))
    }

    async fn scaling_groups(&self, _names: &[String]) -> Answer<Vec<ScalingGroup>> {
        Ok(Vec::new())
    }

    async fn unhealthy_targets(&self, _arn: &str) -> Answer<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    async fn terminate(&self, machine: &str) -> Answer<()> {
        let text = format!("there is no machine {machine} on the local cloud");
        refused("TerminateInstanceInAutoScalingGroup", text)
    }

    async fn leftovers(&self, _cluster: &str) -> Answer<Vec<Leftover>> {
        Ok(Vec::new())
    }

    /// Nothing is left of what a stack kept but buckets, and what is in them.
    async fn remove(&self, leftover: &Leftover) -> Answer<()> {
        if leftover.kind != "AWS::S3::Bucket" {
            return Ok(());
        }
        let bucket = leftover.arn.rsplit(':').next().unwrap_or_default();
        for key in objects::list(&self.store, bucket, "")? {
            objects::delete(&self.store, bucket, &key, &When::Always)?;
        }
        let _held = self.store.hold()?;
        objects::unmake(&self.store, bucket)
            .map_err(|text| CloudError::new("DeleteResource", ErrorKind::Refused, text))
    }
}

impl Local {
    /// Begins to take back what failed and was left so.
    fn go_back(&self, stack: &str, call: &str, from: &[&str], skip: &[String]) -> Answer<()> {
        let _held = self.store.hold()?;
        let mut file = self.expect(stack, call)?;
        let stuck = |id: &String| {
            file.resources.get(id).is_none_or(|r| r.status.as_str() != "UPDATE_FAILED")
        };
        if let Some(id) = skip.iter().find(|id| stuck(id)) {
            return refused(call, format!("[{id}] is not in UPDATE_FAILED state"));
        }
        let may = from.contains(&file.status.as_str());
        let Some(failed) = file.failed.take().filter(|_| may) else {
            return refused(call, format!("{stack} is in {} state", file.status));
        };
        let leave = skip.iter().cloned().collect();
        file.operation = Some(Operation { kind: Kind::Rollback, leave, ..failed });
        let verb = if file.status.as_str() == "CREATE_FAILED" { "" } else { "UPDATE_" };
        file.turn(&format!("{verb}ROLLBACK_IN_PROGRESS"), Some("User Initiated".to_owned()));
        self.write(&file)
    }

    /// A stack that has nothing but change sets.
    fn empty(&self, name: &str) -> Answer<StackFile> {
        // A stack of that name may have been deleted before: ids differ from life to life.
        let before: Option<StackFile> = self.store.read(&format!("stacks/{name}.json"))?;
        let lives = before.map_or(0, |f| f.events.len());
        let seed = sha256(format!("{}/{}/{name}/{lives}", self.account, self.region).as_bytes());
        let id = format!(
            "arn:{}:cloudformation:{}:{}:stack/{name}/{}",
            self.partition,
            self.region,
            self.account,
            &seed[..32]
        );
        Ok(StackFile {
            name: name.to_owned(),
            id,
            status: Status::new("REVIEW_IN_PROGRESS"),
            ..StackFile::default()
        })
    }
}
