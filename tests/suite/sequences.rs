//! Random sequences of edits, deployments, kills, faults and destructions on the local cloud: whatever happens,
//! the end is that of the same edits undisturbed.
//!
//! `KAWS_SEQUENCES=1000` plays so many, `KAWS_SEED=17` begins with that one: a sequence that fails names its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// So many are played where nobody says otherwise.
const FEW: u64 = 6;

/// Numbers that look random, from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.roll(all.len() as u64)).unwrap()]
    }
}

/// What a cluster's file says, as far as it is edited.
#[derive(Clone, Debug)]
struct Wanted {
    pools: BTreeMap<String, (String, u64)>,
    team: u64,
    etcd: String,
    extra: bool,
}

impl Wanted {
    fn text(&self) -> String {
        let mut text = format!(
            "apiVersion: kaws/v1\nname: small\naccount: \"111122223333\"\nregion: eu-west-1\n\
             network: {{zones: [eu-west-1a, eu-west-1b, eu-west-1c]}}\ntags: {{team: t{}}}\n\
             etcd: {{instanceType: {}}}\nplugins: {{coredns: {{enabled: {}}}}}\nnodePools:\n",
            self.team, self.etcd, self.extra
        );
        for (name, (kind, most)) in &self.pools {
            let _ = writeln!(
                text,
                "  {name}: {{instanceTypes: [{kind}], size: {{min: 1, max: {most}}}}}"
            );
        }
        text
    }

    fn edit(&mut self, dice: &mut Dice) {
        let name = dice.pick(&["general", "other", "third"]).to_owned();
        match dice.roll(6) {
            0 => self.team = dice.roll(3),
            1 => self.extra = !self.extra,
            2 => self.etcd = dice.pick(&["m7i.large", "m7i.xlarge"]).to_owned(),
            // The last pool stays.
            3 if self.pools.len() > 1 => {
                self.pools.remove(&name);
            }
            _ => {
                let kind = dice.pick(&["m7i.large", "m7i.xlarge", "c7i.large"]).to_owned();
                self.pools.insert(name, (kind, 2 + dice.roll(3)));
            }
        }
    }

    /// Resources that can fail.
    fn resource(&self, dice: &mut Dice) -> String {
        let own = [
            "state/IssuerBucketPolicy",
            "network/Vpc",
            "etcd/Etcd1Group",
            "control-plane/Group",
            "iam/Provider",
        ];
        let pools: Vec<String> = self
            .pools
            .keys()
            .flat_map(|p| ["Group", "LaunchTemplate", "Role"].map(|r| format!("pool-{p}/{r}")))
            .collect();
        let all: Vec<&str> = own.into_iter().chain(pools.iter().map(String::as_str)).collect();
        dice.pick(&all).to_owned()
    }
}

struct World {
    dir: tempfile::TempDir,
    /// What was done, to be shown when it went wrong.
    log: Vec<String>,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), log: Vec::new() }
    }

    fn write(&self, wanted: &Wanted) {
        std::fs::write(self.dir.path().join("cluster.yaml"), wanted.text()).unwrap();
    }

    fn start(&mut self, arguments: &[String]) -> Child {
        self.log.push(format!("kaws {}", arguments.join(" ")));
        Command::new(env!("CARGO_BIN_EXE_kaws"))
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HTTPS_PROXY", "http://127.0.0.1:9")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&mut self, arguments: &[String]) -> Output {
        let output = self.start(arguments).wait_with_output().unwrap();
        self.log.push(format!("  exit {:?}", output.status.code()));
        output
    }

    fn kill(&mut self, arguments: &[String], after: Duration) {
        let mut child = self.start(arguments);
        std::thread::sleep(after);
        let _ = child.kill();
        let _ = child.wait();
        self.log.push(format!("  killed after {after:?}"));
    }

    /// Every stack of the local cloud that is not gone, by its short name.
    fn stacks(&self) -> BTreeMap<String, Value> {
        let folder = self.dir.path().join(".kaws/local/stacks");
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let stack: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let short = stack["deployed"]["tags"]["kaws/stack"].as_str();
            let there = !["DELETE_COMPLETE", "REVIEW_IN_PROGRESS"]
                .contains(&stack["status"].as_str().unwrap_or_default());
            if let Some(short) = short.filter(|_| there) {
                all.insert(short.to_owned(), stack);
            }
        }
        all
    }

    /// The arguments of a deployment of all that is wanted, and of nothing else.
    fn up(&self, wanted: &Wanted) -> Vec<String> {
        let words = ["up", "--cloud", "local", "--yes", "--render", "--take-over"];
        let mut arguments: Vec<String> = words.map(str::to_owned).into();
        for stack in self.stacks().into_keys() {
            let pool = stack.strip_prefix("pool-");
            if pool.is_some_and(|pool| !wanted.pools.contains_key(pool)) {
                arguments.extend(["--remove".to_owned(), stack]);
            }
        }
        arguments
    }

    fn destroy() -> Vec<String> {
        ["destroy", "--cloud", "local", "--yes", "--take-over"].map(str::to_owned).into()
    }

    /// Deploys until it is done: three times are enough, whatever went before.
    fn settle(&mut self, wanted: &Wanted) {
        self.write(wanted);
        for _ in 0..3 {
            let arguments = self.up(wanted);
            let output = self.run(&arguments);
            if output.status.success() {
                return;
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            self.log.push(said);
        }
        panic!("it does not converge");
    }
}

