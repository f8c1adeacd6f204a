//! How a plugin's cases went: for people, for programs, for continuous integration.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

/// How all cases went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The plugin's name and version.
    pub title: String,
    /// Its cases, by name.
    pub cases: Vec<Outcome>,
    /// Settings that no case sets.
    pub unset: Vec<String>,
    /// Where the manifest says that it writes, and no case does.
    pub unwritten: Vec<String>,
    /// What its program is told, and answers the same without.
    pub unread: Vec<String>,
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
    /// Whether `--update` would write what is expected anew.
    pub renewable: bool,
    /// Whether a program was asked.
    pub has_program: bool,
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
            let dir = dir.display();
            if self.cases.iter().any(|case| case.renewable) {
                lines.push(format!("  Keep the new ones: kaws plugin test {dir} --update"));
            }
            let failed = self.cases.iter().find(|case| case.failure.is_some() && case.has_program);
            if let Some(case) = failed {
                lines
                    .push(format!("  Ask its program: kaws plugin run {dir} --case {}", case.name));
            }
        } else {
            lines.push(String::new());
            lines.push(format!("  In every case: {}.", self.checks.join("; ")));
            let rest = [
                ("No case sets", &self.unset),
                ("No case writes", &self.unwritten),
                ("It answers the same without reading", &self.unread),
            ];
            for (text, names) in rest.into_iter().filter(|(_, names)| !names.is_empty()) {
                lines.push(format!("  {text}: {}", names.join(", ")));
            }
        }
        lines.join("\n")
    }

    /// Returns the report for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let case = |c: &Outcome| json!({"name": c.name, "passed": c.failure.is_none(), "summary": c.summary, "failure": c.failure});
        json!({"plugin": self.title, "passed": self.passed(), "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
            "checks": self.checks, "unset": self.unset, "unwritten": self.unwritten, "unread": self.unread})
    }

    /// Returns the report in JUnit's form, which services of continuous integration show.
    #[must_use]
    pub fn to_junit(&self) -> String {
        let failed = self.cases.iter().filter(|c| c.failure.is_some()).count();
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\">\n",
            xml(&self.title),
            self.cases.len()
        );
        for case in &self.cases {
            let head = format!(
                "  <testcase classname=\"{}\" name=\"{}\"",
                xml(&self.title),
                xml(&case.name)
            );
            let _ = match &case.failure {
                None => writeln!(out, "{head}/>"),
                Some(why) => writeln!(
                    out,
                    "{head}>\n    <failure message=\"{}\">{}</failure>\n  </testcase>",
                    xml(why.lines().next().unwrap_or_default()),
                    xml(why)
                ),
            };
        }
        out + "</testsuite>\n"
    }
}

/// Escapes what means something in XML, and drops what cannot stand there at all.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_holds_whatever_a_failure_says() {
        let failure = Some("a \u{1b}[31m<b> & \"c\"\nmore".to_owned());
        let case = Outcome { name: "on".to_owned(), failure, ..Outcome::default() };
        let report = Report { title: "x 1.0.0".to_owned(), cases: vec![case], ..Report::default() };
        let text = report.to_junit();
        assert!(text.contains("tests=\"1\" failures=\"1\""), "{text}");
        assert!(text.contains("a [31m&lt;b&gt; &amp; &quot;c&quot;\nmore</failure>"), "{text}");
    }
}
