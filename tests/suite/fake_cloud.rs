//! A cloud in memory, for tests of the pipeline: every stack is complete at once, and what a change set
//! holds beyond its stack's resources can be said.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use kaws::cloudformation::{Action, Template};
use kaws::port::{
    Answer, Body, ChangeSet, ChangeSetRequest, Cloud, CloudError, Drift, ErrorKind, Event,
    Identity, Leftover, Object, Replacement, ScalingGroup, SetChange, Stack, StackResource, Status,
    When,
};

/// The cloud.
#[derive(Debug, Default)]
pub struct FakeCloud {
    world: Mutex<World>,
    /// What the change set of a stack holds besides.
    pub extra: BTreeMap<String, SetChange>,
    /// What the cluster itself made.
    pub leftovers: Vec<Leftover>,
    /// Its machines.
    pub fleet: std::sync::Arc<crate::fleet::Fleet>,
}

#[derive(Debug, Default)]
struct World {
    stacks: BTreeMap<String, (Stack, String)>,
    prepared: BTreeMap<String, (ChangeSetRequest, String)>,
    objects: BTreeMap<String, Vec<u8>>,
    calls: Vec<String>,
}

impl FakeCloud {
    /// A cloud with machines.
    pub fn of(fleet: std::sync::Arc<crate::fleet::Fleet>) -> Self {
        Self { fleet, ..Self::default() }
    }

    /// The writing calls so far, in order.
    pub fn calls(&self) -> Vec<String> {
        self.world.lock().unwrap().calls.clone()
    }

    fn write(&self, call: String) {
        self.world.lock().unwrap().calls.push(call);
    }

    /// An object, as text.
    pub fn object(&self, key: &str) -> Option<String> {
        let world = self.world.lock().unwrap();
        world.objects.get(key).map(|b| String::from_utf8_lossy(b).into_owned())
    }
}

fn etag(bytes: &[u8]) -> String {
    kaws::value::sha256(bytes)
}

