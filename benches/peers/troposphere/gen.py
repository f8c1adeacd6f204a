"""The yardstick cluster with troposphere: network, etcd, control plane and one pool, a file each.

Usage: gen.py OUT
"""

import pathlib
import sys

from troposphere import Base64, GetAtt, Join, Output, Parameter, Ref, Tags, Template
from troposphere import autoscaling, ec2, elasticloadbalancingv2 as elb, iam, route53
from troposphere.policies import (
    AutoScalingRollingUpdate,
    CreationPolicy,
    ResourceSignal,
    UpdatePolicy,
)

CLUSTER = "bench"
REGION = "eu-west-1"
VPC_CIDR = "10.40.0.0/16"
IMAGE = "ami-0a1b2c3d4e5f60718"
# Suffix of logical ids, zone, private and public addresses.
ZONES = [
    (letter.upper(), f"{REGION}{letter}", f"10.40.{i * 32}.0/19", f"10.40.{128 + i}.0/24")
    for i, letter in enumerate("abc")
]
SUBNETS = [f"PrivateSubnet{zone[0]}" for zone in ZONES]


def name(part):
    return Tags(Name=f"{CLUSTER}-{part}")


def outputs(template, **values):
    for key, value in values.items():
        template.add_output(Output(key, Value=value))


def parameters(template, *names):
    """Adds what comes from the network stack, and returns the references to it."""
    return [Ref(template.add_parameter(Parameter(n, Type="String"))) for n in names]


def network():
    t = Template(Description=f"Kubernetes cluster {CLUSTER}, network")
    vpc = t.add_resource(
        ec2.VPC(
            "Vpc",
            CidrBlock=VPC_CIDR,
            EnableDnsHostnames=True,
            EnableDnsSupport=True,
            Tags=name("vpc"),
        )
    )
    gateway = t.add_resource(ec2.InternetGateway("InternetGateway", Tags=name("igw")))
    attached = t.add_resource(
        ec2.VPCGatewayAttachment(
            "GatewayAttachment", VpcId=Ref(vpc), InternetGatewayId=Ref(gateway)
        )
    )
    public = t.add_resource(
        ec2.RouteTable("PublicTable", VpcId=Ref(vpc), Tags=name("public"))
    )
    t.add_resource(
        ec2.Route(
            "PublicRoute",
            DependsOn=attached.title,
            RouteTableId=Ref(public),
            DestinationCidrBlock="0.0.0.0/0",
            GatewayId=Ref(gateway),
        )
    )
    tables = [zone(t, vpc, public, attached, *each) for each in ZONES]
    t.add_resource(
        ec2.VPCEndpoint(
            "S3Endpoint",
            VpcId=Ref(vpc),
            ServiceName=f"com.amazonaws.{REGION}.s3",
            VpcEndpointType="Gateway",
            RouteTableIds=[Ref(table) for table in [public, *tables]],
        )
    )
    hosted = t.add_resource(
        route53.HostedZone(
            "Zone",
            Name=f"{CLUSTER}.internal",
            VPCs=[route53.HostedZoneVPCs(VPCId=Ref(vpc), VPCRegion=REGION)],
        )
    )
    groups(t, vpc)
    outputs(t, VpcId=Ref(vpc), ZoneId=Ref(hosted), **{s: Ref(s) for s in SUBNETS})
    return t


def zone(t, vpc, public, attached, suffix, az, private_cidr, public_cidr):
    letter = suffix.lower()

    def subnet(kind, cidr, with_addresses):
        return t.add_resource(
            ec2.Subnet(
                f"{kind}Subnet{suffix}",
                VpcId=Ref(vpc),
                CidrBlock=cidr,
                AvailabilityZone=az,
                MapPublicIpOnLaunch=with_addresses,
                Tags=name(f"{kind.lower()}-{letter}"),
            )
        )

    outside = subnet("Public", public_cidr, True)
    inside = subnet("Private", private_cidr, False)
    t.add_resource(
        ec2.SubnetRouteTableAssociation(
            f"PublicAssociation{suffix}", SubnetId=Ref(outside), RouteTableId=Ref(public)
        )
    )
    address = t.add_resource(
        ec2.EIP(f"NatAddress{suffix}", Domain="vpc", DependsOn=attached.title)
    )
    nat = t.add_resource(
        ec2.NatGateway(
            f"Nat{suffix}",
            SubnetId=Ref(outside),
            AllocationId=GetAtt(address, "AllocationId"),
            Tags=name(f"nat-{letter}"),
        )
    )
    table = t.add_resource(
        ec2.RouteTable(f"PrivateTable{suffix}", VpcId=Ref(vpc), Tags=name(f"private-{letter}"))
    )
    t.add_resource(
        ec2.Route(
            f"PrivateRoute{suffix}",
            RouteTableId=Ref(table),
            DestinationCidrBlock="0.0.0.0/0",
            NatGatewayId=Ref(nat),
        )
    )
    t.add_resource(
        ec2.SubnetRouteTableAssociation(
            f"PrivateAssociation{suffix}", SubnetId=Ref(inside), RouteTableId=Ref(table)
        )
    )
    return table


