//! Tests with real programs: cfn-lint, PyYAML, cloud-init, shellcheck, systemd, a network namespace, a
//! faked clock. `scripts/test` installs them; a program that is missing fails its test.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests read, write and run programs, and stop where something is not there"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kaws::load::{Options, example_names};
use kaws::run::{Run, render_with};
use kaws::value::{read, sha256};

mod agree;
mod api_server;
mod aws;
mod boots;
mod checks;
mod converges;
mod events;
mod hooks;
mod installs;
mod kubernetes;
mod machine;
mod mock;
mod pages;
mod rolls;
mod sdks;
mod states;
#[expect(dead_code, reason = "the suite uses more of it")]
#[path = "../suite/support.rs"]
mod support;
mod systemd;
mod world;

const KAWS: &str = env!("CARGO_BIN_EXE_kaws");

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What `up` is told where no machine ever answers: unless it is said how to ask them.
fn unasked(arguments: &[&str]) -> &'static [&'static str] {
    let up = arguments.first() == Some(&"up") && !arguments.contains(&"--kubeconfig");
    if up { &["--no-validate", "--no-roll"] } else { &[] }
}

/// Runs a program that must be there.
fn program(name: &str, arguments: &[&str], dir: &Path) -> Output {
    let output = Command::new(name).args(arguments).current_dir(dir).output();
    output.unwrap_or_else(|error| {
        panic!(
            "{name} is needed for this test, and cannot be run ({error}): scripts/test installs it"
        )
    })
}

