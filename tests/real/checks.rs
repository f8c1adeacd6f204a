//! `kaws validate` against Kubernetes' own API server and the mock AWS server: every check holds, and fails when what it
//! looks at does. Nodes, pods and the rest are written as those would who look after them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::api_server::{ApiServer, node, pod};
use crate::mock::{Folder, Mock};
use crate::world::{kubernetes_version, until};
use crate::{program, root, shown};

const SIGN: &str = "aws:amz:eu-west-1:s3";
const CRITICAL: &str = "system-node-critical";

/// A plugin with a check of each kind.
fn looker(page: &str) -> String {
    format!(
        "apiVersion: kaws/v1
name: looker
version: 1.0.0
description: A check of each kind.
nodes: [worker]
initialise:
  machines:
    nodes:
      units:
        looker.service: {{content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\"}}
validate:
  answering: {{service: {{namespace: default, name: looker}}}}
  deployed: {{object: {{kind: Deployment, namespace: default, name: looker, condition: Available}}}}
  installed: {{release: looker}}
  page: {{http: {{url: \"{page}\"}}, severity: warning}}
  running: {{unit: looker.service, within: 2m}}
"
    )
}

/// A page whose status is said; returns its address.
fn page(status: Arc<AtomicU16>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/healthz", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let status = status.load(Ordering::Relaxed);
            let answer =
                format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    address
}

/// A cluster that is deployed on the mock, and all that would be in it.
pub struct Running {
    pub mock: Mock,
    pub folder: Folder,
    pub api: ApiServer,
    bucket: String,
    /// Machines by their group.
    machines: BTreeMap<String, Vec<String>>,
    page: Arc<AtomicU16>,
    /// Keys of snapshots.
    made: Mutex<Vec<String>>,
}

/// The machines that there are, by the folder of their group.
pub fn machines(mock: &Mock) -> BTreeMap<String, Vec<String>> {
    let mut machines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in mock.0.ask("GET", "/mock/machines", &Value::Null).as_array().unwrap() {
        let group = one["tags"]["kaws/group"].as_str().unwrap().replace(':', "-");
        machines.entry(group).or_default().push(one["id"].as_str().unwrap().to_owned());
    }
    machines
}

impl Running {
    pub fn start() -> Self {
        let mock = Mock::start();
        let folder = Folder::of(&root().join("examples/minimal/cluster.yaml"));
        let status = Arc::new(AtomicU16::new(200));
        let plugin = folder.path().join("plugins/looker");
        std::fs::create_dir_all(&plugin).unwrap();
        std::fs::write(plugin.join("plugin.yaml"), looker(&page(Arc::clone(&status)))).unwrap();
        folder.edit("nodePools:", "plugins: {looker: {enabled: true}}\nnodePools:");
        folder.fine(&mock.0.address, &["up", "--yes"]);
        let machines = machines(&mock);
        let manifest =
            std::fs::read_to_string(folder.path().join("rendered/manifest.yaml")).unwrap();
        let manifest: Value = serde_yaml::from_str(&manifest).unwrap();
        let bucket = manifest["cluster"]["bucket"].as_str().unwrap().to_owned();
        let api = ApiServer::start();
        let running =
            Self { mock, folder, api, bucket, machines, page: status, made: Mutex::default() };
        running.fill(&manifest);
        running
    }

    /// Everything is as it should be.
    fn fill(&self, manifest: &Value) {
        let version = kubernetes_version();
        let mut objects = Vec::new();
        for (group, ids) in &self.machines {
            for id in ids {
                self.report(group, id, "active");
                if group == "etcd" {
                    continue;
                }
                objects.push(node(id, &version, true));
                if group == "controller" {
                    for part in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
                        objects.push(pod(
                            "kube-system",
                            &format!("{part}-{id}"),
                            id,
                            CRITICAL,
                            true,
                        ));
                    }
                }
            }
        }
        for addon in manifest["addons"].as_array().unwrap() {
            if addon["chart"].is_null() {
                continue;
            }
            let namespace = addon["namespace"].as_str().unwrap();
            objects.push(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            );
            // Helm keeps what was before, and numbers them.
            let name = addon["name"].as_str().unwrap();
            objects.push(release(namespace, name, 9, "superseded"));
            objects.push(release(namespace, name, 10, "deployed"));
        }
        objects.push(release("default", "looker", 1, "deployed"));
        for check in manifest["checks"].as_object().unwrap().values() {
            let word = |form: &Value, key: &str| form[key].as_str().unwrap().to_owned();
            if let Some(form) = check.get("object") {
                objects.push(workload(
                    &word(form, "kind"),
                    &word(form, "namespace"),
                    &word(form, "name"),
                    true,
                ));
            }
            if let Some(form) = check.get("service") {
                objects.push(addresses(&word(form, "namespace"), &word(form, "name"), true));
            }
        }
        self.api.put(&objects);
        let said = json!({"state": "healthy", "phase": "addons", "message": "", "instance": "i", "group": "controller",
            "bundle": "", "time": "2026-11-20T12:00:00Z"});
        self.object("reports/controller/addons.json", &said.to_string());
        self.snapshot("now");
    }

    fn object(&self, key: &str, text: &str) {
        let url = format!("http://{}/{}/{key}", self.mock.0.address, self.bucket);
        let file = self.folder.path().join("upload");
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let words = ["-sSf", "--user", "test:test", "--aws-sigv4", SIGN, "-T", &file, &url];
        let put = program("curl", &words, &root());
        assert!(put.status.success(), "{}", shown(&put));
    }

    fn forget_snapshots(&self) {
        let made = self.made.lock().unwrap().drain(..).collect::<Vec<_>>();
        for key in made {
            let url = format!("http://{}/{}/{key}", self.mock.0.address, self.bucket);
            let words = ["-sSf", "--user", "test:test", "--aws-sigv4", SIGN, "-X", "DELETE", &url];
            assert!(program("curl", &words, &root()).status.success());
        }
    }

    fn snapshot(&self, when: &str) {
        let made = program("date", &["-u", "-d", when, "+%Y-%m-%dT%H-%M-%SZ"], &root());
        let stamp = String::from_utf8(made.stdout).unwrap();
        let key = format!("backups/etcd/{}-r1.db", stamp.trim());
        self.object(&key, "snapshot");
        self.made.lock().unwrap().push(key);
    }

    /// What a machine says of itself.
    pub fn report(&self, group: &str, id: &str, unit: &str) {
        let said = json!({"state": "healthy", "phase": "health", "message": "all checks passed", "instance": id,
            "group": group.replacen('-', ":", 1), "bundle": "b", "time": "2026-11-20T12:00:00Z", "units": {"looker.service": unit}});
        self.object(&format!("reports/{group}/{id}.json"), &said.to_string());
    }

    fn of(&self, group: &str) -> &str {
        &self.machines[group][0]
    }

    fn validate(&self, more: &[&str]) -> Output {
        let kubeconfig = self.api.kubeconfig().display().to_string();
        let words = [&["validate", "--kubeconfig", &kubeconfig][..], more].concat();
        self.folder.kaws(&self.mock.0.address, &words)
    }

    /// What does not hold, each with what is said of it.
    pub fn broken(&self, words: &[&str]) -> Vec<(String, String, String)> {
        broken(&self.validate(&[&["--output", "json"], words].concat()))
    }

    /// That exactly these checks say so, and that all is well again once it is mended.
    fn breaks(&self, wanted: &[(&str, &str, &str)], broken: &dyn Fn(), mended: &dyn Fn()) {
        broken();
        let found = self.broken(&[]);
        let names = |all: &[(String, String, String)]| {
            all.iter().map(|b| (b.0.clone(), b.1.clone())).collect::<Vec<_>>()
        };
        let expected: Vec<(String, String)> =
            wanted.iter().map(|(c, v, _)| ((*c).to_owned(), (*v).to_owned())).collect();
        assert_eq!(names(&found), expected, "{found:?}");
        for ((check, _, text), found) in wanted.iter().zip(&found) {
            assert!(found.2.contains(text), "{check}: {text}\n{}", found.2);
        }
        mended();
        assert_eq!(self.broken(&[]), []);
    }

    pub fn put(&self, object: Value) {
        self.api.put(&[object]);
    }

    pub fn remove(&self, words: &[&str]) {
        self.api.kubectl(&[&["delete", "--grace-period=0", "--force"], words].concat(), "");
    }
}

fn broken(output: &Output) -> Vec<(String, String, String)> {
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(output)));
    let all = said["checks"].as_array().unwrap();
    assert!(all.len() > 15, "{said}");
    let failed = all.iter().any(|c| c["verdict"] == "failed");
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{}", shown(output));
    assert_eq!(said["holds"], json!(!failed));
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let bad = all.iter().filter(|c| c["verdict"] != "passed");
    bad.map(|c| {
        (word(&c["check"]), word(&c["verdict"]), format!("{}: {}", word(&c["note"]), c["findings"]))
    })
    .collect()
}

fn release(namespace: &str, name: &str, number: u32, status: &str) -> Value {
    let labels =
        json!({"owner": "helm", "name": name, "status": status, "version": number.to_string()});
    json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": format!("sh.helm.release.v1.{name}.v{number}"), "namespace": namespace, "labels": labels}})
}

fn workload(kind: &str, namespace: &str, name: &str, available: bool) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a.example/a"}]}});
    let count = u32::from(available);
    let status = if kind == "DaemonSet" {
        json!({"numberAvailable": count, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0,
            "numberReady": count, "observedGeneration": 1})
    } else {
        let word = if available { "True" } else { "False" };
        json!({"conditions": [{"type": "Available", "status": word, "message": "Deployment does not have minimum availability."}]})
    };
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}, "status": status})
}

