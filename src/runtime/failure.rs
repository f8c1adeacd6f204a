//! Why a program gave no answer, and how that is said.

use crate::finding::Finding;
use crate::plugin::Package;

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The library is used without anything that runs programs.
    #[error("nothing here runs programs")]
    NoRuntime,
    /// The program, or one that it needs, is not there.
    #[error("{0}")]
    Missing(String),
    /// It could not be started.
    #[error("it cannot be started: {0}")]
    Start(String),
    /// A file or pipe of the call.
    #[error("it cannot be run")]
    Io(#[from] std::io::Error),
    /// It ended, and not well.
    #[error("{how}")]
    Ended {
        /// How: with an exit code or a signal.
        how: String,
        /// What it said about that: an error document, or the end of its log.
        says: Vec<String>,
    },
    /// It went over one of its limits, and was ended.
    #[error("{what}")]
    Limit {
        /// Which.
        what: String,
        /// What to change.
        help: String,
        /// The end of its log.
        says: Vec<String>,
    },
    /// What it said is no answer.
    #[error("its answer cannot be used: {what}")]
    Answer {
        /// Why.
        what: String,
        /// How the answer begins.
        begins: String,
        /// The end of its log.
        says: Vec<String>,
    },
    /// A secret's value is in what it said.
    #[error("its {place} holds the value of the secret `{secret}`")]
    Leak {
        /// The secret.
        secret: String,
        /// Where it is.
        place: &'static str,
    },
}

impl Failure {
    /// Returns the code of the finding.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoRuntime | Self::Missing(_) | Self::Start(_) | Self::Io(_) => "exec/start",
            Self::Ended { .. } => "exec/failed",
            Self::Limit { .. } => "exec/limit",
            Self::Answer { .. } => "exec/response",
            Self::Leak { .. } => "exec/leak",
        }
    }

    /// Returns the finding; its place is the caller's to say.
    #[must_use]
    pub fn finding(&self, package: &Package, when: &str) -> Finding {
        let manifest = &package.manifest;
        let text =
            format!("the program of {} {} in {when}: {self}", manifest.name, manifest.version);
        let mut finding = Finding::fatal(self.code(), text);
        let (says, help) = match self {
            Self::Ended { says, .. } => (says.as_slice(), None),
            Self::Limit { says, help, .. } => (says.as_slice(), Some(help.clone())),
            Self::Answer { says, begins, what } => {
                if !begins.is_empty() {
                    finding = finding.note(format!("its answer begins: {begins}"));
                }
                let noise = what.contains("trailing") || !begins.starts_with('{');
                let help = if noise && !begins.is_empty() {
                    "print one JSON document and nothing else; a noisy program writes it into the file that KAWS_RESULT names"
                } else {
                    "the form of an answer: kaws plugin schema response"
                };
                (says.as_slice(), Some(help.to_owned()))
            }
            Self::Io(error) => (&[][..], Some(error.to_string())),
            Self::Leak { .. } => (
                &[][..],
                Some("secrets are for the program alone: answer with their names".to_owned()),
            ),
            Self::Missing(_) | Self::Start(_) | Self::NoRuntime => (&[][..], None),
        };
        if !says.is_empty() {
            finding = finding.note(format!("it says\n{}", says.join("\n")));
        }
        help.into_iter().fold(finding, Finding::help)
    }
}