/// A value without what tells of former lives: ids, and versions of launch templates.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_ids).collect(),
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| *key != "Version");
            kept.map(|(key, value)| (key.clone(), without_ids(&told(key, value)))).collect()
        }
        // Made-up keys and addresses.
        Value::String(text)
            if text.contains(":key/")
                || text.starts_with("203.0.113.")
                || (text.len() == 36 && text.matches('-').count() == 4) =>
        {
            "#".into()
        }
        Value::String(text) => {
            let word = |c: char| !c.is_ascii_alphanumeric();
            let hex = |w: &str| w.len() >= 8 && w.chars().all(|c| c.is_ascii_hexdigit());
            let id = |w: &str| hex(w.trim_start_matches('Z'));
            let words = text.split(word).map(|w| if id(w) { "#" } else { w });
            Value::String(words.collect::<Vec<_>>().join("-"))
        }
        other => other.clone(),
    }
}

/// User data names volumes and interfaces, and is packed.
fn told(key: &str, value: &Value) -> Value {
    use base64::Engine as _;
    let packed = value.as_str().filter(|_| key == "UserData");
    let bytes = packed.and_then(|text| base64::prelude::BASE64_STANDARD.decode(text).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map_or_else(|| value.clone(), Value::String)
}

/// What a stack is, but for ids, which tell of former lives.
fn shape(stack: &Value) -> Value {
    let resources = stack["resources"].as_object().cloned().unwrap_or_default();
    let kinds: BTreeMap<String, Value> =
        resources.into_iter().map(|(id, made)| (id, without_ids(&made["properties"]))).collect();
    let names: Vec<String> =
        stack["outputs"].as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
    serde_json::json!({
        // What was rolled back to just what is wanted now has nothing left to do.
        "done": matches!(
            stack["status"].as_str(),
            Some("CREATE_COMPLETE" | "UPDATE_COMPLETE" | "UPDATE_ROLLBACK_COMPLETE")
        ),
        "idle": stack["operation"].is_null(),
        "template": stack["deployed"]["template"],
        "tags": stack["deployed"]["tags"],
        "protected": stack["protected"],
        "resources": kinds,
        "outputs": names,
    })
}

/// Values a line each, so that a difference shows.
fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map.iter().map(|(k, v)| format!("{k}: {v}")).collect(),
        other => vec![other.to_string()],
    }
}

fn shapes(world: &World) -> BTreeMap<String, Value> {
    world.stacks().iter().map(|(name, stack)| (name.clone(), shape(stack))).collect()
}

/// One disturbed step: a deployment that is killed, that fails, that fails on the way back, or a destruction.
fn disturb(world: &mut World, wanted: &Wanted, dice: &mut Dice, whole: u64) {
    world.write(wanted);
    let mut arguments = world.up(wanted);
    let moment = Duration::from_millis(dice.roll(whole.max(1)));
    match dice.roll(8) {
        0 => {
            world.run(&World::destroy());
        }
        1 => world.kill(&World::destroy(), moment),
        2 | 3 => world.kill(&arguments, moment),
        4 | 5 => {
            arguments.extend(["--fail".to_owned(), wanted.resource(dice)]);
            if dice.roll(2) == 0 {
                let back = format!("rollback:{}", wanted.resource(dice));
                arguments.extend(["--fail".to_owned(), back]);
            }
            if dice.roll(3) == 0 {
                arguments.push("--keep-failed".to_owned());
            }
            world.run(&arguments);
        }
        6 => {
            let gone = format!("delete:{}", wanted.resource(dice));
            arguments.extend(["--fail".to_owned(), gone]);
            world.kill(&arguments, moment);
        }
        _ => {
            world.run(&arguments);
        }
    }
}

fn play(seed: u64, whole: u64) {
    let mut dice = Dice(seed);
    let pool = |kind: &str| (kind.to_owned(), 3);
    let mut wanted = Wanted {
        pools: [("general".to_owned(), pool("m7i.large"))].into(),
        team: 0,
        etcd: "m7i.large".to_owned(),
        extra: true,
    };
    let (mut disturbed, mut calm) = (World::new(), World::new());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..2 + dice.roll(4) {
            wanted.edit(&mut dice);
            disturb(&mut disturbed, &wanted, &mut dice, whole);
        }
        disturbed.settle(&wanted);
        calm.settle(&wanted);
        let (is, should) = (shapes(&disturbed), shapes(&calm));
        assert!(is.keys().eq(should.keys()), "other stacks: {:?}, {:?}", is.keys(), should.keys());
        for (name, should) in &should {
            for (part, should) in should.as_object().unwrap() {
                let is = &is[name][part];
                assert_eq!(lines(is), lines(should), "{part} of {name} differs");
            }
        }
        let plan = ["plan", "--cloud", "local", "--exit-code"].map(str::to_owned);
        assert_eq!(disturbed.run(&plan).status.code(), Some(0), "there is still something to do");
    }));
    if let Err(why) = outcome {
        let text = why.downcast_ref::<String>().cloned().unwrap_or_default();
        let log = disturbed.log.join("\n");
        panic!("KAWS_SEED={seed}: {text}\n{log}\n{}", wanted.text());
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn whatever_happens_the_end_is_that_of_the_same_edits_undisturbed() {
    let (first, count) = (number("KAWS_SEED", 1), number("KAWS_SEQUENCES", FEW));
    // How long an undisturbed deployment takes here, so that kills fall into it.
    let mut world = World::new();
    let start = std::time::Instant::now();
    let one = Wanted {
        pools: [("general".to_owned(), ("m7i.large".to_owned(), 3))].into(),
        team: 0,
        etcd: "m7i.large".to_owned(),
        extra: true,
    };
    world.settle(&one);
    let whole = u64::try_from(start.elapsed().as_millis()).unwrap();
    let threads = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                (first + thread..first + count).step_by(2).for_each(|seed| play(seed, whole));
            });
        }
    });
}
