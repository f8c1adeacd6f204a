//! The order of plugins: ranks from `order.yaml`, edges from manifests, and the seals between.
//!
//! Not here: calling them (`pipeline`).

use std::collections::{BTreeMap, BTreeSet};

use petgraph::graph::DiGraph;

use crate::finding::{Finding, Findings};
use crate::model::Stage;
use crate::origin::Origin;
use crate::schema::{Schema, Wording};
use crate::value::{Data, Node};

/// The word for all plugins that the file does not name.
const REST: &str = "rest";

/// One step of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Plugins that get the same input, by name.
    Rank(Vec<String>),
    /// Parts of the model that are finished here.
    Seal(Vec<String>),
}

/// An entry of `order.yaml`.
#[derive(Clone, Debug)]
struct Entry {
    what: What,
    origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Rank(Vec<String>),
    Rest,
    Seal(Vec<String>),
}

/// `order.yaml`, read.
#[derive(Clone, Debug)]
pub struct Order {
    initialise: Vec<Entry>,
    render: Vec<Entry>,
}

/// A plugin, as far as its order goes.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// Its name.
    pub name: String,
    /// Whether it does anything in the stage.
    pub acts: bool,
    /// The plugins it comes after, each with the place that says so.
    pub after: Vec<(String, Origin)>,
}

impl Order {
    /// Reads the order of kaws's own plugins.
    ///
    /// # Errors
    /// All that is wrong with the file.
    pub fn read(node: &Node) -> Result<Self, Findings> {
        let entry = serde_json::json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            {"type": "object", "required": ["seal"], "properties": {"seal": {"type": "array", "items": {"type": "string"}}}},
        ]});
        let list = serde_json::json!({"type": "array", "items": entry});
        let schema = serde_json::json!({"type": "object", "properties": {"initialise": list, "render": list}});
        let schema = Schema::compile(&schema).expect("it is constant");
        let wording = Wording { area: "order", subject: "order.yaml", label: None, source: None };
        let node = node.clone().without_nulls();
        let findings = schema.check(&node, &wording);
        if !findings.is_empty() {
            return Err(findings);
        }
        let order = Self {
            initialise: entries(node.get("initialise")),
            render: entries(node.get("render")),
        };
        let twice = order.named_twice();
        if twice.is_empty() { Ok(order) } else { Err(twice) }
    }

    /// Puts the plugins of a cluster's own `order.yaml` behind the anchors it names.
    ///
    /// # Errors
    /// Built-in plugins that it would move, and seals, which it cannot have.
    pub fn with_cluster(mut self, own: &Self) -> Result<Self, Findings> {
        let mut findings = Findings::new();
        for (base, own) in
            [(&mut self.initialise, &own.initialise), (&mut self.render, &own.render)]
        {
            insert(base, own, &mut findings);
        }
        if findings.is_empty() { Ok(self) } else { Err(findings) }
    }

    /// Returns all plugins that the file names, with the place.
    pub fn names(&self) -> impl Iterator<Item = (&str, &Origin)> {
        let of = |entry: &Entry| match &entry.what {
            What::Rank(names) => names.clone(),
            _ => Vec::new(),
        };
        self.initialise.iter().chain(&self.render).flat_map(move |entry| {
            let count = of(entry).len();
            (0..count).filter_map(move |i| match &entry.what {
                What::Rank(names) => Some((names[i].as_str(), &entry.origin)),
                _ => None,
            })
        })
    }

    fn named_twice(&self) -> Findings {
        let mut findings = Findings::new();
        for entries in [&self.initialise, &self.render] {
            let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
            for entry in entries {
                let names: Vec<&str> = match &entry.what {
                    What::Rank(names) => names.iter().map(String::as_str).collect(),
                    What::Rest => vec![REST],
                    What::Seal(_) => Vec::new(),
                };
                for name in names {
                    if let Some(first) = seen.insert(name, &entry.origin) {
                        let finding = Finding::fatal(
                            "order/cycle",
                            format!("`{name}` stands twice in the order"),
                        );
                        findings.push(
                            finding.at_with(&entry.origin, "again").related(first, "first here"),
                        );
                    }
                }
            }
        }
        findings
    }

    /// Returns the steps of a stage.
    ///
    /// Plugins that the file does not name come at `rest`, or last; among themselves by what they say
    /// they come after.
    ///
    /// # Errors
    /// Cycles, and edges against the file, each with every line involved.
    pub fn steps(&self, stage: Stage, plugins: &[Ordered]) -> Result<Vec<Step>, Findings> {
        let mut entries =
            if stage == Stage::Render { self.render.clone() } else { self.initialise.clone() };
        if !entries.iter().any(|e| e.what == What::Rest) {
            let origin = entries.last().map(|e| e.origin.clone());
            let origin = origin.unwrap_or_else(|| {
                Origin::file_start(&crate::origin::SourceFile::new("order.yaml", ""))
            });
            entries.push(Entry { what: What::Rest, origin });
        }
        let acting: BTreeMap<&str, &Ordered> =
            plugins.iter().filter(|p| p.acts).map(|p| (p.name.as_str(), p)).collect();
        let slots = slots(&entries, &acting);
        let findings = against_file(&entries, &slots, &acting);
        if !findings.is_empty() {
            return Err(findings);
        }
        let mut steps = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            match &entry.what {
                What::Seal(parts) => steps.push(Step::Seal(parts.clone())),
                What::Rank(names) => {
                    let here: Vec<String> =
                        names.iter().filter(|n| acting.contains_key(n.as_str())).cloned().collect();
                    steps.extend((!here.is_empty()).then_some(Step::Rank(here)));
                }
                What::Rest => {
                    let rest: Vec<&Ordered> =
                        acting.values().filter(|p| slots[p.name.as_str()] == i).copied().collect();
                    steps.extend(levels(&rest)?.into_iter().map(Step::Rank));
                }
            }
        }
        Ok(steps)
    }
}

