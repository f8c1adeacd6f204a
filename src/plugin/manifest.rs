//! `plugin.yaml`: the same for built-in, contrib and user plugins.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LookupForm;
use super::program::{self, Capabilities, Exec, Limits};
use crate::config::Role;
use crate::finding::{Finding, Findings};
use crate::name::Name;
use crate::schema::{Schema, Wording};
use crate::value::{Node, Path};

/// A plugin's manifest: the whole of `plugin.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "plugin.yaml")]
pub struct Manifest {
    /// Version of this file's format: `kaws/v1`.
    #[schemars(extend("const" = "kaws/v1"))]
    pub api_version: String,
    /// The plugin's name; its folder has the same.
    #[schemars(regex(pattern = "^[a-z]([a-z0-9-]*[a-z0-9])?$"), length(max = 63))]
    pub name: String,
    /// The plugin's version.
    #[schemars(regex(pattern = "^[0-9]+\\.[0-9]+\\.[0-9]+(-[0-9A-Za-z.-]+)?$"))]
    pub version: String,
    /// What it does, in a sentence.
    pub description: String,
    /// How far to trust it; without it the plugin is as good as any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maturity: Option<Maturity>,
    /// Releases of kaws it works with, as `>=0.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kaws: Option<String>,
    /// Plugins that must be on, and are called before it.
    #[serde(default)]
    pub requires: Vec<String>,
    /// Plugins that are called before it, if they are on.
    #[serde(default)]
    pub after: Vec<String>,
    /// Roles whose nodes it is for: what `nodes` stands for.
    #[serde(default)]
    pub nodes: Vec<Role>,
    /// A built-in plugin that this one takes the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// What it provides, by slot: `exclusive`, `shared`, or {exclusive: true, $when: …}.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub provides: BTreeMap<String, Provision>,
    /// JSON Schema of its settings. Beside the usual words: `format: cidr`, `file` (read beside cluster.yaml) and `secret`.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Paths of the model it contributes to; anything else is fatal. A declared plugin in the cluster's own folder needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Vec<String>>,
    /// Paths of the model that a program is told, and `plugins.NAME` for other plugins' settings; everything without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Vec<String>>,
    /// How its program is built: a command that `kaws plugin test` runs in its folder, and nothing else does.
    #[serde(default)]
    pub build: Vec<String>,
    /// Programs on the PATH that its own program runs, as jq.
    #[serde(default)]
    pub programs: Vec<String>,
    /// How far its program may go.
    #[serde(default)]
    pub limits: Limits,
    /// What its program may reach, once the user has granted it.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// What its program must know of the outside, by name: kaws lock asks, and kaws.lock has the answer.
    #[serde(default)]
    pub lookups: BTreeMap<String, LookupForm>,
    /// Commands it adds: `kaws NAME` runs the program, with all that follows the name.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$", "maxLength": 63}))]
    pub commands: BTreeMap<String, CommandForm>,
    /// Secrets it uses, by name.
    #[serde(default)]
    pub secrets: BTreeMap<String, SecretForm>,
    /// What its nodes download, by name.
    #[serde(default)]
    pub pins: BTreeMap<String, PinForm>,
    /// What it adds in initialise: a contribution, {exec: ./bin/x} for a program, or {native: true} for code in the binary.
    #[serde(default)]
    pub initialise: BTreeMap<String, Value>,
    /// What it adds in render: a contribution, artifacts and findings, {exec: ./bin/x}, or {native: true}.
    #[serde(default)]
    pub render: BTreeMap<String, Value>,
    /// Its steps in deploy, by name.
    #[serde(default)]
    pub deploy: BTreeMap<String, Value>,
    /// Its checks of the running cluster, by name.
    #[serde(default)]
    pub validate: BTreeMap<String, Value>,
}

impl Manifest {
    /// Returns all that somebody decides about who uses it: where it writes, what it runs, and the rights it asks for.
    #[must_use]
    pub fn powers(&self) -> Vec<String> {
        let writes = self.writes.iter().flatten().map(|path| format!("writes {path}"));
        let commands = self.commands.keys().map(|name| format!("command {name}"));
        let program = (!self.programs_of().is_empty()).then(|| "program of its own".to_owned());
        let others = self.programs.iter().map(|name| format!("program {name} of this machine"));
        let steps = self.deploy.keys().map(|name| format!("step {name}"));
        let checks = self.validate.keys().map(|name| format!("check {name}"));
        let rights = self.capabilities.rights();
        let all = writes.chain(commands).chain(program).chain(others).chain(steps).chain(checks);
        all.chain(rights).collect()
    }

