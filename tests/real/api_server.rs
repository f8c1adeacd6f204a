//! Kubernetes' own API server with etcd, on this machine's loopback: nodes and pods in it are only what tests write.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::world::{built, kubernetes, until};
use crate::{program, shown};

/// An API server that allows everything to everybody it knows.
pub struct ApiServer {
    dir: tempfile::TempDir,
    children: Vec<Child>,
}

/// Two ports that are free.
fn free_ports() -> (u16, u16) {
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (one, other) = (listen(), listen());
    (one.local_addr().unwrap().port(), other.local_addr().unwrap().port())
}

const CERTIFICATES: &str = "set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.crt -subj /CN=ca
leaf() {
  openssl req -newkey rsa:2048 -nodes -keyout $1.key -out $1.csr -subj $2
  openssl x509 -req -days 2 -in $1.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out $1.crt -extfile <(printf '%s' \"$3\")
}
leaf server /CN=kube-apiserver subjectAltName=IP:127.0.0.1
leaf client /O=system:masters/CN=test extendedKeyUsage=clientAuth
openssl genrsa -out sa.key 2048
openssl rsa -in sa.key -pubout -out sa.pub";

impl ApiServer {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = program("bash", &["-c", CERTIFICATES], dir.path());
        assert!(made.status.success(), "{}", shown(&made));
        let (store, peers) = free_ports();
        let (port, _) = free_ports();
        let log = |name: &str| std::fs::File::create(dir.path().join(name)).unwrap();
        let etcd = Command::new(etcd_bin_vendored::etcd_bin_path().unwrap())
            .args(["--data-dir", "data", "--unsafe-no-fsync"])
            .arg(format!("--listen-client-urls=http://127.0.0.1:{store}"))
            .arg(format!("--advertise-client-urls=http://127.0.0.1:{store}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{peers}"))
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(log("etcd.log"))
            .spawn()
            .unwrap();
        let server = Command::new(kubernetes().0.join("kube-apiserver"))
            .arg(format!("--etcd-servers=http://127.0.0.1:{store}"))
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .args(["--tls-cert-file=server.crt", "--tls-private-key-file=server.key"])
            .args(["--client-ca-file=ca.crt", "--authorization-mode=AlwaysAllow"])
            .args([
                "--service-account-issuer=https://a.example",
                "--service-account-key-file=sa.pub",
            ])
            .arg("--service-account-signing-key-file=sa.key")
            .args([
                "--service-cluster-ip-range=10.3.0.0/16",
                "--disable-admission-plugins=ServiceAccount",
            ])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(log("kube-apiserver.log"))
            .spawn()
            .unwrap();
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"certificate-authority": "ca.crt", "server": format!("https://127.0.0.1:{port}")}}],
            "users": [{"name": "test", "user": {"client-certificate": "client.crt", "client-key": "client.key"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]});
        let mut kubeconfig = kubeconfig.to_string();
        for file in ["ca.crt", "client.crt", "client.key"] {
            let path = dir.path().join(file).display().to_string();
            kubeconfig = kubeconfig.replace(&format!("\"{file}\""), &format!("\"{path}\""));
        }
        std::fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
        let server = Self { dir, children: vec![server, etcd] };
        until(60, "the API server is ready", || {
            server.run(&["get", "--raw", "/readyz"], "").status.success().then_some(())
        });
        // Which pods the cluster needs is said by classes that the server makes itself, a moment later.
        until(60, "the classes are there", || {
            server
                .run(&["get", "priorityclass", "system-cluster-critical"], "")
                .status
                .success()
                .then_some(())
        });
        server
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// kubectl.
    pub fn run(&self, words: &[&str], input: &str) -> Output {
        let mut child = Command::new(built("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(words)
            .env("HOME", self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    pub fn kubectl(&self, words: &[&str], input: &str) -> String {
        let output = self.run(words, input);
        assert!(output.status.success(), "kubectl {words:?}\n{}", shown(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes an object, or many, with their status, as whoever looks after them would.
    pub fn put(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &list);
        let told: Vec<&Value> = objects.iter().filter(|o| !o["status"].is_null()).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": told}).to_string();
        if !told.is_empty() {
            self.kubectl(
                &["apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-"],
                &list,
            );
        }
    }

    pub fn stop_etcd(&mut self) {
        let mut etcd = self.children.pop().unwrap();
        etcd.kill().unwrap();
        etcd.wait().unwrap();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A node, as its kubelet says it is.
pub fn node(name: &str, version: &str, ready: bool) -> Value {
    let word = if ready { "True" } else { "False" };
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"nodeInfo": {"kubeletVersion": format!("v{version}"), "architecture": "", "bootID": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""},
        "conditions": [{"type": "Ready", "status": word, "reason": "Kubelet", "message": "container runtime is down"}]}})
}

/// A pod on a node; without a class nobody needs it.
pub fn pod(namespace: &str, name: &str, node: &str, class: &str, ready: bool) -> Value {
    let word = if ready { "True" } else { "False" };
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "image": "a.example/a"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": word}]}});
    if !class.is_empty() {
        pod["spec"]["priorityClassName"] = json!(class);
    }
    pod
}
