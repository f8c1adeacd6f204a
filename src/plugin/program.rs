//! Plugins as programs: what a manifest says of them. How one is started, what may read, how long it may take.
//!
//! Not here: starting one (`runtime`), and what is said to and fro (`contract`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Files, Manifest};
use crate::finding::{Finding, Findings};
use crate::name::platform;
use crate::value::Node;

/// How a program is started: a file of the plugin's folder, as `./bin/acme`; or a list, whose first word is such a
/// file or a program on the PATH, as `[python3, ./main.py]`; or either, by platform: `{linux-amd64: ./bin/acme}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "a program")]
pub enum Exec {
    /// One for all platforms.
    One(Start),
    /// One for each platform: linux-amd64, linux-arm64, darwin-amd64, darwin-arm64.
    Platforms(BTreeMap<String, Start>),
}

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "a start")]
pub enum Start {
    /// A file.
    File(String),
    /// A program with arguments.
    Words(Vec<String>),
}

/// What a program is started with, on this platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is run.
    pub program: Word,
    /// Its arguments, with `./` paths of the plugin's folder left as they are.
    pub arguments: Vec<String>,
}

/// Where a program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// In the plugin's folder: its path there.
    Own(String),
    /// On the PATH.
    Path(String),
}

impl Exec {
    /// Returns what is run on `platform`.
    ///
    /// # Errors
    /// Why nothing can be.
    pub fn command(&self, platform: &str) -> Result<Command, String> {
        match self {
            Self::One(start) => start.command(),
            Self::Platforms(all) => match all.get(platform) {
                Some(start) => start.command(),
                None => {
                    let names: Vec<&str> = all.keys().map(String::as_str).collect();
                    Err(format!("it has no program for {platform}, only for {}", names.join(", ")))
                }
            },
        }
    }

    /// Returns the platforms that are named, with their programs; nothing where one serves for all.
    #[must_use]
    pub fn platforms(&self) -> Vec<&str> {
        match self {
            Self::Platforms(all) => all.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the files of the plugin's folder that are started, on any platform.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let starts: Vec<&Start> = match self {
            Self::One(start) => vec![start],
            Self::Platforms(all) => all.values().collect(),
        };
        let own = |start: &Start| match start.command() {
            Ok(Command { program: Word::Own(file), .. }) => Some(file),
            _ => None,
        };
        starts.into_iter().filter_map(own).collect()
    }
}

impl Start {
    fn command(&self) -> Result<Command, String> {
        match self {
            Self::File(word) if word.contains(char::is_whitespace) => {
                let words: Vec<&str> = word.split_whitespace().collect();
                Err(format!("`{word}` is one word: write [{}]", words.join(", ")))
            }
            Self::File(word) => command(std::slice::from_ref(word)),
            Self::Words(words) => command(words),
        }
    }
}

fn command(words: &[String]) -> Result<Command, String> {
    let Some((first, rest)) = words.split_first() else {
        return Err("no program is named".to_owned());
    };
    let program = if first.contains('/') {
        let path = first.strip_prefix("./").unwrap_or(first);
        let inside = path.split('/').all(|s| !s.is_empty() && s != "." && s != "..");
        if !inside {
            return Err(format!("`{first}` lies outside the plugin's folder"));
        }
        Word::Own(path.to_owned())
    } else if first.is_empty() {
        return Err("no program is named".to_owned());
    } else {
        Word::Path(first.clone())
    };
    Ok(Command { program, arguments: rest.to_vec() })
}

/// How far a program of a plugin may go, each time it is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "limits")]
pub struct Limits {
    /// How long it may take.
    #[schemars(regex(pattern = "^[1-9][0-9]{0,3}(ms|s|m)$"))]
    pub timeout: String,
    /// How much memory each of its processes may write to, in MiB.
    #[schemars(range(min = 16, max = 65_536))]
    pub memory: u64,
    /// How much it may answer, in MiB.
    #[schemars(range(min = 1, max = 256))]
    pub output: u64,
    /// How many processes it may have at once.
    #[schemars(range(min = 1, max = 1_024))]
    pub processes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: "30s".to_owned(), memory: 2_048, output: 16, processes: 64 }
    }
}

impl Limits {
    /// Returns the time in milliseconds; the schema has checked the form.
    #[must_use]
    pub fn milliseconds(&self) -> u64 {
        let digits = self.timeout.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.parse().unwrap_or(30);
        match &self.timeout[digits.len()..] {
            "ms" => number,
            "m" => number * 60_000,
            "h" => number * 3_600_000,
            _ => number * 1_000,
        }
    }
}

