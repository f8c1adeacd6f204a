//! Findings: what kaws has to say about a user's cluster, collected and never thrown.
//!
//! Not here: errors (kaws could not do its work), which each module defines for itself, and printing,
//! which is `cli::report`'s.

mod codes;
mod text;

pub use text::{findings_text, plain};

pub use codes::{Code, SCHEMA_AREAS, SCHEMA_KINDS, codes, explanation};

use crate::name::Name;
use crate::origin::Origin;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run goes on.
    Warning,
    /// The run stops at the end of the rank.
    Fatal,
}

/// One thing to say about the user's cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the run stops.
    pub severity: Severity,
    /// `area/name`; its meaning is in [`codes`] (`kaws explain CODE`), or a plugin's own.
    pub code: String,
    /// One sentence without a full stop. Further lines stand below it, unwrapped.
    pub message: String,
    /// The place to look at first.
    pub origin: Option<Origin>,
    /// What stands under the caret.
    pub label: Option<String>,
    /// Other places, each with what it has to do with it.
    pub related: Vec<(Origin, String)>,
    /// Facts that help to understand.
    pub notes: Vec<String>,
    /// What to do next; several are alternatives.
    pub help: Vec<String>,
    /// The plugin that says it, if not kaws itself.
    pub plugin: Option<Name>,
    /// Where in the config a warning is silenced by: the path of what it is about.
    pub subject: Option<String>,
}

impl Finding {
    /// Returns a finding that stops the run.
    #[must_use]
    pub fn fatal(code: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Fatal, code, message)
    }

    /// Returns a finding that lets the run go on.
    #[must_use]
    pub fn warning(code: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// Returns a finding of either severity.
    #[must_use]
    pub fn new(severity: Severity, code: &str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code: code.to_owned(),
            message: message.into(),
            origin: None,
            label: None,
            related: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
            plugin: None,
            subject: None,
        }
    }

    /// Points at `origin`.
    #[must_use]
    pub fn at(mut self, origin: &Origin) -> Self {
        self.origin = Some(origin.clone());
        self
    }

    /// Points at `origin`, with words under the caret.
    #[must_use]
    pub fn at_with(mut self, origin: &Origin, label: impl Into<String>) -> Self {
        self.origin = Some(origin.clone());
        self.label = Some(label.into());
        self
    }

    /// Adds another place and what it has to do with it.
    #[must_use]
    pub fn related(mut self, origin: &Origin, label: impl Into<String>) -> Self {
        self.related.push((origin.clone(), label.into()));
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds something to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Names the plugin that says it.
    #[must_use]
    pub fn by(mut self, plugin: &Name) -> Self {
        self.plugin = Some(plugin.clone());
        self
    }

    /// Names the path the finding is about, by which `accept:` can silence a warning.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }
}

/// All findings so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Returns an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: impl IntoIterator<Item = Finding>) {
        self.0.extend(other);
    }

    /// Returns whether one of them stops the run.
    #[must_use]
    pub fn any_fatal(&self) -> bool {
        self.0.iter().any(|f| f.severity == Severity::Fatal)
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many are fatal and how many are warnings.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let fatal = self.0.iter().filter(|f| f.severity == Severity::Fatal).count();
        (fatal, self.0.len() - fatal)
    }

    /// Returns them in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.0.iter()
    }

    /// Keeps those for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&Finding) -> bool) {
        self.0.retain(keep);
    }

    /// Sorts by place, fatal ones first, so that the order of plugins found never shows; and drops what says
    /// the same of the same place, as of one unit on machines of several groups.
    pub fn sort(&mut self) {
        self.0.sort_by(|a, b| {
            (b.severity, &a.origin, &a.code, &a.message)
                .cmp(&(a.severity, &b.origin, &b.code, &b.message))
        });
        self.0.dedup_by(|next, kept| {
            let placed = next.origin.is_some() && next.subject != kept.subject;
            let alike = placed.then(|| Finding { subject: kept.subject.clone(), ..next.clone() });
            alike.as_ref().unwrap_or(next) == kept
        });
    }
}

impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl From<Finding> for Findings {
    fn from(finding: Finding) -> Self {
        Self(vec![finding])
    }
}

impl From<Box<Finding>> for Findings {
    fn from(finding: Box<Finding>) -> Self {
        Self(vec![*finding])
    }
}

impl FromIterator<Finding> for Findings {
    fn from_iter<I: IntoIterator<Item = Finding>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

/// A value and what there is to say about it.
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct Outcome<T> {
    /// The value, as complete as it could be made.
    pub value: T,
    /// What was found on the way.
    pub findings: Findings,
}

impl<T> Outcome<T> {
    /// Returns `value` with nothing to say.
    pub fn clean(value: T) -> Self {
        Self { value, findings: Findings::new() }
    }

    /// Returns the same with another value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Outcome<U> {
        Outcome { value: make(self.value), findings: self.findings }
    }

    /// Moves the findings into `all` and returns the value.
    pub fn collect(self, all: &mut Findings) -> T {
        all.extend(self.findings);
        self.value
    }

    /// Returns the value and the warnings.
    ///
    /// # Errors
    /// All findings, if any of them is fatal.
    pub fn accept(self) -> Result<(T, Findings), Findings> {
        if self.findings.any_fatal() { Err(self.findings) } else { Ok((self.value, self.findings)) }
    }
}
