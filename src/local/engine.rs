//! Makes and changes the resources of a stack, a step at a time; taking them away is in `undo`.
//!
//! A stack moves on when it is looked at, by every resource that waits for nothing else; then its file is
//! written. Whoever is killed leaves a stack that the next look moves on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::identity::{attribute, physical};
use super::objects;
use super::stack::{Input, Kind, Made, Operation, StackFile};
use super::store::Store;
use crate::cloudformation::{
    Effect, Output, Pseudo, Resource, Scope, Template, attributes, differing, resolve, truth,
};
use crate::port::{Drifted, Status};

/// What the engine works with.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    pub store: &'a Store,
    pub pseudo: Pseudo,
    /// Resources that fail, by `stack/LogicalId`, or by `rollback:stack/LogicalId` and the like, and why.
    pub faults: &'a BTreeMap<String, String>,
}

impl Engine<'_> {
    /// Moves the stack on by one step; says whether anything happened.
    pub(super) fn advance(&self, stack: &mut StackFile) -> bool {
        let Some(mut operation) = stack.operation.take() else { return false };
        let outcome = match operation.kind {
            Kind::Create | Kind::Update => self.build(stack, &mut operation),
            Kind::Delete => self.take_down(stack, &mut operation, "DELETE"),
            Kind::Rollback if operation.before.is_empty() => {
                self.take_down(stack, &mut operation, "ROLLBACK")
            }
            Kind::Rollback => self.go_back(stack, &mut operation).map(|()| true),
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => stack.operation = Some(operation),
            Err(failed) => Self::fail(stack, operation, failed),
        }
        true
    }

    /// After a failure a new stack is taken down, and a changed one goes back to what it was.
    fn fail(stack: &mut StackFile, mut operation: Operation, failed: BTreeSet<String>) {
        let ids: Vec<String> = failed.into_iter().collect();
        let why = format!("The following resource(s) failed: [{}]. ", ids.join(", "));
        match operation.kind {
            Kind::Delete => {
                stack.turn("DELETE_FAILED", Some(why.trim_end().to_owned()));
                return;
            }
            Kind::Rollback if operation.before.is_empty() => {
                stack.turn("ROLLBACK_FAILED", Some(why.trim_end().to_owned()));
                return;
            }
            Kind::Rollback => {
                stack.turn("UPDATE_ROLLBACK_FAILED", Some(why.trim_end().to_owned()));
                stack.failed = Some(operation);
                return;
            }
            Kind::Create | Kind::Update if operation.keep_failed => {
                let verb = if operation.kind == Kind::Create { "CREATE" } else { "UPDATE" };
                stack.turn(&format!("{verb}_FAILED"), Some(why.trim_end().to_owned()));
                stack.failed = Some(operation);
                return;
            }
            Kind::Create => {
                stack.turn(
                    "ROLLBACK_IN_PROGRESS",
                    Some(format!("{why}Rollback requested by user.")),
                );
            }
            Kind::Update => stack.turn("UPDATE_ROLLBACK_IN_PROGRESS", Some(why)),
        }
        operation.kind = Kind::Rollback;
        operation.done.clear();
        stack.operation = Some(operation);
    }

    /// One step towards the target: every resource whose needs are met.
    fn build(
        &self,
        stack: &mut StackFile,
        operation: &mut Operation,
    ) -> Result<bool, BTreeSet<String>> {
        let stack_failed = |text: String| -> BTreeSet<String> { BTreeSet::from([text]) };
        let template =
            Template::read(&operation.target.template).map_err(|e| stack_failed(e.to_string()))?;
        let wanted =
            self.wanted(&template, &operation.target).map_err(|e| stack_failed(e.to_string()))?;
        let ready: Vec<&String> = wanted
            .iter()
            .filter(|id| !operation.done.contains(**id))
            .filter(|id| {
                let needs = template.resources[**id].needs(&template);
                needs.iter().all(|n| operation.done.contains(n) || !wanted.contains(&n))
            })
            .copied()
            .collect();
        let mut failed = BTreeSet::new();
        for id in &ready {
            match self.one(stack, operation, &template, id) {
                Ok(()) => {
                    operation.done.insert((*id).clone());
                }
                Err(why) => {
                    let kind = &template.resources[*id].kind;
                    let verb = if stack.resources.contains_key(*id) { "UPDATE" } else { "CREATE" };
                    if let Some(made) = stack.resources.get_mut(*id) {
                        made.status = Status::new("UPDATE_FAILED");
                    }
                    stack.log(id, kind, "", &format!("{verb}_FAILED"), Some(why));
                    failed.insert((*id).clone());
                }
            }
        }
        if !failed.is_empty() {
            return Err(failed);
        }
        if operation.done.len() < wanted.len() {
            return if ready.is_empty() {
                Err(wanted
                    .into_iter()
                    .filter(|id| !operation.done.contains(*id))
                    .cloned()
                    .collect())
            } else {
                Ok(false)
            };
        }
        let leaving: Vec<String> =
            stack.resources.keys().filter(|id| !wanted.contains(id)).cloned().collect();
        for id in leaving {
            if let Err(why) = allowed(stack, "Update:Delete", &id) {
                let kind = stack.resources[&id].kind.clone();
                stack.log(&id, &kind, "", "DELETE_FAILED", Some(why));
                return Err(BTreeSet::from([id]));
            }
        }
        let outputs = self.outputs(stack, &template, &operation.target).map_err(stack_failed)?;
        self.clean_up(stack, operation, &wanted);
        stack.outputs = outputs;
        stack.deployed = operation.target.clone();
        let verb = if operation.kind == Kind::Create { "CREATE" } else { "UPDATE" };
        stack.turn(&format!("{verb}_COMPLETE"), None);
        Ok(true)
    }

    /// The resources that the conditions let be.
    fn wanted<'t>(
        &self,
        template: &'t Template,
        target: &Input,
    ) -> Result<BTreeSet<&'t String>, crate::cloudformation::ResolveError> {
        let none = |_: &str, _: &str| None;
        let scope = self.scope(template, target, &none);
        let mut wanted = BTreeSet::new();
        for (id, resource) in &template.resources {
            if truth(resource.condition.as_deref(), &scope)? {
                wanted.insert(id);
            }
        }
        Ok(wanted)
    }

    fn scope<'s>(
        &'s self,
        template: &'s Template,
        target: &'s Input,
        attribute: &'s dyn Fn(&str, &str) -> Option<Value>,
    ) -> Scope<'s> {
        let (parameters, pseudo) = (&target.parameters, &self.pseudo);
        Scope { template, parameters, pseudo, attribute, symbols: false }
    }

    /// Makes or changes one resource, if there is something to do.
    fn one(
        &self,
        stack: &mut StackFile,
        operation: &mut Operation,
        template: &Template,
        id: &str,
    ) -> Result<(), String> {
        let resource = &template.resources[id];
        let properties = self.properties(stack, template, &operation.target, resource)?;
        let now = stack.resources.get(id).cloned();
        let verb = if now.is_some() { "UPDATE" } else { "CREATE" };
        if let Some(now) = &now
            && now.kind == resource.kind
            && now.wanted == properties
            && (!operation.reverts || now.properties == properties)
        {
            let kept = stack.resources.get_mut(id).expect("it has just been read");
            kept.deletion_policy.clone_from(&resource.deletion_policy);
            kept.needs = resource.needs(template);
            return Ok(());
        }
        let known = now.as_ref().map(|m| m.physical.clone()).unwrap_or_default();
        stack.log(id, &resource.kind, &known, &format!("{verb}_IN_PROGRESS"), None);
        self.fault(verb, &stack.name, &operation.target, id)?;
        let wanted = properties.clone();
        let made = match now {
            Some(old) => {
                let properties = kept(&old, properties, operation.reverts);
                self.changed(stack, operation, id, resource, old, properties)?
            }
            None => self.made(id, resource, properties, 0)?,
        };
        let made = Made { wanted, ..made };
        let mut made = Made { needs: resource.needs(template), ..made };
        let asked = attributes(template).remove(id).unwrap_or_default();
        let value = |name: String| (name.clone(), attribute(&self.pseudo, &made, &name));
        made.attributes = asked.into_iter().map(value).collect();
        stack.log(id, &made.kind, &made.physical, &format!("{verb}_COMPLETE"), None);
        stack.resources.insert(id.to_owned(), made);
        Ok(())
    }

    /// Why a resource is to fail, if it is: it is named by its stack's short name, or its whole one. A
    /// rollback fails only where that is said.
    pub(super) fn fault(
        &self,
        verb: &str,
        stack: &str,
        input: &Input,
        id: &str,
    ) -> Result<(), String> {
        let short = input.tags.get("kaws/stack").map_or(stack, String::as_str);
        let verb = verb.to_lowercase();
        let names = [short, stack].map(|stack| format!("{stack}/{id}"));
        let why = names.iter().find_map(|name| {
            let always = self.faults.get(name).filter(|_| verb != "rollback");
            always.or_else(|| self.faults.get(&format!("{verb}:{name}")))
        });
        why.map_or(Ok(()), |why| Err(why.clone()))
    }

    fn made(
        &self,
        id: &str,
        resource: &Resource,
        properties: Map<String, Value>,
        generation: u32,
    ) -> Result<Made, String> {
        let physical = physical(&self.pseudo, id, &resource.kind, &properties, generation);
        if resource.kind == "AWS::S3::Bucket" {
            objects::make(self.store, &physical, &format!("{}/{id}", self.pseudo.stack_id))?;
        }
        Ok(Made {
            kind: resource.kind.clone(),
            physical,
            status: Status::new("CREATE_COMPLETE"),
            properties,
            wanted: Map::new(),
            attributes: BTreeMap::new(),
            generation,
            version: 0,
            deletion_policy: resource.deletion_policy.clone(),
            needs: BTreeSet::new(),
        })
    }

    /// Changes a resource in place, or makes another and leaves the old one for the end.
    fn changed(
        &self,
        stack: &StackFile,
        operation: &mut Operation,
        id: &str,
        resource: &Resource,
        old: Made,
        properties: Map<String, Value>,
    ) -> Result<Made, String> {
        let differing = differing(&resource.kind, &old.properties, &properties);
        let gravest = differing.into_iter().map(|p| (p.effect, p.path)).max();
        match gravest {
            Some((Effect::Unsupported, name)) => {
                Err(format!("Updates to {name} of {} are not supported", resource.kind))
            }
            Some((Effect::Replaces | Effect::MayReplace, _)) => {
                allowed(stack, "Update:Replace", id)?;
                let new = self.made(id, resource, properties, old.generation + 1)?;
                if new.physical == old.physical {
                    return Err(format!(
                        "CloudFormation cannot update a stack when a custom-named resource requires replacing. Rename {} and update the stack again.",
                        old.physical
                    ));
                }
                let policy = resource.replace_policy.clone();
                operation.old.push((id.to_owned(), Made { deletion_policy: policy, ..old }));
                Ok(Made { status: Status::new("UPDATE_COMPLETE"), ..new })
            }
            _ => Ok(Made {
                status: Status::new("UPDATE_COMPLETE"),
                version: old.version
                    + u32::from(
                        old.properties.get("LaunchTemplateData")
                            != properties.get("LaunchTemplateData"),
                    ),
                properties,
                deletion_policy: resource.deletion_policy.clone(),
                ..old
            }),
        }
    }

    /// The resources that are not what the template says, because somebody edited the stack's file.
    pub(super) fn drift(&self, stack: &StackFile) -> Result<Vec<Drifted>, String> {
        let template = Template::read(&stack.deployed.template).map_err(|e| e.to_string())?;
        let mut all = Vec::new();
        for (id, made) in &stack.resources {
            let Some(resource) = template.resources.get(id) else { continue };
            let should = self.properties(stack, &template, &stack.deployed, resource)?;
            let names: BTreeSet<&String> = should.keys().chain(made.properties.keys()).collect();
            let text = |value: Option<&Value>| value.map_or_else(String::new, Value::to_string);
            let differing = names.into_iter().filter(|n| should.get(*n) != made.properties.get(*n));
            let properties: Vec<_> = differing
                .map(|n| (n.clone(), text(should.get(n)), text(made.properties.get(n))))
                .collect();
            if !properties.is_empty() {
                let (resource, kind) = (id.clone(), made.kind.clone());
                all.push(Drifted { resource, kind, deleted: false, properties });
            }
        }
        Ok(all)
    }

    /// The properties with everything worked out from what is there.
    fn properties(
        &self,
        stack: &StackFile,
        template: &Template,
        target: &Input,
        resource: &Resource,
    ) -> Result<Map<String, Value>, String> {
        let attribute = |id: &str, name: &str| self.attribute(&stack.resources, id, name);
        let scope = self.scope(template, target, &attribute);
        let mut all = Map::new();
        for (name, value) in &resource.properties {
            if let Some(value) = resolve(value, &scope).map_err(|e| e.to_string())? {
                all.insert(name.clone(), value);
            }
        }
        Ok(all)
    }

    fn attribute(&self, all: &BTreeMap<String, Made>, id: &str, name: &str) -> Option<Value> {
        let made = all.get(id)?;
        Some(if name.is_empty() {
            Value::String(made.physical.clone())
        } else {
            attribute(&self.pseudo, made, name)
        })
    }

    fn outputs(
        &self,
        stack: &StackFile,
        template: &Template,
        target: &Input,
    ) -> Result<BTreeMap<String, String>, String> {
        let attribute = |id: &str, name: &str| self.attribute(&stack.resources, id, name);
        let scope = self.scope(template, target, &attribute);
        let mut outputs = BTreeMap::new();
        for (name, Output { value, condition }) in &template.outputs {
            if !truth(condition.as_deref(), &scope).map_err(|e| e.to_string())? {
                continue;
            }
            let value = resolve(value, &scope).map_err(|e| format!("output {name}: {e}"))?;
            let text = match value {
                Some(Value::String(text)) => text,
                Some(other) => other.to_string(),
                None => continue,
            };
            outputs.insert(name.clone(), text);
        }
        Ok(outputs)
    }
}

