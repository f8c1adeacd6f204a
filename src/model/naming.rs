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
        Kind::Statement if !name.chars().all(|c| c.is_ascii_alphanumeric()) => {
            named(format!("`{name}` is no Sid"), "letters and digits alone")
        }
        Kind::Rule if ["workers", "controllers"].contains(&path[1]) => {
            let help = "the shared groups are `worker` and `controller`";
            named(format!("`{}` is no name for a security group", path[1]), help)
        }
        Kind::Rule => rule(body),
        Kind::Sysctl | Kind::Switch
            if name.contains(['\n', '\0']) || name.split('/').any(|s| s == "..") =>
        {
            named(format!("`{name}` is no name here"), "one line, without `..`")
        }
        _ => stack(path).or_else(|| sources(kind, name, body)),
    }
}

/// A rule's ports and source, where AWS would refuse them.
fn rule(body: &Node) -> Option<(&'static str, String, &'static str)> {
    let protocol = body.get("protocol").and_then(Node::as_str).unwrap_or_default();
    let port = body.get("port").map(Node::to_value);
    let wrong = |text: String, help| Some(("model/rule", text, help));
    match (protocol, &port) {
        ("tcp" | "udp", None) => {
            return wrong(format!("a rule for {protocol} needs a port"), "write port: 443");
        }
        ("icmp" | "all", Some(_)) => {
            return wrong(format!("a rule for {protocol} has no port"), "leave it out");
        }
        _ => {}
    }
    if let Some((first, last)) =
        port.as_ref().and_then(|p| p.as_str()).and_then(|p| p.split_once('-'))
    {
        let (first, last) =
            (first.parse::<u32>().unwrap_or(0), last.parse::<u32>().unwrap_or(u32::MAX));
        if first > last || last > 65_535 {
            return wrong(
                format!("{first}-{last} is no range of ports"),
                "from 0 to 65535, the smaller first",
            );
        }
    }
    let cidr = body.at(&["from", "cidr"]).and_then(Node::as_str)?;
    let text = format!("`{cidr}` is no IPv4 network");
    if cidr.parse::<ipnet::Ipv4Net>().is_err() {
        wrong(text, "write it as 10.0.0.0/16")
    } else {
        None
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
        1 => {
            use base64::Engine as _;
            let encoded = body.get("base64").and_then(Node::as_str)?;
            let broken = base64::engine::general_purpose::STANDARD.decode(encoded).is_err();
            broken.then(|| {
                (
                    "model/source",
                    format!("the contents of {name} are no Base64"),
                    "standard, with padding",
                )
            })
        }
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
