//! What a name or a source of bytes must be, where no schema can say it: the keys of entities.

use super::entities::Kind;
use crate::value::Node;

/// Ends of the names of systemd units.
const UNITS: [&str; 8] =
    [".service", ".timer", ".target", ".mount", ".path", ".socket", ".slice", ".swap"];

/// Returns what is wrong with an entity's name or sources: the code, the sentence and the help.
pub(super) fn wrong(
    kind: Kind,
    path: &[&str],
    body: &Node,
) -> Option<(&'static str, String, &'static str)> {
    let name = path.last().copied().unwrap_or_default();
    let named = |text: String, help| Some(("model/name", text, help));
    match kind {
        Kind::File if !is_absolute(name) => named(
            format!("`{name}` is no place for a file"),
            "write an absolute path, without `..` and doubled slashes",
        ),
        Kind::Unit if !UNITS.iter().any(|end| name.ends_with(end)) || name.contains('/') => named(
            format!("`{name}` is no name for a unit"),
            "write name.service, name.timer, name.target, …",
        ),
        Kind::DropIn
            if !name
                .split_once('/')
                .is_some_and(|(unit, file)| unit.contains('.') && file.ends_with(".conf")) =>
        {
            named(format!("`{name}` is no name for a drop-in"), "write unit.service/10-name.conf")
        }
        Kind::Flag if name.starts_with('-') => {
            named(format!("the flag `{name}` begins with a dash"), "write the name without dashes")
        }
        _ => stack(path).or_else(|| sources(kind, name, body)),
    }
}

/// A stack's name becomes CloudFormation's, a resource's is a logical id.
fn stack(path: &[&str]) -> Option<(&'static str, String, &'static str)> {
    let ["stacks", stack, rest @ ..] = path else { return None };
    if crate::name::Name::new(stack).is_none() {
        let help = "lower-case letters, digits and `-`";
        return Some(("model/name", format!("`{stack}` is no name for a stack"), help));
    }
    let [part, id] = rest else { return None };
    let logical = ["resources", "parameters", "outputs", "conditions", "mappings"].contains(part);
    let alphanumeric =
        !id.is_empty() && id.len() <= 255 && id.chars().all(|c| c.is_ascii_alphanumeric());
    if logical && !(alphanumeric && id.starts_with(|c: char| c.is_ascii_uppercase())) {
        let help = "letters and digits, beginning with a capital";
        return Some(("model/name", format!("`{id}` is no logical id"), help));
    }
    None
}

fn sources(kind: Kind, name: &str, body: &Node) -> Option<(&'static str, String, &'static str)> {
    let keys: &[&str] = match kind {
        Kind::File => &["content", "base64", "pin"],
        Kind::Unit | Kind::DropIn => &["content"],
        _ => return None,
    };
    let count = keys.iter().filter(|key| body.get(key).is_some()).count();
    let help = "write one of content, template, file and, for files, pin";
    match count {
        1 => None,
        0 => Some(("model/source", format!("{name} has no contents"), help)),
        _ => Some(("model/source", format!("{name} has several contents"), help)),
    }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/')
        && path.len() > 1
        && path[1..].split('/').all(|s| !s.is_empty() && s != "." && s != "..")
        && !path.contains(['\0', '\n'])
}
