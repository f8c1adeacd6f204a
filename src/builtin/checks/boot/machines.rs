//! Machines as AWS makes them: what they reach, how they are counted and waited for, and their groups.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{about, resources};
use super::named;
use crate::config::{Nat, Role};
use crate::finding::{Finding, Findings};
use crate::model::Model;
use crate::plugin::Context;

/// Machines fetch programs and images: without a way out they need a mirror.
pub(super) fn ways_out(cx: &Context<'_>, findings: &mut Findings) {
    let network = &cx.config.network;
    if network.nat == Nat::None && cx.config.assets.mirror.is_none() {
        let text = "machines have no way out (network.nat: none), and programs and images come from the internet";
        let finding = Finding::warning("boot/no-way-out", text).about("network.nat");
        findings.push(finding.help("name a mirror that they reach (assets.mirror), or accept this where your VPC has a way"));
    }
}

/// A hook that nobody completes holds every termination until it times out.
pub(super) fn hooks(model: &Model, findings: &mut Findings) {
    resources(model, "AWS::AutoScaling::LifecycleHook", &mut |path, entity, body| {
        if body["Metadata"]["kaws"]["completedBy"].is_null() {
            let text = format!(
                "nothing completes the lifecycle hook {}: each machine waits for its timeout",
                path.last().copied().unwrap_or_default()
            );
            let finding = about(Finding::warning("boot/lifecycle-hook", text), path, entity);
            findings.push(finding.help("say who does: Metadata: {kaws: {completedBy: NAME}}"));
        }
    });
}

/// The cloud controller refuses a machine with two groups of the cluster, or none.
pub(super) fn security_groups(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let tag = format!("kubernetes.io/cluster/{}", cx.config.name);
    let mut tagged: BTreeSet<(String, String)> = BTreeSet::new();
    resources(model, "AWS::EC2::SecurityGroup", &mut |path, _, body| {
        let tags = body["Properties"]["Tags"].as_array().cloned().unwrap_or_default();
        if tags.iter().any(|t| t["Key"] == tag.as_str())
            && let [_, stack, "resources", id] = path
        {
            tagged.insert(((*stack).to_owned(), (*id).to_owned()));
        }
    });
    for group in cx.groups.iter().filter(|g| g.role != Role::Etcd) {
        let path = ["stacks", group.stack.as_str(), "resources", "LaunchTemplate"];
        let Some(entity) = model.entity(&path) else { continue };
        let groups = groups_of(model, &group.stack);
        let count = groups.iter().filter(|g| tagged.contains(*g)).count();
        if count != 1 {
            let text = format!(
                "machines of {} have {count} security groups with the cluster's tag, and must have one",
                group.label()
            );
            findings.push(
                about(Finding::fatal("boot/security-group", text), &path, entity)
                    .help("the cloud controller puts load balancers' rules into the tagged group"),
            );
        }
    }
}

/// The security groups of a stack's machines, each as stack and resource.
pub(super) fn groups_of(model: &Model, stack: &str) -> Vec<(String, String)> {
    let template = model.entity(&["stacks", stack, "resources", "LaunchTemplate"]);
    let body = template.map(|t| t.body.to_value()).unwrap_or_default();
    let interfaces = &body["Properties"]["LaunchTemplateData"]["NetworkInterfaces"];
    let groups = interfaces[0]["Groups"].as_array().cloned().unwrap_or_default();
    groups.iter().map(|group| named(group, stack)).collect()
}

/// The least time in seconds that a machine is given to come up: it downloads its programs first.
const LEAST: u64 = 300;

