//! What a plugin, a patch or a setting must not get away with.

use crate::support::{Cluster, MINIMAL};

fn with(body: &str) -> Cluster {
    let cluster = Cluster::small("plugins: {mine: {}}\n");
    cluster.plugin("mine", body);
    cluster
}

fn refused(body: &str, code: &str) {
    let codes = with(body).codes();
    assert!(codes.iter().any(|c| c == code), "{body}\nshould give {code}, and gives {codes:?}");
}

#[test]
fn secrets_of_others_are_not_read() {
    let file = |content: &str| {
        format!(
            "nodes: [controller]\ninitialise: {{machines: {{controller: {{files: {{/etc/x: {{mode: '0600', content: {content}}}}}}}}}}}\n"
        )
    };
    refused(&file("'@{secret dex/github}'"), "template/secret");
    refused(&file("{$secret: dex/github}"), "template/secret");
    with(&file("{$secret: own}")).render();
}

#[test]
fn secrets_stand_in_no_unit_and_in_no_wide_file() {
    let unit = "nodes: [controller]\nsecrets: {t: {}}\ninitialise: {machines: {nodes: {units: {x.service: {content: \"[Service]\\nEnvironment=T={{secret 't'}}\\n\"}}}}}\n";
    refused(unit, "model/file-wider-than-secret");
    let key = "nodes: [controller]\ninitialise: {machines: {nodes: {files: {/etc/k: {content: {$pki: apiserver.key}}}}}}\n";
    refused(key, "model/file-wider-than-secret");
}

#[test]
fn a_literal_secret_is_printed_nowhere() {
    let cluster = Cluster::small(
        "plugins: {mine: {enabeld: true, settings: {password: hunter2, pins: [1]}}}\n",
    );
    cluster.plugin("mine", "settings: {properties: {password: {type: string}}}\n");
    let output = cluster.kaws(&["render"]);
    assert_eq!(output.code, 1);
    assert!(!output.all().contains("hunter2"), "{}", output.all());
    let cluster = Cluster::small("plugins: {mine: {}}\n");
    cluster.plugin("mine", "settings: {properties: {password: {type: string}, license: {type: string, format: secret}}}\n");
    cluster.file("config/mine.yaml", "password: hunter2\nlicense: hunter3\n");
    let output = cluster.kaws(&["render"]);
    assert!(output.err.contains("config/plain-secret"), "{}", output.err);
    assert!(!output.all().contains("hunter2"), "{}", output.all());
}

#[test]
fn an_installed_plugin_patches_only_what_it_declares() {
    let patch = "writes: []\ninitialise: {patches: {p: {at: apiServer.flags.profiling, op: replace, value: true, why: x}}}\n";
    refused(patch, "merge/undeclared-write");
    with(&patch.replace("[]", "[apiServer.flags.profiling]")).render();
}

#[test]
fn what_a_patch_leaves_is_checked() {
    let patch = |path: &str, value: &str| {
        let text = format!(
            "{MINIMAL}customise: {{patches: {{p: {{at: '{path}', op: replace, value: {value}, why: x}}}}}}\n"
        );
        Cluster::new(&text).codes()
    };
    let config = "machines.worker.files[\"/var/lib/kubelet/config.yaml\"]";
    assert!(patch(config, "{base64: '!!!'}").contains(&"patch/value".to_owned()));
    assert!(
        patch("machines.controller.units[\"kubelet.service\"]", "{enabled: true}")
            .contains(&"patch/value".to_owned())
    );
}

#[test]
fn words_of_kaws_are_known_and_stand_where_they_mean_something() {
    refused(
        "initialise: {values: {mine: {x: {$wen: cluster.name, y: 1}}}}\n",
        "template/unknown-word",
    );
    let topic = |value: &str| {
        format!(
            "initialise: {{stacks: {{mine: {{resources: {{T: {{Type: AWS::SNS::Topic, Properties: {{TopicName: {value}}}}}}}}}}}}}\n"
        )
    };
    refused(&topic("{$pki: ca.crt}"), "model/raw-word");
    refused(&topic("{$secret: own}"), "model/raw-word");
    with(&topic("{$when: cluster.name, $value: '{{cluster.name}}'}")).render();
    refused(
        "initialise: {values: {mine: {x: {a: 1, \"{{lower 'A'}}\": 2}}}}\n",
        "template/duplicate-key",
    );
}

