//! Flags, feature gates and admission plugins against what the release of Kubernetes knows: a component does
//! not start with one that it does not know.

use super::{COMPONENTS, about, shown};
use crate::finding::{Finding, Findings};
use crate::kubernetes::{self, Flag, Known};
use crate::model::{Branch, Entity, Model};
use crate::name::did_you_mean;

/// Checks the flags of every component.
pub(in crate::builtin) fn flags(model: &Model, minor: u32, findings: &mut Findings) {
    for (section, component) in COMPONENTS {
        let cx = Component { model, section, component, minor };
        for name in model.names(&[section, "flags"]) {
            cx.flag(name, findings);
        }
        cx.gates(findings);
    }
    admission(model, minor, findings);
}

struct Component<'a> {
    model: &'a Model,
    section: &'a str,
    component: &'a str,
    minor: u32,
}

impl Component<'_> {
    fn flag(&self, name: &str, findings: &mut Findings) {
        let Self { model, section, component, minor } = *self;
        let Some(entity) = super::setter(model, section, name) else { return };
        let path = [section, "flags", name];
        let say = |code: &str, text: String| about(Finding::fatal(code, text), &path, entity);
        match kubernetes::flag(component, name, minor) {
            Flag::Known(known) => self.value(name, &known, findings),
            Flag::Later(since) => {
                let text =
                    format!("{component} of 1.{minor} has no --{name}: it came with 1.{since}");
                findings.push(
                    say("flags/later", text).help("leave it out, or raise kubernetesVersion"),
                );
            }
            Flag::Gone(gone) => {
                let text = format!(
                    "{component} has no --{name}: 1.{minor} would not start, it was removed in {}",
                    gone.removed
                );
                findings.push(say("flags/removed", text).help(lower(&gone.instead)));
            }
            Flag::Unknown => {
                let text = format!("{component} has no flag --{name}, and never had");
                let near = did_you_mean(name, kubernetes::flags(component, minor));
                let help = near.map_or_else(
                    || format!("{component} --help lists them"),
                    |near| format!("did you mean {near}?"),
                );
                findings.push(say("flags/unknown", text).help(help));
            }
        }
    }

    /// Warns of what is deprecated, and refuses what cannot be read.
    fn value(&self, name: &str, known: &Known, findings: &mut Findings) {
        let Self { model, section, component, minor } = *self;
        let path = [section, "flags", name];
        let Some(Branch::Leaf(entity)) = model.branch(&path) else { return };
        if let Some(why) = &known.deprecated {
            let text = format!("--{name} of {component} is deprecated in 1.{minor}");
            findings.push(
                about(Finding::warning("flags/deprecated", text), &path, entity).note(why.clone()),
            );
        }
        let value = shown(&entity.body);
        if !value.contains("@{") && !fits(&known.kind, &value) {
            let text = format!(
                "--{name} of {component} takes {}, and `{value}` is none",
                article(&known.kind)
            );
            findings.push(about(Finding::fatal("flags/value", text), &path, entity));
        }
    }

    fn gates(&self, findings: &mut Findings) {
        let Self { model, section, component, minor } = *self;
        for (name, entity) in model.entities(&[section, "flags", "feature-gates"]) {
            let path = [section, "flags", "feature-gates", name];
            let wanted = entity.body.as_bool();
            let Some(gate) = kubernetes::gate(component, name, minor) else {
                if !["AllAlpha", "AllBeta"].contains(&name) {
                    findings.push(unknown_gate(name, component, minor, &path, entity));
                }
                continue;
            };
            if gate.locked && wanted.is_some_and(|wanted| wanted != gate.default) {
                let text = format!(
                    "the gate {name} is locked to {} in 1.{minor}: {component} would not start",
                    gate.default
                );
                findings.push(
                    about(Finding::fatal("flags/gate", text), &path, entity).help("leave it out"),
                );
            } else if gate.stage == "Alpha" && wanted == Some(true) {
                let text = format!(
                    "the gate {name} is alpha in 1.{minor}: it may change or go with any release"
                );
                findings.push(about(Finding::warning("flags/alpha-gate", text), &path, entity));
            }
        }
    }
}

