//! `kaws plugin test`: a plugin's cases, each a cluster with the plugin laid over it, and what that
//! changes in what is rendered.
//!
//! Not here: printing, which is `cli`'s.

mod diff;
mod lint;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::finding::{Finding, Findings, findings_text};
use crate::load::{self, Options, example_names};
use crate::plugin::Artifacts;
use crate::run::{self, Run};
use crate::runtime::Runtime;
use crate::schema::{Schema, Wording};
use crate::value::{Data, Node};

/// A case, as `cases/<name>/case.yaml` has it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a case")]
pub struct Case {
    /// One of kaws's own clusters, or a path beside the case.
    pub cluster: String,
    /// Plugins as in cluster.yaml, laid over that cluster.
    pub plugins: std::collections::BTreeMap<String, Value>,
}

/// Why cases cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    Load(#[from] load::Error),
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// How all cases went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The plugin's name and version.
    pub title: String,
    /// Its cases, by name.
    pub cases: Vec<Outcome>,
    /// Settings that no case sets.
    pub unset: Vec<String>,
    /// What was looked at in every case, in words.
    pub checks: Vec<String>,
}

/// How one case went.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What it changed, in a few words.
    pub summary: String,
    /// What is wrong; nothing if it passed.
    pub failure: Option<String>,
}

impl Report {
    /// Returns whether there are cases and all passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.cases.is_empty() && self.cases.iter().all(|c| c.failure.is_none())
    }

    /// Returns the report for people.
    #[must_use]
    pub fn to_text(&self, dir: &Path) -> String {
        let mut lines = Vec::new();
        for case in &self.cases {
            let mark = if case.failure.is_none() { "✔" } else { "✘" };
            lines.push(format!("  {mark} {:<22} {}", case.name, case.summary));
            if let Some(failure) = &case.failure {
                lines.push(String::new());
                lines.extend(failure.lines().map(|l| format!("    {l}").trim_end().to_owned()));
                lines.push(String::new());
            }
        }
        if self.cases.is_empty() {
            lines.push("  there are no cases: write cases/NAME/case.yaml".to_owned());
        } else if !self.passed() {
            lines.push(format!("  Keep the new ones: kaws plugin test {} --update", dir.display()));
        } else {
            lines.push(String::new());
            lines.push(format!("  In every case: {}.", self.checks.join("; ")));
            if !self.unset.is_empty() {
                lines.push(format!("  No case sets: {}", self.unset.join(", ")));
            }
        }
        lines.join("\n")
    }

    /// Returns the report for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let case = |c: &Outcome| json!({"name": c.name, "passed": c.failure.is_none(), "summary": c.summary, "failure": c.failure});
        json!({"plugin": self.title, "passed": self.passed(), "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
            "checks": self.checks, "unset": self.unset})
    }
}

/// Runs the cases of the plugin in `dir`; with `update` what is expected is written anew, with `lint` the
/// stacks go through cfn-lint where there is one.
///
/// # Errors
/// Files that cannot be read or written.
pub fn test(
    dir: &Path,
    plugin_dirs: &[PathBuf],
    update: bool,
    lint: bool,
    runtime: Option<&Arc<Runtime>>,
) -> Result<Report, Error> {
    let dir = dir.canonicalize().map_err(|source| Error::Io { path: dir.to_owned(), source })?;
    let name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let found =
        load::Found { home: crate::plugin::Home::User(String::new()), folder: Some(dir.clone()) };
    let package = match load::package(&name, &found)? {
        Ok(package) => package,
        Err(findings) => return Ok(unreadable(name, &findings)),
    };
    let mut report =
        Report { title: format!("{name} {}", package.manifest.version), ..Report::default() };
    let kit = Kit {
        name: &name,
        dir: &dir,
        plugin_dirs,
        update,
        runtime,
        linter: if lint { lint::Linter::find() } else { lint::Linter::none() },
    };
    let mut set = BTreeSet::new();
    for case in cases(&dir)? {
        report.cases.push(kit.case(&case, &mut set)?);
    }
    let settings = package.settings.value().get("properties").and_then(Value::as_object);
    report.unset = settings
        .into_iter()
        .flatten()
        .map(|(k, _)| k.clone())
        .filter(|k| !set.contains(k))
        .collect();
    report.checks = vec![
        "twice the same bytes, also with plugins found in another order".to_owned(),
        "no conflict with a built-in".to_owned(),
        kit.linter.said().to_owned(),
    ];
    Ok(report)
}

fn unreadable(name: String, findings: &Findings) -> Report {
    let failure = findings_text(findings, false);
    let case = Outcome {
        name: "plugin.yaml".to_owned(),
        summary: "has findings".to_owned(),
        failure: Some(failure),
    };
    Report { title: name, cases: vec![case], ..Report::default() }
}

#[expect(clippy::disallowed_methods, reason = "the cases are files of the plugin's folder")]
fn cases(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = dir.join("cases");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let io = |source| Error::Io { path: folder.clone(), source };
    let entries = std::fs::read_dir(&folder).map_err(io)?;
    let mut all: Vec<PathBuf> =
        entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().map_err(io)?;
    all.retain(|p| p.join("case.yaml").is_file());
    all.sort();
    Ok(all)
}

struct Kit<'a> {
    name: &'a str,
    dir: &'a Path,
    plugin_dirs: &'a [PathBuf],
    update: bool,
    runtime: Option<&'a Arc<Runtime>>,
    linter: lint::Linter,
}

