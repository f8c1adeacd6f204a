//! Archives of plugins that somebody made to do harm, or that are broken: each is refused with a finding, and nothing is
//! written outside the temporary folder.

use std::io::{Cursor, Write as _};
use std::path::Path;
use std::process::{Command, Output};

use kaws::value::sha256;
use minisign::KeyPair;

use crate::support::{Cluster, files_below};

const MANIFEST: &str = "apiVersion: kaws/v1\nname: motd\nversion: 1.2.0\ndescription: greets\nnodes: [worker]\n\
                        writes: [machines.nodes.files]\n\
                        initialise: {machines: {nodes: {files: {/etc/motd: {content: hello}}}}}\n";

/// A tar that is written byte by byte: no library in between that knows better.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn good() -> Self {
        Self::default().file("plugin.yaml", MANIFEST)
    }

    fn entry(mut self, name: &[u8], kind: u8, link: &str, size: usize, bytes: &[u8]) -> Self {
        let mut header = [0_u8; 512];
        header[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
        header[100..108].copy_from_slice(b"0007777\0");
        header[108..116].copy_from_slice(b"0000000\0");
        header[116..124].copy_from_slice(b"0000000\0");
        header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[156] = kind;
        header[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        self.entry(name.as_bytes(), b'0', "", text.len(), text.as_bytes())
    }

    /// A name of any length and any bytes, in the way of POSIX.
    fn long(self, name: &str, text: &str) -> Self {
        let rest = format!(" path={name}\n");
        let length = (rest.len()..).find(|n| n.to_string().len() + rest.len() == *n).unwrap();
        let record = format!("{length}{rest}");
        self.entry(b"pax", b'x', "", record.len(), record.as_bytes()).file("short", text)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn zip_with_link() -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let plain = zip::write::SimpleFileOptions::default;
    writer.start_file("plugin.yaml", plain()).unwrap();
    writer.write_all(MANIFEST.as_bytes()).unwrap();
    writer.add_symlink("etc", "/etc", plain()).unwrap();
    writer.finish().unwrap().into_inner()
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from) {
        at += found;
        bytes[at..at + from.len()].copy_from_slice(to);
    }
    bytes
}

fn manifest(from: &str, to: &str) -> Vec<u8> {
    Tar::default().file("plugin.yaml", &MANIFEST.replace(from, to)).end()
}

/// What it is, its bytes, and what is said.
type Hostile = (&'static str, Vec<u8>, &'static str);

/// Paths that lead elsewhere, or that not every file system takes.
fn of_paths() -> Vec<Hostile> {
    let with = |name: &str| Tar::good().file(name, "x").end();
    vec![
        ("climbing", with("../../evil"), "leads out"),
        ("climbing from within", with("a/../../evil"), "leads out"),
        ("climbing as its first part is a dot", with("./../evil"), "leads out"),
        ("absolute", with("/tmp/evil"), "no relative path"),
        ("absolute, as Windows has it", with("C:/evil"), "no relative path"),
        ("backslashes", with("..\\evil"), "no relative path"),
        ("a line break in a name", with("a\nb"), "not every file system"),
        (
            "a name that is no text",
            Tar::good().entry(b"a\xff", b'0', "", 1, b"x").end(),
            "no text in UTF-8",
        ),
        ("a name that reads backwards", with("a\u{202e}lmay.x"), "not every file system"),
        ("an escape sequence in a name", with("a\x1b[2Jb"), "not every file system"),
        ("a long path", Tar::good().long(&"a/".repeat(600), "x").end(), "over 1024"),
        ("a long name", Tar::good().long(&"a".repeat(300), "x").end(), "too long"),
        ("a name that ends in a dot", with("a."), "ends in a dot"),
        ("a path with a hole", with("a//b"), "no plain path"),
        ("deep folders", Tar::good().long(&"a/".repeat(40), "x").end(), "over 32"),
        ("climbing, by a long name", Tar::good().long("../../evil", "x").end(), "leads out"),
    ]
}

/// What is no plain file, or stands there twice.
fn of_kinds() -> Vec<Hostile> {
    let with = |name: &str| Tar::good().file(name, "x").end();
    let special = |kind: u8| Tar::good().entry(b"x", kind, "", 0, b"").end();
    let link = |kind: u8, to: &str| Tar::good().entry(b"x", kind, to, 0, b"").end();
    vec![
        ("a link", link(b'2', "/etc/passwd"), "`x` is a link"),
        ("a link inside", link(b'2', "plugin.yaml"), "`x` is a link"),
        ("a hard link", link(b'1', "/etc/passwd"), "`x` is a link"),
        (
            "a file through a link",
            Tar::good().entry(b"d", b'2', "/tmp", 0, b"").file("d/evil", "x").end(),
            "is a link",
        ),
        ("a character device", special(b'3'), "no plain file"),
        ("a block device", special(b'4'), "no plain file"),
        ("a pipe", special(b'6'), "no plain file"),
        ("a sparse file", special(b'S'), "sparse entry"),
        ("a second manifest", Tar::good().file("plugin.yaml", "x").end(), "is there twice"),
        (
            "a second manifest, by another spelling",
            Tar::good().file("./plugin.yaml", "x").end(),
            "is there twice",
        ),
        ("capitals", Tar::good().file("README", "x").file("ReadMe", "y").end(), "capitals alone"),
        (
            "capitals of folders",
            Tar::good().file("bin/a", "x").file("Bin/b", "y").end(),
            "capitals alone",
        ),
        ("capitals of the manifest", with("Plugin.yaml"), "capitals alone"),
        (
            "a file that is a folder",
            Tar::good().file("a", "x").file("a/b", "y").end(),
            "both a file and a folder",
        ),
        (
            "a folder that is a file",
            Tar::good().file("a/b", "x").file("a", "y").end(),
            "`a` is there twice",
        ),
    ]
}

/// What unpacks to far more than it should.
fn of_sizes() -> Vec<Hostile> {
    let zeros = "\0".repeat(6 << 20);
    let many = (0..2_001).fold(Tar::good(), |tar, i| tar.file(&format!("f{i}"), ""));
    let entries = (0..20_001)
        .fold(Tar::good(), |tar, i| tar.entry(format!("f{i}/").as_bytes(), b'5', "", 0, b""));
    vec![
        ("a bomb", gzip(&Tar::good().file("zeros", &zeros).end()), "far more than it should"),
        ("many files", many.end(), "over 2000 files"),
        ("many folders", gzip(&entries.end()), "over 20000 entries"),
    ]
}

/// Archives without a manifest, and manifests that say what they may not.
fn of_manifests() -> Vec<Hostile> {
    vec![
        ("no manifest", Tar::default().file("README", "x").end(), "no plugin.yaml"),
        ("nothing at all", Tar::default().entry(b"a/", b'5', "", 0, b"").end(), "no plugin.yaml"),
        (
            "a manifest that is hidden",
            Tar::default().file("a/plugin.yaml", MANIFEST).file("b", "x").end(),
            "other files are beside",
        ),
        ("a name that climbs", manifest("name: motd", "name: ../../motd"), "plugin/pattern"),
        ("a name that is a path", manifest("name: motd", "name: /tmp/motd"), "plugin/pattern"),
        ("a version that climbs", manifest("1.2.0", "1.2.0/../../x"), "plugin/pattern"),
        (
            "the name of a part of kaws",
            manifest("name: motd", "name: api-server"),
            "there is a plugin api-server",
        ),
        (
            "a manifest that says no place",
            manifest("writes: [machines.nodes.files]\n", ""),
            "does not say where it writes",
        ),
        ("a manifest that is a bomb", Tar::default().file("plugin.yaml", &bomb()).end(), "yaml/"),
        (
            "a manifest that is no text",
            Tar::default().entry(b"plugin.yaml", b'0', "", 2, b"\xff\xfe").end(),
            "not text in UTF-8",
        ),
    ]
}

/// What is broken, or no archive at all.
fn of_formats() -> Vec<Hostile> {
    let good = || gzip(&Tar::good().end());
    let mut broken = good();
    let length = broken.len();
    broken[length - 6] ^= 0xff;
    vec![
        (
            "a bomb in a zip",
            zip(&[("plugin.yaml", MANIFEST.as_bytes()), ("zeros", &vec![0; 6 << 20])]),
            "too large",
        ),
        ("half of it", good()[..length / 2].to_vec(), "cannot be unpacked"),
        ("a wrong checksum", broken, "broken"),
        ("half a file", Tar::good().entry(b"x", b'0', "", 4_000, b"xx").0, "`x` has"),
        ("a huge size", Tar::good().entry(b"x", b'0', "", 0o7_777_777_777, b"xx").0, "`x` has"),
        (
            "climbing, in a zip",
            zip(&[("plugin.yaml", MANIFEST.as_bytes()), ("../evil", b"x")]),
            "leads out",
        ),
        ("a link in a zip", zip_with_link(), "`etc` is a link"),
        (
            "twice in a zip",
            replaced(
                &zip(&[("plugin.yaml", MANIFEST.as_bytes()), ("plugin.yamX", b"x")]),
                b"yamX",
                b"yaml",
            ),
            "several entries of one name",
        ),
        ("half a zip", zip(&[("plugin.yaml", MANIFEST.as_bytes())])[..60].to_vec(), "broken"),
        ("a page of the web", b"<!doctype html><title>404</title>".to_vec(), "no archive"),
        ("another compression", b"\x28\xb5\x2f\xfd\x04\x00".to_vec(), "no archive"),
        ("nothing", Vec::new(), "no archive"),
    ]
}

/// What is refused by itself.
fn hostile() -> Vec<Hostile> {
    [of_paths(), of_kinds(), of_sizes(), of_manifests(), of_formats()].concat()
}

/// A thousand million laughs.
fn bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..10 {
        let all = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{all}]\n"));
    }
    text
}

