//! Finding plugins: inside the binary, in the cluster's `plugins/`, and in folders that are named.

#![expect(clippy::disallowed_methods, reason = "folders of plugins are read here")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::embedded;
use super::files::{Error, read_bytes, read_text, shown};
use crate::finding::{Finding, Findings};
use crate::lock::Lock;
use crate::name::Name;
use crate::origin::{Origin, SourceFile};
use crate::plugin::{Files, Home, Package};
use crate::value::read;

/// The most files in one plugin's folder.
const MAX_FILES: usize = 2_000;
/// The largest of them: programs of compiled languages are large.
const MAX_FILE: u64 = 128 * 1024 * 1024;
/// The name of the plugin that `customise:` is.
const RESERVED: &str = "cluster";

/// Where one plugin was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whose it is.
    pub home: Home,
    /// Its folder, for those on disk.
    pub folder: Option<PathBuf>,
}

/// All plugins there are, by name; one name can be in several places.
#[derive(Debug, Default)]
pub struct Catalogue {
    found: BTreeMap<String, Vec<Found>>,
    absent: BTreeMap<String, String>,
    findings: Findings,
}

impl Catalogue {
    /// Looks in the binary, in `plugins/` of the cluster's folder, and in the folders that are named.
    ///
    /// # Errors
    /// A named folder that cannot be read.
    pub fn find(cluster: &Path, named: &[String], given: &[PathBuf]) -> Result<Self, Error> {
        let mut all = Self::default();
        for (contrib, home) in [(false, Home::Builtin), (true, Home::Contrib)] {
            for name in embedded::names(contrib) {
                all.add(name, Found { home: home.clone(), folder: None });
            }
        }
        let own = cluster.join("plugins");
        if own.is_dir() {
            all.folder(&own)?;
        }
        for folder in named.iter().map(|n| cluster.join(n)).chain(given.iter().cloned()) {
            all.folder(&folder)?;
        }
        Ok(all)
    }

    /// Returns what is wrong with the folders themselves.
    #[must_use]
    pub fn findings(&self) -> Findings {
        self.findings.clone()
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.found.keys().map(String::as_str)
    }

    /// Returns the places of a plugin; a user's come last.
    #[must_use]
    pub fn places(&self, name: &str) -> &[Found] {
        self.found.get(name).map_or(&[], Vec::as_slice)
    }

    /// Adds what kaws.lock says is installed; what is not on this machine is remembered, and missed where it is on.
    pub fn add_installed(&mut self, lock: &Lock, store: Option<&Path>) {
        for (name, locked) in &lock.file().plugins {
            let Some(source) = &locked.source else { continue };
            let folder = store.map(|store| installed(store, name, locked.tree()));
            match folder.filter(|folder| folder.is_dir()) {
                Some(folder) => {
                    let home = Home::Installed(source.from.clone());
                    self.add(name, Found { home, folder: Some(folder) });
                }
                None => {
                    self.absent.insert(name.clone(), locked.version.clone());
                }
            }
        }
    }

    /// Returns the version of a plugin that kaws.lock says is installed, and that is not on this machine.
    #[must_use]
    pub fn absent(&self, name: &str) -> Option<&str> {
        self.absent.get(name).map(String::as_str)
    }

    /// Puts one plugin's folder in place of everything else that has its name.
    pub(super) fn put_alone(&mut self, folder: &Path) {
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let found = Found { home: Home::User(String::new()), folder: Some(folder.to_owned()) };
        self.found.insert(name, vec![found]);
    }

    fn add(&mut self, name: &str, found: Found) {
        let places = self.found.entry(name.to_owned()).or_default();
        if !places.contains(&found) {
            places.push(found);
        }
    }