    /// Returns all programs it names, of stages and lookups.
    #[must_use]
    pub fn programs_of(&self) -> Vec<Exec> {
        let stages = ["initialise", "render"].into_iter();
        let stages = stages.filter_map(|stage| program::of_stage(self, stage)?.ok());
        let lookups = self.lookups.values().filter_map(|lookup| lookup.exec.clone());
        let commands = self.commands.values().map(|command| command.exec.clone());
        let hooks = self.initialise.get("hooks").and_then(Value::as_object).into_iter().flatten();
        let hooks = hooks.filter_map(|(_, event)| event.as_object()).flatten();
        let hooks =
            hooks.filter_map(|(_, hook)| serde_json::from_value(hook.get("exec")?.clone()).ok());
        let later = self.deploy.values().chain(self.validate.values());
        let later = later.filter_map(|one| serde_json::from_value(one.get("exec")?.clone()).ok());
        stages.chain(lookups).chain(commands).chain(hooks).chain(later).collect()
    }
}

/// How far to trust a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Maturity {
    /// Of use to many, and less tried than what is built in.
    Contrib,
    /// To be replaced; it still works.
    Deprecated,
}

/// Whether a slot can be filled by several plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Slot {
    /// By one.
    Exclusive,
    /// By any number.
    Shared,
}

/// What a plugin provides in a slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Provision {
    /// Whether others can as well.
    pub slot: Slot,
    /// The expression under which it does at all.
    pub when: Option<String>,
}

impl TryFrom<Value> for Provision {
    type Error = String;
    fn try_from(value: Value) -> Result<Self, String> {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        match &value {
            Value::String(word) if word == "exclusive" => {
                Ok(Self { slot: Slot::Exclusive, when: None })
            }
            Value::String(word) if word == "shared" => Ok(Self { slot: Slot::Shared, when: None }),
            Value::Object(map) => {
                let exclusive = map.get("exclusive").and_then(Value::as_bool) == Some(true);
                let slot = if exclusive { Slot::Exclusive } else { Slot::Shared };
                Ok(Self { slot, when: map.get("$when").and_then(text) })
            }
            _ => Err("write exclusive, shared, or {exclusive: true, $when: …}".to_owned()),
        }
    }
}

impl From<Provision> for Value {
    fn from(provision: Provision) -> Self {
        serde_json::json!({"exclusive": provision.slot == Slot::Exclusive, "$when": provision.when})
    }
}

/// A command of a plugin.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a command")]
pub struct CommandForm {
    /// What it does, in a sentence.
    pub description: String,
    /// The program.
    pub exec: Exec,
}

/// A secret of a plugin.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a secret")]
pub struct SecretForm {
    /// What it is.
    #[serde(default)]
    pub description: String,
}

/// Something a plugin's nodes download.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "a pin")]
pub struct PinForm {
    /// Where from: a template, in which `arch` is amd64 or arm64.
    pub url: String,
    /// Its version, a template; by default the setting `version`, or else the plugin's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The file to take out of the archive that is downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
}

/// Where a plugin was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Home {
    /// Part of kaws.
    Builtin,
    /// Part of kaws, and less tried.
    Contrib,
    /// The user's; the folder as the user knows it.
    User(String),
    /// Installed, as kaws.lock says; its source.
    Installed(String),
}

impl Home {
    /// Returns what stands before a file's path in messages.
    #[must_use]
    pub fn file_name(&self, plugin: &str, file: &str) -> String {
        match self {
            Self::Builtin => format!("builtin:{plugin}/{file}"),
            Self::Contrib => format!("contrib:{plugin}/{file}"),
            Self::Installed(_) => format!("installed:{plugin}/{file}"),
            Self::User(folder) if folder.is_empty() => file.to_owned(),
            Self::User(folder) => format!("{folder}/{file}"),
        }
    }
}

/// The files of a plugin's folder beside `plugin.yaml`, by path.
pub type Files = BTreeMap<String, Cow<'static, [u8]>>;

/// A plugin's folder, read and checked.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: Name,
    /// The manifest.
    pub manifest: Manifest,
    /// The manifest as it was written.
    pub node: Node,
    /// Where it was found.
    pub home: Home,
    /// Its files.
    pub files: Files,
    /// Its settings' schema.
    pub settings: Schema,
    /// Where it may write; `None` where that is read off the contribution.
    pub writes: Option<Vec<Path>>,
    /// What a program of it is told of the model; `None` for all of it.
    pub reads: Option<Vec<Path>>,
    hash: OnceLock<String>,
}

