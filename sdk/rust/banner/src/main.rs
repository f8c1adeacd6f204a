//! Greets whoever logs in to a machine: the plugin `banner`, in Rust.

use std::collections::BTreeMap;
use std::process::ExitCode;

use kaws_sdk::{Handlers, Request, Response, Result, json, node, secret};
use serde::Deserialize;

#[derive(Deserialize)]
struct Settings {
    text: String,
    port: Option<u16>,
    links: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
    region: String,
    network: Network,
}

#[derive(Deserialize)]
struct Network {
    vpc: Vpc,
}

#[derive(Deserialize)]
struct Vpc {
    cidr: String,
}

fn main() -> ExitCode {
    Handlers::new().initialise(initialise).render(render).main()
}

/// Adds what machines, stacks and the API server have of the greeting.
fn initialise(request: &Request) -> Result {
    let Settings { text, links, .. } = request.settings()?;
    let cluster = Cluster::deserialize(&request.cluster)?;
    let mut response = Response::new();
    response.put(["values", "banner", "text"], text.as_str());
    // A pool can have settings of its own: so each group gets its own greeting.
    for group in &request.plugin.nodes {
        greet(&mut response, request, group, &cluster)?;
    }
    response.put(["kubelet", "nodes", "labels", "example.org/banner"], "yes");
    response.put(
        ["iam", "nodes", "statements", "BannerPublish"],
        json!({"Action": "sns:Publish", "Resource": {"$output": "banner.TopicArn"}}),
    );
    response.put(
        ["stacks", "banner"],
        json!({
            "resources": {
                "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": text}},
            },
            "outputs": {"TopicArn": {"Value": {"Ref": "Topic"}}},
        }),
    );
    response.put(
        ["manifests", "banner", "objects", "links"],
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "banner", "namespace": "kube-public"},
            "data": links,
        }),
    );
    Ok(response)
}

/// Adds the greeting of one group, and serves it where there is a port.
fn greet(response: &mut Response, request: &Request, group: &str, cluster: &Cluster) -> Result<()> {
    let Settings { text, port, .. } = request.settings_for(group)?;
    let Cluster { name, region, network } = cluster;
    let place = format!("This is {} of cluster {name} in {region}.", node("group"));
    response.put(
        ["machines", group, "files"],
        json!({
            "/etc/motd.d/banner": {"content": format!("{text}\n{place}\n")},
            "/etc/banner/token": {"content": secret(request, "token"), "mode": "0600"},
        }),
    );
    let Some(port) = port else { return Ok(()) };
    let unit = json!({"content": unit(name, port)});
    response.put(["machines", group, "units", "banner.service"], unit);
    let rule = json!({"protocol": "tcp", "port": port, "from": {"cidr": network.vpc.cidr}});
    response.put(["securityGroups", group, "ingress", "banner"], rule);
    Ok(())
}

fn unit(cluster: &str, port: u16) -> String {
    format!(
        "\
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
"
    )
}

/// Makes a file of the greeting, and says so where there is none.
fn render(request: &Request) -> Result {
    let Settings { text, .. } = request.settings()?;
    let mut response = Response::new();
    response.artifact("banner.txt", format!("{text}\n"));
    if text.is_empty() {
        let silent = response.warning("silent", "The greeting is empty.");
        silent.help("set settings.text, or turn the plugin off");
    }
    Ok(response)
}
