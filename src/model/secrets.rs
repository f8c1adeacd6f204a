//! Who may name a secret, and where one may stand.

use super::entities::Kind;
use super::placeholders;
use super::scope::{Split, shown};
use crate::finding::Finding;
use crate::origin::Origin;
use crate::value::Node;

/// Refuses an entity that names a secret of another plugin, or that others could read it from.
pub(super) fn check(
    body: &Node,
    path: &[&str],
    kind: Kind,
    cx: &Split<'_>,
) -> Result<(), Box<Finding>> {
    let found = foreign(body, path, cx).or_else(|| exposed(body, path, kind, cx));
    found.map_or(Ok(()), |finding| Err(Box::new(finding)))
}

/// A plugin names its own secrets; only cluster.yaml may name everybody's.
fn foreign(body: &Node, path: &[&str], cx: &Split<'_>) -> Option<Finding> {
    let own = format!("{}/", cx.plugin);
    if cx.plugin.as_str() == "cluster" || path[0] == "values" || cx.lowered {
        return None;
    }
    let mut foreign: Option<(String, Origin)> = None;
    body.walk(&mut |part| {
        let text = part.as_str().unwrap_or_default();
        let placed = placeholders(text).filter(|(word, _)| *word == "secret").map(|(_, name)| name);
        let named = part.sole("$secret").and_then(Node::as_str);
        if let Some(name) = placed.chain(named).find(|name| !name.starts_with(&own)) {
            foreign = Some((name.to_owned(), part.origin.clone()));
        }
    });
    let (name, origin) = foreign?;
    let text = format!("{} names the secret {name}, which is not its own", cx.plugin);
    let help = "a plugin reads its own secrets: {{secret \"name\"}} or {$secret: name}";
    Some(cx.fatal("template/secret", text).at(&origin).help(help))
}

/// Whether everybody may know what the name of a part of the PKI stands for.
fn is_public(name: &str) -> bool {
    [".crt", ".pub", ".id"].iter().any(|end| name.ends_with(end))
}

/// A file that holds a secret is for its owner alone, and a unit is for everybody.
fn exposed(body: &Node, path: &[&str], kind: Kind, cx: &Split<'_>) -> Option<Finding> {
    let content = body.get("content").and_then(Node::as_str).unwrap_or_default();
    let filled = body.get("fill").and_then(Node::as_bool) == Some(true);
    let secret =
        |(word, name): (&str, &str)| word == "secret" || (word == "pki" && !is_public(name));
    if !filled || !placeholders(content).any(secret) {
        return None;
    }
    let found = |text: String| cx.fatal("model/file-wider-than-secret", text);
    let path = shown(path);
    match kind {
        Kind::Unit | Kind::DropIn => {
            let text =
                format!("{path} holds a secret, and everybody on the machine may read units");
            let help = "put it into a file with mode \"0600\", and name that: EnvironmentFile=…";
            Some(found(text).at(body.key_origin()).help(help))
        }
        Kind::File => {
            let mode = body.get("mode")?;
            if mode.as_str()?.ends_with("00") {
                return None;
            }
            let text = format!("{path} holds a secret, and others than its owner may read it");
            let at = if mode.key.is_some() { &mode.origin } else { body.key_origin() };
            Some(found(text).at(at).help("write mode: \"0600\""))
        }
        _ => None,
    }
}
