//! What AWS documents of changed properties, a fixture each in `tests/updates/`, with its source.

use std::collections::BTreeMap;

use kaws::cloudformation::{Fate, HOLDS_DATA, Pseudo, Side, Template, changes};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fixture {
    source: String,
    documented: String,
    #[serde(rename = "type")]
    kind: String,
    before: Map<String, Value>,
    after: Map<String, Value>,
    class: String,
    holds_data: bool,
}

fn template(kind: &str, properties: &Map<String, Value>) -> Template {
    let text = json!({"Resources": {"Thing": {"Type": kind, "Properties": properties}}});
    Template::read(&text.to_string()).unwrap()
}

fn class(fixture: &Fixture) -> Fate {
    let (old, new) =
        (template(&fixture.kind, &fixture.before), template(&fixture.kind, &fixture.after));
    let none = BTreeMap::new();
    let side = |template| Side { template, parameters: &none, tags: &none };
    let pseudo = Pseudo {
        account: "111122223333".to_owned(),
        region: "eu-west-1".to_owned(),
        partition: "aws".to_owned(),
        stack: "s".to_owned(),
        stack_id: "arn".to_owned(),
    };
    let found = changes(side(&old), side(&new), &pseudo).unwrap();
    assert_eq!(found.len(), 1);
    found[0].fate
}

#[test]
fn changes_are_classed_as_aws_documents() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir("tests/updates").unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let fixture: Fixture = serde_yaml::from_str(&text).unwrap();
        assert!(text.starts_with("# "), "{} does not say what it is", path.display());
        assert!(fixture.source.starts_with("https://docs.aws.amazon.com/"), "{}", path.display());
        assert!(!fixture.documented.is_empty());
        let found = serde_json::to_value(class(&fixture)).unwrap();
        let holds = HOLDS_DATA.contains(&fixture.kind.as_str());
        if found != fixture.class || holds != fixture.holds_data {
            wrong.push(format!(
                "{}: {found}, and AWS documents {} ({}); holds data: {holds}",
                path.display(),
                fixture.class,
                fixture.documented
            ));
        }
        count += 1;
    }
    assert!(count >= 25, "{count} fixtures");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
