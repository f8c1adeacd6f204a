//! `kaws plugin new`.

use std::path::Path;

use super::Exit;
use crate::cli::arguments::Language;
use crate::cli::report::{say, say_failure};
use crate::kit;

/// Writes the folder, and says what is next.
pub(super) fn run(dir: &Path, language: Language) -> Exit {
    let language = match language {
        Language::Declared => kit::Language::Declared,
        Language::Bash => kit::Language::Bash,
        Language::Python => kit::Language::Python,
        Language::Go => kit::Language::Go,
        Language::Rust => kit::Language::Rust,
    };
    match kit::new(dir, language) {
        Ok(files) => {
            let shown = dir.display();
            say(&format!("Wrote {shown}: {} files", files.len()));
            say(&format!("  {shown}/plugin.yaml    what it is, and what can be set"));
            say(&format!("  kaws plugin test {shown}"));
            let name = dir.file_name().map(|name| name.to_string_lossy().into_owned());
            say(&format!(
                "  plugins: {{{}: {{}}}}    in cluster.yaml turns it on",
                name.unwrap_or_default()
            ));
            Exit::Done
        }
        Err(error) => {
            say_failure(&error);
            Exit::Files
        }
    }
}