fn addresses(namespace: &str, service: &str, ready: bool) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{service}-1"), "namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "endpoints": [{"addresses": ["10.2.0.9"], "conditions": {"ready": ready}}]})
}

/// What a controller reports, by the program that does it there.
fn reported(running: &Running, dir: &Path) {
    let text =
        std::fs::read_to_string(root().join("plugins/control-plane/files/kaws-report")).unwrap();
    let text = text.replace(". /opt/kaws/lib/aws.sh", "meta() { echo i-reporter; }; put() { cp \"$2\" \"$OUT\"; }; get() { cp \"$OUT.checks\" \"$2\"; }");
    let text = text
        .replace("/etc/kubernetes/kaws-addons.kubeconfig", "$1")
        .replace("/run/kaws/report", "$OUT.home");
    let tools = root().join(".tools/go").display().to_string();
    let text = text.replace("/opt/kaws/bin", &tools);
    let out = dir.join("cluster.tsv").display().to_string();
    let url = format!("http://{}/{}/addons/checks", running.mock.0.address, running.bucket);
    let got = program(
        "curl",
        &["-sSf", "--user", "test:test", "--aws-sigv4", SIGN, "-o", &format!("{out}.checks"), &url],
        dir,
    );
    assert!(got.status.success(), "{}", shown(&got));
    std::fs::write(dir.join("report"), format!("OUT={out}\n{text}")).unwrap();
    let kubeconfig = running.api.kubeconfig().display().to_string();
    let ran = program("bash", &["report", &kubeconfig], dir);
    assert!(ran.status.success(), "{}", shown(&ran));
    running.object("reports/controller/cluster.tsv", &std::fs::read_to_string(&out).unwrap());
}

