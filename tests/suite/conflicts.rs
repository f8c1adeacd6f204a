//! Every way in which plugins, patches and orders can disagree, and what the user is told. Each report is
//! a file in `tests/reports/`.

use std::path::Path;

use crate::support::{Cluster, expect_file};

fn report(name: &str, cluster: &Cluster) {
    expect_file(&Path::new("tests/reports").join(format!("{name}.txt")), &cluster.fatal());
}

/// Where nothing is fatal, the report is what `kaws explain` says.
fn explained(name: &str, cluster: &Cluster, path: &str) {
    let text = cluster.kaws(&["explain", path]).all();
    expect_file(&Path::new("tests/reports").join(format!("{name}.txt")), &format!("{text}\n"));
}

const MOTD: &str = "machines.controller.files[\"/etc/motd\"]";

fn two(a: &str, b: &str) -> Cluster {
    let cluster = Cluster::small("plugins: {one: {}, two: {}}\n");
    cluster.plugin("one", a);
    cluster.plugin("two", b);
    cluster
}

const FILE_ONE: &str = "nodes: [controller]\ninitialise:\n  machines:\n    controller:\n      files:\n        /etc/motd: {content: \"hello\\none\\n\"}\n";
const FILE_TWO: &str = "nodes: [controller]\ninitialise:\n  machines:\n    controller:\n      files:\n        /etc/motd: {content: \"hello\\ntwo\\n\"}\n";

#[test]
fn conflict() {
    report("conflict", &two(FILE_ONE, FILE_TWO));
}

#[test]
fn conflict_names_the_setting_it_came_from() {
    let cluster = Cluster::small("plugins:\n  one: {settings: {text: mine}}\n  two: {}\n");
    let templated = "settings: {properties: {text: {type: string}}}\n".to_owned()
        + &FILE_ONE.replace("\"hello\\none\\n\"", "\"{{settings.text}}\"");
    cluster.plugin("one", &templated);
    cluster.plugin("two", FILE_TWO);
    report("conflict-with-cause", &cluster);
}

#[test]
fn flags_conflict_and_items_of_lists_do_not() {
    let flag =
        |n: u32| format!("initialise: {{apiServer: {{flags: {{max-requests-inflight: {n}}}}}}}\n");
    report("conflict-flag", &two(&flag(1), &flag(2)));
    let list = |item: &str, gate: &str| {
        format!(
            "initialise: {{apiServer: {{flags: {{enable-admission-plugins: [{item}], feature-gates: {{{gate}: true}}}}}}}}\n"
        )
    };
    let run = two(
        &list("PodNodeSelector", "APIServerIdentity"),
        &list("EventRateLimit", "APIResponseCompression"),
    )
    .render();
    let pod = &run.rendered.artifacts["nodes/controller/bundle/etc/kubernetes/manifests/kube-apiserver.yaml"];
    let text = String::from_utf8_lossy(&pod.bytes);
    assert!(
        text.contains("--enable-admission-plugins=EventRateLimit,NodeRestriction,PodNodeSelector"),
        "{text}"
    );
    assert!(text.contains("--feature-gates=APIResponseCompression=true,APIServerIdentity=true"));
}

#[test]
fn equal_values_have_two_owners() {
    explained("co-owners", &two(FILE_ONE, FILE_ONE), MOTD);
    let run = two(FILE_ONE, FILE_ONE).render();
    let entity =
        run.rendered.model.entity(&["machines", "controller", "files", "/etc/motd"]).unwrap();
    assert_eq!(entity.owner_names(), ["one", "two"]);
    // A default, and the same value written out, are equal; so is a list of one action.
    let statement = |action: &str, effect: &str| {
        format!(
            "nodes: [worker]\ninitialise: {{iam: {{nodes: {{statements: {{Same: {{Action: {action}{effect}, Resource: '*'}}}}}}}}}}\n"
        )
    };
    let run =
        two(&statement("sqs:SendMessage", ""), &statement("[sqs:SendMessage]", ", Effect: Allow"))
            .render();
    let entity = run.rendered.model.entity(&["iam", "pool:general", "statements", "Same"]).unwrap();
    assert_eq!(entity.owner_names(), ["one", "two"]);
}

#[test]
fn a_default_yields_to_a_value_and_explain_shows_both() {
    let cluster = Cluster::small("plugins: {one: {}}\n");
    cluster.plugin("one", "initialise: {apiServer: {flags: {audit-log-maxage: 90}}}\n");
    explained("default-yields", &cluster, "apiServer.flags.audit-log-maxage");
}

#[test]
fn two_defaults_that_differ_conflict() {
    let default = |n: u32| {
        format!("initialise: {{apiServer: {{flags: {{request-timeout: {{$default: {n}s}}}}}}}}\n")
    };
    report("conflict-of-defaults", &two(&default(10), &default(20)));
}

