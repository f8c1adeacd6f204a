//! What authors of programs use: each SDK's own tests, the same plugin in every language, and a new author's first
//! minutes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Instant;

use kaws::config::Group;
use kaws::finding::{Finding, Outcome};
use kaws::load::Options;
use kaws::model::Model;
use kaws::plugin::{Artifact, Artifacts, Context, Contribution, Plugin, Rendering};
use kaws::run::render;
use kaws::runtime::{Host, Runtime};
use kaws::value::Node;
use serde_json::{Value, json};

use crate::{KAWS, root};

fn runs(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        if path.is_dir() {
            // What was built here, and caches: a new author has none of it.
            if !["bin.built", ".target", "__pycache__"].iter().any(|skip| name == *skip) {
                copy(&path, &to.join(name));
            }
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn runtime() -> Arc<Runtime> {
    Runtime::new(Host {
        supervisor: KAWS.into(),
        path: std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect(),
        home: std::env::var_os("HOME").map(PathBuf::from),
        cache: None,
        environment: BTreeMap::new(),
    })
}

#[test]
fn each_sdk_passes_its_own_tests() {
    let sdk = root().join("sdk");
    runs(Command::new("python3").args(["-m", "unittest", "-q"]).current_dir(sdk.join("python")));
    let root_of_go = runs(Command::new("go").args(["env", "GOROOT"])).stdout;
    let gofmt = Path::new(String::from_utf8(root_of_go).unwrap().trim()).join("bin/gofmt");
    let unformatted =
        runs(Command::new(gofmt).args(["-l", "."]).current_dir(sdk.join("go"))).stdout;
    assert_eq!(String::from_utf8(unformatted).unwrap(), "");
    runs(Command::new("go").args(["vet", "./..."]).current_dir(sdk.join("go")));
    runs(Command::new("go").args(["test", "./..."]).current_dir(sdk.join("go")));
    let target = root().join("target/sdk");
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        runs(
            command.args(arguments).env("CARGO_TARGET_DIR", &target).current_dir(sdk.join("rust")),
        );
    };
    cargo(&["fmt", "--check"]);
    cargo(&["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]);
    cargo(&["test", "--quiet"]);
    // The one file of Python's SDK lies beside the program that uses it.
    let files = ["python/kaws.py", "python/banner/kaws.py"];
    let [own, copied] = files.map(|file| std::fs::read(sdk.join(file)).unwrap());
    assert_eq!(own, copied);
}

/// The same plugin, as native code of a program that has kaws as a library.
#[derive(Debug)]
struct Banner;

impl Banner {
    fn of_group(cx: &Context<'_>, group: &Group, out: &mut Contribution) {
        let settings = cx.me.settings_for(group).to_value();
        let cluster = cx.facts.to_value();
        let (name, region) =
            (cluster["name"].as_str().unwrap(), cluster["region"].as_str().unwrap());
        let text = settings["text"].as_str().unwrap();
        let mut file = |path: &str, body: Value| {
            out.put("banner", ["machines", group.key.as_str(), "files", path], body);
        };
        file(
            "/etc/motd.d/banner",
            json!({"fill": true,
            "content": format!("{text}\nThis is @{{node group}} of cluster {name} in {region}.\n")}),
        );
        file(
            "/etc/banner/token",
            json!({"content": "@{secret banner/token}", "mode": "0600", "fill": true}),
        );
        out.put(
            "banner",
            ["kubelet", group.key.as_str(), "labels", "example.org/banner"],
            json!("yes"),
        );
        let publish = json!({"Action": "sns:Publish", "Resource": {"$output": "banner.TopicArn"}});
        out.put("banner", ["iam", group.key.as_str(), "statements", "BannerPublish"], publish);
        let Some(port) = settings.get("port") else { return };
        let unit = include_str!("../../sdk/declared/banner/templates/banner.service.hbs")
            .replace("{{cluster.name}}", name)
            .replace("{{settings.port}}", &port.to_string());
        out.put(
            "banner",
            ["machines", group.key.as_str(), "units", "banner.service"],
            json!({"content": unit}),
        );
        let rule = json!({"protocol": "tcp", "port": port, "from": {"cidr": cluster["network"]["vpc"]["cidr"]}});
        out.put("banner", ["securityGroups", group.key.as_str(), "ingress", "banner"], rule);
    }
}

impl Plugin for Banner {
    fn initialise(&self, cx: &Context<'_>, _: &Model) -> Outcome<Contribution> {
        let mut out = Contribution::default();
        let text = cx.setting(&["text"]);
        out.put("banner", ["values", "banner", "text"], text.clone());
        cx.nodes().for_each(|group| Self::of_group(cx, group, &mut out));
        let topic = json!({"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": text}});
        out.put("banner", ["stacks", "banner", "resources", "Topic"], topic);
        out.put(
            "banner",
            ["stacks", "banner", "outputs", "TopicArn"],
            json!({"Value": {"Ref": "Topic"}}),
        );
        let links = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "banner", "namespace": "kube-public"}, "data": cx.setting(&["links"])});
        out.put("banner", ["manifests", "banner"], json!({"objects": {"links": links}}));
        let secret = json!({"description": "With which the greeting is fetched."});
        out.put("banner", ["secrets", "token"], secret);
        Outcome::clean(out)
    }

    fn render(&self, cx: &Context<'_>, _: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let text = cx.me.settings.get("text").and_then(Node::as_str).unwrap_or_default();
        let file = Artifact::text(&cx.me.name, &format!("{text}\n"));
        let value = Rendering {
            artifacts: [("banner.txt".to_owned(), file)].into(),
            ..Rendering::default()
        };
        let mut outcome = Outcome::clean(value);
        if text.is_empty() {
            let finding = Finding::warning("banner/silent", "The greeting is empty.");
            outcome.findings.push(finding.help("set settings.text, or turn the plugin off"));
        }
        outcome
    }
}