/// CloudFormation waits for as many signals as there are machines, and long enough.
pub(super) fn signals(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    resources(model, "AWS::AutoScaling::AutoScalingGroup", &mut |path, entity, body| {
        // Groups of plugins' own do not run the programs that signal.
        if !cx.groups.iter().any(|group| group.stack == path[1]) {
            return;
        }
        let name = format!("{}/{}", path[1], path.last().copied().unwrap_or_default());
        let mut wrong = |finding: Finding, help: &str| {
            findings.push(about(finding, path, entity).help(help.to_owned()));
        };
        let properties = &body["Properties"];
        let wanted =
            number(&properties["DesiredCapacity"]).or_else(|| number(&properties["MinSize"]));
        let signal = &body["CreationPolicy"]["ResourceSignal"];
        let count = if signal.is_null() { Some(0) } else { number(&signal["Count"]).or(Some(1)) };
        if let (Some(wanted), Some(count)) = (wanted, count)
            && wanted != count
        {
            let text =
                format!("{name} begins with {wanted} machines, and {count} signals are waited for");
            wrong(
                Finding::fatal("boot/signals", text),
                "CreationPolicy: {ResourceSignal: {Count: …}} is the number of machines",
            );
        }
        let update = &body["UpdatePolicy"]["AutoScalingRollingUpdate"];
        // A group that kaws itself rolls has no policy.
        if !update.is_null() && update["WaitOnResourceSignals"] != true {
            let text = format!("{name} is rolled without waiting for new machines to be healthy");
            wrong(
                Finding::fatal("boot/signals", text),
                "UpdatePolicy: {AutoScalingRollingUpdate: {WaitOnResourceSignals: true}}",
            );
        }
        for time in [&signal["Timeout"], &update["PauseTime"]] {
            if let Some(text) = time.as_str().filter(|t| seconds(t).is_some_and(|s| s < LEAST)) {
                let said = format!(
                    "{name} gives a machine {text} to come up, and it downloads its programs first"
                );
                wrong(
                    Finding::warning("boot/signals", said),
                    "give it five minutes or more (timeout:)",
                );
            }
        }
    });
}

pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// `PT1H30M` in seconds.
fn seconds(text: &str) -> Option<u64> {
    let mut rest = text.strip_prefix("PT")?;
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let number: u64 = rest[..rest.len() - digits.len()].parse().ok()?;
        let factor = match digits.chars().next()? {
            'H' => 3_600,
            'M' => 60,
            'S' => 1,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(factor)?)?;
        rest = &digits[1..];
    }
    Some(sum)
}

/// Load balancers of services find their subnets by tags.
pub(super) fn subnets(model: &Model, findings: &mut Findings) {
    resources(model, "AWS::EC2::Subnet", &mut |path, entity, body| {
        let tags = body["Properties"]["Tags"].as_array().cloned().unwrap_or_default();
        let roles = ["kubernetes.io/role/elb", "kubernetes.io/role/internal-elb"];
        let tagged = tags.iter().any(|tag| roles.iter().any(|role| tag["Key"] == *role));
        if !tagged {
            let id = path.last().copied().unwrap_or_default();
            let text =
                format!("the subnet {id} has no tag that says which load balancers may lie in it");
            let finding = about(Finding::warning("boot/subnet-tags", text), path, entity);
            findings.push(finding.help("kubernetes.io/role/elb: 1 for public ones, kubernetes.io/role/internal-elb: 1 for others"));
        }
    });
}

/// Where kaws creates no roles, pods have those of their machines, and only if these let them.
pub(super) fn credentials(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let accounts = model.names(&["iam", "serviceAccounts"]);
    if cx.config.iam.instance_profiles.is_empty() || accounts.is_empty() {
        return;
    }
    for group in cx.groups.iter().filter(|group| group.pool.is_some()) {
        let hops = model.entity(&["machines", &group.key, "metadataHopLimit"]);
        let hops = hops.and_then(|entity| entity.body.to_value().as_u64()).unwrap_or(1);
        if hops < 2 {
            let text = format!(
                "pods on machines of {} have no rights on AWS: kaws creates no roles here, and the machine's is out of their reach",
                group.label()
            );
            let finding = Finding::warning("boot/no-credentials", text)
                .note(format!("it is about {}", accounts.join(", ")));
            findings.push(
                finding
                    .about(format!("machines.{}.metadataHopLimit", group.key))
                    .help("attach the statements in rendered/iam to the machines' role, and write customise: {machines: {worker: {metadataHopLimit: 2}}}")
                    .help("accept this where nothing of theirs runs on these machines"),
            );
        }
    }
}
