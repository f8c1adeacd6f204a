//! Sizes and durations as people write them: `50GiB`, `30d`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A size: a whole number of `GiB`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Size(#[schemars(regex(pattern = "^[1-9][0-9]{0,4}GiB$"))] pub String);

impl Size {
    /// Returns the number of GiB.
    #[must_use]
    pub fn gib(&self) -> u32 {
        self.0.trim_end_matches("GiB").parse().unwrap_or(0)
    }
}

/// A duration: a whole number of seconds (`s`), minutes (`m`), hours (`h`) or days (`d`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Duration(#[schemars(regex(pattern = "^[1-9][0-9]{0,5}[smhd]$"))] pub String);

impl Duration {
    /// Returns the number of seconds.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        let (number, unit) = self.0.split_at(self.0.len().saturating_sub(1));
        let factor = match unit {
            "d" => 86_400,
            "h" => 3_600,
            "m" => 60,
            _ => 1,
        };
        number.parse::<u64>().unwrap_or(0) * factor
    }

    /// Returns the duration in ISO 8601's form, as CloudFormation writes it: `PT20M`.
    #[must_use]
    pub fn iso(&self) -> String {
        let seconds = self.seconds();
        if seconds.is_multiple_of(60) {
            format!("PT{}M", seconds / 60)
        } else {
            format!("PT{seconds}S")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_count_seconds() {
        assert_eq!(Duration("30d".into()).seconds(), 2_592_000);
        assert_eq!(Duration("20m".into()).iso(), "PT20M");
        assert_eq!(Duration("90s".into()).iso(), "PT90S");
    }
}
