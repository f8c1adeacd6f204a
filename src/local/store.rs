//! The folder: files that are written whole or not at all, and one lock around everything.

#![expect(clippy::disallowed_methods, reason = "the local cloud is a folder")]

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::port::{Answer, CloudError, ErrorKind};

/// The folder of a local cloud.
#[derive(Clone, Debug)]
pub(super) struct Store {
    folder: PathBuf,
}

/// The right to change the folder; given back when it is dropped, by the system if need be.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "its lock lasts as long as it")] std::fs::File);

fn failed(path: &Path, error: &std::io::Error) -> CloudError {
    let text = format!("{}: {error}", path.display());
    CloudError::new("the local cloud", ErrorKind::Unavailable, text)
}

impl Store {
    /// Returns the store below `folder`, which need not be there.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Waits for the right to change something.
    pub(super) fn hold(&self) -> Answer<Held> {
        let path = self.folder.join("lock");
        let hold = || {
            std::fs::create_dir_all(&self.folder)?;
            let file = std::fs::File::options().create(true).append(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        hold().map(Held).map_err(|error| failed(&path, &error))
    }

    /// Returns what a JSON file holds, if it is there.
    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> Answer<Option<T>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let path = self.folder.join(name);
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let text = format!("{} is not the local cloud's: {error}", path.display());
            CloudError::new("the local cloud", ErrorKind::Unavailable, text)
        })
    }

    /// Writes a JSON file.
    pub(super) fn write(&self, name: &str, value: &impl Serialize) -> Answer<()> {
        let bytes = serde_json::to_vec_pretty(value).expect("it is made of maps with text keys");
        self.put(name, &bytes)
    }

    /// Returns a file's bytes, if it is there.
    pub(super) fn bytes(&self, name: &str) -> Answer<Option<Vec<u8>>> {
        let path = self.folder.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    /// Writes a file aside and renames it.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Answer<()> {
        let path = self.folder.join(name);
        let aside = self.folder.join("aside");
        let put = || {
            std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            std::fs::write(&aside, bytes)?;
            std::fs::rename(&aside, &path)
        };
        put().map_err(|error| failed(&path, &error))
    }

    /// Writes a file that only its owner can read.
    pub(super) fn put_private(&self, name: &str, bytes: &[u8]) -> Answer<()> {
        use std::io::Write as _;
        let path = self.folder.join(name);
        let aside = self.folder.join(format!("{name}.new"));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let put = || {
            options.open(&aside)?.write_all(bytes)?;
            std::fs::rename(&aside, &path)
        };
        put().map_err(|error| failed(&path, &error))
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Answer<()> {
        let path = self.folder.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed(&path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the names of the files in a folder, sorted; none where it is missing.
    pub(super) fn names(&self, folder: &str) -> Answer<Vec<String>> {
        let path = self.folder.join(folder);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&path, &error)),
        };
        let mut names: Vec<String> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }
}
