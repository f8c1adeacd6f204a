//! Takes resources away: what was replaced, a stack that goes, and an update that goes back.
//!
//! Not here: when that happens, which the engine says.

use std::collections::BTreeSet;

use super::engine::Engine;
use super::objects;
use super::stack::{Made, Operation, StackFile};
use crate::port::Status;

impl Engine<'_> {
    /// Deletes what was replaced or left the template; what cannot be deleted is logged and left.
    pub(super) fn clean_up(
        &self,
        stack: &mut StackFile,
        operation: &mut Operation,
        wanted: &BTreeSet<&String>,
    ) {
        let gone: Vec<String> =
            stack.resources.keys().filter(|id| !wanted.contains(id)).cloned().collect();
        for id in gone {
            let made = stack.resources.remove(&id).expect("it has just been listed");
            operation.old.push((id, made));
        }
        for (id, made) in std::mem::take(&mut operation.old) {
            if let Err(why) = self.unmake(&made) {
                stack.log(&id, &made.kind, &made.physical, "DELETE_FAILED", Some(why));
            } else {
                let word = if retained(&made) { "DELETE_SKIPPED" } else { "DELETE_COMPLETE" };
                stack.log(&id, &made.kind, &made.physical, word, None);
            }
        }
    }

    fn unmake(&self, made: &Made) -> Result<(), String> {
        if retained(made) || made.kind != "AWS::S3::Bucket" {
            return Ok(());
        }
        objects::unmake(self.store, &made.physical)
    }

    /// One step of taking everything down: what nothing else needs.
    pub(super) fn take_down(
        &self,
        stack: &mut StackFile,
        operation: &mut Operation,
        verb: &str,
    ) -> Result<bool, BTreeSet<String>> {
        let needed: BTreeSet<String> =
            stack.resources.values().flat_map(|m| m.needs.iter().cloned()).collect();
        let free: Vec<String> =
            stack.resources.keys().filter(|id| !needed.contains(*id)).cloned().collect();
        let mut failed = BTreeSet::new();
        for id in free {
            let made = stack.resources[&id].clone();
            if operation.leave.contains(&id) {
                stack.log(&id, &made.kind, &made.physical, "DELETE_SKIPPED", None);
                stack.resources.remove(&id);
                continue;
            }
            let except_on_create = made.deletion_policy.as_deref() == Some("RetainExceptOnCreate");
            let made = if verb == "ROLLBACK" && except_on_create {
                Made { deletion_policy: None, ..made }
            } else {
                made
            };
            let input = if verb == "DELETE" { &stack.deployed } else { &operation.target };
            let outcome = self.fault(verb, &stack.name, input, &id);
            let outcome = outcome.and_then(|()| self.unmake(&made));
            match outcome {
                Ok(()) => {
                    let word = if retained(&made) { "DELETE_SKIPPED" } else { "DELETE_COMPLETE" };
                    stack.log(&id, &made.kind, &made.physical, word, None);
                    stack.resources.remove(&id);
                }
                Err(why) => {
                    stack.log(&id, &made.kind, &made.physical, "DELETE_FAILED", Some(why));
                    let left = stack.resources.get_mut(&id).expect("it has just been listed");
                    left.status = Status::new("DELETE_FAILED");
                    failed.insert(id);
                }
            }
        }
        if !failed.is_empty() {
            return Err(failed);
        }
        if !stack.resources.is_empty() {
            return Ok(false);
        }
        operation.done.clear();
        stack.outputs.clear();
        stack.turn(&format!("{verb}_COMPLETE"), None);
        Ok(true)
    }

    /// Back to what was before the update: new resources go, old ones are as they were, but for those that
    /// are left alone.
    pub(super) fn go_back(
        &self,
        stack: &mut StackFile,
        operation: &mut Operation,
    ) -> Result<(), BTreeSet<String>> {
        let differs = |id: &String| operation.before.get(id) != stack.resources.get(id);
        let ids: Vec<String> = operation.before.keys().filter(|id| differs(id)).cloned().collect();
        let mut failed = BTreeSet::new();
        for id in ids.iter().filter(|id| !operation.leave.contains(*id)) {
            let Err(why) = self.fault("ROLLBACK", &stack.name, &operation.target, id) else {
                continue;
            };
            let Some(now) = stack.resources.get_mut(id) else { continue };
            now.status = Status::new("UPDATE_FAILED");
            let (kind, physical) = (now.kind.clone(), now.physical.clone());
            stack.log(id, &kind, &physical, "UPDATE_FAILED", Some(why));
            failed.insert(id.clone());
        }
        if !failed.is_empty() {
            let left = |id: &String| failed.contains(id) || operation.leave.contains(id);
            for id in ids.iter().filter(|id| !left(id)) {
                let old = operation.before[id].clone();
                stack.log(id, &old.kind, &old.physical, "UPDATE_COMPLETE", None);
                stack.resources.insert(id.clone(), old);
            }
            return Err(failed);
        }
        for id in &operation.leave {
            if let Some(now) = stack.resources.get(id) {
                let kept = Made { status: Status::new("UPDATE_COMPLETE"), ..now.clone() };
                operation.before.insert(id.clone(), kept);
            }
        }
        let new: Vec<(String, Made)> = stack
            .resources
            .iter()
            .filter(|(id, made)| {
                operation.before.get(*id).is_none_or(|old| old.physical != made.physical)
            })
            .map(|(id, made)| (id.clone(), made.clone()))
            .collect();
        for (id, made) in new {
            let _ = self.unmake(&Made { deletion_policy: None, ..made.clone() });
            stack.log(&id, &made.kind, &made.physical, "DELETE_COMPLETE", None);
        }
        for (id, old) in &operation.before {
            if stack.resources.get(id).is_some_and(|now| now.physical == old.physical && now != old)
            {
                stack.log(id, &old.kind, &old.physical, "UPDATE_COMPLETE", None);
            }
        }
        stack.resources = std::mem::take(&mut operation.before);
        stack.turn("UPDATE_ROLLBACK_COMPLETE", None);
        Ok(())
    }
}

fn retained(made: &Made) -> bool {
    matches!(made.deletion_policy.as_deref(), Some("Retain" | "RetainExceptOnCreate"))
}