fn unknown_gate(
    name: &str,
    component: &str,
    minor: u32,
    path: &[&str],
    entity: &Entity,
) -> Finding {
    let text = match kubernetes::gate_minors(name) {
        Some((_, Some(gone))) if gone <= minor => {
            format!("{component} of 1.{minor} does not know the gate {name}: it went with 1.{gone}")
        }
        Some((first, _)) if first > minor => {
            format!(
                "{component} of 1.{minor} does not know the gate {name}: it came with 1.{first}"
            )
        }
        _ => format!("{component} of 1.{minor} does not know the gate {name}"),
    };
    let finding = about(Finding::fatal("flags/gate", text), path, entity);
    match did_you_mean(name, kubernetes::gates()) {
        Some(near) if near != name => finding.help(format!("did you mean {near}?")),
        _ => finding.help("leave it out"),
    }
}

/// Admission plugins that are turned on or off must be there, and not both.
fn admission(model: &Model, minor: u32, findings: &mut Findings) {
    let known = &kubernetes::admission(minor).known;
    for flag in ["enable-admission-plugins", "disable-admission-plugins"] {
        for (name, entity) in model.entities(&["apiServer", "flags", flag]) {
            let path = ["apiServer", "flags", flag, name];
            let say = |text: String| about(Finding::fatal("flags/admission", text), &path, entity);
            if !known.iter().any(|k| k == name) {
                let text = format!("kube-apiserver of 1.{minor} has no admission plugin {name}");
                findings.push(match kubernetes::gone_admission(name) {
                    Some(gone) => say(format!("{text}: it was removed in {}", gone.removed))
                        .help(lower(&gone.instead)),
                    None => match did_you_mean(name, known.iter().map(String::as_str)) {
                        Some(near) => say(text).help(format!("did you mean {near}?")),
                        None => say(text),
                    },
                });
            }
            let other = ["apiServer", "flags", "disable-admission-plugins", name];
            if flag.starts_with("enable") && model.entity(&other).is_some() {
                findings.push(say(format!("the admission plugin {name} is turned on and off: kube-apiserver would not start")));
            }
        }
    }
}

/// Whether a text is a value of a type, as Go's flags read it.
fn fits(kind: &str, value: &str) -> bool {
    match kind {
        "bool" => ["true", "false", "1", "0", "t", "f", "T", "F", "TRUE", "FALSE", "True", "False"]
            .contains(&value),
        "int" | "int32" | "int64" | "Level" => value.parse::<i64>().is_ok(),
        "uint" => value.parse::<u64>().is_ok(),
        "float32" | "float64" => value.parse::<f64>().is_ok(),
        "duration" => is_duration(value),
        "ip" => value.parse::<std::net::IpAddr>().is_ok(),
        _ => true,
    }
}

/// `1h30m`, `300ms`, `0`: Go's durations.
fn is_duration(value: &str) -> bool {
    let mut rest = value.trim_start_matches(['-', '+']);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if digits.len() == rest.len() {
            return false;
        }
        let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
        let Some(unit) = units.iter().filter(|u| digits.starts_with(**u)).max_by_key(|u| u.len())
        else {
            return false;
        };
        rest = &digits[unit.len()..];
        any = true;
    }
    any
}

fn article(kind: &str) -> String {
    match kind {
        "bool" => "true or false".to_owned(),
        "int" | "int32" | "int64" | "uint" | "Level" => "a whole number".to_owned(),
        "float32" | "float64" => "a number".to_owned(),
        "duration" => "a duration like 1h30m".to_owned(),
        "ip" => "an address".to_owned(),
        other => other.to_owned(),
    }
}

/// Help is a clause, not a sentence.
fn lower(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !chars.as_str().starts_with(char::is_uppercase) => {
            first.to_lowercase().collect::<String>() + chars.as_str()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FlagKind, flag_kind};

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for good in ["0", "1h", "1h30m", "1.5h", "300ms", "-2s", "10us"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["", "1", "1d", "h", "1h30", "one"] {
            assert!(!is_duration(bad), "{bad}");
        }
    }

    #[test]
    fn flags_that_hold_several_values_do_so_in_kubernetes_too() {
        for flag in crate::model::FLAGS {
            let Some((_, component)) = COMPONENTS.iter().find(|(s, _)| *s == flag.component) else {
                continue;
            };
            let Flag::Known(known) = kubernetes::flag(component, flag.name, 36) else {
                panic!("{component} has no {}", flag.name);
            };
            let plain = ["bool", "int", "int32", "duration", "ip", "float32"]
                .contains(&known.kind.as_str());
            assert!(
                !plain || flag_kind(flag.component, flag.name) == FlagKind::Scalar,
                "{flag:?}: {known:?}"
            );
        }
    }
}
