//! Exit codes: a table, documented and tested against the docs.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// Fatal findings, or something was refused.
    Findings,
    /// Differences, where they were asked for.
    Differences,
    /// A file or process failed.
    Files,
    /// AWS failed.
    Aws,
    /// The command line was wrong.
    Usage,
    /// A bug in kaws.
    Bug,
    /// Interrupted.
    Interrupted,
    /// What a command of a plugin ended with.
    Other(u8),
}

/// Every exit code, what it means, and which counts first over several files.
pub const EXIT_CODES: &[(u8, Exit, &str)] = &[
    (0, Exit::Done, "Done."),
    (1, Exit::Findings, "Fatal findings, refusals included; failed cases of a plugin."),
    (
        2,
        Exit::Differences,
        "Differences, where they were asked for: `render --check`, `plan --exit-code`, `status --exit-code`.",
    ),
    (3, Exit::Files, "A file or process failed: not there, not readable, not kaws's own."),
    (4, Exit::Aws, "AWS failed."),
    (64, Exit::Usage, "The command line is wrong."),
    (70, Exit::Bug, "A bug in kaws."),
    (130, Exit::Interrupted, "Interrupted."),
];

/// How a command ends that says nothing else: done, or as it was stopped.
impl From<Result<(), Exit>> for Exit {
    fn from(ended: Result<(), Self>) -> Self {
        ended.err().unwrap_or(Self::Done)
    }
}

/// How a command ends that says so itself, or is stopped.
impl From<Result<Exit, Exit>> for Exit {
    fn from(ended: Result<Self, Self>) -> Self {
        ended.unwrap_or_else(|exit| exit)
    }
}

impl Exit {
    /// Returns the number.
    #[must_use]
    pub fn code(self) -> u8 {
        if let Self::Other(code) = self {
            return code;
        }
        EXIT_CODES.iter().find(|(_, exit, _)| *exit == self).map_or(70, |(code, ..)| *code)
    }

    /// Returns the one with a number.
    #[must_use]
    pub fn of(code: i32) -> Option<Self> {
        EXIT_CODES.iter().find(|(own, ..)| i32::from(*own) == code).map(|(_, exit, _)| *exit)
    }

    /// Returns the one of two that counts over many files: the first that occurs of 70, 4, 3, 1, 2.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Interrupted => 0,
            Self::Bug => 1,
            Self::Usage => 2,
            Self::Aws => 3,
            Self::Files => 4,
            Self::Findings | Self::Other(_) => 5,
            Self::Differences => 6,
            Self::Done => 7,
        };
        if rank(self) <= rank(other) { self } else { other }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_many_files_the_gravest_counts() {
        assert_eq!(Exit::Differences.worse(Exit::Findings), Exit::Findings);
        assert_eq!(Exit::Files.worse(Exit::Findings), Exit::Files);
        assert_eq!(Exit::Done.worse(Exit::Done).code(), 0);
    }
}
