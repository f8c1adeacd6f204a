//! Plugins that are programs: what they are told, what becomes of their answers, and what happens when kaws itself is
//! gone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kaws::kit::{self, Test};
use kaws::run::{Run, render};
use kaws::runtime::{Host, Runtime};

use crate::support::{Cluster, programs};

/// A cluster with a plugin whose program is a shell script.
fn cluster(manifest: &str, script: &str) -> Cluster {
    let cluster = Cluster::small("plugins:\n  acme: {settings: {text: hello}}\n");
    let settings = "settings: {type: object, properties: {text: {type: string}}}\n";
    let nodes = "nodes: [controller, worker]\n";
    cluster.plugin(
        "acme",
        &format!("{nodes}{settings}{manifest}\ninitialise: {{exec: ./bin/acme}}\n"),
    );
    cluster.file("plugins/acme/bin/acme", format!("#!/bin/sh\n{script}\n"));
    cluster
}

fn rendered(cluster: &Cluster) -> Run {
    let mut options = cluster.options();
    options.runtime = Some(programs(None));
    let outcome = render(&options).unwrap();
    outcome.value.unwrap_or_else(|| panic!("{:#?}", outcome.findings))
}

fn value(run: &Run) -> String {
    let entity = run.rendered.model.entity(&["values", "acme", "x"]).unwrap();
    entity.body.as_str().unwrap().to_owned()
}

/// A script that answers with a text of its own making.
fn telling(command: &str) -> String {
    format!(
        "x=$({command})\nprintf '{{\"contribution\": {{\"values\": {{\"acme\": {{\"x\": \"%s\"}}}}}}}}' \"$x\""
    )
}

#[test]
fn a_program_is_told_the_cluster_in_its_environment() {
    let names = "env | grep ^KAWS_ | grep -v 'RESULT\\|PATH\\|VERSION' | sort | tr '\\n' ' '";
    let run = rendered(&cluster("writes: []", &telling(names)));
    assert_eq!(
        value(&run),
        "KAWS_CLUSTER=small KAWS_COMMAND=EXEC KAWS_CONTROLLERS=count=3 \
         KAWS_NETWORK=vpc=10.0.0.0/16;pods=10.2.0.0/16;services=10.3.0.0/16 KAWS_PLUGIN=acme \
         KAWS_STAGE=initialise KAWS_WORKERS=general=1;other=1 "
    );
}

#[test]
fn a_program_is_told_what_it_reads_and_no_more() {
    let keys = "tr ',{' '\\n\\n' | grep -o '\"[a-zA-Z]*\":$' | tr -d '\":\\n'";
    let all = rendered(&cluster("writes: []", &telling(keys)));
    assert!(value(&all).contains("machines") && value(&all).contains("helm"), "{}", value(&all));
    let some = cluster(
        "writes: []\nafter: [kubelet]\nreads: [machines.nodes.files, plugins.cilium]",
        &telling(keys),
    );
    let some = value(&rendered(&some));
    assert!(some.contains("machines") && some.contains("cilium"), "{some}");
    assert!(!some.contains("helm") && !some.contains("coredns"), "{some}");
}

#[test]
fn its_settings_and_files_reach_the_machines() {
    let script = r#"sed -n 's/.*"settings":{"text":"\([a-z]*\)".*/{"contribution": {"machines": {"nodes": {"files": {"\/etc\/x": {"content": "\1 @{node group}"}, "\/etc\/y": {"file": "y.conf"}, "\/etc\/z": {"template": "z.hbs"}}}}}}/p'"#;
    let cluster = cluster("writes: [machines.nodes.files]", script);
    cluster.file("plugins/acme/files/y.conf", "y = 1\n");
    cluster.file("plugins/acme/templates/z.hbs", "z = {{settings.text}}\n");
    let run = rendered(&cluster);
    let text = |path: &str| String::from_utf8(run.rendered.artifacts[path].bytes.to_vec()).unwrap();
    assert_eq!(text("nodes/controller/bundle/etc/x"), "hello @{node group}");
    assert_eq!(text("nodes/worker/bundle/etc/y"), "y = 1\n");
    assert_eq!(text("nodes/worker/bundle/etc/z"), "z = hello\n");
}

#[test]
fn an_answer_that_is_known_is_not_asked_for_again() {
    let cluster = cluster("writes: []", &telling("echo once"));
    let cache = tempfile::tempdir().unwrap();
    let with = |supervisor: &str| {
        let mut options = cluster.options();
        options.runtime = Some(Runtime::new(Host {
            supervisor: supervisor.into(),
            path: vec!["/usr/bin".into(), "/bin".into()],
            home: None,
            cache: Some(cache.path().to_owned()),
            environment: std::collections::BTreeMap::new(),
        }));
        render(&options).unwrap()
    };
    let gone = "/no/such/program";
    assert!(with(gone).value.is_none(), "nothing is known yet, and nothing can be run");
    assert!(with(env!("CARGO_BIN_EXE_kaws")).value.is_some());
    assert_eq!(value(&with(gone).value.unwrap()), "once");
    // Another question is another answer; a broken one counts for nothing.
    cluster.file("plugins/acme/README.md", "changed");
    assert!(with(gone).value.is_none());
    assert!(with(env!("CARGO_BIN_EXE_kaws")).value.is_some());
    for entry in std::fs::read_dir(cache.path().join("answers")).unwrap() {
        let path = entry.unwrap().path();
        let half = std::fs::read(&path).unwrap();
        std::fs::write(&path, &half[..half.len() - 3]).unwrap();
    }
    assert!(with(gone).value.is_none());
}

