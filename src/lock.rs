//! `kaws.lock`: the exact identity of everything that is fetched, each with its source, and the table of
//! hashes that kaws knows by itself.
//!
//! Not here: resolving anything, which asks the outside.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::{Finding, Findings};
use crate::schema::{Schema, Wording};
use crate::value::Node;

/// What `kaws.lock` says, and the built-in table below it.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    file: LockFile,
    known: BTreeMap<String, Pinned>,
    /// Whether there is a file.
    pub exists: bool,
}

/// The file.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "kaws.lock")]
pub struct LockFile {
    /// The release of kaws that wrote it; an older one refuses it.
    #[schemars(regex(pattern = "^[0-9]+\\.[0-9]+\\.[0-9]+(-[0-9A-Za-z.-]+)?$"))]
    pub kaws: String,
    /// What is fetched, by name/version/architecture.
    #[serde(default)]
    pub pins: BTreeMap<String, Pinned>,
    /// What the outside answered to plugins, by PLUGIN/LOOKUP.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lookups: BTreeMap<String, Answered>,
    /// Scripts of hooks that come from elsewhere, by EVENT/PLUGIN/NAME.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scripts: BTreeMap<String, Script>,
    /// The plugins that were there.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": crate::name::NAME_PATTERN}))]
    pub plugins: BTreeMap<String, LockedPlugin>,
}

/// An answer of the outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an answer")]
pub struct Answered {
    /// The answer.
    pub value: Value,
    /// Who gave it, and to what.
    pub from: String,
}

/// A script that was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a script")]
pub struct Script {
    /// Its text: what is reviewed is what runs.
    pub content: String,
    /// Where it was taken from.
    pub from: String,
}

/// One exact identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a pin")]
pub struct Pinned {
    /// The identity: sha256:…, or ami-….
    #[schemars(regex(pattern = "^(sha256:[0-9a-f]{64}|ami-[0-9a-f]{8,17})$"))]
    pub value: String,
    /// Where it was taken from.
    pub from: String,
}

/// One plugin as it was locked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a locked plugin")]
pub struct LockedPlugin {
    /// Its version.
    pub version: String,
    /// The hash of everything in its folder.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// That it is a contrib plugin, which was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// What its programs may reach, as it was granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Where it was installed from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Installed>,
}

impl LockedPlugin {
    /// Returns the hash of its files on this machine: archives of a release can be one for each platform.
    #[must_use]
    pub fn tree(&self) -> &str {
        let archive = self.source.as_ref().and_then(Installed::archive);
        archive.map_or(&self.sha256, |archive| &archive.tree)
    }
}

/// Where a plugin was installed from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "where a plugin was installed from")]
pub struct Installed {
    /// The source, as it was named.
    pub from: String,
    /// The address of the releases' API, where it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9a-f]{40}([0-9a-f]{24})?$"))]
    pub revision: Option<String>,
    /// The archives, by platform: `any`, or linux-amd64 and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub archives: BTreeMap<String, Archive>,
    /// The name of the key that signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
}

impl Installed {
    /// Returns the archive for this machine.
    #[must_use]
    pub fn archive(&self) -> Option<&Archive> {
        self.archives.get("any").or_else(|| self.archives.get(&crate::name::platform()))
    }
}

/// An archive, as it was downloaded and unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "an archive")]
pub struct Archive {
    /// Its address.
    pub url: String,
    /// The hash of its bytes.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// The hash of the files in it.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub tree: String,
}

impl Lock {
    /// Returns the lock made of the file, if there is one, and the table of known hashes.
    ///
    /// # Errors
    /// All that is wrong with the file.
    pub fn read(node: Option<&Node>, known: BTreeMap<String, Pinned>) -> Result<Self, Findings> {
        let Some(node) = node else { return Ok(Self { known, ..Self::default() }) };
        let schema = Schema::compile(&crate::schema::of::<LockFile>()).expect("a test compiles it");
        let wording = Wording { area: "lock", subject: "kaws.lock", label: None, source: None };
        let findings = schema.check(node, &wording);
        if !findings.is_empty() {
            return Err(findings);
        }
        let file: LockFile = serde_json::from_value(node.to_value()).map_err(|error| {
            Findings::from(Finding::fatal("lock/value", error.to_string()).at(&node.origin))
        })?;
        let own =
            semver::Version::parse(env!("CARGO_PKG_VERSION")).expect("Cargo checks the version");
        let origin = node.get("kaws").map_or(&node.origin, |n| &n.origin);
        match semver::Version::parse(&file.kaws) {
            Ok(version) if version > own => {
                let text = format!("kaws {version} wrote kaws.lock, and this is {own}");
                Err(Finding::fatal("lock/newer", text)
                    .at(origin)
                    .help(format!("use kaws {version}"))
                    .into())
            }
            Ok(_) => Ok(Self { file, known, exists: true }),
            Err(error) => Err(Finding::fatal("lock/value", error.to_string()).at(origin).into()),
        }
    }

