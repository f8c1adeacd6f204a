//! cfn-lint, where it is on the PATH.

use std::process::{Command, Stdio};

use crate::plugin::Artifacts;

/// The linter, if there is one.
pub(super) struct Linter(bool);

/// Several cases can be linted at once, each in a folder of its own.
static FOLDERS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

impl Linter {
    /// Returns no linter.
    pub(super) fn none() -> Self {
        Self(false)
    }

    #[expect(clippy::disallowed_methods, reason = "the linter is a program of its own")]
    pub(super) fn find() -> Self {
        let answer = Command::new("cfn-lint")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        Self(answer.is_ok_and(|status| status.success()))
    }

    /// Returns what is said of it in the report.
    pub(super) fn said(&self) -> &'static str {
        if self.0 { "every stack lints" } else { "not linted: cfn-lint is not on the PATH" }
    }

    /// Returns what the linter complains about; zones are written out on purpose, which W3010 is about, in the stacks among `artifacts`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the linter is a program of its own, and reads files"
    )]
    pub(super) fn lint(&self, artifacts: &Artifacts) -> Option<String> {
        if !self.0 {
            return None;
        }
        let number = FOLDERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("kaws-lint-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let mut files = Vec::new();
        for (path, artifact) in artifacts.iter().filter(|(path, _)| path.starts_with("stacks/")) {
            let file = folder.join(path.trim_start_matches("stacks/"));
            std::fs::write(&file, &artifact.bytes).ok()?;
            files.push(file);
        }
        let output = Command::new("cfn-lint")
            .args(["--ignore-checks", "W3010", "--format", "parseable", "--"])
            .args(&files)
            .stdin(Stdio::null())
            .output();
        let _ = std::fs::remove_dir_all(&folder);
        let output = output.ok()?;
        let text =
            String::from_utf8_lossy(&output.stdout).replace(&format!("{}/", folder.display()), "");
        (!output.status.success()).then(|| format!("cfn-lint complains:\n{text}"))
    }
}
