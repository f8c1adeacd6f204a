//! Changes single settings of a YAML file that people wrote, and leaves the rest as it is: comments, order,
//! spacing.
//!
//! Not here: writing the file.

use serde_json::Value;

use crate::finding::Findings;
use crate::origin::SourceFile;
use crate::value::{Data, Node, quoted, read};

/// Returns `text` with `value` at `path`; what is missing of the path is added.
///
/// # Errors
/// A text that is no YAML, or in which the path leads through something that is no map.
pub fn set(name: &str, text: &str, path: &[&str], value: &Value) -> Result<String, Findings> {
    let file = SourceFile::new(name, text);
    let root = read(&file)?;
    let mut at = &root;
    let mut depth = 0;
    while let Some(next) = path.get(depth).and_then(|key| at.get(key)) {
        at = next;
        depth += 1;
    }
    let (there, missing) = path.split_at(depth);
    if missing.is_empty() {
        return Ok(replaced(text, at, value));
    }
    let rest = missing[1..].iter().rev().fold(value.clone(), |inner, key| {
        Value::Object([((*key).to_owned(), inner)].into_iter().collect())
    });
    Ok(added(text, at, there, missing[0], &rest))
}

/// Puts a value in the place of another, of whatever form.
fn replaced(text: &str, node: &Node, value: &Value) -> String {
    let mut range = node.origin.range();
    let flow = text[range.clone()].starts_with(['{', '[']);
    let block = matches!(&node.data, Data::Map(map) if !map.is_empty())
        || matches!(&node.data, Data::List(items) if !items.is_empty());
    let empty = matches!(node.data, Data::Null);
    if (block && !flow) || (empty && node.key.is_some()) {
        // From behind the key up to the end of the last line that is inside.
        let key = node.key_origin().range();
        let colon = key.end + text[key.end..].find(':').map_or(0, |at| at + 1);
        range = colon..if empty { colon } else { last(text, node) };
        return format!("{} {}{}", &text[..range.start], written(value), &text[range.end..]);
    }
    format!("{}{}{}", &text[..range.start], written(value), &text[range.end..])
}

/// Where the last line of what is in a block ends.
fn last(text: &str, node: &Node) -> usize {
    let mut end = node.origin.range().end;
    node.walk(&mut |part| end = end.max(part.origin.range().end));
    end + text[end..].find('\n').unwrap_or(text.len() - end)
}

/// Adds a key to a map: first in a map of braces, below the last line in a map of lines.
fn added(text: &str, map: &Node, path: &[&str], key: &str, value: &Value) -> String {
    let range = map.origin.range();
    let entry = format!("{}: {}", quoted(key), written(value));
    if text[range.clone()].starts_with('{') {
        let inside = text[range.start + 1..range.end - 1].trim();
        let comma = if inside.is_empty() { "" } else { ", " };
        return format!("{}{{{entry}{comma}{}", &text[..range.start], &text[range.start + 1..]);
    }
    let empty = map.as_map().is_none_or(std::collections::BTreeMap::is_empty);
    if path.is_empty() {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{gap}\n{entry}\n");
    }
    if empty {
        return replaced(
            text,
            map,
            &Value::Object([(key.to_owned(), value.clone())].into_iter().collect()),
        );
    }
    let first = map.as_map().into_iter().flatten().map(|(_, n)| n.key_origin().range().start).min();
    let start = first.unwrap_or(range.start);
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let indent = &text[line..start];
    let end = last(text, map);
    format!("{}\n{indent}{entry}{}", &text[..end], &text[end..])
}

/// A value on one line.
fn written(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(k, v)| format!("{}: {}", quoted(k), written(v))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edited(text: &str, path: &[&str], value: &Value) -> String {
        let made = set("t.yaml", text, path, value).unwrap();
        let read = read(&SourceFile::new("t.yaml", made.as_str())).unwrap();
        assert_eq!(read.at(path).unwrap().to_value(), *value, "{made}");
        made
    }

    #[test]
    fn what_is_there_is_replaced_and_its_comment_stays() {
        let text = "a: 1 # one\nb:\n  c: {d: 2, e: [1]}  # two\n";
        assert_eq!(
            edited(text, &["b", "c", "d"], &json!(3)),
            "a: 1 # one\nb:\n  c: {d: 3, e: [1]}  # two\n"
        );
        assert_eq!(
            edited(text, &["b", "c", "e"], &json!([1, 2])),
            "a: 1 # one\nb:\n  c: {d: 2, e: [1, 2]}  # two\n"
        );
    }

    #[test]
    fn what_is_missing_is_added_where_it_belongs() {
        let text = "a: 1\npki:\n  # why\n  leaves: 2 # because\n\nz: 1\n";
        assert_eq!(
            edited(
                text,
                &["pki", "authorities", "etcd-ca"],
                &json!({"signs": 1, "trusted": [1, 2]})
            ),
            "a: 1\npki:\n  # why\n  leaves: 2 # because\n  authorities: {etcd-ca: {signs: 1, trusted: [1, 2]}}\n\nz: 1\n"
        );
        assert_eq!(edited("a: 1", &["pki", "leaves"], &json!(2)), "a: 1\n\npki: {leaves: 2}\n");
        assert_eq!(edited("pki: {}\n", &["pki", "leaves"], &json!(2)), "pki: {leaves: 2}\n");
        assert_eq!(
            edited("pki:\nz: 1\n", &["pki", "leaves"], &json!(2)),
            "pki: {leaves: 2}\nz: 1\n"
        );
        assert_eq!(
            edited("pki: {leaves: 2}\n", &["pki", "keys", "x"], &json!({"signs": 2})),
            "pki: {keys: {x: {signs: 2}}, leaves: 2}\n"
        );
    }

    #[test]
    fn a_block_gives_way_to_a_line() {
        let text = "t:\n  - 1\n  - 2 # two\nz: 1\n";
        assert_eq!(edited(text, &["t"], &json!([1, 2, 3])), "t: [1, 2, 3]\nz: 1\n");
    }
}
