//! Bad days: every state that a stack can be stuck in, and failures that explain themselves. What the user sees,
//! and what `kaws up` does about it.
//!
//! A scenario is a file of `tests/scenarios`, and what it should print stands in it: `$` runs a command, `>` runs
//! one and shows only how it ended, `~ a => b` edits `cluster.yaml` (`\\n` begins a line), `! {…}` is what a machine of the pool `other`
//! reports, `% STACK a => b` is what somebody else did to a stack, `@ a|b` is a line of what a controller reports of the cluster, `#` is a
//! comment.

use std::path::{Path, PathBuf};

use crate::support::{Cluster, expect_file};

/// What was typed, without what was printed.
fn typed(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| {
            ["# ", "$ ", "> ", "~ ", "! ", "% ", "@ "].iter().any(|p| line.starts_with(p))
        })
        .collect()
}

fn edit(cluster: &Cluster, change: &str) {
    let path = cluster.path().join("cluster.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (from, to) = change.split_once(" => ").unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(path, text.replace(from, &to.replace("\\n", "\n"))).unwrap();
}

/// Arguments as a shell divides them, with single quotes.
fn arguments(command: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => all.push(String::new()),
            c => all.last_mut().unwrap().push(c),
        }
    }
    all
}

/// Puts a machine's report where machines put it, about the bundle that is rendered.
fn report(cluster: &Cluster, said: &str) {
    let mut report: serde_json::Value = serde_json::from_str(said).unwrap();
    let user_data = cluster.path().join("rendered/nodes/pool-other/user-data");
    let text = std::fs::read_to_string(user_data).unwrap();
    let hash = text.split_once("KAWS_BUNDLE_SHA256=").unwrap().1.lines().next().unwrap();
    for (key, value) in [
        ("state", "failed"),
        ("group", "pool:other"),
        ("bundle", hash),
        // After the deployment that is about to begin, whenever the test runs.
        ("time", "2999-01-01T12:41:07Z"),
    ] {
        report.as_object_mut().unwrap().entry(key).or_insert(value.into());
    }
    let instance = report["instance"].as_str().unwrap();
    let objects = ".kaws/local/buckets/kaws-111122223333-eu-west-1-small/objects";
    let path = format!("{objects}/reports%2Fpool-other%2F{instance}.json");
    cluster.file(&path, report.to_string());
}

/// Days, times of the day and how long things took differ from run to run.
fn timeless(line: &str) -> String {
    if let Some((head, rest)) = line.split_once(" of 20") {
        return format!("{head} of <day>{}", rest.get(8..).unwrap_or_default());
    }
    if let Some((head, rest)) = line.split_once(" ends on 20")
        && let Some((_, name)) = rest.split_once(" days")
    {
        return format!("{head} ends on <day>{name}");
    }
    if let Some((head, took)) = line.rsplit_once(", ")
        && took.strip_suffix("s.").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    {
        return format!("{head}, 0s.");
    }
    let b = line.as_bytes();
    let time = b.len() > 8 && b[2] == b':' && b[5] == b':' && b[..2].iter().all(u8::is_ascii_digit);
    let line = if time { format!("12:00:00{}", &line[8..]) } else { line.to_owned() };
    let head = line.trim_end_matches(|c: char| c.is_ascii_digit() || c == 's');
    if head.ends_with("  ") && line.ends_with('s') {
        return format!("{} 0s", head.trim_end());
    }
    let at = line.find(|c: char| c.is_ascii_digit()).filter(|_| line.starts_with("    "));
    match at.filter(|at| line.get(at + 2..at + 3) == Some(":") && *at == 4) {
        Some(_) => format!("    12:00:00{}", &line[12..]),
        None => line,
    }
}

/// Steps that go on beside stacks end before or after any line of theirs.
fn is_beside(line: &str) -> bool {
    let step = line.strip_prefix("12:00:00 ").and_then(|l| l.split_whitespace().nth(1));
    step.is_some_and(|s| ["addons", "addons:outputs", "assets", "pki"].contains(&s))
}

