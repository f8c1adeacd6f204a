//! What would keep a component from starting or a machine from joining is found before anything is deployed:
//! one fixture for each rule, and the report it gives.

use crate::support::{Cluster, MINIMAL, expect_file};

/// A rule, and the contribution or the change of cluster.yaml that breaks it.
enum Breaks {
    /// A plugin's contribution in initialise.
    Plugin(&'static str),
    /// Lines of `cluster.yaml`.
    Config(&'static str),
    /// A patch of `cluster.yaml`: place, operation and value.
    Patch(&'static str),
}
use Breaks::{Config, Patch, Plugin};

const RULES: &[(&str, &str, Breaks)] = &[
    ("flags/removed", "removed-flag", Plugin("apiServer: {flags: {cloud-provider: aws}}")),
    (
        "flags/removed",
        "removed-long-ago",
        Plugin("controllerManager: {flags: {pod-eviction-timeout: 5m}}"),
    ),
    ("flags/unknown", "unknown-flag", Plugin("scheduler: {flags: {leader-elekt: true}}")),
    (
        "flags/later",
        "later-flag",
        Config(
            "kubernetesVersion: 1.34.10\ncustomise: {apiServer: {flags: {tls-curve-preferences: X25519}}}",
        ),
    ),
    ("flags/deprecated", "deprecated-flag", Plugin("scheduler: {flags: {profiling: true}}")),
    ("flags/value", "duration", Plugin("apiServer: {flags: {request-timeout: 1d}}")),
    ("flags/value", "number", Plugin("apiServer: {flags: {max-requests-inflight: many}}")),
    (
        "flags/gate",
        "unknown-gate",
        Plugin("apiServer: {flags: {feature-gates: {APIServerIdentiti: true}}}"),
    ),
    (
        "flags/gate",
        "gone-gate",
        Config(
            "kubernetesVersion: 1.37.1\ncustomise: {apiServer: {flags: {feature-gates: {SidecarContainers: true}}}}",
        ),
    ),
    (
        "flags/gate",
        "later-gate",
        Plugin("apiServer: {flags: {feature-gates: {APIServerWebhookAuthenticationToken: true}}}"),
    ),
    (
        "flags/gate",
        "locked-gate",
        Plugin("apiServer: {flags: {feature-gates: {SidecarContainers: false}}}"),
    ),
    (
        "flags/alpha-gate",
        "alpha-gate",
        Config(
            "kubernetesVersion: 1.37.1\ncustomise: {apiServer: {flags: {feature-gates: {APIServerWebhookAuthenticationToken: true}}}}",
        ),
    ),
    (
        "flags/admission",
        "removed-admission",
        Plugin("apiServer: {flags: {enable-admission-plugins: [PodSecurityPolicy]}}"),
    ),
    (
        "flags/admission",
        "unknown-admission",
        Plugin("apiServer: {flags: {enable-admission-plugins: [NodeRestrictions]}}"),
    ),
    (
        "flags/admission",
        "admission-on-and-off",
        Plugin("apiServer: {flags: {disable-admission-plugins: [NodeRestriction]}}"),
    ),
    (
        "flags/combination",
        "oidc-flags",
        Plugin("apiServer: {flags: {oidc-issuer-url: 'https://a.example'}}"),
    ),
    ("flags/combination", "anonymous-auth", Plugin("apiServer: {flags: {anonymous-auth: false}}")),
    (
        "flags/combination",
        "authorization-mode",
        Plugin("apiServer: {flags: {authorization-mode: RBAC}}"),
    ),
    (
        "flags/combination",
        "admission-control",
        Plugin("apiServer: {flags: {admission-control: NodeRestriction}}"),
    ),
    (
        "flags/combination",
        "nobody-authorizes",
        Patch("at: apiServer.flags.authorization-config\nop: remove"),
    ),
    (
        "flags/combination",
        "clients-speak-for-others",
        Patch(
            "at: apiServer.flags.requestheader-client-ca-file\nop: replace\nvalue: /etc/kubernetes/pki/ca.crt\n---\nat: apiServer.flags.requestheader-allowed-names.front-proxy-client\nop: remove",
        ),
    ),
    (
        "flags/combination",
        "uid-headers",
        Plugin("apiServer: {flags: {requestheader-uid-headers: [X-Uid]}}"),
    ),
    (
        "flags/combination",
        "key-without-certificate",
        Patch("at: apiServer.flags.proxy-client-cert-file\nop: remove"),
    ),
    (
        "flags/combination",
        "reload-without-config",
        Patch("at: apiServer.flags.encryption-provider-config\nop: remove"),
    ),
    (
        "flags/combination",
        "no-etcd",
        Patch(
            "at: apiServer.flags.etcd-servers[\"https://etcd-0.small.internal:2379\"]\nop: remove\n---\nat: apiServer.flags.etcd-servers[\"https://etcd-1.small.internal:2379\"]\nop: remove\n---\nat: apiServer.flags.etcd-servers[\"https://etcd-2.small.internal:2379\"]\nop: remove",
        ),
    ),
    (
        "flags/combination",
        "no-issuer",
        Patch(
            "at: apiServer.flags.service-account-issuer[\"https://kaws-111122223333-eu-west-1-small-oidc.s3.eu-west-1.amazonaws.com\"]\nop: remove",
        ),
    ),
    (
        "flags/combination",
        "signing-endpoint",
        Plugin("apiServer: {flags: {service-account-signing-endpoint: /run/signer.sock}}"),
    ),
    (
        "flags/combination",
        "jwks-without-tls",
        Patch(
            "at: apiServer.flags.service-account-jwks-uri\nop: replace\nvalue: 'http://a.example/jwks'",
        ),
    ),
    (
        "flags/combination",
        "no-port",
        Patch("at: apiServer.flags.secure-port\nop: replace\nvalue: 70000"),
    ),
    ("flags/combination", "goaway", Plugin("apiServer: {flags: {goaway-chance: 0.5}}")),
    ("flags/inert", "audit-without-log", Patch("at: apiServer.flags.audit-log-path\nop: remove")),
    (
        "flags/inert",
        "audit-without-policy",
        Patch("at: apiServer.flags.audit-policy-file\nop: remove"),
    ),
    (
        "flags/disagree",
        "service-ranges",
        Patch(
            "at: controllerManager.flags.service-cluster-ip-range\nop: replace\nvalue: 10.9.0.0/16",
        ),
    ),
    (
        "flags/disagree",
        "signing-keys",
        Patch(
            "at: controllerManager.flags.service-account-private-key-file\nop: replace\nvalue: /etc/other.key",
        ),
    ),
    (
        "flags/combination",
        "authorization-unknown-mode",
        Config(
            "customise: {apiServer: {flags: {authorization-mode: 'Node,RBACK'}}, patches: {p: {at: apiServer.flags.authorization-config, op: remove, why: a test}}}",
        ),
    ),
    (
        "flags/combination",
        "authorization-mode-twice",
        Config(
            "customise: {apiServer: {flags: {authorization-mode: 'Node,RBAC,Node'}}, patches: {p: {at: apiServer.flags.authorization-config, op: remove, why: a test}}}",
        ),
    ),
    (
        "flags/combination",
        "authorization-webhook-without-file",
        Config(
            "customise: {apiServer: {flags: {authorization-mode: 'Node,Webhook'}}, patches: {p: {at: apiServer.flags.authorization-config, op: remove, why: a test}}}",
        ),
    ),
    (
        "flags/combination",
        "authorization-file-without-mode",
        Config(
            "customise: {apiServer: {flags: {authorization-mode: 'Node,RBAC', authorization-policy-file: /etc/policy}}, patches: {p: {at: apiServer.flags.authorization-config, op: remove, why: a test}}}",
        ),
    ),
    (
        "flags/combination",
        "oidc-without-issuer",
        Config(
            "customise: {apiServer: {flags: {oidc-client-id: a}}, patches: {p: {at: apiServer.flags.authentication-config, op: remove, why: a test}}}",
        ),
    ),
    (
        "flags/combination",
        "oidc-without-tls",
        Config(
            "customise: {apiServer: {flags: {oidc-client-id: a, oidc-issuer-url: 'http://a.example'}}, patches: {p: {at: apiServer.flags.authentication-config, op: remove, why: a test}}}",
        ),
    ),
    (
        "flags/combination",
        "uid-headers-without-gate",
        Plugin(
            "apiServer: {flags: {requestheader-uid-headers: [X-Remote-Uid], feature-gates: {RemoteRequestHeaderUID: false}}}",
        ),
    ),
    (
        "flags/combination",
        "issuer-is-no-url",
        Plugin("apiServer: {flags: {service-account-issuer: [':no-scheme']}}"),
    ),
    (
        "flags/combination",
        "no-signing-key",
        Patch("at: apiServer.flags.service-account-signing-key-file\nop: remove"),
    ),
    (
        "flags/combination",
        "token-expiration",
        Plugin("apiServer: {flags: {service-account-max-token-expiration: 5m}}"),
    ),
    (
        "flags/combination",
        "etcd-overrides",
        Plugin("apiServer: {flags: {etcd-servers-overrides: ['events#https://a.example:2379']}}"),
    ),
    (
        "flags/encryption",
        "encryption-hides",
        Plugin("apiServer: {encryption: {all: {resources: ['*.*'], providers: [{identity: {}}]}}}"),
    ),
    (
        "flags/encryption",
        "encryption-overlaps",
        Plugin(
            "apiServer: {encryption: {zz: {resources: [deployments.apps, '*.apps'], providers: [{identity: {}}]}}}",
        ),
    ),
    (
        "flags/encryption",
        "encryption-star",
        Plugin(
            "apiServer: {encryption: {zz: {resources: ['*', events.events.k8s.io, configMaps], providers: [{identity: {}}]}}}",
        ),
    ),
    (
        "flags/encryption",
        "encryption-kms-v1",
        Plugin(
            "apiServer: {encryption: {zz: {resources: [configmaps], providers: [{kms: {apiVersion: v1, name: a, endpoint: 'unix:///run/kms.sock'}}]}}}",
        ),
    ),
    (
        "flags/encryption",
        "encryption-short-key",
        Plugin(
            "apiServer: {encryption: {zz: {resources: [configmaps], providers: [{secretbox: {keys: [{name: a, secret: c2hvcnQ=}]}}]}}}",
        ),
    ),
    (
        "flags/combination",
        "negative-timeout",
        Plugin("apiServer: {flags: {request-timeout: -1s, max-requests-inflight: -5}}"),
    ),
    (
        "flags/combination",
        "emulation",
        Plugin("apiServer: {flags: {emulation-forward-compatible: true}}"),
    ),
    (
        "flags/combination",
        "audit-throttle",
        Plugin(
            "apiServer: {flags: {audit-webhook-config-file: /etc/webhook, audit-webhook-batch-throttle-qps: 0}}",
        ),
    ),
    (
        "flags/combination",
        "runtime-config-group",
        Plugin("apiServer: {flags: {runtime-config: {resources.k8s.io/v1alpha3: true}}}"),
    ),
    (
        "flags/combination",
        "runtime-config-key",
        Plugin("apiServer: {flags: {runtime-config: {batch: true}}}"),
    ),
    (
        "flags/combination",
        "runtime-config-all-off",
        Plugin("apiServer: {flags: {runtime-config: {api/all: false}}}"),
    ),
    (
        "flags/disagree",
        "service-range-of-the-network",
        Patch("at: apiServer.flags.service-cluster-ip-range\nop: replace\nvalue: 10.9.0.0/16"),
    ),
    (
        "flags/disagree",
        "pod-ranges",
        Config(
            "plugins: {cilium: {settings: {kubeProxyReplacement: false}}}\ncustomise: {patches: {p: {at: kubeProxy.config.clusterCIDR, op: replace, value: 10.99.0.0/16, why: a test}}}",
        ),
    ),
    (
        "flags/removed",
        "kubelet-flag",
        Plugin(
            "machines: {nodes: {dropins: {kubelet.service/10-more.conf: {content: \"[Service]\\nExecStart=\\nExecStart=/opt/kaws/bin/kubelet --config=/a --pod-infra-container-image=a\\n\"}}}}",
        ),
    ),
    (
        "flags/gate",
        "kubelet-gate",
        Plugin("kubelet: {worker: {config: {featureGates: {NoSuchGate: true}}}}"),
    ),
    (
        "boot/kubelet",
        "cgroup-driver",
        Patch("at: kubelet.controller.config.cgroupDriver\nop: replace\nvalue: cgroupfs"),
    ),
    (
        "boot/kubelet",
        "no-provider-id",
        Patch("at: kubelet.controller.config.providerID\nop: remove"),
    ),
    (
        "boot/kubelet",
        "no-rotation",
        Patch("at: kubelet.worker.config.rotateCertificates\nop: replace\nvalue: false"),
    ),
    (
        "boot/kubelet",
        "other-dns",
        Patch("at: kubelet.worker.config.clusterDNS\nop: replace\nvalue: [10.3.0.11]"),
    ),
    (
        "boot/unknown-key",
        "unknown-key",
        Plugin("machines: {controller: {files: {/etc/k.crt: {content: {$pki: apiservr.crt}}}}}"),
    ),
    (
        "boot/key-of-another-role",
        "another-roles-key",
        Plugin(
            "machines: {worker: {files: {/etc/k.key: {content: {$pki: apiserver.key}, mode: '0600'}}}}",
        ),
    ),
    (
        "boot/authority-key",
        "authority-key",
        Patch("at: pki.authorities.etcd-ca.keyRoles\nop: replace\nvalue: [etcd]"),
    ),
    (
        "boot/unknown-authority",
        "unknown-authority",
        Plugin(
            "pki: {certificates: {mine: {authority: kubernetes-cas, commonName: a, usages: [client]}}}",
        ),
    ),
    (
        "boot/certificate-name",
        "apiserver-names",
        Patch("at: pki.certificates.apiserver.sans\nop: replace\nvalue: [kubernetes]"),
    ),
    (
        "boot/certificate-name",
        "etcd-names",
        Patch("at: pki.certificates.etcd-0-peer.sans\nop: replace\nvalue: [localhost]"),
    ),
    (
        "boot/certificate-usage",
        "etcd-usages",
        Patch("at: pki.certificates.etcd-0-server.usages\nop: replace\nvalue: [server]"),
    ),
    (
        "boot/node-label",
        "label-of-a-role",
        Plugin("kubelet: {worker: {labels: {node-role.kubernetes.io/worker: ''}}}"),
    ),
    (
        "boot/node-label",
        "label-of-a-pool",
        Config(
            "nodePools: {general: {instanceTypes: [m7i.large], labels: {kubernetes.io/team: a}}}",
        ),
    ),
    ("boot/port", "api-port", Patch("at: apiServer.flags.secure-port\nop: replace\nvalue: 8443")),
    (
        "boot/port",
        "scheduler-port",
        Patch("at: scheduler.flags.secure-port\nop: replace\nvalue: 9999"),
    ),
    ("boot/no-bootstrap", "no-bindings", Patch("at: manifests.bootstrap-rbac\nop: remove")),
    (
        "boot/no-bootstrap",
        "bindings-too-late",
        Patch("at: manifests.bootstrap-rbac.phase\nop: replace\nvalue: apps"),
    ),
    ("boot/no-pod-network", "no-pod-network", Config("plugins: {cilium: {enabled: false}}")),
    (
        "boot/dns-address",
        "dns-address",
        Patch("at: helm.releases.coredns.values.service.clusterIP\nop: replace\nvalue: 10.3.0.11"),
    ),
    (
        "boot/no-way-out",
        "no-way-out",
        Config("network: {vpc: {cidr: 10.40.0.0/16}, zones: [eu-west-1a], nat: none}"),
    ),
    (
        "boot/lifecycle-hook",
        "hook",
        Plugin(
            "stacks: {hooks: {resources: {Hook: {Type: 'AWS::AutoScaling::LifecycleHook', Properties: {AutoScalingGroupName: a, LifecycleTransition: 'autoscaling:EC2_INSTANCE_TERMINATING'}}}}}",
        ),
    ),
    (
        "boot/security-group",
        "two-groups",
        Patch(
            "at: stacks.control-plane.resources.LaunchTemplate.Properties.LaunchTemplateData.NetworkInterfaces\nop: replace\nvalue: [{DeviceIndex: 0, Groups: [sg-0123456789abcdef0]}]",
        ),
    ),
    (
        "boot/setting",
        "unknown-setting",
        Plugin(
            "kubelet: {worker: {config: {maxPod: 10, crashLoopBackOff: {maxContainerRestartPeriods: 10s}}}}",
        ),
    ),
    (
        "boot/setting",
        "setting-of-another-kind",
        Config(
            "customise: {kubelet: {controller: {config: {serializeImagePulls: sometimes, imageMinimumGCAge: 2d}}}}",
        ),
    ),
    (
        "boot/setting",
        "later-setting",
        Config(
            "kubernetesVersion: 1.34.10\ncustomise: {kubelet: {worker: {config: {tlsCurvePreferences: [X25519]}}}}",
        ),
    ),
    (
        "boot/setting",
        "issuer-setting",
        Plugin(
            "apiServer: {authentication: {jwt: {mine: {issuer: {url: 'https://a.example', audience: [a]}, claimMappings: {username: {claim: sub, prefix: ''}}}}}}",
        ),
    ),
    (
        "boot/setting",
        "audit-setting",
        Plugin("apiServer: {audit: {mine: {rule: {level: None, user: [a]}}}}"),
    ),
    (
        "boot/containerd",
        "containerd-cgroups",
        Patch(
            "at: machines.controller.files[\"/etc/containerd/config.toml\"].content\nop: replace\nvalue: 'version = 4'",
        ),
    ),
    (
        "boot/kubeconfig",
        "kubeconfig-of-a-controller",
        Patch(
            "at: machines.controller.files[\"/etc/kubernetes/scheduler.kubeconfig\"].content\nop: replace\nvalue: '{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {certificate-authority: /etc/kubernetes/pki/ca.crt, server: \"https://api.other.internal:6443\"}}]}'",
        ),
    ),
    (
        "boot/config-version",
        "config-version",
        Plugin(
            "machines: {controller: {files: {/etc/kubernetes/other-scheduler.yaml: {content: \"apiVersion: kubescheduler.config.k8s.io/v1beta3\\nkind: KubeSchedulerConfiguration\\n\"}}}}",
        ),
    ),
    (
        "boot/unit",
        "unit-without-start",
        Plugin(
            "machines: {worker: {units: {mine.service: {content: \"[Service]\\nType=simple\\nRestart always\\n\"}}}}",
        ),
    ),
    (
        "boot/unit",
        "timer-without-time",
        Plugin(
            "machines: {worker: {units: {mine.timer: {content: \"[Timer]\\nPersistent=true\\n\"}}}}",
        ),
    ),
    (
        "boot/target-group",
        "health-path",
        Patch(
            "at: stacks.network.resources.ApiTargets.Properties.HealthCheckPath\nop: replace\nvalue: /version",
        ),
    ),
    (
        "boot/target-group",
        "target-port",
        Patch("at: stacks.network.resources.ApiTargets.Properties.Port\nop: replace\nvalue: 443"),
    ),
    (
        "boot/target-group",
        "client-addresses",
        Patch(
            "at: stacks.network.resources.ApiTargets.Properties.TargetGroupAttributes\nop: replace\nvalue: []",
        ),
    ),
    (
        "boot/way-in",
        "pods-kept-out",
        Patch("at: stacks.network.resources.ControllersIngressApiWorkers\nop: remove"),
    ),
    (
        "boot/no-credentials",
        "no-credentials",
        Config("iam: {instanceProfiles: {controller: c, etcd: e, worker: w}}"),
    ),
    (
        "boot/way-in",
        "balancer-kept-out",
        Patch("at: stacks.network.resources.ControllersIngressApi\nop: remove"),
    ),
    (
        "boot/no-cloud-controller",
        "no-cloud-controller",
        Patch("at: helm.releases.cloud-provider.phase\nop: replace\nvalue: apps"),
    ),
    (
        "boot/signals",
        "signal-count",
        Patch(
            "at: stacks.control-plane.resources.Group.CreationPolicy.ResourceSignal.Count\nop: replace\nvalue: 1",
        ),
    ),
    (
        "boot/signals",
        "rolled-blindly",
        Patch(
            "at: stacks.control-plane.resources.Group.UpdatePolicy.AutoScalingRollingUpdate.WaitOnResourceSignals\nop: replace\nvalue: false",
        ),
    ),
    ("boot/signals", "hurried", Config("etcd: {timeout: 2m}")),
    (
        "boot/subnet-tags",
        "subnet-tags",
        Patch(
            "at: stacks.network.resources.SubnetPrivateA.Properties.Tags\nop: replace\nvalue: []",
        ),
    ),
    ("config/image", "flatcar-without-image", Config("controlPlane: {image: {os: flatcar}}")),
];

fn cluster(breaks: &Breaks) -> Cluster {
    match breaks {
        Plugin(body) => {
            let cluster = Cluster::small("plugins: {one: {}}\n");
            cluster.plugin("one", &format!("nodes: [controller, worker]\ninitialise:\n  {body}\n"));
            cluster
        }
        Config(lines) => {
            let cluster = Cluster::small("");
            let keys: Vec<&str> =
                lines.lines().filter_map(|l| l.split_once(':')).map(|(k, _)| k).collect();
            // A key of the fixture replaces the small cluster's own.
            let mut text = String::new();
            let mut skip = false;
            for line in MINIMAL.lines() {
                let key = line.split(':').next().unwrap_or_default();
                if !line.starts_with([' ', '#']) {
                    skip = keys.contains(&key);
                }
                if !skip {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            cluster.file("cluster.yaml", format!("{text}{lines}\n"));
            cluster
        }
        Patch(bodies) => {
            let patches: String = bodies
                .split("\n---\n")
                .enumerate()
                .map(|(i, body)| {
                    format!(
                        "    p{i}:\n      {}\n      why: a test\n",
                        body.replace('\n', "\n      ")
                    )
                })
                .collect();
            Cluster::small(&format!("customise:\n  patches:\n{patches}"))
        }
    }
}

#[test]
fn each_rule_says_who_broke_it() {
    let mut codes = std::collections::BTreeSet::new();
    let mut silent = Vec::new();
    for (code, name, breaks) in RULES {
        let findings = cluster(breaks).findings();
        let about = findings.split("\n\n").filter(|part| part.contains(&format!("[{code}]")));
        let text = about.collect::<Vec<_>>().join("\n\n");
        if text.is_empty() {
            silent.push(format!("{name}: nothing says {code}\n{findings}"));
            continue;
        }
        expect_file(
            std::path::Path::new(&format!("tests/reports/boot/{name}.txt")),
            &format!("{}\n", text.trim_end()),
        );
        codes.insert(*code);
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    let all = kaws::finding::codes().map(|c| c.code);
    let missing: Vec<&str> = all
        .filter(|c| c.starts_with("flags/") || c.starts_with("boot/"))
        .filter(|c| !codes.contains(c))
        .collect();
    assert!(missing.is_empty(), "no fixture breaks {missing:?}");
}

#[test]
fn every_example_renders_for_every_minor() {
    for name in kaws::load::example_names() {
        let text = kaws::load::example_cluster(name).unwrap();
        for version in ["1.34.10", "1.35.4", "1.36.3", "1.37.1"] {
            let cluster = Cluster::small("");
            let line = text.lines().find(|l| l.starts_with("kubernetesVersion:"));
            let text = match line {
                Some(line) => text.replace(line, &format!("kubernetesVersion: {version}")),
                None => format!("{text}kubernetesVersion: {version}\n"),
            };
            cluster.file("cluster.yaml", text);
            let findings = cluster.findings();
            assert!(!findings.contains("fatal["), "{name} {version}\n{findings}");
            assert!(!findings.contains("[flags/"), "{name} {version}\n{findings}");
        }
    }
}

/// User data of every group, by path.
fn user_data(cluster: &Cluster) -> std::collections::BTreeMap<String, Vec<u8>> {
    let run = cluster.render();
    let all = run.rendered.artifacts.iter().filter(|(path, _)| path.ends_with("/user-data"));
    all.map(|(path, artifact)| (path.clone(), artifact.bytes.to_vec())).collect()
}

/// The groups whose user data differ.
fn differing(before: &Cluster, after: &Cluster) -> Vec<String> {
    let (before, after) = (user_data(before), user_data(after));
    let changed = after.iter().filter(|(path, bytes)| before.get(*path) != Some(*bytes));
    changed.map(|(path, _)| path.split('/').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn only_the_machines_that_a_change_is_for_are_replaced() {
    let plain = Cluster::small("");
    let unit = Cluster::small(
        "customise: {machines: {'pool:other': {units: {mine.service: {content: \"[Service]\\nExecStart=/bin/true\\n\"}}}}}\n",
    );
    assert_eq!(differing(&plain, &unit), ["pool-other"]);
    // Releases and manifests are applied by the controllers, and are in no bundle.
    let release =
        Cluster::small("plugins: {coredns: {settings: {replicas: 3}}, descheduler: {}}\n");
    assert!(differing(&plain, &release).is_empty());
    let text = MINIMAL.replace("  other:", "  third: {instanceTypes: [m7i.large]}\n  other:");
    assert_eq!(differing(&plain, &Cluster::new(&text)), ["pool-third"]);
    // Names of certificates are of those who serve with them.
    let domain = Cluster::small("api: {domain: api.acme.example}\n");
    assert_eq!(differing(&plain, &domain), ["controller"]);
    let token = Cluster::small("pki: {keys: {bootstrap-token: {signs: 2, trusted: [1, 2]}}}\n");
    assert_eq!(differing(&plain, &token), ["controller", "pool-general", "pool-other"]);
}

/// Statements that are about everything, and why AWS knows nothing narrower for them.
const EVERYTHING: &[(&str, &str)] = &[
    ("CreateTagged", "what is created has no name yet; the cluster's tag is asked for"),
    (
        "ChangeOwn",
        "load balancers' names are made up by the cloud controller; the cluster's tag is asked for",
    ),
    ("FindOwnGroup", "descriptions know no resources"),
    ("Look", "descriptions know no resources"),
    (
        "PullImages",
        "the token knows no resources, and images may lie in any account that shares them",
    ),
];

#[test]
fn no_role_may_do_everything_and_few_may_do_something_to_everything() {
    let mut seen = std::collections::BTreeSet::new();
    for name in kaws::load::example_names() {
        let cluster = Cluster::new(kaws::load::example_cluster(name).unwrap());
        let run = cluster.render();
        run.rendered.model.walk(&["stacks"], &mut |path, entity| {
            let body = entity.body.to_value();
            let policies = body["Properties"]["Policies"].as_array().cloned().unwrap_or_default();
            let statements =
                policies.iter().flat_map(|p| p["PolicyDocument"]["Statement"].as_array().cloned());
            for statement in statements.flatten() {
                let sid = statement["Sid"].as_str().unwrap_or_default().to_owned();
                assert!(!statement["Action"].to_string().contains('*'), "{path:?} {statement}");
                if statement["Resource"] == "*" {
                    assert!(
                        EVERYTHING.iter().any(|(known, _)| *known == sid),
                        "{path:?} {statement}"
                    );
                    seen.insert(sid);
                }
            }
        });
    }
    let unused: Vec<_> = EVERYTHING.iter().filter(|(sid, _)| !seen.contains(*sid)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}
