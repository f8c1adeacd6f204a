//! The table of all codes: what each means and what to do. `kaws explain CODE` and the reference page
//! print it; a test holds the sources against it.

mod outcome;
mod written;

/// A kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// `area/name`.
    pub code: &'static str,
    /// What it means, in full sentences.
    pub meaning: &'static str,
}

const fn code(code: &'static str, meaning: &'static str) -> Code {
    Code { code, meaning }
}

/// Returns every code, sorted.
pub fn codes() -> impl Iterator<Item = &'static Code> {
    let mut all: Vec<_> = written::CODES.iter().chain(outcome::CODES).collect();
    all.sort_unstable_by_key(|code| code.code);
    all.into_iter()
}

/// Areas whose files are checked against a JSON Schema.
pub const SCHEMA_AREAS: [&str; 8] =
    ["accept", "case", "config", "lock", "model", "order", "plugin", "settings"];

/// What can be wrong with a value in one of [`SCHEMA_AREAS`]; the code is `area/kind`.
pub const SCHEMA_KINDS: &[(&str, &str)] = &[
    ("enum", "The value is none of those that are possible."),
    ("format", "The text is not of the form asked for."),
    ("missing", "A key that must be there is not."),
    ("pattern", "The text does not match the pattern asked for."),
    ("range", "The value is too small, too large, or has too few or too many parts."),
    (
        "type",
        "The value is of another type than asked for. Versions and account numbers are text: write them in quotes.",
    ),
    ("unknown-key", "There is no setting of this name. Nothing is guessed and nothing ignored."),
    ("value", "The value is not one of the forms asked for."),
];

/// Returns what `code` means.
#[must_use]
pub fn explanation(code: &str) -> Option<&'static str> {
    if let Some(known) = codes().find(|c| c.code == code) {
        return Some(known.meaning);
    }
    let (area, kind) = code.split_once('/')?;
    SCHEMA_AREAS.contains(&area).then_some(())?;
    SCHEMA_KINDS.iter().find(|(k, _)| *k == kind).map(|(_, meaning)| *meaning)
}