/// What a program may reach beyond its own folder. The user grants it once, with `kaws lock`; in initialise and render
/// nothing of it counts: those two are pure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "capabilities")]
pub struct Capabilities {
    /// Addresses it talks to, as `https://api.example.com` or `host:port`. Ports of TCP are enforced; names are what its
    /// author says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Files and folders beside cluster.yaml that it reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Environment variables it sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Secrets of its own whose values its hooks are told, on their standard input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl Capabilities {
    /// Returns whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns each right in words of its own, as `network https://api.example.com`.
    #[must_use]
    pub fn rights(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .parts()
            .iter()
            .flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind} {name}")))
            .collect();
        all.sort();
        all.dedup();
        all
    }

    fn parts(&self) -> [(&'static str, &Vec<String>); 4] {
        [
            ("network", &self.network),
            ("files", &self.files),
            ("env", &self.env),
            ("secret", &self.secrets),
        ]
    }

    /// Returns those of which `granted` has the words.
    #[must_use]
    pub fn only(&self, granted: &[String]) -> Self {
        let mut parts = self.parts().into_iter().map(|(kind, names)| {
            let is_granted = |name: &&String| granted.contains(&format!("{kind} {name}"));
            names.iter().filter(is_granted).cloned().collect()
        });
        let mut next = || parts.next().unwrap_or_default();
        Self { network: next(), files: next(), env: next(), secrets: next() }
    }

    /// Returns the ports that `network` names; `None` where one of them cannot be read.
    #[must_use]
    pub fn ports(&self) -> Option<Vec<u16>> {
        self.network.iter().map(|address| port(address)).collect()
    }
}

fn port(address: &str) -> Option<u16> {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, address),
    };
    let host = rest.split('/').next()?;
    match (host.rsplit_once(':'), scheme) {
        (Some((_, port)), _) => port.parse().ok(),
        (None, Some("https")) => Some(443),
        (None, Some("http")) => Some(80),
        _ => None,
    }
}

/// How a program is written.
const FORM: &str = "a program is a file, as ./bin/x; a list, as [python3, ./main.py]; or one of these for each platform";

/// Returns the program of a stage, if that is what it is.
#[must_use]
pub fn of_stage(manifest: &Manifest, stage: &str) -> Option<Result<Exec, String>> {
    let body = match stage {
        "initialise" => &manifest.initialise,
        "render" => &manifest.render,
        _ => return None,
    };
    let exec = body.get("exec")?;
    Some(serde_json::from_value(exec.clone()).map_err(|_| FORM.to_owned()))
}

/// Returns what is wrong with what a manifest says of programs.
pub(super) fn check(manifest: &Manifest, node: &Node, files: &Files) -> Findings {
    let mut findings = Findings::new();
    for (stage, body) in [("initialise", &manifest.initialise), ("render", &manifest.render)] {
        let at = |key: &str| node.at(&[stage, key]).map_or(&node.origin, Node::key_origin);
        for runtime in ["grpc", "wasm"].into_iter().filter(|r| body.contains_key(*r)) {
            let text = format!("this kaws runs no plugins by `{runtime}`");
            let help = "write a program that is asked by `exec`, or the contribution itself";
            findings.push(Finding::fatal("plugin/runtime", text).at(at(runtime)).help(help));
        }
        for runtime in ["exec", "native"].into_iter().filter(|r| body.contains_key(*r)) {
            if let Some(other) = body.keys().find(|key| *key != runtime) {
                let text = format!("{stage} has `{runtime}`, and `{other}` beside it");
                let help = "code returns the whole contribution of its stage";
                findings.push(Finding::fatal("plugin/runtime", text).at(at(other)).help(help));
            }
        }
        if let Some(exec) = of_stage(manifest, stage) {
            check_exec(exec, at("exec"), manifest, files, &mut findings);
        }
    }
    for (stage, body) in [("deploy", &manifest.deploy), ("validate", &manifest.validate)] {
        for (name, one) in body {
            let Some(exec) = one.get("exec") else { continue };
            let at = node.at(&[stage, name, "exec"]).map_or(&node.origin, |node| &node.origin);
            match serde_json::from_value(exec.clone()) {
                Ok(exec) => check_start(&exec, at, manifest, files, &mut findings),
                Err(_) => findings.push(Finding::fatal("plugin/runtime", FORM).at(at)),
            }
        }
    }
    for (name, command) in &manifest.commands {
        let at = node.at(&["commands", name, "exec"]).map_or(&node.origin, |node| &node.origin);
        check_start(&command.exec, at, manifest, files, &mut findings);
    }
    for (i, name) in manifest.capabilities.secrets.iter().enumerate() {
        if !manifest.secrets.contains_key(name) {
            let text = format!("{} has no secret `{name}`", manifest.name);
            let at = node.at(&["capabilities", "secrets", &i.to_string()]).unwrap_or(node);
            let help = format!("name it in the manifest:\n\n    secrets: {{{name}: {{}}}}");
            findings.push(Finding::fatal("plugin/value", text).at(&at.origin).help(help));
        }
    }
    for right in manifest.capabilities.rights().iter().filter(|r| r.contains(char::is_control)) {
        let text = format!("`{}` has characters that do something", right.escape_debug());
        let at = node.get("capabilities").unwrap_or(node);
        findings.push(Finding::fatal("plugin/value", text).at(at.key_origin()));
    }
    for (key, i, text, help) in unreachable(&manifest.capabilities) {
        let at = node.at(&["capabilities", key, &i.to_string()]).unwrap_or(node);
        findings.push(Finding::fatal("plugin/value", text).at(&at.origin).help(help));
    }
    findings
}

