//! Go's durations, as flags and configuration files of Kubernetes have them.

/// Units, and what each is in seconds; the longer come first.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3_600.0),
];

/// Returns a duration (`1h30m`, `300ms`, `-2s`, `0`) in seconds; none for what Go would not read.
#[must_use]
pub fn seconds(value: &str) -> Option<f64> {
    let (sign, mut rest) = match value.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, value.trim_start_matches('+')),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let mut sum = None;
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number: f64 = rest[..rest.len() - digits.len()].parse().ok()?;
        let (unit, factor) = UNITS.iter().find(|(unit, _)| digits.starts_with(unit))?;
        sum = Some(sum.unwrap_or(0.0) + number * factor);
        rest = &digits[unit.len()..];
    }
    sum.map(|sum| sign * sum)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (good, expected) in [
            ("0", 0.0),
            ("1h", 3600.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("300ms", 0.3),
            ("-2s", -2.0),
            ("10us", 1e-5),
        ] {
            let read = seconds(good).unwrap();
            assert!((read - expected).abs() < 1e-9, "{good}: {read}");
        }
        for bad in ["", "1", "1d", "h", "1h30", "one", "-", "."] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