/// A cluster, a place for installed plugins, and a temporary folder of its own.
struct World {
    cluster: Cluster,
    home: tempfile::TempDir,
}

impl World {
    fn new(more: &str) -> Self {
        Self { cluster: Cluster::small(more), home: tempfile::tempdir().unwrap() }
    }

    fn install(&self, source: &str) -> Output {
        self.kaws(&["plugin", "install", source])
    }

    fn kaws(&self, words: &[&str]) -> Output {
        std::fs::create_dir_all(self.home.path().join("tmp")).unwrap();
        Command::new(env!("CARGO_BIN_EXE_kaws"))
            .current_dir(self.cluster.path())
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path().join("tmp"))
            .output()
            .unwrap()
    }

    /// All files and their hashes, but those of the temporary folder.
    fn state(&self) -> Vec<String> {
        let roots = [self.cluster.path(), self.home.path()];
        let all = roots.iter().flat_map(|root| files_below(root));
        let kept = all.filter(|path| !path.starts_with(self.home.path().join("tmp")));
        kept.map(|path| format!("{} {}", path.display(), sha256(&std::fs::read(&path).unwrap())))
            .collect()
    }

    /// Asks for something that must be refused.
    fn refused(&self, what: &str, expected: &str) -> Result<(), String> {
        let before = self.state();
        let output = self.install("./motd.tar.gz");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let wrong = |why: &str| Err(format!("{what}: {why}\n{said}"));
        if output.status.code() != Some(1) {
            return wrong(&format!("it ended with {:?}", output.status));
        }
        if !said.contains(expected) {
            return wrong(&format!("it does not say `{expected}`"));
        }
        if said.contains('\x1b') || said.contains('\u{202e}') {
            return wrong("what it says has characters of the archive that do something");
        }
        if self.state() != before {
            return wrong("files have changed");
        }
        Ok(())
    }
}

