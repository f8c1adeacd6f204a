//! Values become YAML text that people review: one canonical form, read the same by YAML 1.1 and 1.2.
//!
//! Not here: which key comes first in CloudFormation; the caller's [`Style`] says that.

use super::{Data, Node};

/// What a writer may decide.
pub struct Style<'a> {
    /// Returns the keys of a map that come first, in order; the others follow by name. Gets the path.
    pub first_keys: &'a dyn Fn(&[&str]) -> &'static [&'static str],
    /// Writes CloudFormation's functions as short tags.
    pub short_tags: bool,
    /// The column behind which notes stand.
    pub note_column: usize,
}

impl Style<'_> {
    /// Returns the style for everything that is not CloudFormation: sorted keys.
    #[must_use]
    pub fn plain() -> Style<'static> {
        Style { first_keys: &|_| &[], short_tags: false, note_column: 56 }
    }
}

/// Returns `node` as a YAML document that ends with a line feed.
#[must_use]
pub fn write(node: &Node, style: &Style<'_>) -> String {
    let mut writer = Writer { out: String::new(), style, path: Vec::new() };
    match &node.data {
        Data::Map(map) if !map.is_empty() => writer.map(node, 0),
        Data::List(items) if !items.is_empty() => writer.list(items, 0),
        _ => {
            writer.inline(node);
            writer.out.push('\n');
        }
    }
    writer.out
}

struct Writer<'s, 'n> {
    out: String,
    style: &'s Style<'s>,
    path: Vec<&'n str>,
}

