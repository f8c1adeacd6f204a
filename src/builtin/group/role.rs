//! The role of a group's machines: the statements of all plugins, and what its files make it read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::config::{Group, Role};
use crate::finding::{Finding, Findings};
use crate::model::{Entity, Model, placeholders};
use crate::name::Name;
use crate::origin::Origin;
use crate::plugin::{Artifact, Context, Contribution, Rendering};
use crate::value::{Data, Node, Path};

/// Returns the instance profile of a group: an existing one, or a reference to the one [`role`] puts.
pub(in crate::builtin) fn profile(cx: &Context<'_>, group: &Group) -> Value {
    match existing(cx, group) {
        Some(name) => json!({"Name": name}),
        None => json!({"Arn": {"Fn::GetAtt": ["Profile", "Arn"]}}),
    }
}

fn existing<'a>(cx: &Context<'a>, group: &Group) -> Option<&'a String> {
    let profiles = &cx.config.iam.instance_profiles;
    profiles.get(&group.key).or_else(|| profiles.get(group.role.as_ref()))
}

/// Puts the role and profile of a group into its stack, or writes what an existing one needs.
pub(in crate::builtin) fn role(
    cx: &Context<'_>,
    model: &Model,
    group: &Group,
    out: &mut Rendering,
    findings: &mut Findings,
) {
    let (statements, from) = statements(cx, model, group);
    if let Some(name) = existing(cx, group) {
        let who = format!("the instance profile {name}");
        return for_existing(cx, &group.folder(), &who, statements, out, findings);
    }
    let me = cx.me.name.as_str();
    let iam = &cx.config.iam;
    let mut properties = json!({"AssumeRolePolicyDocument": {
        "Statement": [{"Action": "sts:AssumeRole", "Effect": "Allow", "Principal": {"Service": service(cx)}}],
        "Version": "2012-10-17"}, "Path": iam.path});
    let mut profile = json!({"Path": iam.path, "Roles": [{"Ref": "Role"}]});
    if let (Some(map), Some(profile)) = (properties.as_object_mut(), profile.as_object_mut()) {
        map.extend(
            iam.permissions_boundary
                .clone()
                .map(|arn| ("PermissionsBoundary".to_owned(), arn.into())),
        );
        if let Some(prefix) = &iam.prefix {
            let name = format!("{prefix}{}-{}", cx.config.name, group.label());
            map.insert("RoleName".to_owned(), name.clone().into());
            profile.insert("InstanceProfileName".to_owned(), name.into());
        }
    }
    let policies: Vec<Value> = model
        .entities(&["iam", &group.key, "managedPolicies"])
        .map(|(_, e)| e.body.to_value())
        .collect();
    if let (false, Some(map)) = (policies.is_empty(), properties.as_object_mut()) {
        map.insert("ManagedPolicyArns".to_owned(), policies.into());
    }
    let place = Contribution::default().put(me, ["x"], json!({})).body.origin.clone();
    let mut properties = Node::from_value(properties, &place);
    if let (false, Some(map)) = (statements.is_empty(), properties.as_map_mut()) {
        map.insert("Policies".to_owned(), policy(statements, &place));
    }
    let mut body = Node::from_value(json!({"Type": "AWS::IAM::Role"}), &place);
    if let Some(map) = body.as_map_mut() {
        map.insert("Properties".to_owned(), properties);
    }
    let made = out.contribution.put_node(["stacks", &group.stack, "resources", "Role"], body);
    from.into_iter().for_each(|path| {
        made.from(path);
    });
    let body = json!({"Type": "AWS::IAM::InstanceProfile", "Properties": profile});
    out.contribution.put(me, ["stacks", &group.stack, "resources", "Profile"], body);
}

fn service(cx: &Context<'_>) -> String {
    format!("ec2.{}", cx.config.partition().dns_suffix())
}

fn policy(statements: Vec<Node>, place: &crate::origin::Origin) -> Node {
    let mut document = Node::from_value(json!({"Version": "2012-10-17"}), place);
    if let Some(map) = document.as_map_mut() {
        map.insert("Statement".to_owned(), Node::new(Data::List(statements), place.clone()));
    }
    let mut policy = Node::from_value(json!({"PolicyName": "kaws"}), place);
    if let Some(map) = policy.as_map_mut() {
        map.insert("PolicyDocument".to_owned(), document);
    }
    Node::new(Data::List(vec![policy]), place.clone())
}