#[test]
fn stacks_are_wired_as_they_say() {
    refused(
        "initialise: {stacks: {mine: {after: [mine], resources: {T: {Type: AWS::SNS::Topic}}}}}\n",
        "model/stack-cycle",
    );
    let body = "initialise: {stacks: {mine: {parameters: {Vpc: {Type: String, $source: {$output: network.VpcId}}}, resources: {T: {Type: AWS::SNS::Topic, Properties: {TopicName: !Ref Vpc}}}}}}\n";
    let run = with(body).render();
    assert!(
        run.manifest.contains("      Vpc:\n        $output: network.VpcId"),
        "{}",
        run.manifest
    );
    let clash = "initialise: {stacks: {mine: {resources: {NetworkVpcId: {Type: AWS::SNS::Topic, Properties: {TopicName: {$output: network.VpcId}}}}}}}\n";
    refused(clash, "model/parameter-clash");
}

#[test]
fn a_preference_decides_among_three() {
    let cluster = Cluster::small(
        "plugins: {a: {}, b: {}, c: {}}\nprefer: {apiServer: {flags: {max-requests-inflight: c}}}\n",
    );
    for (name, value) in [("a", 1), ("b", 2), ("c", 3)] {
        cluster.plugin(
            name,
            &format!("initialise: {{apiServer: {{flags: {{max-requests-inflight: {value}}}}}}}\n"),
        );
    }
    let run = cluster.render();
    assert_eq!(
        run.rendered
            .model
            .entity(&["apiServer", "flags", "max-requests-inflight"])
            .unwrap()
            .body
            .to_value(),
        3
    );
    assert!(!cluster.codes().contains(&"merge/unused-prefer".to_owned()));
}

#[test]
fn names_that_look_alike_stay_apart() {
    let body = "nodes: [controller]\ninitialise: {machines: {nodes: {files: {/etc/a/b: {content: x, owner: etcd}, /etc/a-b: {content: y, owner: etcd}}}}}\n";
    let run = with(body).render();
    let count = run
        .rendered
        .artifacts
        .keys()
        .filter(|p| p.contains("controller/bundle/etc/kaws/files.d/etc-a-b-"))
        .count();
    assert_eq!(count, 2);
}

#[test]
fn a_file_becomes_a_folder_and_back() {
    let body = |path: &str| {
        format!(
            "nodes: [controller]\ninitialise: {{machines: {{nodes: {{files: {{{path}: {{content: x}}}}}}}}}}\n"
        )
    };
    let cluster = with(&body("/etc/x"));
    assert_eq!(cluster.kaws(&["render"]).code, 0);
    for path in ["/etc/x/y", "/etc/x"] {
        cluster.plugin("mine", &body(path));
        let output = cluster.kaws(&["render"]);
        assert_eq!(output.code, 0, "{path}: {}", output.all());
        assert_eq!(cluster.kaws(&["render", "--check"]).code, 0, "{path}");
    }
}

#[test]
fn what_aws_would_refuse_is_said_before() {
    let codes = |more: &str| Cluster::small(more).codes();
    assert!(codes("etcd: {timeout: 2h}\n").contains(&"config/timeout".to_owned()));
    let long = MINIMAL
        .replace("name: small", "name: abcdefghijklmnopqrstuvwxyz12")
        .replace("eu-west-1", "ap-northeast-1");
    assert!(Cluster::new(&long).codes().contains(&"config/name-length".to_owned()));
    let rule = |rule: &str| {
        format!("initialise: {{securityGroups: {{worker: {{ingress: {{r: {rule}}}}}}}}}\n")
    };
    for bad in [
        "{protocol: tcp, port: 9000-80, from: {cidr: 10.0.0.0/8}}",
        "{protocol: tcp, from: {cidr: 10.0.0.0/8}}",
        "{protocol: tcp, port: 80, from: {cidr: '::/0'}}",
    ] {
        refused(&rule(bad), "model/rule");
    }
    refused(
        "nodes: [worker]\ninitialise: {iam: {nodes: {statements: {read-bucket: {Action: 's3:GetObject', Resource: '*'}}}}}\n",
        "model/name",
    );
}

#[test]
fn numbers_that_are_too_large_end_in_a_finding() {
    refused(
        "initialise: {values: {mine: {x: \"{{indent 9223372036854775807 'a'}}\"}}}\n",
        "template/failed",
    );
    refused(
        "initialise: {values: {mine: {x: \"{{cidrSubnet '0.0.0.0/0' 32 4294967296}}\"}}}\n",
        "template/failed",
    );
    with("initialise: {values: {mine: {x: \"{{cidrSubnet '0.0.0.0/0' 32 4294967295}}\"}}}\n")
        .render();
}
