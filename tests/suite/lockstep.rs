//! Lockstep: native test plugins record what they saw, in each rank of each stage.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kaws::finding::{Finding, Outcome};
use kaws::load::load;
use kaws::model::Model;
use kaws::pipeline;
use kaws::plugin::{Artifacts, Context, Contribution, Plugin, Rendering};
use serde_json::json;

use crate::support::Cluster;

/// Writes down which of the recorders' values it sees, and adds its own.
#[derive(Debug)]
struct Recorder {
    log: Arc<Mutex<Log>>,
    fatal: Option<&'static str>,
}

impl Recorder {
    fn note(&self, stage: &str, cx: &Context<'_>, model: &Model) {
        let seen = ["initialise", "render"]
            .iter()
            .flat_map(|s| {
                model
                    .names(&["values"])
                    .into_iter()
                    .filter(|p| model.entity(&["values", p, s]).is_some())
                    .map(move |p| format!("{s}:{p}"))
            })
            .collect();
        self.log.lock().unwrap().push((format!("{stage}:{}", cx.me.name), seen));
    }
}

impl Plugin for Recorder {
    fn initialise(&self, cx: &Context<'_>, draft: &Model) -> Outcome<Contribution> {
        self.note("initialise", cx, draft);
        let mut out = Contribution::default();
        let me = cx.me.name.as_str();
        out.put(me, ["values", me, "initialise"], json!(true));
        let mut outcome = Outcome::clean(out);
        if self.fatal == Some(me) {
            outcome
                .findings
                .push(Finding::fatal("policy/open-ingress", format!("{me} stops the run")));
        }
        outcome
    }

    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        self.note("render", cx, model);
        let mut out = Rendering::default();
        let me = cx.me.name.as_str();
        out.contribution.put(me, ["values", me, "render"], json!(true));
        Outcome::clean(out)
    }
}

type Log = Vec<(String, Vec<String>)>;

/// Runs recorders a to e: `a` in a rank of its own, `b` and `c` in one, `d` and `e` among the rest, `e`
/// after `d`.
fn run(fatal: Option<&'static str>) -> (Log, bool) {
    let cluster = Cluster::small("plugins: {a: {}, b: {}, c: {}, d: {}, e: {}}\n");
    for name in ["a", "b", "c", "d"] {
        cluster.plugin(name, "initialise: {}\nrender: {values: {}}\n");
    }
    cluster.plugin("e", "after: [d]\ninitialise: {}\nrender: {values: {}}\n");
    cluster
        .file("order.yaml", "initialise: [a, [b, c], network, rest]\nrender: [a, [b, c], rest]\n");
    let log = Arc::new(Mutex::new(Vec::new()));
    let setup = load(&cluster.options(), &kaws::builtin::natives()).unwrap();
    let mut setup = setup.value.unwrap();
    for instance in &mut setup.plugins {
        if instance.name.as_str().len() == 1 {
            let recorder = Arc::new(Recorder { log: Arc::clone(&log), fatal });
            instance.initialise = Arc::clone(&recorder) as Arc<dyn Plugin>;
            instance.render = recorder;
        }
    }
    let outcome = pipeline::initialise(&setup);
    let stopped = outcome.findings.any_fatal();
    if !stopped {
        let rendered = pipeline::render(&setup, outcome.value);
        assert!(!rendered.findings.any_fatal(), "{:?}", rendered.findings);
    }
    (log.lock().unwrap().clone(), stopped)
}

#[test]
fn plugins_of_one_rank_see_the_same_and_all_earlier_ones() {
    let (log, stopped) = run(None);
    assert!(!stopped);
    let seen: BTreeMap<String, Vec<String>> = log.iter().cloned().collect();
    let want = |who: &str, names: &[&str]| {
        let expected: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        assert_eq!(seen[who], expected, "{who}");
    };
    want("initialise:a", &[]);
    want("initialise:b", &["initialise:a"]);
    want("initialise:c", &["initialise:a"]);
    // The rest comes after those that the file names, and among itself by `after`.
    want("initialise:d", &["initialise:a", "initialise:b", "initialise:c"]);
    want("initialise:e", &["initialise:a", "initialise:b", "initialise:c", "initialise:d"]);
}

#[test]
fn a_stage_ends_for_all_before_the_next_begins() {
    let (log, _) = run(None);
    let first_render = log.iter().position(|(who, _)| who.starts_with("render:")).unwrap();
    assert!(log[..first_render].iter().all(|(who, _)| who.starts_with("initialise:")));
    assert!(log[first_render..].iter().all(|(who, _)| who.starts_with("render:")));
    let (_, seen) = &log[first_render];
    let all: Vec<String> =
        ["a", "b", "c", "d", "e"].iter().map(|n| format!("initialise:{n}")).collect();
    assert_eq!(*seen, all);
}

#[test]
fn a_fatal_finding_stops_at_the_end_of_its_rank() {
    let (log, stopped) = run(Some("b"));
    assert!(stopped);
    let called: Vec<&str> = log.iter().map(|(who, _)| who.as_str()).collect();
    // c is of b's rank and is called; d and e are not, and no stage follows.
    assert_eq!(called, ["initialise:a", "initialise:b", "initialise:c"]);
}
