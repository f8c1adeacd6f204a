//! What the API server serves, with which certificates, how long, and what it writes down.

use super::{API, Rules};

/// Numbers and times that are not negative.
const NOT_NEGATIVE: [&str; 11] = [
    "audit-log-maxage",
    "audit-log-maxbackup",
    "audit-log-maxsize",
    "livez-grace-period",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "min-request-timeout",
    "request-timeout",
    "shutdown-delay-duration",
    "shutdown-watch-termination-grace-period",
    "storage-initialization-timeout",
];
/// The ends of flags of an audit backend that are positive where it sends in batches.
const BATCH: [&str; 4] =
    ["batch-buffer-size", "batch-max-size", "batch-throttle-burst", "batch-throttle-qps"];

impl Rules<'_, '_> {
    /// A certificate without its key.
    pub(super) fn certificates(&mut self) {
        for (one, other) in [
            ("proxy-client-cert-file", "proxy-client-key-file"),
            ("kubelet-client-certificate", "kubelet-client-key"),
            ("tls-cert-file", "tls-private-key-file"),
            ("etcd-certfile", "etcd-keyfile"),
        ] {
            for (there, missing) in [(one, other), (other, one)] {
                if self.has(there) && !self.has(missing) {
                    let said = format!("--{there} needs --{missing}");
                    self.refuse(there, None, said, "a certificate and its key go together");
                }
            }
        }
    }

    /// An audit log that nothing fills, and one that would send nothing.
    pub(super) fn audit(&mut self) {
        let log = self.has("audit-log-path");
        for flag in self.names(API).into_iter().filter(|n| n.starts_with("audit-log-")) {
            if !log && !flag.contains("truncate") {
                self.warn(flag, format!("--{flag} does nothing without --audit-log-path"));
            }
        }
        if !self.has("audit-policy-file") {
            for flag in ["audit-log-path", "audit-webhook-config-file"] {
                self.warn(flag, format!("--{flag} records nothing without --audit-policy-file"));
            }
        }
        // The webhook sends in batches unless it is told otherwise; the log does not.
        for (backend, on, usual) in [
            ("log", "audit-log-path", "blocking"),
            ("webhook", "audit-webhook-config-file", "batch"),
        ] {
            let mode = self.text(&format!("audit-{backend}-mode"));
            if !self.has(on) || mode.as_deref().unwrap_or(usual) != "batch" {
                continue;
            }
            let throttled = self.text(&format!("audit-{backend}-batch-throttle-enable"));
            for end in BATCH {
                let flag = format!("audit-{backend}-{end}");
                let unused = end.contains("throttle") && throttled.as_deref() == Some("false");
                if !unused && self.number(&flag).is_some_and(|n| n <= 0.0) {
                    let said = format!("--{flag} must be more than 0");
                    self.refuse(&flag, None, said, "leave it out, or write how many");
                }
            }
        }
    }

    pub(super) fn numbers(&mut self) {
        if let Some(port) = self.number("secure-port").filter(|p| !(1.0..=65_535.0).contains(p)) {
            let said = format!("--secure-port is {port}, and no port");
            self.refuse("secure-port", None, said, "write 6443");
        }
        if let Some(chance) = self.number("goaway-chance").filter(|c| !(0.0..=0.02).contains(c)) {
            let said = format!("--goaway-chance is {chance}, and is at most 0.02");
            self.refuse("goaway-chance", None, said, "write 0.001");
        }
        for flag in NOT_NEGATIVE {
            if self.text(flag).is_some_and(|text| text.starts_with('-')) {
                let said = format!("--{flag} cannot be negative");
                self.refuse(flag, None, said, "leave it out, or write how long or how many");
            }
        }
        let minor = format!("1.{}", self.minor);
        let emulated = self.text("emulated-version");
        for flag in ["emulation-forward-compatible", "runtime-config-emulation-forward-compatible"]
        {
            let older = emulated.as_ref().is_some_and(|e| !e.ends_with(&minor));
            if self.text(flag).as_deref() == Some("true") && !older {
                let said = format!("--{flag} needs an older --emulated-version than {minor}");
                self.refuse(flag, Some("emulated-version"), said, "leave it out");
            }
        }
    }

    /// Which APIs and admission plugins there are.
    pub(super) fn apis(&mut self) {
        if self.has("admission-control") {
            let said = "--admission-control and --enable-admission-plugins exclude each other";
            let help = "write the plugins under enable-admission-plugins";
            let also = Some("enable-admission-plugins");
            self.refuse("admission-control", also, said.to_owned(), help);
        }
        let flag = "runtime-config";
        let items = self.items(flag);
        if let [only] = items.as_slice()
            && only.name == "api/all"
            && only.value == "false"
        {
            let said = format!("--{flag} turns every API off (api/all=false), and nothing on");
            self.refuse_item(only, said, "name those that stay on: v1: true");
        }
        for item in &items {
            if let Some((said, help)) = self.api_fault(item.name) {
                self.refuse_item(item, said, &help);
            }
        }
        // The first that is said counts.
        let fair = self.text("enable-priority-and-fairness").as_deref() != Some("false");
        let said = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"]
            .into_iter()
            .find_map(|key| items.iter().find(|item| item.name == key));
        if let Some(item) = said.filter(|item| fair && item.value == "false") {
            let said = format!(
                "--{flag} turns {} off, and --enable-priority-and-fairness needs it",
                item.name
            );
            self.refuse_item(item, said, "leave flowcontrol.apiserver.k8s.io/v1 on");
        }
    }

    /// What is wrong with a key of `runtime-config`.
    fn api_fault(&self, key: &str) -> Option<(String, String)> {
        // The core group has several spellings, which all become `/v1`.
        let core = ["v1", "api/v1", "/v1"];
        if core.iter().any(|v| key == *v || key.strip_prefix(v).is_some_and(|k| k.starts_with('/')))
            || ["api/all", "api/ga", "api/beta", "api/alpha", "api/legacy"].contains(&key)
        {
            return None;
        }
        let words: Vec<&str> = key.split('/').collect();
        if !(2..=3).contains(&words.len()) || words.contains(&"") {
            let said = format!("--runtime-config has `{key}`, and each is GROUP/VERSION");
            return Some((said, "write apps/v1: true".to_owned()));
        }
        let groups = crate::kubernetes::api_groups(self.minor);
        if groups.contains(&words[0]) {
            return None;
        }
        let said = format!("kube-apiserver of 1.{} has no API group {}", self.minor, words[0]);
        let near = crate::name::did_you_mean(words[0], groups);
        let help = near.map_or_else(|| "leave it out".to_owned(), |n| format!("did you mean {n}?"));
        Some((said, help))
    }
}