/// A plugin whose unit must run, or the machine does not count as healthy.
const AGENT: &str = "nodes: [worker]
initialise:
  machines:
    worker:
      units:
        acme-agent.service:
          required: true
          content: |
            [Unit]
            Description=Acme's agent
            [Service]
            ExecStart=/usr/bin/sleep infinity
            [Install]
            WantedBy=multi-user.target
";

fn play(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let cluster = Cluster::small("plugins: {acme-agent: {}}\n");
    cluster.plugin("acme-agent", AGENT);
    let mut out = Vec::new();
    for line in typed(&text) {
        if !line.starts_with("# ") || out.last().is_some_and(|l: &String| !l.starts_with("# ")) {
            out.push(String::new());
        }
        out.push(line.to_owned());
        let (mark, rest) = line.split_at(2);
        match mark {
            "~ " => edit(&cluster, rest),
            "! " => report(&cluster, rest),
            "@ " => {
                let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
                let line = rest.replace('|', "\t");
                let objects = ".kaws/local/buckets/kaws-111122223333-eu-west-1-small/objects";
                cluster.file(
                    &format!("{objects}/reports%2Fcontroller%2Fcluster.tsv"),
                    format!("at\t{now}\ti-0f31c2a9d7e04b6c8\n{line}\nend\n"),
                );
            }
            "% " => {
                let (stack, change) = rest.split_once(' ').unwrap();
                let (from, to) = change.split_once(" => ").unwrap();
                let path = format!(".kaws/local/stacks/small-{stack}.json");
                let text = std::fs::read_to_string(cluster.path().join(&path)).unwrap();
                assert!(text.contains(from), "{path} has no {from}");
                cluster.file(&path, text.replacen(from, to, 1));
            }
            "# " => {}
            _ => {
                let arguments = arguments(rest.strip_prefix("kaws ").unwrap());
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let output = cluster.kaws(&arguments);
                if mark == "$ " {
                    let printed = output.out.lines().chain(output.err.lines());
                    let printed = printed.map(|l| timeless(l).trim_end().to_owned());
                    out.extend(printed.filter(|line| !is_beside(line)));
                }
                out.push(format!("exit {}", output.code));
            }
        }
    }
    expect_file(path, &format!("{}\n", out.join("\n").trim_start()));
}

fn scenarios(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new("tests/scenarios").join(folder);
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    assert!(all.len() >= 3, "{}", all.len());
    all
}

#[test]
fn whatever_a_stack_is_stuck_in_up_gets_it_out_or_says_how() {
    play_all(&scenarios("stuck"));
}

#[test]
fn minors_go_one_by_one_and_what_a_minor_removed_has_an_owner() {
    play_all(&scenarios("upgrade"));
}

#[test]
fn failures_explain_themselves() {
    let all = scenarios("failures");
    play_all(&all);
    let mut page = "<!-- Made by tests/suite/scenarios.rs from tests/scenarios/failures: KAWS_UPDATE=1 cargo test. -->\n\n\
        # What failures look like\n\nWhat `kaws up` prints when a stack fails: what failed first, in the words of the machine where it\nsent a report; why that counts; CloudFormation's own words; and what to do next.\n"
        .to_owned();
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let title = text.lines().next().unwrap().trim_start_matches("# ").trim_end_matches('.');
        let screen = &text[text.find("\nerror[").unwrap()..text.rfind("exit ").unwrap()];
        page += &format!("\n## {title}\n\n```text\n{}\n```\n", screen.trim());
    }
    expect_file(Path::new("docs/explanation/failures.md"), &page);
}

fn play_all(all: &[PathBuf]) {
    std::thread::scope(|scope| {
        let parts: Vec<_> = all.iter().map(|path| scope.spawn(move || play(path))).collect();
        parts.into_iter().for_each(|part| part.join().unwrap());
    });
}
