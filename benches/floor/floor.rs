//! The floor: reads what `kaws render` reads and writes the bytes it writes, and nothing else.
//!
//! Usage: `floor INPUT_DIR RENDERED_DIR OUT_DIR`; compiled by run.py with `rustc -O`.
//!
//! It has to read the rendered bytes to write them, so it lies slightly above pure writing; they
//! are in the page cache. Where OUT_DIR is there already, files that are equal are read and left
//! alone, as a second render leaves them.

use std::path::{Path, PathBuf};
use std::{env, fs, hint, io, process};

/// Folders beside `cluster.yaml` that are no input.
const NO_INPUT: [&str; 3] = ["rendered", ".kaws", ".git"];

fn main() -> io::Result<()> {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [input, rendered, out] = paths.as_slice() else {
        eprintln!("usage: floor INPUT_DIR RENDERED_DIR OUT_DIR");
        process::exit(64);
    };
    read_all(input)?;
    let again = out.is_dir();
    copy(rendered, out, again)
}

fn read_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            hint::black_box(fs::read(path)?);
        } else if !NO_INPUT.iter().any(|name| entry.file_name() == *name) {
            read_all(&path)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, again: bool) -> io::Result<()> {
    if !again {
        fs::create_dir_all(to)?;
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, again)?;
            continue;
        }
        let bytes = fs::read(entry.path())?;
        if !again || fs::read(&target)? != bytes {
            fs::write(&target, bytes)?;
        }
    }
    Ok(())
}
