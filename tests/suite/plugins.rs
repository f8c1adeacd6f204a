//! The contrib plugins: each renders alone and with the others, on every example where it can, and
//! touches what it declares and nothing else.

use kaws::finding::{Severity, findings_text};
use kaws::load::{Options, example_names};
use kaws::run::render_with;
use kaws::value::read;

/// Settings with which each plugin is turned on.
const PLUGINS: &[(&str, &str)] = &[
    ("bastion", "{settings: {allowedCIDRs: [198.51.100.0/24]}}"),
    ("datadog", "{settings: {site: datadoghq.eu, apiKey: {$secret: api-key}}}"),
    ("descheduler", "{}"),
    (
        "dex",
        "{settings: {issuer: https://dex.acme.example, connectors: {github: {type: github, name: GitHub, config: {clientID: x, clientSecret: {$secret: github}}}}}}",
    ),
    ("kube2iam", "{settings: {roles: ['arn:aws:iam::111122223333:role/app']}}"),
    (
        "worker-iam",
        "{settings: {statements: {Queue: {Effect: Allow, Action: sqs:SendMessage, Resource: 'arn:aws:sqs:eu-west-1:111122223333:q'}}}}",
    ),
];

/// What is not to render, and the finding that says so: plugin, example, code.
const FATAL: &[(&str, &str, &str)] = &[];

fn over(plugins: &[&(&str, &str)]) -> kaws::value::Node {
    let text: String = plugins.iter().map(|(name, used)| format!("  {name}: {used}\n")).collect();
    read(&kaws::origin::SourceFile::new("over.yaml", format!("plugins:\n{text}"))).unwrap()
}

fn render(
    example: &str,
    plugins: &[&(&str, &str)],
) -> Result<kaws::run::Run, (Vec<String>, String)> {
    let options =
        Options { example: Some(example.to_owned()), ..Options::of("examples/none/cluster.yaml") };
    let outcome = render_with(&options, Some(&over(plugins))).unwrap();
    let codes = outcome
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Fatal)
        .map(|f| f.code.clone())
        .collect();
    outcome.value.ok_or((codes, findings_text(&outcome.findings, false)))
}

#[test]
fn each_renders_alone_on_every_example() {
    for plugin in PLUGINS {
        for example in example_names() {
            let expected = FATAL
                .iter()
                .find(|(p, e, _)| *p == plugin.0 && *e == example)
                .map(|(.., code)| *code);
            match (render(example, &[plugin]), expected) {
                (Ok(_), None) => {}
                (Err((codes, _)), Some(code)) => {
                    assert_eq!(codes, [code], "{} on {example}", plugin.0);
                }
                (Ok(_), Some(code)) => {
                    panic!("{} on {example} should be refused with {code}", plugin.0)
                }
                (Err((_, text)), None) => panic!("{} on {example}:\n{text}", plugin.0),
            }
        }
    }
}

#[test]
fn all_render_together_on_every_example() {
    let all: Vec<&(&str, &str)> = PLUGINS.iter().collect();
    for example in example_names() {
        if let Err((_, text)) = render(example, &all) {
            panic!("{example}:\n{text}");
        }
    }
}

#[test]
fn each_touches_only_what_it_declares() {
    for plugin in PLUGINS {
        let run = render("ha", &[plugin]).map_err(|(_, text)| text).unwrap();
        let instance = run.setup.plugins.iter().find(|i| i.name.as_str() == plugin.0).unwrap();
        let writes =
            instance.package.writes.as_ref().expect("an installed plugin declares what it writes");
        let mut touched = 0;
        run.rendered.model.walk(&[], &mut |path, entity| {
            if !entity.owners.iter().any(|o| o.plugin.as_str() == plugin.0) {
                return;
            }
            touched += 1;
            let private =
                ["values", "secrets", "pins", "checks", "steps", "patches"].contains(&path[0]);
            let group = |declared: &str, named: &str| {
                declared == named
                    || (declared == "nodes" && instance.nodes.iter().any(|n| n == named))
            };
            let covered = writes.iter().any(|w| {
                w.0.len() <= path.len()
                    && w.0
                        .iter()
                        .zip(path)
                        .enumerate()
                        .all(|(i, (a, b))| a == b || (i == 1 && group(a, b)))
            });
            assert!(private || covered, "{} touches {path:?}", plugin.0);
        });
        assert!(touched > 0, "{}", plugin.0);
    }
}

#[test]
fn each_has_a_readme_and_cases() {
    for (name, _) in PLUGINS {
        let dir = std::path::Path::new("contrib/plugins").join(name);
        assert!(dir.join("README.md").is_file(), "{name}");
        assert!(std::fs::read_dir(dir.join("cases")).unwrap().count() >= 2, "{name}");
    }
    let there = std::fs::read_dir("contrib/plugins").unwrap().count();
    assert_eq!(there, PLUGINS.len(), "every contrib plugin has a row in the table above");
}
