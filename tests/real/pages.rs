//! Follows pages of the docs: writes their files, runs their commands in a shell, and compares what they
//! show with what is printed. `KAWS_UPDATE=1` writes that into the page.
//!
//! Comments that readers do not see say what to do: `<!-- write PATH -->` and `<!-- append PATH -->` take
//! the next block as a file, `<!-- $ COMMAND -->` does what the text asks for in words.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{KAWS, root};

/// Somebody who reads a page, and does what it says.
struct Reader {
    home: tempfile::TempDir,
    at: PathBuf,
    exit: i32,
    /// The warning that comes with every run is shown once.
    warned: bool,
}

impl Reader {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join("work");
        std::fs::create_dir(&at).unwrap();
        Self { home, at, exit: 0, warned: false }
    }

    /// Runs a command as it is typed, and returns what it prints.
    fn types(&mut self, command: &str) -> String {
        if let Some(folder) = command.strip_prefix("cd ") {
            self.at = self.at.join(folder);
            return String::new();
        }
        let bin = Path::new(KAWS).parent().unwrap().display();
        let output = Command::new("sh")
            .args(["-c", &format!("(exit {}); {command}", self.exit)])
            .current_dir(&self.at)
            .env_clear()
            .env("PATH", format!("{bin}:/usr/bin:/bin"))
            .env("HOME", self.home.path())
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "reader")
            .env("GIT_AUTHOR_EMAIL", "reader@acme.example")
            .env("GIT_COMMITTER_NAME", "reader")
            .env("GIT_COMMITTER_EMAIL", "reader@acme.example")
            .output()
            .unwrap();
        self.exit = output.status.code().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        if !command.starts_with("kaws ") {
            assert!(
                output.status.success(),
                "{command}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return out;
        }
        let findings = String::from_utf8(output.stderr).unwrap();
        findings
            .split_inclusive("\n\n")
            .filter(|f| {
                !f.starts_with("warning[lock/unresolved]")
                    || !std::mem::replace(&mut self.warned, true)
            })
            .collect::<String>()
            + &out
    }

    /// Types the commands of a block, and returns the block as it should be.
    fn screen(&mut self, block: &str) -> String {
        let mut shown = String::new();
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(command) = line.strip_prefix("$ ") else { continue };
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                command = format!("{command}\n{}", lines.next().unwrap());
            }
            let _ = writeln!(shown, "$ {command}");
            for line in self.types(&command).lines() {
                let same = block.lines().find(|old| timeless(old) == timeless(line));
                let _ = writeln!(shown, "{}", same.unwrap_or(line));
            }
        }
        shown.truncate(shown.trim_end().len());
        shown + "\n"
    }

    fn file(&self, action: &str, path: &str, text: &str) {
        let path = self.at.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = match action {
            "append" => std::fs::read_to_string(&path).unwrap(),
            _ => String::new(),
        };
        std::fs::write(path, before + text).unwrap();
    }
}

/// Returns a line without how long something took.
fn timeless(line: &str) -> &str {
    match line.rsplit_once("  ") {
        Some((head, tail)) if tail.trim().ends_with(" ms") || tail.trim().ends_with(" s") => {
            head.trim_end()
        }
        _ => line,
    }
}

/// Follows a page, and returns it as it should be.
fn followed(text: &str) -> String {
    let mut reader = Reader::new();
    let mut out = String::new();
    let mut marker: Option<&str> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(out, "{line}");
        if let Some(comment) = line.strip_prefix("<!-- ").and_then(|l| l.strip_suffix(" -->")) {
            match comment.strip_prefix("$ ") {
                Some(command) => assert_eq!(reader.types(command), "", "{command}"),
                None => marker = Some(comment),
            }
        }
        if !line.starts_with("```") {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
        let block = block.join("\n") + "\n";
        match marker.take().and_then(|m| m.split_once(' ')) {
            Some((action, path)) => {
                reader.file(action, path, &block);
                out += &block;
            }
            None if line == "```text" => out += &reader.screen(&block),
            None => out += &block,
        }
        out += "```\n";
    }
    out
}

#[test]
fn pages_show_what_is_printed() {
    let how_to = [
        "check-a-cluster.md",
        "many-clusters.md",
        "patch-something.md",
        "plan-in-a-pipeline.md",
        "recover-a-stuck-stack.md",
        "roll-machines.md",
        "upgrade-kubernetes.md",
        "write-a-program.md",
    ];
    let how_to = how_to.map(|page| format!("how-to/{page}"));
    let first = ["tutorial.md", "first-plugin.md"].map(str::to_owned);
    for name in first.into_iter().chain(how_to) {
        let path = root().join("docs").join(&name);
        let text = std::fs::read_to_string(&path).unwrap();
        let new = followed(&text);
        if std::env::var_os("KAWS_UPDATE").is_some() {
            std::fs::write(&path, &new).unwrap();
            continue;
        }
        for (number, (old, new)) in text.lines().zip(new.lines()).enumerate() {
            let place = format!("docs/{name}:{}", number + 1);
            assert_eq!(old, new, "{place}; look at it, then: KAWS_UPDATE=1 cargo test --test real");
        }
        assert_eq!(text.lines().count(), new.lines().count(), "{name} has more, or less");
    }
}