def groups(t, vpc):
    def group(title, text):
        made = t.add_resource(
            ec2.SecurityGroup(
                title,
                VpcId=Ref(vpc),
                GroupDescription=f"{CLUSTER}: {text}",
                Tags=name(title.lower()),
            )
        )
        outputs(t, **{f"{title}Id": GetAtt(made, "GroupId")})
        return made

    etcd = group("EtcdGroup", "etcd members")
    controllers = group("ControllersGroup", "controllers")
    workers = group("WorkersGroup", "workers")

    def rule(title, to, protocol, ports, source=None, cidr=None):
        ends = {"FromPort": ports[0], "ToPort": ports[1]} if ports else {}
        where = {"CidrIp": cidr} if cidr else {"SourceSecurityGroupId": GetAtt(source, "GroupId")}
        t.add_resource(
            ec2.SecurityGroupIngress(
                title, GroupId=GetAtt(to, "GroupId"), IpProtocol=protocol, **ends, **where
            )
        )

    rule("EtcdPeers", etcd, "tcp", (2379, 2380), etcd)
    rule("EtcdClients", etcd, "tcp", (2379, 2379), controllers)
    rule("ApiFromVpc", controllers, "tcp", (6443, 6443), cidr=VPC_CIDR)
    rule("ControllersFromWorkers", controllers, "tcp", (4240, 4240), workers)
    rule("KubeletFromControllers", workers, "tcp", (10250, 10250), controllers)
    rule("WorkersAmongThemselves", workers, "-1", None, workers)


class Machines:
    """A template of machines: a role with its profile, launch templates and groups."""

    def __init__(self, part, *statements):
        self.part = part
        self.template = Template(Description=f"Kubernetes cluster {CLUSTER}, {part}")
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": "sts:AssumeRole",
                    "Principal": {"Service": "ec2.amazonaws.com"},
                }
            ],
        }
        policy = {"Version": "2012-10-17", "Statement": list(statements)}
        role = self.add(
            iam.Role(
                "Role",
                AssumeRolePolicyDocument=trust,
                Policies=[iam.Policy(PolicyName="node", PolicyDocument=policy)],
            )
        )
        self.profile = self.add(iam.InstanceProfile("Profile", Roles=[Ref(role)]))

    def add(self, resource):
        return self.template.add_resource(resource)

    def launch_template(self, title, instance_type, groups, role, *lines):
        script = Join(
            "",
            [
                "#!/bin/bash\nset -euo pipefail\n"
                f"mkdir -p /etc/bench && echo role={role} > /etc/bench/node\n",
                *lines,
                "systemctl enable --now bench-node.service\n",
            ],
        )
        return self.add(
            ec2.LaunchTemplate(
                title,
                LaunchTemplateData=ec2.LaunchTemplateData(
                    ImageId=IMAGE,
                    InstanceType=instance_type,
                    IamInstanceProfile=ec2.IamInstanceProfile(Arn=GetAtt(self.profile, "Arn")),
                    MetadataOptions=ec2.MetadataOptions(
                        HttpTokens="required", HttpPutResponseHopLimit=1
                    ),
                    BlockDeviceMappings=[
                        ec2.LaunchTemplateBlockDeviceMapping(
                            DeviceName="/dev/sda1",
                            Ebs=ec2.EBSBlockDevice(
                                VolumeSize=50, VolumeType="gp3", Encrypted=True
                            ),
                        )
                    ],
                    NetworkInterfaces=[ec2.NetworkInterfaces(DeviceIndex=0, Groups=groups)],
                    TagSpecifications=[
                        ec2.TagSpecifications(ResourceType="instance", Tags=name(self.part))
                    ],
                    UserData=Base64(script),
                ),
            )
        )

    def group(self, title, template, subnets, least, most, tag=None, targets=None):
        extra = {"TargetGroupARNs": targets} if targets else {}
        self.add(
            autoscaling.AutoScalingGroup(
                title,
                MinSize=str(least),
                MaxSize=str(most),
                VPCZoneIdentifier=subnets,
                HealthCheckType="EC2",
                HealthCheckGracePeriod=600,
                LaunchTemplate=autoscaling.LaunchTemplateSpecification(
                    LaunchTemplateId=Ref(template),
                    Version=GetAtt(template, "LatestVersionNumber"),
                ),
                Tags=[
                    autoscaling.Tag("Name", f"{CLUSTER}-{tag or self.part}", True),
                    autoscaling.Tag(f"kubernetes.io/cluster/{CLUSTER}", "owned", True),
                ],
                CreationPolicy=CreationPolicy(
                    ResourceSignal=ResourceSignal(Count=least, Timeout="PT20M")
                ),
                UpdatePolicy=UpdatePolicy(
                    AutoScalingRollingUpdate=AutoScalingRollingUpdate(
                        MaxBatchSize="1",
                        MinInstancesInService=str(least if most > least else least - 1),
                        PauseTime="PT20M",
                        WaitOnResourceSignals=True,
                        SuspendProcesses=["AZRebalance", "AlarmNotification", "ScheduledActions"],
                    )
                ),
                **extra,
            )
        )


