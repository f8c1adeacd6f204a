//! Flags, feature gates and admission plugins against what the release of Kubernetes knows: a component does
//! not start with one that it does not know.

use super::{COMPONENTS, about, shown};
use crate::config::{Group, Role};
use crate::finding::{Finding, Findings};
use crate::kubernetes::{self, Flag, Known};
use crate::model::{Branch, Entity, Model};
use crate::name::did_you_mean;
use crate::plugin::Context;
use crate::value::Node;

/// Checks the flags of every component.
pub(in crate::builtin) fn flags(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let minor = cx.config.kubernetes_minor();
    for (section, component) in COMPONENTS {
        let component = Component { name: component, minor };
        for flag in model.names(&[section, "flags"]) {
            let Some(entity) = super::setter(model, section, flag) else { continue };
            let value = match model.branch(&[section, "flags", flag]) {
                Some(Branch::Leaf(entity)) => Some(shown(&entity.body)),
                _ => None,
            };
            let place = Place { path: &[section, "flags", flag], entity };
            component.flag(flag, value.as_deref(), &place, findings);
        }
        component.gates(model, &[section, "flags", "feature-gates"], findings);
    }
    let kubelet = Component { name: "kubelet", minor };
    for group in cx.groups.iter().filter(|g| g.role != Role::Etcd) {
        kubelet.command_lines(model, group, findings);
        kubelet.gates(model, &["kubelet", &group.key, "config", "featureGates"], findings);
    }
    let proxy = Component { name: "kube-proxy", minor };
    let path = ["kubeProxy", "config", "featureGates"];
    if let Some(entity) = model.entity(&path) {
        for (name, value) in entity.body.as_map().into_iter().flatten() {
            proxy.gate(name, value.as_bool(), &Place { path: &path, entity }, findings);
        }
    }
    admission(model, minor, findings);
}

/// What says a flag.
struct Place<'a> {
    path: &'a [&'a str],
    entity: &'a Entity,
}

impl Place<'_> {
    fn say(&self, finding: Finding) -> Finding {
        about(finding, self.path, self.entity)
    }
}

/// A component of a minor.
struct Component<'a> {
    name: &'a str,
    minor: u32,
}

impl Component<'_> {
    /// The flags in units that run the component.
    fn command_lines(&self, model: &Model, group: &Group, findings: &mut Findings) {
        for part in ["units", "dropins"] {
            for (name, entity) in model.entities(&["machines", &group.key, part]) {
                let Some(text) = entity.body.get("content").and_then(Node::as_str) else {
                    continue;
                };
                if !text.contains(self.name) {
                    continue;
                }
                let joined = text.replace("\\\n", " ");
                let path = ["machines", group.key.as_str(), part, name];
                let place = Place { path: &path, entity };
                for words in joined.lines().filter_map(|l| command(l, self.name)) {
                    for word in words.split_whitespace().filter_map(|w| w.strip_prefix("--")) {
                        let (flag, value) =
                            word.split_once('=').map_or((word, None), |(f, v)| (f, Some(v)));
                        self.flag(flag, value, &place, findings);
                    }
                }
            }
        }
    }

    /// Refuses a flag that the component does not have; `value` is that of a flag with one.
    fn flag(&self, name: &str, value: Option<&str>, place: &Place<'_>, findings: &mut Findings) {
        let Self { name: component, minor } = *self;
        let say = |code: &str, text: String| place.say(Finding::fatal(code, text));
        match kubernetes::flag(component, name, minor) {
            Flag::Known(known) => self.value(name, &known, value, place, findings),
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
    fn value(
        &self,
        name: &str,
        known: &Known,
        value: Option<&str>,
        place: &Place<'_>,
        findings: &mut Findings,
    ) {
        let Self { name: component, minor } = *self;
        let Some(value) = value else { return };
        if let Some(why) = &known.deprecated {
            let text = format!("--{name} of {component} is deprecated in 1.{minor}");
            let finding = Finding::warning("flags/deprecated", text);
            findings.push(place.say(finding).note(why.clone()));
        }
        // What machines fill in is not known here.
        if !value.contains("@{") && !value.contains("${") && !fits(&known.kind, value) {
            let text = format!(
                "--{name} of {component} takes {}, and `{value}` is none",
                article(&known.kind)
            );
            findings.push(place.say(Finding::fatal("flags/value", text)));
        }
    }

    fn gates(&self, model: &Model, path: &[&str], findings: &mut Findings) {
        for (name, entity) in model.entities(path) {
            let path = [path, &[name]].concat();
            self.gate(name, entity.body.as_bool(), &Place { path: &path, entity }, findings);
        }
    }

    fn gate(&self, name: &str, wanted: Option<bool>, place: &Place<'_>, findings: &mut Findings) {
        let Self { name: component, minor } = *self;
        let Some(gate) = kubernetes::gate(component, name, minor) else {
            if !["AllAlpha", "AllBeta"].contains(&name) {
                findings.push(unknown_gate(name, component, minor, place));
            }
            return;
        };
        if gate.locked && wanted.is_some_and(|wanted| wanted != gate.default) {
            let text = format!(
                "the gate {name} is locked to {} in 1.{minor}: {component} would not start",
                gate.default
            );
            findings.push(place.say(Finding::fatal("flags/gate", text)).help("leave it out"));
        } else if gate.stage == "Alpha" && wanted == Some(true) {
            let text = format!(
                "the gate {name} is alpha in 1.{minor}: it may change or go with any release"
            );
            findings.push(place.say(Finding::warning("flags/alpha-gate", text)));
        }
    }
}

/// The arguments of a program in a line of a unit that runs it.
fn command<'a>(line: &'a str, program: &str) -> Option<&'a str> {
    let command = line.trim_start().strip_prefix("ExecStart=")?;
    let (path, arguments) = command.trim().split_once(char::is_whitespace)?;
    (path.rsplit('/').next() == Some(program)).then_some(arguments)
}

fn unknown_gate(name: &str, component: &str, minor: u32, place: &Place<'_>) -> Finding {
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
    let finding = place.say(Finding::fatal("flags/gate", text));
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
        "duration" => kubernetes::seconds(value).is_some(),
        "ip" => value.parse::<std::net::IpAddr>().is_ok(),
        _ => true,
    }
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
