//! Reads the archives that plugins come in, which anybody can have made: into memory, and nothing is written before all
//! of it was looked at.
//!
//! Not here: what the files mean, and `crate::archive`, which reads and writes kaws's own.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

/// The files of a plugin's folder, by path.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// The most bytes an archive may unpack to.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The most entries it may have, folders counted.
const MAX_ENTRIES: usize = 20_000;
/// The most files of a plugin's folder, as `load` reads it.
const MAX_FILES: usize = 2_000;
/// The largest of them.
const MAX_FILE: u64 = 128 * 1024 * 1024;
/// How many times larger than the archive its contents may be, from [`RATIO_FROM`] bytes on.
const MAX_RATIO: u64 = 200;
const RATIO_FROM: u64 = 4 * 1024 * 1024;
/// The longest path, and the longest name in it: what file systems take.
const MAX_PATH: usize = 1_024;
const MAX_NAME: usize = 255;
/// The most folders in one another.
const MAX_DEPTH: usize = 32;

/// Why an archive is not unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

type Checked<T> = Result<T, Refused>;

fn refuse<T>(text: impl Into<String>) -> Checked<T> {
    Err(Refused(text.into()))
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File,
    Folder,
    Link,
    Other,
}

/// Returns the files of an archive: a tar, a tar in gzip, or a zip. What is in one folder alone comes out of it.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8]) -> Checked<Tree> {
    let mut unpacked = Unpacked::new(bytes.len() as u64);
    match bytes {
        [0x1f, 0x8b, ..] => {
            let inner = flate2::read::GzDecoder::new(bytes);
            let mut reader = Limited { inner, left: unpacked.most() };
            tar(&mut reader, &mut unpacked)?;
            // The checksum comes last, after the end that the tar says of itself.
            let rest = std::io::copy(&mut reader, &mut std::io::sink());
            rest.map_err(|error| Refused(format!("it is broken: {error}")))?;
        }
        [b'P', b'K', 3 | 5, 4 | 6, ..] => zip(bytes, &mut unpacked)?,
        _ if is_tar(bytes) => tar(bytes, &mut unpacked)?,
        _ => return refuse("it is no archive: neither a tar, nor one in gzip, nor a zip"),
    }
    rooted(unpacked.files)
}

/// Names and contents, as they came.
pub type Listed = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns files that came otherwise than in an archive, looked at as if they had.
///
/// # Errors
/// What is wrong with them.
pub fn gathered(files: Listed) -> Checked<Tree> {
    let mut unpacked = Unpacked::new(MAX_BYTES);
    for (name, bytes) in files {
        unpacked.add(&name, Entry::File, bytes.len() as u64, &mut bytes.as_slice())?;
    }
    rooted(unpacked.files)
}

/// Whether the bytes are those of an archive that [`read`] knows.
#[must_use]
pub fn is_archive(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1f, 0x8b, ..] | [b'P', b'K', 3 | 5, 4 | 6, ..]) || is_tar(bytes)
}

fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// What has been read so far.
struct Unpacked {
    files: Tree,
    /// Each path and each folder above it, in lower case, with its own spelling and whether it is a file.
    seen: BTreeMap<String, (String, bool)>,
    entries: usize,
    bytes: u64,
    packed: u64,
}

impl Unpacked {
    fn new(packed: u64) -> Self {
        Self { files: Tree::new(), seen: BTreeMap::new(), entries: 0, bytes: 0, packed }
    }

    /// The most bytes that may come out of the archive.
    fn most(&self) -> u64 {
        MAX_BYTES.min((self.packed * MAX_RATIO).max(RATIO_FROM))
    }

