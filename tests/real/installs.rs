//! Installing plugins from every source, against servers of this machine; and again from kaws.lock, without them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::mock::Mock;
use crate::{KAWS, program, root, shown};

/// A web server: paths and what is there.
struct Web {
    address: String,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    asked: Arc<AtomicUsize>,
    /// The paths that were asked for, in order.
    paths: Arc<Mutex<Vec<String>>>,
    down: Arc<AtomicBool>,
}

impl Web {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let files: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let (asked, down) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (all, count, stopped) = (Arc::clone(&files), Arc::clone(&asked), Arc::clone(&down));
        let paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&paths);
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                if !stopped.load(Ordering::SeqCst) {
                    heard.lock().unwrap().push(answer(connection, &all.lock().unwrap()));
                }
            }
        });
        Self { address, files, asked, paths, down }
    }

    fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(path.to_owned(), bytes.into());
    }

    /// A release with files, as GitHub's API tells of it.
    fn release(&self, repository: &str, version: &str, files: &[(&str, Vec<u8>)]) {
        let mut assets = Vec::new();
        for (name, bytes) in files {
            let path = format!("/{repository}/{version}/{name}");
            self.put(&path, bytes.clone());
            assets.push(
                json!({"name": name, "browser_download_url": format!("{}{path}", self.address)}),
            );
        }
        let said = json!({"tag_name": format!("v{version}"), "assets": assets}).to_string();
        self.put(&format!("/repos/{repository}/releases/latest"), said.clone());
        self.put(&format!("/repos/{repository}/releases/tags/v{version}"), said);
    }
}