#[test]
fn every_hostile_archive_is_refused_before_anything_is_written() {
    let all = hostile();
    assert!(all.len() >= 30);
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|(what, bytes, expected)| {
            let world = World::new("");
            world.cluster.file("motd.tar.gz", bytes);
            world.refused(what, expected).err()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(!Path::new("/tmp/evil").exists());
}

#[test]
fn a_good_archive_is_installed_and_used() {
    for bytes in [
        gzip(&Tar::good().end()),
        Tar::good().end(),
        zip(&[("plugin.yaml", MANIFEST.as_bytes())]),
        gzip(
            &Tar::default()
                .file("motd-1.2.0/plugin.yaml", MANIFEST)
                .file("motd-1.2.0/.github/x", "x")
                .end(),
        ),
    ] {
        let world = World::new("plugins:\n  motd: {}\n");
        world.cluster.file("motd.tar.gz", bytes);
        let output = world.install("./motd.tar.gz");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut options = world.cluster.options();
        options.store = Some(world.home.path().join(".local/share/kaws/plugins"));
        let run = kaws::run::render(&options).unwrap().value.unwrap();
        assert!(run.rendered.artifacts.keys().any(|path| path.ends_with("bundle/etc/motd")));
    }
}

#[test]
fn what_was_installed_and_then_changed_does_not_run() {
    let world = World::new("plugins:\n  motd: {}\n");
    world.cluster.file("motd.tar.gz", Tar::good().end());
    assert!(world.install("./motd.tar.gz").status.success());
    let store = world.home.path().join(".local/share/kaws/plugins");
    let manifest =
        files_below(&store).into_iter().find(|path| path.ends_with("plugin.yaml")).unwrap();
    std::fs::write(&manifest, MANIFEST.replace("hello", "evil")).unwrap();
    let mut options = world.cluster.options();
    options.store = Some(store.clone());
    let outcome = kaws::run::render(&options).unwrap();
    assert!(outcome.value.is_none());
    assert!(outcome.findings.iter().any(|f| f.code == "lock/plugin-changed"));
    // The same command puts it back; where it is not there at all, that is said.
    std::fs::remove_dir_all(&store).unwrap();
    let outcome = kaws::run::render(&options).unwrap();
    assert!(outcome.findings.iter().any(|f| f.code == "plugin/not-installed"));
    assert!(world.install("./motd.tar.gz").status.success());
    assert!(kaws::run::render(&options).unwrap().value.is_some());
}

#[test]
fn a_version_that_was_locked_stays_what_it_was() {
    let world = World::new("");
    world.cluster.file("motd.tar.gz", Tar::good().end());
    assert!(world.install("./motd.tar.gz").status.success());
    world.cluster.file("motd.tar.gz", manifest("hello", "evil"));
    world
        .refused("other bytes of the same version", "is not the 1.2.0 that kaws.lock recorded")
        .unwrap();
    world.cluster.file("motd.tar.gz", manifest("1.2.0", "1.3.0"));
    assert!(world.install("./motd.tar.gz").status.success());
}

fn signed(keys: &KeyPair, bytes: &[u8]) -> Vec<u8> {
    let signature = minisign::sign(Some(&keys.pk), &keys.sk, bytes, None, None).unwrap();
    signature.into_string().into_bytes()
}

#[test]
fn signatures_count_where_the_cluster_asks_for_them() {
    let (acme, other) = (
        KeyPair::generate_unencrypted_keypair().unwrap(),
        KeyPair::generate_unencrypted_keypair().unwrap(),
    );
    let keys = format!("signatures: {{keys: {{acme: {}}}}}\n", acme.pk.to_base64());
    let bytes = Tar::good().end();
    let cases: [(&str, Option<Vec<u8>>, &str); 4] = [
        ("without a signature", None, "is not signed"),
        ("signed by somebody else", Some(signed(&other, &bytes)), "by none of the keys"),
        ("a signature of something else", Some(signed(&acme, b"other")), "by none of the keys"),
        ("a signature that is none", Some(b"signed, me".to_vec()), "none of minisign's"),
    ];
    for (what, signature, expected) in cases {
        let world = World::new(&keys);
        world.cluster.file("motd.tar.gz", &bytes);
        if let Some(signature) = signature {
            world.cluster.file("motd.tar.gz.minisig", signature);
        }
        world.refused(what, expected).unwrap();
    }
    let world = World::new(&keys);
    world.cluster.file("motd.tar.gz", &bytes).file("motd.tar.gz.minisig", signed(&acme, &bytes));
    let output = world.install("./motd.tar.gz");
    assert!(String::from_utf8_lossy(&output.stdout).contains("signed by  acme"), "{output:?}");
    let locked = std::fs::read_to_string(world.cluster.path().join("kaws.lock")).unwrap();
    assert!(locked.contains("signer: acme"), "{locked}");
    // A key that is not asked for any more: what was signed stays signed.
    let text = std::fs::read_to_string(world.cluster.path().join("cluster.yaml")).unwrap();
    world.cluster.file("cluster.yaml", text.replace("}}\n", "}, required: false}\n"));
    let newer = manifest("1.2.0", "1.3.0");
    world.cluster.file("motd.tar.gz", &newer);
    std::fs::remove_file(world.cluster.path().join("motd.tar.gz.minisig")).unwrap();
    world
        .refused("no signature, where there was one", "the one before was signed by acme")
        .unwrap();
}

/// What a lock of somebody else's could say, to whoever sets a machine up with it.
#[test]
fn a_hostile_lock_installs_nothing() {
    let archive = Tar::good().end();
    let hash = sha256(&archive);
    let zeros = "0".repeat(64);
    let entry = |name: &str, url: &str, tree: &str| {
        format!(
            "kaws: 0.1.0\nplugins: {{'{name}': {{version: 1.2.0, sha256: '{tree}', source: {{from: ./motd.tar.gz, archives: {{any: {{url: '{url}', sha256: '{hash}', tree: '{tree}'}}}}}}}}}}\n"
        )
    };
    for (what, lock, expected) in [
        ("a name that climbs", entry("../../motd", "./motd.tar.gz", &zeros), "../../motd"),
        ("an absolute name", entry("/tmp/motd", "./motd.tar.gz", &zeros), "/tmp/motd"),
        ("another plugin's name", entry("other", "./motd.tar.gz", &zeros), "its name is motd now"),
        ("other files", entry("motd", "./motd.tar.gz", &zeros), "its files hash to"),
        ("a device", entry("motd", "/dev/zero", &zeros), "not a file"),
    ] {
        let world = World::new("");
        world.cluster.file("motd.tar.gz", &archive).file("kaws.lock", lock);
        std::fs::create_dir_all(world.home.path().join("tmp")).unwrap();
        let before = world.state();
        let output = world.kaws(&["plugin", "install"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        assert!(said.contains(expected), "{what}: {said}");
        assert_eq!(world.state(), before, "{what}");
    }
}

#[test]
fn an_installed_plugin_counts_where_the_cluster_names_it_and_keys_are_kept_to() {
    let world = World::new("");
    world.cluster.file("motd.tar.gz", manifest("name: motd", "name: policy\nreplaces: policy"));
    assert!(world.install("./motd.tar.gz").status.success());
    let render = || {
        let mut options = world.cluster.options();
        options.store = Some(world.home.path().join(".local/share/kaws/plugins"));
        kaws::run::render(&options).unwrap()
    };
    let motd =
        |run: &kaws::run::Run| run.rendered.artifacts.keys().any(|path| path.ends_with("etc/motd"));
    assert!(!motd(&render().value.unwrap()), "nobody has turned it on");
    let text = std::fs::read_to_string(world.cluster.path().join("cluster.yaml")).unwrap();
    world.cluster.file("cluster.yaml", format!("{text}plugins: {{policy: {{}}}}\n"));
    assert!(motd(&render().value.unwrap()));
    // Where it is not on this machine, the built-in is not what was meant.
    std::fs::remove_dir_all(world.home.path().join(".local")).unwrap();
    assert!(render().findings.iter().any(|f| f.code == "plugin/not-installed"));
    assert!(world.install("./motd.tar.gz").status.success());
    let key = KeyPair::generate_unencrypted_keypair().unwrap().pk.to_base64();
    world.cluster.file(
        "cluster.yaml",
        format!("{text}plugins: {{policy: {{}}}}\nsignatures: {{keys: {{acme: {key}}}}}\n"),
    );
    assert!(render().findings.iter().any(|f| f.code == "install/signature"));
}
