//! Reference pages are made of the tables and compared; every YAML snippet in the docs is read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kaws::finding::{SCHEMA_AREAS, SCHEMA_KINDS, codes};
use kaws::model::{FLAGS, SECTIONS};
use kaws::schema::{followed, type_line};
use kaws::template::{HELPERS, ROOTS};
use serde_json::Value;

use crate::support::{Cluster, expect_file};

fn page(name: &str, title: &str, intro: &str, body: &str) {
    let head = format!(
        "<!-- Made by tests/suite/docs.rs from the sources: KAWS_UPDATE=1 cargo test. -->\n\n# {title}\n\n{intro}\n\n"
    );
    expect_file(
        &Path::new("docs/reference").join(format!("{name}.md")),
        &format!("{head}{}\n", body.trim_end()),
    );
}

/// Code as it stands in a cell of a table, between backticks.
fn code(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Text as it stands in a cell of a table.
fn cell(text: &str) -> String {
    let outside = |(i, part): (usize, &str)| {
        if i % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() }
    };
    let parts: Vec<String> = text.split('`').enumerate().map(outside).collect();
    code(&parts.join("`"))
}

/// Rows for every property of a schema, deeper ones with their path.
fn rows(root: &Value, schema: &Value, path: &str, out: &mut String) {
    let schema = followed(root, schema);
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        let own = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let default = match property.get("default") {
            Some(Value::Object(_)) => String::new(),
            Some(default) => format!("`{default}`"),
            None if required.contains(&name.as_str().into()) => "required".to_owned(),
            None => String::new(),
        };
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let kind = type_line(root, property);
        let _ = writeln!(
            out,
            "| `{own}` | {} | {} | {} |",
            cell(&kind),
            cell(&default),
            cell(description)
        );
        rows(root, property, &own, out);
        let resolved = followed(root, property);
        if let Some(values) = resolved.get("additionalProperties").filter(|a| a.is_object()) {
            rows(root, values, &format!("{own}.<name>"), out);
        }
        if let Some(items) = resolved.get("items") {
            rows(root, items, &format!("{own}[]"), out);
        }
    }
}

fn schema_page(name: &str, title: &str, intro: &str, schema: &Value) {
    let mut body = "| key | type | default | what it is |\n| --- | --- | --- | --- |\n".to_owned();
    rows(schema, schema, "", &mut body);
    page(name, title, intro, &body);
}

#[test]
fn cluster_yaml() {
    let intro = "Every setting of `cluster.yaml`. Unknown keys are findings; null unsets. `kaws schema` prints the same as JSON Schema, with the settings of plugins.";
    schema_page("cluster-yaml", "cluster.yaml", intro, &kaws::config::Cluster::schema());
}

#[test]
fn plugin_yaml() {
    let intro =
        "Every key of a plugin's manifest. `kaws schema plugin` prints the same as JSON Schema.";
    let schema = kaws::schema::of::<kaws::plugin::Manifest>();
    schema_page("plugin-yaml", "plugin.yaml", intro, &schema);
}

#[test]
fn contract() {
    let schemas = [
        ("A request", kaws::schema::of::<kaws::plugin::contract::Request<'_>>()),
        ("A response", kaws::schema::of::<kaws::plugin::contract::Response>()),
    ];
    let mut body = String::new();
    for (title, schema) in &schemas {
        let description = schema["description"].as_str().unwrap().replace('\n', " ");
        let mut table = String::new();
        rows(schema, schema, "", &mut table);
        let _ = writeln!(
            body,
            "## {title}\n\n{description}\n\n| key | type | default | what it is |\n| --- | --- | --- | --- |\n{table}"
        );
    }
    let intro = "What a plugin's program is asked, and what it answers. `kaws plugin schema request` and `response` print the same as JSON Schema.";
    page("contract", "Requests and responses", intro, &body);
}

#[test]
fn contribution() {
    let mut body = String::new();
    body.push_str("## Places\n\nA list of names may stand in place of a map of `name: true` where the second column says so. Names marked private are kept as `<plugin>/<name>`.\n\n");
    body.push_str("| place | form | what it is |\n| --- | --- | --- |\n");
    for section in SECTIONS {
        let mut form = section.kind.as_ref().to_owned();
        form.push_str(if section.listed { ", or a list of names" } else { "" });
        form.push_str(if section.private { ", private" } else { "" });
        let _ = writeln!(body, "| `{}` | {form} | {} |", code(section.path), cell(section.doc));
    }
    body.push_str("\n## Forms\n\n");
    let mut kinds: Vec<kaws::model::Kind> = SECTIONS.iter().map(|s| s.kind).collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let schema = kind.schema_value();
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(
            body,
            "### {}\n\n{}\n",
            kind.as_ref(),
            if description.is_empty() {
                type_line(&schema, &schema)
            } else {
                description.to_owned()
            }
        );
        let mut table = String::new();
        rows(&schema, &schema, "", &mut table);
        if !table.is_empty() {
            let _ = writeln!(
                body,
                "| key | type | default | what it is |\n| --- | --- | --- | --- |\n{table}"
            );
        }
    }
    body.push_str("## Flags that hold several values\n\nTheir items are entities of their own, so that plugins can each add theirs; every other flag is one value.\n\n| component | flag | kind |\n| --- | --- | --- |\n");
    for flag in FLAGS {
        let _ = writeln!(body, "| {} | `{}` | {:?} |", flag.component, flag.name, flag.kind);
    }
    let intro = "What a plugin can contribute: a part of the model, in the model's shape. `kaws schema contribution` prints the same as JSON Schema.";
    page("contribution", "Contributions", intro, &body);
}

