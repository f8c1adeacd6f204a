//! The cases of contrib plugins and of the test's own: run as authors run them.

use std::path::Path;

use kaws::kit;

fn test(dir: &Path, update: bool) -> kit::Report {
    let runtime = Some(crate::support::programs(None));
    kit::test(&kit::Test { dir: dir.to_owned(), update, runtime, ..kit::Test::default() }).unwrap()
}

fn all_pass(dir: &Path) {
    let update = std::env::var_os("KAWS_UPDATE").is_some();
    let report = test(dir, update);
    assert!(report.passed(), "{}\n{}", report.title, report.to_text(dir));
}

#[test]
fn the_cases_of_every_contrib_plugin_pass() {
    for entry in std::fs::read_dir("contrib/plugins").unwrap() {
        all_pass(&entry.unwrap().path());
    }
}

#[test]
fn the_cases_of_a_users_plugin_pass() {
    all_pass(Path::new("tests/plugins/acme-agent"));
}

#[test]
fn a_changed_plugin_fails_its_case_and_update_keeps_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("mine");
    std::fs::create_dir_all(plugin.join("cases/on")).unwrap();
    let manifest = |n: u32| {
        format!(
            "apiVersion: kaws/v1\nname: mine\nversion: 1.0.0\ndescription: A test's.\ninitialise: {{apiServer: {{flags: {{v: {n}}}}}}}\n"
        )
    };
    std::fs::write(plugin.join("plugin.yaml"), manifest(3)).unwrap();
    std::fs::write(plugin.join("cases/on/case.yaml"), "cluster: minimal\nplugins: {mine: {}}\n")
        .unwrap();
    assert!(!test(&plugin, false).passed(), "nothing is expected yet");
    assert!(test(&plugin, true).passed());
    assert!(test(&plugin, false).passed());
    std::fs::write(plugin.join("plugin.yaml"), manifest(4)).unwrap();
    let report = test(&plugin, false);
    let failure = report.cases[0].failure.clone().unwrap();
    assert!(failure.contains("--v=4") && failure.contains("--v=3"), "{failure}");
}

#[test]
fn the_command_prints_what_happened() {
    let output =
        crate::support::kaws(Path::new("."), &["plugin", "test", "tests/plugins/acme-agent"]);
    assert_eq!(output.code, 0, "{}", output.all());
    assert!(output.out.contains("✔ one-pool"), "{}", output.out);
    assert!(output.out.contains("not linted: cfn-lint is not on the PATH"), "{}", output.out);
}
