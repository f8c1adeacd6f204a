//! The port to programs of plugins: what runs those of steps and checks.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;

use crate::finding::Finding;

/// Outputs of stacks, by stack and name.
pub type Outputs = BTreeMap<String, BTreeMap<String, String>>;

/// What a program is run for, in deploy or validate.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// PLUGIN/NAME of the step or check.
    pub name: &'a str,
    /// The stage.
    pub stage: &'static str,
    /// The program, as the manifest names it.
    pub exec: &'a Value,
    /// How long it may take, in seconds.
    pub within: u64,
    /// What stacks have put out.
    pub outputs: &'a Outputs,
}

/// Programs of plugins.
#[async_trait]
pub trait Programs: std::fmt::Debug + Send + Sync {
    /// Runs the program of a step or a check; returns what it has to say, or why there is no answer.
    async fn run(&self, task: Task<'_>) -> Result<Vec<Finding>, Box<Finding>>;
}

/// Runs none: of whoever deploys and has nothing that could.
#[derive(Debug)]
pub struct NoPrograms;

#[async_trait]
impl Programs for NoPrograms {
    async fn run(&self, task: Task<'_>) -> Result<Vec<Finding>, Box<Finding>> {
        let text = format!("{} is a program, and nothing here runs programs", task.name);
        Err(Box::new(Finding::fatal("exec/start", text)))
    }
}
