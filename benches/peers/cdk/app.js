// The yardstick cluster as a CDK app: network, etcd, control plane and one pool, a stack each.
// The L1 constructs make the same resources as the other two peers; L2 ones would add more.
'use strict';

const { App, DefaultStackSynthesizer, Fn, Stack } = require('aws-cdk-lib');
const ec2 = require('aws-cdk-lib/aws-ec2');
const iam = require('aws-cdk-lib/aws-iam');
const asg = require('aws-cdk-lib/aws-autoscaling');
const elb = require('aws-cdk-lib/aws-elasticloadbalancingv2');
const route53 = require('aws-cdk-lib/aws-route53');

const cluster = 'bench';
// Written out, so that synthesising looks nothing up.
const env = { account: '111122223333', region: 'eu-west-1' };
const zones = ['a', 'b', 'c'].map((letter, i) => ({
  letter,
  suffix: letter.toUpperCase(),
  name: `${env.region}${letter}`,
  privateCidr: `10.40.${i * 32}.0/19`,
  publicCidr: `10.40.${128 + i}.0/24`,
}));
const image = 'ami-0a1b2c3d4e5f60718';
const vpcCidr = '10.40.0.0/16';

const name = (part) => [{ key: 'Name', value: `${cluster}-${part}` }];

const userData = (role, extra = '') => Fn.base64(
  '#!/bin/bash\nset -euo pipefail\n'
  + `mkdir -p /etc/bench && echo role=${role} > /etc/bench/node\n`
  + `${extra}systemctl enable --now bench-node.service\n`);

class Network extends Stack {
  constructor(scope, id, props) {
    super(scope, id, props);
    this.vpc = new ec2.CfnVPC(this, 'Vpc', {
      cidrBlock: vpcCidr, enableDnsHostnames: true, enableDnsSupport: true, tags: name('vpc'),
    });
    const gateway = new ec2.CfnInternetGateway(this, 'InternetGateway', { tags: name('igw') });
    const attached = new ec2.CfnVPCGatewayAttachment(this, 'GatewayAttachment', {
      vpcId: this.vpc.ref, internetGatewayId: gateway.ref,
    });
    const table = new ec2.CfnRouteTable(this, 'PublicTable', {
      vpcId: this.vpc.ref, tags: name('public'),
    });
    new ec2.CfnRoute(this, 'PublicRoute', {
      routeTableId: table.ref, destinationCidrBlock: '0.0.0.0/0', gatewayId: gateway.ref,
    }).addResourceDependency(attached);
    this.privateSubnets = zones.map((zone) => this.zone(zone, table, attached));
    new ec2.CfnVPCEndpoint(this, 'S3Endpoint', {
      vpcId: this.vpc.ref,
      serviceName: `com.amazonaws.${env.region}.s3`,
      vpcEndpointType: 'Gateway',
      routeTableIds: [table.ref, ...this.privateTables.map((t) => t.ref)],
    });
    this.hostedZone = new route53.CfnHostedZone(this, 'Zone', {
      name: `${cluster}.internal`, vpcs: [{ vpcId: this.vpc.ref, vpcRegion: env.region }],
    });
    this.groups();
  }

  zone(zone, publicTable, attached) {
    const { suffix } = zone;
    const vpcId = this.vpc.ref;
    const subnet = (kind, cidrBlock, mapPublicIpOnLaunch) =>
      new ec2.CfnSubnet(this, `${kind}Subnet${suffix}`, {
        vpcId, cidrBlock, mapPublicIpOnLaunch, availabilityZone: zone.name,
        tags: name(`${kind.toLowerCase()}-${zone.letter}`),
      });
    const outside = subnet('Public', zone.publicCidr, true);
    const inside = subnet('Private', zone.privateCidr, false);
    new ec2.CfnSubnetRouteTableAssociation(this, `PublicAssociation${suffix}`, {
      subnetId: outside.ref, routeTableId: publicTable.ref,
    });
    const address = new ec2.CfnEIP(this, `NatAddress${suffix}`, { domain: 'vpc' });
    address.addResourceDependency(attached);
    const nat = new ec2.CfnNatGateway(this, `Nat${suffix}`, {
      subnetId: outside.ref, allocationId: address.attrAllocationId,
      tags: name(`nat-${zone.letter}`),
    });
    const table = new ec2.CfnRouteTable(this, `PrivateTable${suffix}`, {
      vpcId, tags: name(`private-${zone.letter}`),
    });
    new ec2.CfnRoute(this, `PrivateRoute${suffix}`, {
      routeTableId: table.ref, destinationCidrBlock: '0.0.0.0/0', natGatewayId: nat.ref,
    });
    new ec2.CfnSubnetRouteTableAssociation(this, `PrivateAssociation${suffix}`, {
      subnetId: inside.ref, routeTableId: table.ref,
    });
    this.privateTables = [...(this.privateTables ?? []), table];
    return inside;
  }

