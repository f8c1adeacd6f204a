//! `kaws plugin package`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::{Exit, folder};
use crate::archive::{Entry, packed};
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output};
use crate::plugin::program::Exec;
use crate::value::sha256;

/// Writes the archive, and says what is next.
pub(super) fn run(common: &Common, dir: &Path, to: Option<&Path>) -> Exit {
    write(common, dir, to).into()
}

#[expect(clippy::disallowed_methods, reason = "the command that writes archives of plugins")]
fn write(common: &Common, dir: &Path, to: Option<&Path>) -> Result<(), Exit> {
    let package = folder(common, dir)?;
    let manifest = package.node.origin.file().text.as_bytes();
    let files = package.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_ref()));
    let starts: Vec<String> = package.manifest.programs_of().iter().flat_map(Exec::files).collect();
    let mut bundle = BTreeMap::new();
    for (path, bytes) in std::iter::once(("plugin.yaml", manifest)).chain(files) {
        let mode = if starts.iter().any(|start| start == path) { 0o755 } else { 0o644 };
        bundle.insert(path.to_owned(), Arc::new(Entry { bytes: bytes.into(), mode }));
    }
    let bytes = packed(&bundle);
    let name = format!("{}-{}.tar.gz", package.name, package.manifest.version);
    let to = to.map_or_else(|| PathBuf::from(&name), Path::to_owned);
    std::fs::write(&to, &bytes).map_err(|error| {
        say_error(&format!("cannot write {}: {error}", to.display()));
        Exit::Files
    })?;
    let hash = sha256(&bytes);
    if common.output == Output::Json {
        say(&json!({"file": to, "sha256": hash, "files": bundle.len()}).to_string());
    } else {
        say(&format!("Wrote {}: {} files, sha256 {hash}", to.display(), bundle.len()));
        say(&format!("  minisign -Sm {}    signs it", to.display()));
    }
    Ok(())
}