def statement(sid, action, resource):
    return {"Sid": sid, "Effect": "Allow", "Action": action, "Resource": resource}


def bundle(role):
    return statement("Bundle", "s3:GetObject", f"arn:aws:s3:::{CLUSTER}-state/{role}/*")


def etcd():
    stack = Machines(
        "etcd",
        statement(
            "Attach",
            ["ec2:AttachVolume", "ec2:AttachNetworkInterface", "ec2:DescribeVolumes"],
            "*",
        ),
        statement(
            "Backup",
            ["s3:GetObject", "s3:PutObject"],
            f"arn:aws:s3:::{CLUSTER}-state/etcd/*",
        ),
    )
    hosted, own, *subnets = parameters(stack.template, "ZoneId", "EtcdGroupId", *SUBNETS)
    for i, ((suffix, az, _, _), subnet) in enumerate(zip(ZONES, subnets)):
        volume = stack.add(
            ec2.Volume(
                f"Volume{suffix}",
                AvailabilityZone=az,
                Size=50,
                VolumeType="gp3",
                Encrypted=True,
                Tags=name(f"etcd-{i}"),
            )
        )
        card = stack.add(
            ec2.NetworkInterface(
                f"Interface{suffix}", SubnetId=subnet, GroupSet=[own], Tags=name(f"etcd-{i}")
            )
        )
        stack.add(
            route53.RecordSetType(
                f"Record{suffix}",
                HostedZoneId=hosted,
                Name=f"etcd-{i}.{CLUSTER}.internal",
                Type="A",
                TTL="30",
                ResourceRecords=[GetAtt(card, "PrimaryPrivateIpAddress")],
            )
        )
        template = stack.launch_template(
            f"Template{suffix}",
            "m7i.large",
            [own],
            "etcd",
            *["echo volume=", Ref(volume), " >> /etc/bench/node\n"],
            *["echo interface=", Ref(card), " >> /etc/bench/node\n"],
        )
        stack.group(f"Group{suffix}", template, [subnet], 1, 1, tag=f"etcd-{i}")
    return stack.template


def control_plane():
    stack = Machines(
        "control-plane",
        statement(
            "Cloud",
            ["ec2:Describe*", "autoscaling:Describe*", "elasticloadbalancing:*"],
            "*",
        ),
        bundle("controller"),
    )
    vpc, hosted, own, *subnets = parameters(
        stack.template, "VpcId", "ZoneId", "ControllersGroupId", *SUBNETS
    )
    balancer = stack.add(
        elb.LoadBalancer(
            "Balancer",
            Type="network",
            Scheme="internal",
            Subnets=subnets,
            LoadBalancerAttributes=[
                elb.LoadBalancerAttributes(
                    Key="load_balancing.cross_zone.enabled", Value="true"
                )
            ],
        )
    )
    targets = stack.add(
        elb.TargetGroup(
            "Targets",
            VpcId=vpc,
            Port=6443,
            Protocol="TCP",
            TargetType="instance",
            HealthCheckProtocol="HTTPS",
            HealthCheckPath="/readyz",
            HealthCheckIntervalSeconds=10,
        )
    )
    stack.add(
        elb.Listener(
            "Listener",
            LoadBalancerArn=Ref(balancer),
            Port=6443,
            Protocol="TCP",
            DefaultActions=[elb.Action(Type="forward", TargetGroupArn=Ref(targets))],
        )
    )
    stack.add(
        route53.RecordSetType(
            "Record",
            HostedZoneId=hosted,
            Name=f"api.{CLUSTER}.internal",
            Type="A",
            AliasTarget=route53.AliasTarget(
                DNSName=GetAtt(balancer, "DNSName"),
                HostedZoneId=GetAtt(balancer, "CanonicalHostedZoneID"),
            ),
        )
    )
    template = stack.launch_template("Template", "m7i.xlarge", [own], "controller")
    stack.group("Group", template, subnets, 3, 4, targets=[Ref(targets)])
    return stack.template


def pool():
    stack = Machines(
        "pool-general",
        statement("Cloud", ["ec2:DescribeInstances", "ecr:Get*"], "*"),
        bundle("pool-general"),
    )
    vpc, workers, *subnets = parameters(stack.template, "VpcId", "WorkersGroupId", *SUBNETS)
    own = stack.add(
        ec2.SecurityGroup(
            "PoolGroup",
            VpcId=vpc,
            GroupDescription=f"{CLUSTER}: pool general",
            Tags=name("pool-general"),
        )
    )
    groups = [workers, GetAtt(own, "GroupId")]
    template = stack.launch_template("Template", "m7i.2xlarge", groups, "worker")
    stack.group("Group", template, subnets, 6, 12)
    return stack.template


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    made = {"network": network, "etcd": etcd, "control-plane": control_plane, "pool-general": pool}
    for stack, make in made.items():
        # JSON: to_yaml() goes through JSON and a second parser, which would only slow it down.
        (out / f"{CLUSTER}-{stack}.template.json").write_text(make().to_json())


if __name__ == "__main__":
    main()
