//! Where installed plugins lie on this machine: by name and hash, for all clusters.

#![expect(clippy::disallowed_methods, reason = "the one place that writes installed plugins")]

use std::fs;
use std::path::{Path, PathBuf};

use super::archive::Tree;

/// The folder of all installed plugins.
#[derive(Clone, Debug)]
pub struct Store(pub PathBuf);

impl Store {
    /// Returns where a plugin lies, if it is there; its files are read and compared before any of them is used.
    #[must_use]
    pub fn folder(&self, name: &str, sha256: &str) -> PathBuf {
        crate::load::installed(&self.0, name, sha256)
    }

    /// Puts a plugin there: written aside, and renamed when it is whole.
    ///
    /// # Errors
    /// I/O errors; nothing is half there then.
    pub fn put(&self, name: &str, sha256: &str, tree: &Tree) -> std::io::Result<PathBuf> {
        let folder = self.folder(name, sha256);
        let versions = self.0.join(name);
        fs::create_dir_all(&versions)?;
        let aside = tempfile::Builder::new().prefix(".aside-").tempdir_in(&versions)?;
        let inner = aside.path().join(sha256);
        for (path, bytes) in tree {
            let path = inner.join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
            fs::write(&path, bytes)?;
        }
        let place = versions.join(sha256);
        if place.exists() {
            // Somebody changed what was there, or it is the same: either way it is now what was checked.
            fs::rename(&place, aside.path().join("before"))?;
        }
        fs::rename(aside.path().join(sha256), &place)?;
        Ok(folder)
    }
}
