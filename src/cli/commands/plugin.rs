//! `kaws plugin list` and `info`.

use std::path::Path;

use serde_json::{Value, json};

use super::{Exit, only_file, options, tell, unreadable};
use crate::cli::report::{say, say_error};
use crate::cli::{Common, Output};
use crate::load::{self, Catalogue, package};
use crate::plugin::program::of_stage;
use crate::plugin::{Home, Instance, Manifest, Package};

/// One line of the list.
struct Row {
    name: String,
    version: String,
    state: String,
    place: String,
    provides: String,
    home: Home,
}

/// Lists plugins: the user's, contrib, built in.
pub(super) fn list(common: &Common, all: bool) -> Exit {
    let file = match only_file(common) {
        Ok(file) => file,
        Err(exit) => return exit,
    };
    let options = options(common, file);
    // Without a cluster there is still a list: of all there are.
    let setup = match load::load(&options, &crate::builtin::natives()) {
        Ok(outcome) if outcome.value.is_none() => {
            tell(common, &outcome.findings);
            return Exit::Findings;
        }
        Ok(outcome) => outcome.value,
        Err(error) if error.path == file && error.source.kind() == std::io::ErrorKind::NotFound => {
            None
        }
        Err(error) => return unreadable(&error),
    };
    let dirs = setup.as_ref().map(|setup| setup.config.plugin_dirs.clone()).unwrap_or_default();
    let catalogue = match load::catalogue(&options, &dirs) {
        Ok(catalogue) => catalogue,
        Err(error) => return unreadable(&error),
    };
    let instances: &[Instance] = setup.as_ref().map_or(&[], |s| s.plugins.as_slice());
    let rows = rows(&catalogue, instances);
    match common.output {
        Output::Json => say(&rows.iter().map(json_row).collect::<Value>().to_string()),
        Output::Text => {
            print(&rows, all || setup.is_none());
            shadowed(common, instances);
        }
    }
    Exit::Done
}

/// Says which commands of others are never run, as kaws has one of that name.
fn shadowed(common: &Common, instances: &[Instance]) {
    use clap::CommandFactory as _;
    let own = crate::cli::Arguments::command();
    let own: Vec<&str> = own.get_subcommands().map(clap::Command::get_name).collect();
    let theirs = instances.iter().flat_map(|instance| {
        let commands = instance.package.manifest.commands.keys();
        commands.map(|name| (name.clone(), format!("of {}", instance.name)))
    });
    let found = common.programs.iter().flat_map(|programs| programs.all_on_path("kaws-"));
    let found = found.map(|name| (name, "on the PATH".to_owned()));
    for (name, whose) in theirs.chain(found).filter(|(name, _)| own.contains(&name.as_str())) {
        say(&format!("the command {name} {whose} is never run: `kaws {name}` is kaws's own"));
    }
}

fn json_row(row: &Row) -> Value {
    let home = match &row.home {
        Home::Builtin => "builtin",
        Home::Contrib => "contrib",
        Home::User(_) => "user",
        Home::Installed(_) => "installed",
    };
    json!({"name": row.name, "version": row.version, "on": row.state == "on", "where": row.place,
        "provides": row.provides, "home": home})
}

fn rows(catalogue: &Catalogue, instances: &[Instance]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut names: Vec<(String, String)> =
        catalogue.names().map(|n| (n.to_owned(), n.to_owned())).collect();
    for instance in instances {
        let pair = (instance.name.to_string(), instance.package.name.to_string());
        if instance.name.as_str() != "cluster" && !names.contains(&pair) {
            names.push(pair);
        }
    }
    names.sort();
    for (name, package_name) in names {
        let Some(found) = catalogue.places(&package_name).last() else { continue };
        let Ok(Ok(package)) = package(&package_name, found) else {
            let place = "its manifest has findings".to_owned();
            rows.push(Row {
                name,
                version: String::new(),
                state: "off".to_owned(),
                place,
                provides: String::new(),
                home: found.home.clone(),
            });
            continue;
        };
        let instance = instances.iter().find(|i| i.name.as_str() == name);
        let (state, place) = match instance {
            Some(instance) => ("on".to_owned(), place(instance, instances)),
            None => ("off".to_owned(), displaced(&package, instances)),
        };
        let provides = provided(&package, instance);
        rows.push(Row {
            name,
            version: package.manifest.version.clone(),
            state,
            place,
            provides,
            home: found.home.clone(),
        });
    }
    rows
}

