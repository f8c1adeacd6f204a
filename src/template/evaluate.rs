//! Contributions are evaluated: leaves, keys, and the words that begin with `$`.

use std::collections::BTreeMap;

use super::{Engine, Expression, Scope, is_template, is_truthy};
use crate::finding::{Finding, Findings, Outcome};
use crate::name::did_you_mean;
use crate::origin::Origin;
use crate::value::{Data, Node};

/// Returns `node` with everything evaluated; parts that fail are left out and found.
pub fn evaluate(node: &Node, scope: &Scope<'_>, engine: &Engine) -> Outcome<Node> {
    let mut run = Run { engine, findings: Findings::new() };
    let value = run.node(node, scope).unwrap_or_else(|| Node::new(Data::Null, node.origin.clone()));
    Outcome { value, findings: run.findings }
}

/// The words that begin with `$`.
const WORDS: [&str; 11] = [
    "$default", "$each", "$literal", "$lock", "$output", "$pki", "$secret", "$source", "$type",
    "$value", "$when",
];

struct Run<'e> {
    engine: &'e Engine,
    findings: Findings,
}

impl Run<'_> {
    /// Returns the value, or nothing where there is none: null, or not `$when`.
    fn node(&mut self, node: &Node, scope: &Scope<'_>) -> Option<Node> {
        match &node.data {
            Data::Null => None,
            Data::String(text) if is_template(text) => self.leaf(text, node, scope),
            Data::List(items) => {
                let items = items.iter().flat_map(|item| self.item(item, scope)).collect();
                Some(Node { data: Data::List(items), ..node.clone_shell() })
            }
            Data::Map(map) => self.map(map, node, scope),
            Data::Bool(_) | Data::Number(_) | Data::String(_) => Some(node.clone()),
        }
    }

    fn map(
        &mut self,
        map: &BTreeMap<String, Node>,
        node: &Node,
        scope: &Scope<'_>,
    ) -> Option<Node> {
        if let Some(when) = map.get("$when") {
            if !self.condition(when, scope) {
                return None;
            }
            let mut rest = node.clone();
            rest.as_map_mut()?.remove("$when");
            // Without its condition a map with nothing in it says nothing.
            return (map.len() > 1).then(|| self.node(&rest, scope)).flatten();
        }
        if let Some(literal) = node.sole("$literal") {
            return Some(Node { key: node.key.clone(), ..literal.clone() });
        }
        // The value itself, where an entry of `$each` is no map.
        if let Some(value) = node.sole("$value") {
            return self.node(value, scope).map(|value| Node { key: node.key.clone(), ..value });
        }
        if let Some(name) = node.sole("$secret").and_then(Node::as_str) {
            let full = if name.contains('/') {
                name.to_owned()
            } else {
                format!("{}/{name}", scope.plugin)
            };
            let value = Node::string(full, node.origin.clone());
            return Some(Node {
                data: Data::Map([("$secret".to_owned(), value)].into()),
                ..node.clone_shell()
            });
        }
        self.unknown_words(map);
        let mut out = BTreeMap::new();
        for (key, value) in map {
            for (key, value) in self.entries(key, value, scope) {
                if let Some(first) = out.get(&key) {
                    let first: &Node = first;
                    let finding = Finding::fatal(
                        "template/duplicate-key",
                        format!("`{key}` is made here twice"),
                    );
                    let at = value.key_origin().clone();
                    self.findings.push(finding.at(&at).related(first.key_origin(), "first here"));
                }
                out.insert(key, value);
            }
        }
        Some(Node { data: Data::Map(out), ..node.clone_shell() })
    }

    /// A word that begins with `$` and is none of kaws's is a typo, or data of others.
    fn unknown_words(&mut self, map: &BTreeMap<String, Node>) {
        for (key, value) in
            map.iter().filter(|(key, _)| key.starts_with('$') && !WORDS.contains(&key.as_str()))
        {
            let finding =
                Finding::fatal("template/unknown-word", format!("`{key}` is no word of kaws's"));
            let finding = match did_you_mean(key, WORDS) {
                Some(near) => {
                    finding.at_with(value.key_origin(), format!("did you mean `{near}`?"))
                }
                None => finding.at(value.key_origin()),
            };
            self.findings.push(finding.help("data with such keys stands in {$literal: …}"));
        }
    }

    /// Returns the entries that one entry of a map gives: one, none, or one for each item of `$each`.
    fn entries(&mut self, key: &str, value: &Node, scope: &Scope<'_>) -> Vec<(String, Node)> {
        let Some((over, body)) = each(value) else {
            // The value first: where it is not there, its key need not make sense.
            let Some(value) = self.node(value, scope) else { return Vec::new() };
            return self.key(key, &value, scope).map(|key| (key, value)).into_iter().collect();
        };
        let mut entries = Vec::new();
        for (name, item) in self.items(over, scope) {
            let inner = scope.with("key", &name).with("value", &item);
            if let Some(body) = self.node(&body, &inner) {
                entries.extend(self.key(key, value, &inner).map(|key| (key, body)));
            }
        }
        entries
    }

    fn item(&mut self, item: &Node, scope: &Scope<'_>) -> Vec<Node> {
        let Some((over, body)) = each(item) else {
            return self.node(item, scope).into_iter().collect();
        };
        let mut out = Vec::new();
        for (name, value) in self.items(over, scope) {
            let inner = scope.with("key", &name).with("value", &value);
            out.extend(self.node(&body, &inner));
        }
        out
    }

    /// Returns what `$each` goes over, as pairs of key and value.
    fn items(&mut self, over: &Node, scope: &Scope<'_>) -> Vec<(Node, Node)> {
        let Some(source) = self.expression(&each_source(over), over, scope) else {
            return Vec::new();
        };
        let origin = over.origin.clone();
        let text = |text: &str| Node::string(text, origin.clone());
        match source.data {
            Data::Null => Vec::new(),
            Data::List(items) => {
                let keyed = |(i, item): (usize, Node)| (Node::from_value(i.into(), &origin), item);
                items.into_iter().enumerate().map(keyed).collect()
            }
            Data::Map(map) => map.into_iter().map(|(k, v)| (text(&k), v)).collect(),
            _ => {
                let finding = Finding::fatal("template/each", "`$each` needs a list or a map");
                self.findings.push(finding.at(&over.origin));
                Vec::new()
            }
        }
    }

    fn condition(&mut self, when: &Node, scope: &Scope<'_>) -> bool {
        match &when.data {
            Data::String(text) => {
                self.expression(text, when, scope).is_some_and(|value| is_truthy(&value))
            }
            _ => is_truthy(when),
        }
    }

    fn expression(&mut self, text: &str, at: &Node, scope: &Scope<'_>) -> Option<Node> {
        let text = text.trim().trim_start_matches("{{").trim_end_matches("}}");
        let parsed = self.engine.expression(text);
        let expression = match parsed {
            Ok(expression) => expression,
            Err(reason) => {
                let message = format!(
                    "`{text}` is no expression: {}",
                    reason.lines().next().unwrap_or_default()
                );
                self.findings.push(Finding::fatal("template/syntax", message).at(&at.origin));
                return None;
            }
        };
        self.value(&expression, &at.origin, scope)
    }

    fn value(
        &mut self,
        expression: &Expression,
        origin: &Origin,
        scope: &Scope<'_>,
    ) -> Option<Node> {
        match expression.evaluate(scope, origin) {
            Ok(node) => Some(node),
            Err(error) => {
                self.findings.push(Finding::fatal("template/failed", error.to_string()).at(origin));
                None
            }
        }
    }

    fn key(&mut self, key: &str, value: &Node, scope: &Scope<'_>) -> Option<String> {
        if !is_template(key) {
            return Some(key.to_owned());
        }
        let text = self.engine.render(key, scope, value.key_origin());
        text.map_err(|finding| self.findings.push(*finding)).ok()
    }

    fn leaf(&mut self, text: &str, node: &Node, scope: &Scope<'_>) -> Option<Node> {
        let template = match self.engine.parse(text, &node.origin) {
            Ok(template) => template,
            Err(finding) => {
                self.findings.push(*finding);
                return None;
            }
        };
        if let Some(expression) = Expression::sole(&template) {
            let value = self.value(&expression, &node.origin, scope)?;
            return (!value.is_null()).then(|| Node { key: node.key.clone(), ..value });
        }
        match self.engine.fill(&template, text, scope, &node.origin) {
            Ok(text) => {
                let causes = super::check::causes(&template, scope);
                Some(
                    Node { data: Data::String(text.into()), ..node.clone_shell() }
                        .caused_by(causes),
                )
            }
            Err(finding) => {
                self.findings.push(*finding);
                None
            }
        }
    }
}

/// Returns what a map repeats over, and the map without that word.
pub(super) fn each(node: &Node) -> Option<(&Node, Node)> {
    let over = node.as_map()?.get("$each")?;
    let mut body = node.clone();
    body.as_map_mut()?.remove("$each");
    Some((over, body))
}

/// Returns the expression of `$each`: `zones` and `pools` are short for the cluster's.
pub(super) fn each_source(over: &Node) -> String {
    match over.as_str() {
        Some("zones") => "cluster.network.zones".to_owned(),
        Some("pools") => "cluster.nodePools".to_owned(),
        other => other.unwrap_or_default().to_owned(),
    }
}