#[test]
fn a_library_that_runs_no_programs_says_so() {
    let cluster = cluster("writes: []", &telling("echo x"));
    assert!(cluster.fatal().contains("nothing here runs programs"), "{}", cluster.fatal());
}

/// Starts kaws on a program that waits, and returns how many of its processes are there after `end`.
fn left_after(end: impl Fn(u32)) -> usize {
    // Nobody else waits for just so long.
    let seconds = format!("3{:04}", std::process::id() % 10_000);
    let cluster = cluster("writes: []", &format!("sleep {seconds} & sleep {seconds}"));
    let waiting = || {
        let out =
            Command::new("pgrep").args(["-fc", &format!("^sleep {seconds}")]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).trim().parse::<usize>().unwrap_or(0)
    };
    let until = |wanted: &dyn Fn(usize) -> bool| {
        let begun = Instant::now();
        while !wanted(waiting()) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        waiting()
    };
    let mut kaws = Command::new(env!("CARGO_BIN_EXE_kaws"))
        .arg("render")
        .current_dir(cluster.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(until(&|n| n == 2), 2, "the program has started");
    end(kaws.id());
    kaws.wait().unwrap();
    until(&|n| n == 0)
}

#[test]
fn when_kaws_is_gone_so_are_its_programs() {
    for signal in ["-KILL", "-INT", "-TERM"] {
        let kill = |pid: u32| {
            Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
        };
        assert_eq!(left_after(kill), 0, "{signal}");
    }
}

fn test(cluster: &Cluster) -> kit::Report {
    cluster.file(
        "plugins/acme/cases/on/case.yaml",
        "cluster: minimal\nplugins: {acme: {settings: {text: hello}}}\nexpect: {findings: []}\n",
    );
    let dir = cluster.path().join("plugins/acme");
    kit::test(&Test { dir, runtime: Some(programs(None)), ..Test::default() }).unwrap()
}

fn failure(script: &str) -> String {
    let report = test(&cluster("writes: []", script));
    report.cases[0].failure.clone().unwrap_or_else(|| "it passes".to_owned())
}

#[test]
fn cases_find_programs_that_answer_otherwise_each_time() {
    let random = failure(&telling("head -c 8 /dev/urandom | od -An -tx1 | tr -d ' '"));
    assert!(random.contains("rendering twice gives other bytes"), "{random}");
    let zone = failure(&telling("date -d @0 +%H"));
    assert!(zone.contains("another home, time zone and language"), "{zone}");
    let home = failure(&telling("echo $HOME"));
    assert!(home.contains("rendering twice gives other bytes"), "{home}");
    let own = failure(
        r#"if grep -q '"acme":{"x"'; then x=more; else x=less; fi
printf '{"contribution": {"values": {"acme": {"x": "%s"}}}}' $x"#,
    );
    assert!(own.contains("when the model already holds what it adds"), "{own}");
    assert_eq!(failure(&telling("echo x")), "it passes");
}

#[test]
fn cases_tell_what_is_declared_and_not_needed() {
    let manifest = "writes: [values.acme, helm.releases]\nreads: [pki, values]\nafter: [pki]";
    let report = test(&cluster(
        manifest,
        r#"grep -q '"kubernetes-ca"' && echo '{"contribution": {"values": {"acme": {"x": "y"}}}}'"#,
    ));
    assert!(report.passed(), "{:?}", report.cases[0].failure);
    assert_eq!(report.unwritten, ["helm.releases"]);
    assert_eq!(report.unread, ["values"]);
    assert!(report.unset.is_empty());
}

#[test]
fn a_case_says_what_must_be_so() {
    let cluster = cluster("writes: []", &telling("echo x"));
    let dir = cluster.path().join("plugins/acme");
    let test = |expect: &str| {
        let case = format!("cluster: minimal\nplugins: {{acme: {{}}}}\nexpect: {expect}\n");
        cluster.file("plugins/acme/cases/on/case.yaml", case);
        let test = Test { dir: dir.clone(), runtime: Some(programs(None)), ..Test::default() };
        kit::test(&test).unwrap().cases[0].failure.clone()
    };
    assert_eq!(test("{model: {values.acme.x: x}, findings: []}"), None);
    assert_eq!(test("{model: {values.acme.x: y}}").unwrap(), "values.acme.x\n- \"y\"\n+ \"x\"");
    assert!(test("{findings: [acme/x]}").unwrap().contains("- acme/x"));
    assert!(test("{files: {none.txt: x}}").unwrap().contains("there is no file none.txt"));
}

#[test]
fn a_program_can_be_asked_by_hand() {
    let cluster = cluster("writes: []", &telling("echo asked >&2; echo x"));
    let asked = cluster.kaws(&["plugin", "run", "plugins/acme"]);
    assert_eq!((asked.code, asked.err.as_str()), (0, "asked\n"), "{}", asked.all());
    assert!(asked.out.contains("\"x\": \"x\""), "{}", asked.out);
    let request = cluster.kaws(&["plugin", "run", "plugins/acme", "--ask"]);
    assert!(request.out.contains("\"stage\": \"initialise\""), "{}", request.all());
    cluster.file("request.json", &request.out);
    let again = cluster.kaws(&["plugin", "run", "plugins/acme", "--request", "request.json"]);
    assert_eq!(again.out, asked.out);
    let other = cluster.kaws(&["plugin", "run", "plugins/acme", "--stage", "render"]);
    assert_eq!(other.code, 1);
    assert!(other.err.contains("acme was not asked anything in render"), "{}", other.all());
    assert!(!Path::new("request.json").exists());
}
