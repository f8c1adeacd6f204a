//! A real systemd, alone in its own namespaces: what machines of the tests run in.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::root;
use crate::world::until;

/// A system that runs.
pub struct System {
    folder: PathBuf,
    network: String,
    shell: Child,
    /// The process that is its first, as it is numbered here.
    pub first: String,
}

impl System {
    /// Starts systemd on the files in `folder/files`, in a network that is there, and waits until it is up.
    pub fn start(folder: &Path, network: &str) -> Self {
        let shell = Command::new(root().join("tests/real/machine.sh"))
            .arg(folder)
            .arg(network)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let id = shell.id().to_string();
        let first = until(20, "the machine has a first process", || {
            let found = Command::new("pgrep").args(["-P", &id]).output().unwrap();
            let text = String::from_utf8_lossy(&found.stdout).trim().to_owned();
            let name = std::fs::read_to_string(format!("/proc/{text}/comm")).unwrap_or_default();
            (name.trim() == "systemd").then_some(text)
        });
        let system = Self { folder: folder.to_owned(), network: network.to_owned(), shell, first };
        until(30, "systemd is up", || {
            let output = system.command(&["systemctl", "is-system-running"]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            ["running", "degraded"].contains(&said.as_str()).then_some(())
        });
        system
    }

    /// A command inside, ready to run.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.first, "-m", "-p", "-n", "-C", "-i", "-u", "-r", "-w", "env", "-i"])
            .arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .args(words)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-9", &self.first]).status();
        let _ = self.shell.wait();
        let _ = Command::new("ip").args(["netns", "delete", &self.network]).status();
        if let Ok(group) = std::fs::read_to_string(self.folder.join("group")) {
            // Its inner groups are gone with it, but for their empty folders.
            let _ = Command::new("find")
                .args([group.trim(), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
                .stderr(Stdio::null())
                .status();
        }
    }
}