#[test]
fn every_check_holds_and_fails_as_it_should() {
    let mut running = Running::start();
    assert_eq!(running.broken(&[]), []);
    let said = shown(&running.validate(&[]));
    assert!(said.contains("asked the API server") && said.contains("checks hold."), "{said}");
    nodes(&running);
    pods(&running);
    account(&running);
    plugins(&running);
    waiting(&running);
    from_a_report(&running);
    changed(&running);
    // Without etcd the API server says what fails; of the rest nobody knows.
    running.api.stop_etcd();
    until(60, "the API server has missed etcd", || {
        let said = running.api.run(&["get", "--raw", "/readyz?verbose"], "");
        shown(&said).contains("[-]etcd").then_some(())
    });
    let found = running.broken(&[]);
    let ready = found.iter().find(|b| b.0 == "api-server/ready");
    let ready = ready.unwrap_or_else(|| panic!("{found:?}"));
    assert!(ready.1 == "failed" && ready.2.contains("etcd fails"), "{ready:?}");
}

fn nodes(running: &Running) {
    let worker = running.of("pool-general");
    let version = kubernetes_version();
    let up = || running.put(node(worker, &version, true));
    running.breaks(
        &[("kubelet/nodes", "failed", "is not ready")],
        &|| running.put(node(worker, &version, false)),
        &up,
    );
    running.breaks(
        &[("kubelet/nodes", "failed", "has not joined")],
        &|| running.remove(&["node", worker]),
        &up,
    );
    // So many may be missing, but none of the control plane.
    running.put(node(worker, &version, false));
    let spared = running.broken(&["--max-unready", "1"]);
    assert_eq!(spared.iter().map(|b| b.1.as_str()).collect::<Vec<_>>(), ["warned"], "{spared:?}");
    up();
    let controller = running.of("controller");
    running.put(node(controller, &version, false));
    let found = running.broken(&["--max-unready", "1"]);
    assert!(found.iter().any(|b| b.0 == "kubelet/nodes" && b.1 == "failed"), "{found:?}");
    running.put(node(controller, &version, true));
    running.breaks(
        &[("kubelet/versions", "failed", "is newer than its API server")],
        &|| running.put(node(worker, "1.99.0", true)),
        &up,
    );
    running.breaks(
        &[("kubelet/versions", "failed", "is too old for its API server")],
        &|| running.put(node(worker, "1.30.0", true)),
        &up,
    );
}