    fn folder(&mut self, folder: &Path) -> Result<(), Error> {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
            .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
            .map_err(|e| Error::new(folder, e))?;
        entries.sort();
        for path in entries.into_iter().filter(|p| p.is_dir()) {
            let name =
                path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with('.') {
                continue;
            }
            let at = Origin::file_start(&SourceFile::new(shown(&path), ""));
            if Name::new(&name).is_none() || name == RESERVED {
                let text = format!("`{name}` is no name for a plugin");
                let help = "lower-case letters, digits and `-`, and not `cluster`";
                self.findings.push(Finding::fatal("plugin/pattern", text).at(&at).help(help));
            } else if is_our_own(&name, &path)? {
                // A checkout of kaws itself: what is equal to a part of the binary is that part.
            } else if path.join("plugin.yaml").is_file() {
                self.add(&name, Found { home: Home::User(shown(&path)), folder: Some(path) });
            } else {
                let text = format!("{} has no plugin.yaml", shown(&path));
                self.findings.push(Finding::fatal("plugin/file", text).at(&at));
            }
        }
        Ok(())
    }
}

/// Returns where an installed plugin lies on this machine: by its name and the hash of its files.
#[must_use]
pub fn installed(store: &Path, name: &str, sha256: &str) -> PathBuf {
    store.join(name).join(sha256)
}

/// Whether a folder holds just what the binary has under this name.
fn is_our_own(name: &str, folder: &Path) -> Result<bool, Error> {
    let own = [false, true].into_iter().find_map(|contrib| embedded::plugin(name, contrib));
    let Some((manifest, files)) = own else { return Ok(false) };
    let same = read_bytes(&folder.join("plugin.yaml"), MAX_FILE)
        .is_ok_and(|bytes| bytes == manifest.as_bytes());
    Ok(same && on_disk(folder)?.is_ok_and(|there| there == files))
}

/// Reads a plugin's folder.
///
/// # Errors
/// Files that cannot be read; what is wrong with their contents is the inner result.
pub fn package(name: &str, found: &Found) -> Result<Result<Package, Findings>, Error> {
    let (text, files) = match &found.folder {
        None => match embedded::plugin(name, found.home == Home::Contrib) {
            Some((text, files)) => (text.to_owned(), files),
            None => return Ok(Err(Findings::new())),
        },
        Some(folder) => {
            let text = match read_text(&folder.join("plugin.yaml"))? {
                Ok(text) => text,
                Err(findings) => return Ok(Err(findings)),
            };
            match on_disk(folder)? {
                Ok(files) => (text, files),
                Err(finding) => return Ok(Err((*finding).into())),
            }
        }
    };
    let file = SourceFile::new(found.home.file_name(name, "plugin.yaml"), text);
    let read = read(&file).and_then(|node| {
        let own = node.get("name").cloned();
        let package = Package::read(node, found.home.clone(), files)?;
        match own {
            Some(own) if package.name.as_str() != name => {
                let text =
                    format!("the folder is `{name}`, and the manifest says `{}`", package.name);
                Err(Finding::fatal("plugin/value", text).at(&own.origin).into())
            }
            _ => Ok(package),
        }
    });
    Ok(read)
}

/// Reads all files of a folder but `plugin.yaml`; links must stay inside it.
fn on_disk(folder: &Path) -> Result<Result<Files, Box<Finding>>, Error> {
    let root = folder.canonicalize().map_err(|e| Error::new(folder, e))?;
    let mut files = Files::new();
    let mut open = vec![folder.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|e| Error::new(&dir, e))?;
        for entry in entries {
            let path = entry.map_err(|e| Error::new(&dir, e))?.path();
            let name = path.strip_prefix(folder).map(shown).unwrap_or_default();
            // What editors, git, cargo and Python leave lying about is no part of a plugin.
            let own = path.file_name().is_some_and(|own| {
                own.as_encoded_bytes().starts_with(b".") || own == "__pycache__"
            });
            if own || name == "plugin.yaml" {
                continue;
            }
            let real = path.canonicalize().map_err(|e| Error::new(&path, e))?;
            let fail = |text: String| {
                let at = Origin::file_start(&SourceFile::new(shown(&path), ""));
                Ok(Err(Box::new(Finding::fatal("plugin/file", text).at(&at))))
            };
            if !real.starts_with(&root) {
                return fail(format!(
                    "{} is a link that leads out of the plugin's folder",
                    shown(&path)
                ));
            }
            if files.len() >= MAX_FILES {
                return fail(format!("{} has over {MAX_FILES} files", shown(folder)));
            }
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if path.is_file() {
                files.insert(name, Cow::Owned(read_bytes(&path, MAX_FILE)?));
            }
        }
    }
    Ok(Ok(files))
}