impl Package {
    /// Reads a manifest that has been parsed.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(node: Node, home: Home, files: Files) -> Result<Self, Findings> {
        let schema = manifest_schema();
        let wording =
            Wording { area: "plugin", subject: "the manifest", label: None, source: None };
        let node = super::short::spelled_out(node.without_nulls())?;
        let mut findings = schema.check(&node, &wording);
        if !findings.is_empty() {
            return Err(findings);
        }
        let manifest: Manifest = match serde_json::from_value(node.to_value()) {
            Ok(manifest) => manifest,
            Err(error) => {
                let finding = Finding::fatal("plugin/value", error.to_string()).at(&node.origin);
                return Err(finding.into());
            }
        };
        let name = Name::new(&manifest.name).ok_or_else(Findings::new)?;
        let settings = compile_settings(&manifest, &node, &mut findings);
        let writes = paths("writes", manifest.writes.as_deref(), &node, &mut findings);
        let reads = paths("reads", manifest.reads.as_deref(), &node, &mut findings);
        check_release(&manifest, &node, &mut findings);
        findings.extend(program::check(&manifest, &node, &files));
        match settings {
            Some(settings) if findings.is_empty() => {
                let hash = OnceLock::new();
                Ok(Self { name, manifest, node, home, files, settings, writes, reads, hash })
            }
            _ => Err(findings),
        }
    }

    /// Returns a package of kaws's own making, which has no folder: one that writes wherever it likes.
    #[must_use]
    pub fn made(manifest: Manifest, node: Node, home: Home) -> Option<Self> {
        let name = Name::new(&manifest.name)?;
        let settings = compile_settings(&manifest, &node, &mut Findings::new())?;
        let (files, hash) = (Files::new(), OnceLock::new());
        let (writes, reads) = (None, None);
        Some(Self { name, manifest, node, home, files, settings, writes, reads, hash })
    }

    /// Returns the text of a file in its folder.
    #[must_use]
    pub fn text(&self, file: &str) -> Option<&str> {
        std::str::from_utf8(self.files.get(file)?).ok()
    }

    /// Returns the hash of everything in its folder, by which kaws.lock knows it.
    #[must_use]
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| self.hashed())
    }

    fn hashed(&self) -> String {
        let mut all = Vec::new();
        let manifest = self.node.origin.file().text.as_bytes();
        let files = self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_ref()));
        for (name, bytes) in std::iter::once(("plugin.yaml", manifest)).chain(files) {
            all.extend_from_slice(crate::value::sha256(bytes).as_bytes());
            all.extend_from_slice(format!("  {name}\n").as_bytes());
        }
        crate::value::sha256(&all)
    }
}

/// Returns the compiled schema of `plugin.yaml`.
fn manifest_schema() -> &'static Schema {
    static SCHEMA: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
    SCHEMA.get_or_init(|| {
        Schema::compile(&crate::schema::of::<Manifest>())
            .expect("a test compiles the manifest's schema")
    })
}

fn compile_settings(manifest: &Manifest, node: &Node, findings: &mut Findings) -> Option<Schema> {
    let mut value = serde_json::to_value(&manifest.settings).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.entry("type").or_insert_with(|| "object".into());
        map.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    match Schema::compile(&value) {
        Ok(schema) => Some(schema),
        Err(reason) => {
            let origin = node.get("settings").map_or(&node.origin, Node::key_origin);
            let text =
                format!("the schema of the settings of {} is wrong: {reason}", manifest.name);
            findings.push(Finding::fatal("plugin/schema", text).at(origin));
            None
        }
    }
}

/// Returns a list of paths of the model.
fn paths(
    key: &str,
    written: Option<&[String]>,
    node: &Node,
    findings: &mut Findings,
) -> Option<Vec<Path>> {
    let mut paths = Vec::new();
    for (i, text) in written?.iter().enumerate() {
        match Path::parse(text) {
            Ok(path) => paths.push(path),
            Err(error) => {
                let origin = node.at(&[key, &i.to_string()]).map_or(&node.origin, |n| &n.origin);
                findings.push(Finding::fatal("plugin/value", error.to_string()).at(origin));
            }
        }
    }
    Some(paths)
}

fn check_release(manifest: &Manifest, node: &Node, findings: &mut Findings) {
    let Some(asked) = &manifest.kaws else { return };
    let origin = node.get("kaws").map_or(&node.origin, |n| &n.origin);
    let own = semver::Version::parse(env!("CARGO_PKG_VERSION")).expect("Cargo checks the version");
    match semver::VersionReq::parse(asked) {
        Ok(request) if request.matches(&own) => {}
        Ok(_) => {
            let text = format!(
                "{} {} asks for kaws {asked}, and this is {own}",
                manifest.name, manifest.version
            );
            findings.push(Finding::fatal("plugin/version", text).at(origin));
        }
        Err(error) => {
            findings.push(
                Finding::fatal(
                    "plugin/value",
                    format!("`{asked}` is no range of versions: {error}"),
                )
                .at(origin),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_compiles() {
        assert!(manifest_schema().value()["properties"]["writes"].is_object());
    }
}
