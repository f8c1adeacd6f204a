//! Hooks of machines, under a real systemd: what waits for what, what counts, and what the machine signals at the end.
//! Nothing of Kubernetes is there: a kubelet that only says that it has started, and AWS's part written into a file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kaws::load::Options;
use kaws::run::render;

use crate::systemd::System;
use crate::world::ip;
use crate::{program, root, shown};

/// In place of AWS: what is reported and signalled comes to stand in one file, with what hooks write.
const AWS: &str = r#"
report() { unsent=; echo "report $1 $2 ${4:-}" >>/var/log/said; }
signal() { echo "signal $1" >>/var/log/said; }
fail() { report failed "$1" "$2" "${3:-}"; signal FAILURE; exit 1; }
meta() { echo i-0; }
"#;
const ONCE: &str = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n";
const LONG: &str = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=kaws.target\n";

/// A machine with the worker's bundle of a cluster with hooks.
struct Machine {
    system: System,
    place: PathBuf,
    _folder: tempfile::TempDir,
}

impl Machine {
    fn boot(name: &str, hooks: &str) -> Self {
        let (folder, cluster) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // The folder's name is the machine's.
        let place = folder.path().join(format!("hooks-{name}"));
        lay_out(&place, cluster.path(), hooks);
        let network = format!("kaws-hooks-{}-{name}", std::process::id());
        ip(&["netns", "add", &network]);
        let system = System::start(&place, &network);
        let machine = Self { system, place, _folder: folder };
        machine.run(&[
            "/bin/sh",
            "-c",
            "set -a; . /etc/kaws/node.env; exec /opt/kaws/bin/kaws-node start",
        ]);
        machine
    }

    fn run(&self, words: &[&str]) -> String {
        shown(&self.system.command(words).output().unwrap())
    }

