//! Launch templates and the user data in them.

use serde_json::{Map, Value, json};

use crate::config::{Group, Role};
use crate::model::{Model, placeholders};
use crate::plugin::{Artifacts, Context};
use crate::value::{Node, Path};

/// What differs between launch templates.
pub(in crate::builtin) struct Launch {
    /// The image.
    pub(in crate::builtin) image: Value,
    /// The machine's type, where the group does not choose among several.
    pub(in crate::builtin) instance_type: Option<String>,
    /// The root volume.
    pub(in crate::builtin) devices: Value,
    /// The network interface.
    pub(in crate::builtin) interface: Value,
    /// The user data, as [`user_data`] gives it.
    pub(in crate::builtin) user_data: Value,
    /// Further tags of machines.
    pub(in crate::builtin) tags: Vec<(String, String)>,
}

/// Returns the resource, and what it is made from.
pub(in crate::builtin) fn launch_template(
    cx: &Context<'_>,
    model: &Model,
    group: &Group,
    launch: Launch,
) -> (Value, Vec<Path>) {
    let hops = model.entity(&["machines", &group.key, "metadataHopLimit"]);
    let hop_limit = hops.map_or(json!(1), |e| e.body.to_value());
    let mut tags = super::machine_tags(cx, group);
    tags.extend(launch.tags);
    tags.sort();
    let mut data = json!({
        "BlockDeviceMappings": launch.devices,
        "IamInstanceProfile": super::profile(cx, group),
        "ImageId": launch.image,
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpPutResponseHopLimit": hop_limit, "HttpTokens": "required",
            "InstanceMetadataTags": "disabled"},
        "NetworkInterfaces": [launch.interface],
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": super::tag_list(&tags)},
            {"ResourceType": "volume", "Tags": super::tag_list(&tags)},
        ],
        "UserData": launch.user_data,
    });
    if let (Some(kind), Some(map)) = (launch.instance_type, data.as_object_mut()) {
        map.insert("InstanceType".to_owned(), kind.into());
    }
    let properties = json!({
        "LaunchTemplateData": data,
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": super::tag_list(&tags)}],
    });
    // The bundle's hash stands in the user data: everything on the group's machines is in it.
    let from = vec![Path::of(["machines", group.key.as_str()])];
    (json!({"Type": "AWS::EC2::LaunchTemplate", "Properties": properties}), from)
}

/// Returns the user data as CloudFormation takes it: the bundle's text, with the values of outputs filled
/// in when the stack is deployed, so that a changed value rolls this group and the bundle's hash stays.
pub(in crate::builtin) fn user_data(
    model: &Model,
    made: &Artifacts,
    group: &Group,
    own: &[(&str, Value)],
) -> Value {
    let path = format!("nodes/{}/user-data", group.folder());
    let text =
        made.get(&path).map(|a| String::from_utf8_lossy(&a.bytes).into_owned()).unwrap_or_default();
    let mut variables: Map<String, Value> = outputs_of(model, group)
        .into_iter()
        .map(|name| (crate::model::parameter_name(&name), json!({"$output": name})))
        .collect();
    variables.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    // Without variables the text is the text: nothing in it is CloudFormation's.
    if variables.is_empty() {
        json!({"Fn::Base64": text})
    } else {
        json!({"Fn::Base64": {"Fn::Sub": [text, variables]}})
    }
}

/// Returns whether CloudFormation fills something into a group's user data.
pub(in crate::builtin) fn has_variables(model: &Model, group: &Group) -> bool {
    group.role == Role::Etcd || !outputs_of(model, group).is_empty()
}

/// Returns the outputs that a group's files and units have filled in, sorted.
pub(in crate::builtin) fn outputs_of(model: &Model, group: &Group) -> Vec<String> {
    let mut names: Vec<String> = filled_texts(model, &group.key)
        .flat_map(|(_, text)| placeholders(text))
        .filter(|(word, _)| *word == "output")
        .map(|(_, name)| name.to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the texts of a group's files and units that its machines fill in, each with its path.
pub(in crate::builtin) fn filled_texts<'m>(
    model: &'m Model,
    group: &'m str,
) -> impl Iterator<Item = (Path, &'m str)> {
    ["files", "units", "dropins"].into_iter().flat_map(move |part| {
        model.entities(&["machines", group, part]).filter_map(move |(name, entity)| {
            let filled = entity.body.get("fill").and_then(Node::as_bool) == Some(true);
            let content = entity.body.get("content").and_then(Node::as_str).filter(|_| filled)?;
            Some((Path::of(["machines", group, part, name]), content))
        })
    })
}
