#!/usr/bin/env python3
"""Writes a cluster with many node pools and plugins, for run.py and for profiling by hand.

Usage: generate.py DIR --pools 500 --plugins 200

The same numbers always give the same bytes, and pool or plugin i is the same in every size, so
that two sizes differ by nothing but their number.
"""

import argparse
import pathlib
import sys

CLUSTER = """\
apiVersion: kaws/v1
name: bench
account: "111122223333"
region: eu-west-1
kubernetesVersion: 1.36.3

network:
  vpc:
    cidr: 10.40.0.0/16
  zones: [eu-west-1a, eu-west-1b, eu-west-1c]
  nat: perZone
  podCIDR: 100.64.0.0/10                 # a /24 for each node of the largest size
  serviceCIDR: 10.3.0.0/16

api:
  scheme: internal

etcd:
  members: 3
  instanceType: m7i.large

controlPlane:
  count: 3
  instanceType: m7i.xlarge

tags: {team: platform, cost-centre: "4711"}
"""

PLUGIN = """\
apiVersion: kaws/v1
name: NAME
version: 1.0.0
description: Sends what happens on a node to a queue.
nodes: [controller, worker]

settings:
  type: object
  required: [endpoint]
  properties:
    endpoint:
      description: Where to send to.
      type: string
      pattern: ^https://
    interval:
      description: Seconds between two batches.
      type: integer
      minimum: 1
      default: 30
    level:
      description: What is worth sending.
      enum: [debug, info, warning, error]
      default: info
    headers:
      description: Sent along, by name.
      type: object
      additionalProperties: {type: string}
      default: {X-Source: node, X-Format: json}

initialise:
  machines:
    nodes:
      units:
        NAME.service:
          content: |
            [Unit]
            Description=Sends what happens here every {{settings.interval}} s
            Wants=network-online.target
            After=network-online.target

            [Service]
            ExecStart=/usr/local/bin/bench-agent --config /etc/NAME/config.toml
            Restart=on-failure
            RestartSec=5
            NoNewPrivileges=yes
            ProtectSystem=full

            [Install]
            WantedBy=kaws.target
      files:
        /etc/NAME/config.toml:
          template: config.toml.hbs
          mode: "0644"

  iam:
    nodes:
      statements:
        SID:
          Action: sqs:SendMessage
          Resource: arn:{{cluster.partition}}:sqs:{{cluster.region}}:{{cluster.account}}:QUEUE
"""

CONFIG = """\
# Of the cluster {{cluster.name}}, plugin NAME.
endpoint = "{{settings.endpoint}}"
interval = {{settings.interval}}
level    = "{{settings.level}}"
queue    = "QUEUE"

[headers]
{{#each settings.headers}}
{{@key}} = "{{this}}"
{{/each}}

[node]
group    = "{{node "group"}}"
instance = "{{node "instance-id"}}"
zone     = "{{node "zone"}}"
"""

TIERS = ["general", "batch", "web", "build", "data", "gpu", "edge"]


def pool(i):
    lines = [
        f"  pool-{i:03}:",
        "    instanceTypes: [m7i.large]",
        f"    size: {{min: 1, max: {3 + i % 3}}}",
        f"    labels: {{acme.example/tier: {TIERS[i % len(TIERS)]}, acme.example/cell: c{i % 20}}}",
    ]
    # Some pools differ in more than their labels: every 5th keeps others' pods out.
    if i % 5 == 0:
        effect = ["NoSchedule", "PreferNoSchedule"][i // 5 % 2]
        lines.append(f"    taints: {{acme.example/dedicated: {{value: p{i}, effect: {effect}}}}}")
    if i % 4 == 0:
        lines.append("    roll: {batch: 2}")
    return lines


def use(i):
    return [
        f"  bench-{i:03}:",
        "    enabled: true",
        "    settings:",
        f"      endpoint: https://collector-{i:03}.acme.example",
        f"      interval: {10 + i % 50}",
    ]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def generate(folder, pools, plugins, statements=25):
    """Writes the cluster into `folder`.

    A role holds at most 10,240 characters of policy, which 200 statements would exceed: plugins
    share `statements` of them, equal ones having several owners.
    """
    lines = [CLUSTER]
    if pools:
        lines += ["nodePools:", *(line for i in range(pools) for line in pool(i)), ""]
    if plugins:
        lines += ["plugins:", *(line for i in range(plugins) for line in use(i)), ""]
    write(folder / "cluster.yaml", "\n".join(lines))
    for i in range(plugins):
        shared = i % statements
        words = {"NAME": f"bench-{i:03}", "QUEUE": f"bench-{shared:03}", "SID": f"Send{shared:03}"}
        home = folder / "plugins" / words["NAME"]
        for path, text in [("plugin.yaml", PLUGIN), ("templates/config.toml.hbs", CONFIG)]:
            for word, value in words.items():
                text = text.replace(word, value)
            write(home / path, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--pools", type=int, default=500)
    parser.add_argument("--plugins", type=int, default=200)
    parser.add_argument("--statements", type=int, default=25, help="distinct IAM statements")
    args = parser.parse_args()
    if args.folder.exists() and any(args.folder.iterdir()):
        sys.exit(f"{args.folder} is not empty")
    generate(args.folder, args.pools, args.plugins, args.statements)


if __name__ == "__main__":
    main()
