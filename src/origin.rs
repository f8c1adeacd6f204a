//! Where something stands: a file and the bytes in it. Every finding and every value points here.
//!
//! Not here: reading files. A [`SourceFile`] is text that somebody has already read.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A file as people know it, with its text.
#[derive(PartialEq, Eq)]
pub struct SourceFile {
    /// What is printed: `cluster.yaml`, `plugins/acme-agent/plugin.yaml`, `builtin:network/plugin.yaml`.
    pub name: String,
    /// The whole text; empty for places in kaws's own code, whose offsets are line numbers.
    pub text: String,
}

impl SourceFile {
    /// Returns the file, ready to be shared by all origins in it.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), text: text.into() })
    }
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A place: a range of bytes in a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin {
    file: Arc<SourceFile>,
    start: u32,
    end: u32,
}

impl Origin {
    /// Returns the place from byte `start` up to byte `end` of `file`.
    #[must_use]
    pub fn new(file: &Arc<SourceFile>, start: usize, end: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { file: Arc::clone(file), start: clamp(start), end: clamp(end.max(start)) }
    }

    /// Returns the file as a whole.
    #[must_use]
    pub fn file_start(file: &Arc<SourceFile>) -> Self {
        Self::new(file, 0, 0)
    }

    /// Returns a place in kaws's own code, for what native plugins contribute.
    #[must_use]
    pub fn code(plugin: &str, place: &std::panic::Location<'_>) -> Self {
        let file = SourceFile::new(format!("builtin:{plugin} ({})", place.file()), "");
        Self::new(&file, place.line() as usize, place.line() as usize)
    }

    /// Returns the same place without its text, for lines that must not be printed.
    #[must_use]
    pub fn hidden(&self) -> Self {
        let (line, column) = self.line_column();
        let file = SourceFile::new(format!("{}:{line}:{column}", self.file.name), "");
        Self::file_start(&file)
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &Arc<SourceFile> {
        &self.file
    }

    /// Returns the bytes the place covers, cut to the file's text.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<usize> {
        let end = (self.end as usize).min(self.file.text.len());
        (self.start as usize).min(end)..end
    }

    /// Returns whether there is text to show, and not only a name and a line.
    #[must_use]
    pub fn has_text(&self) -> bool {
        !self.file.text.is_empty()
    }

    /// Returns the part of this place from byte `from` to byte `to`, counted from its start.
    #[must_use]
    pub fn part(&self, from: usize, to: usize) -> Self {
        Self::new(&self.file, self.start as usize + from, self.start as usize + to)
    }

    /// Returns the line and the column, both from 1, columns in characters.
    #[must_use]
    pub fn line_column(&self) -> (usize, usize) {
        if !self.has_text() {
            return (self.start as usize, 1);
        }
        let before = &self.file.text.as_bytes()[..self.range().start];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
        (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
    }
}

/// Prints `file:line:column`, as compilers do and editors open; `file:line` in kaws's own code.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        if self.has_text() {
            write!(f, "{}:{line}:{column}", self.file.name)
        } else if line == 0 {
            f.write_str(&self.file.name)
        } else {
            let name = self.file.name.trim_end_matches(')');
            let close = if name.len() < self.file.name.len() { ")" } else { "" };
            write!(f, "{name}:{line}{close}")
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Origin {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.file.name, self.start, self.end).cmp(&(&other.file.name, other.start, other.end))
    }
}

impl PartialOrd for Origin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_not_bytes() {
        let file = SourceFile::new("a.yaml", "a: 1\nß: zwölf\n");
        let at = file.text.find("zw").unwrap();
        assert_eq!(Origin::new(&file, at, at + 2).to_string(), "a.yaml:2:4");
    }

    #[test]
    fn a_place_past_the_end_is_cut_to_the_text() {
        let file = SourceFile::new("a.yaml", "abc");
        assert_eq!(Origin::new(&file, 10, 20).range(), 3..3);
    }

    #[test]
    fn code_prints_its_line_inside_the_parenthesis() {
        let origin = Origin::code("network", std::panic::Location::caller());
        let text = origin.to_string();
        assert!(text.starts_with("builtin:network (src/origin.rs:"), "{text}");
        assert!(text.ends_with(')'), "{text}");
    }
}
