//! The canonical tar: sorted, no times, no owners. Its hash is the bundle's name.
//!
//! Compression is transport: no release of it can change a hash.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// One file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// Its permissions.
    pub mode: u32,
}

/// A bundle: its files by path, without the leading slash.
pub type Bundle = BTreeMap<String, Arc<Entry>>;

/// Returns the SHA-256 of the bundle's tar, in hexadecimal.
///
/// The tar is never held as a whole: a cluster of 500 pools would need gigabytes.
#[must_use]
pub fn hash(bundle: &Bundle) -> String {
    let mut sink = Sink(Sha256::new());
    write(bundle, &mut sink);
    crate::value::hex(&sink.0.finalize())
}

/// Returns the bundle's tar, compressed.
#[must_use]
pub fn packed(bundle: &Bundle) -> Vec<u8> {
    let mut sink = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::default());
    write(bundle, &mut sink);
    let _ = sink.flush();
    sink.finish().unwrap_or_default()
}

/// Returns the files of a compressed tar.
///
/// # Errors
/// Bytes that are none.
pub fn unpacked(bytes: &[u8]) -> std::io::Result<Bundle> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let mut bundle = Bundle::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let (path, mode) = (entry.path()?.to_string_lossy().into_owned(), entry.header().mode()?);
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        bundle.insert(path, Arc::new(Entry { bytes: bytes.into(), mode }));
    }
    Ok(bundle)
}

struct Sink(Sha256);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the tar: every folder before what is in it, everything in the order of its path.
fn write(bundle: &Bundle, sink: &mut dyn std::io::Write) {
    let mut archive = tar::Builder::new(sink);
    let mut before = "";
    for (path, entry) in bundle {
        // Paths are sorted, so a folder that the path before lies in has been written.
        let folders = path.match_indices('/').map(|(at, _)| &path[..=at]);
        for folder in folders.filter(|folder| !before.starts_with(folder)) {
            let mut header = header(0, 0o755);
            header.set_entry_type(tar::EntryType::Directory);
            // A sink of hashes and a path without `..` cannot fail.
            let _ = archive.append_data(&mut header, folder, std::io::empty());
        }
        let mut header = header(entry.bytes.len(), entry.mode);
        let _ = archive.append_data(&mut header, path, entry.bytes.as_ref());
        before = path;
    }
    let _ = archive.finish();
}

/// Returns the hashes of all bundles, in order; they are many and large, and every core helps.
#[must_use]
pub fn hashes(bundles: &[&Bundle]) -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = bundles.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = bundles
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(|b| hash(b)).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("hashing does not panic")).collect()
    })
}

fn header(size: usize, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_size(size as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(files: &[(&str, &str)]) -> Bundle {
        files
            .iter()
            .map(|(path, text)| {
                ((*path).to_owned(), Arc::new(Entry { bytes: text.as_bytes().into(), mode: 0o644 }))
            })
            .collect()
    }

    #[test]
    fn the_hash_is_that_of_a_plain_tar() {
        let files = bundle(&[("etc/a/x", "one\n"), ("etc/b", "two\n")]);
        let mut bytes = Vec::new();
        write(&files, &mut bytes);
        assert_eq!(hash(&files), crate::value::sha256(&bytes));
        let mut archive = tar::Archive::new(bytes.as_slice());
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["etc/", "etc/a/", "etc/a/x", "etc/b"]);
        // No compression and no release of a crate has a part in this number.
        assert_eq!(
            hash(&files),
            "4fba226a626927b15bcc5c6e24dccf87bdb6e597edb8b219f5c72df28b82a5e5"
        );
    }

    #[test]
    fn what_is_packed_comes_back() {
        let mut files = bundle(&[("etc/a/x", "one\n"), ("etc/b", "two\n")]);
        files.insert("s".to_owned(), Arc::new(Entry { bytes: (*b"k").into(), mode: 0o600 }));
        assert_eq!(unpacked(&packed(&files)).unwrap(), files);
    }

    #[test]
    fn a_mode_or_a_byte_changes_it() {
        let one = bundle(&[("a", "x")]);
        let mut other = one.clone();
        other.insert("a".to_owned(), Arc::new(Entry { mode: 0o600, ..(*one["a"]).clone() }));
        assert_ne!(hash(&one), hash(&other));
        assert_ne!(hash(&one), hash(&bundle(&[("a", "y")])));
    }
}