    /// Returns the identity of `name`; one that was taken from elsewhere than `from` does not count.
    #[must_use]
    pub fn pin(&self, name: &str, from: Option<&str>) -> Option<&Pinned> {
        let locked = self.file.pins.get(name).filter(|pin| {
            from.is_none_or(|from| pin.from == from || !pin.from.starts_with("http"))
        });
        locked.or_else(|| self.known.get(name))
    }

    /// Returns what the file says; nothing where there is none.
    #[must_use]
    pub fn file(&self) -> &LockFile {
        &self.file
    }

    /// Returns the answer to a question; one that was given elsewhere, or to another question, does not count.
    #[must_use]
    pub fn answer(&self, name: &str, from: &str) -> Option<&Value> {
        self.file.lookups.get(name).filter(|answered| answered.from == from).map(|a| &a.value)
    }

    /// Returns the text of a hook's script; one that was taken from elsewhere, or has another hash than the hook asks
    /// for, does not count.
    ///
    /// # Errors
    /// Nobody has fetched it; the finding's place is the caller's to say.
    pub fn script(
        &self,
        name: &str,
        from: &str,
        sha256: Option<&str>,
    ) -> Result<&str, Box<Finding>> {
        let script = self.file.scripts.get(name).filter(|script| script.from == from);
        let fits = |content: &String| {
            sha256.is_none_or(|sha256| sha256 == crate::value::sha256(content.as_bytes()))
        };
        let content = script.map(|script| &script.content).filter(|content| fits(content));
        content.map(String::as_str).ok_or_else(|| {
            let text = format!("nobody has fetched the script {from} yet");
            let help = "kaws lock fetches it, and keeps it in kaws.lock, where it is reviewed";
            Box::new(Finding::fatal("lock/unanswered", text).help(help))
        })
    }

    /// Returns what of `asked` the user has granted a plugin.
    #[must_use]
    pub fn granted(&self, plugin: &str, asked: &[String]) -> Vec<String> {
        let granted = self.plugin(plugin).map_or(&[][..], |p| p.granted.as_slice());
        asked.iter().filter(|right| granted.contains(right)).cloned().collect()
    }

    /// Returns what of `asked` the user has not granted a plugin.
    #[must_use]
    pub fn not_granted(&self, plugin: &str, asked: &[String]) -> Vec<String> {
        let granted = self.plugin(plugin).map_or(&[][..], |p| p.granted.as_slice());
        asked.iter().filter(|right| !granted.contains(right)).cloned().collect()
    }

    /// Returns what was locked of a plugin.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&LockedPlugin> {
        self.file.plugins.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::SourceFile;

    fn read(text: &str) -> Result<Lock, Findings> {
        let node = crate::value::read(&SourceFile::new("kaws.lock", text)).unwrap();
        Lock::read(Some(&node), BTreeMap::new())
    }

    #[test]
    fn an_older_binary_refuses() {
        let findings = read("kaws: 99.0.0").unwrap_err();
        assert_eq!(findings.iter().next().unwrap().code, "lock/newer");
    }

    #[test]
    fn a_hash_taken_from_elsewhere_does_not_count() {
        let hash = "0".repeat(64);
        let lock = read(&format!("kaws: 0.1.0\npins: {{a/1/amd64: {{value: 'sha256:{hash}', from: 'https://a.example/1'}}}}")).unwrap();
        assert!(lock.pin("a/1/amd64", Some("https://a.example/1")).is_some());
        assert!(lock.pin("a/1/amd64", Some("https://b.example/1")).is_none());
    }
}
