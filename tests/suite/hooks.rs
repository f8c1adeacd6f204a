//! Hooks: the short manifests as they were asked for, and what becomes of each behavior.

use kaws::run::Run;

use crate::support::Cluster;

/// The three manifests of the kops issue, letter by letter.
const EX1: &str =
    "name: ex1\ntype: shell-exec\nbehavior: sync-enforce\ncommand: \"sudo apt-get update -y\"\n";
const EX2: &str = "name: ex2\ntype: shell-exec\nbehavior: async-bypass\nscript: \"s3://path/to/your/script.sh\"\n\
                   #script: \"https://rawgit.com/org/repo/branch/path/script.sh\"\n\
                   #script: \"/path/on/local/filesystem/script.sh\"\n";
const EX3: &str = "type: plugin # <-- This will tell kops to look for a plugin \n\
                   name: CustomTags # <-- This will tell kops that the plugin is called \"CustomTags\", we will need a struct defined.\n\
                   behavior: sync-enforce\n";

fn text(run: &Run, path: &str) -> String {
    let artifact = run.rendered.artifacts.get(path).unwrap_or_else(|| panic!("no {path}"));
    String::from_utf8(artifact.bytes.to_vec()).unwrap()
}

fn unit(run: &Run, name: &str) -> String {
    text(run, &format!("nodes/worker/bundle/etc/systemd/system/{name}"))
}

fn locked(from: &str) -> String {
    format!(
        "kaws: 0.1.0\nscripts: {{after-node-start/ex2/ex2: {{from: '{from}', content: \"#!/bin/bash\\necho hi\\n\"}}}}\n"
    )
}

#[test]
fn the_manifests_of_the_kops_issue_work_as_written() {
    let cluster = Cluster::small("plugins: {ex1: {}, ex2: {}, custom-tags: {}}\n");
    cluster.file("plugins/ex1/plugin.yaml", EX1);
    cluster.file("plugins/ex2/plugin.yaml", EX2);
    cluster.file("plugins/custom-tags/plugin.yaml", EX3);
    cluster.file("kaws.lock", locked("s3://path/to/your/script.sh"));
    let run = cluster.render();
    insta::assert_snapshot!(unit(&run, "hook-after-ex1.ex1.service"));
    assert_eq!(
        text(&run, "nodes/worker/bundle/opt/kaws/hooks/hook-after-ex1.ex1"),
        "#!/bin/sh\nsudo apt-get update -y\n"
    );
    assert_eq!(
        text(&run, "nodes/worker/bundle/opt/kaws/hooks/hook-after-ex2.ex2"),
        "#!/bin/bash\necho hi\n"
    );
    let said = |name: &str| text(&run, &format!("nodes/controller/bundle/etc/kaws/hooks.d/{name}"));
    assert_eq!(
        said("hook-after-ex1.ex1"),
        "name=hook-after-ex1.ex1.service\nwait=true\nenforce=true\n"
    );
    assert_eq!(
        said("hook-after-ex2.ex2"),
        "name=hook-after-ex2.ex2.service\nwait=false\nenforce=false\n"
    );
    // The tag is computed from what kaws holds in memory, and CloudFormation puts it on everything.
    let manifest = &run.manifest;
    let tag = "kaws/topology: kubernetes=";
    assert!(manifest.matches(tag).count() > 4, "{manifest}");
    assert!(manifest.contains(" etcd=3 controllers=3 pools=2"), "{manifest}");
    // The other two places that the issue names.
    for other in
        ["https://rawgit.com/org/repo/branch/path/script.sh", "/path/on/local/filesystem/script.sh"]
    {
        cluster.file("plugins/ex2/plugin.yaml", EX2.replace("s3://path/to/your/script.sh", other));
        assert!(cluster.codes().contains(&"lock/unanswered".to_owned()));
        cluster.file("kaws.lock", locked(other));
        cluster.render();
    }
}

/// What a hook of each behavior has: ordered before the kubelet, counted, required by it; waited for and enforced later.
#[test]
fn each_behavior_has_its_place() {
    let cluster = Cluster::small("plugins: {h: {}}\n");
    for (behavior, waits, enforces) in [
        ("sync-enforce", true, true),
        ("sync-bypass", true, false),
        ("async-enforce", false, true),
        ("async-bypass", false, false),
    ] {
        let hook =
            format!("{{x: {{command: 'true', behavior: {behavior}, timeout: 90s, once: true}}}}");
        cluster.plugin(
            "h",
            &format!("nodes: [etcd, worker]\ninitialise: {{hooks: {{before-node-start: {hook}, after-node-start: {}}}}}\n", hook.replace("x:", "y:")),
        );
        let run = cluster.render();
        let before = unit(&run, "hook-before-h.x.service");
        assert_eq!(before.contains("Before=kubelet.service"), waits, "{before}");
        assert!(
            before.contains("TimeoutStartSec=90s")
                && before.contains("test -e /var/lib/kaws/hooks/hook-before-h.x ||")
        );
        let slug = &kaws::value::sha256(b"hook-before-h.x.service")[..8];
        let listed = text(
            &run,
            &format!("nodes/worker/bundle/etc/kaws/units.d/hook-before-h.x.service-{slug}"),
        );
        assert!(listed.contains(&format!("enabled=true\nrequired={enforces}\n")), "{listed}");
        let dropin =
            "nodes/worker/bundle/etc/systemd/system/kubelet.service.d/20-hook-before-h.x.conf";
        assert_eq!(run.rendered.artifacts.contains_key(dropin), waits && enforces);
        let later = text(&run, "nodes/worker/bundle/etc/kaws/hooks.d/hook-after-h.y");
        assert_eq!(
            later,
            format!("name=hook-after-h.y.service\nwait={waits}\nenforce={enforces}\n")
        );
        let etcd = text(&run, "nodes/etcd/bundle/etc/systemd/system/hook-before-h.x.service");
        assert_eq!(etcd.contains("Before=etcd.service"), waits);
        assert!(
            !run.rendered
                .artifacts
                .keys()
                .any(|p| p.contains("controller") && p.contains("hook-before-h."))
        );
    }
}

