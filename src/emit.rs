//! Writes `rendered/`: file by file, those that replace others aside and then renamed, the manifest last.
//!
//! A run that is killed leaves a tree that either matches its manifest or is refused; the next one
//! repairs it. Until then a file that was not there before may be there in part, and the journal names it. Files that kaws did not write are never touched. Not here: what the files hold.

#![expect(clippy::disallowed_methods, reason = "the one place that writes")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::plugin::{Artifact, Artifacts};
use crate::value::sha256;

/// The manifest's name.
pub const MANIFEST: &str = "manifest.yaml";
/// The journal of a run that is under way: it names all that is there and may have been written.
const JOURNAL: &str = ".journal.yaml";
/// The end of the names of files that are not yet complete.
const ASIDE: &str = ".kaws-aside";

/// From so many files on, several are written at once: fewer only get in each other's way.
const MANY: usize = 1_000;

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
    /// A tree cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what the manifest says.
    #[error("{} is not what its manifest says: kaws render repairs the tree", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
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
pub type Gate<'a> = &'a mut (dyn FnMut(&Path) -> bool + Send);

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
    if plan.is_same() && !out.join(JOURNAL).exists() {
        return Ok(plan);
    }
    let tree = Tree { out, gate: Mutex::new(gate) };
    let names: BTreeSet<&String> = known.iter().chain(artifacts.keys()).collect();
    let journal: String =
        names.iter().map(|name| format!("  {}: \"\"\n", crate::value::quoted(name))).collect();
    tree.put(JOURNAL, format!("files:\n{journal}").as_bytes())?;
    for path in &plan.gone {
        tree.remove(path)?;
    }
    tree.put_all(&plan.changed, artifacts, Tree::replace)?;
    tree.put_all(&plan.new, artifacts, Tree::create)?;
    tree.put(MANIFEST, manifest.as_bytes())?;
    tree.remove(JOURNAL)?;
    Ok(plan)
}

/// Returns what [`write()`] would do, and does nothing.
///
/// # Errors
/// As [`write()`].
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
    Ok(manifest.is_some_and(|m| m.files.iter().all(intact)) && !out.join(JOURNAL).exists())
}

/// Files of a tree, by path.
pub type Files = BTreeMap<String, std::sync::Arc<[u8]>>;

/// Returns a tree that is on disk: its manifest, and its files by path.
///
/// # Errors
/// A manifest that is missing or none, files that are missing or not as the manifest says.
pub fn read(out: &Path) -> Result<(String, Files), Error> {
    let path = out.join(MANIFEST);
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Unreadable { path, source }
    };
    let text = std::fs::read_to_string(&path).map_err(io(&path))?;
    let manifest = read_manifest(&path)?.map(|m| m.files).unwrap_or_default();
    let mut files = Files::new();
    for (name, hash) in manifest.into_iter().filter(|(name, _)| is_below(name)) {
        let path = out.join(&name);
        let bytes = std::fs::read(&path).map_err(io(&path))?;
        if sha256(&bytes) != hash {
            return Err(Error::Changed { path });
        }
        files.insert(name, bytes.into());
    }
    Ok((text, files))
}

/// Returns the paths that kaws wrote, or may have written when it was stopped.
fn known(out: &Path) -> Result<BTreeSet<String>, Error> {
    let mut all = BTreeSet::new();
    for name in [MANIFEST, JOURNAL] {
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
                written.new.push(path.clone());
            }
            // What kaws wrote in another shape goes first: a file where a folder is needed, or the reverse.
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                let blocked = known
                    .iter()
                    .any(|k| path.starts_with(&format!("{k}/")) && !artifacts.contains_key(k));
                if !blocked {
                    return Err(Error::Foreign { path: full });
                }
                written.new.push(path.clone());
            }
            Err(_) if full.is_dir() => {
                if !only_known(&full, out, known) {
                    return Err(Error::Foreign { path: full });
                }
                written.new.push(path.clone());
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

/// Whether a folder holds nothing but files that kaws wrote.
fn only_known(folder: &Path, out: &Path, known: &BTreeSet<String>) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().all(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return only_known(&path, out, known);
        }
        path.strip_prefix(out).is_ok_and(|p| known.contains(p.to_string_lossy().as_ref()))
    })
}

struct Tree<'a> {
    out: &'a Path,
    gate: Mutex<Gate<'a>>,
}

impl Tree<'_> {
    fn pass(&self, path: &Path) -> Result<(), Error> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if gate(path) { Ok(()) } else { Err(Error::Stopped { path: path.to_owned() }) }
    }

    /// Writes those of `paths` that are artifacts with `put`, some at once: most of the time is the file
    /// system's. Their folders come first.
    fn put_all(
        &self,
        paths: &[String],
        artifacts: &Artifacts,
        put: fn(&Self, &str, &[u8], bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let files: Vec<(&str, &Artifact)> =
            paths.iter().filter_map(|p| Some((p.as_str(), artifacts.get(p)?))).collect();
        let folders: BTreeSet<&str> =
            files.iter().filter_map(|(p, _)| Some(p.rsplit_once('/')?.0)).collect();
        for folder in folders {
            self.folder(&self.out.join(folder))?;
        }
        let one =
            |(path, file): &(&str, &Artifact)| put(self, path, &file.bytes, file.mode & 0o100 != 0);
        if files.len() < MANY {
            return files.iter().try_for_each(one);
        }
        std::thread::scope(|scope| {
            let parts: Vec<_> = files
                .chunks(files.len().div_ceil(2))
                .map(|part| scope.spawn(move || part.iter().try_for_each(one)))
                .collect();
            parts.into_iter().try_for_each(|part| part.join().expect("writing does not panic"))
        })
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        self.folder(self.out)?;
        self.replace(path, bytes, false)
    }

    fn folder(&self, folder: &Path) -> Result<(), Error> {
        std::fs::create_dir_all(folder)
            .map_err(|source| Error::Io { path: folder.to_owned(), source })
    }

    /// Writes a file that was not there: there is nothing to lose, and renaming costs as much again.
    fn create(&self, path: &str, bytes: &[u8], executable: bool) -> Result<(), Error> {
        let full = self.out.join(path);
        self.pass(&full)?;
        let file = std::fs::File::create_new(&full);
        file.and_then(|file| fill(file, bytes, executable))
            .map_err(|source| Error::Io { path: full, source })
    }

    /// Writes a file aside, and renames it: it is there whole, or as it was.
    fn replace(&self, path: &str, bytes: &[u8], executable: bool) -> Result<(), Error> {
        let full = self.out.join(path);
        let mut aside = full.clone().into_os_string();
        aside.push(ASIDE);
        let aside = PathBuf::from(aside);
        self.pass(&aside)?;
        std::fs::File::create(&aside)
            .and_then(|file| fill(file, bytes, executable))
            .map_err(|source| Error::Io { path: aside.clone(), source })?;
        self.pass(&full)?;
        std::fs::rename(&aside, &full).map_err(|source| Error::Io { path: full, source })
    }

    fn remove(&self, path: &str) -> Result<(), Error> {
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
}

/// Writes a new file with the same permissions whatever the umask: the tree is for git.
fn fill(mut file: std::fs::File, bytes: &[u8], executable: bool) -> std::io::Result<()> {
    use std::io::Write as _;
    file.write_all(bytes)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = if executable { 0o755 } else { 0o644 };
        if file.metadata()?.permissions().mode() & 0o777 != mode {
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}
