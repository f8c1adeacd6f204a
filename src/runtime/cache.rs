//! Answers of programs that were given before: the same program asked the same is not run again.
//!
//! An answer is kept under the hash of the plugin's folder and of the whole request. Only initialise and render are
//! asked so: they are pure. Whatever is wrong with the folder of answers, the program is run.

#![expect(clippy::disallowed_methods, reason = "answers are kept in files")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::plugin::Package;
use crate::plugin::contract::{Request, Response};
use crate::value::sha256;

/// How many answers are kept.
const KEPT: usize = 1_000;

/// Where one answer is kept.
pub(super) struct Entry(PathBuf);

impl Entry {
    /// Returns the place of the answer to a request, whose shared parts are told by their hashes.
    pub(super) fn of<'h>(
        dir: &Path,
        package: &Package,
        request: &Request<'_>,
        hashes: impl Iterator<Item = &'h str>,
    ) -> Self {
        let mut all = package.hash().as_bytes().to_vec();
        hashes.for_each(|hash| all.extend_from_slice(hash.as_bytes()));
        serde_json::to_writer(&mut all, request).expect("requests are JSON");
        Self(dir.join("answers").join(sha256(&all)))
    }

    /// Returns the answer, if it is there and whole.
    pub(super) fn read(&self) -> Option<Response> {
        let bytes = fs::read(&self.0).ok()?;
        let (hash, answer) = bytes.split_at_checked(64)?;
        (sha256(answer).as_bytes() == hash).then(|| Response::read(answer).ok())?
    }

    /// Keeps an answer.
    pub(super) fn write(&self, answer: &[u8]) {
        let Some(dir) = self.0.parent() else { return };
        let written = || -> std::io::Result<()> {
            fs::create_dir_all(dir)?;
            let mut aside = tempfile::NamedTempFile::new_in(dir)?;
            aside.write_all(sha256(answer).as_bytes())?;
            aside.write_all(answer)?;
            aside.persist(&self.0)?;
            Ok(())
        };
        if written().is_ok() {
            forget_oldest(dir);
        }
    }
}

fn forget_oldest(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let dated = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut all: Vec<_> = entries.flatten().filter_map(dated).collect();
    if all.len() <= KEPT {
        return;
    }
    all.sort();
    // A quarter at once, so that this is rare.
    for (_, path) in all.iter().take(all.len() - KEPT * 3 / 4) {
        let _ = fs::remove_file(path);
    }
}
