//! Commands of plugins, ready to be run by whoever typed their name: as that user, with that user's terminal.
//!
//! No sandbox: a command does what its user may. What is run is the private copy of what was read and checked.

use std::path::PathBuf;
use std::sync::Arc;

use super::find::find;
use super::folder::Folder;
use super::{Failure, Runtime};
use crate::name::platform;
use crate::plugin::Package;
use crate::plugin::program::Exec;

/// What is started.
#[derive(Debug)]
pub struct Callable {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments; the user's come after them.
    pub arguments: Vec<String>,
    _folder: Arc<Folder>,
}

impl Runtime {
    /// Returns what a command of a plugin starts.
    ///
    /// # Errors
    /// A program that is not there, or for another platform.
    pub fn callable(&self, package: &Package, exec: &Exec) -> Result<Callable, Box<Failure>> {
        let command = exec.command(&platform()).map_err(|why| Box::new(Failure::Missing(why)))?;
        let folder = self.folder(package).map_err(Box::new)?;
        let found = find(&command, package, folder.path(), &self.host).map_err(Box::new)?;
        // `./main.py` is a file of the plugin's, wherever the user stands.
        let own = |word: &String| match word.strip_prefix("./") {
            Some(file) if package.files.contains_key(file) => {
                folder.path().join(file).to_string_lossy().into_owned()
            }
            _ => word.clone(),
        };
        let arguments = command.arguments.iter().map(own).collect();
        Ok(Callable { program: found.program, arguments, _folder: folder })
    }

    /// Returns the first program of this name on the user's PATH.
    #[must_use]
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        super::find::look_up(name, &self.host.path)
    }

    /// Returns the programs on the user's PATH whose names begin so, without that beginning.
    #[must_use]
    pub fn all_on_path(&self, prefix: &str) -> Vec<String> {
        super::find::look_up_all(prefix, &self.host.path)
    }

    /// Returns the variables of the user's environment that have these names.
    pub fn variables<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> std::collections::BTreeMap<String, String> {
        let seen = |name: &str| Some((name.to_owned(), self.host.environment.get(name)?.clone()));
        names.filter_map(seen).collect()
    }
}