impl<'n> Writer<'_, 'n> {
    fn map(&mut self, node: &'n Node, indent: usize) {
        let Data::Map(map) = &node.data else { return };
        let first = (self.style.first_keys)(&self.path);
        let ordered = first.iter().filter_map(|k| map.get_key_value(*k));
        let rest = map.iter().filter(|(k, _)| !first.contains(&k.as_str()));
        for (i, (key, value)) in ordered.chain(rest).enumerate() {
            // The first key of a map that is a list's item stands behind its dash.
            if i > 0 || !self.out.ends_with("- ") {
                self.pad(indent);
            }
            self.scalar(key);
            self.out.push(':');
            self.path.push(key);
            self.value(value, indent);
            self.path.pop();
        }
    }

    fn list(&mut self, items: &'n [Node], indent: usize) {
        for item in items {
            self.pad(indent);
            self.out.push_str("- ");
            self.path.push("-");
            match &item.data {
                Data::Map(map) if !map.is_empty() && self.short(item).is_none() => {
                    let line = self.out.len();
                    self.map(item, indent + 2);
                    self.note_first_line(item, line - indent - 2);
                }
                Data::List(inner) if !inner.is_empty() => {
                    self.out.truncate(self.out.trim_end().len());
                    self.out.push('\n');
                    self.list(inner, indent + 2);
                }
                _ => {
                    self.out.truncate(self.out.trim_end().len());
                    self.value(item, indent);
                }
            }
            self.path.pop();
        }
    }

    /// Writes what follows a key or a dash, from the space up to the end of the last line.
    fn value(&mut self, node: &'n Node, indent: usize) {
        if let Some((tag, body)) = self.short(node) {
            self.out.push_str(" !");
            self.out.push_str(tag);
            return match (&body.data, tag) {
                (Data::List(parts), "GetAtt") => {
                    let parts: Vec<&str> = parts.iter().filter_map(Node::as_str).collect();
                    self.out.push(' ');
                    self.out.push_str(&parts.join("."));
                    self.end_line(node);
                }
                _ => self.value(body, indent),
            };
        }
        match &node.data {
            Data::Map(map) if !map.is_empty() => {
                self.end_line(node);
                self.map(node, indent + 2);
            }
            Data::List(items) if !items.is_empty() => {
                self.end_line(node);
                self.list(items, indent + 2);
            }
            Data::String(text) if is_block(text) => self.block(text, node, indent + 2),
            _ => {
                self.out.push(' ');
                self.inline(node);
                self.end_line(node);
            }
        }
    }

    fn inline(&mut self, node: &Node) {
        match &node.data {
            Data::Null => self.out.push_str("null"),
            Data::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Data::Number(n) => self.out.push_str(&n.to_string()),
            Data::String(text) => self.scalar(text),
            Data::List(_) => self.out.push_str("[]"),
            Data::Map(_) => self.out.push_str("{}"),
        }
    }

    fn block(&mut self, text: &str, node: &Node, indent: usize) {
        self.out.push_str(if text.ends_with('\n') { " |" } else { " |-" });
        self.end_line(node);
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if !line.is_empty() {
                self.pad(indent);
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    /// Returns the short tag and its argument, where the style and YAML allow one.
    fn short<'a>(&self, node: &'a Node) -> Option<(&'static str, &'a Node)> {
        if !self.style.short_tags {
            return None;
        }
        let map = node.as_map().filter(|m| m.len() == 1)?;
        let (key, body) = map.first_key_value()?;
        let tag = SHORT_TAGS.iter().find(|(long, _)| long == key)?.1;
        let fits = match (tag, &body.data) {
            // A tag on a map, or on what has a tag itself, is not valid everywhere.
            ("GetAtt", Data::List(parts)) => {
                parts.len() == 2 && parts.iter().all(|p| p.as_str().is_some_and(is_plain_word))
            }
            (_, Data::List(parts)) => !parts.is_empty(),
            (_, Data::String(_)) => true,
            _ => false,
        };
        fits.then_some((tag, body))
    }

    fn end_line(&mut self, node: &Node) {
        if let Some(note) = node.note() {
            let start = self.out.rfind('\n').map_or(0, |p| p + 1);
            let width = self.out[start..].chars().count();
            self.pad(self.style.note_column.saturating_sub(width).max(1));
            self.out.push_str("# ");
            self.out.push_str(note);
        }
        self.out.push('\n');
    }

    fn note_first_line(&mut self, node: &Node, start: usize) {
        let Some(note) = node.note() else { return };
        let Some(end) = self.out[start..].find('\n').map(|p| start + p) else { return };
        let width = self.out[start..end].chars().count();
        let pad = self.style.note_column.saturating_sub(width).max(1);
        self.out.insert_str(end, &format!("{}# {note}", " ".repeat(pad)));
    }

    fn scalar(&mut self, text: &str) {
        if is_plain(text) { self.out.push_str(text) } else { double_quoted(text, &mut self.out) }
    }

    fn pad(&mut self, mut n: usize) {
        const SPACES: &str = "                                                                ";
        while n > SPACES.len() {
            self.out.push_str(SPACES);
            n -= SPACES.len();
        }
        self.out.push_str(&SPACES[..n]);
    }
}

const SHORT_TAGS: [(&str, &str); 9] = [
    ("Ref", "Ref"),
    ("Fn::GetAtt", "GetAtt"),
    ("Fn::Sub", "Sub"),
    ("Fn::Join", "Join"),
    ("Fn::Select", "Select"),
    ("Fn::If", "If"),
    ("Fn::Base64", "Base64"),
    ("Fn::Equals", "Equals"),
    ("Fn::Split", "Split"),
];

fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
}

/// Whether a text is written as a literal block: several lines, and nothing a block cannot hold.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n', '\t'])
        && !text.chars().any(|c| c != '\n' && c != '\t' && is_unprintable(c))
}

fn is_unprintable(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_control() } else { c.is_control() || is_break(c) }
}

