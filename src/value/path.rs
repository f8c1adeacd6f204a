//! The one way to write a place in the model: `machines.worker.files["/etc/x.conf"]`.

use std::fmt;

/// A place in a tree of maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub Vec<String>);

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at character {at} of `{text}`")]
pub struct PathError {
    /// What was typed.
    pub text: String,
    /// The character, counted from 1.
    pub at: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl Path {
    /// Returns the path made of `segments`.
    pub fn of<S: Into<String>>(segments: impl IntoIterator<Item = S>) -> Self {
        Self(segments.into_iter().map(Into::into).collect())
    }

    /// Reads a path as people write it.
    ///
    /// Segments are separated by dots; one with other signs than letters, digits, `-`, `_`, `:`, `/`
    /// stands in brackets and double quotes.
    ///
    /// # Errors
    /// The first character that does not fit.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let fail = |at: usize, reason| {
            let at = text[..at].chars().count() + 1;
            PathError { text: text.to_owned(), at, reason }
        };
        let mut segments = Vec::new();
        let mut rest = text;
        loop {
            let at = text.len() - rest.len();
            if let Some(quoted) = rest.strip_prefix("[\"") {
                let (segment, after) =
                    bracketed(quoted).ok_or_else(|| fail(at, "`[\"` without `\"]`"))?;
                segments.push(segment);
                rest = after;
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                if end == 0 {
                    return Err(fail(at, "a name is missing"));
                }
                segments.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
            match rest.as_bytes().first() {
                None => return Ok(Self(segments)),
                Some(b'.') => rest = &rest[1..],
                Some(b'[') => {}
                Some(_) => return Err(fail(text.len() - rest.len(), "`.` or `[` is missing")),
            }
        }
    }

    /// Returns the path with one more segment.
    #[must_use]
    pub fn join(&self, segment: impl Into<String>) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment.into());
        Self(segments)
    }

    /// Returns whether this is `prefix` or lies below it.
    #[must_use]
    pub fn starts_with(&self, prefix: &Self) -> bool {
        self.0.starts_with(&prefix.0)
    }

    /// Returns the segments.
    #[must_use]
    pub fn segments(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

fn bracketed(quoted: &str) -> Option<(String, &str)> {
    let mut segment = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => segment.push(chars.next()?.1),
            '"' => return Some((segment, quoted[at + 1..].strip_prefix(']')?)),
            _ => segment.push(c),
        }
    }
    None
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.0.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
            if segment.is_empty() || !segment.chars().all(plain) {
                write!(f, "[\"{}\"]", segment.replace('\\', "\\\\").replace('"', "\\\""))?;
            } else {
                write!(f, "{}{segment}", if i == 0 { "" } else { "." })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_stand_only_where_they_are_needed() {
        let path = Path::of(["machines", "pool:gpu", "files", "/etc/x.conf"]);
        assert_eq!(path.to_string(), r#"machines.pool:gpu.files["/etc/x.conf"]"#);
    }

    #[test]
    fn a_missing_bracket_is_named_with_its_place() {
        let error = Path::parse("a[\"b").unwrap_err();
        assert_eq!(error.to_string(), "`[\"` without `\"]` at character 2 of `a[\"b`");
        assert_eq!(Path::parse("a..b").unwrap_err().at, 3);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(segments in prop::collection::vec(".{1,8}", 1..5)) {
            let path = Path(segments);
            prop_assert_eq!(Path::parse(&path.to_string()), Ok(path));
        }
    }
}
