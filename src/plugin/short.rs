//! Short manifests: one command, script or native plugin in four lines, spelled out as what they stand for.
//!
//! Not here: what hooks do (`builtin::hooks`).

use std::collections::BTreeMap;

use crate::finding::{Finding, Findings};
use crate::model::{HOST_EVENTS, NODE_EVENTS};
use crate::name::did_you_mean;
use crate::value::{Data, Node};

/// What a short manifest can say.
const KEYS: [&str; 14] = [
    "apiVersion",
    "name",
    "version",
    "description",
    "type",
    "behavior",
    "command",
    "script",
    "sha256",
    "container",
    "event",
    "nodes",
    "timeout",
    "$when",
];
/// What goes into the hook just as it stands.
const OF_HOOK: [&str; 7] =
    ["behavior", "command", "script", "sha256", "container", "timeout", "$when"];

/// Returns a manifest with everything that a short one leaves out; any other manifest stays what it is.
///
/// # Errors
/// All that is wrong with a short one.
pub(super) fn spelled_out(node: Node) -> Result<Node, Findings> {
    let Some(kind) = node.get("type") else { return Ok(node) };
    let mut findings = Findings::new();
    for (key, value) in node.as_map().into_iter().flatten() {
        if !KEYS.contains(&key.as_str()) {
            let text = format!("a manifest with a `type` is a short one, and has no `{key}`");
            let finding = Finding::fatal("plugin/unknown-key", text).at(value.key_origin());
            findings.push(match did_you_mean(key, KEYS.iter().copied()) {
                Some(near) => finding.help(format!("did you mean `{near}`?")),
                None => finding.help(format!("it has: {}", KEYS.join(", "))),
            });
        }
    }
    let written = node.get("name").and_then(Node::as_str).unwrap_or_default();
    let name = kebab(written);
    let mut body = match kind.as_str() {
        Some("shell-exec") => hook(&node, &name, &mut findings),
        Some("plugin") => native(&node, &mut findings),
        _ => {
            let text = "a short manifest is of the type shell-exec, or plugin";
            findings.push(Finding::fatal("plugin/value", text).at(&kind.origin));
            BTreeMap::new()
        }
    };
    if !findings.is_empty() {
        return Err(findings);
    }
    let text = |text: &str| Node::string(text.to_owned(), node.origin.clone());
    let kept =
        |key: &str, otherwise: &str| node.get(key).cloned().unwrap_or_else(|| text(otherwise));
    body.insert("apiVersion".to_owned(), kept("apiVersion", crate::config::API_VERSION));
    body.insert("version".to_owned(), kept("version", "0.0.0"));
    body.insert("description".to_owned(), kept("description", &said(&node)));
    let own = node.get("name").map_or_else(
        || text(""),
        |own| Node { data: Data::String(name.as_str().into()), ..own.clone() },
    );
    body.insert("name".to_owned(), own);
    Ok(Node { data: Data::Map(body), ..node.clone() })
}

/// `CustomTags` is the plugin `custom-tags`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() && !kebab.ends_with('-') {
            kebab.push('-');
        }
        kebab.push(if c == '_' || c == ' ' { '-' } else { c.to_ascii_lowercase() });
    }
    kebab
}

/// What it does, in a sentence.
fn said(node: &Node) -> String {
    let what = |key: &str| node.get(key).and_then(Node::as_str);
    match (what("command"), what("script")) {
        (Some(command), _) => format!("Runs `{}`.", command.lines().next().unwrap_or_default()),
        (None, Some(script)) => format!("Runs {script}."),
        _ => "Does what the code of its name does.".to_owned(),
    }
}

type Body = BTreeMap<String, Node>;

