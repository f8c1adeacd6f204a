//! Writes `rendered/`: file by file, each aside and then renamed, the manifest last.
//!
//! A run that is killed leaves a tree that either matches its manifest or is refused; the next one
//! repairs it. Files that kaws did not write are never touched. Not here: what the files hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::plugin::Artifacts;
use crate::value::sha256;

/// The manifest's name.
pub const MANIFEST: &str = "manifest.yaml";
/// The manifest of a run that is under way: it names what may have been written.
const PENDING: &str = ".manifest.yaml.pending";
/// The end of the names of files that are not yet complete.
const ASIDE: &str = ".kaws-aside";

/// Why the tree could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is there that kaws did not write.
    #[error("{} is there, and kaws did not write it: move it away, or render elsewhere with --out", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The manifest is none.
    #[error("{} is no manifest of kaws ({reason}): move it away, or render elsewhere with --out", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A test stopped the run here.
    #[error("stopped before {}", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
}

/// What writing did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Written {
    /// Files in the tree.
    pub files: usize,
    /// Files with other bytes than before.
    pub changed: Vec<String>,
    /// Files that were not there.
    pub new: Vec<String>,
    /// Files that are no longer rendered, and removed.
    pub gone: Vec<String>,
}

impl Written {
    /// Returns whether nothing differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.changed.is_empty() && self.new.is_empty() && self.gone.is_empty()
    }
}

/// What is called before every change of the tree; a test stops there.
pub type Gate<'a> = &'a mut dyn FnMut(&Path) -> bool;

#[derive(Deserialize)]
struct Known {
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Writes the tree below `out`; files that are the same are not touched.
///
/// # Errors
/// The file system's, and files of others where a file should go.
pub fn write(
    out: &Path,
    artifacts: &Artifacts,
    manifest: &str,
    gate: Gate<'_>,
) -> Result<Written, Error> {
    let known = known(out)?;
    let plan = plan(out, artifacts, manifest, &known)?;
    if plan.is_same() && !out.join(PENDING).exists() {
        return Ok(plan);
    }
    let mut tree = Tree { out, gate };
    tree.put(PENDING, manifest.as_bytes(), false)?;
    for path in plan.changed.iter().chain(&plan.new).filter(|p| *p != MANIFEST) {
        let artifact = &artifacts[path];
        tree.put(path, &artifact.bytes, artifact.executable)?;
    }
    for path in &plan.gone {
        tree.remove(path)?;
    }
    tree.finish()?;
    Ok(plan)
}

/// Returns what [`write`] would do, and does nothing.
///
/// # Errors
/// As [`write`].
pub fn check(out: &Path, artifacts: &Artifacts, manifest: &str) -> Result<Written, Error> {
    let known = known(out)?;
    plan(out, artifacts, manifest, &known)
}

/// Returns whether the tree is what its manifest says: every file there, with its hash.
///
/// # Errors
/// A manifest that cannot be read.
pub fn is_intact(out: &Path) -> Result<bool, Error> {
    let manifest = read_manifest(&out.join(MANIFEST))?;
    let intact = |(path, hash): (&String, &String)| {
        std::fs::read(out.join(path)).is_ok_and(|bytes| sha256(&bytes) == *hash)
    };
    Ok(manifest.is_some_and(|m| m.files.iter().all(intact)) && !out.join(PENDING).exists())
}

/// Returns the paths that kaws wrote, or may have written when it was stopped.
fn known(out: &Path) -> Result<BTreeSet<String>, Error> {
    let mut all = BTreeSet::new();
    for name in [MANIFEST, PENDING] {
        if let Some(manifest) = read_manifest(&out.join(name))? {
            all.extend(manifest.files.into_keys().filter(|p| is_below(p)));
        }
    }
    Ok(all)
}

/// Whether a path of a manifest stays below the tree: a manifest can be edited.
fn is_below(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|s| !s.is_empty() && s != "." && s != "..")
}

