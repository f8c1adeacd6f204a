//! The screens that people meet, on the production cluster of the design, which `tests/clusters/prod/` has
//! as it stands there. Each is a file in `tests/clusters/prod/screens/`.

use std::path::Path;

use crate::support::{Cluster, expect_file, timeless};

const CLUSTER: &str = include_str!("../clusters/prod/cluster.yaml");
const PLUGIN: &str = include_str!("../plugins/acme-agent/plugin.yaml");
const UNIT: &str = include_str!("../plugins/acme-agent/templates/acme-agent.service.hbs");
const TOML: &str = include_str!("../plugins/acme-agent/templates/agent.toml.hbs");
const CERTIFICATE: &str = include_str!("../plugins/acme-agent/files/acme-root.crt");

fn prod(text: &str) -> Cluster {
    let cluster = Cluster::new(text);
    cluster.file("certs/acme-root.crt", CERTIFICATE);
    cluster.file("plugins/acme-agent/plugin.yaml", PLUGIN);
    cluster.file("plugins/acme-agent/templates/acme-agent.service.hbs", UNIT);
    cluster.file("plugins/acme-agent/templates/agent.toml.hbs", TOML);
    cluster.file("plugins/acme-agent/files/acme-root.crt", CERTIFICATE);
    cluster
}

fn screen(name: &str, cluster: &Cluster, arguments: &[&str]) {
    let text = format!("$ kaws {}\n{}\n", arguments.join(" "), cluster.kaws(arguments).all());
    expect_file(&Path::new("tests/clusters/prod/screens").join(format!("{name}.txt")), &text);
}

#[test]
fn all_is_well() {
    let cluster = prod(CLUSTER);
    screen("render", &cluster, &["render"]);
    screen("render-again", &cluster, &["render"]);
    screen("explain-flag", &cluster, &["explain", "apiServer.flags.audit-log-maxage"]);
    screen("explain-statement", &cluster, &["explain", "iam.worker.statements.AcmeAgentSend"]);
    screen("explain-resource", &cluster, &["explain", "pool-general/Group"]);
    screen("plugin-list", &cluster, &["plugin", "list"]);
    screen("plugin-info", &cluster, &["plugin", "info", "dex"]);
    screen("graph", &cluster, &["graph"]);
}

#[test]
fn two_mistakes() {
    let text = CLUSTER
        .replace(
            "    labels: {acme.example/tier: general}",
            "    lables: {acme.example/tier: general}",
        )
        .replace("podCIDR: 10.2.0.0/16", "podCIDR: 10.40.128.0/17");
    screen("two-mistakes", &prod(&text), &["render"]);
}

#[test]
fn two_plugins_disagree() {
    let cluster = prod(CLUSTER);
    // Somebody renewed the certificate, and the plugin still carries the old one.
    cluster.file("certs/acme-root.crt", CERTIFICATE.replace("MIIB", "MIIC"));
    screen("conflict", &cluster, &["render"]);
}

#[test]
fn the_same_file_of_two_plugins_has_two_owners() {
    let run = prod(CLUSTER).render();
    let path =
        ["machines", "controller", "files", "/usr/local/share/ca-certificates/acme-root.crt"];
    assert_eq!(run.rendered.model.entity(&path).unwrap().owner_names(), ["acme-agent", "dex"]);
}

#[test]
fn the_readme_shows_what_is_printed() {
    let readme = include_str!("../../README.md");
    let cluster = Cluster::new("");
    cluster.file("cluster.yaml.example", include_str!("../../cluster.yaml.example"));
    let commands: Vec<&str> = readme.lines().filter_map(|l| l.strip_prefix("$ kaws ")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let printed = cluster.kaws(&command.split(' ').collect::<Vec<_>>()).out;
        let readme: Vec<String> = readme.lines().map(timeless).collect();
        for line in printed.trim().lines().map(timeless) {
            assert!(readme.contains(&line), "`kaws {command}` prints what README lacks: {line}");
        }
    }
}