/// Renders the example with a cluster of its own; returns every byte, and what is said.
fn rendered(plugin: &Path, settings: &str) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    copy(plugin, &dir.path().join("plugins/banner"));
    let cluster = std::fs::read_to_string(root().join("examples/mixed/cluster.yaml")).unwrap();
    assert!(!cluster.contains("\nplugins:"), "the example has none of its own");
    let cluster = format!("{cluster}\nplugins:\n  banner: {{settings: {settings}}}\n");
    std::fs::write(dir.path().join("cluster.yaml"), cluster).unwrap();
    let mut options = Options::of(dir.path().join("cluster.yaml"));
    options.runtime = Some(runtime());
    options.natives.insert("banner", Arc::new(Banner));
    let outcome = render(&options).unwrap();
    let said =
        outcome.findings.iter().map(|f| format!("{} {} {:?}", f.code, f.message, f.help)).collect();
    let run =
        outcome.value.unwrap_or_else(|| panic!("{}: {:#?}", plugin.display(), outcome.findings));
    let artifacts = run.rendered.artifacts.into_iter().map(|(path, a)| (path, a.bytes.to_vec()));
    (artifacts.chain([("manifest.yaml".to_owned(), run.manifest.into_bytes())]).collect(), said)
}

#[test]
fn the_same_plugin_renders_the_same_bytes_in_every_language() {
    let sdk = root().join("sdk");
    // Native code needs a manifest, too: the declared one's head.
    let native = tempfile::tempdir().unwrap();
    let manifest = std::fs::read_to_string(sdk.join("declared/banner/plugin.yaml")).unwrap();
    let head = manifest.split("\ninitialise:").next().unwrap();
    let manifest = format!("{head}\ninitialise: {{native: true}}\nrender: {{native: true}}\n");
    std::fs::write(native.path().join("plugin.yaml"), manifest).unwrap();
    let workshop = tempfile::tempdir().unwrap();
    let mut plugins = vec![("native", native.path().to_owned())];
    for language in ["bash", "python", "go", "rust"] {
        // Built as authors build it: by its manifest, beside its SDK.
        copy(&sdk.join(language), &workshop.path().join(language));
        let folder = workshop.path().join(language).join("banner");
        let test = Command::new(KAWS).args(["plugin", "test"]).arg(&folder).output().unwrap();
        assert!(test.status.success(), "{language}: {}", String::from_utf8_lossy(&test.stdout));
        plugins.push((language, folder));
    }
    for settings in [
        "{text: \"\"}",
        "{text: \"Hello, \\\"you\\\": it's ünïcode {{here}} @ <&>\", port: 8080, links: {wiki: https://wiki.example, status: \"https://status.example/a?b=c&d=e\"}}",
    ] {
        let (expected, said) = rendered(&sdk.join("declared/banner"), settings);
        for (language, folder) in &plugins {
            let (files, other) = rendered(folder, settings);
            assert_eq!(said, other, "{language}");
            for (path, bytes) in &expected {
                let own = files.get(path).map(|b| String::from_utf8_lossy(b).into_owned());
                assert_eq!(
                    own.as_deref(),
                    Some(&*String::from_utf8_lossy(bytes)),
                    "{language}: {path}"
                );
            }
            assert_eq!(files.len(), expected.len(), "{language}");
        }
    }
}

#[test]
fn a_new_author_has_a_plugin_that_passes_in_every_language() {
    let empty = tempfile::tempdir().unwrap();
    for language in ["declared", "bash", "python", "go", "rust"] {
        let begun = Instant::now();
        let name = format!("my-{language}");
        let kaws = |arguments: &[&str]| {
            runs(Command::new(KAWS).args(arguments).arg(&name).current_dir(empty.path()))
        };
        kaws(&["plugin", "new", "--runtime", language]);
        let test = kaws(&["plugin", "test"]);
        let said = String::from_utf8(test.stdout).unwrap();
        assert!(said.contains(&format!("{name} 0.1.0, 2 cases")), "{said}");
        assert!(said.contains("✔ told") && said.contains("✔ nobody"), "{said}");
        assert!(!said.contains("No case"), "{said}");
        let lint = kaws(&["plugin", "lint"]);
        let said = String::from_utf8(lint.stderr).unwrap();
        assert_eq!(said.matches("warning[").count(), 0, "{said}");
        println!(
            "{language}: from `plugin new` to a passed test in {:.1} s",
            begun.elapsed().as_secs_f64()
        );
    }
}
