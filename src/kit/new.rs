//! `kaws plugin new`: a plugin to start from, in one of the languages there is an SDK for, with its cases.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use super::Error;
use crate::name::Name;

static STARTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sdk/new");
static RUST: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sdk/rust/src");
/// The name that stands in the files.
const PLACEHOLDER: &str = "my-plugin";

/// What a plugin is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum Language {
    /// YAML and templates.
    Declared,
    /// bash and jq.
    Bash,
    /// Python, without anything to install.
    Python,
    /// Go, without anything to download.
    Go,
    /// Rust.
    Rust,
}

/// Writes a plugin's folder; its name is the folder's. Returns the files, seen from there.
///
/// # Errors
/// A folder that is there already, or whose name is none for a plugin; files that cannot be written.
pub fn new(dir: &Path, language: Language) -> Result<Vec<PathBuf>, Error> {
    let refused =
        |text: String| Error::Io { path: dir.to_owned(), source: std::io::Error::other(text) };
    let name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if Name::new(&name).is_none() || name == "cluster" {
        let text = format!("`{name}` is no name for a plugin: lower-case letters, digits and `-`");
        return Err(refused(text));
    }
    if dir.exists() {
        return Err(refused("it is there already".to_owned()));
    }
    let mut written = Vec::new();
    for (path, text) in files(language) {
        let path = PathBuf::from(path.replace(PLACEHOLDER, &name));
        write(&dir.join(&path), &text.replace(PLACEHOLDER, &name))?;
        written.push(path);
    }
    written.sort();
    Ok(written)
}

/// Returns the files of a start: what all have, the language's own, and the SDK, of which each plugin has a copy: it
/// needs nothing from outside, and stays as it is when kaws is another one.
fn files(language: Language) -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    for part in ["common", language.as_ref()] {
        if let Some(dir) = STARTS.get_dir(part) {
            collect(dir, part, "", &mut all);
        }
    }
    let more: &[(&str, &str)] = match language {
        Language::Declared | Language::Bash => &[],
        Language::Python => &[("kaws.py", include_str!("../../sdk/python/kaws.py"))],
        Language::Go => &[
            ("kaws/kaws.go", include_str!("../../sdk/go/kaws.go")),
            ("kaws/main.go", include_str!("../../sdk/go/main.go")),
            ("kaws/request.go", include_str!("../../sdk/go/request.go")),
            ("kaws/response.go", include_str!("../../sdk/go/response.go")),
        ],
        Language::Rust => {
            collect(&RUST, "", "kaws-sdk/src/", &mut all);
            &[("kaws-sdk/Cargo.toml", SDK)]
        }
    };
    all.extend(more.iter().map(|(path, text)| ((*path).to_owned(), *text)));
    all
}

/// The SDK's manifest, as a part of a plugin.
const SDK: &str = "\
[package]
name = \"kaws-sdk\"
version = \"0.1.0\"
edition = \"2024\"
license = \"Apache-2.0\"

[dependencies]
serde = { version = \"1\", features = [\"derive\"] }
serde_json = \"1\"
";

fn collect(
    dir: &'static Dir<'static>,
    root: &str,
    at: &str,
    all: &mut Vec<(String, &'static str)>,
) {
    for file in dir.files() {
        let path = file.path().strip_prefix(root).unwrap_or(file.path()).to_string_lossy();
        // Under their own names these would mean something here, too.
        let path = match path.as_ref() {
            "gitignore" => ".gitignore".to_owned(),
            "Cargo.toml.in" => "Cargo.toml".to_owned(),
            path => format!("{at}{path}"),
        };
        all.extend(file.contents_utf8().map(|text| (path, text)));
    }
    dir.dirs().for_each(|inner| collect(inner, root, at, all));
}

#[expect(clippy::disallowed_methods, reason = "the command that writes a plugin's folder")]
fn write(path: &Path, text: &str) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    let io = |source| Error::Io { path: path.to_owned(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(io)?;
    std::fs::write(path, text).map_err(io)?;
    if text.starts_with("#!") {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(io)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator as _;

    #[test]
    fn every_language_has_a_manifest_and_cases() {
        for language in Language::iter() {
            let names: Vec<String> = files(language).into_iter().map(|(path, _)| path).collect();
            for wanted in ["plugin.yaml", "README.md", "cases/told/case.yaml"] {
                assert!(names.iter().any(|name| name == wanted), "{language:?}: {names:?}");
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the files that are to be listed here")]
    fn all_of_the_sdk_for_go_is_copied() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sdk/go")).unwrap();
        let names = folder.map(|e| e.unwrap().file_name().into_string().unwrap());
        let own = names.filter(|n| n.ends_with(".go") && !n.ends_with("_test.go"));
        let copied: Vec<String> = files(Language::Go).into_iter().map(|(path, _)| path).collect();
        own.for_each(|name| assert!(copied.contains(&format!("kaws/{name}")), "{name}"));
    }
}