fn pods(running: &Running) {
    let controller = running.of("controller");
    let name = format!("kube-scheduler-{controller}");
    let whole = || running.put(pod("kube-system", &name, controller, CRITICAL, true));
    running.breaks(
        &[("control-plane/pods", "failed", "there is no kube-scheduler")],
        &|| running.remove(&["pod", "-n", "kube-system", &name]),
        &whole,
    );
    running.breaks(
        &[
            ("control-plane/pods", "failed", "is not ready"),
            ("kubelet/critical-pods", "failed", "is not ready"),
        ],
        &|| running.put(pod("kube-system", &name, controller, CRITICAL, false)),
        &whole,
    );
    // A pod that nobody needs is nobody's concern here.
    running.put(pod("default", "some", controller, "", false));
    assert_eq!(running.broken(&[]), []);
    running.breaks(
        &[("helm/releases", "failed", "the release coredns is failed")],
        &|| running.put(release("kube-system", "coredns", 11, "failed")),
        &|| running.remove(&["secret", "-n", "kube-system", "sh.helm.release.v1.coredns.v11"]),
    );
    running.breaks(
        &[("coredns/answering", "failed", "no address of the service kube-system/kube-dns")],
        &|| running.put(addresses("kube-system", "kube-dns", false)),
        &|| running.put(addresses("kube-system", "kube-dns", true)),
    );
    running.breaks(
        &[("cilium/agents", "failed", "0 of 1 pods are available")],
        &|| running.put(workload("DaemonSet", "kube-system", "cilium", false)),
        &|| running.put(workload("DaemonSet", "kube-system", "cilium", true)),
    );
}

fn account(running: &Running) {
    let health = |id: &str, word: &str| {
        let form = format!(
            "Action=SetInstanceHealth&Version=2011-01-01&InstanceId={id}&HealthStatus={word}"
        );
        let url = format!("http://{}/", running.mock.0.address);
        let said = program(
            "curl",
            &[
                "-sSf",
                "--user",
                "test:test",
                "--aws-sigv4",
                "aws:amz:eu-west-1:autoscaling",
                "-d",
                &form,
                &url,
            ],
            &root(),
        );
        assert!(said.status.success(), "{}", shown(&said));
    };
    let member = running.of("etcd");
    running.breaks(
        &[("etcd-members/machines", "failed", "etcd has 0 of 1 machines in service")],
        &|| health(member, "Unhealthy"),
        &|| health(member, "Healthy"),
    );
    let said = |state: &str| {
        json!({"state": state, "phase": "addons/storage", "message": "ebs-csi: timed out", "instance": "i",
            "group": "controller", "bundle": "", "time": "2026-11-20T12:00:00Z"})
        .to_string()
    };
    let ask = |service: &str, form: &str| {
        let (sign, url) =
            (format!("aws:amz:eu-west-1:{service}"), format!("http://{}/", running.mock.0.address));
        let said = program(
            "curl",
            &["-sSf", "--user", "test:test", "--aws-sigv4", &sign, "-d", form, &url],
            &root(),
        );
        assert!(said.status.success(), "{}", shown(&said));
    };
    let controller = running.of("controller");
    running.breaks(
        &[("network/targets", "failed", "does not answer as a target of network/")],
        &|| {
            ask(
                "ec2",
                &format!("Action=StopInstances&Version=2016-11-15&InstanceId.1={controller}"),
            )
        },
        &|| {
            ask(
                "ec2",
                &format!("Action=StartInstances&Version=2016-11-15&InstanceId.1={controller}"),
            )
        },
    );
    running.breaks(
        &[("helm/addons", "failed", "ebs-csi: timed out")],
        &|| running.object("reports/controller/addons.json", &said("failed")),
        &|| running.object("reports/controller/addons.json", &said("healthy")),
    );
}