#[async_trait]
impl Cloud for FakeCloud {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(1)
    }

    async fn identity(&self) -> Answer<Identity> {
        Ok(Identity { account: "111122223333".to_owned(), arn: String::new() })
    }

    async fn stacks(&self, cluster: &str) -> Answer<Vec<Stack>> {
        let world = self.world.lock().unwrap();
        let own = world.stacks.values().filter(|(s, _)| s.tags["kaws/cluster"] == cluster);
        Ok(own.map(|(s, _)| s.clone()).collect())
    }

    async fn stack(&self, name: &str) -> Answer<Option<Stack>> {
        Ok(self.world.lock().unwrap().stacks.get(name).map(|(s, _)| s.clone()))
    }

    async fn template(&self, stack: &str) -> Answer<String> {
        Ok(self.world.lock().unwrap().stacks[stack].1.clone())
    }

    async fn resources(&self, stack: &str) -> Answer<Vec<StackResource>> {
        let text = self.template(stack).await?;
        let resources = Template::read(&text).unwrap().resources;
        Ok(resources
            .into_iter()
            .map(|(id, r)| StackResource {
                physical: format!("{stack}/{id}"),
                id,
                kind: r.kind,
                status: Status::new("CREATE_COMPLETE"),
            })
            .collect())
    }

    async fn drift(&self, _: &str) -> Answer<Drift> {
        Ok(Drift::default())
    }

    async fn events(&self, stack: &str, since: Option<&str>) -> Answer<Vec<Event>> {
        let last = self.last_event(stack).await?;
        let event = |id: String| Event {
            id,
            time: String::new(),
            resource: stack.to_owned(),
            kind: "AWS::CloudFormation::Stack".to_owned(),
            physical: String::new(),
            status: Status::new("CREATE_COMPLETE"),
            reason: None,
        };
        Ok(last.filter(|id| since != Some(id.as_str())).map(event).into_iter().collect())
    }

    async fn last_event(&self, stack: &str) -> Answer<Option<String>> {
        let world = self.world.lock().unwrap();
        let executed = format!("ExecuteChangeSet {stack}");
        let count = world.calls.iter().filter(|c| **c == executed).count();
        Ok((count > 0).then(|| count.to_string()))
    }

    async fn change_set(&self, request: &ChangeSetRequest) -> Answer<Option<ChangeSet>> {
        let mut world = self.world.lock().unwrap();
        let text = match &request.body {
            Body::Inline(text) => text.clone(),
            Body::Object(_, key) => String::from_utf8(world.objects[key].clone()).unwrap(),
        };
        let template = Template::read(&text).unwrap();
        let same = world.stacks.get(&request.stack).is_some_and(|(s, t)| {
            *t == text && s.parameters == request.parameters && s.tags == request.tags
        });
        if same {
            return Ok(None);
        }
        let change = |(id, r): (&String, &kaws::cloudformation::Resource)| SetChange {
            id: id.clone(),
            kind: r.kind.clone(),
            action: if request.create { Action::Add } else { Action::Modify },
            replacement: Replacement::No,
            dynamic: !request.create,
        };
        let mut changes: Vec<SetChange> = template.resources.iter().map(change).collect();
        changes.extend(self.extra.get(&request.stack).cloned());
        world.calls.push(format!("CreateChangeSet {}", request.stack));
        world.prepared.insert(request.name.clone(), (request.clone(), text));
        Ok(Some(ChangeSet { name: request.name.clone(), stack: request.stack.clone(), changes }))
    }

    async fn execute(&self, stack: &str, change_set: &str) -> Answer<()> {
        let mut world = self.world.lock().unwrap();
        world.calls.push(format!("ExecuteChangeSet {stack}"));
        let (request, text) = world.prepared.remove(change_set).unwrap();
        let template = Template::read(&text).unwrap();
        let outputs = template.outputs.keys().map(|o| (o.clone(), format!("{stack}.{o}")));
        let made = Stack {
            name: stack.to_owned(),
            id: format!("arn:{stack}"),
            status: Status::new("CREATE_COMPLETE"),
            parameters: request.parameters,
            outputs: outputs.collect(),
            tags: request.tags,
            ..Stack::default()
        };
        world.stacks.insert(stack.to_owned(), (made, text));
        Ok(())
    }

    async fn discard(&self, stack: &str, _: &str) -> Answer<()> {
        self.write(format!("DeleteChangeSet {stack}"));
        Ok(())
    }

    async fn delete_stack(&self, stack: &str, _: &[String], _: Option<&str>) -> Answer<()> {
        self.write(format!("DeleteStack {stack}"));
        self.world.lock().unwrap().stacks.remove(stack);
        Ok(())
    }

    async fn roll_back(&self, stack: &str, _: Option<&str>) -> Answer<()> {
        self.write(format!("RollbackStack {stack}"));
        Ok(())
    }

    async fn continue_rollback(&self, stack: &str, _: &[String], _: Option<&str>) -> Answer<()> {
        self.write(format!("ContinueUpdateRollback {stack}"));
        Ok(())
    }

    async fn protect(&self, stack: &str, on: bool) -> Answer<()> {
        self.write(format!("UpdateTerminationProtection {stack}"));
        if let Some((stack, _)) = self.world.lock().unwrap().stacks.get_mut(stack) {
            stack.protected = on;
        }
        Ok(())
    }

    async fn put(&self, _: &str, key: &str, bytes: Vec<u8>, when: When) -> Answer<String> {
        let mut world = self.world.lock().unwrap();
        let now = world.objects.get(key);
        let fits = match &when {
            When::Always => true,
            When::Absent => now.is_none(),
            When::Is(tag) => now.is_some_and(|b| etag(b) == *tag),
        };
        if !fits {
            return Err(CloudError::new("PutObject", ErrorKind::Conflict, "it is there"));
        }
        world.calls.push(format!("PutObject {key}"));
        let tag = etag(&bytes);
        world.objects.insert(key.to_owned(), bytes);
        Ok(tag)
    }

    async fn get(&self, _: &str, key: &str) -> Answer<Option<Object>> {
        let world = self.world.lock().unwrap();
        Ok(world.objects.get(key).map(|b| Object { etag: etag(b), bytes: b.clone() }))
    }

    async fn list(&self, _: &str, prefix: &str) -> Answer<Vec<String>> {
        let world = self.world.lock().unwrap();
        Ok(world.objects.keys().filter(|k| k.starts_with(prefix)).cloned().collect())
    }

    async fn delete(&self, _: &str, key: &str, _: When) -> Answer<()> {
        self.write(format!("DeleteObject {key}"));
        self.world.lock().unwrap().objects.remove(key);
        Ok(())
    }

    async fn parameter(&self, name: &str) -> Answer<Option<String>> {
        Ok(Some(format!("ami-{}", &kaws::value::sha256(name.as_bytes())[..17])))
    }

    async fn scaling_groups(&self, names: &[String]) -> Answer<Vec<ScalingGroup>> {
        Ok(self.fleet.scaling_groups(names))
    }

    async fn unhealthy_targets(&self, _arn: &str) -> Answer<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    async fn terminate(&self, machine: &str) -> Answer<()> {
        self.fleet.terminate(machine);
        Ok(())
    }

    async fn set_policy(&self, _stack: &str, _policy: &str) -> Answer<()> {
        Ok(())
    }

    async fn leftovers(&self, _: &str) -> Answer<Vec<Leftover>> {
        Ok(self.leftovers.clone())
    }

    async fn remove(&self, leftover: &Leftover) -> Answer<()> {
        self.write(format!("DeleteResource {}", leftover.arn));
        Ok(())
    }
}