  groups() {
    const group = (id, text) => new ec2.CfnSecurityGroup(this, id, {
      vpcId: this.vpc.ref, groupDescription: `${cluster}: ${text}`, tags: name(id.toLowerCase()),
    });
    this.etcd = group('EtcdGroup', 'etcd members');
    this.controllers = group('ControllersGroup', 'controllers');
    this.workers = group('WorkersGroup', 'workers');
    const rule = (id, to, from, ipProtocol, fromPort, toPort) =>
      new ec2.CfnSecurityGroupIngress(this, id, {
        groupId: to.attrGroupId, ipProtocol, fromPort, toPort, ...from,
      });
    const of = (other) => ({ sourceSecurityGroupId: other.attrGroupId });
    rule('EtcdPeers', this.etcd, of(this.etcd), 'tcp', 2379, 2380);
    rule('EtcdClients', this.etcd, of(this.controllers), 'tcp', 2379, 2379);
    rule('ApiFromVpc', this.controllers, { cidrIp: vpcCidr }, 'tcp', 6443, 6443);
    rule('ControllersFromWorkers', this.controllers, of(this.workers), 'tcp', 4240, 4240);
    rule('KubeletFromControllers', this.workers, of(this.controllers), 'tcp', 10250, 10250);
    rule('WorkersAmongThemselves', this.workers, of(this.workers), '-1');
  }
}

/** A stack of machines: a role with its profile, and what templates and groups share. */
class Machines extends Stack {
  constructor(scope, id, props) {
    super(scope, id, props);
    this.network = props.network;
    this.part = props.part;
    this.role = new iam.CfnRole(this, 'Role', {
      assumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [{
          Effect: 'Allow', Action: 'sts:AssumeRole',
          Principal: { Service: 'ec2.amazonaws.com' },
        }],
      },
      policies: [{
        policyName: 'node',
        policyDocument: { Version: '2012-10-17', Statement: props.statements },
      }],
    });
    this.profile = new iam.CfnInstanceProfile(this, 'Profile', { roles: [this.role.ref] });
  }

  launchTemplate(id, { instanceType, networkInterfaces, data }) {
    return new ec2.CfnLaunchTemplate(this, id, {
      launchTemplateData: {
        imageId: image,
        instanceType,
        iamInstanceProfile: { arn: this.profile.attrArn },
        metadataOptions: { httpTokens: 'required', httpPutResponseHopLimit: 1 },
        blockDeviceMappings: [{
          deviceName: '/dev/sda1', ebs: { volumeSize: 50, volumeType: 'gp3', encrypted: true },
        }],
        networkInterfaces,
        tagSpecifications: [{ resourceType: 'instance', tags: name(this.part) }],
        userData: data,
      },
    });
  }

  group(id, template, { subnets, min, max, targetGroupArns, tag }) {
    const group = new asg.CfnAutoScalingGroup(this, id, {
      minSize: String(min),
      maxSize: String(max),
      vpcZoneIdentifier: subnets.map((s) => s.ref),
      targetGroupArns,
      healthCheckType: 'EC2',
      healthCheckGracePeriod: 600,
      launchTemplate: {
        launchTemplateId: template.ref, version: template.attrLatestVersionNumber,
      },
      tags: [
        { key: 'Name', value: `${cluster}-${tag ?? this.part}`, propagateAtLaunch: true },
        { key: `kubernetes.io/cluster/${cluster}`, value: 'owned', propagateAtLaunch: true },
      ],
    });
    group.cfnOptions.creationPolicy = { resourceSignal: { count: min, timeout: 'PT20M' } };
    group.cfnOptions.updatePolicy = {
      autoScalingRollingUpdate: {
        maxBatchSize: 1, minInstancesInService: max > min ? min : min - 1,
        pauseTime: 'PT20M', waitOnResourceSignals: true,
        suspendProcesses: ['AZRebalance', 'AlarmNotification', 'ScheduledActions'],
      },
    };
    return group;
  }
}

class Etcd extends Machines {
  constructor(scope, id, props) {
    super(scope, id, {
      ...props,
      part: 'etcd',
      statements: [
        { Sid: 'Attach', Effect: 'Allow', Resource: '*',
          Action: ['ec2:AttachVolume', 'ec2:AttachNetworkInterface', 'ec2:DescribeVolumes'] },
        { Sid: 'Backup', Effect: 'Allow', Action: ['s3:GetObject', 's3:PutObject'],
          Resource: `arn:aws:s3:::${cluster}-state/etcd/*` },
      ],
    });
    zones.forEach((zone, i) => this.member(zone, props.network.privateSubnets[i], i));
  }

