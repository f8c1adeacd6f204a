//! `kaws init`.

use std::path::Path;

use serde_json::json;

use super::Exit;
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output};
use crate::load::EXAMPLE;

/// What git need not keep.
const GITIGNORE: &str = "# The local cloud and the editor's schema of kaws.\n.kaws/\n";

/// Writes a cluster's folder; what is there stays.
#[expect(
    clippy::disallowed_methods,
    reason = "init writes three small files into a folder of the user's"
)]
pub(super) fn run(dir: &Path, common: &Common) -> Exit {
    let cluster = dir.join("cluster.yaml");
    if cluster.exists() {
        say_error(&format!("{} is there already; kaws render reads it", cluster.display()));
        return Exit::Findings;
    }
    let schema = dir.join(".kaws/schema.json");
    let text = serde_json::to_string_pretty(&super::schema::cluster(common)).unwrap_or_default();
    let files = [
        (cluster, EXAMPLE.to_owned()),
        (dir.join(".gitignore"), GITIGNORE.to_owned()),
        (schema, text),
    ];
    let mut written = Vec::new();
    for (path, text) in files {
        if path.exists() {
            continue;
        }
        let folder = path.parent().unwrap_or(dir);
        if let Err(error) =
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text))
        {
            say_error(&format!("cannot write {}: {error}", path.display()));
            return Exit::Files;
        }
        written.push(path.display().to_string());
    }
    match common.output {
        Output::Json => say(&json!({"written": written}).to_string()),
        Output::Text => {
            say(&format!("Wrote {}.", written.join(", ")));
            let enter = if dir == Path::new(".") {
                String::new()
            } else {
                format!("cd {} && ", dir.display())
            };
            say(&format!(
                "Next: put your account, region and zones into cluster.yaml, then {enter}kaws render"
            ));
        }
    }
    Exit::Done
}
