//! The way to the API server: load balancers, rules and ports.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{about, resources, setter, text};
use super::machines::{groups_of, number};
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

/// The load balancers and target groups that kaws makes for the API; others are whose they are.
const BALANCERS: [&str; 2] = ["ApiBalancer", "ApiPublicBalancer"];
const TARGETS: [&str; 2] = ["ApiTargets", "ApiPublicTargets"];

/// Load balancers ask for health where it is told, on the port that is listened on.
pub(super) fn targets(model: &Model, findings: &mut Findings) {
    for id in TARGETS {
        let path = ["stacks", "network", "resources", id];
        if let Some(entity) = model.entity(&path) {
            target_group(&path, entity, findings);
        }
    }
}

fn target_group(path: &[&str], entity: &Entity, findings: &mut Findings) {
    let body = entity.body.to_value();
    let properties = &body["Properties"];
    let id = path.last().copied().unwrap_or_default();
    let mut wrong = |text: String, help: &str| {
        let finding = about(Finding::fatal("boot/target-group", text), path, entity);
        findings.push(finding.help(help.to_owned()));
    };
    let http = properties["HealthCheckProtocol"].as_str().is_some_and(|p| p.starts_with("HTTP"));
    let asked = properties["HealthCheckPath"].as_str().unwrap_or_default();
    if http && !HEALTH.contains(&asked.split('?').next().unwrap_or_default()) {
        wrong(
            format!("{id} asks for {asked}, and the API server answers that to nobody unknown"),
            "HealthCheckPath: /readyz",
        );
    }
    if number(&properties["Port"]) != Some(6443) {
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

/// Load balancers and pods of workers reach the API server on controllers.
pub(super) fn ways_in(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let controllers = groups_of(model, "control-plane");
    let Some(let_in) = let_in(model, &controllers) else { return };
    for group in cx.groups.iter().filter(|group| group.pool.is_some()) {
        let groups = groups_of(model, &group.stack);
        if !groups.is_empty() && !groups.iter().any(|from| let_in.contains(from)) {
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
    for id in BALANCERS {
        let path = ["stacks", "network", "resources", id];
        let Some(entity) = model.entity(&path) else { continue };
        let groups = entity.body.to_value()["Properties"]["SecurityGroups"].clone();
        let groups = groups.as_array().cloned().unwrap_or_default();
        if !groups.is_empty() && !groups.iter().any(|g| let_in.contains(&named(g, "network"))) {
            let text = format!("the load balancer {id} may not reach controllers on port 6443");
            let finding = about(Finding::fatal("boot/way-in", text), &path, entity);
            findings.push(finding.help("put back the rule that lets its security group in"));
        }
    }
}

/// The security groups that rules let into one of some groups on the API server's port. Nothing is said where a
/// rule lets in addresses, or where the groups are not of this cluster: who these are is not known here.
fn let_in(model: &Model, into: &[(String, String)]) -> Option<BTreeSet<(String, String)>> {
    let own = |(stack, id): &(String, String)| {
        let group = model.entity(&["stacks", stack, "resources", id])?;
        group.body.at(&["Properties", "SecurityGroupIngress"]).is_none().then_some(())
    };
    if into.is_empty() || into.iter().any(|group| own(group).is_none()) {
        return None;
    }
    let (mut all, mut addresses) = (BTreeSet::new(), false);
    resources(model, "AWS::EC2::SecurityGroupIngress", &mut |path, _, body| {
        let rule = &body["Properties"];
        let port = |key: &str| number(&rule[key]);
        let covers = rule["IpProtocol"] == "-1"
            || port("FromPort").is_some_and(|p| p <= 6443)
                && port("ToPort").is_some_and(|p| p >= 6443);
        if covers && into.contains(&named(&rule["GroupId"], path[1])) {
            let source = &rule["SourceSecurityGroupId"];
            addresses |= source.is_null();
            all.insert(named(source, path[1]));
        }
    });
    (!addresses).then_some(all)
}
