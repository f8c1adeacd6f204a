//! `limits`: AWS's limits on what comes out, each said with the plugins that use most of it.

use std::collections::BTreeMap;

use crate::finding::{Finding, Findings, Outcome};
use crate::model::{Model, derived_parameters};
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::Node;

/// The largest template that can be sent inline, and from S3, in bytes.
const INLINE: usize = 51_200;
const FROM_S3: usize = 1_000_000;
/// The most of each in one template.
const RESOURCES: usize = 500;
const PARAMETERS: usize = 200;
const OUTPUTS: usize = 200;
/// The largest user data, in bytes.
const USER_DATA: usize = 16_384;
/// The most characters of a role's inline policies, without white space.
const POLICY: usize = 10_240;
/// AWS's default quotas.
const MANAGED_POLICIES: usize = 10;
const RULES: usize = 60;

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Limits;

impl Plugin for Limits {
    fn render(&self, cx: &Context<'_>, model: &Model, made: &Artifacts) -> Outcome<Rendering> {
        let mut findings = super::checks::boot(cx, model);
        for (path, artifact) in made {
            if let Some(stack) = path.strip_prefix("stacks/").and_then(|p| p.strip_suffix(".yaml"))
            {
                let limit = if stack == "state" { INLINE } else { FROM_S3 };
                over(
                    &mut findings,
                    "limits/template-size",
                    &format!("the template of {stack} has"),
                    artifact.bytes.len(),
                    limit,
                    "bytes",
                    &largest(model, stack),
                );
                stack_counts(model, stack, &mut findings);
            }
            if let Some(folder) =
                path.strip_prefix("nodes/").and_then(|p| p.strip_suffix("/user-data"))
            {
                over(
                    &mut findings,
                    "limits/user-data",
                    &format!("the user data of {folder} has"),
                    artifact.bytes.len(),
                    USER_DATA,
                    "bytes",
                    "",
                );
            }
        }
        for group in cx.groups {
            policies(model, &group.key, &mut findings);
        }
        for group in model.names(&["securityGroups"]) {
            let path = ["securityGroups", group, "ingress"];
            let said = |count| {
                format!(
                    "the security group {group} has {count} rules, and AWS allows {RULES} by default"
                )
            };
            let about = format!("securityGroups.{group}");
            findings.extend(over_default(model, &path, RULES, said).map(|f| f.about(about)));
        }
        Outcome { value: Rendering::default(), findings }
    }
}

fn stack_counts(model: &Model, stack: &str, findings: &mut Findings) {
    let resources = model.names(&["stacks", stack, "resources"]).len();
    let parameters = derived_parameters(model, stack).len()
        + model.names(&["stacks", stack, "parameters"]).len();
    let outputs = model.names(&["stacks", stack, "outputs"]).len();
    let who = |part: &str| owners(model, &["stacks", stack, part]);
    let subject = format!("the stack {stack} has");
    over(
        findings,
        "limits/resources",
        &subject,
        resources,
        RESOURCES,
        "resources",
        &who("resources"),
    );
    over(findings, "limits/parameters", &subject, parameters, PARAMETERS, "parameters", "");
    over(findings, "limits/outputs", &subject, outputs, OUTPUTS, "outputs", &who("outputs"));
}

fn policies(model: &Model, group: &str, findings: &mut Findings) {
    let statements = model.entities(&["iam", group, "statements"]);
    let size: usize =
        statements.map(|(sid, e)| sid.len() + 9 + e.body.to_value().to_string().len()).sum();
    let subject = format!("the inline policy of {group} has");
    over(
        findings,
        "limits/policy-size",
        &subject,
        size,
        POLICY,
        "characters",
        &owners(model, &["iam", group, "statements"]),
    );
    let path = ["iam", group, "managedPolicies"];
    let said = |count| {
        format!(
            "the role of {group} has {count} managed policies, and AWS attaches {MANAGED_POLICIES} by default"
        )
    };
    let about = format!("iam.{group}.managedPolicies");
    findings.extend(over_default(model, &path, MANAGED_POLICIES, said).map(|f| f.about(about)));
}

/// A limit that AWS raises on request: more is a warning, which names those who make it so many.
fn over_default(
    model: &Model,
    path: &[&str],
    most: usize,
    said: impl Fn(usize) -> String,
) -> Option<Finding> {
    let count = model.names(path).len();
    let code =
        if path[0] == "iam" { "limits/managed-policies" } else { "limits/security-group-rules" };
    (count > most).then(|| Finding::warning(code, said(count)).note(owners(model, path)))
}

fn over(
    findings: &mut Findings,
    code: &str,
    subject: &str,
    size: usize,
    limit: usize,
    unit: &str,
    who: &str,
) {
    if size <= limit {
        return;
    }
    let finding = Finding::fatal(code, format!("{subject} {size} {unit}, and AWS takes {limit}"));
    findings.push(if who.is_empty() { finding } else { finding.note(who.to_owned()) });
}

/// Returns how many entities each plugin has below `path`, most first.
fn owners(model: &Model, path: &[&str]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    model.walk(path, &mut |_, entity| {
        for owner in entity.owner_names() {
            *counts.entry(owner.to_owned()).or_default() += 1;
        }
    });
    shares(counts)
}

/// Returns how many bytes each plugin's resources have in a stack, most first.
fn largest(model: &Model, stack: &str) -> String {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for (_, entity) in model.entities(&["stacks", stack, "resources"]) {
        let size = Node::to_value(&entity.body).to_string().len();
        for owner in entity.owner_names() {
            *sizes.entry(owner.to_owned()).or_default() += size;
        }
    }
    shares(sizes)
}

fn shares(counts: BTreeMap<String, usize>) -> String {
    let mut all: Vec<(String, usize)> = counts.into_iter().collect();
    all.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    let shown: Vec<String> = all.iter().take(5).map(|(name, n)| format!("{name} {n}")).collect();
    format!("by plugin: {}", shown.join(", "))
}