/// Returns the group's statements by Sid, each noted with its owners, and the paths they come from.
fn statements(cx: &Context<'_>, model: &Model, group: &Group) -> (Vec<Node>, Vec<Path>) {
    let mut all: BTreeMap<String, Node> = BTreeMap::new();
    let mut from = Vec::new();
    for (sid, entity) in model.entities(&["iam", &group.key, "statements"]) {
        let mut body = (*entity.body).clone().noted(entity.owner_names().join(", "));
        let origin = body.origin.clone();
        if let Some(map) = body.as_map_mut() {
            map.insert("Sid".to_owned(), Node::string(sid, origin));
        }
        all.insert(sid.to_owned(), body);
        from.push(Path::of(["iam", group.key.as_str(), "statements", sid]));
    }
    for (name, _) in model.entities(&["iam", &group.key, "managedPolicies"]) {
        from.push(Path::of(["iam", group.key.as_str(), "managedPolicies", name]));
    }
    let secrets = secrets_of(model, group);
    if !secrets.names.is_empty() {
        let bucket = cx.config.bucket();
        let arn = |name: &String| json!({"Fn::Sub": format!("arn:${{AWS::Partition}}:s3:::{bucket}/secrets/{name}")});
        let resources: Vec<Value> = secrets.names.iter().map(arn).collect();
        let body = json!({"Sid": "ReadPluginSecrets", "Effect": "Allow", "Action": "s3:GetObject", "Resource": resources});
        let place = Origin::code(cx.me.name.as_str(), std::panic::Location::caller());
        let owners: Vec<String> = secrets.owners.into_iter().collect();
        all.insert(
            "ReadPluginSecrets".to_owned(),
            Node::from_value(body, &place).noted(owners.join(", ")),
        );
        from.extend(secrets.paths);
    }
    (all.into_values().collect(), from)
}

/// What a group reads of secrets: their names, who made it so, and where.
#[derive(Default)]
struct Secrets {
    names: BTreeSet<String>,
    owners: BTreeSet<String>,
    paths: Vec<Path>,
}

impl Secrets {
    /// Adds what one entity names: in placeholders of a text that is filled in, or as references.
    fn add(&mut self, path: &[&str], entity: &Entity) {
        let mut names = BTreeSet::new();
        entity.body.walk(&mut |part| {
            let text = part.as_str().unwrap_or_default();
            let placed =
                placeholders(text).filter(|(word, _)| *word == "secret").map(|(_, name)| name);
            names.extend(
                placed.chain(part.sole("$secret").and_then(Node::as_str)).map(str::to_owned),
            );
        });
        if !names.is_empty() {
            self.names.extend(names);
            self.owners.extend(entity.owner_names().iter().map(|o| (*o).to_owned()));
            self.paths.push(Path::of(path.iter().copied()));
        }
    }
}

/// Returns the secrets that a group's files and units name; controllers also read those of add-ons, which
/// they apply.
fn secrets_of(model: &Model, group: &Group) -> Secrets {
    let mut secrets = Secrets::default();
    for part in ["files", "units", "dropins"] {
        for (key, entity) in model.entities(&["machines", &group.key, part]) {
            if entity.body.get("fill").and_then(Node::as_bool) == Some(true) {
                secrets.add(&["machines", &group.key, part, key], entity);
            }
        }
    }
    if group.role == Role::Controller {
        model.walk(&["helm", "releases"], &mut |path, entity| secrets.add(path, entity));
        model.walk(&["manifests"], &mut |path, entity| secrets.add(path, entity));
    }
    secrets
}

/// An existing role gets no policy of ours: what it needs is written down, for whoever may attach it.
pub(in crate::builtin) fn for_existing(
    cx: &Context<'_>,
    file: &str,
    who: &str,
    statements: Vec<Node>,
    out: &mut Rendering,
    findings: &mut Findings,
) {
    if statements.is_empty() {
        return;
    }
    let statements: Vec<Value> = statements.iter().map(|n| literal(cx, &n.to_value())).collect();
    let document = json!({"Version": "2012-10-17", "Statement": statements});
    let path = format!("iam/{file}.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&document).unwrap_or_default());
    let me: &Name = &cx.me.name;
    out.artifacts.insert(path.clone(), Artifact::text(me, &text));
    let message = format!("{who} gets no policy of kaws's: it needs what rendered/{path} says");
    let subject = format!("iam/{file}");
    let finding = Finding::warning("config/account-role", message).by(me).about(subject);
    findings.push(finding.help("attach that policy to the role, then silence this: accept: {config/account-role: attached}"));
}

/// Returns a value without CloudFormation's functions, as far as they are known here: a policy to attach
/// by hand has none.
fn literal(cx: &Context<'_>, value: &Value) -> Value {
    match value {
        Value::Object(map) if map.len() == 1 => match map.iter().next() {
            Some((key, Value::String(text))) if key == "Fn::Sub" => {
                let text = text.replace("${AWS::Partition}", cx.config.partition().as_ref());
                let text = text.replace("${AWS::Region}", &cx.config.region);
                json!(text.replace("${AWS::AccountId}", &cx.config.account))
            }
            Some((key, Value::String(name))) if key == "$output" => {
                json!(format!("<output {name}>"))
            }
            _ => Value::Object(map.iter().map(|(k, v)| (k.clone(), literal(cx, v))).collect()),
        },
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), literal(cx, v))).collect())
        }
        Value::Array(items) => items.iter().map(|v| literal(cx, v)).collect(),
        other => other.clone(),
    }
}
