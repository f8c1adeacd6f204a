//! Folders of clusters, and the command in a sealed environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kaws::finding::{Findings, findings_text};
use kaws::load::Options;
use kaws::run::{Run, render};
use kaws::runtime::{Host, Runtime};

/// The beginning of a small, valid cluster; more can be appended.
pub const MINIMAL: &str = "apiVersion: kaws/v1
name: small
account: \"111122223333\"
region: eu-west-1
network: {zones: [eu-west-1a, eu-west-1b, eu-west-1c]}
nodePools:
  general: {instanceTypes: [m7i.large]}
  other: {instanceTypes: [m7i.xlarge]}
";

/// A cluster's folder that goes away with the test.
pub struct Cluster {
    dir: tempfile::TempDir,
}

impl Cluster {
    /// A folder with this `cluster.yaml`.
    pub fn new(text: &str) -> Self {
        let cluster = Self { dir: tempfile::tempdir().unwrap() };
        cluster.file("cluster.yaml", text);
        cluster
    }

    /// A small cluster with `more` appended to its file.
    pub fn small(more: &str) -> Self {
        Self::new(&format!("{MINIMAL}{more}"))
    }

    pub fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let full = self.dir.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
        self
    }

    /// A plugin of the user's, whose manifest has the usual head and `body`.
    pub fn plugin(&self, name: &str, body: &str) -> &Self {
        let head = format!(
            "apiVersion: kaws/v1\nname: {name}\nversion: 1.0.0\ndescription: A test's plugin.\n"
        );
        self.file(&format!("plugins/{name}/plugin.yaml"), format!("{head}{body}"))
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn options(&self) -> Options {
        Options::of(self.dir.path().join("cluster.yaml"))
    }

    /// Renders, and expects that nothing is fatal.
    pub fn render(&self) -> Run {
        let outcome = render(&self.options()).unwrap();
        let text = self.text(&outcome.findings);
        outcome.value.unwrap_or_else(|| panic!("it should render:\n{text}"))
    }

    /// Renders, and returns what is said, with the folder's own path taken out.
    pub fn findings(&self) -> String {
        let outcome = render(&self.options()).unwrap();
        self.text(&outcome.findings)
    }

    /// As [`Self::findings`], fatal ones only.
    pub fn fatal(&self) -> String {
        let outcome = render(&self.options()).unwrap();
        let fatal: Findings = outcome
            .findings
            .into_iter()
            .filter(|f| f.severity == kaws::finding::Severity::Fatal)
            .collect();
        assert!(!fatal.is_empty(), "nothing is fatal");
        self.text(&fatal)
    }

    pub fn codes(&self) -> Vec<String> {
        let outcome = render(&self.options()).unwrap();
        outcome.findings.iter().map(|f| f.code.clone()).collect()
    }

    fn text(&self, findings: &Findings) -> String {
        findings_text(findings, false).replace(&format!("{}/", self.dir.path().display()), "")
    }

    /// Runs the command in the folder, with an empty environment.
    pub fn kaws(&self, arguments: &[&str]) -> Output {
        kaws(self.path(), arguments)
    }
}

/// What runs programs of plugins, with kaws itself as their supervisor, and keeps no answers.
pub fn programs(home: Option<&Path>) -> Arc<Runtime> {
    let path = std::env::var_os("PATH").unwrap();
    Runtime::new(Host {
        supervisor: env!("CARGO_BIN_EXE_kaws").into(),
        path: std::env::split_paths(&path).collect(),
        home: home.map(Path::to_owned),
        cache: None,
        environment: std::collections::BTreeMap::new(),
    })
}

/// Every file below a folder.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
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

/// What the command printed, and how it ended.
pub struct Output {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Output {
    /// All of it in one text, for snapshots; times are taken out.
    pub fn all(&self) -> String {
        let lines: Vec<String> = self.err.lines().chain(self.out.lines()).map(timeless).collect();
        format!("{}\nexit {}", lines.join("\n"), self.code)
    }
}

/// Returns a line without how long something took, which differs from run to run.
pub fn timeless(line: &str) -> String {
    match line.rsplit_once("  ") {
        Some((head, tail)) if tail.trim().ends_with(" ms") || tail.trim().ends_with(" s") => {
            format!("{}  <time>", head.trim_end())
        }
        _ => line.to_owned(),
    }
}

/// Runs the command in `dir`, with an empty environment.
pub fn kaws(dir: &Path, arguments: &[&str]) -> Output {
    kaws_with_input(dir, arguments, "")
}

/// Runs the command in `dir`, with something on its standard input and nothing in its environment but a way to the
/// internet where nobody answers.
pub fn kaws_with_input(dir: &Path, arguments: &[&str], input: &str) -> Output {
    use std::io::Write as _;
    let mut child = Command::new(env!("CARGO_BIN_EXE_kaws"))
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever reads no input closes it, and that is no mistake.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Output {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Compares `text` with the file at `path`; `KAWS_UPDATE=1` writes it.
pub fn expect_file(path: &Path, text: &str) {
    if std::env::var_os("KAWS_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == text,
        "{} differs; look at it, then: KAWS_UPDATE=1 cargo test\n\n{}",
        path.display(),
        first_difference(&expected, text)
    );
}

fn first_difference(expected: &str, text: &str) -> String {
    let lines = expected.lines().map(Some).chain(std::iter::repeat(None));
    let pair = text
        .lines()
        .map(Some)
        .chain(std::iter::once(None))
        .zip(lines)
        .enumerate()
        .find(|(_, (a, b))| a != b);
    match pair {
        Some((i, (is, was))) => {
            format!("line {}:\n- {}\n+ {}", i + 1, was.unwrap_or("<end>"), is.unwrap_or("<end>"))
        }
        None => "it is shorter than expected".to_owned(),
    }
}

/// The names of the example clusters, and their files.
pub fn examples() -> Vec<(String, PathBuf)> {
    let mut all: Vec<(String, PathBuf)> = std::fs::read_dir("examples")
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), p.join("cluster.yaml")))
        .collect();
    all.push(("cluster.yaml.example".to_owned(), "cluster.yaml.example".into()));
    all.sort();
    all
}

/// Renders a file that is expected to be fine.
pub fn rendered(file: &Path) -> Run {
    let outcome = render(&Options::of(file)).unwrap();
    let text = findings_text(&outcome.findings, false);
    outcome.value.unwrap_or_else(|| panic!("{} should render:\n{text}", file.display()))
}