fn entries(node: Option<&Node>) -> Vec<Entry> {
    let texts = |items: &[Node]| {
        items.iter().filter_map(|i| i.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let entry = |node: &Node| {
        let what = match &node.data {
            Data::String(word) if &**word == REST => What::Rest,
            Data::String(word) => What::Rank(vec![word.to_string()]),
            Data::List(items) => What::Rank(texts(items)),
            _ => What::Seal(texts(node.get("seal").and_then(Node::as_list).unwrap_or_default())),
        };
        Entry { what, origin: node.origin.clone() }
    };
    node.and_then(Node::as_list).unwrap_or_default().iter().map(entry).collect()
}

/// Returns the entry each plugin stands in; those not named stand in `rest`.
fn slots<'p>(
    entries: &[Entry],
    plugins: &BTreeMap<&'p str, &'p Ordered>,
) -> BTreeMap<&'p str, usize> {
    let rest = entries.iter().position(|e| e.what == What::Rest).unwrap_or(entries.len());
    let slot = |name: &str| {
        let named = entries
            .iter()
            .position(|e| matches!(&e.what, What::Rank(names) if names.iter().any(|n| n == name)));
        named.unwrap_or(rest)
    };
    plugins.keys().map(|name| (*name, slot(name))).collect()
}

fn against_file(
    entries: &[Entry],
    slots: &BTreeMap<&str, usize>,
    plugins: &BTreeMap<&str, &Ordered>,
) -> Findings {
    let mut findings = Findings::new();
    for plugin in plugins.values() {
        for (other, origin) in &plugin.after {
            let (Some(mine), Some(theirs)) =
                (slots.get(plugin.name.as_str()), slots.get(other.as_str()))
            else {
                continue;
            };
            let both_rest = mine == theirs && entries[*mine].what == What::Rest;
            if theirs < mine || both_rest {
                continue;
            }
            let text =
                format!("{} comes after {other}, and order.yaml says otherwise", plugin.name);
            let mut finding = Finding::fatal("order/against-file", text)
                .at_with(origin, format!("after {other}"));
            for (name, slot) in [(plugin.name.as_str(), *mine), (other.as_str(), *theirs)] {
                let what = if entries[slot].what == What::Rest {
                    format!("{name} is one of the rest")
                } else {
                    format!("{name} stands here")
                };
                finding = finding.related(&entries[slot].origin, what);
            }
            findings.push(finding);
        }
    }
    findings
}