/// Where a plugin is on, in words.
fn place(instance: &Instance, all: &[Instance]) -> String {
    if instance.package.manifest.nodes.is_empty() {
        return "whole cluster".to_owned();
    }
    let pools: Vec<&str> = instance.nodes.iter().filter_map(|n| n.strip_prefix("pool:")).collect();
    let every = all
        .iter()
        .find(|i| i.name.as_str() == "cluster")
        .map_or(0, |c| c.nodes.iter().filter(|n| n.starts_with("pool:")).count());
    let mut parts = Vec::new();
    if instance.nodes.iter().any(|n| n == "etcd") {
        parts.push("etcd".to_owned());
    }
    if instance.nodes.iter().any(|n| n == "controller") {
        parts.push("controllers".to_owned());
    }
    match pools.as_slice() {
        [] => {}
        some if some.len() == every && every > 1 => parts.push("all pools".to_owned()),
        [one] => parts.push(format!("pool {one}")),
        some => parts.push(format!("pools {}", some.join(", "))),
    }
    if parts.is_empty() { "no machines".to_owned() } else { parts.join(", ") }
}

/// The slots a plugin fills; one that depends on a setting only where that is set.
fn provided(package: &Package, instance: Option<&Instance>) -> String {
    let holds = |when: &String| {
        let path: Vec<&str> = when.split('.').skip(1).collect();
        instance.and_then(|i| i.settings.at(&path)).is_some_and(crate::template::is_truthy)
    };
    let slots = package.manifest.provides.iter().filter(|(_, p)| p.when.as_ref().is_none_or(holds));
    slots.map(|(slot, _)| slot.clone()).collect::<Vec<_>>().join(", ")
}

/// Why a built-in plugin is off: whose work another one does.
fn displaced(package: &Package, instances: &[Instance]) -> String {
    for slot in package.manifest.provides.keys() {
        let other = instances.iter().find(|i| i.package.manifest.provides.contains_key(slot));
        if let (Some(other), Home::Builtin) = (other, &package.home) {
            let when = other.package.manifest.provides[slot].when.as_ref();
            let why = when
                .map(|w| format!(" ({})", w.trim_start_matches("settings.")))
                .unwrap_or_default();
            return format!("{} does its work{why}", other.name);
        }
    }
    String::new()
}

fn print(rows: &[Row], all: bool) {
    type Belongs = fn(&Home) -> bool;
    let groups: [(&str, Belongs); 3] = [
        ("yours", |h| matches!(h, Home::User(_) | Home::Installed(_))),
        ("contrib, less tried than what is built in", |h| *h == Home::Contrib),
        ("built in", |h| *h == Home::Builtin),
    ];
    for (title, belongs) in groups {
        let here: Vec<&Row> = rows.iter().filter(|r| belongs(&r.home)).collect();
        if here.is_empty() {
            continue;
        }
        say(title);
        let builtin = title == "built in";
        let worth = |row: &Row| {
            all || if builtin {
                !row.provides.is_empty() || row.state == "off"
            } else {
                row.state == "on"
            }
        };
        let (shown, hidden): (Vec<&Row>, Vec<&Row>) = here.into_iter().partition(|row| worth(row));
        for row in shown {
            let extra = match &row.home {
                Home::User(folder) | Home::Installed(folder) => folder.as_str(),
                _ if row.state == "on" => row.provides.as_str(),
                _ => "",
            };
            let line = format!(
                "  {:<18} {:<7} {:<4} {:<24} {extra}",
                row.name, row.version, row.state, row.place
            );
            say(line.trim_end());
        }
        if !hidden.is_empty() {
            let state = if builtin { "on" } else { "off" };
            say(&format!("  {} more, {state}: kaws plugin list --all", hidden.len()));
        }
    }
}

/// Shows one plugin, or one of its files.
pub(super) fn info(common: &Common, name: &str, path: Option<&str>) -> Exit {
    let cluster = common.file.first().map_or(Path::new("cluster.yaml"), |file| file);
    let catalogue = match load::catalogue(&options(common, cluster), &[]) {
        Ok(catalogue) => catalogue,
        Err(error) => return unreadable(&error),
    };
    let Some(found) = catalogue.places(name).last() else {
        say_error(&format!("there is no plugin `{name}`"));
        if let Some(near) = crate::name::did_you_mean(name, catalogue.names()) {
            say_error(&format!("did you mean `{near}`?"));
        }
        return Exit::Findings;
    };
    let package = match package(name, found) {
        Ok(Ok(package)) => package,
        Ok(Err(findings)) => {
            tell(common, &findings);
            return Exit::Findings;
        }
        Err(error) => return unreadable(&error),
    };
    // `--file` names a cluster everywhere; here, where it names a file of the plugin's, it means that.
    let named = common
        .file
        .first()
        .and_then(|f| f.to_str())
        .filter(|f| *f == "plugin.yaml" || package.files.contains_key(*f));
    match path.or(named) {
        Some(path) => file(&package, path),
        None => describe(common, &package),
    }
}

