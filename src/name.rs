//! Names that become file names, stack names and tags: checked once, here.
//!
//! Not here: names of entities in the model, which are free text, and names AWS gives.

use std::fmt;
use std::sync::Arc;

/// The name of a plugin, a cluster or a node pool.
///
/// Lower-case letters, digits and `-`; starts with a letter, ends without `-`; at most 63 bytes. Safe
/// as a folder's name, a DNS label and a part of a CloudFormation stack's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// The form of a [`Name`], as the schemas give it.
pub const NAME_PATTERN: &str = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$";

impl Name {
    /// Returns the name, or `None` if `text` is not of the form [`NAME_PATTERN`].
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let inner =
            bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-');
        let starts = bytes.first().is_some_and(u8::is_ascii_lowercase);
        let ends = bytes.last().is_some_and(|b| *b != b'-');
        (inner && starts && ends && bytes.len() <= 63).then(|| Self(text.into()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Returns `words` as one CamelCase word, as logical ids and parameter names need it.
///
/// Every letter or digit is kept, everything else separates words: `pool:a-b` is `PoolAB`.
#[must_use]
pub fn camel(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    let mut start = true;
    for c in words.chars() {
        if !c.is_ascii_alphanumeric() {
            start = true;
        } else if start {
            out.push(c.to_ascii_uppercase());
            start = false;
        } else {
            out.push(c);
        }
    }
    out
}

/// Ends of keys under which secrets stand.
const SECRET_WORDS: [&str; 10] = [
    "password",
    "passwd",
    "pw",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "secretkey",
    "credentials",
];

/// Returns whether secrets usually stand under `key`, whatever its case and separators.
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    let plain: String =
        key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let plain = plain.strip_suffix('s').filter(|p| !p.ends_with('s')).unwrap_or(&plain);
    SECRET_WORDS.iter().any(|word| plain.ends_with(word.trim_end_matches('s')))
}

/// Returns whether a line of a file seems to hold a secret written out, and so must not be printed.
#[must_use]
pub fn holds_secret(line: &str) -> bool {
    line.match_indices(':').any(|(at, _)| {
        let word = |c: char| c.is_ascii_alphanumeric() || "_-$".contains(c);
        let key = line[..at]
            .trim_end_matches(['"', '\''])
            .rsplit(|c: char| !word(c))
            .next()
            .unwrap_or_default();
        let value = line[at + 1..].trim_start();
        let written = !value.is_empty()
            && !value.starts_with(['{', '#', '|', '>'])
            && !value.starts_with("\"{{");
        // What begins with `$` names a secret, and is none.
        !key.is_empty() && !key.starts_with('$') && is_secret_key(key) && written
    })
}

/// Returns the candidate that `word` was most likely meant to be.
///
/// At most three edits away, and fewer than the word is long; ties go to the first in order.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&word.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(edits, c)| *edits <= 3 && *edits < word.len().min(c.len()))
        .min()
        .map(|(_, c)| c)
}

/// Returns the name of the platform that this binary is for.
#[must_use]
pub fn platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{os}-{arch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_folders_and_labels() {
        for good in ["a", "acme-agent", "p2", "x".repeat(63).as_str()] {
            assert!(Name::new(good).is_some(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "..", "a/b", "2a", "x".repeat(64).as_str()] {
            assert!(Name::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn camel_keeps_every_letter_and_digit() {
        assert_eq!(camel("acme-agent.QueueArn"), "AcmeAgentQueueArn");
        assert_eq!(camel("image/ubuntu-24.04/amd64"), "ImageUbuntu2404Amd64");
    }

    #[test]
    fn lines_with_secrets_are_told() {
        for line in
            ["password: hunter2", "a: {clientSecret: hunter2}", "tokens: [x]", "  api-key: '12'"]
        {
            assert!(holds_secret(line), "{line}");
        }
        for line in ["clientSecret: {$secret: a}", "token:", "name: x", "secrets: {}", "# note: x"]
        {
            assert!(!holds_secret(line), "{line}");
        }
    }

    #[test]
    fn typos_find_their_word() {
        assert_eq!(did_you_mean("lables", ["labels", "taints"]), Some("labels"));
        assert_eq!(did_you_mean("x", ["labels"]), None);
    }
}
