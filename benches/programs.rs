//! What it costs that a plugin is a program: against a bare start of the same program, side by side in one run; a rank of
//! a hundred; and a hundred whose answers are known.
//!
//! `cargo bench --bench programs`. The supervisor is the `kaws-exec` of the same build.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures, and ends where anything is wrong"
)]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kaws::load::{Options, load};
use kaws::plugin::{Home, Package};
use kaws::runtime::{Host, Runtime};
use kaws::{builtin, pipeline};

const CLUSTER: &str = "apiVersion: kaws/v1
name: bench
account: \"111122223333\"
region: eu-west-1
network: {zones: [eu-west-1a, eu-west-1b, eu-west-1c]}
nodePools: {general: {instanceTypes: [m7i.large]}}
";
/// Answers at once.
const QUICK: &str =
    "#!/bin/sh\nread -r line\necho '{\"contribution\": {\"values\": {\"NAME\": {\"x\": 1}}}}'\n";
/// Works for a while first.
const WORKS: &str = "#!/bin/sh\nread -r line\ni=0\nwhile [ $i -lt 20000 ]; do i=$((i+1)); done\necho '{\"contribution\": {\"values\": {\"NAME\": {\"x\": 1}}}}'\n";

fn cluster(dir: &Path, plugins: usize, script: &str) -> PathBuf {
    let mut text = CLUSTER.to_owned();
    if plugins > 0 {
        text.push_str("plugins:\n");
    }
    for i in 0..plugins {
        let name = format!("p{i}");
        text.push_str(&format!("  {name}: {{}}\n"));
        let folder = dir.join("plugins").join(&name);
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        let manifest = format!(
            "apiVersion: kaws/v1\nname: {name}\nversion: 1.0.0\ndescription: A bench's.\nwrites: []\nreads: []\ninitialise: {{exec: ./bin/x}}\n"
        );
        std::fs::write(folder.join("plugin.yaml"), manifest).unwrap();
        std::fs::write(folder.join("bin/x"), script.replace("NAME", &name)).unwrap();
    }
    std::fs::write(dir.join("cluster.yaml"), text).unwrap();
    dir.join("cluster.yaml")
}

fn runtime(cache: Option<&Path>) -> Arc<Runtime> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Runtime::new(Host {
        supervisor: env!("CARGO_BIN_EXE_kaws-exec").into(),
        path: std::env::split_paths(&path).collect(),
        home: None,
        cache: cache.map(Path::to_owned),
        environment: std::collections::BTreeMap::new(),
    })
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

/// The processor's time of all children so far, in seconds.
fn children() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap()) / 100.0
}

fn initialise(file: &Path, runtime: &Arc<Runtime>) -> Duration {
    let options = Options { runtime: Some(Arc::clone(runtime)), ..Options::of(file) };
    let setup = load(&options, &builtin::natives()).ok().and_then(|o| o.value).expect("it loads");
    timed(|| assert!(!pipeline::initialise(&setup).findings.any_fatal()))
}

fn one_call() {
    let dir = tempfile::tempdir().unwrap();
    let file = cluster(dir.path(), 1, QUICK);
    let folder = dir.path().join("plugins/p0");
    let runtime = runtime(None);
    let recorder = runtime.recording();
    initialise(&file, &recorder);
    let request = recorder.recorded("p0").remove(0).request;
    let found = kaws::load::Found { home: Home::User(String::new()), folder: Some(folder.clone()) };
    let package: Arc<Package> = Arc::new(kaws::load::package("p0", &found).unwrap().ok().unwrap());
    let program = folder.join("bin/x");
    Command::new("chmod").arg("755").arg(&program).status().unwrap();
    let bare = || {
        let mut child =
            Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(&request);
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        said
    };
    runtime.ask(&package, &request).unwrap();
    let (mut alone, mut under) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        alone.push(timed(bare));
        under.push(timed(|| runtime.ask(&package, &request).unwrap()));
    }
    let (alone, under) = (median(alone), median(under));
    println!("one call       bare {alone:.2} ms, exec {under:.2} ms: {:.2} ms more", under - alone);
}

fn a_rank() {
    let dir = tempfile::tempdir().unwrap();
    let file = cluster(dir.path(), 100, WORKS);
    let before = children();
    let took = initialise(&file, &runtime(None)).as_secs_f64();
    let used = children() - before;
    println!("100 in a rank  {took:.2} s, {used:.2} s of processors: {:.2} at once", used / took);
}

fn cached() {
    let (with, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = tempfile::tempdir().unwrap();
    let (with, without) = (cluster(with.path(), 100, QUICK), cluster(without.path(), 0, ""));
    let runtime = runtime(Some(cache.path()));
    initialise(&with, &runtime);
    let (mut known, mut none) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        known.push(initialise(&with, &runtime));
        none.push(initialise(&without, &runtime));
    }
    let (known, none) = (median(known), median(none));
    println!(
        "100 known      {known:.2} ms, none {none:.2} ms: {:.3} ms each",
        (known - none) / 100.0
    );
}

fn main() {
    one_call();
    a_rank();
    cached();
}