#[test]
fn what_a_hook_runs_comes_from_the_folder_or_is_a_container() {
    let cluster = Cluster::small("plugins: {h: {settings: {word: there}}}\n");
    let digest = "a".repeat(64);
    cluster.plugin(
        "h",
        &format!(
            "nodes: [worker]\nsettings: {{properties: {{word: {{type: string}}}}}}\nsecrets: {{token: {{}}}}\n\
             initialise:\n  hooks:\n    after-node-start:\n      own: {{script: ./bin/own.sh}}\n      file: {{file: f.sh}}\n      \
             template: {{template: t.sh.hbs}}\n      command: {{command: 'echo {{{{settings.word}}}}', nodes: ['pool:other']}}\n      \
             container: {{container: {{image: 'example.com/a@sha256:{digest}', command: [sh, -c, \"it's\"]}}}}\n      \
             off: {{$when: '(eq settings.word \"no\")', command: 'false'}}\n"
        ),
    );
    cluster.file("plugins/h/bin/own.sh", "echo own\n");
    cluster.file("plugins/h/files/f.sh", "#!/bin/bash\necho f\n");
    cluster.file(
        "plugins/h/templates/t.sh.hbs",
        "#!/bin/sh\necho {{settings.word}} {{secret \"token\"}}\n",
    );
    let run = cluster.render();
    let script = |group: &str, name: &str| {
        text(&run, &format!("nodes/{group}/bundle/opt/kaws/hooks/hook-after-h.{name}"))
    };
    assert_eq!(script("worker", "own"), "#!/bin/sh\necho own\n");
    assert_eq!(script("worker", "file"), "#!/bin/bash\necho f\n");
    assert_eq!(script("worker", "template"), "#!/bin/sh\necho there @{secret h/token}\n");
    assert_eq!(script("pool-other", "command"), "#!/bin/sh\necho there\n");
    insta::assert_snapshot!(script("worker", "container"));
    let paths: Vec<&String> =
        run.rendered.artifacts.keys().filter(|p| p.contains("hook-after-h.")).collect();
    assert!(
        !paths.iter().any(|p| p.ends_with("hook-after-h.off") || p.contains("pool-general")),
        "{paths:?}"
    );
    // A secret in a hook: the group may read it, and the node fills it in.
    assert!(text(&run, "stacks/pool-general.yaml").contains("/secrets/h/token"));
}

#[test]
fn what_is_wrong_with_a_hook_is_said_with_its_place() {
    let cases = [
        ("{x: {behavior: sync-enforce}}", "runs nothing, or several things"),
        ("{x: {command: a, file: f}}", "runs nothing, or several things"),
        ("{x: {command: a, behavior: sync}}", "behavior"),
        ("{x: {command: a, nodes: ['pool:genral']}}", "did you mean `pool:general`"),
        ("{x: {container: {image: nginx}}}", "sha256"),
        (
            "{x: {container: {image: 'a@sha256:DIGEST'}, nodes: [etcd]}}",
            "machines of etcd run none",
        ),
        ("{x: {script: ./none.sh}}", "has no file none.sh"),
        ("{x: {command: a, timeout: soon}}", "timeout"),
        ("{X_1: {command: a}}", "no name for a hook"),
        ("{x: {command: a, nodes: [controller]}}", "its plugin is not on there"),
    ];
    for (hook, expected) in cases {
        let cluster = Cluster::small("plugins: {h: {}}\n");
        let hook = hook.replace("DIGEST", &"a".repeat(64));
        cluster.plugin(
            "h",
            &format!(
                "nodes: [etcd, worker]\ninitialise: {{hooks: {{after-node-start: {hook}}}}}\n"
            ),
        );
        cluster.file("plugins/h/files/f", "x");
        let said = cluster.fatal();
        assert!(said.contains(expected), "{hook}\n{said}");
        assert!(said.contains("plugins/h/plugin.yaml:"), "{said}");
    }
    let cluster = Cluster::small("plugins: {h: {}}\n");
    cluster.plugin("h", "initialise: {hooks: {after-node-strat: {x: {command: a}}}}\n");
    assert!(cluster.fatal().contains("after-node-start"));
    cluster.plugin("h", "initialise: {hooks: {after-node-start: {x: {command: a}}}}\n");
    assert!(cluster.fatal().contains("is for no machines"));
    cluster.plugin(
        "h",
        "initialise: {hooks: {after-deploy: {x: {command: a, behavior: async-bypass}}}}\n",
    );
    assert!(cluster.fatal().contains("sync-bypass"));
    cluster.plugin("h", "nodes: [worker]\nwrites: [machines]\ninitialise: {hooks: {after-node-start: {x: {command: a}}}}\n");
    assert!(cluster.fatal().contains("merge/undeclared-write"));
    let short = |text: &str| {
        let cluster = Cluster::small("plugins: {h: {}}\n");
        cluster.file("plugins/h/plugin.yaml", text);
        cluster.fatal()
    };
    assert!(
        short(
            "{name: h, type: shell-exec, event: after-deploy, behavior: async-enforce, command: a}"
        )
        .contains("kaws waits for hooks")
    );
    assert!(short("{name: H, type: plugin}").contains("there is no native code for h"));
}
