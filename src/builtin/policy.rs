//! `policy`: looks at what comes out, whoever put it there: open rules, public buckets, volumes without
//! encryption, statements that allow everything.

use serde_json::Value;

use crate::finding::{Finding, Findings, Outcome};
use crate::model::{Entity, Model};
use crate::origin::Origin;
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::Node;

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Policy;

impl Plugin for Policy {
    fn render(&self, _: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut findings = Findings::new();
        model.walk(&["stacks"], &mut |path, entity| {
            if let [_, stack, "resources", id] = path {
                resource(&format!("{stack}/{id}"), entity, &mut findings);
            }
        });
        Outcome { value: Rendering::default(), findings }
    }
}

/// The types that are looked at; writing out the others would take longer than looking.
const LOOKED_AT: [&str; 6] = [
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::Volume",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::S3::Bucket",
];

fn resource(id: &str, entity: &Entity, findings: &mut Findings) {
    let kind = entity.body.get("Type").and_then(Node::as_str).unwrap_or_default();
    if !LOOKED_AT.contains(&kind) {
        return;
    }
    let body = entity.body.to_value();
    let properties = &body["Properties"];
    let whole = entity.owners[0].origin().clone();
    let mut warn = |code: &str, text: String, at: &Origin| {
        findings.push(Finding::warning(code, text).at(at).about(id.to_owned()));
    };
    match kind {
        "AWS::EC2::SecurityGroupIngress" if open(properties) => {
            let to = properties["ToPort"].as_u64();
            // The API's own openness is said where it is set: api.allowedCIDRs.
            if !id.starts_with("network/ApiIngressAllowed") {
                let port = to.map_or_else(|| "every port".to_owned(), |p| format!("port {p}"));
                warn(
                    "policy/open-ingress",
                    format!("{id} lets the whole internet reach {port}"),
                    &whole,
                );
            }
        }
        "AWS::S3::Bucket" if !blocks_public(properties) && !is_meant_public(&body) => {
            warn(
                "policy/public-bucket",
                format!("the bucket {id} does not block public access"),
                &whole,
            );
        }
        "AWS::EC2::Volume" if properties["Encrypted"] != Value::Bool(true) => {
            warn("policy/unencrypted-volume", format!("the volume {id} is not encrypted"), &whole);
        }
        "AWS::IAM::Role" | "AWS::IAM::Policy" | "AWS::IAM::ManagedPolicy" => {
            for (action, origin) in wildcard_actions(&entity.body) {
                warn("policy/wildcard-action", format!("{id} allows {action}"), &origin);
            }
        }
        _ => {}
    }
}

fn open(properties: &Value) -> bool {
    properties["CidrIp"] == "0.0.0.0/0" || properties["CidrIpv6"] == "::/0"
}

fn blocks_public(properties: &Value) -> bool {
    let block = &properties["PublicAccessBlockConfiguration"];
    ["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"]
        .iter()
        .all(|k| block[*k] == Value::Bool(true))
}

/// A resource can say of itself that all may read it: Metadata.kaws.public, with the reason.
fn is_meant_public(body: &Value) -> bool {
    body["Metadata"]["kaws"]["public"].is_string()
}

/// Returns the actions of allowing statements that end in `*` alone, and where they are written.
fn wildcard_actions(body: &Node) -> Vec<(String, Origin)> {
    let mut found = Vec::new();
    body.walk(&mut |part| {
        let allows = part.get("Effect").and_then(Node::as_str) == Some("Allow");
        let Some(action) = part.get("Action").filter(|_| allows) else { return };
        let all = action.as_list().map_or_else(|| vec![action], |items| items.iter().collect());
        let wide = |a: &&&Node| a.as_str().is_some_and(|text| text == "*" || text.ends_with(":*"));
        found.extend(
            all.iter()
                .filter(wide)
                .map(|a| (a.as_str().unwrap_or_default().to_owned(), a.origin.clone())),
        );
    });
    found.sort();
    found.dedup();
    found
}