impl Kit<'_> {
    fn case(&self, folder: &Path, set: &mut BTreeSet<String>) -> Result<Outcome, Error> {
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let mut outcome = Outcome { name, ..Outcome::default() };
        let (case, over) = match self.read(folder)? {
            Ok(read) => read,
            Err(findings) => {
                outcome.summary = "case.yaml has findings".to_owned();
                outcome.failure = Some(findings_text(&findings, false));
                return Ok(outcome);
            }
        };
        let settings =
            case.plugins.get(self.name).and_then(|p| p.get("settings")).and_then(Value::as_object);
        set.extend(settings.into_iter().flatten().map(|(key, _)| key.clone()));
        let mut options = Options {
            plugin_dirs: self.plugin_dirs.to_vec(),
            runtime: self.runtime.cloned(),
            ..Options::of(folder.join("case.yaml"))
        };
        if example_names().contains(&case.cluster.as_str()) {
            options.example = Some(case.cluster.clone());
        } else {
            options.file = folder.join(&case.cluster);
        }
        let base = run::render(&options)?;
        options.under_test = Some(self.dir.to_owned());
        let with = run::render_with(&options, Some(&over))?;
        match (base.value, with.value) {
            (None, _) => {
                outcome.failure = Some(format!(
                    "the cluster {} does not render by itself:\n{}",
                    case.cluster,
                    findings_text(&base.findings, false)
                ));
            }
            (_, None) => self.refused(folder, &with.findings, &mut outcome)?,
            (Some(base), Some(with)) => {
                let again = run::render_with(&options, Some(&over))?.value;
                self.rendered(folder, &base, &with, again.as_ref(), &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    fn read(&self, folder: &Path) -> Result<Result<(Case, Node), Findings>, Error> {
        let path = folder.join("case.yaml");
        let text = match load::read_text(&path)? {
            Ok(text) => text,
            Err(findings) => return Ok(Err(findings)),
        };
        let file = crate::origin::SourceFile::new("case.yaml", text);
        let node = match crate::value::read(&file) {
            Ok(node) => node,
            Err(findings) => return Ok(Err(findings)),
        };
        let schema = Schema::compile(&crate::schema::of::<Case>()).expect("it is constant");
        let wording = Wording { area: "case", subject: "case.yaml", label: None, source: None };
        let findings = schema.check(&node, &wording);
        if !findings.is_empty() {
            return Ok(Err(findings));
        }
        Ok(match serde_json::from_value(node.to_value()) {
            Ok(case) => {
                let plugins = node
                    .get("plugins")
                    .cloned()
                    .into_iter()
                    .map(|p| ("plugins".to_owned(), p))
                    .collect();
                Ok((case, Node::new(Data::Map(plugins), node.origin.clone())))
            }
            Err(error) => {
                Err(Finding::fatal("plugin/case", error.to_string()).at(&node.origin).into())
            }
        })
    }

    fn refused(
        &self,
        folder: &Path,
        findings: &Findings,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let (fatal, _) = findings.counts();
        let fatal_only: Findings = findings
            .iter()
            .filter(|f| f.severity == crate::finding::Severity::Fatal)
            .cloned()
            .collect();
        let text = findings_text(&fatal_only, false);
        outcome.summary = format!("{fatal} fatal, as expected");
        self.compare(folder, "findings.txt", "rendered.diff", &text, outcome)?;
        if outcome.failure.is_some() {
            outcome.summary = format!("{fatal} fatal");
        }
        Ok(())
    }

    fn rendered(
        &self,
        folder: &Path,
        base: &Run,
        with: &Run,
        again: Option<&Run>,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let difference = diff::diff(&base.rendered.artifacts, &with.rendered.artifacts);
        outcome.summary = difference.summary();
        let head = format!(
            "# What rendering changes when {} is on. Places are paths, not line\n# numbers, so that another release of kaws leaves this file as it is.\n",
            self.name
        );
        self.compare(
            folder,
            "rendered.diff",
            "findings.txt",
            &format!("{head}{}", difference.text()),
            outcome,
        )?;
        let same = |other: &Artifacts| *other == with.rendered.artifacts;
        if !again.is_some_and(|again| same(&again.rendered.artifacts)) {
            outcome.failure = Some("rendering twice gives other bytes".to_owned());
        }
        if let Some(other) = reversed(with)
            && !same(&other)
        {
            outcome.failure =
                Some("the order in which plugins are found changes what is rendered".to_owned());
        }
        if let Some(complaint) = self.linter.lint(&with.rendered.artifacts) {
            outcome.failure = Some(complaint);
        }
        Ok(())
    }

    /// Compares with what is expected; where there is nothing yet, the case fails, and `--update` writes it.
    #[expect(clippy::disallowed_methods, reason = "what is expected is a file of the case")]
    fn compare(
        &self,
        folder: &Path,
        file: &str,
        other: &str,
        text: &str,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let path = folder.join(file);
        let expected = std::fs::read_to_string(&path).ok();
        if expected.as_deref() == Some(text) && !folder.join(other).exists() {
            return Ok(());
        }
        if self.update {
            let io = |source| Error::Io { path: path.clone(), source };
            std::fs::write(&path, text).map_err(io)?;
            if folder.join(other).exists() {
                std::fs::remove_file(folder.join(other)).map_err(io)?;
            }
            outcome.summary.push_str(", written");
            return Ok(());
        }
        outcome.failure = Some(match expected {
            None => format!("there is no {file} yet\n\n{text}"),
            Some(expected) => format!("{file} differs\n\n{}", diff::lines(&expected, text)),
        });
        Ok(())
    }
}

/// Renders once more with the plugins in the opposite order.
fn reversed(run: &Run) -> Option<Artifacts> {
    run::again(run, |plugins| plugins.reverse())
}
