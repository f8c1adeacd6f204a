//! `kaws graph`: stacks and their order, plugins and their ranks, as DOT or Mermaid.

use std::fmt::Write as _;

use super::commands::rendered;
use super::exit::Exit;
use super::report::say;
use super::{Common, Output};
use crate::model::{Stage, stack_edges};
use crate::order::Step;
use crate::run::Run;

/// A graph to draw.
#[derive(Default)]
struct Graph {
    /// Clusters of nodes by title; a title of nothing stands for none.
    ranks: Vec<(String, Vec<String>)>,
    edges: Vec<(String, String)>,
}

/// Prints a graph.
pub(super) fn run(common: &Common, what: &str, form: &str) -> Exit {
    let run = match rendered(common) {
        Ok(run) => run,
        Err(exit) => return exit,
    };
    let graph = if what == "plugins" { plugins(&run) } else { stacks(&run) };
    match (common.output, form) {
        (Output::Json, _) => {
            let edges: Vec<_> =
                graph.edges.iter().map(|(a, b)| serde_json::json!({"from": a, "to": b})).collect();
            let ranks: Vec<_> = graph
                .ranks
                .iter()
                .map(|(t, n)| serde_json::json!({"title": t, "nodes": n}))
                .collect();
            say(&serde_json::json!({"ranks": ranks, "edges": edges}).to_string());
        }
        (_, "mermaid") => say(&mermaid(&graph)),
        _ => say(&dot(&graph)),
    }
    Exit::Done
}

fn stacks(run: &Run) -> Graph {
    let edges = stack_edges(&run.rendered.model);
    let rendered =
        |stack: &str| run.rendered.artifacts.contains_key(&format!("stacks/{stack}.yaml"));
    let names: Vec<String> = edges.keys().filter(|s| rendered(s)).cloned().collect();
    let mut graph = Graph { ranks: vec![(String::new(), names)], ..Graph::default() };
    for (stack, others) in edges.iter().filter(|(s, _)| rendered(s)) {
        graph.edges.extend(
            others.keys().filter(|o| rendered(o)).map(|other| (other.clone(), stack.clone())),
        );
    }
    graph
}

fn plugins(run: &Run) -> Graph {
    let setup = &run.setup;
    let mut graph = Graph::default();
    for stage in [Stage::Initialise, Stage::Render] {
        let word = if stage == Stage::Render { "render" } else { "initialise" };
        let steps =
            setup.order.steps(stage, &crate::pipeline::ordered(setup, stage)).unwrap_or_default();
        let mut number = 0;
        for step in steps {
            match step {
                Step::Rank(names) => {
                    number += 1;
                    let names = names.iter().map(|n| format!("{word}: {n}")).collect();
                    graph.ranks.push((format!("{word}, rank {number}"), names));
                }
                Step::Seal(parts) => graph
                    .ranks
                    .push((format!("{word}, seal"), vec![format!("seal: {}", parts.join(", "))])),
            }
        }
    }
    let firsts: Vec<String> =
        graph.ranks.iter().filter_map(|(_, names)| names.first().cloned()).collect();
    graph.edges = firsts.windows(2).map(|w| (w[0].clone(), w[1].clone())).collect();
    graph
}

fn dot(graph: &Graph) -> String {
    let mut out =
        "digraph kaws {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n".to_owned();
    for (i, (title, names)) in graph.ranks.iter().enumerate() {
        let inside = !title.is_empty();
        if inside {
            let _ = writeln!(out, "  subgraph cluster_{i} {{\n    label=\"{title}\";");
        }
        for name in names {
            let _ = writeln!(out, "    \"{name}\";");
        }
        if inside {
            out.push_str("  }\n");
        }
    }
    for (from, to) in &graph.edges {
        let _ = writeln!(out, "  \"{from}\" -> \"{to}\";");
    }
    out.push('}');
    out
}

fn mermaid(graph: &Graph) -> String {
    let id = |name: &str| {
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>()
    };
    let mut out = "flowchart LR\n".to_owned();
    for (i, (title, names)) in graph.ranks.iter().enumerate() {
        let inside = !title.is_empty();
        if inside {
            let _ = writeln!(out, "  subgraph r{i}[\"{title}\"]");
        }
        for name in names {
            let _ = writeln!(out, "    {}[\"{name}\"]", id(name));
        }
        if inside {
            out.push_str("  end\n");
        }
    }
    for (from, to) in &graph.edges {
        let _ = writeln!(out, "  {} --> {}", id(from), id(to));
    }
    out.trim_end().to_owned()
}