/// Returns the capabilities that nobody can grant: where each stands, what is wrong, and what to write.
fn unreachable(asked: &Capabilities) -> Vec<(&'static str, usize, String, &'static str)> {
    let mut all = Vec::new();
    for (i, address) in asked.network.iter().enumerate().filter(|(_, a)| port(a).is_none()) {
        let text = format!("`{address}` names no port");
        all.push(("network", i, text, "write https://api.example.com, or host:port"));
    }
    let inside = |path: &str| path.split('/').all(|s| !s.is_empty() && s != "." && s != "..");
    for (i, path) in asked.files.iter().enumerate().filter(|(_, p)| !inside(p)) {
        let text = format!("`{path}` lies outside the cluster's folder");
        all.push(("files", i, text, "paths are those beside cluster.yaml"));
    }
    let named = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let ours = |name: &str| {
        ["KAWS_", "LD_", "DYLD_"].iter().any(|p| name.starts_with(p))
            || ["HOME", "LANG", "PATH", "TMPDIR", "TZ"].contains(&name)
    };
    for (i, name) in asked.env.iter().enumerate().filter(|(_, n)| !named(n) || ours(n)) {
        let text = format!("`{name}` is no variable that a program can be given");
        all.push((
            "env",
            i,
            text,
            "KAWS_*, LD_*, PATH, HOME, LANG, TMPDIR and TZ are kaws's to set",
        ));
    }
    all
}

fn check_exec(
    exec: Result<Exec, String>,
    at: &crate::origin::Origin,
    manifest: &Manifest,
    files: &Files,
    findings: &mut Findings,
) {
    let exec = match exec {
        Ok(exec) => exec,
        Err(text) => return findings.push(Finding::fatal("plugin/runtime", text).at(at)),
    };
    if manifest.writes.is_none() {
        let text = format!("{} is a program, and does not say where it writes", manifest.name);
        let help = "say it, so that it can be read before it is run:\n\n    writes: [machines.nodes.files]";
        findings.push(Finding::fatal("plugin/writes", text).at(at).help(help));
    }
    check_start(&exec, at, manifest, files, findings);
}

/// What is started must be there, and be for this platform.
fn check_start(
    exec: &Exec,
    at: &crate::origin::Origin,
    manifest: &Manifest,
    files: &Files,
    findings: &mut Findings,
) {
    if let Err(text) = exec.command(&platform()) {
        findings.push(Finding::fatal("plugin/runtime", text).at(at));
    }
    for file in exec.files().iter().filter(|file| !files.contains_key(*file)) {
        let text = format!("{} has no file {file}", manifest.name);
        findings.push(
            Finding::fatal("plugin/file", text).at(at).help("build it first, or name another"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(text: &str) -> Result<Command, String> {
        let exec: Exec = serde_json::from_str(text).unwrap();
        exec.command("linux-amd64")
    }

    #[test]
    fn a_program_is_a_file_of_the_folder_or_on_the_path() {
        let own = exec("\"./bin/x\"").unwrap();
        assert_eq!((own.program, own.arguments.len()), (Word::Own("bin/x".to_owned()), 0));
        let python = exec("[\"python3\", \"./main.py\"]").unwrap();
        assert_eq!(python.program, Word::Path("python3".to_owned()));
        assert!(exec("\"../x\"").unwrap_err().contains("outside"));
        assert!(exec("\"/bin/sh\"").unwrap_err().contains("outside"));
        assert!(exec("\"python3 main.py\"").unwrap_err().contains("[python3, main.py]"));
        assert!(exec("[]").is_err() && exec("\"\"").is_err());
    }

    #[test]
    fn each_platform_can_have_its_own() {
        let text = r#"{"linux-amd64": "./bin/a", "darwin-arm64": ["./bin/b", "-x"]}"#;
        assert_eq!(exec(text).unwrap().program, Word::Own("bin/a".to_owned()));
        let exec: Exec = serde_json::from_str(text).unwrap();
        assert_eq!(exec.files(), ["bin/b", "bin/a"]);
        assert!(exec.command("linux-arm64").unwrap_err().contains("darwin-arm64, linux-amd64"));
    }

    #[test]
    fn times_and_ports() {
        let limits = |timeout: &str| Limits { timeout: timeout.to_owned(), ..Limits::default() };
        assert_eq!(limits("200ms").milliseconds(), 200);
        assert_eq!(limits("5s").milliseconds(), 5_000);
        assert_eq!(limits("10m").milliseconds(), 600_000);
        for (address, expected) in [
            ("https://a.example", Some(443)),
            ("http://a.example/x", Some(80)),
            ("a.example:5432", Some(5432)),
            ("https://a.example:8443/x", Some(8443)),
            ("a.example", None),
        ] {
            assert_eq!(port(address), expected, "{address}");
        }
    }
}