fn is_break(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Returns `text` as one YAML scalar, in double quotes where any reader could take it for something else.
#[must_use]
pub fn quoted(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    double_quoted(text, &mut out);
    out
}

fn double_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_unprintable(c) => {
                let code = u32::from(c);
                out.push_str(&format!("\\u{code:04x}"));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether readers of YAML 1.1 and 1.2 both take `text`, unquoted, for this very text.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let safe_start = first.is_ascii_alphabetic() || matches!(first, '/' | '_' | '$' | '(' | '^');
    // A command's flag: two dashes and a letter begin neither a list nor a document.
    let flag = text
        .strip_prefix("--")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    let number_like = first.is_ascii_digit() && has_letter_word(text);
    if !(safe_start || flag || number_like) {
        return false;
    }
    let mut before = ' ';
    for c in text.chars() {
        let unsafe_here = match c {
            '"' | '\\' | '`' => true,
            ' ' => before == ':',
            '#' => before == ' ',
            c => is_unprintable(c),
        };
        if unsafe_here {
            return false;
        }
        before = c;
    }
    !matches!(before, ' ' | ':') && !is_word(text)
}

/// Whether a text that starts with a digit can be no number, date or time: it has a letter that neither
/// hexadecimal nor exponents know, a slash as in `10.0.0.0/16`, or two dots as in `1.36.3`.
fn has_letter_word(text: &str) -> bool {
    if text.contains('/') {
        return true;
    }
    let digits_only = text.chars().all(|c| c.is_ascii_digit() || ".:-+_ TZtz".contains(c));
    if digits_only {
        let parts: Vec<&str> = text.split('.').collect();
        return parts.len() > 2
            && parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    }
    text.chars()
        .any(|c| c.is_ascii_alphabetic() && !c.is_ascii_hexdigit() && !"xXoOeE_".contains(c))
}

/// Words that some reader takes for a truth value or nothing.
fn is_word(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "~"];
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::{Origin, SourceFile};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn text(value: Value) -> String {
        let origin = Origin::file_start(&SourceFile::new("t", ""));
        write(&Node::from_value(value, &origin), &Style { short_tags: true, ..Style::plain() })
    }

    #[test]
    fn what_readers_disagree_about_is_quoted() {
        for word in [
            "on",
            "No",
            "12:30",
            "2026-11-20",
            "1",
            "0x1f",
            "1e3",
            "",
            "null",
            "~",
            "- a",
            "a: b",
            "x #",
            "0644",
            "1_000",
            "=",
            "<<",
            "*a",
            "&b",
            "!c",
            "%d",
            "@e",
            "`f",
            "{g}",
            ".5",
            ".inf",
        ] {
            assert!(quoted(word).starts_with('"'), "{word}: {}", quoted(word));
        }
        for word in [
            "eu-west-1",
            "m7i.large",
            "1.36.3",
            "10.0.0.0/16",
            "/etc/x",
            "arn:aws:s3:::a",
            "t3a.small",
        ] {
            assert_eq!(quoted(word), word);
        }
    }

    #[test]
    fn functions_are_short_tags() {
        let value = json!({"a": {"Fn::GetAtt": ["Q", "Arn"]}, "b": [{"Ref": "X"}, {"Fn::Sub": "x\ny\n"}],
            "c": {"Fn::Sub": ["${A}", {"A": {"Ref": "B"}}]}, "d": {"Fn::Base64": {"Fn::Sub": "x"}}});
        insta::assert_snapshot!(text(value), @r#"
        a: !GetAtt Q.Arn
        b:
          - !Ref X
          - !Sub |
            x
            y
        c: !Sub
          - ${A}
          - A: !Ref B
        d:
          Fn::Base64: !Sub x
        "#);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            "[a-z0-9:.#' \"\n\t-]{0,16}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[A-Za-z0-9:.# -]{1,8}", inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in tree()) {
            let origin = Origin::file_start(&SourceFile::new("t", ""));
            let written = write(&Node::from_value(value.clone(), &origin), &Style::plain());
            let back = super::super::read(&SourceFile::new("t", written.as_str()));
            prop_assert_eq!(back.map(|n| n.to_value()), Ok(value), "{}", written);
        }
    }
}
