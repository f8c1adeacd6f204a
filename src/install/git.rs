//! Plugins of git repositories: git itself fetches one commit, and hands over its files. Nothing is checked out, so no
//! hook, no filter, no submodule and no link of the repository does anything here.

#![expect(clippy::disallowed_methods, reason = "git is a program")]

use std::path::Path;
use std::process::{Command, Stdio};

use super::archive::Listed;

/// A commit of a repository, fetched.
#[derive(Debug)]
pub(super) struct Commit {
    place: tempfile::TempDir,
    /// Its id.
    pub(super) id: String,
}

impl Commit {
    /// Fetches a revision.
    ///
    /// # Errors
    /// What git says.
    pub(super) fn fetch(url: &str, revision: Option<&str>) -> Result<Self, String> {
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let git = |arguments: &[&str]| git(place.path(), arguments);
        let revision = revision.unwrap_or("HEAD");
        git(&["init", "--quiet", "--bare", "."])?;
        git(&["fetch", "--quiet", "--depth=1", "--no-tags", "--", url, revision])?;
        let id = git(&["rev-parse", "FETCH_HEAD^{commit}"])?;
        let id = String::from_utf8_lossy(&id).trim().to_owned();
        Ok(Self { place, id })
    }

    /// Returns all files of a folder, just as they were committed: no filter of anybody's configuration changes them.
    ///
    /// # Errors
    /// What git says; and links and submodules, by name.
    pub(super) fn files(&self, folder: Option<&str>) -> Result<Listed, String> {
        let tree = folder.map_or_else(|| self.id.clone(), |folder| format!("{}:{folder}", self.id));
        let place = self.place.path();
        let listed = git(place, &["ls-tree", "-r", "-z", "--full-tree", &tree])?;
        let (mut names, mut asked) = (Vec::new(), Vec::new());
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let tab = line.iter().position(|byte| *byte == b'\t').ok_or("git lists no names")?;
            let (head, name) = (String::from_utf8_lossy(&line[..tab]), &line[tab + 1..]);
            let words: Vec<&str> = head.split(' ').collect();
            let ["100644" | "100755", "blob", id] = words.as_slice() else {
                let name = String::from_utf8_lossy(name).escape_debug().to_string();
                return Err(format!("`{name}` is a link or a submodule"));
            };
            asked.extend_from_slice(format!("{id}\n").as_bytes());
            names.push(name.to_vec());
        }
        let said = git_with(place, &["cat-file", "--batch"], &asked)?;
        let mut rest = said.as_slice();
        let mut files = Vec::new();
        for name in names {
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or("git ends too early")?;
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let size = head.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
            let size = size.ok_or("git says no size")?;
            let bytes = rest.get(end + 1..end + 1 + size).ok_or("git ends too early")?;
            files.push((name, bytes.to_vec()));
            rest = rest.get(end + size + 2..).unwrap_or_default();
        }
        Ok(files)
    }

    /// Returns one file.
    ///
    /// # Errors
    /// What git says.
    pub(super) fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        git(self.place.path(), &["cat-file", "blob", &format!("{}:{path}", self.id)])
    }
}

fn git(place: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    git_with(place, arguments, b"")
}

fn git_with(place: &Path, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Write as _;
    let mut command = Command::new("git");
    command.current_dir(place).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Nothing but these, whatever an address is told to lead to; and nobody is asked for a password.
    command.env("GIT_ALLOW_PROTOCOL", "https:ssh:file").env("GIT_TERMINAL_PROMPT", "0");
    command.env("SSH_ASKPASS_REQUIRE", "never");
    // Variables of the repository that kaws itself may have been called in.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    let failed = |error: std::io::Error| format!("git cannot be run: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let to = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // Who answers while it is asked needs somebody who listens meanwhile.
        scope.spawn(move || to.map(|mut to| to.write_all(input)));
        child.wait_with_output()
    });
    let output = output.map_err(failed)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("git {}: {said}", arguments.first().copied().unwrap_or_default()))
}
