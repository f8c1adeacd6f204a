//! A world for machines: a network with AWS (the mock) and an internet (of our own) in it, a cluster that is
//! deployed there, and machines that boot from what was deployed, with systemd, in namespaces of their own.
//!
//! Needs root: it makes namespaces, bridges and loop devices. Everything is taken away when it is dropped.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::machine::{Machine, Seat};
use crate::{KAWS, root, shown};

/// The address of everything that is no machine.
pub const OUTSIDE: &str = "10.40.0.1";
/// The address of the API's load balancer.
pub const BALANCER: &str = "10.40.0.2";

/// The address of the issuer of tokens.
pub const ISSUER: &str = "10.40.0.3";

/// The network, what listens in it, and the cluster's folder.
pub struct World {
    pub network: String,
    pub dir: tempfile::TempDir,
    pub aws: String,
    pub proxy: String,
    pub name: String,
    region: String,
    children: RefCell<Vec<Child>>,
}

/// Runs a program and expects it to succeed.
pub fn fine(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}: scripts/test installs what is needed")
    });
    assert!(output.status.success(), "{command:?}\n{}", shown(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn ip(arguments: &[&str]) {
    fine(Command::new("ip").args(arguments));
}

/// A program of the tests that no package brings.
pub fn built(name: &str) -> String {
    let path = root().join(".tools/go").join(name);
    assert!(
        path.exists(),
        "{} is needed for this test: scripts/go_programs builds it",
        path.display()
    );
    path.display().to_string()
}

/// The folder with Kubernetes' programs, and the file that says their version: the default's, or with KAWS_TESTS=oldest
/// those of the oldest release that kaws renders.
pub fn kubernetes() -> (PathBuf, PathBuf) {
    let (programs, module) = match std::env::var("KAWS_TESTS").as_deref() {
        Ok("oldest") => (".tools/go/oldest", "tests/real/go/kubernetes-oldest/go.mod"),
        Ok(other) => panic!("KAWS_TESTS={other}: there is only `oldest`"),
        Err(_) => (".tools/go", "tests/real/go/kubernetes/go.mod"),
    };
    (root().join(programs), root().join(module))
}

/// The version of Kubernetes' programs.
pub fn kubernetes_version() -> String {
    let text = std::fs::read_to_string(kubernetes().1).unwrap();
    let version = text.lines().find_map(|l| l.strip_prefix("require k8s.io/kubernetes v"));
    version.expect("go.mod names Kubernetes").trim().to_owned()
}

/// Waits until something is there.
pub fn until<T>(seconds: u64, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(seconds), "after {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

impl World {
    /// A world with one cluster, not yet deployed. `edit` changes its file; `plugins` is added to it.
    pub fn of(cluster: &Path, edit: &[(&str, &str)], plugins: &str) -> Self {
        let is_root = fine(Command::new("id").arg("-u")).trim() == "0";
        assert!(is_root, "machines need namespaces of the system: run this test as root");
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let network = format!("kt{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &network]);
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["link", "add", "br0", "type", "bridge"],
            &["addr", "add", "10.40.0.1/16", "dev", "br0"],
            &["addr", "add", "10.40.0.2/16", "dev", "br0"],
            &["addr", "add", "10.40.0.3/16", "dev", "br0"],
            &["link", "set", "br0", "up"],
        ] {
            let mut all = vec!["-n", &network];
            all.extend(arguments);
            ip(&all);
        }
        let dir = tempfile::Builder::new().prefix("kaws-world").tempdir().unwrap();
        for folder in ["cluster", "internet", "machines", "volumes"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let mut text = std::fs::read_to_string(cluster).unwrap();
        for (from, to) in edit {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        // What runs is what is asked for.
        let asked = text.lines().find(|l| l.starts_with("kubernetesVersion: ")).unwrap().to_owned();
        text = text.replace(&asked, &format!("kubernetesVersion: {}", kubernetes_version()));
        text.push_str(plugins);
        std::fs::write(dir.path().join("cluster/cluster.yaml"), &text).unwrap();
        let probe = root().join("tests/plugins/probe");
        std::fs::create_dir(dir.path().join("cluster/plugins")).unwrap();
        fine(Command::new("cp").arg("-r").arg(probe).arg(dir.path().join("cluster/plugins")));
        let read: Value = serde_yaml::from_str(&text).unwrap();
        let word = |key: &str| read[key].as_str().unwrap().to_owned();
        let mut world = Self {
            network,
            aws: String::new(),
            proxy: String::new(),
            name: word("name"),
            region: word("region"),
            dir,
            children: RefCell::default(),
        };
        std::fs::create_dir(world.folder().join("certs")).unwrap();
        std::fs::write(world.folder().join("certs/issuer.crt"), "").unwrap();
        world.issuer();
        world.internet();
        world.proxy = world.listening(
            "internet.py",
            &["--folder", world.dir.path().join("internet").to_str().unwrap()],
        );
        world.aws = world.listening("mock_aws.py", &[]);
        world
    }

    /// Starts the issuer of tokens, whose authority the cluster may be told of.
    fn issuer(&self) {
        let folder = self.dir.path().join("issuer");
        std::fs::create_dir(&folder).unwrap();
        let python = root().join(".tools/python/bin/python");
        let script = root().join("tests/real/issuer.py");
        let words = [python.to_str().unwrap(), script.to_str().unwrap(), "--host", ISSUER];
        let more = ["--url", "https://dex.acme.example", "--folder", folder.to_str().unwrap()];
        self.background(&[&words[..], &more[..]].concat());
        until(20, "the issuer is there", || folder.join("token").exists().then_some(()));
        std::fs::copy(folder.join("ca.crt"), self.folder().join("certs/issuer.crt")).unwrap();
    }

    /// A token of the issuer's.
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("issuer/token")).unwrap()
    }

    /// Writes down what there is to download.
    pub fn internet(&self) {
        let python = root().join(".tools/python/bin/python");
        let program = |name: &str| -> String {
            let text = std::fs::read_to_string(root().join("tests/real").join(name)).unwrap();
            let path = self.dir.path().join("internet").join(name);
            std::fs::write(&path, format!("#!{}\n{text}", python.display())).unwrap();
            path.display().to_string()
        };
        let etcd = etcd_bin_vendored::etcd_bin_path().unwrap().display().to_string();
        let charts: Vec<Value> =
            self.charts().iter().map(|(name, version)| json!([name, version])).collect();
        let said = json!({"charts": charts, "programs": {
            "etcd": etcd, "etcdctl": built("etcdctl"), "etcdutl": built("etcdutl"), "helm": built("helm"),
            "kubectl": kubernetes().0.join("kubectl"), "kubelet": program("static_pods.py"), "containerd": program("stands_by.py")}});
        self.tell_internet(&said);
    }

    pub fn tell_internet(&self, said: &Value) {
        std::fs::write(self.dir.path().join("internet/world.json"), said.to_string()).unwrap();
    }

    pub fn told_internet(&self) -> Value {
        let path = self.dir.path().join("internet/world.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Pins everything to what there is in this world; hashes that kaws knows by itself are of another.
    pub fn lock(&self) {
        let programs = self.pins();
        let programs =
            programs.iter().filter(|n| !n.starts_with("chart/") && !n.starts_with("image/"));
        let words: Vec<&str> = programs.flat_map(|name| ["--update", name]).collect();
        self.kaws(&[&["lock"][..], &words[..]].concat());
    }

    /// The charts that the cluster names.
    fn charts(&self) -> Vec<(String, String)> {
        let chart = |name: &String| {
            let (name, version) = name.strip_prefix("chart/")?.split_once('/')?;
            Some((name.to_owned(), version.to_owned()))
        };
        self.pins().iter().filter_map(chart).collect()
    }

    /// The names of everything that the cluster fetches.
    fn pins(&self) -> Vec<String> {
        let file = self.dir.path().join("cluster/cluster.yaml");
        let outcome = kaws::run::render(&kaws::load::Options::of(&file)).unwrap();
        let said = kaws::finding::findings_text(&outcome.findings, false);
        let run = outcome.value.unwrap_or_else(|| panic!("{said}"));
        let needs = kaws::pipeline::collect_pins(&run.setup, &run.rendered.model);
        needs.into_iter().map(|need| need.name).collect()
    }

    /// Starts a Python program that says where it listens.
    fn listening(&self, script: &str, arguments: &[&str]) -> String {
        let python = root().join(".tools/python/bin/python");
        let script = root().join("tests/real").join(script);
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.network])
            .arg(python)
            .arg(script)
            .args(["--host", OUTSIDE, "--port", "0"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.children.borrow_mut().push(child);
        line.trim().strip_prefix("listening on ").expect("it says where it listens").to_owned()
    }

    /// Starts a program in the network that goes on until the world ends.
    pub fn background(&self, command: &[&str]) {
        let child = Command::new("ip")
            .args(["netns", "exec", &self.network])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.children.borrow_mut().push(child);
    }

    pub fn folder(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    /// The command in this world, ready to run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.network, KAWS])
            .args(arguments)
            .args(crate::unasked(arguments))
            .current_dir(self.folder())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.aws))
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", &self.region)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("HTTPS_PROXY", format!("http://{}", self.proxy))
            .env("SSL_CERT_FILE", self.dir.path().join("internet/ca.crt"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the command, and expects it to be done.
    pub fn kaws(&self, arguments: &[&str]) -> String {
        fine(&mut self.command(arguments))
    }

    pub fn set_secret(&self, name: &str, value: &str) {
        use std::io::Write as _;
        let mut command = self.command(&["secret", "set", name, "--yes"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Locks and deploys the cluster.
    pub fn up(&self) {
        self.lock();
        self.kaws(&["render"]);
        self.kaws(&["up", "--yes"]);
    }

    fn curl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.network, "curl", "-sSf"]).args(arguments);
        fine(&mut command)
    }

    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let url = format!("http://{}{path}", self.aws);
        let said = self.curl(&["-X", method, "-d", &body.to_string(), &url]);
        serde_json::from_str(&said).unwrap()
    }

    fn bucket(&self) -> String {
        format!("kaws-111122223333-{}-{}", self.region, self.name)
    }

    /// An object of the state bucket, as whoever deploys sees it.
    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        let url = format!("http://{}/{}/{key}", self.aws, self.bucket());
        let output = Command::new("ip")
            .args(["netns", "exec", &self.network, "curl", "-sSf", "--user", "test:test"])
            .args(["--aws-sigv4", &format!("aws:amz:{}:s3", self.region), &url])
            .output()
            .unwrap();
        output.status.success().then_some(output.stdout)
    }

    pub fn put_object(&self, key: &str, bytes: &[u8]) {
        let file = self.dir.path().join("upload");
        std::fs::write(&file, bytes).unwrap();
        let url = format!("http://{}/{}/{key}", self.aws, self.bucket());
        let sign = format!("aws:amz:{}:s3", self.region);
        let file = file.to_str().unwrap();
        self.curl(&["--user", "test:test", "--aws-sigv4", &sign, "-T", file, &url]);
    }

    pub fn delete_object(&self, key: &str) {
        let url = format!("http://{}/{}/{key}", self.aws, self.bucket());
        let sign = format!("aws:amz:{}:s3", self.region);
        self.curl(&["--user", "test:test", "--aws-sigv4", &sign, "-X", "DELETE", &url]);
    }

    /// An object that everybody may read.
    pub fn issuer_document(&self, key: &str) -> Value {
        let url = format!("http://{}/{}-oidc/{key}", self.aws, self.bucket());
        let sign = format!("aws:amz:{}:s3", self.region);
        serde_json::from_str(&self.curl(&["--user", "test:test", "--aws-sigv4", &sign, &url]))
            .unwrap()
    }

    /// The report of a machine.
    pub fn report(&self, group: &str, name: &str) -> Option<Value> {
        let bytes = self.object(&format!("reports/{}/{name}.json", group.replace(':', "-")))?;
        Some(
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes))),
        )
    }

    pub fn signals(&self, instance: &str) -> Vec<String> {
        let all = self.ask("GET", "/mock/signals", &Value::Null);
        let of = all.as_array().unwrap().iter().filter(|s| s["instance"] == instance);
        of.map(|s| s["status"].as_str().unwrap().to_owned()).collect()
    }

    /// The user data that a launch template starts machines with.
    fn user_data(&self, stack: &str, template: &str) -> String {
        let stacks = self.ask("GET", "/mock/stacks", &Value::Null);
        let name = format!("{}-{stack}", self.name);
        let stack = stacks.as_array().unwrap().iter().rfind(|s| s["name"] == name.as_str());
        let data = &stack.unwrap()["resources"][template]["properties"]["LaunchTemplateData"];
        let encoded = data["UserData"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The id of an instance that Auto Scaling made, by its tags.
    fn instance(&self, tags: &[(&str, &str)]) -> (String, String) {
        let all = self.ask("GET", "/mock/machines", &Value::Null);
        let fits = |m: &&Value| tags.iter().all(|(key, value)| m["tags"][key] == *value);
        let found = all.as_array().unwrap().iter().find(fits).expect("a machine with these tags");
        (found["id"].as_str().unwrap().to_owned(), found["zone"].as_str().unwrap().to_owned())
    }

    /// What a member of etcd starts from.
    pub fn etcd(&self, member: u32) -> Seat {
        let index = member.to_string();
        let (id, zone) = self.instance(&[("kaws/group", "etcd"), ("kaws/etcd-member", &index)]);
        let template = format!("Etcd{member}LaunchTemplate");
        self.seat(&format!("etcd-{member}"), "etcd", "etcd", &template, id, zone, 10 + member)
    }

    /// What a controller starts from.
    pub fn controller(&self) -> Seat {
        let (id, zone) = self.instance(&[("kaws/group", "controller")]);
        self.seat("controller", "controller", "control-plane", "LaunchTemplate", id, zone, 20)
    }

    /// What a worker starts from.
    pub fn worker(&self, pool: &str) -> Seat {
        let group = format!("pool:{pool}");
        let (id, zone) = self.instance(&[("kaws/group", &group)]);
        let stack = format!("pool-{pool}");
        self.seat(&stack.clone(), &group, &stack, "LaunchTemplate", id, zone, 30)
    }

    #[expect(clippy::too_many_arguments, reason = "each is one fact of a machine")]
    fn seat(
        &self,
        name: &str,
        group: &str,
        stack: &str,
        template: &str,
        instance: String,
        zone: String,
        host: u32,
    ) -> Seat {
        Seat {
            name: name.to_owned(),
            group: group.to_owned(),
            instance,
            zone,
            address: format!("10.40.1.{host}"),
            role: format!("{}-{stack}/Role", self.name),
            user_data: self.user_data(stack, template),
            environment: BTreeMap::from([
                ("AWS_ENDPOINT_URL".to_owned(), format!("http://{}", self.aws)),
                ("https_proxy".to_owned(), format!("http://{}", self.proxy)),
                ("no_proxy".to_owned(), ".internal,127.0.0.1".to_owned()),
                ("CURL_CA_BUNDLE".to_owned(), "/etc/kaws-tests/ca.crt".to_owned()),
                ("KAWS_PATIENCE".to_owned(), "0".to_owned()),
            ]),
        }
    }

    /// Names that the private zone has.
    pub fn hosts(&self, members: u32) -> String {
        let zone = format!("{}.internal", self.name);
        let mut text =
            format!("127.0.0.1 localhost\n{BALANCER} api.{zone}\n{ISSUER} dex.acme.example\n");
        for member in 0..members {
            text.push_str(&format!("10.40.1.{} etcd-{member}.{zone}\n", 10 + member));
        }
        text
    }

    /// Boots a machine.
    pub fn boot(&self, seat: Seat) -> Machine {
        self.ask("POST", "/mock/machines", &json!({"key": seat.access_key(), "role": seat.role}));
        Machine::boot(self, seat)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in self.children.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = Command::new("ip").args(["netns", "delete", &self.network]).status();
    }
}
