//! `kaws plugin test`: a plugin's cases, each a cluster with the plugin laid over it, and what that
//! changes in what is rendered.
//!
//! Not here: printing, which is `cli`'s.

mod build;
mod cfn_lint;
mod diff;
mod expect;
mod lint;
mod new;
mod programs;
mod report;

pub use expect::Expect;
pub use lint::lint;
pub use new::{Language, new};
pub use report::{Outcome, Report};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::{Finding, Findings, findings_text};
use crate::load::{self, Options, example_names};
use crate::pipeline::Setup;
use crate::plugin::{Artifacts, Package};
use crate::run::{self, Run};
use crate::runtime::{Recorded, Runtime};
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
    /// What must be so; with it, rendered.diff and findings.txt need not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// What to test, and how.
#[derive(Clone, Debug, Default)]
pub struct Test {
    /// The plugin's folder.
    pub dir: PathBuf,
    /// Further folders of plugins.
    pub plugin_dirs: Vec<PathBuf>,
    /// Whether what is expected is written anew.
    pub update: bool,
    /// The only case to run.
    pub only: Option<String>,
    /// Whether stacks go through cfn-lint, where there is one.
    pub lint: bool,
    /// What runs programs.
    pub runtime: Option<Arc<Runtime>>,
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

/// Builds the plugin where its manifest says how, and runs its cases.
///
/// # Errors
/// Files that cannot be read or written.
pub fn test(test: &Test) -> Result<Report, Error> {
    let (dir, name) = own(test)?;
    if let Err(why) = build::build(&dir) {
        let case = Outcome {
            name: "build".to_owned(),
            summary: "failed".to_owned(),
            failure: Some(why),
            ..Outcome::default()
        };
        return Ok(Report { title: name, cases: vec![case], ..Report::default() });
    }
    let found =
        load::Found { home: crate::plugin::Home::User(String::new()), folder: Some(dir.clone()) };
    let package = match load::package(&name, &found)? {
        Ok(package) => package,
        Err(findings) => return Ok(unreadable(name, &findings)),
    };
    let mut report =
        Report { title: format!("{name} {}", package.manifest.version), ..Report::default() };
    let linter = if test.lint { cfn_lint::Linter::find() } else { cfn_lint::Linter::none() };
    let kit = Kit { name: &name, dir: &dir, test, linter };
    let mut coverage = Coverage::of(&package);
    for case in cases(&dir, test.only.as_deref())? {
        report.cases.push(kit.case(&case, &mut coverage)?);
    }
    report.unset = coverage.settings.into_iter().collect();
    report.unwritten = coverage.writes.iter().map(ToString::to_string).collect();
    report.unread = coverage.reads.into_iter().collect();
    report.checks = vec![
        "twice the same bytes, also with plugins found in another order".to_owned(),
        "no conflict with a built-in".to_owned(),
        kit.linter.said().to_owned(),
    ];
    if coverage.has_program {
        let more = "its program answers the same with another home, time zone and language, and when it sees its own answer";
        report.checks.insert(1, more.to_owned());
    }
    Ok(report)
}

/// Returns what the plugin's program is asked in a case, and answers.
///
/// # Errors
/// Files that cannot be read. What is wrong with them is a finding.
pub fn calls(test: &Test, case: &str) -> Result<crate::finding::Outcome<Vec<Recorded>>, Error> {
    let (dir, name) = own(test)?;
    let kit = Kit { name: &name, dir: &dir, test, linter: cfn_lint::Linter::none() };
    let folder = dir.join("cases").join(case);
    let (case, over) = match kit.read(&folder)? {
        Ok(read) => read,
        Err(findings) => return Ok(crate::finding::Outcome { value: Vec::new(), findings }),
    };
    let recorder = test.runtime.as_ref().map(Runtime::recording);
    let mut options = kit.options(&folder, &case, recorder.clone());
    options.under_test = Some(dir.clone());
    let findings = run::render_with(&options, Some(&over))?.findings;
    let value = recorder.map(|recorder| recorder.recorded(&name)).unwrap_or_default();
    Ok(crate::finding::Outcome { value, findings })
}

/// What a case is rendered from.
#[derive(Debug)]
pub struct Prepared {
    /// The cluster's file; kaws.lock lies beside it.
    pub file: PathBuf,
    /// All that was read, the plugin among it.
    pub setup: Setup,
}

/// Returns the names of the cases that are to be run.
///
/// # Errors
/// A folder that cannot be read.
pub fn names(test: &Test) -> Result<Vec<String>, Error> {
    let (dir, _) = own(test)?;
    let name = |case: PathBuf| case.file_name().map(|own| own.to_string_lossy().into_owned());
    Ok(cases(&dir, test.only.as_deref())?.into_iter().filter_map(name).collect())
}

/// Reads what a case is rendered from; nothing where it does not get that far.
///
/// # Errors
/// Files that cannot be read.
pub fn prepared(test: &Test, case: &str) -> Result<Option<Prepared>, Error> {
    let (dir, name) = own(test)?;
    let kit = Kit { name: &name, dir: &dir, test, linter: cfn_lint::Linter::none() };
    let folder = dir.join("cases").join(case);
    let Ok((case, over)) = kit.read(&folder)? else { return Ok(None) };
    let options = Options {
        under_test: Some(dir.clone()),
        ..kit.options(&folder, &case, test.runtime.clone())
    };
    let setup = load::load_with(&options, &crate::builtin::natives(), Some(&over))?;
    let setup = setup.value.filter(|_| !setup.findings.any_fatal());
    Ok(setup.map(|setup| Prepared { file: options.file, setup }))
}

/// Returns the plugin's folder, and its name.
fn own(test: &Test) -> Result<(PathBuf, String), Error> {
    let dir =
        test.dir.canonicalize().map_err(|source| Error::Io { path: test.dir.clone(), source })?;
    let name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    Ok((dir, name))
}

/// What no case has touched so far.
struct Coverage {
    settings: BTreeSet<String>,
    writes: Vec<crate::value::Path>,
    reads: BTreeSet<String>,
    has_program: bool,
}

impl Coverage {
    fn of(package: &Package) -> Self {
        let settings = package.settings.value().get("properties").and_then(Value::as_object);
        let manifest = &package.manifest;
        Self {
            settings: settings.into_iter().flatten().map(|(key, _)| key.clone()).collect(),
            writes: package.writes.clone().unwrap_or_default(),
            reads: manifest.reads.iter().flatten().cloned().collect(),
            has_program: [&manifest.initialise, &manifest.render]
                .iter()
                .any(|s| s.contains_key("exec")),
        }
    }
}

fn unreadable(name: String, findings: &Findings) -> Report {
    let failure = findings_text(findings, false);
    let case = Outcome {
        name: "plugin.yaml".to_owned(),
        summary: "has findings".to_owned(),
        failure: Some(failure),
        ..Outcome::default()
    };
    Report { title: name, cases: vec![case], ..Report::default() }
}

#[expect(clippy::disallowed_methods, reason = "the cases are files of the plugin's folder")]
fn cases(dir: &Path, only: Option<&str>) -> Result<Vec<PathBuf>, Error> {
    let folder = dir.join("cases");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let io = |source| Error::Io { path: folder.clone(), source };
    let entries = std::fs::read_dir(&folder).map_err(io)?;
    let mut all: Vec<PathBuf> =
        entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>().map_err(io)?;
    all.retain(|p| p.join("case.yaml").is_file());
    all.retain(|p| only.is_none_or(|only| p.file_name().is_some_and(|own| own == only)));
    all.sort();
    Ok(all)
}

struct Kit<'a> {
    name: &'a str,
    dir: &'a Path,
    test: &'a Test,
    linter: cfn_lint::Linter,
}