    fn add(&mut self, name: &[u8], kind: Entry, size: u64, reader: &mut dyn Read) -> Checked<()> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return refuse(format!("it has over {MAX_ENTRIES} entries"));
        }
        let path = safe(name)?;
        match kind {
            Entry::Link => return refuse(format!("`{path}` is a link")),
            Entry::Other => {
                return refuse(format!("`{path}` is no plain file: a device, a pipe, or the like"));
            }
            Entry::Folder if path.is_empty() => return Ok(()),
            Entry::Folder => return self.see(&path, false),
            Entry::File if path.is_empty() => return refuse("a file has no name"),
            Entry::File => self.see(&path, true)?,
        }
        let bytes = self.contents(&path, size, reader)?;
        // As in folders: what editors, git, cargo and Python leave lying about is no part of a plugin.
        if path.split('/').any(|name| name.starts_with('.') || name == "__pycache__") {
            return Ok(());
        }
        if self.files.len() >= MAX_FILES {
            return refuse(format!("it has over {MAX_FILES} files"));
        }
        self.files.insert(path, bytes);
        Ok(())
    }

    fn contents(&mut self, path: &str, size: u64, reader: &mut dyn Read) -> Checked<Vec<u8>> {
        let most = MAX_FILE.min(self.most().saturating_sub(self.bytes));
        let mut bytes = Vec::new();
        let read = reader.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| Refused(format!("`{path}` cannot be unpacked: {error}")))?;
        let length = bytes.len() as u64;
        if length > most {
            return refuse(format!(
                "it is too large: over {most} bytes by `{path}`, out of {} packed ones",
                self.packed
            ));
        }
        if length != size {
            return refuse(format!("`{path}` has {length} bytes, and the archive says {size}"));
        }
        self.bytes += length;
        Ok(bytes)
    }

    /// Notes a path and the folders above it; what a file system could take for the same is refused.
    fn see(&mut self, path: &str, file: bool) -> Checked<()> {
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends {
            self.see_one(&path[..end], false)?;
        }
        let twice = file && self.seen.contains_key(&path.to_lowercase());
        if twice && self.seen[&path.to_lowercase()].0 == path {
            return refuse(format!("`{path}` is there twice"));
        }
        self.see_one(path, file)
    }

    fn see_one(&mut self, path: &str, file: bool) -> Checked<()> {
        let before = self.seen.insert(path.to_lowercase(), (path.to_owned(), file));
        match before {
            Some((other, _)) if other != path => {
                refuse(format!("`{other}` and `{path}` differ in capitals alone"))
            }
            Some((_, was)) if was != file => {
                refuse(format!("`{path}` is both a file and a folder"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns a path that stays below the folder it is unpacked into, on every file system.
fn safe(name: &[u8]) -> Checked<String> {
    let shown = String::from_utf8_lossy(name).escape_debug().to_string();
    let no = |why: &str| refuse(format!("`{shown}` {why}"));
    let Ok(text) = std::str::from_utf8(name) else { return no("is no text in UTF-8") };
    if text.len() > MAX_PATH {
        return refuse(format!("a path has {} characters, over {MAX_PATH}", text.len()));
    }
    if text.bytes().any(|b| !(b' '..=b'~').contains(&b)) {
        return no("has characters that not every file system takes");
    }
    if text.starts_with('/') || text.contains(['\\', ':']) {
        return no("is no relative path");
    }
    let path = text.trim_start_matches("./").trim_end_matches('/');
    if path.is_empty() || path == "." {
        return Ok(String::new());
    }
    if path.split('/').count() > MAX_DEPTH {
        return refuse(format!("a path has over {MAX_DEPTH} folders in one another"));
    }
    for name in path.split('/') {
        match name {
            ".." => return no("leads out of the archive"),
            "" | "." => return no("is no plain path"),
            _ if name.len() > MAX_NAME => return no("has a name that is too long"),
            _ if name.ends_with(['.', ' ']) => {
                return no("has a name that ends in a dot or a space");
            }
            _ => {}
        }
    }
    Ok(path.to_owned())
}

fn tar(reader: impl Read, unpacked: &mut Unpacked) -> Checked<()> {
    let broken = |error: std::io::Error| Refused(format!("it is broken: {error}"));
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let kind = match entry.header().entry_type() {
            // What `git archive` says of the commit.
            tar::EntryType::XGlobalHeader => continue,
            tar::EntryType::Regular => Entry::File,
            tar::EntryType::Directory => Entry::Folder,
            tar::EntryType::Link | tar::EntryType::Symlink => Entry::Link,
            _ => Entry::Other,
        };
        let (name, size) = (entry.path_bytes().into_owned(), entry.size());
        unpacked.add(&name, kind, size, &mut entry)?;
    }
    Ok(())
}

fn zip(bytes: &[u8], unpacked: &mut Unpacked) -> Checked<()> {
    let broken = |error: zip::result::ZipError| Refused(format!("it is broken: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    // The reader keeps the last of several entries of one name; which of them others unpack nobody knows.
    if listed(bytes).is_some_and(|count| count != archive.len()) {
        return refuse("it has several entries of one name");
    }
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(broken)?;
        let kind = match entry.unix_mode().map(|mode| mode & 0o170_000) {
            _ if entry.is_symlink() => Entry::Link,
            Some(0 | 0o100_000) | None if entry.is_file() => Entry::File,
            Some(0 | 0o040_000) | None if entry.is_dir() => Entry::Folder,
            _ => Entry::Other,
        };
        let (name, size) = (entry.name_raw().to_vec(), entry.size());
        unpacked.add(&name, kind, size, &mut entry)?;
    }
    Ok(())
}

/// How many entries the end of a zip says there are; the record is the last with its signature.
fn listed(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(4).rposition(|window| window == b"PK\x05\x06")?;
    let count = bytes.get(at + 10..at + 12)?;
    Some(usize::from(u16::from_le_bytes([count[0], count[1]]))).filter(|count| *count != 0xffff)
}

/// Ends with an error where too much comes out.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| std::io::Error::other("it unpacks to far more than it should"))?;
        Ok(read)
    }
}

/// Takes the files out of the folder they all lie in, as archives of releases have one.
fn rooted(files: Tree) -> Checked<Tree> {
    if files.contains_key("plugin.yaml") {
        return Ok(files);
    }
    let first = files.keys().next().and_then(|path| path.split_once('/'));
    let Some(folder) = first.map(|(folder, _)| folder.to_owned()) else {
        return refuse("it has no plugin.yaml");
    };
    let prefix = format!("{folder}/");
    if !files.contains_key(&format!("{prefix}plugin.yaml")) {
        return refuse("it has no plugin.yaml");
    }
    let strip = |(path, bytes): (String, Vec<u8>)| {
        Some((path.strip_prefix(&prefix).map(str::to_owned)?, bytes))
    };
    let all = files.len();
    let inner: Tree = files.into_iter().filter_map(strip).collect();
    if inner.len() != all {
        return refuse(format!("plugin.yaml is in {folder}/, and other files are beside it"));
    }
    Ok(inner)
}
