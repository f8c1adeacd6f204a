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

/// What kaws refuses of flags, by the fixture of `tests/reports/boot` that has the finding; and how the API server
/// itself says it.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("removed-flag", &["--cloud-provider=aws"], "unknown flag: --cloud-provider"),
    ("duration", &["--request-timeout=1d"], "unknown unit \"d\""),
    ("number", &["--max-requests-inflight=many"], "invalid argument \"many\""),
    ("unknown-gate", &["--feature-gates=APIServerIdentiti=true"], "unrecognized feature gate"),
    ("locked-gate", &["--feature-gates=SidecarContainers=false"], "cannot set feature gate"),
    ("removed-admission", &["--enable-admission-plugins=PodSecurityPolicy"], "is unknown"),
    (
        "admission-on-and-off",
        &[
            "--enable-admission-plugins=NodeRestriction",
            "--disable-admission-plugins=NodeRestriction",
        ],
        "overlapped",
    ),
    (
        "admission-control",
        &["--admission-control=NodeRestriction", "--enable-admission-plugins=NodeRestriction"],
        "mutually exclusive",
    ),
    (
        "oidc-flags",
        &["--authentication-config=enc.yaml", "--oidc-issuer-url=https://a.example"],
        "mutually exclusive",
    ),
    ("oidc-without-issuer", &["--oidc-client-id=a"], "must be specified together"),
    (
        "authorization-mode",
        &["--authorization-config=enc.yaml", "--authorization-mode=RBAC"],
        "can not be specified when",
    ),
    ("authorization-unknown-mode", &["--authorization-mode=Node,RBACK"], "is not a valid mode"),
    ("authorization-mode-twice", &["--authorization-mode=Node,Node"], "more than once"),
    (
        "authorization-webhook-without-file",
        &["--authorization-mode=Webhook"],
        "config file not passed",
    ),
    ("authorization-file-without-mode", &["--authorization-policy-file=a"], "without mode ABAC"),
    ("uid-headers", &["--requestheader-uid-headers=X-Uid"], "standard X-Remote-Uid header"),
    (
        "uid-headers-without-gate",
        &[
            "--requestheader-uid-headers=X-Remote-Uid",
            "--feature-gates=RemoteRequestHeaderUID=false",
        ],
        "feature to be enabled",
    ),
    ("issuer-is-no-url", &["--service-account-issuer=:no-scheme"], "was not a valid URL"),
    ("token-expiration", &["--service-account-max-token-expiration=5m"], "between 1 hour"),
    (
        "signing-endpoint",
        &["--service-account-signing-endpoint=/run/signer.sock"],
        "mutually exclusive",
    ),
    (
        "jwks-without-tls",
        &["--service-account-jwks-uri=http://a.example/jwks"],
        "requires https scheme",
    ),
    (
        "reload-without-config",
        &["--encryption-provider-config-automatic-reload=true"],
        "must be set with",
    ),
    ("etcd-overrides", &["--etcd-servers-overrides=events#http://a"], "must be of format"),
    ("encryption-hides", &["--encryption-provider-config=enc.yaml"], "masked by earlier rule"),
    ("no-port", &["--secure-port=70000"], "must be between"),
    ("goaway", &["--goaway-chance=0.5"], "greater than 0.02"),
    ("negative-timeout", &["--request-timeout=-1s"], "can not be negative value"),
    (
        "emulation",
        &["--emulation-forward-compatible=true"],
        "cannot be set to true if the emulation version is the same",
    ),
    (
        "audit-throttle",
        &["--audit-webhook-config-file=a", "--audit-webhook-batch-throttle-qps=0"],
        "must be a positive number",
    ),
    (
        "runtime-config-group",
        &["--runtime-config=resources.k8s.io/v1alpha3=true"],
        "unknown api groups",
    ),
    ("runtime-config-key", &["--runtime-config=batch=true"], "invalid key"),
    ("runtime-config-all-off", &["--runtime-config=api/all=false"], "only api/all=false"),
];

/// Two rules of encryption, of which the first hides the second.
const MASKED: &str = "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - {resources: ['*.*'], providers: [{identity: {}}]}
  - {resources: [secrets], providers: [{identity: {}}]}
";

#[test]
fn what_kaws_refuses_of_flags_the_api_server_refuses_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, arguments: &[&str]| program(name, arguments, dir.path());
    assert!(run("openssl", &["genrsa", "-out", "sa.key", "2048"]).status.success());
    let public = run("openssl", &["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"]);
    assert!(public.status.success(), "{}", shown(&public));
    std::fs::write(dir.path().join("enc.yaml"), MASKED).unwrap();
    let server = crate::world::kubernetes().0.join("kube-apiserver").display().to_string();
    let good = [
        "--etcd-servers=http://127.0.0.1:1",
        "--service-account-issuer=https://a.example",
        "--service-account-key-file=sa.pub",
        "--service-account-signing-key-file=sa.key",
        "--service-cluster-ip-range=10.3.0.0/16",
        "--cert-dir=certs",
    ];
    let started = |more: &[&str], seconds: &str| {
        let words = ["--signal", "KILL", seconds, server.as_str()];
        run("timeout", &[&words[..], &good, more].concat())
    };
    // Without anything wrong it waits for etcd, and says nothing.
    let waited =
        started(&["--runtime-config=v1=true,apps/v1/deployments=true,api/beta=false"], "3");
    assert!(!shown(&waited).contains("command failed"), "{}", shown(&waited));
    for (fixture, arguments, said) in REFUSED {
        let report = root().join(format!("tests/reports/boot/{fixture}.txt"));
        let report = std::fs::read_to_string(report).expect(fixture);
        assert!(report.contains("fatal["), "{report}");
        let output = started(arguments, "20");
        assert_eq!(output.status.code(), Some(1), "{fixture}\n{}", shown(&output));
        assert!(shown(&output).contains(said), "{fixture}\n{}", shown(&output));
    }
}
