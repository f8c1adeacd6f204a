//! acme-agent, a user's plugin as the design shows it: what it contributes, and what it leaves alone.

use std::collections::BTreeSet;

use kaws::run::Run;

use crate::support::Cluster;

const PLUGIN: &str = include_str!("../plugins/acme-agent/plugin.yaml");
const UNIT: &str = include_str!("../plugins/acme-agent/templates/acme-agent.service.hbs");
const TOML: &str = include_str!("../plugins/acme-agent/templates/agent.toml.hbs");
const CERTIFICATE: &str = include_str!("../plugins/acme-agent/files/acme-root.crt");

fn cluster(narrowed: Option<&str>) -> Cluster {
    let on = match narrowed {
        None => String::new(),
        Some(pools) => format!("    nodePools: [{pools}]\n"),
    };
    let cluster = Cluster::small(&format!(
        "plugins:\n  acme-agent:\n    enabled: true\n{on}    settings: {{collector: https://collector.acme.example}}\n"
    ));
    cluster.file("plugins/acme-agent/plugin.yaml", PLUGIN);
    cluster.file("plugins/acme-agent/templates/acme-agent.service.hbs", UNIT);
    cluster.file("plugins/acme-agent/templates/agent.toml.hbs", TOML);
    cluster.file("plugins/acme-agent/files/acme-root.crt", CERTIFICATE);
    cluster
}

fn text(run: &Run, path: &str) -> String {
    let artifact = run.rendered.artifacts.get(path).unwrap_or_else(|| panic!("no {path}"));
    String::from_utf8(artifact.bytes.to_vec()).unwrap()
}

#[test]
fn it_works_as_it_stands() {
    let run = cluster(None).render();
    let toml = text(&run, "nodes/worker/bundle/etc/acme-agent/agent.toml");
    insta::assert_snapshot!(toml, @r#"
    collector = "https://collector.acme.example"
    cluster   = "small"
    group     = "@{node group}"
    instance  = "@{node instance-id}"
    queue     = "@{output acme-agent.QueueUrl}"
    token     = "@{secret acme-agent/token}"

    [metrics]
    listen = "0.0.0.0:9477"
    "#);
    assert!(
        text(&run, "nodes/controller/bundle/etc/systemd/system/acme-agent.service")
            .contains("Description=Acme host agent 4.2.0")
    );
    assert!(
        text(&run, "nodes/worker/bundle/etc/kaws/assets.d/opt-acme-bin-acme-agent-a6bff669")
            .contains("https://artifacts.acme.example/4.2.0/linux-amd64")
    );
    let stack = text(&run, "stacks/pool-general.yaml");
    for line in [
        "  AcmeAgentQueueArn:                                    # acme-agent\n    Type: String\n",
        "              - Sid: AcmeAgentSend                      # acme-agent\n                Effect: Allow\n                Action: sqs:SendMessage\n                Resource: !Ref AcmeAgentQueueArn\n",
        "  PoolGroupScrape:",
        "ReadPluginSecrets                  # acme-agent",
        "secrets/acme-agent/token",
        "AcmeAgentQueueUrl: !Ref AcmeAgentQueueUrl",
    ] {
        assert!(stack.contains(line), "no {line:?} in\n{stack}");
    }
    assert!(!text(&run, "stacks/etcd.yaml").contains("cme"));
    assert!(text(&run, "stacks/acme-agent.yaml").contains("Type: AWS::SQS::Queue"));
    assert!(run.manifest.contains("$output: acme-agent.QueueArn"));
    assert!(run.manifest.contains("acme-agent/running"));
}

#[test]
fn explain_names_the_file_and_line_of_each_part() {
    let cluster = cluster(None);
    for (what, place) in [
        ("machines.worker.units[\"acme-agent.service\"]", "plugins/acme-agent/plugin.yaml:40:9"),
        (
            "machines.controller.files[\"/etc/acme-agent/agent.toml\"]",
            "plugins/acme-agent/plugin.yaml:45:9",
        ),
        ("iam.worker.statements.AcmeAgentSend", "plugins/acme-agent/plugin.yaml:53:9"),
        ("securityGroups.pool:general.ingress.scrape", "plugins/acme-agent/plugin.yaml:60:9"),
        ("acme-agent/Queue", "plugins/acme-agent/plugin.yaml:66:9"),
        ("pool-general/PoolGroupScrape", "securityGroups.pool:general.ingress.scrape"),
    ] {
        let output = cluster.kaws(&["explain", what]);
        assert_eq!(output.code, 0, "{}", output.all());
        assert!(output.out.contains(place), "{what}: {}", output.out);
    }
}

/// Files that differ between two runs, but for what is derived from all of them.
fn changed(a: &Run, b: &Run) -> BTreeSet<String> {
    let (a, b) = (&a.rendered.artifacts, &b.rendered.artifacts);
    let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differing =
        paths.into_iter().filter(|p| a.get(*p).map(|x| &x.bytes) != b.get(*p).map(|x| &x.bytes));
    differing.filter(|p| p.as_str() != "model.yaml").cloned().collect()
}

#[test]
fn on_one_pool_it_touches_that_pool_and_its_own_stack_alone() {
    let without = Cluster::small("").render();
    let with = cluster(Some("general")).render();
    for path in changed(&without, &with) {
        let own = ["nodes/pool-general/", "stacks/pool-general.yaml", "stacks/acme-agent.yaml"];
        assert!(own.iter().any(|o| path.starts_with(o)), "{path} changed");
    }
}

#[test]
fn narrowing_to_one_pool_leaves_that_pools_user_data_as_it_was() {
    let everywhere = cluster(None).render();
    let narrowed = cluster(Some("general")).render();
    let path = "nodes/pool-general/user-data";
    assert_eq!(text(&everywhere, path), text(&narrowed, path));
    assert_eq!(
        text(&everywhere, "stacks/pool-general.yaml"),
        text(&narrowed, "stacks/pool-general.yaml")
    );
    assert_ne!(
        text(&everywhere, "nodes/pool-other/user-data"),
        text(&narrowed, "nodes/pool-other/user-data")
    );
}

#[test]
fn a_literal_role_is_refused_where_the_plugin_is_narrowed() {
    let cluster = Cluster::small("plugins: {mine: {nodePools: [general]}}\n");
    cluster.plugin(
        "mine",
        "nodes: [worker]\ninitialise: {machines: {worker: {files: {/etc/x: {content: x}}}}}\n",
    );
    insta::assert_snapshot!(cluster.fatal(), @r#"
    fatal[merge/outside-pools]: mine names `worker`, and is only on: pool:general
     --> plugins/mine/plugin.yaml:6:42
      |
    6 | initialise: {machines: {worker: {files: {/etc/x: {content: x}}}}}
      |                                          ^^^^^^
      |
      = help: write `nodes`, which means the nodes the plugin is on:
              machines.nodes.files["/etc/x"]
    "#);
}
