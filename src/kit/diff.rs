//! What a plugin changes in what is rendered, by paths and not by line numbers.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::origin::SourceFile;
use crate::plugin::{Artifact, Artifacts};
use crate::value::{Node, read};

/// The changes, file by file.
pub(super) struct Difference {
    files: Vec<Changed>,
}

struct Changed {
    mark: char,
    path: String,
    mode: Option<u32>,
    lines: Vec<String>,
}

/// Files that follow from others: they would only repeat what is shown.
const DERIVED: [&str; 2] = ["manifest.yaml", "model.yaml"];

/// Returns what differs.
pub(super) fn diff(base: &Artifacts, with: &Artifacts) -> Difference {
    let paths: BTreeSet<&String> =
        base.keys().chain(with.keys()).filter(|p| !DERIVED.contains(&p.as_str())).collect();
    let one = |path: &String| {
        let (mark, lines) = match (base.get(path), with.get(path)) {
            (Some(a), Some(b)) if a.bytes == b.bytes => return None,
            (Some(a), Some(b)) => ('~', changed(path, a, b)),
            (None, Some(b)) => {
                ('+', text(b).lines().map(|l| format!("  {l}").trim_end().to_owned()).collect())
            }
            (Some(_), None) => ('-', Vec::new()),
            (None, None) => return None,
        };
        let mode =
            with.get(path).filter(|_| mark == '+' && path.contains("/bundle/")).map(|a| a.mode);
        Some(Changed { mark, path: path.clone(), mode, lines })
    };
    Difference { files: paths.into_iter().filter_map(one).collect() }
}

impl Difference {
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for file in &self.files {
            let mode = file.mode.map(|mode| format!("   {mode:04o}")).unwrap_or_default();
            out.push_str(&format!("{} {}{mode}\n", file.mark, file.path));
            for line in &file.lines {
                out.push_str(format!("  {line}").trim_end());
                out.push('\n');
            }
        }
        if self.files.is_empty() {
            out.push_str("nothing\n");
        }
        out
    }

    pub(super) fn summary(&self) -> String {
        let values: usize = self
            .files
            .iter()
            .filter(|f| f.mark == '~' && !f.path.starts_with("nodes/"))
            .map(|f| f.lines.len())
            .sum();
        let stacks = self.files.iter().filter(|f| f.path.starts_with("stacks/")).count();
        let groups: BTreeSet<&str> = self
            .files
            .iter()
            .filter_map(|f| f.path.strip_prefix("nodes/")?.split('/').next())
            .collect();
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        format!(
            "{}, {}, {}",
            plural(values, "value"),
            plural(stacks, "stack"),
            plural(groups.len(), "node group")
        )
    }
}

fn text(artifact: &Artifact) -> String {
    let text = String::from_utf8_lossy(&artifact.bytes).into_owned();
    without_comments(&stable(&text))
}

/// Comments name owners: they are worth no line here.
fn without_comments(text: &str) -> String {
    let keep = |line: &&str| {
        !line.starts_with('#') || line.starts_with("#!") || line.starts_with("#cloud-config")
    };
    text.lines()
        .filter(keep)
        .map(|l| l.split("    # ").next().unwrap_or(l).trim_end().to_owned() + "\n")
        .collect()
}

fn changed(path: &str, a: &Artifact, b: &Artifact) -> Vec<String> {
    let parse = |artifact: &Artifact| {
        let text = String::from_utf8_lossy(&artifact.bytes).into_owned();
        read(&SourceFile::new(path, text)).ok().map(|n| Node::to_value(&n))
    };
    if path.ends_with(".yaml")
        && !path.starts_with("nodes/")
        && let (Some(a), Some(b)) = (parse(a), parse(b))
    {
        let mut lines = Vec::new();
        values(&a, &b, &mut String::new(), &mut lines);
        return lines;
    }
    let (a, b) = (text(a), text(b));
    if a == b {
        vec!["~ bundle".to_owned()]
    } else {
        lines(&a, &b).lines().map(str::to_owned).collect()
    }
}

/// Hashes change with every byte of a bundle: that one changed is enough to know.
fn stable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = String::new();
    for c in text.chars().chain(std::iter::once('\n')) {
        if c.is_ascii_hexdigit() && !c.is_ascii_uppercase() {
            run.push(c);
            continue;
        }
        out.push_str(if run.len() == 64 { "<sha256>" } else { &run });
        run.clear();
        out.push(c);
    }
    out.pop();
    out
}

