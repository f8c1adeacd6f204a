//! `kaws render`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Exit, options, unreadable, unwritable};
use crate::cli::report::{findings_json, say, say_findings, summary_line};
use crate::cli::{Common, Output};
use crate::emit::{self, Written};
use crate::finding::Findings;
use crate::run::Run;

/// Renders every file; the gravest exit code counts.
pub(super) fn run(common: &Common, check: bool) -> Exit {
    let mut exit = Exit::Done;
    for file in &common.file {
        exit = exit.worse(one(common, file, check));
    }
    exit
}

#[expect(clippy::disallowed_methods, reason = "how long it took is for people, and enters nothing")]
fn one(common: &Common, file: &Path, check: bool) -> Exit {
    let start = std::time::Instant::now();
    let outcome = match crate::run::render(&options(common, file)) {
        Ok(outcome) => outcome,
        Err(error) => return unreadable(&error),
    };
    let out = out(common, file);
    let Some(run) = outcome.value else {
        return refused(common, &outcome.findings, &out);
    };
    let artifacts = &run.rendered.artifacts;
    let written = if check {
        emit::check(&out, artifacts, &run.manifest)
    } else {
        emit::write(&out, artifacts, &run.manifest, &mut |_| true)
    };
    let written = match written {
        Ok(written) => written,
        Err(error) => return unwritable(&error),
    };
    if check {
        return checked(common, &run, &outcome.findings, &written, &out);
    }
    let report = Report { run: &run, findings: &outcome.findings, written: &written, out: &out };
    report.print(common, start.elapsed().as_millis());
    // The process is about to end: taking a model of a hundred thousand entities apart only costs time. Of many
    // clusters each makes room for the next.
    if common.file.len() == 1 {
        std::mem::forget(run);
    }
    Exit::Done
}

/// Returns where a cluster's files go: `rendered` beside it, or `--out`.
pub(super) fn out(common: &Common, file: &Path) -> PathBuf {
    let beside = file.parent().unwrap_or(Path::new("")).join("rendered");
    match (&common.out, common.file.len()) {
        (Some(out), 1) => out.clone(),
        // Several clusters never share a folder.
        (Some(out), _) => {
            out.join(file.with_extension("").to_string_lossy().replace(['/', '\\'], "-"))
        }
        (None, _) => beside,
    }
}

fn refused(common: &Common, findings: &Findings, out: &Path) -> Exit {
    match common.output {
        Output::Json => {
            say(&json!({"findings": findings_json(findings), "written": null}).to_string());
        }
        Output::Text => {
            say_findings(findings, true);
            say(&format!("{}. {}/ is as it was.", summary_line(findings), out.display()));
            if let Some(first) =
                findings.iter().find(|f| crate::finding::explanation(&f.code).is_some())
            {
                say(&format!("More about a code: kaws explain {}", first.code));
            }
        }
    }
    Exit::Findings
}

fn checked(common: &Common, run: &Run, findings: &Findings, written: &Written, out: &Path) -> Exit {
    let intact = emit::is_intact(out).unwrap_or(false);
    let same = written.is_same() && intact;
    match common.output {
        Output::Json => {
            say(&json!({"cluster": run.setup.config.name, "same": same, "differences": written})
                .to_string());
        }
        Output::Text => {
            say_findings(findings, true);
            let word = |mark: &str, paths: &[String]| {
                paths.iter().for_each(|p| say(&format!("{mark} {p}")));
            };
            word("~", &written.changed);
            word("+", &written.new);
            word("-", &written.gone);
            let name = &run.setup.config.name;
            match (same, written.is_same()) {
                (true, _) => say(&format!("{}/ is what {name} renders to.", out.display())),
                (_, true) => say(&format!(
                    "{}/ does not match its manifest. Repair it: kaws render",
                    out.display()
                )),
                _ => say(&format!(
                    "{}/ is not what {name} renders to. Write it: kaws render",
                    out.display()
                )),
            }
        }
    }
    if same { Exit::Done } else { Exit::Differences }
}

struct Report<'a> {
    run: &'a Run,
    findings: &'a Findings,
    written: &'a Written,
    out: &'a Path,
}

impl Report<'_> {
    fn print(&self, common: &Common, milliseconds: u128) {
        let config = &self.run.setup.config;
        let (written, out) = (self.written, self.out.display());
        if common.output == Output::Json {
            let report = json!({"cluster": config.name, "out": self.out, "milliseconds": u64::try_from(milliseconds).unwrap_or(u64::MAX),
                "written": written, "findings": findings_json(self.findings)});
            return say(&report.to_string());
        }
        say_findings(self.findings, true);
        let line = format!(
            "Rendered {}: {} files; {} changed, {} new, {} gone",
            config.name,
            written.files,
            written.changed.len(),
            written.new.len(),
            written.gone.len()
        );
        let time = format!("{milliseconds} ms");
        say(&format!(
            "{line}{time:>width$}",
            width = 79_usize.saturating_sub(line.chars().count()).max(time.len() + 2)
        ));
        if written.changed.is_empty() && !written.new.is_empty() && written.gone.is_empty() {
            self.contents();
        }
        let next = if written.is_same() {
            "Nothing changed.".to_owned()
        } else {
            format!("What changed: git diff {out}/")
        };
        say(&format!("{}. {next}", summary_line(self.findings)));
    }

    /// What there is to look at, the first time.
    fn contents(&self) {
        let artifacts = &self.run.rendered.artifacts;
        let count = |prefix: &str| artifacts.keys().filter(|p| p.starts_with(prefix)).count();
        let stacks: Vec<&str> = artifacts
            .keys()
            .filter_map(|p| p.strip_prefix("stacks/").and_then(|p| p.strip_suffix(".yaml")))
            .collect();
        let out = self.out.display();
        let mut names = stacks.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        if stacks.len() > 8 {
            names.push_str(&format!(", and {} more", stacks.len() - 8));
        }
        let releases = artifacts.keys().filter(|p| p.ends_with("/release.yaml")).count();
        say(&format!("  {out}/stacks/     {:>4} stacks: {names}", stacks.len()));
        say(&format!(
            "  {out}/nodes/      {:>4} files on {} groups of machines",
            count("nodes/"),
            self.run.setup.groups.len()
        ));
        say(&format!("  {out}/helm/       {releases:>4} releases"));
        say(&format!("  {out}/manifests/  {:>4} manifests", count("manifests/")));
        say("  Who put something there: kaws explain control-plane/Group");
    }
}