  member(zone, subnet, i) {
    const { suffix } = zone;
    const volume = new ec2.CfnVolume(this, `Volume${suffix}`, {
      availabilityZone: zone.name, size: 50, volumeType: 'gp3', encrypted: true,
      tags: name(`etcd-${i}`),
    });
    const card = new ec2.CfnNetworkInterface(this, `Interface${suffix}`, {
      subnetId: subnet.ref, groupSet: [this.network.etcd.attrGroupId], tags: name(`etcd-${i}`),
    });
    new route53.CfnRecordSet(this, `Record${suffix}`, {
      hostedZoneId: this.network.hostedZone.ref, name: `etcd-${i}.${cluster}.internal`,
      type: 'A', ttl: '30', resourceRecords: [card.attrPrimaryPrivateIpAddress],
    });
    const template = this.launchTemplate(`Template${suffix}`, {
      instanceType: 'm7i.large',
      networkInterfaces: [{
        deviceIndex: 0, groups: [this.network.etcd.attrGroupId], deleteOnTermination: true,
      }],
      data: userData('etcd', Fn.join('', [
        `echo volume=`, volume.ref, ' >> /etc/bench/node\n',
        `echo interface=`, card.ref, ' >> /etc/bench/node\n',
      ])),
    });
    this.group(`Group${suffix}`, template, {
      subnets: [subnet], min: 1, max: 1, tag: `etcd-${i}`,
    });
  }
}

class ControlPlane extends Machines {
  constructor(scope, id, props) {
    super(scope, id, {
      ...props,
      part: 'control-plane',
      statements: [
        { Sid: 'Cloud', Effect: 'Allow', Resource: '*',
          Action: ['ec2:Describe*', 'autoscaling:Describe*', 'elasticloadbalancing:*'] },
        { Sid: 'Bundle', Effect: 'Allow', Action: 's3:GetObject',
          Resource: `arn:aws:s3:::${cluster}-state/controller/*` },
      ],
    });
    const { network } = props;
    const balancer = new elb.CfnLoadBalancer(this, 'Balancer', {
      type: 'network', scheme: 'internal', subnets: network.privateSubnets.map((s) => s.ref),
      loadBalancerAttributes: [
        { key: 'load_balancing.cross_zone.enabled', value: 'true' },
      ],
    });
    const targets = new elb.CfnTargetGroup(this, 'Targets', {
      vpcId: network.vpc.ref, port: 6443, protocol: 'TCP', targetType: 'instance',
      healthCheckProtocol: 'HTTPS', healthCheckPath: '/readyz', healthCheckIntervalSeconds: 10,
    });
    new elb.CfnListener(this, 'Listener', {
      loadBalancerArn: balancer.ref, port: 6443, protocol: 'TCP',
      defaultActions: [{ type: 'forward', targetGroupArn: targets.ref }],
    });
    new route53.CfnRecordSet(this, 'Record', {
      hostedZoneId: network.hostedZone.ref, name: `api.${cluster}.internal`, type: 'A',
      aliasTarget: {
        dnsName: balancer.attrDnsName, hostedZoneId: balancer.attrCanonicalHostedZoneId,
      },
    });
    const template = this.launchTemplate('Template', {
      instanceType: 'm7i.xlarge',
      networkInterfaces: [{ deviceIndex: 0, groups: [network.controllers.attrGroupId] }],
      data: userData('controller'),
    });
    this.group('Group', template, {
      subnets: network.privateSubnets, min: 3, max: 4, targetGroupArns: [targets.ref],
    });
  }
}

class Pool extends Machines {
  constructor(scope, id, props) {
    super(scope, id, {
      ...props,
      part: 'pool-general',
      statements: [
        { Sid: 'Cloud', Effect: 'Allow', Action: ['ec2:DescribeInstances', 'ecr:Get*'],
          Resource: '*' },
        { Sid: 'Bundle', Effect: 'Allow', Action: 's3:GetObject',
          Resource: `arn:aws:s3:::${cluster}-state/pool-general/*` },
      ],
    });
    const { network } = props;
    const own = new ec2.CfnSecurityGroup(this, 'PoolGroup', {
      vpcId: network.vpc.ref, groupDescription: `${cluster}: pool general`,
      tags: name('pool-general'),
    });
    const template = this.launchTemplate('Template', {
      instanceType: 'm7i.2xlarge',
      networkInterfaces: [{
        deviceIndex: 0, groups: [network.workers.attrGroupId, own.attrGroupId],
      }],
      data: userData('worker'),
    });
    this.group('Group', template, { subnets: network.privateSubnets, min: 6, max: 12 });
  }
}

const app = new App();
// Without the rule that looks for the CDK's bootstrap version: the others have none either.
const props = () => ({
  env, synthesizer: new DefaultStackSynthesizer({ generateBootstrapVersionRule: false }),
});
const network = new Network(app, `${cluster}-network`, props());
new Etcd(app, `${cluster}-etcd`, { ...props(), network });
new ControlPlane(app, `${cluster}-control-plane`, { ...props(), network });
new Pool(app, `${cluster}-pool-general`, { ...props(), network });
app.synth();