fn read_manifest(path: &Path) -> Result<Option<Known>, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) if source.kind() == std::io::ErrorKind::InvalidData => {
            return Err(Error::Manifest { path: path.to_owned(), reason: source.to_string() });
        }
        Err(source) => return Err(Error::Io { path: path.to_owned(), source }),
    };
    let read: Result<Known, _> = serde_yaml::from_str(&text);
    read.map(Some).map_err(|error| {
        let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
        Error::Manifest { path: path.to_owned(), reason }
    })
}

fn plan(
    out: &Path,
    artifacts: &Artifacts,
    manifest: &str,
    known: &BTreeSet<String>,
) -> Result<Written, Error> {
    let mut written = Written { files: artifacts.len() + 1, ..Written::default() };
    for (path, artifact) in artifacts {
        let full = out.join(path);
        match std::fs::read(&full) {
            Ok(bytes) if *bytes == *artifact.bytes => {}
            Ok(_) if known.contains(path) => written.changed.push(path.clone()),
            Ok(_) => return Err(Error::Foreign { path: full }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                written.new.push(path.clone())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::Foreign { path: full });
            }
            Err(source) if full.is_dir() => {
                let _ = source;
                return Err(Error::Foreign { path: full });
            }
            Err(source) => return Err(Error::Io { path: full, source }),
        }
    }
    match std::fs::read(out.join(MANIFEST)) {
        Ok(bytes) if bytes == manifest.as_bytes() => {}
        Ok(_) => written.changed.push(MANIFEST.to_owned()),
        Err(_) => written.new.push(MANIFEST.to_owned()),
    }
    let gone = known.iter().filter(|p| !artifacts.contains_key(*p) && out.join(p).is_file());
    written.gone = gone.cloned().collect();
    Ok(written)
}

struct Tree<'a> {
    out: &'a Path,
    gate: Gate<'a>,
}

impl Tree<'_> {
    fn pass(&mut self, path: &Path) -> Result<(), Error> {
        if (self.gate)(path) { Ok(()) } else { Err(Error::Stopped { path: path.to_owned() }) }
    }

    fn put(&mut self, path: &str, bytes: &[u8], executable: bool) -> Result<(), Error> {
        let full = self.out.join(path);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { path, source }
        };
        if let Some(folder) = full.parent() {
            std::fs::create_dir_all(folder).map_err(io(folder))?;
        }
        let mut aside = full.clone().into_os_string();
        aside.push(ASIDE);
        let aside = PathBuf::from(aside);
        self.pass(&aside)?;
        std::fs::write(&aside, bytes).map_err(io(&aside))?;
        permit(&aside, executable).map_err(io(&aside))?;
        self.pass(&full)?;
        std::fs::rename(&aside, &full).map_err(io(&full))
    }

    fn remove(&mut self, path: &str) -> Result<(), Error> {
        let full = self.out.join(path);
        self.pass(&full)?;
        match std::fs::remove_file(&full) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Io { path: full, source });
            }
            _ => {}
        }
        // Folders that are empty now go with their last file.
        let mut folder = full.parent();
        while let Some(dir) = folder.filter(|d| *d != self.out && std::fs::remove_dir(d).is_ok()) {
            folder = dir.parent();
        }
        Ok(())
    }

    /// The pending manifest becomes the manifest: from here on the tree is complete.
    fn finish(&mut self) -> Result<(), Error> {
        let (pending, manifest) = (self.out.join(PENDING), self.out.join(MANIFEST));
        self.pass(&manifest)?;
        std::fs::rename(&pending, &manifest).map_err(|source| Error::Io { path: manifest, source })
    }
}

/// The same permissions whatever the umask: the tree is for git.
#[cfg(unix)]
fn permit(path: &Path, executable: bool) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = if executable { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn permit(_: &Path, _: bool) -> std::io::Result<()> {
    Ok(())
}