fn answer(mut connection: TcpStream, files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut line = String::new();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let _ = reader.read_line(&mut line);
    // All of it: who closes with something unread breaks the connection off.
    let mut rest = String::new();
    while reader.read_line(&mut rest).is_ok_and(|read| read > 2) {}
    let path = line.split(' ').nth(1).unwrap_or_default();
    let (status, bytes) = match files.get(path) {
        Some(bytes) => ("200 OK", bytes.as_slice()),
        None => ("404 Not Found", &b"nothing"[..]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(bytes));
    path.to_owned()
}

/// One machine of somebody's: a home, and a cluster's folder.
struct Machine {
    home: tempfile::TempDir,
    cluster: tempfile::TempDir,
    endpoint: String,
}

impl Machine {
    fn new(endpoint: &str) -> Self {
        let machine = Self {
            home: tempfile::tempdir().unwrap(),
            cluster: tempfile::tempdir().unwrap(),
            endpoint: endpoint.to_owned(),
        };
        let example =
            std::fs::read_to_string(root().join("examples/minimal/cluster.yaml")).unwrap();
        machine.file("cluster.yaml", &example);
        machine
    }

    /// Another machine, with the same files of git.
    fn clone_of(other: &Self) -> Self {
        let machine = Self::new(&other.endpoint);
        for name in ["cluster.yaml", "kaws.lock"] {
            std::fs::copy(other.path().join(name), machine.path().join(name)).unwrap();
        }
        machine
    }

    fn path(&self) -> &Path {
        self.cluster.path()
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn turn_on(&self, plugin: &str) {
        let text = self.read("cluster.yaml");
        assert!(!text.contains("\nplugins:"), "{text}");
        self.file("cluster.yaml", &format!("{text}plugins:\n  {plugin}: {{}}\n"));
    }

    fn kaws(&self, arguments: &[&str]) -> Output {
        Command::new(KAWS)
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .output()
            .unwrap()
    }

    fn fine(&self, arguments: &[&str]) -> String {
        let output = self.kaws(arguments);
        assert!(output.status.success(), "kaws {}\n{}", arguments.join(" "), shown(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.kaws(arguments);
        assert_eq!(
            output.status.code(),
            Some(1),
            "kaws {}\n{}",
            arguments.join(" "),
            shown(&output)
        );
        shown(&output)
    }

    /// Renders, and returns what a worker has in /etc/motd.
    fn motd(&self) -> String {
        self.fine(&["render"]);
        self.read("rendered/nodes/worker/bundle/etc/motd")
    }
}

/// A plugin's folder, as an author has it.
fn plugin(dir: &Path, version: &str, more: &str) -> PathBuf {
    let folder = dir.join("motd");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = format!(
        "apiVersion: kaws/v1\nname: motd\nversion: {version}\ndescription: Greets who logs in.\nnodes: [worker]\n\
         writes: [machines.nodes.files]\n{more}\
         initialise: {{machines: {{nodes: {{files: {{/etc/motd: {{content: \"motd {version}\"}}}}}}}}}}\n"
    );
    std::fs::write(folder.join("plugin.yaml"), manifest).unwrap();
    folder
}

fn packed(version: &str, more: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let folder = plugin(dir.path(), version, more);
    let to = dir.path().join("motd.tar.gz");
    let arguments = ["plugin", "package", folder.to_str().unwrap(), "--to", to.to_str().unwrap()];
    let output = Command::new(KAWS).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    std::fs::read(to).unwrap()
}

fn git(dir: &Path, arguments: &[&str]) -> String {
    let who =
        ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"];
    let all: Vec<&str> = who.iter().chain(arguments).copied().collect();
    let output = program("git", &all, dir);
    assert!(output.status.success(), "git {arguments:?}\n{}", shown(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn repository(dir: &Path) -> String {
    let plugins = dir.join("plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    plugin(&plugins, "1.2.0", "");
    git(dir, &["init", "--quiet"]);
    git(dir, &["add", "."]);
    git(dir, &["commit", "--quiet", "-m", "motd"]);
    git(dir, &["tag", "v1.2.0"]);
    git(dir, &["rev-parse", "HEAD"])
}

#[test]
fn a_plugin_is_installed_from_every_source_and_again_offline_from_the_lock() {
    let (web, mock) = (Web::start(), Mock::start());
    let endpoint = format!("http://{}", mock.0.address);
    let author = tempfile::tempdir().unwrap();
    let folder = plugin(author.path(), "1.2.0", "");
    let archive = author.path().join("motd-1.2.0.tar.gz");
    std::fs::write(&archive, packed("1.2.0", "")).unwrap();
    web.put("/motd-1.2.0.tar.gz", packed("1.2.0", ""));
    web.release("acme/motd", "1.2.0", &[("motd-1.2.0.tar.gz", packed("1.2.0", ""))]);
    let object = format!("{endpoint}/acme-plugins");
    let put = |arguments: &[&str]| {
        let sign = ["-sSf", "--user", "test:test", "--aws-sigv4", "aws:amz:us-east-1:s3"];
        let all: Vec<&str> = sign.iter().chain(arguments).copied().collect();
        let output = program("curl", &all, &root());
        assert!(output.status.success(), "{}", shown(&output));
    };
    put(&["-X", "PUT", &object]);
    put(&["-T", archive.to_str().unwrap(), &format!("{object}/motd.tar.gz")]);
    let repo = author.path().join("repo");
    let commit = repository(&repo);
    let url = format!("git+file://{}", repo.display());
    let sources: Vec<Vec<String>> = vec![
        vec![folder.display().to_string()],
        vec![archive.display().to_string()],
        vec![format!("{}/motd-1.2.0.tar.gz", web.address)],
        vec!["s3://acme-plugins/motd.tar.gz".to_owned()],
        vec![format!("{url}@v1.2.0//plugins/motd")],
        vec![format!("{url}@{commit}//plugins/motd")],
        vec![format!("{url}//plugins/motd")],
        vec!["acme/motd".to_owned(), "--releases".to_owned(), web.address.clone()],
        vec!["acme/motd@1.2.0".to_owned(), "--releases".to_owned(), web.address.clone()],
    ];
    let mut hashes = Vec::new();
    let mut machines = Vec::new();
    for source in &sources {
        let machine = Machine::new(&endpoint);
        let words = source.iter().map(String::as_str);
        let said =
            machine.fine(&["plugin", "install"].into_iter().chain(words).collect::<Vec<_>>());
        assert!(said.contains("motd 1.2.0 from") && said.contains("to turn it on"), "{said}");
        machine.turn_on("motd");
        assert_eq!(machine.motd(), "motd 1.2.0");
        let lock = machine.read("kaws.lock");
        let own =
            |line: &str| line.strip_prefix("    sha256: ").map(|h| h.trim_matches('"').to_owned());
        let hash = lock.lines().find_map(own).unwrap();
        hashes.push(hash);
        // Somebody else's machine, with what is in git.
        let other = Machine::clone_of(&machine);
        assert!(other.fails(&["render"]).contains("plugin/not-installed"));
        let said = other.fine(&["plugin", "install"]);
        assert!(said.contains("kaws.lock names 1: 1 installed now, 0 there before"), "{said}");
        assert_eq!(other.motd(), "motd 1.2.0");
        assert_eq!(other.read("kaws.lock"), lock);
        machines.push(machine);
    }
    // What was in it is the same, wherever it came from.
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "{hashes:?}");
    // Without any server, and without the author's folder.
    web.down.store(true, Ordering::SeqCst);
    drop(mock);
    drop(author);
    let asked = web.asked.load(Ordering::SeqCst);
    for machine in &machines {
        let said = machine.fine(&["plugin", "install"]);
        assert!(said.contains("kaws.lock names 1: 0 installed now, 1 there before"), "{said}");
        assert_eq!(machine.motd(), "motd 1.2.0");
    }
    assert_eq!(web.asked.load(Ordering::SeqCst), asked);
}

#[test]
fn an_update_stops_at_new_rights_and_a_removal_at_what_is_on() {
    let web = Web::start();
    let machine = Machine::new(&web.address);
    web.release("acme/motd", "1.2.0", &[("motd.tar.gz", packed("1.2.0", ""))]);
    machine.fine(&["plugin", "install", "acme/motd", "--releases", &web.address]);
    machine.turn_on("motd");
    assert_eq!(machine.motd(), "motd 1.2.0");
    // The address of the API is in the lock: nobody names it again.
    assert!(machine.fine(&["plugin", "update"]).contains("as before"));
    web.release("acme/motd", "1.3.0", &[("motd.tar.gz", packed("1.3.0", ""))]);
    assert!(machine.fine(&["plugin", "update", "motd"]).contains("instead of 1.2.0"));
    assert_eq!(machine.motd(), "motd 1.3.0");
    let more = "capabilities: {network: ['https://api.example.com']}\n";
    web.release("acme/motd", "1.4.0", &[("motd.tar.gz", packed("1.4.0", more))]);
    let before = machine.read("kaws.lock");
    let said = machine.fails(&["plugin", "update"]);
    assert!(
        said.contains("install/new-rights") && said.contains("network https://api.example.com"),
        "{said}"
    );
    assert_eq!(machine.read("kaws.lock"), before);
    assert_eq!(machine.motd(), "motd 1.3.0");
    let said = machine.fine(&["plugin", "update", "--grant"]);
    assert!(said.contains("network https://api.example.com: granted"), "{said}");
    assert_eq!(machine.motd(), "motd 1.4.0");
    // Back to a version by its name.
    assert!(
        machine.fine(&["plugin", "update", "motd", "--to", "1.2.0"]).contains("instead of 1.4.0")
    );
    // A release whose archive says another version, and one that changed.
    web.release("acme/motd", "1.5.0", &[("motd.tar.gz", packed("1.4.0", ""))]);
    assert!(
        machine
            .fails(&["plugin", "update", "motd", "--to", "1.5.0"])
            .contains("the release says 1.5.0")
    );
    web.release("acme/motd", "1.2.0", &[("motd.tar.gz", packed("1.2.0", "reads: []\n"))]);
    assert!(
        machine.fails(&["plugin", "update", "motd", "--to", "1.2.0"]).contains("install/changed")
    );
    let other = Machine::clone_of(&machine);
    let said = other.fails(&["plugin", "install"]);
    assert!(said.contains("install/changed"), "{said}");
    let said = machine.fails(&["plugin", "remove", "motd"]);
    assert!(said.contains("install/in-use"), "{said}");
    let text = machine.read("cluster.yaml").replace("plugins:\n  motd: {}\n", "");
    machine.file("cluster.yaml", &text);
    machine.fine(&["plugin", "remove", "motd"]);
    assert!(!machine.read("kaws.lock").contains("motd"));
}

#[test]
fn what_is_made_for_platforms_is_locked_for_all_of_them() {
    let web = Web::start();
    let machine = Machine::new(&web.address);
    let program = |platform: &str| {
        format!(
            "#!/bin/sh\n# for {platform}\n\
             if [ \"$KAWS_COMMAND\" = INFO ]; then [ \"$1\" = metadata ] && cat <<'END'\n\
             apiVersion: kaws/v1\nname: motd\nversion: 1.2.0\ndescription: Greets who logs in.\n\
             nodes: [worker]\nwrites: [machines.nodes.files]\ninitialise: {{exec: ./program}}\nEND\n\
             else echo '{{\"contribution\": {{\"machines\": {{\"nodes\": {{\"files\": {{\"/etc/motd\": {{\"content\": \"from a program\"}}}}}}}}}}}}'; fi\n"
        )
        .into_bytes()
    };
    let platforms = ["linux-amd64", "linux-arm64", "darwin-arm64"];
    let files: Vec<(String, Vec<u8>)> =
        platforms.iter().map(|p| (format!("motd-{p}"), program(p))).collect();
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(n, b)| (n.as_str(), b.clone())).collect();
    web.release("acme/motd", "1.2.0", &files);
    machine.fine(&["plugin", "install", "acme/motd", "--releases", &web.address]);
    machine.turn_on("motd");
    assert_eq!(machine.motd(), "from a program");
    let lock = machine.read("kaws.lock");
    for platform in platforms {
        assert!(lock.contains(&format!("{platform}:\n")), "{lock}");
    }
    let other = Machine::clone_of(&machine);
    other.fine(&["plugin", "install"]);
    assert_eq!(other.motd(), "from a program");
}

#[test]
fn scripts_of_hooks_are_fetched_into_the_lock() {
    let (web, mock) = (Web::start(), Mock::start());
    let endpoint = format!("http://{}", mock.0.address);
    let machine = Machine::new(&endpoint);
    let place = tempfile::tempdir().unwrap();
    let (local, repo) = (place.path().join("local.sh"), place.path().join("repo"));
    std::fs::write(&local, "echo local\n").unwrap();
    std::fs::create_dir_all(&repo).unwrap();
    std::fs::write(repo.join("repo.sh"), "echo repository\n").unwrap();
    git(&repo, &["init", "--quiet"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "--quiet", "-m", "script"]);
    git(&repo, &["tag", "v1"]);
    web.put("/web.sh", "echo web\n");
    let put = |arguments: &[&str]| {
        let sign = ["-sSf", "--user", "test:test", "--aws-sigv4", "aws:amz:us-east-1:s3"];
        let all: Vec<&str> = sign.iter().chain(arguments).copied().collect();
        let output = program("curl", &all, &root());
        assert!(output.status.success(), "{}", shown(&output));
    };
    let object = place.path().join("object.sh");
    std::fs::write(&object, "echo object\n").unwrap();
    put(&["-X", "PUT", &format!("{endpoint}/path")]);
    put(&["-T", object.to_str().unwrap(), &format!("{endpoint}/path/to/your/script.sh")]);
    let sources = [
        (local.display().to_string(), "local"),
        (format!("{}/web.sh", web.address), "web"),
        ("s3://path/to/your/script.sh".to_owned(), "object"),
        (format!("git+file://{}@v1//repo.sh", repo.display()), "repository"),
    ];
    std::fs::create_dir_all(machine.path().join("plugins/ex2")).unwrap();
    machine.turn_on("ex2");
    for (source, word) in sources {
        let manifest =
            format!("name: ex2\ntype: shell-exec\nbehavior: async-bypass\nscript: \"{source}\"\n");
        machine.file("plugins/ex2/plugin.yaml", &manifest);
        assert!(machine.fails(&["render"]).contains("lock/unanswered"), "{source}");
        // What else a cluster fetches is not there: what could be fetched is kept.
        machine.fails(&["lock"]);
        assert!(machine.read("kaws.lock").contains(&format!("echo {word}")), "{source}");
        machine.fine(&["render"]);
        let script = machine.read("rendered/nodes/worker/bundle/opt/kaws/hooks/hook-after-ex2.ex2");
        assert_eq!(script, format!("#!/bin/sh\necho {word}\n"));
    }
    // A hash that is asked for is kept to.
    let manifest = format!(
        "name: ex2\ntype: shell-exec\nscript: \"{}\"\nsha256: '{}'\n",
        local.display(),
        "0".repeat(64)
    );
    machine.file("plugins/ex2/plugin.yaml", &manifest);
    let said = machine.fails(&["lock"]);
    assert!(said.contains("install/changed"), "{said}");
}

/// A plugin as the k3d issue describes it: one program, which tells of itself, keeps a registry, and reacts to clusters.
fn registry(port: &str) -> Vec<u8> {
    format!(
        r#"#!/bin/bash
case $KAWS_COMMAND in
  INFO)
    cat <<END
apiVersion: kaws/v1
name: registry
version: 1.0.0
description: Keeps a registry beside each cluster.
writes: [hooks.after-create, hooks.after-delete]
capabilities: {{network: ["http://127.0.0.1:{port}"]}}
commands: {{registry: {{description: Works with registries., exec: ./program}}}}
initialise:
  hooks:
    after-create: {{join: {{exec: ./program}}}}
    after-delete: {{leave: {{exec: ./program}}}}
END
    exit ;;
esac
ask() {{ exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET %s HTTP/1.0

' "$1" >&3 && cat <&3 >/dev/null; }}
case $KAWS_EVENT in
  after-create) ask "/create?$KAWS_CLUSTER;$KAWS_NETWORK;$KAWS_CONTROLLERS;$KAWS_WORKERS" ;;
  after-delete) ask "/delete?$KAWS_CLUSTER" ;;
  '') echo "$KAWS_CLUSTER: $*" && [ "$1" != fail ] ;;
esac
"#
    )
    .into_bytes()
}

#[test]
fn the_walk_of_the_k3d_issue_goes_through() {
    let web = Web::start();
    let machine = Machine::new(&web.address);
    let port = web.address.rsplit(':').next().unwrap();
    let program = registry(port);
    let names = ["registry-linux-amd64", "registry-linux-arm64"];
    let files: Vec<(&str, Vec<u8>)> = names.iter().map(|name| (*name, program.clone())).collect();
    web.release("acme/registry", "1.0.0", &files);
    // Downloads the latest release, stores it, asks it what it is, and registers its hooks.
    let said = machine.fine(&[
        "plugin",
        "install",
        "acme/registry",
        "--releases",
        &web.address,
        "--grant",
    ]);
    assert!(said.contains("registry 1.0.0 from acme/registry"), "{said}");
    assert!(said.contains("adds to    hooks.after-create, hooks.after-delete"), "{said}");
    machine.turn_on("registry");
    assert!(machine.fine(&["plugin", "list"]).contains("acme/registry"));
    // A new noun, with all flags and arguments; how it ends is how kaws ends.
    assert_eq!(
        machine.fine(&["registry", "create", "--port", "5000", "-v"]),
        "minimal: create --port 5000 -v\n"
    );
    assert_eq!(machine.kaws(&["registry", "fail"]).status.code(), Some(1));
    // It reacts to clusters, and takes what it left away with them.
    web.paths.lock().unwrap().clear();
    let up = machine.fine(&["up", "--cloud", "local", "--yes"]);
    assert!(up.contains("✔ after-create    registry/join"), "{up}");
    let destroyed = machine.fine(&["destroy", "--cloud", "local", "--yes"]);
    assert!(destroyed.contains("✔ after-delete    registry/leave"), "{destroyed}");
    let asked = web.paths.lock().unwrap().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].starts_with("/create?minimal;vpc=10."), "{asked:?}");
    assert!(asked[0].contains(";count=") && asked[0].contains("general="), "{asked:?}");
    assert_eq!(asked[1], "/delete?minimal");
}
