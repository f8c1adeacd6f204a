//! The log: lines on standard error.

use std::io::{Write as _, stderr};

use serde_json::json;

/// Writes a line of the log, as `log("info", "…")`. kaws shows it when something goes wrong.
pub fn log(level: &str, message: impl AsRef<str>) {
    let line = json!({"level": level, "message": message.as_ref()});
    // Whoever does not listen misses it.
    let _ = writeln!(stderr(), "{line}");
}