/// A hook: by default of machines, once they have started.
fn hook(node: &Node, name: &str, findings: &mut Findings) -> Body {
    let given = ["command", "script", "container"].iter().filter(|key| node.get(key).is_some());
    if given.count() != 1 {
        let text = "it runs nothing, or several things";
        findings.push(
            Finding::fatal("plugin/value", text)
                .at(&node.origin)
                .help("write one of command, script, container"),
        );
    }
    let event = node.get("event").and_then(Node::as_str).unwrap_or(NODE_EVENTS[1]);
    let all: Vec<&str> = NODE_EVENTS.iter().chain(&HOST_EVENTS).copied().collect();
    let at = |key: &str| node.get(key).map_or(&node.origin, |node| &node.origin);
    if !all.contains(&event) {
        let finding =
            Finding::fatal("plugin/value", format!("there is no event `{event}`")).at(at("event"));
        findings.push(match did_you_mean(event, all.iter().copied()) {
            Some(near) => finding.help(format!("did you mean `{near}`?")),
            None => finding.help(format!("there are: {}", all.join(", "))),
        });
    }
    let waits = node.get("behavior").and_then(Node::as_str).is_none_or(|b| !b.starts_with("async"));
    if HOST_EVENTS.contains(&event) && !waits {
        let text =
            format!("kaws waits for hooks of {event}: nobody would be there to hear how it ended");
        findings.push(
            Finding::fatal("hooks/form", text)
                .at(at("behavior"))
                .help("sync-enforce, or sync-bypass"),
        );
    }
    let list = |words: &[&str]| {
        let words = words.iter().map(|word| Node::string((*word).to_owned(), node.origin.clone()));
        Node::new(Data::List(words.collect()), node.origin.clone())
    };
    let map = |key: &str, inner: Node| {
        Node::new(Data::Map(BTreeMap::from([(key.to_owned(), inner)])), node.origin.clone())
    };
    let parts = OF_HOOK.iter().filter_map(|key| Some(((*key).to_owned(), node.get(key)?.clone())));
    let own = Node {
        key: Some(node.origin.clone()),
        ..Node::new(Data::Map(parts.collect()), node.origin.clone())
    };
    let mut body = BTreeMap::from([
        ("writes".to_owned(), list(&[&format!("hooks.{event}")])),
        ("initialise".to_owned(), map("hooks", map(event, map(name, own)))),
    ]);
    if NODE_EVENTS.contains(&event) {
        let nodes = node.get("nodes").cloned().unwrap_or_else(|| list(&["controller", "worker"]));
        body.insert("nodes".to_owned(), nodes);
    } else if let Some(nodes) = node.get("nodes") {
        let text = format!("{event} happens where kaws runs, and on no machines");
        findings.push(Finding::fatal("plugin/value", text).at(nodes.key_origin()));
    }
    body
}

/// Code of this name, in the binary.
fn native(node: &Node, findings: &mut Findings) -> Body {
    for key in OF_HOOK.iter().chain(&["event", "nodes"]).filter(|key| **key != "behavior") {
        if let Some(other) = node.get(key) {
            let text = format!("code in the binary has no `{key}`");
            findings.push(Finding::fatal("plugin/value", text).at(other.key_origin()));
        }
    }
    if let Some(behavior) = node.get("behavior").filter(|b| b.as_str() != Some("sync-enforce")) {
        let text = "code in the binary is waited for, and its findings count";
        findings
            .push(Finding::fatal("plugin/value", text).at(&behavior.origin).help("sync-enforce"));
    }
    let yes = Node::new(Data::Bool(true), node.origin.clone());
    let native = Data::Map(BTreeMap::from([("native".to_owned(), yes)]));
    let native = Node::new(native, node.origin.clone());
    // Whichever stage it has a part in: in the other it adds nothing.
    BTreeMap::from([("initialise".to_owned(), native.clone()), ("render".to_owned(), native)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::SourceFile;

    #[test]
    fn names_of_types_become_names_of_plugins() {
        for (written, expected) in
            [("CustomTags", "custom-tags"), ("ex1", "ex1"), ("my_hook", "my-hook")]
        {
            assert_eq!(kebab(written), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_said_at_once() {
        let file = SourceFile::new(
            "plugin.yaml",
            "{name: x, type: shell-exec, event: after-deplyo, behavior: async-bypass, comand: a}",
        );
        let findings = spelled_out(crate::value::read(&file).unwrap()).unwrap_err();
        let said: Vec<&str> = findings.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(said.len(), 3, "{said:?}");
    }
}
