//! The way to the API server: load balancers, rules and ports.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{about, resources, setter, text};
use super::machines::groups_of;
use super::named;
use crate::builtin::api_server::HEALTH;
use crate::finding::{Finding, Findings};
use crate::model::{Entity, Model};
use crate::plugin::Context;

/// The load balancer asks the port that the API server listens on.
pub(super) fn ports(model: &Model, findings: &mut Findings) {
    if let Some(port) = text(model, "apiServer", "secure-port").filter(|p| p != "6443")
        && let Some(entity) = setter(model, "apiServer", "secure-port")
    {
        let text = format!(
            "the API server would listen on {port}, and load balancers and machines ask for it on 6443"
        );
        let finding = Finding::fatal("boot/port", text);
        findings.push(
            about(finding, &["apiServer", "flags", "secure-port"], entity).help("leave it at 6443"),
        );
    }
    for (section, port) in [("controllerManager", "10257"), ("scheduler", "10259")] {
        if let Some(found) = text(model, section, "secure-port").filter(|p| p != port)
            && let Some(entity) = setter(model, section, "secure-port")
        {
            let text =
                format!("{section} would answer on {found}, and its health is asked for on {port}");
            findings.push(about(
                Finding::fatal("boot/port", text),
                &[section, "flags", "secure-port"],
                entity,
            ));
        }
    }
}

/// Load balancers ask for health where it is told, on the port that is listened on.
pub(super) fn targets(model: &Model, findings: &mut Findings) {
    let controllers = ["stacks", "control-plane", "resources", "Group"];
    let Some(group) = model.entity(&controllers) else { return };
    let arns = group.body.to_value()["Properties"]["TargetGroupARNs"].clone();
    for arn in arns.as_array().into_iter().flatten() {
        let (stack, id) = named(arn, "control-plane");
        let path = ["stacks", stack.as_str(), "resources", id.as_str()];
        if let Some(entity) = model.entity(&path) {
            target_group(&path, entity, findings);
        }
    }
}

/// Load balancers and pods of workers reach the API server on controllers.
pub(super) fn ways_in(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let Some((stack, own)) = groups_of(model, "control-plane").into_iter().next() else { return };
    let let_in = let_in(model, &stack, &own);
    for group in cx.groups.iter().filter(|group| group.pool.is_some()) {
        let groups = groups_of(model, &group.stack);
        if !groups.iter().any(|(_, from)| let_in.contains(from)) {
            let path = ["stacks", group.stack.as_str(), "resources", "LaunchTemplate"];
            let Some(entity) = model.entity(&path) else { continue };
            let text =
                format!("pods on machines of {} may not reach the API server", group.label());
            let finding = about(Finding::fatal("boot/way-in", text), &path, entity);
            findings.push(
                finding.help("put back the rule that lets workers reach controllers on port 6443"),
            );
        }
    }
    resources(model, "AWS::ElasticLoadBalancingV2::LoadBalancer", &mut |path, entity, body| {
        if path[1] != stack {
            return;
        }
        let groups = body["Properties"]["SecurityGroups"].as_array().cloned().unwrap_or_default();
        let mut own_groups = groups.iter().map(|group| named(group, &stack).1).peekable();
        if own_groups.peek().is_some() && !own_groups.any(|group| let_in.contains(&group)) {
            let id = path.last().copied().unwrap_or_default();
            let text = format!("the load balancer {id} may not reach controllers on port 6443");
            let finding = about(Finding::fatal("boot/way-in", text), path, entity);
            findings.push(finding.help("put back the rule that lets its security group in"));
        }
    });
}

fn target_group(path: &[&str], entity: &Entity, findings: &mut Findings) {
    let body = entity.body.to_value();
    let properties = &body["Properties"];
    let id = path.last().copied().unwrap_or_default();
    let mut wrong = |text: String, help: &str| {
        let finding = about(Finding::fatal("boot/target-group", text), path, entity);
        findings.push(finding.help(help.to_owned()));
    };
    let asked = properties["HealthCheckPath"].as_str().unwrap_or_default();
    if !HEALTH.contains(&asked) {
        wrong(
            format!("{id} asks for {asked}, and the API server answers that to nobody unknown"),
            "HealthCheckPath: /readyz",
        );
    }
    if properties["Port"] != 6443 {
        wrong(
            format!(
                "{id} sends to port {}, and the API server listens on 6443",
                properties["Port"]
            ),
            "Port: 6443",
        );
    }
    let attributes = properties["TargetGroupAttributes"].as_array().cloned().unwrap_or_default();
    let kept = |a: &Value| a["Key"] == "preserve_client_ip.enabled" && a["Value"] == "false";
    if !attributes.iter().any(kept) {
        wrong(
            format!(
                "{id} keeps clients' addresses: a controller that reaches itself gets no answer"
            ),
            "preserve_client_ip.enabled: false among TargetGroupAttributes",
        );
    }
}

/// The security groups that rules let into another on the API server's port.
fn let_in(model: &Model, stack: &str, into: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    resources(model, "AWS::EC2::SecurityGroupIngress", &mut |path, _, body| {
        let rule = &body["Properties"];
        let port = |key: &str| rule[key].as_i64();
        let covers = rule["IpProtocol"] == "-1"
            || port("FromPort").is_some_and(|p| p <= 6443)
                && port("ToPort").is_some_and(|p| p >= 6443);
        if path[1] == stack && named(&rule["GroupId"], stack).1 == into && covers {
            all.insert(named(&rule["SourceSecurityGroupId"], stack).1);
        }
    });
    all
}
