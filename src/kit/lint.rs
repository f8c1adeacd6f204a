//! `kaws plugin lint`: what is allowed in a plugin's folder, and will be a trouble to somebody.
//!
//! Not here: what is wrong with a manifest, which every command says.

use serde_json::Value;

use crate::config::Cluster;
use crate::finding::{Finding, Findings};
use crate::load::partials;
use crate::plugin::program::{Exec, of_stage};
use crate::plugin::{Declared, Package};
use crate::template::Engine;
use crate::value::Node;

/// Returns all there is to say about a plugin's folder.
#[must_use]
pub fn lint(package: &Package) -> Findings {
    let mut findings = Declared::check(package, &Cluster::facts_schema(), &Engine::new(partials()));
    findings.extend(folder(package));
    findings.extend(manifest(package));
    findings.extend(settings(package));
    for stage in ["initialise", "render"] {
        if let Some(Ok(exec)) = of_stage(&package.manifest, stage) {
            let at = package.node.at(&[stage, "exec"]).unwrap_or(&package.node);
            findings.extend(programs(package, &exec, at));
        }
    }
    findings.sort();
    findings
}

fn warning(code: &str, text: String, at: &Node, help: &str) -> Finding {
    Finding::warning(code, text).at(at.key_origin()).help(help)
}

fn folder(package: &Package) -> Vec<Finding> {
    let name = package.node.get("name").unwrap_or(&package.node);
    let mut all = Vec::new();
    if !package.files.contains_key("README.md") {
        let help = "say in README.md what it is for, and what its users should know";
        all.push(warning("lint/readme", format!("{} has no README.md", package.name), name, help));
    }
    if !package.files.keys().any(|f| f.starts_with("cases/") && f.ends_with("/case.yaml")) {
        let help = "write cases/NAME/case.yaml: kaws plugin test runs it";
        all.push(warning("lint/cases", format!("{} has no cases", package.name), name, help));
    }
    let is_program =
        ["initialise", "render"].iter().any(|s| of_stage(&package.manifest, s).is_some());
    if is_program {
        return all;
    }
    let text = &package.node.origin.file().text;
    for file in package.files.keys() {
        let named = file.strip_prefix("files/").or_else(|| file.strip_prefix("templates/"));
        if named.is_some_and(|named| !text.contains(named)) {
            let help = "take it out of the folder, or name it";
            let said = format!("nothing in plugin.yaml names {file}");
            all.push(warning("lint/unused-file", said, name, help));
        }
    }
    all
}

fn manifest(package: &Package) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(node) = package.node.get("description")
        && !package.manifest.description.trim_end().ends_with(['.', '?', '!'])
    {
        let help = "describe it in a sentence: kaws plugin list and info show it";
        all.push(warning(
            "lint/description",
            "the description is no sentence".to_owned(),
            node,
            help,
        ));
    }
    for (i, path) in package.writes.iter().flatten().enumerate() {
        if path.0.len() == 1 && path.0[0] != "values" {
            let at = package.node.at(&["writes", &i.to_string()]).unwrap_or(&package.node);
            let text = format!("{} may write everywhere in {path}", package.name);
            let help =
                "name the part it needs, as machines.nodes.files: who installs it reads that";
            all.push(warning("lint/wide", text, at, help));
        }
    }
    all
}

fn settings(package: &Package) -> Vec<Finding> {
    let Some(node) = package.node.at(&["settings", "properties"]).and_then(Node::as_map) else {
        return Vec::new();
    };
    let undocumented = node.iter().filter(|(_, property)| property.get("description").is_none());
    let one = |(name, property): (&String, &Node)| {
        let text = format!("the setting `{name}` has no description");
        let help = "editors and kaws plugin info show it";
        warning("lint/undocumented", text, property, help)
    };
    let mut all: Vec<Finding> = undocumented.map(one).collect();
    for (name, property) in node {
        let schema = package.settings.value().pointer(&format!("/properties/{name}"));
        let default = schema.and_then(|s| s.get("default"));
        let listed = schema.and_then(|s| s.get("enum")).and_then(Value::as_array);
        if let (Some(default), Some(listed)) = (default, listed)
            && !listed.contains(default)
        {
            let text = format!("the default of `{name}` is none of its values");
            all.push(warning("lint/default", text, property, "choose one of them"));
        }
    }
    all
}

/// Looks at the first bytes of programs, which say what can run them.
fn programs(package: &Package, exec: &Exec, at: &Node) -> Vec<Finding> {
    let mut all = Vec::new();
    for file in exec.files() {
        let bytes = package.files.get(&file).map_or(&[][..], |bytes| bytes.as_ref());
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        let (text, help) = if bytes.starts_with(b"#!") {
            if !line.ends_with(b"\r") {
                continue;
            }
            ("has line ends of Windows, and its interpreter is not found", "save it with \\n alone")
        } else if [&b"\x7fELF"[..], b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"]
            .iter()
            .any(|m| bytes.starts_with(m))
        {
            // What its author builds is built for each.
            if !exec.platforms().is_empty() || !package.manifest.build.is_empty() {
                continue;
            }
            (
                "is for one kind of machine",
                "name one for each platform: {linux-amd64: …, darwin-arm64: …}",
            )
        } else {
            (
                "does not say what reads it",
                "begin it with #!/usr/bin/env and the name of its interpreter",
            )
        };
        all.push(warning("lint/program", format!("{file} {text}"), at, help));
    }
    all
}