fn values(a: &Value, b: &Value, path: &mut String, lines: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                entry(x.get(key), y.get(key), &format!(".{key}"), path, lines);
            }
        }
        (Value::Array(x), Value::Array(y)) => {
            let keys: BTreeSet<String> = x.iter().chain(y).map(identity).collect();
            for key in keys {
                let find = |items: &[Value]| items.iter().find(|i| identity(i) == key).cloned();
                entry(find(x).as_ref(), find(y).as_ref(), &format!("[{key}]"), path, lines);
            }
        }
        (a, b) if a != b => {
            let (old, new) = (stable(&shown(a)), stable(&shown(b)));
            let path = path.trim_start_matches('.');
            match (old == new, old.contains("\\n") || new.contains("\\n")) {
                (true, _) => lines.push(format!("~ {path}: another bundle")),
                (_, true) => {
                    lines.push(format!("~ {path}:"));
                    let text = |v: &Value| stable(v.as_str().unwrap_or_default());
                    lines.extend(
                        self::lines(&text(a), &text(b)).lines().map(|l| format!("    {l}")),
                    );
                }
                _ => lines.push(format!("~ {path}: {old} → {new}")),
            }
        }
        _ => {}
    }
}

fn entry(
    a: Option<&Value>,
    b: Option<&Value>,
    segment: &str,
    path: &mut String,
    lines: &mut Vec<String>,
) {
    let length = path.len();
    path.push_str(segment);
    match (a, b) {
        // The text itself is a file of its own, and shown there.
        (Some(a), Some(b)) if segment == ".UserData" => {
            if a != b {
                lines.push(format!(
                    "~ {}: another bundle, or other outputs",
                    path.trim_start_matches('.')
                ));
            }
        }
        (Some(a), Some(b)) => values(a, b, path, lines),
        (None, Some(b)) => {
            lines.push(format!("+ {}: {}", path.trim_start_matches('.'), stable(&shown(b))));
        }
        (Some(a), None) => {
            lines.push(format!("- {}: {}", path.trim_start_matches('.'), stable(&shown(a))));
        }
        (None, None) => {}
    }
    path.truncate(length);
}

/// What tells items of a list apart: their Sid, key or name, or else all they are.
fn identity(item: &Value) -> String {
    let named = ["Sid", "Key", "PolicyName", "ResourceType", "DeviceName"]
        .iter()
        .find_map(|k| item.get(*k)?.as_str());
    named.map_or_else(|| shown(item), str::to_owned)
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(
        || value.to_string(),
        |s| if s.contains('\n') { value.to_string() } else { s.to_owned() },
    )
}

/// Returns the lines that two texts do not share, in order: a longest common subsequence between.
pub(super) fn lines(a: &str, b: &str) -> String {
    let (x, y): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    let mut length = vec![vec![0_u32; y.len() + 1]; x.len() + 1];
    for i in (0..x.len()).rev() {
        for j in (0..y.len()).rev() {
            length[i][j] = if x[i] == y[j] {
                length[i + 1][j + 1] + 1
            } else {
                length[i + 1][j].max(length[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < x.len() || j < y.len() {
        if i < x.len() && j < y.len() && x[i] == y[j] {
            i += 1;
            j += 1;
        } else if j < y.len() && (i == x.len() || length[i][j + 1] >= length[i + 1][j]) {
            out.push_str(&format!("+ {}\n", y[j]));
            j += 1;
        } else {
            out.push_str(&format!("- {}\n", x[i]));
            i += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_compared_by_what_their_items_are_called() {
        let a = json!({"S": [{"Sid": "A", "x": 1}, {"Sid": "B"}]});
        let b = json!({"S": [{"Sid": "B"}, {"Sid": "A", "x": 2}, {"Sid": "C"}]});
        let mut found = Vec::new();
        values(&a, &b, &mut String::new(), &mut found);
        assert_eq!(found, ["~ S[A].x: 1 → 2", "+ S[C]: {\"Sid\":\"C\"}"]);
    }

    #[test]
    fn lines_that_both_have_are_not_shown() {
        assert_eq!(lines("a\nb\nc\n", "a\nc\nd\n"), "- b\n+ d\n");
    }

    #[test]
    fn hashes_do_not_make_a_difference_of_their_own() {
        assert_eq!(stable(&format!("x {} y", "0".repeat(64))), "x <sha256> y");
        assert_eq!(stable("abc 0123"), "abc 0123");
    }
}