    /// Waits until the machine signals; returns all that was said until then.
    fn said(&self) -> Vec<String> {
        let path = self.place.join("files/var/log/said");
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.contains("signal ") {
                return text.lines().map(str::to_owned).collect();
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "no signal\n{text}\n{}",
                self.run(&["journalctl", "--no-pager", "--output", "cat"])
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Renders a cluster with hooks, and writes what its workers have, with stand-ins for what is not about hooks.
fn lay_out(folder: &Path, cluster: &Path, hooks: &str) {
    let example = std::fs::read_to_string(root().join("examples/minimal/cluster.yaml")).unwrap();
    std::fs::write(cluster.join("cluster.yaml"), format!("{example}plugins: {{h: {{}}}}\n"))
        .unwrap();
    let plugin = format!(
        "apiVersion: kaws/v1\nname: h\nversion: 1.0.0\ndescription: hooks\nnodes: [worker]\ninitialise:\n  hooks:\n{hooks}"
    );
    std::fs::create_dir_all(cluster.join("plugins/h")).unwrap();
    std::fs::write(cluster.join("plugins/h/plugin.yaml"), plugin).unwrap();
    let outcome = render(&Options::of(cluster.join("cluster.yaml"))).unwrap();
    let run = outcome
        .value
        .unwrap_or_else(|| panic!("{}", kaws::finding::findings_text(&outcome.findings, false)));
    let put = |path: &str, bytes: &[u8], mode: u32| {
        let full = folder.join("files").join(path.trim_start_matches('/'));
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(&full, bytes).unwrap();
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, artifact) in &run.rendered.artifacts {
        for group in ["nodes/worker/bundle/", "nodes/pool-general/bundle/"] {
            if let Some(path) = path.strip_prefix(group) {
                put(path, &artifact.bytes, artifact.mode);
            }
        }
    }
    for unit in ["kaws-secrets", "kaws-assets"] {
        put(&format!("/etc/systemd/system/{unit}.service"), ONCE.as_bytes(), 0o644);
    }
    put("/etc/systemd/system/containerd.service", LONG.as_bytes(), 0o644);
    let kubelet = LONG
        .replace("[Service]", "[Service]\nExecStartPre=/bin/sh -c 'echo kubelet >>/var/log/said'");
    put("/etc/systemd/system/kubelet.service", kubelet.as_bytes(), 0o644);
    put("/etc/systemd/system/kaws-drain.service", LONG.as_bytes(), 0o644);
    put(
        "/etc/kaws/healthy.d/kubelet.service",
        b"#!/bin/sh\nsystemctl is-active --quiet kubelet.service\n",
        0o755,
    );
    put("/opt/kaws/lib/aws.sh", AWS.as_bytes(), 0o644);
    put("/opt/kaws/bin/ctr", b"#!/bin/sh\necho \"ctr $*\" >>/var/log/said\n", 0o755);
    let facts = "KAWS_BUNDLE_SHA256=x\nKAWS_CLUSTER=minimal\nKAWS_GROUP=pool:general\nKAWS_ROLE=worker\nKAWS_TIMEOUT=40\n";
    put("/etc/kaws/node.env", facts.as_bytes(), 0o644);
}

fn place(said: &[String], line: &str) -> usize {
    said.iter().position(|l| l.trim_end() == line).unwrap_or_else(|| panic!("no {line}: {said:#?}"))
}

#[test]
fn hooks_run_in_their_places_under_systemd() {
    let digest = "a".repeat(64);
    let machine = Machine::boot(
        "good",
        &format!(
            "    before-node-start:\n      \
             first: {{command: 'sleep 1; echo $KAWS_EVENT $KAWS_CLUSTER $KAWS_PLUGIN >>/var/log/said'}}\n      \
             maybe: {{command: 'exit 7', behavior: sync-bypass}}\n      \
             joined: {{command: 'sleep 4; echo joined-before >>/var/log/said', behavior: async-enforce}}\n      \
             alone: {{command: 'sleep 1000', behavior: async-bypass}}\n    \
             after-node-start:\n      \
             first: {{command: 'echo after >>/var/log/said'}}\n      \
             maybe: {{command: 'exit 7', behavior: sync-bypass}}\n      \
             joined: {{command: 'sleep 2; echo joined-after >>/var/log/said', behavior: async-enforce}}\n      \
             alone: {{command: 'sleep 1000', behavior: async-bypass}}\n      \
             box: {{container: {{image: 'example.com/a@sha256:{digest}', command: [run]}}}}\n      \
             once: {{command: 'echo once >>/var/log/said', once: true}}\n"
        ),
    );
    let said = machine.said();
    let at = |line: &str| place(&said, line);
    // What is waited for comes before the kubelet; what is joined before the signal.
    assert!(at("before-node-start minimal h") < at("kubelet"), "{said:#?}");
    assert!(at("kubelet") < at("joined-before"), "{said:#?}");
    assert!(at("joined-before") < at("after") && at("after") < at("signal SUCCESS"), "{said:#?}");
    assert!(at("joined-after") < at("signal SUCCESS"), "{said:#?}");
    let run = format!(
        "ctr --namespace k8s.io run --rm --net-host --mount type=bind,src=/,dst=/host,options=rbind:rw \
         --env KAWS_EVENT=after-node-start --env KAWS_CLUSTER=minimal --env KAWS_GROUP=pool:general \
         example.com/a@sha256:{digest} hook-{} run",
        &kaws::value::sha256(b"hook-after-h.box")[..16]
    );
    assert!(at(&run) < at("signal SUCCESS"));
    // What failed and may is there for who looks; what runs on is left alone.
    assert!(
        machine.run(&["systemctl", "is-failed", "hook-after-h.maybe.service"]).contains("failed")
    );
    assert!(
        machine
            .run(&["systemctl", "is-active", "hook-after-h.alone.service"])
            .contains("activating")
    );
    // Once in a machine's life.
    assert_eq!(said.iter().filter(|line| *line == "once").count(), 1);
    machine.run(&["systemctl", "restart", "hook-after-h.once.service"]);
    assert!(!machine.run(&["tail", "-1", "/var/log/said"]).contains("once"));
}

#[test]
fn a_hook_that_fails_and_counts_fails_the_machine() {
    for (name, event, body) in [
        ("a", "before-node-start", "command: 'exit 3'"),
        ("b", "before-node-start", "command: 'exit 3', behavior: async-enforce"),
        ("c", "before-node-start", "command: 'sleep 1000', timeout: 1s"),
        ("d", "after-node-start", "command: 'exit 3'"),
        ("e", "after-node-start", "command: 'exit 3', behavior: async-enforce"),
        ("f", "after-node-start", "command: 'sleep 1000', timeout: 1s"),
    ] {
        let machine = Machine::boot(name, &format!("    {event}:\n      bad: {{{body}}}\n"));
        let said = machine.said();
        let failed = place(
            &said,
            &format!("report failed hooks hook-{}-h.bad.service", event.split('-').next().unwrap()),
        );
        assert!(failed < place(&said, "signal FAILURE"), "{body}: {said:#?}");
        let started = said.iter().any(|line| line == "kubelet");
        assert_eq!(started, event == "after-node-start" || name == "b", "{body}: {said:#?}");
    }
}

#[test]
fn units_of_hooks_pass_systemds_own_check() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hook = |name: &str, more: &str| format!("      {name}: {{command: 'true'{more}}}\n");
    let all = [
        ", behavior: sync-bypass",
        ", behavior: async-enforce, once: true",
        ", behavior: async-bypass, timeout: 2h",
        "",
    ];
    let hooks: String = ["before-node-start", "after-node-start"]
        .iter()
        .map(|event| {
            format!(
                "    {event}:\n{}",
                all.iter()
                    .enumerate()
                    .map(|(i, more)| hook(&format!("{event}-{i}"), more))
                    .collect::<String>()
            )
        })
        .collect();
    lay_out(folder.path(), cluster.path(), &hooks);
    let files = folder.path().join("files");
    let copied =
        Command::new("cp").args(["-r", "/usr/lib/systemd"]).arg(files.join("etc/")).status();
    assert!(copied.unwrap().success());
    std::fs::create_dir_all(files.join("bin")).unwrap();
    for name in ["sh", "true", "sleep", "mkdir", "touch"] {
        std::fs::copy("/bin/true", files.join("bin").join(name)).unwrap();
    }
    let units = std::fs::read_dir(files.join("etc/systemd/system")).unwrap();
    let names: Vec<String> = units
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.starts_with("hook-"))
        .collect();
    assert_eq!(names.len(), 8);
    let root = format!("--root={}", files.display());
    let arguments: Vec<&str> = ["verify", "--man=no", root.as_str()]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    let output = program("systemd-analyze", &arguments, folder.path());
    assert!(output.status.success() && output.stderr.is_empty(), "{}", shown(&output));
}
