//! Where a program is, and which folders of this machine it cannot do without.

use std::path::{Path, PathBuf};

use super::{Failure, Host};
use crate::plugin::Package;
use crate::plugin::program::{Command, Word};

/// What every program may read and run: the system, and none of its secrets.
const SYSTEM: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/sbin",
    "/usr",
    "/nix/store",
    "/gnu/store",
    "/System",
    "/Library/Developer",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/python3",
    "/etc/resolv.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Returns what is there of [`SYSTEM`], each folder once: many are links into another.
fn system() -> &'static [PathBuf] {
    static THERE: std::sync::OnceLock<Vec<PathBuf>> = std::sync::OnceLock::new();
    THERE.get_or_init(|| {
        let real = SYSTEM.iter().filter_map(|path| Path::new(path).canonicalize().ok());
        let mut all: Vec<PathBuf> = real.collect();
        all.sort();
        all.dedup_by(|next, kept| next.starts_with(&*kept));
        all
    })
}

/// A program that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// What is started.
    pub(super) program: PathBuf,
    /// What it reads and runs beside its own folder.
    pub(super) reads: Vec<PathBuf>,
}

/// Finds the program of `command`, its interpreter, and those that the manifest names.
pub(super) fn find(
    command: &Command,
    package: &Package,
    folder: &Path,
    host: &Host,
) -> Result<Found, Failure> {
    let mut reads = system().to_vec();
    let mut on_path = |name: &str, why: &str| -> Result<PathBuf, Failure> {
        let Some(program) = look_up(name, &host.path) else {
            return Err(Failure::Missing(format!("`{name}` is not on the PATH{why}")));
        };
        reads.extend(homes(&program, host.home.as_deref()));
        Ok(program)
    };
    let program = match &command.program {
        Word::Path(name) => on_path(name, "")?,
        Word::Own(file) => {
            let bytes = package.files.get(file).map_or(&[][..], |bytes| bytes.as_ref());
            if let Some(why) = runs_nowhere(bytes) {
                return Err(Failure::Start(format!("{file} {why}")));
            }
            if let Some(name) = interpreter(bytes) {
                let why = format!(", and {file} is written for it");
                if name.starts_with('/') {
                    let there = Path::new(&name);
                    if !there.exists() {
                        return Err(Failure::Missing(format!("there is no `{name}`{why}")));
                    }
                    // A plugin opens no folder by naming it: only what is on the user's own PATH is a program.
                    let own = there.file_name().and_then(|own| look_up(own.to_str()?, &host.path));
                    if own.as_deref() == Some(there) {
                        reads.extend(homes(there, host.home.as_deref()));
                    }
                } else {
                    on_path(&name, &why)?;
                }
            }
            folder.join(file)
        }
    };
    let mut on_path = |name: &str| {
        let why = format!(", and {} needs it", package.name);
        look_up(name, &host.path)
            .map(|program| reads.extend(homes(&program, host.home.as_deref())))
            .ok_or_else(|| Failure::Missing(format!("`{name}` is not on the PATH{why}")))
    };
    package.manifest.programs.iter().try_for_each(|name| on_path(name))?;
    reads.sort();
    reads.dedup_by(|next, kept| next.starts_with(&*kept));
    Ok(Found { program, reads })
}

/// Returns the first program of this name on the PATH.
pub(super) fn look_up(name: &str, path: &[PathBuf]) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    if name.contains('/') {
        return None;
    }
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    path.iter().filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(runs)
}

/// Returns the ends of the names of all programs on the PATH that begin so.
#[expect(clippy::disallowed_methods, reason = "the PATH is looked through")]
pub(super) fn look_up_all(prefix: &str, path: &[PathBuf]) -> Vec<String> {
    let entries = path.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut all: Vec<String> = names
        .filter(|name| look_up(name, path).is_some())
        .filter_map(|name| Some(name.strip_prefix(prefix)?.to_owned()))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Returns why this machine cannot run a file: it is no script with a first line, and no program for this processor.
fn runs_nowhere(bytes: &[u8]) -> Option<&'static str> {
    let mach = [&b"\xcf\xfa\xed\xfe"[..], b"\xca\xfe\xba\xbe"];
    if bytes.starts_with(b"#!") || mach.iter().any(|magic| bytes.starts_with(magic)) {
        return None;
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Some("is no program, or a script without `#!` in its first line");
    }
    let machine = bytes.get(18..20).map(|m| u16::from_le_bytes([m[0], m[1]]));
    let own = match std::env::consts::ARCH {
        "x86_64" => Some(62),
        "aarch64" => Some(183),
        _ => machine,
    };
    (machine != own).then_some("is a program for another processor")
}

/// Returns what a script's first line names: a path, or a name that `env` looks up.
fn interpreter(bytes: &[u8]) -> Option<String> {
    let line = bytes.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
    let first = words.next()?;
    if first != "/usr/bin/env" && first != "/bin/env" {
        return Some(first.to_owned());
    }
    let name = words.find(|word| *word != "-S")?;
    // Anything else that env can be told is not looked into.
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    (name.chars().all(plain) && !name.starts_with('-')).then(|| name.to_owned())
}

/// Returns the folders that a program is installed in: what stands around its `bin`, before and after links. The user's
/// home is never one.
fn homes(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let one = |program: &Path| {
        let dir = program.parent()?;
        let named =
            dir.file_name().is_some_and(|name| ["bin", "sbin", "shims"].iter().any(|n| name == *n));
        let around = if named { dir.parent()? } else { dir };
        let holds_home =
            |dir: &Path| dir == Path::new("/") || home.is_some_and(|home| home.starts_with(dir));
        // Right below the home there is more than programs: ~/.local has keyrings, ~/.cargo credentials.
        let right_below = around.parent() == home && !dir.ends_with("shims");
        let opened = if right_below { dir } else { around };
        [opened, dir].into_iter().find(|dir| !holds_home(dir)).map(Path::to_owned)
    };
    let real = program.canonicalize().ok();
    [Some(program), real.as_deref()].into_iter().flatten().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripts_first_line_names_its_interpreter() {
        for (text, expected) in [
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#!/usr/bin/env -S python3 -u\n", Some("python3")),
            ("#!/usr/bin/env -S -u /etc/hosts python3\n", None),
            ("#!/usr/bin/env A=/etc/x python3\n", None),
            ("#!/bin/bash -e\nx", Some("/bin/bash")),
            ("echo", None),
            ("", None),
        ] {
            assert_eq!(interpreter(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_users_home_is_nothing_a_program_is_installed_in() {
        let home = Some(Path::new("/home/user"));
        let homes = |program: &str| homes(Path::new(program), home);
        assert_eq!(homes("/home/user/.pyenv/shims/python3"), [PathBuf::from("/home/user/.pyenv")]);
        assert_eq!(homes("/home/user/.local/bin/x"), [PathBuf::from("/home/user/.local/bin")]);
        let versions = "/home/user/.pyenv/versions/3.12";
        assert_eq!(homes(&format!("{versions}/bin/python3")), [PathBuf::from(versions)]);
        assert_eq!(homes("/home/user/bin/x"), [PathBuf::from("/home/user/bin")]);
        assert!(homes("/home/user/x").is_empty());
        assert!(homes("/home/bin/x") == [PathBuf::from("/home/bin")]);
    }
}