/// Returns the plugins of `rest` in ranks: each comes right after the last of those it waits for.
fn levels(plugins: &[&Ordered]) -> Result<Vec<Vec<String>>, Findings> {
    let mut graph = DiGraph::<&Ordered, ()>::new();
    let nodes: BTreeMap<&str, _> =
        plugins.iter().map(|p| (p.name.as_str(), graph.add_node(p))).collect();
    for plugin in plugins {
        for (other, _) in &plugin.after {
            if let Some(from) = nodes.get(other.as_str()) {
                graph.update_edge(*from, nodes[plugin.name.as_str()], ());
            }
        }
    }
    let Ok(sorted) = petgraph::algo::toposort(&graph, None) else { return Err(cycles(&graph)) };
    let mut level: BTreeMap<&str, usize> = BTreeMap::new();
    for index in sorted {
        let before = graph.neighbors_directed(index, petgraph::Direction::Incoming);
        let mine =
            before.filter_map(|b| level.get(graph[b].name.as_str())).max().map_or(0, |l| l + 1);
        level.insert(&graph[index].name, mine);
    }
    let mut ranks = vec![Vec::new(); level.values().max().map_or(0, |l| l + 1)];
    for (name, rank) in level {
        ranks[rank].push(name.to_owned());
    }
    Ok(ranks)
}

fn cycles(graph: &DiGraph<&Ordered, ()>) -> Findings {
    let components = petgraph::algo::tarjan_scc(graph);
    let circles = components.into_iter().filter(|c| c.len() > 1 || graph.contains_edge(c[0], c[0]));
    circles
        .map(|circle| {
            let mut names: Vec<&str> = circle.iter().map(|i| graph[*i].name.as_str()).collect();
            names.sort_unstable();
            let inside: BTreeSet<&str> = names.iter().copied().collect();
            let text = format!("plugins come after each other in a circle: {}", names.join(", "));
            let lines = circle.iter().flat_map(|i| {
                let plugin = graph[*i];
                let inner =
                    plugin.after.iter().filter(|(other, _)| inside.contains(other.as_str()));
                inner.map(move |(other, origin)| (origin, format!("{} after {other}", plugin.name)))
            });
            let mut lines: Vec<_> = lines.collect();
            lines.sort();
            let first = Finding::fatal("order/cycle", text);
            let first = match lines.first() {
                Some((origin, label)) => first.at_with(origin, label.clone()),
                None => first,
            };
            lines.iter().skip(1).fold(first, |f, (origin, label)| f.related(origin, label.clone()))
        })
        .collect()
}

