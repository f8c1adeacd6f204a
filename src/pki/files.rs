//! Names: what plugins call a certificate or key (`apiserver.key`), and the object that it is.

use std::collections::BTreeMap;

use super::{AuthorityRequest, KeyRequest, Requests};
use crate::model::KeyKind;

/// What of a request a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A certificate, or those of all trusted generations.
    Certificate,
    /// A private key.
    Key,
    /// Public keys of all accepted generations.
    Public,
    /// A token's public half.
    Id,
    /// A token's secret half.
    Secret,
    /// A whole token.
    Token,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The name of its request.
    pub request: String,
    /// What of it.
    pub part: Part,
    /// The generations in it; of a certificate that an authority signed, none.
    pub generations: Vec<u32>,
    /// The last part of its objects' keys.
    pub object: String,
    /// Roles whose machines read it.
    pub roles: Vec<String>,
}

/// Returns the prefix of the objects that machines of a role read.
#[must_use]
pub fn role_prefix(role: &str) -> String {
    format!("pki/{role}/")
}

/// Returns whether a name in a placeholder stands for a file. What each machine fills in for itself stands
/// for anything: `etcd-@{node member}.crt`.
#[must_use]
pub fn matches(named: &str, file: &str) -> bool {
    match named.split_once("@{") {
        None => named == file,
        Some((before, rest)) => {
            let after = rest.split_once('}').map_or("", |(_, after)| after);
            file.len() > before.len() + after.len()
                && file.starts_with(before)
                && file.ends_with(after)
        }
    }
}

/// Returns every file by the name that plugins call it: `kubernetes-ca.crt`, `apiserver.key`.
#[must_use]
pub fn files(requests: &Requests) -> BTreeMap<String, File> {
    let mut all = Files::default();
    for (name, authority) in &requests.authorities {
        all.authority(name, authority);
    }
    for (name, certificate) in &requests.certificates {
        for (part, end) in [(Part::Certificate, "crt"), (Part::Key, "key")] {
            let object = format!("{name}.{}.{end}", certificate.version);
            all.put(name, end, object, part, &[], &certificate.roles);
        }
    }
    for (name, key) in &requests.keys {
        all.key(name, key);
    }
    all.0
}

#[derive(Default)]
struct Files(BTreeMap<String, File>);

impl Files {
    fn put(
        &mut self,
        request: &str,
        end: &str,
        object: String,
        part: Part,
        generations: &[u32],
        roles: &[String],
    ) {
        let file = File {
            request: request.to_owned(),
            part,
            generations: generations.to_vec(),
            object,
            roles: roles.to_vec(),
        };
        self.0.insert(format!("{request}.{end}"), file);
    }

    /// A file whose object is named by the generations in it.
    fn of(&mut self, name: &str, end: &str, part: Part, generations: &[u32], roles: &[String]) {
        let object = format!("{name}.{}.{end}", joined(generations));
        self.put(name, end, object, part, generations, roles);
    }

    fn authority(&mut self, name: &str, authority: &AuthorityRequest) {
        let signs = [authority.signs];
        self.of(name, "crt", Part::Certificate, &authority.trusted, &authority.roles);
        self.of(name, "key", Part::Key, &signs, &authority.key_roles);
        // Who signs needs the certificate of that generation alone, whatever else is trusted.
        self.of(name, "signing.crt", Part::Certificate, &signs, &authority.key_roles);
    }

    fn key(&mut self, name: &str, key: &KeyRequest) {
        let (signs, roles) = ([key.signs], &key.roles);
        match key.kind {
            KeyKind::Rsa => {
                self.of(name, "key", Part::Key, &signs, roles);
                self.of(name, "pub", Part::Public, &key.trusted, roles);
            }
            KeyKind::Token => {
                self.of(name, "id", Part::Id, &signs, roles);
                self.of(name, "secret", Part::Secret, &signs, roles);
                self.of(name, "token", Part::Token, &signs, roles);
                // What was handed out before is accepted until it is trusted no longer.
                for generation in &key.trusted {
                    for (part, end) in [(Part::Id, "id"), (Part::Secret, "secret")] {
                        let end = format!("{generation}.{end}");
                        self.put(name, &end, format!("{name}.{end}"), part, &[*generation], roles);
                    }
                }
            }
            KeyKind::Secretbox => {
                for generation in &key.trusted {
                    let end = format!("{generation}.key");
                    self.put(name, &end, format!("{name}.{end}"), Part::Key, &[*generation], roles);
                }
            }
        }
    }
}

fn joined(generations: &[u32]) -> String {
    generations.iter().map(u32::to_string).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trusted_generation_changes_the_bundle_and_not_the_key() {
        let authority = |signs, trusted: &[u32]| AuthorityRequest {
            common_name: "ca".to_owned(),
            key_roles: vec!["controller".to_owned()],
            roles: vec!["worker".to_owned()],
            signs,
            trusted: trusted.to_vec(),
        };
        let named = |authority| {
            let authorities = [("ca".to_owned(), authority)].into();
            files(&Requests { authorities, ..Requests::default() })
        };
        let (before, after) = (named(authority(1, &[1])), named(authority(1, &[1, 2])));
        assert_eq!(before["ca.crt"].object, "ca.1.crt");
        assert_eq!(after["ca.crt"].object, "ca.1-2.crt");
        assert_eq!(before["ca.key"], after["ca.key"]);
        assert_eq!(after["ca.key"].roles, ["controller"]);
    }

    #[test]
    fn every_accepted_token_and_key_has_files_of_its_own() {
        let key = |kind| KeyRequest {
            kind,
            roles: vec!["controller".to_owned()],
            signs: 2,
            trusted: vec![1, 2],
        };
        let keys = [
            ("t".to_owned(), key(KeyKind::Token)),
            ("e".to_owned(), key(KeyKind::Secretbox)),
            ("s".to_owned(), key(KeyKind::Rsa)),
        ];
        let all = files(&Requests { keys: keys.into(), ..Requests::default() });
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "e.1.key",
                "e.2.key",
                "s.key",
                "s.pub",
                "t.1.id",
                "t.1.secret",
                "t.2.id",
                "t.2.secret",
                "t.id",
                "t.secret",
                "t.token"
            ]
        );
        assert_eq!(all["s.pub"].object, "s.1-2.pub");
        assert_eq!(all["t.token"].generations, [2]);
    }
}