#[test]
fn findings() {
    let mut body = "| code | what it means |\n| --- | --- |\n".to_owned();
    for code in codes() {
        let _ = writeln!(body, "| `{}` | {} |", code.code, cell(code.meaning));
    }
    let _ = writeln!(
        body,
        "\n## Files that are checked against a schema\n\nFor {} the code is the area, a slash and one of these.\n",
        SCHEMA_AREAS.map(|a| format!("`{a}`")).join(", ")
    );
    body.push_str("| kind | what it means |\n| --- | --- |\n");
    for (kind, meaning) in SCHEMA_KINDS {
        let _ = writeln!(body, "| `{kind}` | {} |", cell(meaning));
    }
    page(
        "findings",
        "Findings",
        "Every code that a finding can have. `kaws explain CODE` prints the same.",
        &body,
    );
}

#[test]
fn helpers() {
    let mut body = "| helper | returns | example |\n| --- | --- | --- |\n".to_owned();
    for helper in HELPERS {
        let (example, result) = helper.example;
        let _ = writeln!(
            body,
            "| `{} {}` | {} | `{{{{{}}}}}` is `{}` |",
            helper.name,
            code(helper.arguments),
            cell(helper.doc),
            code(example),
            code(result)
        );
    }
    body.push_str("\n## Names that paths begin with\n\n| name | what it is |\n| --- | --- |\n");
    for (name, doc) in ROOTS {
        let _ = writeln!(body, "| `{name}` | {} |", cell(doc));
    }
    page(
        "helpers",
        "Helpers",
        "What templates can call. Helpers are pure: the same arguments, the same result.",
        &body,
    );
}

#[test]
fn exit_codes() {
    let mut body = "| code | what it means |\n| --- | --- |\n".to_owned();
    for (code, _, meaning) in kaws::cli::EXIT_CODES {
        let _ = writeln!(body, "| {code} | {meaning} |");
    }
    body.push_str("\nOver several files the first that occurs of 70, 4, 3, 1, 2 counts.\n");
    page("exit-codes", "Exit codes", "How `kaws` ends.", &body);
}

#[test]
fn cli() {
    let mut body = String::new();
    for (command, help) in kaws::cli::help_pages() {
        let _ = writeln!(
            body,
            "## {command}\n\n```text\n{}\n```\n",
            help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
        );
    }
    page("cli", "Commands", "The help of every command.", &body);
}

fn markdown(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("book") {
            markdown(&path, all);
        } else if path.extension().is_some_and(|e| e == "md") {
            all.push(path);
        }
    }
}

#[test]
fn every_yaml_snippet_in_the_docs_is_yaml() {
    let mut pages = vec![PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")];
    for dir in ["docs", "contrib/plugins"] {
        markdown(Path::new(dir), &mut pages);
    }
    let mut snippets = 0;
    for path in pages {
        let text = std::fs::read_to_string(&path).unwrap();
        for piece in text.split("```yaml\n").skip(1) {
            let snippet = &piece[..piece.find("```").expect("the snippet ends")];
            let file = kaws::origin::SourceFile::new(path.display().to_string(), snippet);
            if let Err(findings) = kaws::value::read(&file) {
                panic!("{}:\n{}", path.display(), kaws::finding::findings_text(&findings, false));
            }
            let cluster = snippet.contains("\naccount:")
                && snippet.starts_with("apiVersion: kaws/v1")
                && !snippet.contains("plugins:");
            if cluster {
                Cluster::new(snippet).render();
            }
            snippets += 1;
        }
    }
    assert!(snippets > 10, "{snippets}");
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = std::fs::read_to_string("docs/SUMMARY.md").unwrap();
    let mut pages = Vec::new();
    markdown(Path::new("docs"), &mut pages);
    for path in pages.iter().filter(|p| !p.ends_with("SUMMARY.md")) {
        let name = path.strip_prefix("docs").unwrap().display().to_string();
        assert!(
            summary.contains(&format!("({name})")) || summary.contains(&format!("(./{name})")),
            "{name} is not in docs/SUMMARY.md"
        );
    }
}

/// What the first documents asked for: every row is there, and every test that it names.
#[test]
fn what_was_asked_for_is_listed_with_its_test() {
    let text = std::fs::read_to_string("docs/reference/seeds.md").unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_uppercase())
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let counts = [("K", 25), ("D", 22), ("P", 25), ("A", 34), ("U", 18)];
    let wanted =
        counts.iter().flat_map(|(letter, n)| (1..=*n).map(move |i| format!("{letter}{i:02}")));
    let listed: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(listed, wanted.collect::<Vec<_>>());
    let mut sources = String::new();
    for dir in ["tests/suite", "tests/real"] {
        let files = crate::support::files_below(Path::new(dir));
        for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
            sources += &std::fs::read_to_string(file).unwrap();
        }
    }
    for row in rows {
        let [id, _, place, proof] = row.as_slice() else { panic!("{row:?}") };
        match proof.strip_prefix('`').and_then(|p| p.strip_suffix('`')) {
            Some(test) => {
                assert!(sources.contains(&format!("fn {test}()")), "{id}: there is no test {test}");
                assert!(!place.is_empty(), "{id} does not say where");
            }
            None => assert!(
                proof.starts_with("not yet") || proof.starts_with("does not apply: "),
                "{id}"
            ),
        }
    }
}
