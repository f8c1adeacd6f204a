//! `control-plane`: the stack of the machines that run the control plane.

use serde_json::json;

use super::group::{
    Launch, creation_policy, drain_hook, image, launch_template, machine_tags, propagated, role,
    rolling_update, root_device, user_data,
};
use crate::config::Role;
use crate::finding::{Findings, Outcome};
use crate::model::Model;
use crate::plugin::{Artifacts, Context, Plugin, Rendering};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct ControlPlane;

impl Plugin for ControlPlane {
    fn render(&self, cx: &Context<'_>, model: &Model, made: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let mut findings = Findings::new();
        let Some(group) = cx.groups.iter().find(|g| g.role == Role::Controller) else {
            return Outcome::default();
        };
        let settings = &cx.config.control_plane;
        let me = cx.me.name.as_str();
        let description = format!("Kubernetes cluster {}, control plane", cx.config.name);
        out.contribution.put(me, ["stacks", &group.stack, "description"], json!(description));
        role(cx, model, group, &mut out, &mut findings);
        let launch = Launch {
            image: image(group, settings.image.id.as_ref()),
            instance_type: Some(settings.instance_type.clone()),
            devices: root_device(group, &settings.root_volume),
            interface: json!({"AssociatePublicIpAddress": false, "DeleteOnTermination": true, "DeviceIndex": 0,
                "Groups": [{"$output": "network.ControllersGroup"}]}),
            user_data: user_data(model, made, group, &[]),
            tags: Vec::new(),
        };
        let (template, from) = launch_template(cx, model, group, launch);
        let made = out.contribution.put(
            me,
            ["stacks", &group.stack, "resources", "LaunchTemplate"],
            template,
        );
        from.into_iter().for_each(|path| {
            made.from(path);
        });
        let values = cx.values;
        let value = |key: &str| {
            values.at(&["network", key]).map(crate::value::Node::to_value).unwrap_or_default()
        };
        let count = settings.count;
        let mut body = json!({
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "CreationPolicy": creation_policy(count, &settings.timeout),
            "UpdatePolicy": rolling_update(1, count, &settings.timeout),
            "Properties": {
                "HealthCheckGracePeriod": 600,
                "HealthCheckType": "EC2",
                "LaunchTemplate": {"LaunchTemplateId": {"Ref": "LaunchTemplate"},
                    "Version": {"Fn::GetAtt": ["LaunchTemplate", "LatestVersionNumber"]}},
                "MaxSize": (count + 1).to_string(),
                "MinSize": count.to_string(),
                "Tags": propagated(&machine_tags(cx, group)),
                "TargetGroupARNs": value("apiTargetGroups"),
                "VPCZoneIdentifier": value("privateSubnetIds"),
            },
        });
        if let Some(properties) =
            body.get_mut("Properties").and_then(serde_json::Value::as_object_mut)
        {
            properties.insert("DesiredCapacity".to_owned(), count.to_string().into());
        }
        out.contribution.put(me, ["stacks", &group.stack, "resources", "Group"], body);
        out.contribution.put(me, ["stacks", &group.stack, "resources", "DrainHook"], drain_hook());
        out.contribution.put(me, ["stacks", &group.stack, "after", "etcd"], json!(true));
        Outcome { value: out, findings }
    }
}
