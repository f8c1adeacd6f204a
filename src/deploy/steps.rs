//! The graph of steps, and how it is worked through: several at a time, each after those it waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};

use super::error::Error;
use super::watch::{Progress, StepState, Watcher};

/// Steps and their order.
#[derive(Debug, Default)]
pub struct Steps {
    graph: DiGraph<String, ()>,
    index: BTreeMap<String, NodeIndex>,
}

/// How working through the graph ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// The steps that failed, and why, in the order in which they did.
    pub failed: Vec<(String, Error)>,
    /// Those that were not begun.
    pub not_run: Vec<String>,
    /// Whether it was stopped from outside.
    pub stopped: bool,
}

impl Steps {
    /// Adds a step.
    pub fn add(&mut self, name: &str) -> NodeIndex {
        if let Some(at) = self.index.get(name) {
            return *at;
        }
        let at = self.graph.add_node(name.to_owned());
        self.index.insert(name.to_owned(), at);
        at
    }

    /// Says that `later` waits for `first`; of steps that are not there it says nothing.
    pub fn before(&mut self, first: &str, later: &str) {
        if let (Some(a), Some(b)) = (self.index.get(first), self.index.get(later)) {
            self.graph.update_edge(*a, *b, ());
        }
    }

    /// Returns all steps, each after those it waits for.
    ///
    /// # Errors
    /// Steps that wait for each other.
    pub fn order(&self) -> Result<Vec<String>, Error> {
        match petgraph::algo::toposort(&self.graph, None) {
            Ok(order) => Ok(self.ranked(&order)),
            Err(_) => {
                let circles = petgraph::algo::tarjan_scc(&self.graph);
                let circle = circles.into_iter().find(|c| c.len() > 1).unwrap_or_default();
                Err(Error::Circle(circle.into_iter().map(|at| self.graph[at].clone()).collect()))
            }
        }
    }

    /// By how far each is from those that wait for nothing, then by name: always the same order.
    fn ranked(&self, order: &[NodeIndex]) -> Vec<String> {
        let mut rank: BTreeMap<NodeIndex, usize> = BTreeMap::new();
        for at in order {
            let before = self.graph.neighbors_directed(*at, Direction::Incoming);
            let own = before.filter_map(|b| rank.get(&b)).max().map_or(0, |r| r + 1);
            rank.insert(*at, own);
        }
        let mut all: Vec<(usize, String)> =
            rank.into_iter().map(|(at, rank)| (rank, self.graph[at].clone())).collect();
        all.sort();
        all.into_iter().map(|(_, name)| name).collect()
    }

    fn waits_for(&self, name: &str) -> BTreeSet<String> {
        let before = self.graph.neighbors_directed(self.index[name], Direction::Incoming);
        before.map(|at| self.graph[at].clone()).collect()
    }

    /// Works through the graph, `at_most` steps at a time. A step that fails lets those beside it finish;
    /// those that wait for it are not begun.
    ///
    /// # Errors
    /// Steps that wait for each other; nothing is begun then.
    pub async fn run<'a, F, Fut>(
        &self,
        at_most: usize,
        watcher: &dyn Watcher,
        run: F,
    ) -> Result<Ended, Error>
    where
        F: Fn(String) -> Fut + 'a,
        Fut: Future<Output = Result<String, Error>> + 'a,
    {
        let mut waiting = self.order()?;
        let mut done: BTreeSet<String> = BTreeSet::new();
        let mut under_way = FuturesUnordered::new();
        let mut ended = Ended::default();
        let tell = |step: &str, state: StepState, note: String| {
            watcher.on(Progress::Step { step: step.to_owned(), state, note });
        };
        for step in &waiting {
            let on = self.waits_for(step).into_iter().collect();
            tell(step, StepState::Waiting(on), String::new());
        }
        loop {
            ended.stopped = ended.stopped || watcher.stopping();
            while !ended.stopped && under_way.len() < at_most {
                let ready = waiting.iter().position(|step| self.waits_for(step).is_subset(&done));
                let Some(at) = ready else { break };
                let step = waiting.remove(at);
                tell(&step, StepState::Running, String::new());
                let work = run(step.clone());
                under_way.push(async move { (step, work.await) });
            }
            let Some((step, outcome)) = under_way.next().await else { break };
            match outcome {
                Ok(note) => {
                    tell(&step, StepState::Done, note);
                    done.insert(step);
                }
                Err(error) => {
                    tell(&step, StepState::Failed, error.to_string());
                    ended.failed.push((step, error));
                }
            }
        }
        for step in &waiting {
            tell(step, StepState::NotRun, String::new());
        }
        ended.not_run = waiting;
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::watch::Silent;
    use std::cell::RefCell;

    fn steps(edges: &[(&str, &str)]) -> Steps {
        let mut steps = Steps::default();
        for (a, b) in edges {
            steps.add(a);
            steps.add(b);
            steps.before(a, b);
        }
        steps
    }

    fn run(steps: &Steps, fails: &str) -> (Vec<String>, Ended) {
        let ran = RefCell::new(Vec::new());
        let outcome = futures_util::FutureExt::now_or_never(steps.run(
            4,
            &Silent::default(),
            async |step: String| {
                ran.borrow_mut().push(step.clone());
                if step == fails { Err(Error::Interrupted) } else { Ok(String::new()) }
            },
        ));
        (ran.into_inner(), outcome.unwrap().unwrap())
    }

    #[test]
    fn each_comes_after_those_it_waits_for() {
        let (ran, ended) = run(&steps(&[("a", "b"), ("a", "c"), ("c", "d"), ("b", "d")]), "");
        assert_eq!(ran, ["a", "b", "c", "d"]);
        assert!(ended.failed.is_empty() && ended.not_run.is_empty());
    }

    #[test]
    fn those_beside_a_failure_finish_and_those_behind_it_do_not_begin() {
        let (ran, ended) = run(&steps(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "e")]), "b");
        assert_eq!(ran, ["a", "b", "c", "e"]);
        assert_eq!(ended.not_run, ["d"]);
    }

    #[test]
    fn a_circle_is_named() {
        let error = steps(&[("a", "b"), ("b", "a")]).order().unwrap_err();
        assert!(error.to_string().contains("wait for each other"), "{error}");
    }
}