fn shown(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// All plugins of contrib/, with settings that turn on most of what they do.
const CONTRIB: &str = "plugins:
  bastion: {settings: {allowedCIDRs: [198.51.100.0/24]}}
  datadog: {settings: {site: datadoghq.eu, apiKey: {$secret: api-key}, logs: true, tags: {team: a}}}
  descheduler: {}
  dex: {settings: {issuer: https://dex.acme.example, ingressClass: nginx, connectors: {github: {type: github, name: GitHub, config: {clientID: x, clientSecret: {$secret: github}}}}}}
  kube2iam: {settings: {roles: ['arn:aws:iam::111122223333:role/app']}}
  worker-iam: {settings: {statements: {Queue: {Effect: Allow, Action: sqs:SendMessage, Resource: 'arn:aws:sqs:eu-west-1:111122223333:q'}}, managedPolicies: {ssm: 'arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore'}}}
";

/// Every example alone and with all contrib plugins, and the commented example.
fn clusters() -> Vec<(String, Run)> {
    let over = read(&kaws::origin::SourceFile::new("contrib.yaml", CONTRIB)).unwrap();
    let mut all = Vec::new();
    for name in example_names() {
        let options = Options {
            example: Some(name.to_owned()),
            ..Options::of(root().join("examples/none.yaml"))
        };
        all.push((name.to_owned(), render_with(&options, None).unwrap().value.unwrap()));
        let with = render_with(&options, Some(&over)).unwrap();
        let text = kaws::finding::findings_text(&with.findings, false);
        all.push((
            format!("{name}-contrib"),
            with.value.unwrap_or_else(|| panic!("{name}:\n{text}")),
        ));
    }
    let example = Options::of(root().join("cluster.yaml.example"));
    all.push(("example".to_owned(), render_with(&example, None).unwrap().value.unwrap()));
    all
}

#[test]
fn every_distinct_template_lints_without_error_and_without_warning() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(root().join(".cfnlintrc"), dir.path().join(".cfnlintrc")).unwrap();
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for (cluster, run) in clusters() {
        for (path, artifact) in
            run.rendered.artifacts.iter().filter(|(p, _)| p.starts_with("stacks/"))
        {
            // Pools that differ in names and sizes alone say the same to a linter.
            let text = String::from_utf8_lossy(&artifact.bytes).into_owned();
            if !seen.insert(sha256(shape(&text).as_bytes())) {
                continue;
            }
            let region = run.setup.config.region.clone();
            let file = format!("{region}+{cluster}-{}", path.trim_start_matches("stacks/"));
            std::fs::write(dir.path().join(&file), text).unwrap();
            files.push((region, file));
        }
    }
    assert!(files.len() > 40, "{}", files.len());
    let regions: BTreeSet<&String> = files.iter().map(|(region, _)| region).collect();
    for region in regions {
        let here: Vec<&str> =
            files.iter().filter(|(r, _)| r == region).map(|(_, f)| f.as_str()).collect();
        let mut arguments = vec!["--regions", region.as_str(), "--"];
        arguments.extend(here);
        let output = program("cfn-lint", &arguments, dir.path());
        assert!(output.status.success(), "{}", shown(&output));
    }
    println!("{} distinct templates lint clean", files.len());
}

/// A template without comments, numbers and hashes.
fn shape(text: &str) -> String {
    let line = |line: &str| -> String {
        line.split(" # ")
            .next()
            .unwrap_or(line)
            .trim_end()
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .collect()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_yaml_file_reads_the_same_in_a_yaml_1_1_reader() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    for (cluster, run) in clusters() {
        let mut files: BTreeMap<String, Vec<u8>> =
            run.rendered.artifacts.iter().map(|(p, a)| (p.clone(), a.bytes.to_vec())).collect();
        files.insert("manifest.yaml".to_owned(), run.manifest.clone().into_bytes());
        for (path, bytes) in files {
            let user_data = path.ends_with("/user-data");
            if !path.ends_with(".yaml") && !user_data {
                continue;
            }
            let name = format!("{cluster}/{path}");
            let full = dir.path().join(&name);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, &bytes).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            let documents = text.split("\n---\n").map(|part| {
                let part = kaws::origin::SourceFile::new(name.as_str(), part);
                read(&part)
                    .unwrap_or_else(|f| panic!("{}", kaws::finding::findings_text(&f, false)))
                    .to_value()
            });
            ours.insert(name.clone(), documents.collect());
        }
    }
    assert!(ours.len() > 400, "{}", ours.len());
    std::fs::write(dir.path().join("ours.json"), serde_json::to_string(&ours).unwrap()).unwrap();
    let script = root().join("tests/real/read_yaml.py");
    let output = program("python3", &[script.to_str().unwrap(), "ours.json"], dir.path());
    assert!(output.status.success(), "{}", shown(&output));
    println!("{} files read the same", ours.len());
}

/// Every file below a folder.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files
}

/// A hash over all paths and bytes below a folder.
fn tree(dir: &Path) -> String {
    let line = |path: PathBuf| {
        let hash = sha256(&std::fs::read(&path).unwrap());
        format!("{} {hash}", path.strip_prefix(dir).unwrap().display())
    };
    let mut lines: Vec<String> = files_below(dir).into_iter().map(line).collect();
    lines.sort();
    assert!(lines.len() > 50);
    sha256(lines.join("\n").as_bytes())
}

#[test]
fn neither_network_nor_date_enters_what_is_rendered() {
    let dir = tempfile::tempdir().unwrap();
    let file = root().join("examples/mixed/cluster.yaml");
    let file = file.to_str().unwrap();
    let out = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let plain = program(KAWS, &["render", "-f", file, "--out", &out("plain")], dir.path());
    assert!(plain.status.success(), "{}", shown(&plain));
    let isolated = program(
        "unshare",
        &["-rn", KAWS, "render", "-f", file, "--out", &out("isolated")],
        dir.path(),
    );
    assert!(isolated.status.success(), "{}", shown(&isolated));
    let later = program(
        "faketime",
        &["2031-02-28 23:59:59", KAWS, "render", "-f", file, "--out", &out("later")],
        dir.path(),
    );
    assert!(later.status.success(), "{}", shown(&later));
    let hashes: BTreeSet<String> =
        ["plain", "isolated", "later"].iter().map(|n| tree(&dir.path().join(n))).collect();
    assert_eq!(hashes.len(), 1);
}

/// The first cluster that has each distinct text, of all files whose path `fits`.
fn distinct(fits: impl Fn(&str) -> bool) -> BTreeMap<String, (String, String)> {
    let mut all: BTreeMap<String, (String, String)> = BTreeMap::new();
    for (cluster, run) in clusters() {
        for (path, artifact) in run.rendered.artifacts.iter().filter(|(p, _)| fits(p)) {
            let text = String::from_utf8_lossy(&artifact.bytes).into_owned();
            all.entry(shape(&text)).or_insert_with(|| (format!("{cluster} {path}"), text));
        }
    }
    all
}

#[test]
fn user_data_is_what_cloud_init_takes() {
    let dir = tempfile::tempdir().unwrap();
    let all = distinct(|path| path.ends_with("/user-data"));
    assert!(all.len() > 6, "{}", all.len());
    for (place, text) in all.values() {
        std::fs::write(dir.path().join("user-data"), text).unwrap();
        let output = program("cloud-init", &["schema", "-c", "user-data"], dir.path());
        assert!(output.status.success(), "{place}:\n{}", shown(&output));
    }
}

#[test]
fn user_data_of_flatcar_is_what_ignition_takes() {
    let dir = tempfile::tempdir().unwrap();
    let image = "image: {os: flatcar, id: ami-0123456789abcdef0}";
    let text = std::fs::read_to_string(root().join("examples/minimal/cluster.yaml")).unwrap();
    let text = text.replace(
        "nodePools:",
        &format!("etcd: {{{image}}}\ncontrolPlane: {{{image}}}\nnodePools:"),
    );
    let text = text.replace("instanceTypes:", &format!("{image}\n    instanceTypes:"));
    assert!(text.matches("flatcar").count() > 2, "{text}");
    std::fs::write(dir.path().join("cluster.yaml"), text).unwrap();
    let output = program(KAWS, &["render"], dir.path());
    assert!(output.status.success(), "{}", shown(&output));
    for group in ["etcd", "controller", "pool-general"] {
        let path = dir.path().join(format!("rendered/nodes/{group}/user-data"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.len() < 16_384);
        // CloudFormation fills these in.
        let filled = text
            .replace("${Member}", "0")
            .replace("${Signal}", "Etcd0Group")
            .replace("${Volume}", "vol-1");
        assert!(!filled.contains("${"), "{filled}");
        std::fs::write(dir.path().join("config.ign"), filled).unwrap();
        let output = program("ignition-validate", &["config.ign"], dir.path());
        assert!(output.status.success(), "{group}:\n{}", shown(&output));
    }
}

#[test]
fn scripts_are_clean_shell() {
    let mut files = vec!["scripts/test".to_owned(), "scripts/go_programs".to_owned()];
    files.extend(["machine.sh", "joins.sh"].map(|name| format!("tests/real/{name}")));
    for plugin in std::fs::read_dir(root().join("plugins")).unwrap() {
        let Ok(inside) = std::fs::read_dir(plugin.unwrap().path().join("files")) else { continue };
        for file in inside {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            if text.starts_with("#!") || text.starts_with("# shellcheck") {
                files.push(path.strip_prefix(root()).unwrap().display().to_string());
            }
        }
    }
    assert!(files.len() > 8, "{files:?}");
    let mut arguments = vec!["-x"];
    arguments.extend(files.iter().map(String::as_str));
    let output = program("shellcheck", &arguments, &root());
    assert!(output.status.success(), "{}", shown(&output));
    // And what is made of templates.
    let dir = tempfile::tempdir().unwrap();
    let rendered = distinct(|path| path.contains("/bundle/etc/kaws/healthy.d/"));
    assert!(rendered.len() > 3);
    for (place, text) in rendered.values() {
        std::fs::write(dir.path().join("script"), text).unwrap();
        let output = program("shellcheck", &["--exclude=SC1091", "script"], dir.path());
        assert!(output.status.success(), "{place}:\n{}", shown(&output));
    }
}

/// A group's units, with everything that belongs to the group.
fn units_of(run: &Run, group: &str) -> BTreeMap<String, String> {
    let mut units = BTreeMap::new();
    let shared = group.starts_with("pool-").then_some("worker");
    for folder in shared.into_iter().chain([group]) {
        let prefix = format!("nodes/{folder}/bundle/etc/systemd/system/");
        for (path, artifact) in &run.rendered.artifacts {
            if let Some(name) = path.strip_prefix(&prefix) {
                let text = String::from_utf8_lossy(&artifact.bytes).into_owned();
                // As a machine fills it in.
                let text =
                    text.replace("@{node instance-id}", "i-1").replace("@{node member}", "0");
                units.insert(name.to_owned(), text.replace("@{node group}", "a"));
            }
        }
    }
    units
}

#[test]
fn units_pass_systemds_own_check() {
    let mut seen = BTreeSet::new();
    for (cluster, run) in clusters() {
        let groups: BTreeSet<String> =
            run.setup.groups.iter().map(|g| g.key.replace(':', "-")).collect();
        for group in groups {
            let units = units_of(&run, &group);
            if seen.insert(sha256(format!("{units:?}").as_bytes())) {
                verify(&format!("{cluster} {group}"), &units);
            }
        }
    }
    assert!(seen.len() > 8, "{}", seen.len());
}

fn verify(place: &str, units: &BTreeMap<String, String>) {
    let dir = tempfile::tempdir().unwrap();
    let system = dir.path().join("etc/systemd/system");
    std::fs::create_dir_all(&system).unwrap();
    let copied = Command::new("cp")
        .args(["-r", "/usr/lib/systemd"])
        .arg(dir.path().join("etc/"))
        .status()
        .unwrap();
    assert!(copied.success());
    for (name, text) in units {
        let path = system.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        // The programs themselves are downloaded by nodes: here a stub stands for each.
        let commands =
            text.lines().filter(|l| l.starts_with("Exec")).filter_map(|l| l.split_once('='));
        for (_, command) in commands {
            let program = command.split_whitespace().next().unwrap_or_default();
            let program = program.trim_start_matches(['-', '+', '!', '@', ':']);
            let stub = dir.path().join(program.trim_start_matches('/'));
            std::fs::create_dir_all(stub.parent().unwrap()).unwrap();
            std::fs::write(&stub, "#!/bin/sh\n").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&stub, mode).unwrap();
        }
    }
    let root = format!("--root={}", dir.path().display());
    let mut arguments = vec!["verify", "--man=no", root.as_str()];
    arguments.extend(units.keys().filter(|name| !name.contains('/')).map(String::as_str));
    let output = program("systemd-analyze", &arguments, dir.path());
    // Unknown keys only warn: what is printed counts, not the exit code alone.
    assert!(output.status.success() && output.stderr.is_empty(), "{place}:\n{}", shown(&output));
}

#[test]
fn the_cases_of_plugins_lint() {
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(root().join("contrib/plugins"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    dirs.push(root().join("tests/plugins/acme-agent"));
    for dir in dirs {
        let output = program(KAWS, &["plugin", "test", dir.to_str().unwrap()], &root());
        let text = shown(&output);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("every stack lints"), "{text}");
    }
}
