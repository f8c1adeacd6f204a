//! Plugins of git repositories: git itself fetches one commit, and hands it over as an archive. Nothing is checked out, so
//! no hook, no submodule and no link of the repository does anything here.

#![expect(clippy::disallowed_methods, reason = "git is a program")]

use std::path::Path;
use std::process::{Command, Stdio};

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

    /// Returns a folder's files, as a tar.
    ///
    /// # Errors
    /// What git says.
    pub(super) fn tar(&self, folder: Option<&str>) -> Result<Vec<u8>, String> {
        let tree = folder.map_or_else(|| self.id.clone(), |folder| format!("{}:{folder}", self.id));
        git(self.place.path(), &["archive", "--format=tar", &tree])
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
    let mut command = Command::new("git");
    command.current_dir(place).args(arguments).stdin(Stdio::null());
    // Nothing but these, whatever an address is told to lead to; and nobody is asked for a password.
    command.env("GIT_ALLOW_PROTOCOL", "https:ssh:file").env("GIT_TERMINAL_PROMPT", "0");
    // Variables of the repository that kaws itself may have been called in.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    let output = command.output().map_err(|error| format!("git cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("git {}: {said}", arguments.first().copied().unwrap_or_default()))
}
