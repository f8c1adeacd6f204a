//! Prints findings in rustc's look, or as JSON.

use serde_json::{Value, json};

use crate::finding::{Findings, findings_text};
use crate::origin::Origin;

/// Prints text to standard output; a closed pipe is no mistake.
pub(super) fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(anstream::stdout(), "{text}");
}

/// Prints an error of kaws itself.
pub(super) fn say_error(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(anstream::stderr(), "error: {text}");
}

/// Prints a line to standard error, below an error.
pub(super) fn say_line(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints an error and what caused it.
pub(super) fn say_failure(error: &dyn std::error::Error) {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    say_error(&text);
}

/// Prints findings to standard error.
pub(super) fn say_findings(findings: &Findings, styled: bool) {
    use std::io::Write as _;
    let text = findings_text(findings, styled);
    let _ = write!(anstream::stderr(), "{text}");
}

/// Returns the line that counts findings, and says what became of the files.
#[must_use]
pub fn summary_line(findings: &Findings) -> String {
    let (fatal, warnings) = findings.counts();
    format!("{fatal} fatal, {warnings} {}", if warnings == 1 { "warning" } else { "warnings" })
}

/// Returns findings as JSON.
#[must_use]
pub fn findings_json(findings: &Findings) -> Value {
    let place = |origin: &Origin| {
        let (line, column) = origin.line_column();
        json!({"file": origin.file().name, "line": line, "column": column})
    };
    findings
        .iter()
        .map(|f| {
            json!({
                "severity": f.severity, "code": f.code, "message": f.message,
                "place": f.origin.as_ref().map(place), "label": f.label,
                "related": f.related.iter().map(|(o, l)| json!({"place": place(o), "label": l})).collect::<Vec<_>>(),
                "notes": f.notes, "help": f.help, "plugin": f.plugin.as_ref().map(ToString::to_string),
            })
        })
        .collect()
}
