//! A change set against the plan that was confirmed: it may hold less, never more.

use super::plan::{DriftFate, DriftPlan, StackAction, StackPlan};
use super::roll::GROUP;
use crate::cloudformation::{Action, Fate, HOLDS_DATA};
use crate::port::{ChangeSet, Replacement, SetChange};

/// Returns what a change set holds and the plan does not, a line each.
pub(super) fn more_than(plan: Option<&StackPlan>, set: &ChangeSet) -> Vec<String> {
    set.changes.iter().filter_map(|change| more(plan, change)).collect()
}

fn more(plan: Option<&StackPlan>, change: &SetChange) -> Option<String> {
    let planned = plan
        .filter(|p| p.action != StackAction::None)
        .and_then(|p| p.changes.iter().find(|c| c.change.id == change.id));
    let word = match (change.action, change.replacement) {
        (Action::Add, _) => "is made",
        (Action::Remove, _) => "is removed",
        (Action::Modify, Replacement::No) => "changes in place",
        (Action::Modify, Replacement::Conditional) => "may be replaced",
        (Action::Modify, Replacement::Yes) => "is replaced",
    };
    let said = || Some(format!("{} {} {word}", change.kind, change.id));
    let Some(planned) = planned else {
        let reverts =
            |d: &&DriftPlan| d.drifted.resource == change.id && d.fate == DriftFate::Reverted;
        if plan.is_some_and(|p| p.drift.iter().any(|d| reverts(&d))) {
            // What is put back may be made anew, but not where it holds data.
            let keeps = change.replacement == Replacement::No
                || !HOLDS_DATA.contains(&change.kind.as_str());
            return if keeps { None } else { said() };
        }
        // CloudFormation lists what refers to something that changes, in case an attribute of it does. An
        // attribute that can change without a replacement makes the plan list it too.
        let keeps = change.replacement == Replacement::No
            || (change.replacement == Replacement::Conditional
                && !HOLDS_DATA.contains(&change.kind.as_str()));
        let harmless = change.action == Action::Modify && change.dynamic && keeps;
        return if harmless { None } else { said() };
    };
    let fate = planned.change.fate;
    let expected = planned.change.action == change.action
        || (planned.change.action == Action::Modify && change.action == Action::Add);
    // CloudFormation says of every group whose machines are made from something else that it may be replaced; it is
    // so only under AutoScalingReplacingUpdate, which the plan knows.
    let stays = change.dynamic || change.kind == GROUP;
    let replaced = change.action == Action::Modify
        && (change.replacement == Replacement::Yes
            || (change.replacement == Replacement::Conditional && !stays))
        && !matches!(fate, Fate::Replaces | Fate::MayReplace);
    if expected && !replaced { None } else { said() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudformation::Change;
    use crate::deploy::plan::ResourcePlan;
    use std::collections::BTreeSet;

    fn plan(action: Action, fate: Fate) -> StackPlan {
        let change = Change {
            id: "Vpc".to_owned(),
            kind: "AWS::EC2::VPC".to_owned(),
            action,
            fate,
            properties: Vec::new(),
            kept: None,
        };
        let resource = ResourcePlan {
            change,
            owners: Vec::new(),
            causes: BTreeSet::new(),
            details: Vec::new(),
            data_at_risk: false,
        };
        StackPlan {
            stack: "network".to_owned(),
            action: StackAction::Update,
            predicted: BTreeSet::new(),
            changes: vec![resource],
            nodes: None,
            drops_after: BTreeSet::new(),
            clears: None,
            protect: None,
            busy: None,
            drift: Vec::new(),
            unsure: std::collections::BTreeMap::new(),
        }
    }

    fn set(action: Action, replacement: Replacement, dynamic: bool) -> ChangeSet {
        let change = SetChange {
            id: "Vpc".to_owned(),
            kind: "AWS::EC2::VPC".to_owned(),
            action,
            replacement,
            dynamic,
        };
        ChangeSet { name: "x".to_owned(), stack: "s".to_owned(), changes: vec![change] }
    }

    #[test]
    fn less_than_planned_is_fine() {
        let plan = plan(Action::Modify, Fate::Replaces);
        assert!(more_than(Some(&plan), &set(Action::Modify, Replacement::No, false)).is_empty());
    }

    #[test]
    fn a_replacement_that_was_planned_in_place_is_more() {
        let plan = plan(Action::Modify, Fate::InPlace);
        let more = more_than(Some(&plan), &set(Action::Modify, Replacement::Yes, false));
        assert_eq!(more, ["AWS::EC2::VPC Vpc is replaced"]);
        let more = more_than(Some(&plan), &set(Action::Modify, Replacement::Conditional, true));
        assert!(more.is_empty(), "{more:?}");
    }

    #[test]
    fn what_the_plan_does_not_know_is_more_unless_it_only_refers_to_what_changes() {
        let unplanned = set(Action::Modify, Replacement::No, false);
        assert_eq!(more_than(None, &unplanned), ["AWS::EC2::VPC Vpc changes in place"]);
        assert!(more_than(None, &set(Action::Modify, Replacement::No, true)).is_empty());
        assert_eq!(more_than(None, &set(Action::Remove, Replacement::No, true)).len(), 1);
    }
}
