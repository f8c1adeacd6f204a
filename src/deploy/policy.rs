//! Policies of stacks that hold data: an update of theirs, whoever makes it, replaces and removes nothing that holds
//! data, unless the plan that was confirmed says so of that very resource.
//!
//! Not here: when they are set (`stacks`).

use std::collections::BTreeSet;

use serde_json::json;

use super::plan::StackPlan;
use super::tree::TreeStack;
use crate::cloudformation::{Action, Fate, HOLDS_DATA};

/// Returns the policy of a stack, as AWS writes it, but for what `plan` takes away; none where nothing holds data.
pub(super) fn policy(stack: &TreeStack, plan: Option<&StackPlan>) -> Option<String> {
    let goes: BTreeSet<&str> = plan
        .into_iter()
        .flat_map(|plan| &plan.changes)
        .map(|planned| &planned.change)
        .filter(|change| {
            change.action == Action::Remove
                || matches!(change.fate, Fate::Replaces | Fate::MayReplace)
        })
        .map(|change| change.id.as_str())
        .collect();
    let holding = stack.template.resources.iter();
    let holding: Vec<&String> = holding
        .filter(|(_, resource)| HOLDS_DATA.contains(&resource.kind.as_str()))
        .map(|(id, _)| id)
        .collect();
    let last_goes = plan
        .into_iter()
        .flat_map(|p| &p.changes)
        .any(|c| c.change.action != Action::Add && HOLDS_DATA.contains(&c.change.kind.as_str()));
    // Where the last of it goes, a policy of before must not keep it.
    if holding.is_empty() && !last_goes {
        return None;
    }
    let mut statements =
        vec![json!({"Effect": "Allow", "Action": "Update:*", "Principal": "*", "Resource": "*"})];
    let kept: Vec<String> = holding
        .into_iter()
        .filter(|id| !goes.contains(id.as_str()))
        .map(|id| format!("LogicalResourceId/{id}"))
        .collect();
    if !kept.is_empty() {
        statements.push(json!({"Effect": "Deny", "Action": ["Update:Replace", "Update:Delete"],
            "Principal": "*", "Resource": kept}));
    }
    Some(json!({"Statement": statements}).to_string())
}
