//! The first fence: imports go down only.

use std::path::{Path, PathBuf};

use kaws::finding::codes;

/// The layers of `src/`, lowest first. A module may import those before it, and itself.
const LAYERS: &[&[&str]] = &[
    &["name", "origin", "finding", "value", "schema"],
    &["config", "lock", "model"],
    &["archive", "cloudformation", "kubernetes", "pki", "template", "order", "plugin", "port"],
    &["pipeline", "builtin", "deploy"],
    &[
        "runtime", "load", "edit", "emit", "run", "kit", "aws", "cluster", "local", "web",
        "causes", "resolve", "install",
    ],
    &["cli"],
];

fn sources(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
}

fn module(path: &Path) -> String {
    let first =
        path.strip_prefix("src").unwrap().iter().next().unwrap().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// The modules of ours that production code names: `crate::x`, in `use` lines and in paths.
fn imports(text: &str) -> Vec<String> {
    let production = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let mut found = Vec::new();
    for (at, _) in production.match_indices("crate::") {
        let rest = &production[at + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list[..list.find("};").unwrap_or(list.len())].split(',').collect(),
            None => vec![rest],
        };
        for name in names {
            let word: String =
                name.trim().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            found.extend((!word.is_empty()).then_some(word));
        }
    }
    found
}

#[test]
fn imports_go_down_only() {
    let position = |name: &str| LAYERS.iter().flat_map(|l| l.iter()).position(|m| *m == name);
    let mut all = Vec::new();
    sources(Path::new("src"), &mut all);
    let mut wrong = Vec::new();
    for path in all {
        let own = module(&path);
        if ["bin", "lib", "main"].contains(&own.as_str()) {
            continue;
        }
        let mine = position(&own).unwrap_or_else(|| panic!("{own} has no layer"));
        for import in imports(&std::fs::read_to_string(&path).unwrap()) {
            // Two parts of one layer that speak of each other are one thing told twice: see the table.
            let Some(theirs) = position(&import) else { continue };
            if theirs > mine {
                wrong.push(format!("{} imports {import}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "imports that go up:\n{}", wrong.join("\n"));
}

#[test]
fn only_the_command_line_prints() {
    let mut all = Vec::new();
    sources(Path::new("src"), &mut all);
    for path in all.iter().filter(|p| !p.starts_with("src/cli")) {
        let text = std::fs::read_to_string(path).unwrap();
        for word in ["println!(", "eprintln!(", "print!(", "dbg!("] {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn every_module_says_what_lives_there() {
    let mut all = Vec::new();
    sources(Path::new("src"), &mut all);
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} does not open with what lives there", path.display());
    }
}

/// No file of the engine knows a contrib plugin.
#[test]
fn the_engine_knows_no_contrib_plugin() {
    let names: Vec<String> = std::fs::read_dir("contrib/plugins")
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() >= 6);
    let mut all = Vec::new();
    sources(Path::new("src"), &mut all);
    let mut others: Vec<PathBuf> = all;
    for dir in ["plugins", "templates"] {
        files(Path::new(dir), &mut others);
    }
    for path in others {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let production = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(&text);
        let code: String = production
            .lines()
            .filter(|l| !l.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        // Examples in helps, messages and docs are for readers: they are comments and after_help.
        for name in &names {
            let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let whole = |at: usize| {
                !word(code[..at].chars().next_back())
                    && !word(code[at + name.len()..].chars().next())
            };
            let hits = code
                .match_indices(name.as_str())
                .filter(|(at, _)| whole(*at) && !code[..*at].ends_with("kaws plugin info "))
                .count();
            assert_eq!(hits, 0, "{} names the contrib plugin {name}", path.display());
        }
    }
}

fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, all) } else { all.push(path) }
    }
}

/// Every code that the sources give has a row in the table, and every row is given somewhere.
#[test]
fn codes_and_their_table_agree() {
    let mut all = Vec::new();
    sources(Path::new("src"), &mut all);
    let text: String = all
        .iter()
        .filter(|p| !p.starts_with("src/finding/codes"))
        .map(|p| std::fs::read_to_string(p).unwrap())
        .collect();
    for code in codes() {
        assert!(text.contains(&format!("\"{}\"", code.code)), "nobody gives {}", code.code);
        assert!(code.meaning.ends_with('.'), "{}", code.code);
    }
    let mut sorted: Vec<&str> = codes().map(|c| c.code).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), codes().count(), "a code has two rows");
    let said =
        text.split("Finding::fatal(\"").skip(1).chain(text.split("Finding::warning(\"").skip(1));
    for piece in said {
        let code = &piece[..piece.find('"').unwrap_or(0)];
        if code.contains('/') {
            assert!(kaws::finding::explanation(code).is_some(), "{code} is in no table");
        }
    }
}
