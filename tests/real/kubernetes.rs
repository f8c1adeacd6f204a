//! What is rendered against Kubernetes' own types: manifests and static pods of every minor, and the
//! configuration files of its components.

use std::path::Path;
use std::process::Command;

use kaws::load::example_names;

use crate::{KAWS, program, root, shown};

/// The minors, and a release of each.
const VERSIONS: [(&str, &str); 4] =
    [("34", "1.34.10"), ("35", "1.35.4"), ("36", "1.36.3"), ("37", "1.37.1")];

/// Renders every example for a release; returns the folder.
fn rendered(version: &str, dir: &Path) {
    for name in example_names().into_iter().filter(|n| *n != "large") {
        let text = std::fs::read_to_string(root().join("examples").join(name).join("cluster.yaml"))
            .unwrap();
        let line = text.lines().find(|l| l.starts_with("kubernetesVersion:"));
        let text = match line {
            Some(line) => text.replace(line, &format!("kubernetesVersion: {version}")),
            None => format!("{text}kubernetesVersion: {version}\n"),
        };
        let folder = dir.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cluster.yaml"), text).unwrap();
        let output = program(KAWS, &["render"], &folder);
        assert!(output.status.success(), "{name} {version}\n{}", shown(&output));
    }
}

fn found(dir: &Path, names: &[&str]) -> Vec<String> {
    let mut command = Command::new("find");
    command.arg(dir).args(["-type", "f", "("]);
    for (i, name) in names.iter().enumerate() {
        command.args(if i > 0 { &["-o"][..] } else { &[] }).args(["-path", name]);
    }
    let output = command.arg(")").output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn manifests_and_static_pods_are_valid_in_every_minor() {
    for (minor, version) in VERSIONS {
        let dir = tempfile::tempdir().unwrap();
        rendered(version, dir.path());
        let files = found(
            dir.path(),
            &["*/rendered/manifests/*.yaml", "*/etc/kubernetes/manifests/*.yaml"],
        );
        assert!(files.len() > 15, "{}", files.len());
        let wanted = format!("1.{minor}");
        let mut arguments = vec!["--strict", "-k", wanted.as_str()];
        arguments.extend(files.iter().map(String::as_str));
        let output = program("kubernetes-validate", &arguments, dir.path());
        let said = shown(&output);
        assert!(
            output.status.success() && !said.contains("WARN") && !said.contains("ERROR"),
            "{said}"
        );
    }
}

#[test]
fn component_configurations_are_what_components_read() {
    for (minor, version) in VERSIONS {
        let dir = tempfile::tempdir().unwrap();
        rendered(version, dir.path());
        let files = found(
            dir.path(),
            &[
                "*/etc/kubernetes/apiserver/*.yaml",
                "*/etc/kubernetes/scheduler.yaml",
                "*/etc/kubernetes/credential-provider.yaml",
                "*/var/lib/kubelet/config.yaml",
                "*/var/lib/kubelet/config.d/*.conf",
            ],
        );
        assert!(files.len() > 20, "{}", files.len());
        let reader = crate::world::built(&format!("configs-{minor}"));
        let arguments: Vec<&str> = files.iter().map(String::as_str).collect();
        let output = program(&reader, &arguments, dir.path());
        assert!(
            output.status.success() && output.stdout.is_empty(),
            "1.{minor}\n{}",
            shown(&output)
        );
    }
}