fn plugins(running: &Running) {
    running.breaks(
        &[("looker/deployed", "failed", "does not have minimum availability")],
        &|| running.put(workload("Deployment", "default", "looker", false)),
        &|| running.put(workload("Deployment", "default", "looker", true)),
    );
    running.breaks(
        &[("looker/deployed", "failed", "there is no Deployment default/looker")],
        &|| running.remove(&["deployment", "looker"]),
        &|| running.put(workload("Deployment", "default", "looker", true)),
    );
    running.breaks(
        &[("looker/answering", "failed", "no address of the service default/looker is ready")],
        &|| running.put(addresses("default", "looker", false)),
        &|| running.put(addresses("default", "looker", true)),
    );
    running.breaks(
        &[("looker/installed", "failed", "the release looker is not installed")],
        &|| running.remove(&["secret", "sh.helm.release.v1.looker.v1"]),
        &|| running.put(release("default", "looker", 1, "deployed")),
    );
    // Its author said that this is no reason to stop.
    running.breaks(
        &[("looker/page", "warned", "it answers 503, not 200")],
        &|| running.page.store(503, Ordering::Relaxed),
        &|| running.page.store(200, Ordering::Relaxed),
    );
    let worker = running.of("pool-general");
    running.breaks(
        &[("looker/running", "failed", "looker.service on")],
        &|| running.report("pool-general", worker, "failed"),
        &|| running.report("pool-general", worker, "active"),
    );
}

/// A stack that is stuck, machines of before a change, and a snapshot that nobody has made anew.
fn changed(running: &Running) {
    let address = &running.mock.0.address;
    for on in ["update", "rollback"] {
        let fault = json!({"resource": "pool-general/Group", "reason": "no", "on": on});
        running.mock.0.ask("POST", "/mock/fail", &fault);
    }
    running.folder.edit("m7i.large", "m7i.xlarge");
    let output = running.folder.kaws(address, &["up", "--yes", "--render"]);
    assert_eq!(output.status.code(), Some(4), "{}", shown(&output));
    let found = running.broken(&[]);
    let stack = &found[0];
    assert!(
        stack.0 == "cloudformation/stacks" && stack.2.contains("UPDATE_ROLLBACK_FAILED"),
        "{found:?}"
    );
    // The mock's groups keep their machines, as those of a pool do that nobody has rolled.
    running.folder.fine(address, &["up", "--yes"]);
    let found = running.broken(&[]);
    assert!(found.len() == 1 && found[0].2.contains("kaws roll pool-general"), "{found:?}");
    assert_eq!((found[0].0.as_str(), found[0].1.as_str()), ("node-bundle/current", "warned"));
    running.forget_snapshots();
    running.snapshot("5 hours ago");
    let found = running.broken(&[]);
    assert_eq!(found[0].0, "etcd-members/snapshots", "{found:?}");
    assert!(found[0].2.contains("no snapshot of etcd as young as it should be"), "{found:?}");
}

/// What comes to hold while it is waited for.
fn waiting(running: &Running) {
    running.page.store(200, Ordering::Relaxed);
    running.put(workload("Deployment", "default", "looker", false));
    std::thread::scope(|scope| {
        let waited = scope
            .spawn(|| running.validate(&["--wait", "60s", "--interval", "200ms", "--count", "2"]));
        std::thread::sleep(std::time::Duration::from_secs(2));
        running.put(workload("Deployment", "default", "looker", true));
        let said = waited.join().unwrap();
        let text = shown(&said);
        assert!(said.status.success(), "{text}");
        assert!(
            text.contains("waiting for looker/deployed") && text.contains("1 of 2 times"),
            "{text}"
        );
    });
}

/// Where the API server cannot be reached, a controller's report says the same.
fn from_a_report(running: &Running) {
    let dir = tempfile::tempdir().unwrap();
    let look = || running.folder.kaws(&running.mock.0.address, &["validate", "--output", "json"]);
    // Nobody has said anything yet.
    let found = broken(&look());
    assert!(found.iter().any(|b| b.2.contains("nobody says how the cluster is")), "{found:?}");
    reported(running, dir.path());
    let output = look();
    assert_eq!(broken(&output), []);
    assert!(shown(&output).contains("i-reporter reported"), "{}", shown(&output));
    running.put(node(running.of("pool-general"), &kubernetes_version(), false));
    running.put(addresses("default", "looker", false));
    running.put(workload("DaemonSet", "kube-system", "cilium", false));
    running.put(release("kube-system", "coredns", 11, "failed"));
    reported(running, dir.path());
    assert_eq!(broken(&look()), running.broken(&[]));
    assert_eq!(running.broken(&[]).len(), 4);
    running.put(node(running.of("pool-general"), &kubernetes_version(), true));
    running.put(addresses("default", "looker", true));
    running.put(workload("DaemonSet", "kube-system", "cilium", true));
    running.remove(&["secret", "-n", "kube-system", "sh.helm.release.v1.coredns.v11"]);
}