impl Kit<'_> {
    fn case(&self, folder: &Path, coverage: &mut Coverage) -> Result<Outcome, Error> {
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let has_program = coverage.has_program;
        let mut outcome = Outcome { name, has_program, ..Outcome::default() };
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
        settings.into_iter().flatten().for_each(|(key, _)| {
            coverage.settings.remove(key);
        });
        let recorder = self.test.runtime.as_ref().map(Runtime::recording);
        let mut options = self.options(folder, &case, recorder.clone());
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
            (_, None) => self.refused(folder, &case, &with.findings, &mut outcome)?,
            (Some(base), Some(run)) => {
                let calls = recorder.as_ref().map(|r| r.recorded(self.name)).unwrap_or_default();
                let again = run::render_with(&options, Some(&over))?.value;
                self.rendered(folder, &case, (&base, &run), again.as_ref(), &mut outcome)?;
                let expected = case.expect.as_ref().map(|e| e.differs(Some(&run), &with.findings));
                let wrong = programs::differ(&calls, recorder.as_ref());
                outcome.failure = outcome.failure.or(expected.flatten()).or(wrong);
                programs::covered(&run, self.name, coverage);
                programs::unread(&calls, recorder.as_ref(), &mut coverage.reads);
            }
        }
        Ok(outcome)
    }

    /// Returns what is read for a case's cluster, without the plugin.
    fn options(&self, folder: &Path, case: &Case, runtime: Option<Arc<Runtime>>) -> Options {
        let options = Options {
            plugin_dirs: self.test.plugin_dirs.clone(),
            runtime,
            ..Options::of(folder.join("case.yaml"))
        };
        if example_names().contains(&case.cluster.as_str()) {
            Options { example: Some(case.cluster.clone()), ..options }
        } else {
            Options { file: folder.join(&case.cluster), ..options }
        }
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
        case: &Case,
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
        if self.compares(folder, "findings.txt", case) {
            self.compare(folder, "findings.txt", "rendered.diff", &text, outcome)?;
        }
        let expected = case.expect.as_ref().and_then(|expect| expect.differs(None, findings));
        outcome.failure = outcome.failure.take().or(expected);
        if outcome.failure.is_some() {
            outcome.summary = format!("{fatal} fatal");
        }
        Ok(())
    }

    /// A case that says what it expects needs no file that says all.
    fn compares(&self, folder: &Path, file: &str, case: &Case) -> bool {
        case.expect.is_none() || folder.join(file).exists()
    }

    fn rendered(
        &self,
        folder: &Path,
        case: &Case,
        (base, with): (&Run, &Run),
        again: Option<&Run>,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let difference = diff::diff(&base.rendered.artifacts, &with.rendered.artifacts);
        outcome.summary = difference.summary();
        let head = format!(
            "# What rendering changes when {} is on. Places are paths, not line\n# numbers, so that another release of kaws leaves this file as it is.\n",
            self.name
        );
        if self.compares(folder, "rendered.diff", case) {
            let text = format!("{head}{}", difference.text());
            self.compare(folder, "rendered.diff", "findings.txt", &text, outcome)?;
        }
        let same = |other: &Artifacts| *other == with.rendered.artifacts;
        if !again.is_some_and(|again| same(&again.rendered.artifacts)) {
            outcome.failure = Some("rendering twice gives other bytes".to_owned());
        } else if let Some(other) = reversed(with)
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
        if self.test.update {
            let io = |source| Error::Io { path: path.clone(), source };
            std::fs::write(&path, text).map_err(io)?;
            if folder.join(other).exists() {
                std::fs::remove_file(folder.join(other)).map_err(io)?;
            }
            outcome.summary.push_str(", written");
            return Ok(());
        }
        outcome.renewable = true;
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
