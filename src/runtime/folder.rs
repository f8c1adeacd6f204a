//! Folders that programs are run with: a private copy of the plugin's, and an empty one for each call.

#![expect(clippy::disallowed_methods, reason = "programs are started from files")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::Failure;
use crate::plugin::Package;

/// While a program is being written nothing is started: whoever is started in between would hold it open, and an open
/// program cannot be run.
pub(super) static WRITING: RwLock<()> = RwLock::new(());

/// The copy; it goes away with this value.
#[derive(Debug)]
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    /// Writes the files of a package.
    pub(super) fn write(package: &Package) -> Result<Self, Failure> {
        let _nobody_starts = WRITING.write();
        let folder = tempfile::Builder::new().prefix("kaws-plugin-").tempdir()?;
        let manifest = package.node.origin.file().text.as_bytes();
        let files = package.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_ref()));
        for (name, bytes) in std::iter::once(("plugin.yaml", manifest)).chain(files) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(&path, bytes)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o500))?;
        }
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The folder that those of calls are made in; it goes away with this value. One for all of them: making and removing a
/// folder for each is a tenth of what a call costs.
#[derive(Debug)]
pub(super) struct Places {
    folder: tempfile::TempDir,
    calls: AtomicU64,
}

impl Places {
    pub(super) fn new() -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kaws-calls-").tempdir()?;
        Ok(Self { folder, calls: AtomicU64::new(0) })
    }
}

/// The place of one call: a folder for its program to write to, and beside it what is said about the call. It goes away
/// with this value.
#[derive(Debug)]
pub(super) struct Place {
    /// The folder.
    pub(super) work: PathBuf,
    _places: Arc<Places>,
}

impl Place {
    pub(super) fn new(places: Arc<Places>) -> std::io::Result<Self> {
        let call = places.calls.fetch_add(1, Ordering::Relaxed);
        let work = places.folder.path().join(call.to_string());
        fs::create_dir(&work)?;
        Ok(Self { work, _places: places })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.work);
        for file in [report_file(&self.work), stop_file(&self.work)] {
            let _ = fs::remove_file(file);
        }
    }
}

/// Where the supervisor of a call says how it went.
pub(super) fn report_file(work: &Path) -> PathBuf {
    work.with_extension("report")
}

/// When this is there, the program of a call is to be stopped.
pub(super) fn stop_file(work: &Path) -> PathBuf {
    work.with_extension("stop")
}
