//! One machine of a world: it boots from user data with systemd, and is looked at from outside.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::systemd::System;
use crate::world::{World, fine, ip, until};
use crate::{root, shown};

/// What a machine starts from.
#[derive(Clone)]
pub struct Seat {
    pub name: String,
    pub group: String,
    pub instance: String,
    pub zone: String,
    pub address: String,
    /// Its role, `stack/LogicalId`.
    pub role: String,
    pub user_data: String,
    /// What stands in its environment beside what was rendered: where AWS and the internet are.
    pub environment: BTreeMap<String, String>,
}

impl Seat {
    pub fn access_key(&self) -> String {
        format!("ASIA{}", self.name.to_uppercase().replace('-', ""))
    }
}

/// A machine that runs.
pub struct Machine {
    pub seat: Seat,
    pub folder: PathBuf,
    system: System,
    /// After the system: it is ended first.
    around: Surroundings,
}

/// What a machine has outside: its metadata, and the devices of its volumes.
struct Surroundings {
    metadata: Child,
    loops: Vec<String>,
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        let _ = self.metadata.kill();
        let _ = self.metadata.wait();
        for device in &self.loops {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

impl Machine {
    pub fn boot(world: &World, seat: Seat) -> Self {
        let folder = world.dir.path().join("machines").join(&seat.name);
        let _ = std::fs::remove_dir_all(&folder);
        let network = format!("{}-{}", world.network, seat.name);
        plug(world, &network, &seat.address);
        seed(world, &folder, &seat);
        let metadata = Command::new("ip")
            .args(["netns", "exec", &network, "python3"])
            .arg(root().join("tests/real/metadata.py"))
            .args(["169.254.169.254", &facts(&seat).to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        until(20, "the metadata service answers", || {
            let asked = Command::new("ip")
                .args(["netns", "exec", &network, "curl", "-s", "http://169.254.169.254/"])
                .output();
            asked.unwrap().status.success().then_some(())
        });
        let system = System::start(&folder, &network);
        let around = Surroundings { metadata, loops: Vec::new() };
        let machine = Self { seat, folder, system, around };
        machine.first_boot();
        machine
    }

    /// Does what cloud-init does on the first boot.
    fn first_boot(&self) {
        let config: Value = serde_yaml::from_str(&self.seat.user_data).unwrap();
        for command in config["runcmd"].as_array().unwrap() {
            let words: Vec<&str> =
                command.as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
            let output = self.run(&words);
            assert!(output.status.success(), "{words:?}\n{}", shown(&output));
        }
    }

    /// A command inside the machine, ready to run.
    pub fn command(&self, words: &[&str]) -> Command {
        self.system.command(words)
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    pub fn fine(&self, words: &[&str]) -> String {
        fine(&mut self.command(words))
    }

    /// Puts a file on the machine.
    pub fn write(&self, path: &str, text: &str) {
        use std::io::Write as _;
        let mut command = self.command(&["tee", path]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{path}");
    }

    /// What its journal says, for when a test fails.
    pub fn journal(&self) -> String {
        let said = shown(&self.run(&["journalctl", "--no-pager", "--output", "cat"]));
        // etcd says so much that nothing else would be seen.
        let lines: Vec<&str> = said.lines().filter(|l| !l.starts_with("{\"level\"")).collect();
        lines[lines.len().saturating_sub(80)..].join("\n")
    }

    /// A file of the machine that it has written or been given.
    pub fn file(&self, path: &str) -> PathBuf {
        self.folder.join("files").join(path.trim_start_matches('/'))
    }

    pub fn read(&self, path: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.file(path)).unwrap()).into_owned()
    }

    /// Waits until the machine has signalled; returns how.
    pub fn signalled(&self, world: &World, seconds: u64) -> String {
        let start = std::time::Instant::now();
        loop {
            if let Some(signal) = world.signals(&self.seat.instance).last() {
                return signal.clone();
            }
            assert!(
                start.elapsed() < Duration::from_secs(seconds),
                "{} did not signal in {seconds} s; it reports {:?}\n{}",
                self.seat.name,
                world.report(&self.seat.group, &self.seat.instance),
                self.journal()
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Waits until the machine signals that it is healthy.
    pub fn comes_up(&self, world: &World, seconds: u64) {
        let signal = self.signalled(world, seconds);
        let report = world.report(&self.seat.group, &self.seat.instance);
        assert_eq!(signal, "SUCCESS", "{report:#?}\n{}", self.journal());
    }

    /// Waits until the machine asks for its volume, and gives it one: a file of the world.
    pub fn attach(&mut self, world: &World, volume: &Path) {
        let key = self.seat.access_key();
        let call = until(60, "the machine asks for its volume", || {
            let calls = world.ask("GET", "/mock/calls", &Value::Null);
            let asked = |c: &&Value| c["action"] == "AttachVolume" && c["by"] == key.as_str();
            calls.as_array().unwrap().iter().find(asked).cloned()
        });
        if !volume.exists() {
            fine(Command::new("truncate").args(["-s", "1G"]).arg(volume));
        }
        let device = fine(Command::new("losetup").args(["-f", "--show"]).arg(volume));
        let device = device.trim().to_owned();
        let minor = device.trim_start_matches("/dev/loop").to_owned();
        self.around.loops.push(device);
        let id = call["parameters"]["VolumeId"].as_str().unwrap().replace('-', "");
        let link = format!("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{id}");
        self.fine(&["mknod", "/dev/xvdf", "b", "7", &minor]);
        self.fine(&["ln", "-s", "/dev/xvdf", &link]);
    }

    /// Takes the machine away; its folder stays.
    pub fn stop(self) {
        drop(self);
    }
}

/// Connects a machine to the network of the world.
fn plug(world: &World, network: &str, address: &str) {
    let _ = Command::new("ip").args(["netns", "delete", network]).stderr(Stdio::null()).status();
    ip(&["netns", "add", network]);
    let host = address.rsplit('.').next().unwrap();
    let here = format!("v{host}");
    let _ = Command::new("ip")
        .args(["-n", &world.network, "link", "delete", &here])
        .stderr(Stdio::null())
        .status();
    ip(&[
        "-n",
        &world.network,
        "link",
        "add",
        &here,
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        network,
    ]);
    ip(&["-n", &world.network, "link", "set", &here, "master", "br0", "up"]);
    ip(&["-n", network, "link", "set", "lo", "up"]);
    ip(&["-n", network, "addr", "add", "169.254.169.254/32", "dev", "lo"]);
    ip(&["-n", network, "addr", "add", &format!("{address}/16"), "dev", "eth0"]);
    ip(&["-n", network, "link", "set", "eth0", "up"]);
    ip(&["-n", network, "route", "add", "default", "via", crate::world::OUTSIDE]);
}

/// Writes what the machine has before it boots: the files of its user data, and where the world is.
fn seed(world: &World, folder: &Path, seat: &Seat) {
    let put = |path: &str, text: &[u8], mode: u32| {
        let full = folder.join("files").join(path.trim_start_matches('/'));
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(&full, text).unwrap();
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let config: Value = serde_yaml::from_str(&seat.user_data).unwrap();
    for file in config["write_files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let mut text = file["content"].as_str().unwrap().to_owned();
        if path == "/etc/kaws/node.env" {
            for (key, value) in &seat.environment {
                text = text
                    .lines()
                    .filter(|l| !l.starts_with(&format!("{key}=")))
                    .map(|l| format!("{l}\n"))
                    .collect();
                text.push_str(&format!("{key}={value}\n"));
            }
        }
        let mode = u32::from_str_radix(file["permissions"].as_str().unwrap(), 8).unwrap();
        put(path, text.as_bytes(), mode);
    }
    let authority = std::fs::read(world.dir.path().join("internet/ca.crt")).unwrap();
    put("/etc/kaws-tests/ca.crt", &authority, 0o644);
    let programs = crate::world::kubernetes().0;
    put("/etc/kaws-tests/programs", programs.to_str().unwrap().as_bytes(), 0o644);
    put("/etc/hosts", world.hosts(5).as_bytes(), 0o644);
}

fn facts(seat: &Seat) -> Value {
    let credentials = json!({"Code": "Success", "AccessKeyId": seat.access_key(), "SecretAccessKey": "secret/of+it",
        "Token": "token-of-it", "Type": "AWS-HMAC"});
    json!({
        "meta-data/instance-id": seat.instance,
        "meta-data/placement/availability-zone": seat.zone,
        "meta-data/local-ipv4": seat.address,
        "meta-data/iam/security-credentials/": "the-role",
        "meta-data/iam/security-credentials/the-role": format!("{credentials:#}"),
    })
}