/// What a resource is to be: where its template says what it said before, what somebody made of it since stays.
fn kept(old: &Made, target: Map<String, Value>, reverts: bool) -> Map<String, Value> {
    if reverts {
        return target;
    }
    let mut all = old.properties.clone();
    let names: BTreeSet<&String> = old.wanted.keys().chain(target.keys()).collect();
    for name in names {
        match target.get(name) {
            same if same == old.wanted.get(name) => {}
            Some(value) => {
                all.insert(name.clone(), value.clone());
            }
            None => {
                all.remove(name);
            }
        }
    }
    all
}

/// Refuses what the stack's policy denies: the statements that name the resource by its logical id.
fn allowed(stack: &StackFile, action: &str, id: &str) -> Result<(), String> {
    let policy: Option<Value> = stack.policy.as_deref().and_then(|p| serde_json::from_str(p).ok());
    let statements = policy.as_ref().and_then(|p| p["Statement"].as_array());
    let resource = format!("LogicalResourceId/{id}");
    let names = |value: &Value, word: &str| {
        value.as_array().is_some_and(|all| all.iter().any(|v| v.as_str() == Some(word)))
    };
    let denies = |s: &&Value| {
        s["Effect"] == "Deny" && names(&s["Action"], action) && names(&s["Resource"], &resource)
    };
    match statements.into_iter().flatten().position(|s| denies(&s)) {
        Some(at) => Err(format!(
            "Action denied by stack policy: Statement [#{}] does not allow [{action}] for resource [{resource}]",
            at + 1
        )),
        None => Ok(()),
    }
}
