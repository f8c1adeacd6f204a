//! `iam`: what belongs to no group: the provider that AWS trusts for service accounts, and their roles.

use serde_json::{Map, Value, json};

use crate::finding::{Findings, Outcome};
use crate::model::Model;
use crate::name::camel;
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::{Node, Path};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Iam;

impl Plugin for Iam {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let accounts = model.names(&["iam", "serviceAccounts"]);
        if accounts.is_empty() {
            return Outcome::clean(out);
        }
        if !cx.config.iam.instance_profiles.is_empty() {
            return for_existing(cx, model, &accounts);
        }
        let me = cx.me.name.as_str();
        let issuer = cx.config.issuer();
        let description =
            format!("Kubernetes cluster {}, roles of service accounts", cx.config.name);
        out.contribution.put(me, ["stacks", "iam", "description"], json!(description));
        let provider = json!({"Type": "AWS::IAM::OIDCProvider", "Properties": {"ClientIdList": ["sts.amazonaws.com"], "Url": issuer}});
        out.contribution.put(me, ["stacks", "iam", "resources", "Provider"], provider);
        // The provider's documents lie in a bucket of the state stack.
        out.contribution.put(me, ["stacks", "iam", "after", "state"], json!(true));
        for account in accounts {
            role(cx, model, account, &issuer, &mut out);
        }
        Outcome::clean(out)
    }
}

/// Where kaws creates no roles, what service accounts need is written down like what groups need.
fn for_existing(cx: &Context<'_>, model: &Model, accounts: &[&str]) -> Outcome<Rendering> {
    let mut out = Rendering::default();
    let mut findings = Findings::new();
    for account in accounts {
        let statements = model.entities(&["iam", "serviceAccounts", account, "statements"]);
        let nodes: Vec<Node> = statements.map(|(sid, e)| with_sid(&e.body, sid)).collect();
        let file = format!("service-account-{}", account.replace('/', "-"));
        super::group::for_existing(
            cx,
            &file,
            &format!("the service account {account}"),
            nodes,
            &mut out,
            &mut findings,
        );
    }
    Outcome { value: out, findings }
}

fn with_sid(body: &Node, sid: &str) -> Node {
    let mut body = body.clone();
    let origin = body.origin.clone();
    if let Some(map) = body.as_map_mut() {
        map.insert("Sid".to_owned(), Node::string(sid, origin));
    }
    body
}

fn role(cx: &Context<'_>, model: &Model, account: &str, issuer: &str, out: &mut Rendering) {
    let id = format!("Role{}", camel(account));
    let path = ["iam", "serviceAccounts", account, "statements"];
    let mut from = Vec::new();
    let mut statements = Vec::new();
    for (sid, entity) in model.entities(&path) {
        let mut body = entity.body.to_value();
        if let Some(map) = body.as_object_mut() {
            map.insert("Sid".to_owned(), sid.into());
        }
        statements.push((body, entity.owner_names().join(", ")));
        from.push(Path::of(path).join(sid));
    }
    let host = issuer.trim_start_matches("https://");
    let (namespace, name) = account.split_once('/').unwrap_or(("default", account));
    // The key of the condition holds the issuer, so it cannot be a function.
    let mut conditions = Map::new();
    conditions.insert(format!("{host}:aud"), json!("sts.amazonaws.com"));
    conditions
        .insert(format!("{host}:sub"), json!(format!("system:serviceaccount:{namespace}:{name}")));
    let trust = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": {"Ref": "Provider"}}, "Condition": {"StringEquals": conditions}}]});
    let documents: Vec<Value> = statements.iter().map(|(body, _)| body.clone()).collect();
    let mut properties = json!({"AssumeRolePolicyDocument": trust, "Path": cx.config.iam.path,
        "Policies": [{"PolicyName": "kaws", "PolicyDocument": {"Version": "2012-10-17", "Statement": documents}}]});
    if let (Some(arn), Some(map)) =
        (&cx.config.iam.permissions_boundary, properties.as_object_mut())
    {
        map.insert("PermissionsBoundary".to_owned(), arn.clone().into());
    }
    let me = cx.me.name.as_str();
    let made = out.contribution.put(
        me,
        ["stacks", "iam", "resources", &id],
        json!({"Type": "AWS::IAM::Role", "Properties": properties}),
    );
    for path in from {
        made.from(path);
    }
    let noted =
        made.body.at(&["Properties", "Policies", "0", "PolicyDocument", "Statement"]).is_some();
    if noted {
        note(
            &mut made.body,
            &statements.iter().map(|(_, owners)| owners.as_str()).collect::<Vec<_>>(),
        );
    }
    let output = json!({"Value": {"Fn::GetAtt": [id, "Arn"]}});
    out.contribution.put(me, ["stacks", "iam", "outputs", &format!("{id}Arn")], output);
}

/// Notes each statement with its owners.
fn note(body: &mut Node, owners: &[&str]) {
    let path = ["Properties", "Policies", "0", "PolicyDocument", "Statement"];
    let statements = path.iter().try_fold(body, |node, segment| match &mut node.data {
        crate::value::Data::Map(map) => map.get_mut(*segment),
        crate::value::Data::List(items) => items.get_mut(segment.parse::<usize>().ok()?),
        _ => None,
    });
    if let Some(crate::value::Data::List(items)) = statements.map(|n| &mut n.data) {
        for (item, owners) in items.iter_mut().zip(owners) {
            item.set_note(*owners);
        }
    }
}
