//! Programs that misbehave, in every way we know: each ends in a finding, within its limit, with nothing half merged and
//! no process left.
//!
//! Each is a file in `tests/misbehaving`. Lines that begin with `#:` go into its manifest, or name the stage; the one
//! that begins with `#=` is the code of the finding, or `fine`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kaws::finding::Severity;
use kaws::run::render;

use crate::support::{Cluster, expect_file, programs};

struct Program {
    name: String,
    bytes: Vec<u8>,
    manifest: String,
    stage: String,
    code: String,
}

fn read(path: &Path) -> Program {
    let bytes = std::fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = |mark: &str| -> Vec<String> {
        text.lines().filter_map(|l| l.strip_prefix(mark)).map(str::to_owned).collect()
    };
    let (stage, manifest): (Vec<String>, Vec<String>) =
        lines("#: ").into_iter().partition(|line| line.starts_with("stage: "));
    Program {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        bytes,
        manifest: manifest.join("\n"),
        stage: stage.first().map_or("initialise", |line| &line["stage: ".len()..]).to_owned(),
        code: lines("#= ").into_iter().next().unwrap_or_else(|| panic!("{}", path.display())),
    }
}

/// Runs a program, and returns the lines that say how it went.
fn run(program: &Program, home: &Path) -> Result<String, String> {
    let cluster = Cluster::small("plugins:\n  acme: {}\n");
    let manifest = format!(
        "nodes: [controller, worker]\nwrites: [machines.nodes.files]\n{}\n{}: {{exec: ./bin/acme}}\n",
        program.manifest, program.stage
    );
    cluster.plugin("acme", &manifest);
    let here = |text: &str| {
        text.replace("REAL_HOME", &home.display().to_string())
            .replace("CLUSTER", &cluster.path().display().to_string())
    };
    let bytes = match std::str::from_utf8(&program.bytes) {
        Ok(text) => here(text).into_bytes(),
        Err(_) => program.bytes.clone(),
    };
    cluster.file("plugins/acme/bin/acme", bytes);
    let before = tree(cluster.path());
    let begun = Instant::now();
    let mut options = cluster.options();
    options.runtime = Some(programs(Some(home)));
    let outcome = render(&options).unwrap();
    let took = begun.elapsed();
    let wrong = |text: String| Err(format!("{}: {text}", program.name));
    if took > Duration::from_secs(20) {
        return wrong(format!("it took {took:?}"));
    }
    if tree(cluster.path()) != before {
        return wrong("the cluster's folder has changed".to_owned());
    }
    let told: Vec<_> = outcome.findings.iter().filter(|f| f.code != "lock/unresolved").collect();
    let fatal = told.iter().any(|f| f.severity == Severity::Fatal);
    if fatal == outcome.value.is_some() {
        return wrong("a fatal finding, and something rendered".to_owned());
    }
    let codes: Vec<&str> = told.iter().map(|f| f.code.as_str()).collect();
    if codes != if program.code == "fine" { vec![] } else { vec![program.code.as_str()] } {
        return wrong(format!("{codes:?}, not {}: {told:?}", program.code));
    }
    let mut text = format!("{}\n", program.name);
    for finding in told {
        let named = finding.plugin.is_some() || finding.message.contains("acme");
        if finding.origin.is_none() || !named {
            return wrong("it is not said where, and of whom".to_owned());
        }
        let _ = writeln!(text, "  {}", here_again(&finding.message, &cluster, home));
        for note in finding.notes.iter().chain(&finding.help) {
            note.lines().for_each(|line| {
                let _ = writeln!(text, "    {}", here_again(line, &cluster, home));
            });
        }
    }
    Ok(text)
}

/// Takes out what differs from run to run: paths and numbers of processes.
fn here_again(line: &str, cluster: &Cluster, home: &Path) -> String {
    let line = line
        .replace(&home.display().to_string(), "HOME")
        .replace(&cluster.path().display().to_string(), "CLUSTER");
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for word in &mut words {
        let temporary =
            ["kaws-plugin-", "kaws-calls-"].iter().find_map(|p| Some((p, word.find(p)?)));
        if let Some((mark, at)) = temporary {
            let start = word[..at].rfind("/tmp").unwrap_or(at);
            let end = at + mark.len() + 6;
            word.replace_range(start..end.min(word.len()), "TMP");
        }
        let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
        if digits.len() > 2 && word.starts_with("/proc/") {
            *word = word.replace(digits, "PID");
        }
    }
    words.join(" ")
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    crate::support::files_below(dir)
        .into_iter()
        .map(|p| (p.clone(), std::fs::read(p).unwrap()))
        .collect()
}

/// Processes that one of these programs started: they wait for a number of seconds that nobody else waits for.
fn survivors() -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = String::from_utf8_lossy(&environment).contains("KAWS_CLUSTER=small\0");
        if line.contains("31337") || (ours && line.contains("acme")) {
            all.push(line);
        }
    }
    all
}

#[test]
fn every_misbehaving_program_ends_in_a_finding() {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir("tests/misbehaving").unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_none());
    assert!(paths.len() >= 60, "{}", paths.len());
    let all: Vec<Program> = paths.iter().map(|path| read(path)).collect();
    let home = tempfile::Builder::new().prefix("home-").tempdir_in("/var/tmp").unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(home.path().join(".aws/credentials"), "canary").unwrap();
    let (next, said) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(program) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = run(program, home.path());
                    said.lock().unwrap().insert(program.name.clone(), text);
                }
            });
        }
    });
    let said = said.into_inner().unwrap();
    let wrong: Vec<&String> = said.values().filter_map(|r| r.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(survivors(), Vec::<String>::new());
    let text: Vec<&str> =
        said.values().filter_map(|r| r.as_ref().ok().map(String::as_str)).collect();
    assert!(!text.concat().contains("canary"));
    expect_file(Path::new("tests/misbehaving/said.txt"), &text.join("\n"));
}
