//! All integration tests: one binary, so that they link once.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests read, write and run programs, and stop where something is not there"
)]

mod support;

mod archives;
mod bad;
mod canary;
mod case_laws;
mod commands;
mod config_example;
mod conflicts;
mod deploying;
mod docs;
mod emit;
mod fake_cloud;
mod fake_web;
mod fleet;
mod guards;
mod hooks;
mod laws;
mod layers;
mod lockstep;
mod lookups;
mod merge_laws;
mod misbehaving;
mod plan_edits;
mod plans;
mod plugins;
mod programs;
mod resolving;
mod rolling;
mod scenarios;
mod screens;
mod sequences;
mod settings_edges;
mod stack_policies;
mod updates;
mod ups;
mod users_plugin;
mod would_boot;

/// No file of tests is forgotten: each is a module above.
#[test]
fn every_file_is_a_module() {
    let source = std::fs::read_to_string("tests/suite/main.rs").unwrap();
    for entry in std::fs::read_dir("tests/suite").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs").filter(|m| *m != "main") {
            assert!(
                source.contains(&format!("mod {module};")),
                "{name} is not a module of tests/suite/main.rs"
            );
        }
    }
}
