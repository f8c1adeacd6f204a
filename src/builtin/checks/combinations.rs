//! Flags that exclude each other, need each other, or do nothing alone: what the components refuse at their
//! start, told before (messages of the components' own validation, Kubernetes 1.34 to 1.37).

use super::{about, setter, text};
use crate::finding::{Finding, Findings};
use crate::model::Model;

const API: &str = "apiServer";

/// Checks the flags of all components against each other.
pub(in crate::builtin) fn combinations(model: &Model, findings: &mut Findings) {
    let mut cx = Cx { model, findings };
    cx.excluded();
    cx.authentication();
    cx.pairs();
    cx.audit();
    cx.service_accounts();
    cx.numbers();
    cx.across_components();
}

struct Cx<'a, 'f> {
    model: &'a Model,
    findings: &'f mut Findings,
}

impl Cx<'_, '_> {
    fn names(&self, section: &str) -> Vec<&str> {
        self.model.names(&[section, "flags"])
    }

    fn has(&self, flag: &str) -> bool {
        setter(self.model, API, flag).is_some()
    }

    /// Says that a flag cannot stand as it does; `also` is the other one.
    fn refuse(&mut self, section: &str, flag: &str, also: Option<&str>, said: String, help: &str) {
        let Some(entity) = setter(self.model, section, flag) else { return };
        let mut finding =
            about(Finding::fatal("flags/combination", said), &[section, "flags", flag], entity)
                .help(help);
        if let Some(other) = also.and_then(|flag| setter(self.model, section, flag)) {
            let owners = other.owner_names().join(", ");
            finding = finding.related(other.body.key_origin(), format!("{owners} sets this"));
        }
        self.findings.push(finding);
    }

    /// Flags that a configuration file of kaws's takes the place of.
    fn excluded(&mut self) {
        let oidc: Vec<String> = self
            .names(API)
            .into_iter()
            .filter(|n| n.starts_with("oidc-"))
            .map(str::to_owned)
            .collect();
        for flag in oidc {
            let said = format!("--{flag} and --authentication-config exclude each other");
            self.refuse(
                API,
                &flag,
                Some("authentication-config"),
                said,
                "write the issuer under apiServer.authentication.jwt",
            );
        }
        if self.has("anonymous-auth") {
            let said =
                "--anonymous-auth and the conditions in --authentication-config exclude each other"
                    .to_owned();
            self.refuse(
                API,
                "anonymous-auth",
                Some("authentication-config"),
                said,
                "leave it out: only health is for everybody",
            );
        }
        for flag in [
            "authorization-mode",
            "authorization-policy-file",
            "authorization-webhook-config-file",
            "authorization-webhook-version",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
        ] {
            if self.has(flag) {
                let said = format!("--{flag} and --authorization-config exclude each other");
                self.refuse(
                    API,
                    flag,
                    Some("authorization-config"),
                    said,
                    "write the webhook under apiServer.authorization.webhooks",
                );
            }
        }
        if self.has("admission-control") {
            let said =
                "--admission-control and --enable-admission-plugins exclude each other".to_owned();
            self.refuse(
                API,
                "admission-control",
                Some("enable-admission-plugins"),
                said,
                "write the plugins under enable-admission-plugins",
            );
        }
    }

    /// Who may come in must be said at all.
    fn authentication(&mut self) {
        if !self.has("authorization-config") && !self.has("authorization-mode") {
            let finding = Finding::fatal(
                "flags/combination",
                "kube-apiserver would allow everybody everything: nothing says who may do what",
            );
            self.findings
                .push(finding.about("apiServer.flags").help("leave authorization-config as it is"));
        }
        let same = text(self.model, API, "client-ca-file");
        if same.is_some()
            && same == text(self.model, API, "requestheader-client-ca-file")
            && !self.has("requestheader-allowed-names")
        {
            let said = "--requestheader-client-ca-file is --client-ca-file: every client could speak for others".to_owned();
            self.refuse(
                API,
                "requestheader-client-ca-file",
                Some("client-ca-file"),
                said,
                "keep an authority of its own, or say requestheader-allowed-names",
            );
        }
        let uid: Vec<(String, bool)> = self
            .model
            .entities(&[API, "flags", "requestheader-uid-headers"])
            .map(|(name, _)| (name.to_owned(), name.eq_ignore_ascii_case("X-Remote-Uid")))
            .collect();
        for (name, _) in uid.iter().filter(|(_, right)| !right) {
            let said =
                format!("--requestheader-uid-headers takes X-Remote-Uid alone, and not {name}");
            self.refuse(API, "requestheader-uid-headers", None, said, "write X-Remote-Uid");
        }
    }

