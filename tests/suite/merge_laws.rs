//! Laws of merging, over generated contributions: the order of plugins changes nothing, and saying a thing
//! twice says it once.

use std::sync::Arc;

use kaws::config::Role;
use kaws::model::{Claim, Decisions, Model, Split, Stage, split};
use kaws::name::Name;
use kaws::origin::SourceFile;
use kaws::value::read;
use proptest::prelude::*;

/// One plugin's contribution: flags, some of them defaults, and items of a list.
type Wishes = Vec<(u8, u8, bool)>;

fn claims(plugin: usize, wishes: &Wishes) -> Vec<Claim> {
    let mut flags = std::collections::BTreeMap::new();
    for (flag, value, default) in wishes {
        let value = if *default { format!("{{$default: {value}}}") } else { value.to_string() };
        flags.insert(format!("flag-{flag}"), value);
    }
    let lines: String = flags.iter().map(|(k, v)| format!("    {k}: {v}\n")).collect();
    let text = format!(
        "apiServer:\n  flags:\n    enable-admission-plugins: [P{plugin}]\n{lines}machines: {{nodes: {{sysctls: {{a: 1}}}}}}\n"
    );
    let node = read(&SourceFile::new(format!("{plugin}.yaml"), text)).unwrap();
    let name = Name::new(&format!("p{plugin}")).unwrap();
    let pools: Arc<[String]> = ["pool:a".to_owned(), "pool:b".to_owned()].into();
    let cx = Split {
        plugin: &name,
        stage: Stage::Initialise,
        nodes: &pools,
        stacks: &pools,
        pools: &pools,
        groups: &[],
        offered: &[Role::Worker],
        narrowed: false,
        all_pools: true,
        lowered: false,
        writes: None,
    };
    let (claims, findings) = split(&node, &cx);
    assert!(findings.is_empty(), "{findings:?}");
    claims
}

/// The model, its owners, and what was said about conflicts, as text.
fn merged(claims: Vec<Claim>) -> (String, Vec<String>) {
    let mut model = Model::default();
    let findings = model.merge(claims, &mut Decisions::default());
    let mut lines = Vec::new();
    model.walk(&[], &mut |path, entity| {
        lines.push(format!("{path:?} {} {:?}", entity.body.to_value(), entity.owner_names()));
    });
    let mut codes: Vec<String> = findings.iter().map(|f| f.message.clone()).collect();
    codes.sort();
    (lines.join("\n"), codes)
}

fn plugins() -> impl Strategy<Value = Vec<Wishes>> {
    prop::collection::vec(prop::collection::vec((0..4_u8, 0..3_u8, any::<bool>()), 0..4), 1..5)
}

proptest! {
    #[test]
    fn the_order_of_claims_changes_nothing(wishes in plugins(), seed in any::<u64>()) {
        let mut all: Vec<Claim> = wishes.iter().enumerate().flat_map(|(i, w)| claims(i, w)).collect();
        let (model, said) = merged(all.clone());
        // A shuffle of our own: rotate and swap by the seed.
        let length = all.len();
        for i in 0..length {
            let j = usize::try_from(seed.rotate_left(u32::try_from(i).unwrap()) % u64::try_from(length).unwrap()).unwrap();
            all.swap(i, j);
        }
        let (shuffled, said_then) = merged(all);
        prop_assert_eq!(said.is_empty(), said_then.is_empty());
        if said.is_empty() {
            prop_assert_eq!(model, shuffled);
        }
    }

    #[test]
    fn saying_it_twice_says_it_once(wishes in plugins()) {
        let all: Vec<Claim> = wishes.iter().enumerate().flat_map(|(i, w)| claims(i, w)).collect();
        let twice: Vec<Claim> = all.iter().chain(&all).cloned().collect();
        let (once, said) = merged(all);
        if said.is_empty() {
            let (again, said) = merged(twice);
            prop_assert!(said.is_empty());
            prop_assert_eq!(once, again);
        }
    }

    #[test]
    fn a_plain_value_beats_a_default_and_two_that_differ_conflict(a in 0..3_u8, b in 0..3_u8, default in any::<bool>()) {
        let both: Vec<Claim> = [claims(0, &vec![(0, a, default)]), claims(1, &vec![(0, b, false)])].concat();
        let (model, said) = merged(both);
        let conflict = !default && a != b;
        prop_assert_eq!(said.len(), usize::from(conflict));
        if !conflict {
            let line = model.lines().find(|l| l.contains("flag-0")).unwrap();
            let expected = format!(" {b} ");
            prop_assert!(line.contains(&expected), "{}", line);
        }
    }
}
