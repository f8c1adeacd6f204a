//! Flags that exclude each other, need each other, or do nothing alone: what the components refuse at their
//! start, told before. The rules are those of the components' own validation (Kubernetes 1.34 to 1.37).
//!
//! Not here: flags that a component does not know (`flags`), and what a machine needs to boot (`boot`).

mod access;
mod agreement;
mod serving;
mod storage;

use super::{about, setter, shown, text};
use crate::finding::{Finding, Findings};
use crate::kubernetes;
use crate::model::{Entity, Model};
use crate::plugin::Context;

const API: &str = "apiServer";

/// Checks the flags of all components against each other.
pub(in crate::builtin) fn combinations(cx: &Context<'_>, model: &Model, findings: &mut Findings) {
    let minor = cx.config.kubernetes_minor();
    let mut rules = Rules { model, minor, findings };
    rules.authentication();
    rules.authorization();
    rules.request_headers();
    rules.service_accounts();
    rules.etcd();
    rules.encryption();
    rules.certificates();
    rules.audit();
    rules.numbers();
    rules.apis();
    rules.across_components(&cx.config.network.service_cidr);
}

struct Rules<'a, 'f> {
    model: &'a Model,
    minor: u32,
    findings: &'f mut Findings,
}

/// An item of a flag that holds several: a URL, a key and its value.
struct Item<'a> {
    flag: &'a str,
    name: &'a str,
    value: String,
    entity: &'a Entity,
}

impl<'a> Rules<'a, '_> {
    /// The flags that are set.
    fn names(&self, section: &str) -> Vec<&'a str> {
        self.model.names(&[section, "flags"])
    }

    fn has(&self, flag: &str) -> bool {
        setter(self.model, API, flag).is_some()
    }

    /// A scalar flag of the API server.
    fn text(&self, flag: &str) -> Option<String> {
        text(self.model, API, flag)
    }

    fn number(&self, flag: &str) -> Option<f64> {
        self.text(flag).and_then(|t| t.parse().ok())
    }

    /// The items of a flag that holds several.
    fn items(&self, flag: &'a str) -> Vec<Item<'a>> {
        let items = self.model.entities(&[API, "flags", flag]);
        let item = |(name, entity): (&'a str, &'a Entity)| Item {
            flag,
            name,
            value: shown(&entity.body),
            entity,
        };
        items.map(item).collect()
    }

    /// Says that one item of a flag cannot stand as it does.
    fn refuse_item(&mut self, item: &Item<'_>, said: String, help: &str) {
        let finding = Finding::fatal("flags/combination", said);
        let path = [API, "flags", item.flag, item.name];
        self.findings.push(about(finding, &path, item.entity).help(help));
    }

    /// Whether a feature gate is on: as it is set, or by default. One that nobody knows any more is.
    fn gate(&self, name: &str) -> bool {
        let set = self.model.entity(&[API, "flags", "feature-gates", name]);
        set.and_then(|entity| entity.body.as_bool()).unwrap_or_else(|| {
            kubernetes::gate("kube-apiserver", name, self.minor).is_none_or(|gate| gate.default)
        })
    }

    /// Says that a flag of the API server cannot stand as it does; `also` is the other one.
    fn refuse(&mut self, flag: &str, also: Option<&str>, said: String, help: &str) {
        let Some(entity) = setter(self.model, API, flag) else { return };
        let finding = Finding::fatal("flags/combination", said);
        let mut finding = about(finding, &[API, "flags", flag], entity).help(help);
        if let Some(other) = also.and_then(|flag| setter(self.model, API, flag)) {
            let owners = other.owner_names().join(", ");
            finding = finding.related(other.body.key_origin(), format!("{owners} sets this"));
        }
        self.findings.push(finding);
    }

    /// Says that a flag is missing.
    fn lacks(&mut self, flag: &str, said: &str, help: &str) {
        let finding = Finding::fatal("flags/combination", said);
        self.findings.push(finding.about(format!("{API}.flags.{flag}")).help(help));
    }

    fn warn(&mut self, flag: &str, said: String) {
        if let Some(entity) = setter(self.model, API, flag) {
            let finding = Finding::warning("flags/inert", said);
            self.findings.push(about(finding, &[API, "flags", flag], entity));
        }
    }
}
