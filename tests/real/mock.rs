//! The mock AWS server, clusters on it, and the command that deploys them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use kaws::load::Options;
use kaws::run::render;
use serde_json::{Value, json};

use crate::{KAWS, program, root, shown};

/// A program that listens, until it is dropped.
pub struct Listening {
    child: Child,
    pub address: String,
}

impl Listening {
    /// Starts a Python program that says where it listens.
    pub fn start(script: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new("python3")
            .arg(root().join("tests/real").join(script))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("python3 is needed for this test ({error})"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| {
            panic!("{script} does not start; scripts/test installs what it needs. It says: {line}")
        });
        Self { address: address.to_owned(), child }
    }

    /// Sends a request to the server itself.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let url = format!("http://{}{path}", self.address);
        let data = body.to_string();
        let arguments = ["-sSf", "-X", method, "-d", &data, &url];
        let arguments = if method == "GET" { &["-sSf", &url][..] } else { &arguments[..] };
        let output = program("curl", arguments, &root());
        assert!(output.status.success(), "{}", shown(&output));
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The mock server.
pub struct Mock(pub Listening);

/// One call that the server saw.
#[derive(Clone, Debug)]
pub struct Call {
    pub action: String,
    pub parameters: Value,
}

/// Calls that change nothing.
const READING: [&str; 5] = ["Describe", "Get", "Head", "List", "AssumeRole"];

impl Call {
    pub fn writes(&self) -> bool {
        !READING.iter().any(|word| self.action.starts_with(word))
    }

    pub fn parameter(&self, name: &str) -> &str {
        self.parameters[name].as_str().unwrap_or_default()
    }
}

impl Mock {
    pub fn start() -> Self {
        Self(Listening::start("mock_aws.py", &["--port", "0"]))
    }

    pub fn reset(&self) {
        self.0.ask("POST", "/mock/reset", &json!({}));
        self.0.ask("DELETE", "/mock/calls", &json!({}));
    }

    /// The calls since the last time they were asked for.
    pub fn calls(&self) -> Vec<Call> {
        let calls = self.0.ask("GET", "/mock/calls", &Value::Null);
        self.0.ask("DELETE", "/mock/calls", &json!({}));
        let call = |c: &Value| Call {
            action: c["action"].as_str().unwrap_or_default().to_owned(),
            parameters: c["parameters"].clone(),
        };
        calls.as_array().unwrap().iter().map(call).collect()
    }

    pub fn delay(&self, seconds: f64) {
        self.0.ask("POST", "/mock/delay", &json!({"seconds": seconds}));
    }

    /// Every stack that is there, by name.
    pub fn stacks(&self) -> Vec<Value> {
        let all = self.0.ask("GET", "/mock/stacks", &Value::Null);
        let all = all.as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|s| s["status"] != "DELETE_COMPLETE").collect()
    }
}

/// The internet of the tests, with the charts of all examples.
pub struct Internet {
    listening: Listening,
    folder: tempfile::TempDir,
}

/// There is one for all tests.
pub fn internet() -> &'static Internet {
    static INTERNET: std::sync::OnceLock<Internet> = std::sync::OnceLock::new();
    INTERNET.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut charts = std::collections::BTreeSet::new();
        for (_, run) in crate::clusters() {
            for need in kaws::pipeline::collect_pins(&run.setup, &run.rendered.model) {
                let chart = need.name.strip_prefix("chart/").and_then(|c| c.split_once('/'));
                charts.extend(chart.map(|(n, v)| (n.to_owned(), v.to_owned())));
            }
        }
        let said = json!({"charts": charts, "programs": {}});
        std::fs::write(folder.path().join("world.json"), said.to_string()).unwrap();
        let place = folder.path().to_str().unwrap();
        Internet { listening: Listening::start("internet.py", &["--folder", place]), folder }
    })
}

impl Internet {
    /// What a program needs to be in this internet.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        let authority = self.folder.path().join("ca.crt").display().to_string();
        [
            ("HTTPS_PROXY", format!("http://{}", self.listening.address)),
            ("NO_PROXY", "127.0.0.1".to_owned()),
            ("SSL_CERT_FILE", authority),
        ]
    }

    fn digest(&self, chart: &str) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("digests.json")).unwrap();
        let digests: Value = serde_json::from_str(&text).unwrap();
        digests[chart].as_str().unwrap_or_else(|| panic!("no chart {chart}")).to_owned()
    }
}

/// A cluster's folder, with a lock that pins everything.
pub struct Folder {
    dir: tempfile::TempDir,
    pub region: String,
    pub secrets: Vec<String>,
}

impl Folder {
    /// A copy of one cluster's file.
    pub fn of(file: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.yaml");
        std::fs::copy(file, &path).unwrap();
        let outcome = render(&Options::of(&path)).unwrap();
        let run = outcome.value.unwrap();
        std::fs::write(dir.path().join("kaws.lock"), lock(&run)).unwrap();
        let secrets = run.rendered.model.names(&["secrets"]);
        Self {
            region: run.setup.config.region.clone(),
            secrets: secrets.into_iter().map(str::to_owned).collect(),
            dir,
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn edit(&self, from: &str, to: &str) {
        let path = self.path().join("cluster.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    /// The command against a server, ready to run.
    pub fn command(&self, address: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(KAWS);
        command
            .args(arguments)
            .args(crate::unasked(arguments))
            .current_dir(self.path())
            .env_clear()
            .env("AWS_ENDPOINT_URL", format!("http://{address}"))
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", &self.region)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(internet().environment())
            .stdin(Stdio::null());
        command
    }

    pub fn kaws(&self, address: &str, arguments: &[&str]) -> Output {
        self.command(address, arguments).output().unwrap()
    }

    /// Runs the command, and expects it to be done.
    pub fn fine(&self, address: &str, arguments: &[&str]) -> String {
        let output = self.kaws(address, arguments);
        assert!(output.status.success(), "kaws {}\n{}", arguments.join(" "), shown(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sets every secret that the cluster's machines read.
    pub fn set_secrets(&self, address: &str) {
        use std::io::Write as _;
        for secret in &self.secrets {
            let mut command = self.command(address, &["secret", "set", secret, "--yes"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(b"a-value").unwrap();
            assert!(child.wait().unwrap().success());
        }
    }
}

/// A lock with made-up values for everything that is fetched, but for charts, which deploying does fetch.
fn lock(run: &kaws::run::Run) -> String {
    let mut text = "kaws: 0.1.0\npins:\n".to_owned();
    for need in kaws::pipeline::collect_pins(&run.setup, &run.rendered.model) {
        let hash = kaws::value::sha256(need.name.as_bytes());
        let value = if need.name.starts_with("image/") {
            format!("ami-{}", &hash[..17])
        } else if let Some(chart) = need.name.strip_prefix("chart/") {
            format!("sha256:{}", internet().digest(chart))
        } else {
            format!("sha256:{hash}")
        };
        text.push_str(&format!(
            "  {}: {{value: '{value}', from: '{}'}}\n",
            kaws::value::quoted(&need.name),
            need.from
        ));
    }
    text
}

/// Every example, by name.
pub fn examples() -> Vec<(String, PathBuf)> {
    let names = kaws::load::example_names();
    let file = |name: &&str| root().join("examples").join(name).join("cluster.yaml");
    let mut all: Vec<(String, PathBuf)> =
        names.iter().map(|n| ((*n).to_owned(), file(n))).collect();
    all.push(("cluster.yaml.example".to_owned(), root().join("cluster.yaml.example")));
    all
}
