//! Reading files, with limits.

#![expect(clippy::disallowed_methods, reason = "the one place that reads")]

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::finding::{Finding, Findings};
use crate::origin::{Origin, SourceFile};
use crate::value::{MAX_BYTES, Node, read};

/// A file or folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct Error {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

impl Error {
    pub(super) fn new(path: &Path, source: std::io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }
}

/// Returns the folder a file lies in; the current one for a bare name.
#[must_use]
pub(crate) fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns a path as people write it: without `./` in front.
#[must_use]
pub(super) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    text.strip_prefix("./").unwrap_or(&text).to_owned()
}

/// Returns a file's bytes, `most` of them.
///
/// # Errors
/// I/O errors; too large a file is one, too.
pub(crate) fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let metadata = std::fs::metadata(path).map_err(|e| Error::new(path, e))?;
    if !metadata.is_file() {
        let source = std::io::Error::other("it is not a file");
        return Err(Error::new(path, source));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| Error::new(path, e))?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|e| Error::new(path, e))?;
    let found = metadata.len().max(bytes.len() as u64);
    if found > most {
        let text = format!("it has {found} bytes, and kaws reads at most {most}");
        return Err(Error::new(path, std::io::Error::new(std::io::ErrorKind::FileTooLarge, text)));
    }
    Ok(bytes)
}

/// Returns a file's text.
///
/// # Errors
/// I/O errors. What is no text, or too large, is a finding: the inner result.
pub fn read_text(path: &Path) -> Result<Result<String, Findings>, Error> {
    let file = SourceFile::new(shown(path), "");
    let finding = |code: &str, text: String| {
        Findings::from(Finding::fatal(code, text).at(&Origin::file_start(&file)))
    };
    let bytes = match read_bytes(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.source.kind() == std::io::ErrorKind::FileTooLarge => {
            return Ok(Err(finding(
                "yaml/too-large",
                format!("{} is too large: {}", shown(path), error.source),
            )));
        }
        Err(error) => return Err(error),
    };
    Ok(String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        finding(
            "yaml/unreadable",
            format!("{} is not text in UTF-8, from byte {at} on", shown(path)),
        )
    }))
}

/// Reads a YAML file.
///
/// # Errors
/// I/O errors; everything about the contents is a finding.
pub(super) fn read_yaml(path: &Path) -> Result<Result<Node, Findings>, Error> {
    Ok(read_text(path)?.and_then(|text| read(&SourceFile::new(shown(path), text))))
}

/// Reads a YAML file that need not be there.
///
/// # Errors
/// As [`read_yaml`].
pub(super) fn read_yaml_if_there(path: &Path) -> Result<Option<Result<Node, Findings>>, Error> {
    match read_yaml(path) {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file that a setting names, beside the cluster's file and nowhere else.
///
/// # Errors
/// Why it cannot be read, for a finding.
pub(super) fn read_beside(folder: &Path, name: &str) -> Result<Vec<u8>, String> {
    let path = folder.join(name);
    if Path::new(name).is_absolute() || name.split('/').any(|s| s == "..") {
        return Err("it lies outside the cluster's folder".to_owned());
    }
    let real = path.canonicalize().map_err(|e| e.to_string())?;
    let root = folder.canonicalize().map_err(|e| e.to_string())?;
    if !real.starts_with(&root) {
        return Err("it is a link that leads out of the cluster's folder".to_owned());
    }
    read_bytes(&path, MAX_BYTES).map_err(|e| e.source.to_string())
}