    /// A certificate without its key, a file without the switch it belongs to.
    fn pairs(&mut self) {
        for (one, other) in [
            ("proxy-client-cert-file", "proxy-client-key-file"),
            ("kubelet-client-certificate", "kubelet-client-key"),
            ("tls-cert-file", "tls-private-key-file"),
            ("etcd-certfile", "etcd-keyfile"),
        ] {
            for (there, missing) in [(one, other), (other, one)] {
                if self.has(there) && !self.has(missing) {
                    let said = format!("--{there} needs --{missing}");
                    self.refuse(API, there, None, said, "a certificate and its key go together");
                }
            }
        }
        let reload = "encryption-provider-config-automatic-reload";
        if text(self.model, API, reload).as_deref() == Some("true")
            && !self.has("encryption-provider-config")
        {
            let said = format!("--{reload} needs --encryption-provider-config");
            self.refuse(
                API,
                reload,
                None,
                said,
                "nothing would be encrypted: leave both, or take out both",
            );
        }
        if !self.has("etcd-servers") {
            let finding = Finding::fatal(
                "flags/combination",
                "kube-apiserver needs --etcd-servers, and nobody sets it",
            );
            self.findings.push(finding.about("apiServer.flags.etcd-servers"));
        }
    }

    /// An audit log that nothing fills.
    fn audit(&mut self) {
        let names: Vec<String> = self.names(API).into_iter().map(str::to_owned).collect();
        let inert = names.iter().filter(|n| {
            n.starts_with("audit-log-") && *n != "audit-log-path" && !n.contains("truncate")
        });
        if !self.has("audit-log-path") {
            for flag in inert {
                self.warn(flag, format!("--{flag} does nothing without --audit-log-path"));
            }
        }
        if !self.has("audit-policy-file")
            && (self.has("audit-log-path") || self.has("audit-webhook-config-file"))
        {
            let flag = if self.has("audit-log-path") {
                "audit-log-path"
            } else {
                "audit-webhook-config-file"
            };
            self.warn(flag, format!("--{flag} records nothing without --audit-policy-file"));
        }
    }

    fn warn(&mut self, flag: &str, said: String) {
        if let Some(entity) = setter(self.model, API, flag) {
            let finding = Finding::warning("flags/inert", said);
            self.findings.push(about(finding, &[API, "flags", flag], entity));
        }
    }

    fn service_accounts(&mut self) {
        let issuers = self.model.names(&[API, "flags", "service-account-issuer"]).len();
        if issuers == 0 {
            let finding = Finding::fatal(
                "flags/combination",
                "kube-apiserver needs --service-account-issuer, and nobody sets it",
            );
            self.findings.push(finding.about("apiServer.flags.service-account-issuer"));
        }
        let endpoint = "service-account-signing-endpoint";
        for flag in ["service-account-signing-key-file", "service-account-key-file"] {
            if self.has(endpoint) && self.has(flag) {
                let said = format!("--{endpoint} and --{flag} exclude each other");
                self.refuse(
                    API,
                    endpoint,
                    Some(flag),
                    said,
                    "keys lie in files, or somebody else signs",
                );
            }
        }
        if let Some(uri) =
            text(self.model, API, "service-account-jwks-uri").filter(|u| !u.starts_with("https://"))
        {
            let said = format!("--service-account-jwks-uri is {uri}, and must begin with https://");
            self.refuse(API, "service-account-jwks-uri", None, said, "AWS reads it over TLS");
        }
    }

    fn numbers(&mut self) {
        let port = text(self.model, API, "secure-port").and_then(|p| p.parse::<u32>().ok());
        if port.is_some_and(|p| !(1..=65_535).contains(&p)) {
            let said = format!("--secure-port is {}, and no port", port.unwrap_or_default());
            self.refuse(API, "secure-port", None, said, "write 6443");
        }
        let chance = text(self.model, API, "goaway-chance").and_then(|p| p.parse::<f64>().ok());
        if chance.is_some_and(|c| !(0.0..=0.02).contains(&c)) {
            let said =
                format!("--goaway-chance is {}, and is at most 0.02", chance.unwrap_or_default());
            self.refuse(API, "goaway-chance", None, said, "write 0.001");
        }
    }

    /// Components that must agree.
    fn across_components(&mut self) {
        for (one, flag, other, theirs) in [
            ("controllerManager", "service-cluster-ip-range", API, "service-cluster-ip-range"),
            (
                "controllerManager",
                "service-account-private-key-file",
                API,
                "service-account-signing-key-file",
            ),
        ] {
            let (a, b) = (text(self.model, one, flag), text(self.model, other, theirs));
            if let (Some(a), Some(b)) = (a, b)
                && a != b
            {
                let said = format!(
                    "kube-controller-manager has --{flag} {a}, and kube-apiserver --{theirs} {b}"
                );
                let Some(entity) = setter(self.model, one, flag) else { continue };
                let mut finding =
                    about(Finding::fatal("flags/disagree", said), &[one, "flags", flag], entity);
                if let Some(other) = setter(self.model, other, theirs) {
                    let owners = other.owner_names().join(", ");
                    finding =
                        finding.related(other.body.key_origin(), format!("{owners} sets this"));
                }
                self.findings.push(finding.help("write the same for both"));
            }
        }
    }
}
