//! Builds a plugin's program, as its manifest says: the author's own command, in the author's own folder. Nothing else
//! runs it: not rendering, not installing.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the manifest's `build`, if there is one; returns what it says when it fails.
#[expect(clippy::disallowed_methods, reason = "an author's command, run in the author's folder")]
pub(super) fn build(dir: &Path) -> Result<(), String> {
    let Some(words) = words(dir) else { return Ok(()) };
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let command = words.join(" ");
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{command}` cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("`{command}` failed: {}\n{}", output.status, String::from_utf8_lossy(&said)))
}

/// The words of the command; what is wrong with the manifest is said when it is read for good.
#[expect(clippy::disallowed_methods, reason = "the manifest is a file of the plugin")]
fn words(dir: &Path) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(dir.join("plugin.yaml")).ok()?;
    let file = crate::origin::SourceFile::new("plugin.yaml", text);
    let node = crate::value::read(&file).ok()?;
    let words = node.get("build")?.as_list()?;
    words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}
