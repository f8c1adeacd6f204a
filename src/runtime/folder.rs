//! A private copy of a plugin's folder: what its program is started from.

#![expect(clippy::disallowed_methods, reason = "programs are started from files")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::RwLock;

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
