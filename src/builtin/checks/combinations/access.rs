//! Who may come in, and what they may do.

use super::Rules;
use crate::kubernetes::seconds;

/// The modes of authorization (kube-apiserver 1.34 to 1.37, `--authorization-mode`).
const MODES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
/// What a token of a service account may last, in seconds: an hour, and 2^32 seconds.
const TOKEN: std::ops::RangeInclusive<f64> = 3_600.0..=4_294_967_296.0;

impl Rules<'_, '_> {
    /// Issuers stand in a file of kaws's, or in flags.
    pub(super) fn authentication(&mut self) {
        let file = self.has("authentication-config");
        let oidc: Vec<&str> =
            self.names(super::API).into_iter().filter(|n| n.starts_with("oidc-")).collect();
        for flag in &oidc {
            if file {
                let said = format!("--{flag} and --authentication-config exclude each other");
                let help = "write the issuer under apiServer.authentication.jwt";
                self.refuse(flag, Some("authentication-config"), said, help);
            }
        }
        if file && self.has("anonymous-auth") {
            let said =
                "--anonymous-auth and the conditions in --authentication-config exclude each other";
            let help = "leave it out: only health is for everybody";
            self.refuse("anonymous-auth", Some("authentication-config"), said.to_owned(), help);
        }
        if let Some(first) = oidc.first().filter(|_| !file) {
            for needed in ["oidc-issuer-url", "oidc-client-id"] {
                if !self.has(needed) {
                    let said = format!("--{first} needs --{needed}");
                    self.refuse(first, None, said, "an issuer has a URL and knows its client");
                }
            }
            if self.text("oidc-issuer-url").is_some_and(|url| !url.starts_with("https://")) {
                let said = "--oidc-issuer-url must begin with https://".to_owned();
                self.refuse("oidc-issuer-url", None, said, "tokens of others would be believed");
            }
        }
    }

    /// Authorizers stand in a file of kaws's, or in flags; one of them there must be.
    pub(super) fn authorization(&mut self) {
        if self.has("authorization-config") {
            for flag in [
                "authorization-mode",
                "authorization-policy-file",
                "authorization-webhook-config-file",
                "authorization-webhook-version",
                "authorization-webhook-cache-authorized-ttl",
                "authorization-webhook-cache-unauthorized-ttl",
            ] {
                let said = format!("--{flag} and --authorization-config exclude each other");
                let help = "write the webhook under apiServer.authorization.webhooks";
                self.refuse(flag, Some("authorization-config"), said, help);
            }
        } else if let Some(modes) = self.text("authorization-mode") {
            self.modes(&modes);
        } else {
            let said =
                "kube-apiserver would allow everybody everything: nothing says who may do what";
            self.lacks(
                "authorization-config",
                said,
                "take the patch away that removes authorization-config",
            );
        }
    }

    fn modes(&mut self, text: &str) {
        let modes: Vec<&str> = text.split(',').collect();
        let flag = "authorization-mode";
        for (at, mode) in modes.iter().enumerate() {
            if !MODES.contains(mode) {
                let said = format!("--{flag} knows no mode {mode}");
                self.refuse(flag, None, said, "write Node,RBAC");
            } else if modes[..at].contains(mode) {
                let said = format!("--{flag} names {mode} twice");
                self.refuse(flag, None, said, "write each once");
            }
        }
        for (mode, file) in [
            ("Webhook", "authorization-webhook-config-file"),
            ("ABAC", "authorization-policy-file"),
        ] {
            match (modes.contains(&mode), self.has(file)) {
                (true, false) => {
                    let said = format!("--{flag} names {mode}, which needs --{file}");
                    self.refuse(flag, None, said, "name the file, or leave out the mode");
                }
                (false, true) => {
                    let said = format!("--{file} needs the mode {mode} in --{flag}");
                    self.refuse(file, Some(flag), said, "name the mode, or leave out the file");
                }
                _ => {}
            }
        }
    }

    /// Who may speak for others.
    pub(super) fn request_headers(&mut self) {
        let (own, theirs) = ("requestheader-client-ca-file", "client-ca-file");
        let same = self.text(own).is_some() && self.text(own) == self.text(theirs);
        if same && !self.has("requestheader-allowed-names") {
            let said = format!("--{own} is --{theirs}: every client could speak for others");
            let help = "keep an authority of its own, or say requestheader-allowed-names";
            self.refuse(own, Some(theirs), said, help);
        }
        let flag = "requestheader-uid-headers";
        let names = self.items(flag);
        if self.has(flag)
            && !names.iter().any(|item| item.name.eq_ignore_ascii_case("X-Remote-Uid"))
        {
            let said = format!("--{flag} lacks X-Remote-Uid, which API servers send to each other");
            self.refuse(flag, None, said, "add X-Remote-Uid");
        }
        if self.has(flag) && !self.gate("RemoteRequestHeaderUID") {
            let said = format!("--{flag} needs the gate RemoteRequestHeaderUID");
            self.refuse(flag, Some("feature-gates"), said, "leave the gate on");
        }
    }

    /// Who signs tokens of service accounts, and who believes them.
    pub(super) fn service_accounts(&mut self) {
        let issuers = self.items("service-account-issuer");
        if issuers.is_empty() {
            let said = "kube-apiserver needs --service-account-issuer, and nobody sets it";
            self.lacks("service-account-issuer", said, "take the patch away that removes it");
        }
        for issuer in issuers.iter().filter(|issuer| !is_issuer(issuer.name)) {
            let said = format!("--service-account-issuer is `{}`, which is no URL", issuer.name);
            self.refuse_item(issuer, said, "write https://HOST/PATH");
        }
        let endpoint = "service-account-signing-endpoint";
        for flag in ["service-account-signing-key-file", "service-account-key-file"] {
            if self.has(endpoint) && self.has(flag) {
                let said = format!("--{endpoint} and --{flag} exclude each other");
                self.refuse(
                    endpoint,
                    Some(flag),
                    said,
                    "keys lie in files, or somebody else signs",
                );
            } else if !self.has(endpoint) && !self.has(flag) {
                let said =
                    format!("kube-apiserver needs --{flag} or --{endpoint}, and nobody sets one");
                self.lacks(flag, &said, "take the patch away that removes the keys");
            }
        }
        let uri = "service-account-jwks-uri";
        if let Some(text) = self.text(uri).filter(|u| !u.starts_with("https://")) {
            let said = format!("--{uri} is {text}, and must begin with https://");
            self.refuse(uri, None, said, "AWS reads it over TLS");
        }
        let longest = "service-account-max-token-expiration";
        let seconds = self.text(longest).and_then(|text| seconds(&text));
        // 0 leaves it to whoever asks.
        if seconds.is_some_and(|s| s != 0.0 && !TOKEN.contains(&s)) {
            let said = format!("--{longest} is between an hour and 2^32 seconds");
            self.refuse(longest, None, said, "write 24h, or leave it out");
        }
    }
}

/// What Go's `url.Parse` takes, where there is a colon at all: an old cluster's issuer may be any name.
fn is_issuer(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    !text.is_empty()
        && !text.contains(|c: char| c.is_control() || c == ' ')
        && scheme.is_none_or(|s| s.starts_with(|c: char| c.is_ascii_alphabetic()))
}