fn file(package: &Package, path: &str) -> Exit {
    let text = if path == "plugin.yaml" {
        Some(package.node.origin.file().text.as_str())
    } else {
        package.text(path)
    };
    match text {
        Some(text) => {
            say(text.trim_end());
            Exit::Done
        }
        None => {
            let all: Vec<&str> = package.files.keys().map(String::as_str).collect();
            say_error(&format!(
                "{} has no file {path}; it has: plugin.yaml, {}",
                package.name,
                all.join(", ")
            ));
            Exit::Findings
        }
    }
}

fn describe(common: &Common, package: &Package) -> Exit {
    let manifest = &package.manifest;
    let schema = package.settings.value();
    if common.output == Output::Json {
        say(&json!({"name": manifest.name, "version": manifest.version, "description": manifest.description,
            "sha256": package.hash(), "settings": schema, "writes": manifest.writes, "requires": manifest.requires,
            "provides": manifest.provides, "nodes": manifest.nodes, "limits": manifest.limits,
            "capabilities": manifest.capabilities.rights(), "lookups": manifest.lookups}).to_string());
        return Exit::Done;
    }
    say(&format!("{} {}", manifest.name, manifest.version));
    say(&format!("  {}", manifest.description));
    match &package.home {
        Home::Builtin => say("  built in"),
        Home::Contrib => say("  contrib: part of kaws, and less tried than what is built in"),
        Home::User(folder) => say(&format!("  yours, in {folder}")),
        Home::Installed(from) => say(&format!("  yours, installed from {from}")),
    }
    if !manifest.requires.is_empty() {
        say(&format!("  needs {}", manifest.requires.join(", ")));
    }
    if !manifest.nodes.is_empty() {
        let roles: Vec<&str> = manifest.nodes.iter().map(AsRef::as_ref).collect();
        say(&format!("  for nodes of: {}", roles.join(", ")));
    }
    settings(schema);
    let powers = manifest.powers();
    if !powers.is_empty() {
        say("\nWhat it does, and asks for");
        powers.iter().for_each(|power| say(&format!("  {}", crate::finding::plain(power))));
    }
    program(manifest);
    if manifest.initialise.values().any(|v| v.get("releases").is_some()) {
        say(
            "\nIts chart was not rendered by kaws's own tests: charts of others are fetched when deployed.",
        );
    }
    say(&format!("\nIts manifest: kaws plugin info {} --show plugin.yaml", manifest.name));
    Exit::Done
}

/// What it runs, how far that may go, and what it asks for.
fn program(manifest: &Manifest) {
    let stages = ["initialise", "render"].into_iter();
    let stages: Vec<&str> = stages.filter(|s| of_stage(manifest, s).is_some()).collect();
    if stages.is_empty() && manifest.lookups.is_empty() {
        return;
    }
    say(&format!("\nIt is a program, asked in {}", stages.join(" and ")));
    let limits = &manifest.limits;
    say(&format!(
        "  for {} at most, {} MiB of memory, {} processes",
        limits.timeout, limits.memory, limits.processes
    ));
    for (name, lookup) in &manifest.lookups {
        say(&format!("  looks up {name}: {}", lookup.description));
    }
}

fn settings(schema: &Value) {
    let Some(properties) =
        schema.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty())
    else {
        return;
    };
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    say("\nSettings");
    for (name, property) in properties {
        let default = match property.get("default") {
            Some(default) => format!(
                ", by default {}",
                default.as_str().map_or_else(|| default.to_string(), str::to_owned)
            ),
            None if required.contains(&json!(name)) => ", required".to_owned(),
            None => String::new(),
        };
        let kind = if property.get("x-secret").is_some() {
            "a secret".to_owned()
        } else {
            crate::schema::type_line(schema, property)
        };
        say(&format!("  {name}: {kind}{default}"));
        if let Some(description) = property.get("description").and_then(Value::as_str) {
            say(&format!("      {description}"));
        }
    }
}
