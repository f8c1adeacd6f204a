#!/usr/bin/env python3
"""Greets whoever logs in to a machine: the plugin `banner`, in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kaws

UNIT = """\
[Unit]
Description=Greeting of {cluster}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/python3 -m http.server {port} --directory /etc/motd.d
DynamicUser=yes
Restart=on-failure

[Install]
WantedBy=kaws.target
"""


@kaws.initialise
def initialise(request: kaws.Request) -> kaws.Response:
    """Adds what machines, stacks and the API server have of the greeting."""
    text, links = request.settings["text"], request.settings["links"]
    response = kaws.Response()
    response.put("values", "banner", "text", text)
    # A pool can have settings of its own: so each group gets its own greeting.
    for group in request.plugin.nodes:
        greet(response, group, request.settings_for(group), request.cluster)
    response.put("kubelet", "nodes", "labels", "example.org/banner", "yes")
    publish = {"Action": "sns:Publish", "Resource": {"$output": "banner.TopicArn"}}
    response.put("iam", "nodes", "statements", "BannerPublish", publish)
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": text}}
    response.put("stacks", "banner", "resources", "Topic", topic)
    response.put("stacks", "banner", "outputs", "TopicArn", "Value", {"Ref": "Topic"})
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "banner", "namespace": "kube-public"},
        "data": links,
    }
    return response.put("manifests", "banner", "objects", "links", config_map)


def greet(
    response: kaws.Response, group: str, settings: Mapping[str, Any], cluster: Mapping[str, Any]
) -> None:
    """Adds the greeting of one group, and serves it where there is a port."""
    place = f"This is {kaws.node('group')} of cluster {cluster['name']} in {cluster['region']}."
    greeting = {"content": f"{settings['text']}\n{place}\n"}
    response.put("machines", group, "files", "/etc/motd.d/banner", greeting)
    token = {"content": kaws.secret("token"), "mode": "0600"}
    response.put("machines", group, "files", "/etc/banner/token", token)
    port = settings.get("port")
    if port is not None:
        unit = {"content": UNIT.format(cluster=cluster["name"], port=port)}
        response.put("machines", group, "units", "banner.service", unit)
        vpc = {"cidr": cluster["network"]["vpc"]["cidr"]}
        rule = {"protocol": "tcp", "port": port, "from": vpc}
        response.put("securityGroups", group, "ingress", "banner", rule)


@kaws.render
def render(request: kaws.Request) -> kaws.Response:
    """Makes a file of the greeting, and says so where there is none."""
    text = request.settings["text"]
    response = kaws.Response().artifact("banner.txt", f"{text}\n")
    if not text:
        help = "set settings.text, or turn the plugin off"
        response.warning("silent", "The greeting is empty.", help=help)
    return response


if __name__ == "__main__":
    kaws.main()