#[test]
fn prefer_decides_and_is_used() {
    let cluster = two(FILE_ONE, FILE_TWO);
    let prefer = "prefer: {machines: {controller: {files: {/etc/motd: two}}}}\n";
    cluster.file(
        "cluster.yaml",
        format!("{}plugins: {{one: {{}}, two: {{}}}}\n{prefer}", crate::support::MINIMAL),
    );
    let run = cluster.render();
    let motd = &run.rendered.artifacts["nodes/controller/bundle/etc/motd"];
    assert_eq!(&*motd.bytes, b"hello\ntwo\n");
    explained("prefer", &cluster, MOTD);
}

#[test]
fn prefer_that_decides_nothing_is_said() {
    let cluster = Cluster::small(
        "plugins: {one: {}}\nprefer: {machines: {controller: {files: {/etc/motd: oen}}}}\n",
    );
    cluster.plugin("one", FILE_ONE);
    expect_file(Path::new("tests/reports/unused-prefer.txt"), &cluster.findings());
}

fn patched(patch: &str) -> Cluster {
    Cluster::small(&format!(
        "customise:\n  patches:\n    mine:\n{}",
        patch.lines().map(|l| format!("      {l}\n")).collect::<String>()
    ))
}

#[test]
fn patches_are_the_override() {
    let cluster = patched(
        "at: apiServer.flags.audit-log-maxage\nop: replace\nwas: 30\nvalue: 90\nwhy: three months at hand",
    );
    let output = cluster.kaws(&["explain", "apiServer.flags.audit-log-maxage"]);
    insta::assert_snapshot!(output.out.replace(&cluster.path().display().to_string(), ""), @r"
    apiServer.flags.audit-log-maxage = 90

      90  cluster.yaml:15:14
          patch mine: three months at hand. It expects 30 to be there before it,
          and 30 is.
      30  builtin:api-server/plugin.yaml:14:36

      rendered into     nodes/controller/bundle/etc/kubernetes/manifests/kube-apiserver.yaml:15
    ");
    let run = patched(
        "at: stacks.network.resources.Vpc.Properties.EnableDnsSupport\nop: remove\nwhy: a test",
    )
    .render();
    let stack =
        String::from_utf8_lossy(&run.rendered.artifacts["stacks/network.yaml"].bytes).into_owned();
    assert!(!stack.contains("EnableDnsSupport"));
    let run = patched("at: iam.worker.statements.PullImages.Action\nop: add\nvalue: ecr:DescribeImages\nwhy: a test").render();
    for pool in ["general", "other"] {
        let stack = String::from_utf8_lossy(
            &run.rendered.artifacts[&format!("stacks/pool-{pool}.yaml")].bytes,
        )
        .into_owned();
        assert!(stack.contains("ecr:DescribeImages"), "{pool}");
    }
}

#[test]
fn a_stale_patch_is_refused() {
    report(
        "patch-stale",
        &patched(
            "at: apiServer.flags.audit-log-maxage\nop: replace\nwas: 31\nvalue: 90\nwhy: three months at hand",
        ),
    );
}

#[test]
fn a_patch_without_a_target_is_refused_or_skipped() {
    report(
        "patch-missing",
        &patched("at: apiServer.flags.audit-log-maxaeg\nop: replace\nvalue: 90\nwhy: a test"),
    );
    patched("at: apiServer.flags.no-such\nop: remove\nifMissing: skip\nwhy: a test").render();
}

#[test]
fn a_protected_path_is_the_users_alone() {
    let body = "initialise:\n  patches:\n    boot: {at: pki.authorities.etcd-ca.commonName, op: replace, value: x, why: a test}\n";
    let cluster = Cluster::small("plugins: {one: {}}\n");
    cluster.plugin("one", body);
    report("patch-protected", &cluster);
    let text =
        patched("at: pki.authorities.etcd-ca.commonName\nop: replace\nvalue: x\nwhy: a test")
            .findings();
    assert!(text.contains("warning[patch/protected-used]"), "{text}");
}

#[test]
fn two_plugins_patches_conflict_and_the_users_beats_both() {
    let patch = |n: u32| {
        format!(
            "initialise: {{patches: {{p: {{at: apiServer.flags.audit-log-maxage, op: replace, value: {n}, why: a test}}}}}}\n"
        )
    };
    let cluster = two(&patch(1), &patch(2));
    report("patch-conflict", &cluster);
    let own = "customise: {patches: {mine: {at: apiServer.flags.audit-log-maxage, op: replace, value: 3, why: a test}}}\n";
    let cluster = Cluster::small(&format!("plugins: {{one: {{}}}}\n{own}"));
    cluster.plugin("one", &patch(1));
    let run = cluster.render();
    assert_eq!(
        run.rendered
            .model
            .entity(&["apiServer", "flags", "audit-log-maxage"])
            .unwrap()
            .body
            .to_value(),
        3
    );
}

#[test]
fn a_users_patch_settles_a_conflict() {
    let cluster = two(FILE_ONE, FILE_TWO);
    let patch = "customise: {patches: {mine: {at: 'machines.controller.files[\"/etc/motd\"]', op: replace, value: {content: mine}, why: a test}}}\n";
    cluster.file(
        "cluster.yaml",
        format!("{}plugins: {{one: {{}}, two: {{}}}}\n{patch}", crate::support::MINIMAL),
    );
    let run = cluster.render();
    assert_eq!(&*run.rendered.artifacts["nodes/controller/bundle/etc/motd"].bytes, b"mine");
}

#[test]
fn an_undeclared_write_is_refused() {
    let cluster = Cluster::small("plugins: {one: {}}\n");
    cluster.plugin("one", &format!("writes: [apiServer.flags]\n{FILE_ONE}"));
    report("undeclared-write", &cluster);
}

#[test]
fn a_role_from_a_narrowed_plugin_is_refused() {
    let cluster = Cluster::small("plugins: {one: {nodePools: [general]}}\n");
    cluster.plugin("one", "nodes: [controller, worker]\ninitialise: {machines: {controller: {sysctls: {vm.swappiness: 1}}}}\n");
    report("literal-role", &cluster);
}

#[test]
fn cycles_of_order_name_every_line() {
    report(
        "order-cycle",
        &two("after: [two]\ninitialise: {}\n", "requires: [one]\ninitialise: {}\n"),
    );
}

#[test]
fn an_order_against_requires_is_refused() {
    let cluster = two("requires: [two]\ninitialise: {}\n", "initialise: {}\n");
    cluster.file("order.yaml", "initialise: [one, two]\n");
    report("order-against-requires", &cluster);
}

#[test]
fn cycles_of_stacks_name_every_line() {
    let stack = |own: &str, other: &str| {
        format!(
            "initialise:\n  stacks:\n    {own}:\n      resources:\n        Topic: {{Type: AWS::SNS::Topic, Properties: {{TopicName: {{$output: {other}.Name}}}}}}\n      outputs: {{Name: {{Value: !GetAtt Topic.TopicName}}}}\n"
        )
    };
    report("stack-cycle", &two(&stack("first", "second"), &stack("second", "first")));
}

#[test]
fn two_providers_of_a_slot_are_refused() {
    let body = "provides: {cni: exclusive}\ninitialise: {}\n";
    report("two-providers", &two(body, body));
    // One that cluster.yaml names displaces the default one.
    let cluster = Cluster::small("plugins: {one: {}}\n");
    cluster.plugin("one", body);
    assert!(!cluster.render().rendered.artifacts.contains_key("helm/cilium/values.yaml"));
}

#[test]
fn an_unknown_plugin_is_refused() {
    report("unknown-plugin", &Cluster::small("plugins: {coredsn: {settings: {replicas: 3}}}\n"));
}

#[test]
fn a_users_plugin_with_our_name_says_what_it_replaces() {
    let cluster = Cluster::small("");
    cluster.plugin("coredns", "provides: {dns: exclusive}\ninitialise: {}\n");
    report("same-name", &cluster);
    cluster.plugin("coredns", "replaces: coredns\nprovides: {dns: exclusive}\ninitialise: {}\n");
    assert!(!cluster.render().rendered.artifacts.contains_key("helm/coredns/values.yaml"));
}

#[test]
fn what_comes_after_a_seal_is_refused() {
    let cluster = Cluster::small("plugins: {one: {}}\n");
    cluster
        .plugin("one", "render: {stacks: {one: {resources: {Topic: {Type: AWS::SNS::Topic}}}}}\n");
    cluster.file("order.yaml", "render: [cloudformation, one]\n");
    report("sealed", &cluster);
}

#[test]
fn render_adds_to_what_runs_alone() {
    let cluster = Cluster::small("plugins: {one: {}}\n");
    cluster.plugin("one", "render: {apiServer: {flags: {v: 4}}}\n");
    report("render-scope", &cluster);
}

#[test]
fn two_instances_of_one_plugin_have_names_of_their_own() {
    let cluster = Cluster::small(
        "plugins:\n  one: {settings: {path: /etc/a}}\n  again: {use: one, settings: {path: /etc/b}}\n",
    );
    cluster.plugin("one", "nodes: [controller]\nsettings: {required: [path], properties: {path: {type: string}}}\nsecrets: {s: {}}\ninitialise:\n  machines: {nodes: {files: {\"{{settings.path}}\": {content: \"{{secret \\\"s\\\"}}\", mode: \"0600\"}}}}\n");
    let run = cluster.render();
    let text =
        |path: &str| String::from_utf8_lossy(&run.rendered.artifacts[path].bytes).into_owned();
    assert_eq!(text("nodes/controller/bundle/etc/a"), "@{secret one/s}");
    assert_eq!(text("nodes/controller/bundle/etc/b"), "@{secret again/s}");
}

#[test]
fn warnings_are_silenced_with_a_reason_and_stale_entries_are_said() {
    let cluster = Cluster::small("accept: {lock/unresolved: locked by CI}\n");
    assert_eq!(cluster.codes(), Vec::<String>::new());
    let cluster =
        Cluster::small("accept: {lock/unresolved: locked by CI, merge/unused-prefer: none}\n");
    assert_eq!(cluster.codes(), ["config/stale-accept"]);
}