/// Inserts a cluster's own entries behind the anchors among them.
fn insert(base: &mut Vec<Entry>, own: &[Entry], findings: &mut Findings) {
    let position = |base: &[Entry], name: &str| {
        base.iter().position(|e| match &e.what {
            What::Rank(names) => names.iter().any(|n| n == name),
            What::Rest => name == REST,
            What::Seal(_) => false,
        })
    };
    let original = base.clone();
    let mut at = 0;
    for entry in own {
        let names = match &entry.what {
            What::Rank(names) => names.clone(),
            What::Rest => vec![REST.to_owned()],
            What::Seal(_) => {
                let text = "only kaws's own order.yaml finishes parts of the model";
                findings.push(Finding::fatal("order/moves-builtin", text).at(&entry.origin));
                continue;
            }
        };
        let anchors: Vec<usize> = names.iter().filter_map(|n| position(&original, n)).collect();
        match (anchors.as_slice(), names.len()) {
            ([], _) => {
                base.insert(at, entry.clone());
                at += 1;
            }
            ([_], 1) => {
                let here = position(base, &names[0]).unwrap_or(at);
                if here < at {
                    let text =
                        format!("`{}` would be moved: kaws's own order has it earlier", names[0]);
                    findings.push(Finding::fatal("order/moves-builtin", text).at(&entry.origin));
                }
                at = at.max(here + 1);
            }
            _ => {
                let text = "a built-in plugin can be an anchor, and not a part of another rank";
                findings.push(Finding::fatal("order/moves-builtin", text).at(&entry.origin));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::SourceFile;

    fn order(text: &str) -> Order {
        Order::read(&crate::value::read(&SourceFile::new("order.yaml", text)).unwrap()).unwrap()
    }

    fn plugins(list: &[(&str, &[&str])]) -> Vec<Ordered> {
        let origin = Origin::file_start(&SourceFile::new("plugin.yaml", ""));
        let after =
            |others: &[&str]| others.iter().map(|o| ((*o).to_owned(), origin.clone())).collect();
        list.iter()
            .map(|(name, others)| Ordered {
                name: (*name).to_owned(),
                acts: true,
                after: after(others),
            })
            .collect()
    }

    fn shown(steps: &[Step]) -> String {
        let one = |step: &Step| match step {
            Step::Rank(names) => names.join("+"),
            Step::Seal(parts) => format!("seal({})", parts.join("+")),
        };
        steps.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_rest_comes_last_where_it_is_not_written() {
        let order = order("initialise: [b, [a, c]]");
        let steps = order
            .steps(Stage::Initialise, &plugins(&[("x", &[]), ("a", &[]), ("b", &[]), ("c", &[])]))
            .unwrap();
        assert_eq!(shown(&steps), "b a+c x");
    }

    #[test]
    fn the_rest_is_ranked_by_what_it_waits_for() {
        let order = order("render: [a, rest, {seal: [stacks]}, z]");
        let list = plugins(&[("z", &[]), ("p", &["q"]), ("q", &["a"]), ("r", &[]), ("a", &[])]);
        assert_eq!(shown(&order.steps(Stage::Render, &list).unwrap()), "a q+r p seal(stacks) z");
    }

    #[test]
    fn a_circle_names_every_line() {
        let findings = order("{}")
            .steps(Stage::Render, &plugins(&[("p", &["q"]), ("q", &["p"])]))
            .unwrap_err();
        let finding = findings.iter().next().unwrap();
        assert_eq!(finding.message, "plugins come after each other in a circle: p, q");
        assert_eq!(finding.related.len(), 1);
    }

    #[test]
    fn an_edge_against_the_file_is_refused() {
        let findings = order("render: [a, b]")
            .steps(Stage::Render, &plugins(&[("a", &["b"]), ("b", &[])]))
            .unwrap_err();
        assert_eq!(findings.iter().next().unwrap().code, "order/against-file");
    }

    #[test]
    fn a_clusters_own_order_stands_behind_its_anchors() {
        let base = order("initialise: [a, rest, b]");
        let merged = base.clone().with_cluster(&order("initialise: [a, mine, b, [x, y]]")).unwrap();
        let list =
            plugins(&[("a", &[]), ("b", &[]), ("mine", &[]), ("x", &[]), ("y", &[]), ("o", &[])]);
        assert_eq!(shown(&merged.steps(Stage::Initialise, &list).unwrap()), "a mine o b x+y");
        let moved = base.with_cluster(&order("initialise: [b, mine, a]")).unwrap_err();
        assert_eq!(moved.iter().next().unwrap().code, "order/moves-builtin");
    }
}
