//! `etcd-members`: for each member an interface, a record, a volume, a launch template and a group of one.
//!
//! Address, name and data outlive the machine: a new one takes them over. A launch template with an
//! existing interface needs a group with zones and without subnets (AWS's own example for it).

use serde_json::{Value, json};

use super::group::{
    Launch, SUSPENDED, creation_policy, image, launch_template, machine_tags, propagated, role,
    root_device, user_data, volume_type,
};
use crate::config::{Group, Role};
use crate::finding::{Findings, Outcome};
use crate::model::Model;
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::Node;

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct EtcdMembers;

impl Plugin for EtcdMembers {
    fn render(&self, cx: &Context<'_>, model: &Model, made: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let mut findings = Findings::new();
        let Some(group) = cx.groups.iter().find(|g| g.role == Role::Etcd) else {
            return Outcome::default();
        };
        let me = cx.me.name.as_str();
        let description = format!("Kubernetes cluster {}, etcd", cx.config.name);
        out.contribution.put(me, ["stacks", &group.stack, "description"], json!(description));
        out.contribution.put(me, ["stacks", &group.stack, "protected"], json!(true));
        role(cx, model, group, &mut out, &mut findings);
        let values = cx.values;
        for index in 0..cx.config.etcd.members {
            let zones = &cx.config.network.zones;
            let zone = &zones[index as usize % zones.len()];
            let member = Member { cx, group, index, zone, values };
            member.identity(&mut out);
            member.volume(&mut out);
            member.machine(model, made, &mut out);
        }
        Outcome { value: out, findings }
    }
}

/// One member.
struct Member<'a> {
    cx: &'a Context<'a>,
    group: &'a Group,
    index: u32,
    zone: &'a str,
    values: &'a Node,
}

impl Member<'_> {
    fn id(&self, what: &str) -> String {
        format!("Etcd{}{what}", self.index)
    }

    fn put(&self, out: &mut Rendering, what: &str, body: Value) {
        let id = self.id(what);
        out.contribution.put(
            self.cx.me.name.as_str(),
            ["stacks", &self.group.stack, "resources", &id],
            body,
        );
    }

    fn tags(&self) -> Vec<(String, String)> {
        let mut tags: std::collections::BTreeMap<String, String> =
            machine_tags(self.cx, self.group).into_iter().collect();
        tags.insert("Name".to_owned(), format!("{}-etcd-{}", self.cx.config.name, self.index));
        tags.insert("kaws/etcd-member".to_owned(), self.index.to_string());
        tags.into_iter().collect()
    }

    fn value(&self, path: &[&str]) -> Value {
        let mut full = vec!["network"];
        full.extend(path);
        self.values.at(&full).map(Node::to_value).unwrap_or_default()
    }

    /// The interface gives the address, the record the name that peers and API servers know.
    fn identity(&self, out: &mut Rendering) {
        let interface = json!({
            "Description": format!("etcd member {} of Kubernetes cluster {}", self.index, self.cx.config.name),
            "GroupSet": [{"$output": "network.EtcdGroup"}],
            "SubnetId": self.value(&["privateSubnets", self.zone]),
            "Tags": super::group::tag_list(&self.tags()),
        });
        self.put(
            out,
            "Interface",
            json!({"Type": "AWS::EC2::NetworkInterface", "Properties": interface}),
        );
        let record = json!({
            "HostedZoneId": self.value(&["privateZoneId"]),
            "Name": format!("etcd-{}.{}.", self.index, self.cx.config.private_zone()),
            "ResourceRecords": [{"Fn::GetAtt": [self.id("Interface"), "PrimaryPrivateIpAddress"]}],
            "TTL": "60",
            "Type": "A",
        });
        self.put(out, "Record", json!({"Type": "AWS::Route53::RecordSet", "Properties": record}));
    }

    fn volume(&self, out: &mut Rendering) {
        let volume = &self.cx.config.etcd.volume;
        let mut properties = json!({
            "AvailabilityZone": self.zone,
            "Encrypted": true,
            "KmsKeyId": {"$output": "state.KeyArn"},
            "Size": volume.size.gib(),
            "Tags": super::group::tag_list(&self.tags()),
            "VolumeType": volume_type(volume),
        });
        if let Some(map) = properties.as_object_mut() {
            map.extend(volume.iops.map(|iops| ("Iops".to_owned(), json!(iops))));
            map.extend(volume.throughput.map(|t| ("Throughput".to_owned(), json!(t))));
        }
        let body = json!({"Type": "AWS::EC2::Volume", "DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Snapshot",
            "Properties": properties});
        self.put(out, "Data", body);
    }

    fn machine(&self, model: &Model, made: &Artifacts, out: &mut Rendering) {
        let etcd = &self.cx.config.etcd;
        let own = [
            ("Member", json!(self.index.to_string())),
            ("Signal", json!(self.id("Group"))),
            ("Volume", json!({"Ref": self.id("Data")})),
        ];
        let launch = Launch {
            image: image(self.group, etcd.image.id.as_ref()),
            instance_type: Some(etcd.instance_type.clone()),
            devices: root_device(
                self.group,
                &crate::config::Volume {
                    iops: None,
                    throughput: None,
                    kind: crate::config::VolumeType::Gp3,
                    size: crate::config::Size("20GiB".to_owned()),
                },
            ),
            interface: json!({"DeviceIndex": 0, "NetworkInterfaceId": {"Ref": self.id("Interface")}}),
            user_data: user_data(model, made, self.group, &own),
            tags: Vec::new(),
        };
        let (mut body, from) = launch_template(self.cx, model, self.group, launch);
        let tags = super::group::tag_list(&self.tags());
        if let Some(data) = body.pointer_mut("/Properties/LaunchTemplateData") {
            data["TagSpecifications"] = json!([
                {"ResourceType": "instance", "Tags": tags}, {"ResourceType": "volume", "Tags": tags}]);
        }
        let id = self.id("LaunchTemplate");
        let made = out.contribution.put(
            self.cx.me.name.as_str(),
            ["stacks", &self.group.stack, "resources", &id],
            body,
        );
        from.into_iter().for_each(|path| {
            made.from(path);
        });
        self.scaling_group(out);
    }

    /// Members are created and replaced one after the other: each waits for the one before.
    fn scaling_group(&self, out: &mut Rendering) {
        let etcd = &self.cx.config.etcd;
        let template = self.id("LaunchTemplate");
        let mut depends = vec![json!(self.id("Record"))];
        if self.index > 0 {
            depends.push(json!(format!("Etcd{}Group", self.index - 1)));
        }
        let body = json!({
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "DependsOn": depends,
            "CreationPolicy": creation_policy(1, &etcd.timeout),
            "UpdatePolicy": {"AutoScalingRollingUpdate": {"MaxBatchSize": 1, "MinInstancesInService": 0,
                "PauseTime": etcd.timeout.iso(), "SuspendProcesses": SUSPENDED, "WaitOnResourceSignals": true}},
            "Properties": {
                "AvailabilityZones": [self.zone],
                "DesiredCapacity": "1",
                "HealthCheckGracePeriod": 600,
                "HealthCheckType": "EC2",
                "LaunchTemplate": {"LaunchTemplateId": {"Ref": template}, "Version": {"Fn::GetAtt": [template, "LatestVersionNumber"]}},
                "MaxSize": "1",
                "MinSize": "1",
                "Tags": propagated(&self.tags()),
            },
        });
        self.put(out, "Group", body);
    }
}
