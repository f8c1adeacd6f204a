//! Events of clusters: hooks where kaws runs, in their order, with what they were granted and nothing else.

use std::process::{Command, Stdio};

use kaws::model::HOST_EVENTS;

use crate::support::Cluster;

/// Runs the command with a home and a PATH, as hooks need one.
fn kaws(cluster: &Cluster, arguments: &[&str], input: &str) -> (i32, String) {
    use std::io::Write as _;
    let home = cluster.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kaws"))
        .args(arguments)
        .current_dir(cluster.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", &home)
        .env("GREETING", "hello")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    (output.status.code().unwrap_or(-1), said.concat())
}

fn up(cluster: &Cluster) -> (i32, String) {
    kaws(cluster, &["up", "--cloud", "local", "--yes", "--render"], "")
}

/// The lines that hooks printed, in order.
fn heard(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.strip_prefix("  heard ")).collect()
}

#[test]
fn events_happen_in_their_order() {
    let cluster = Cluster::small("plugins: {a: {}, b: {}}\n");
    let hooks: String = HOST_EVENTS
        .iter()
        .map(|event| format!("    {event}: {{x: {{command: 'echo heard $KAWS_EVENT of $KAWS_PLUGIN in $KAWS_CLUSTER'}}}}\n"))
        .collect();
    cluster.plugin("a", &format!("initialise:\n  hooks:\n{hooks}"));
    cluster.plugin("b", "initialise: {hooks: {after-delete: {x: {command: echo heard b}}, after-create: {x: {command: echo heard b}}}}\n");
    let (code, said) = up(&cluster);
    assert_eq!(code, 0, "{said}");
    let a = |event: &str| format!("{event} of a in small");
    assert_eq!(
        heard(&said),
        [&a("before-deploy"), &a("before-create"), &a("after-create"), "b", &a("after-deploy")]
    );
    // Where nothing changes nothing happens.
    assert!(heard(&up(&cluster).1).is_empty());
    let text = std::fs::read_to_string(cluster.path().join("cluster.yaml")).unwrap();
    cluster.file("cluster.yaml", format!("{text}tags: {{team: platform}}\n"));
    let (_, plan) = kaws(&cluster, &["plan", "--cloud", "local"], "");
    let listed = plan.split("Hooks, which run here\n").nth(1).unwrap_or_else(|| panic!("{plan}"));
    assert!(listed.contains("  before-update  a/"), "{plan}");
    assert!(!listed.contains("-create") && !listed.contains("-delete"), "{plan}");
    let (code, said) = up(&cluster);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        heard(&said),
        [&a("before-deploy"), &a("before-update"), &a("after-update"), &a("after-deploy")]
    );
    let (code, said) = kaws(&cluster, &["destroy", "--cloud", "local", "--yes"], "");
    assert_eq!(code, 0, "{said}");
    // What came last goes first.
    assert_eq!(heard(&said), [&a("before-delete"), "b", &a("after-delete")]);
}

#[test]
fn a_hook_that_fails_stops_what_comes_next_where_it_counts() {
    let cluster = Cluster::small("plugins: {h: {}}\n");
    let hook = |event: &str, more: &str| {
        format!("initialise: {{hooks: {{{event}: {{x: {{{more}}}}}}}}}\n")
    };
    cluster.plugin("h", &hook("before-deploy", "command: 'echo no room >&2; exit 3'"));
    let (code, said) = up(&cluster);
    assert!(
        code == 1 && said.contains("fatal[hooks/failed]") && said.contains("no room"),
        "{code} {said}"
    );
    assert!(said.contains("plugins/h/plugin.yaml:5"), "{said}");
    let (_, plan) = kaws(&cluster, &["plan", "--cloud", "local", "--output", "json"], "");
    assert!(!plan.contains("\"none\"") && plan.contains("create"), "nothing was deployed");
    for (more, expected) in [
        ("command: 'sleep 100', timeout: 1s", "1s"),
        ("command: 'curl -sS http://127.0.0.1:9/'", "failed"),
        ("command: 'cat CLUSTER/cluster.yaml'", "Permission denied"),
        ("command: 'cat CLUSTER/home/.netrc'", "Permission denied"),
        ("script: ./x.sh", "exit code 7"),
    ] {
        let more = more.replace("CLUSTER", &cluster.path().display().to_string());
        cluster.plugin("h", &hook("before-deploy", &more));
        cluster.file("plugins/h/x.sh", "exit 7\n").file("home/.netrc", "password\n");
        let (code, said) = up(&cluster);
        assert!(
            code == 1 && said.contains("hooks/failed") && said.contains(expected),
            "{more}: {code} {said}"
        );
    }
    // What can be known before is said before.
    for (more, expected) in [
        ("exec: ./bin/none", "has no file bin/none"),
        ("command: a, exec: ./b", "several things"),
        ("exec: {x: 1}", "names no program"),
    ] {
        cluster.plugin("h", &hook("after-update", more));
        let said = cluster.fatal();
        assert!(said.contains("hooks/form") && said.contains(expected), "{said}");
    }
    cluster.plugin("h", &hook("before-deploy", "command: 'exit 3', behavior: sync-bypass"));
    let (code, said) = up(&cluster);
    assert!(code == 0 && said.contains("warning[hooks/failed]"), "{code} {said}");
}

/// A program that answers with a finding: what it was told, in some form.
fn program(cluster: &Cluster, form: &str) {
    cluster.plugin(
        "h",
        "secrets: {token: {}}\nprograms: [python3]\ncapabilities: {secrets: [token], env: [GREETING], files: [config]}\n\
         writes: [hooks.after-deploy]\ninitialise: {hooks: {after-deploy: {x: {exec: [python3, ./main.py]}}}}\n",
    );
    cluster.file(
        "plugins/h/main.py",
        format!(
            "import base64, json, os, sys, urllib.parse\nrequest = json.load(sys.stdin)\n\
             token = request.get('secrets', {{}}).get('token', 'none')\nsaid = {form}\n\
             json.dump({{'findings': [{{'severity': 'warning', 'code': 'said', 'message': said}}]}}, sys.stdout)\n"
        ),
    );
}

fn granted(cluster: &Cluster, rights: &str) {
    let hash = "0".repeat(64);
    cluster.file("kaws.lock", format!("kaws: 0.1.0\nplugins: {{h: {{version: 1.0.0, sha256: '{hash}', granted: [{rights}]}}}}\n"));
}

const TOKEN: &str = "s3cr/t \\\"word\\\"+x";

/// Deploys something new, and returns what the program said.
fn said(cluster: &Cluster, number: usize) -> (i32, String) {
    let text = std::fs::read_to_string(cluster.path().join("cluster.yaml")).unwrap();
    let text = text
        .lines()
        .filter(|l| !l.starts_with("tags"))
        .map(|l| format!("{l}\n"))
        .collect::<String>();
    cluster.file("cluster.yaml", format!("{text}tags: {{number: '{number}'}}\n"));
    up(cluster)
}

#[test]
fn a_program_of_an_event_is_told_what_was_learned_and_what_was_granted() {
    let cluster = Cluster::small("plugins: {h: {}}\n");
    let token = TOKEN.replace("\\\"", "\"");
    cluster.file("config/x", "here");
    program(
        &cluster,
        "request['event'] + ' ' + request['facts']['endpoint'] + ' ' + str(sorted(request['facts']['outputs']['network'])[:1]) + ' ' + str(token == 'none') + ' ' + os.environ.get('GREETING', 'nothing')",
    );
    kaws(&cluster, &["secret", "set", "h/token", "--cloud", "local", "--yes"], &token);
    granted(&cluster, "");
    let (code, text) = said(&cluster, 1);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("after-deploy https://api.small"), "{text}");
    assert!(text.contains(" True nothing"), "not granted, not told: {text}");
    assert!(cluster.codes().contains(&"lock/not-granted".to_owned()));
    // What is granted is told; where it is not set yet, that is said.
    granted(&cluster, "secret token, env GREETING, files config");
    let (code, text) = said(&cluster, 3);
    assert!(code == 0 && text.contains(" False hello"), "{text}");
    // Another plugin's files, the cloud's own and the user's are nobody's, granted or not.
    program(&cluster, "' '.join(str(os.access(p, os.R_OK)) for p in ['CLUSTER/config/x', 'CLUSTER/.kaws', 'CLUSTER/cluster.yaml', 'CLUSTER/home'])".replace("CLUSTER", &cluster.path().display().to_string()).as_str());
    let (code, text) = said(&cluster, 4);
    assert!(code == 0, "{text}");
    let reads = |path: &str| {
        program(&cluster, &format!("open('{}/{path}').read()[:4]", cluster.path().display()));
        said(&cluster, path.len() + 100)
    };
    assert!(reads("config/x").1.contains("here"));
    assert!(reads("cluster.yaml").1.contains("PermissionError"));
}

#[test]
fn a_secret_that_is_not_set_is_asked_for() {
    let cluster = Cluster::small("plugins: {h: {}}\n");
    cluster.file("config/x", "here");
    for (behavior, expected) in
        [("sync-enforce", "fatal[hooks/failed]"), ("sync-bypass", "warning[hooks/failed]")]
    {
        cluster.plugin("h", &format!("secrets: {{token: {{}}}}\ncapabilities: {{secrets: [token]}}\ninitialise: {{hooks: {{before-deploy: {{x: {{command: cat, behavior: {behavior}}}}}}}}}\n"));
        granted(&cluster, "secret token");
        let (_, text) = said(&cluster, 1);
        assert!(text.contains(expected) && text.contains("kaws secret set h/token"), "{text}");
    }
}

#[test]
fn a_granted_secret_that_comes_back_is_caught_in_every_form() {
    let cluster = Cluster::small("plugins: {h: {}}\n");
    let token = TOKEN.replace("\\\"", "\"");
    cluster.file("config/x", "here");
    let early = |cluster: &Cluster| {
        // Before anything is deployed, so that nothing has to be.
        let path = cluster.path().join("plugins/h/plugin.yaml");
        let text = std::fs::read_to_string(&path).unwrap().replace("after-deploy", "before-deploy");
        std::fs::write(&path, text).unwrap();
        up(cluster)
    };
    program(&cluster, "'nothing'");
    granted(&cluster, "secret token, files config");
    kaws(&cluster, &["secret", "set", "h/token", "--cloud", "local", "--yes"], &token);
    for form in [
        "'it is ' + token",
        "base64.b64encode(('user:' + token).encode()).decode()",
        "token.encode().hex()",
        "urllib.parse.quote(token, safe='')",
        "json.dumps({'a': json.dumps(token)})",
        "''.join('\\\\u%04x' % ord(c) for c in token)",
        "print(token, file=sys.stderr) or 'in the log'",
        "open(os.environ['KAWS_RESULT'], 'w').write('{\"msg\": \"401 for ' + token.replace('\"', '') + token + '\"}') and sys.exit(1)",
    ] {
        program(&cluster, form);
        let (code, text) = early(&cluster);
        assert!(code == 1 && text.contains("fatal[exec/leak]"), "{form}: {code}\n{text}");
        assert!(!text.contains("s3cr") && !text.contains(&form.repeat(2)), "{text}");
    }
    // A line of the shell is told the same, and is caught the same.
    cluster.plugin("h", "secrets: {token: {}}\ncapabilities: {secrets: [token], files: [config]}\ninitialise: {hooks: {after-deploy: {x: {command: cat, behavior: sync-bypass}}}}\n");
    let (code, text) = early(&cluster);
    assert!(
        code == 1 && text.contains("fatal[exec/leak]") && !text.contains("s3cr"),
        "{code}\n{text}"
    );
}

#[test]
fn a_program_is_a_step_and_a_check() {
    let cluster = Cluster::small("plugins: {h: {}}\n");
    let program = |said: &str| {
        cluster.file(
            "plugins/h/main.py",
            format!(
                "import json, os, sys\nrequest = json.load(sys.stdin)\nstage = os.environ['KAWS_STAGE']\n\
                 assert stage == request['stage'] and 'event' not in request\n\
                 network = request['facts']['outputs'].get('network', {{}})\n\
                 print('looking', file=sys.stderr)\njson.dump({{'findings': {said}}}, sys.stdout)\n"
            ),
        );
    };
    cluster.plugin(
        "h",
        "programs: [python3]\ndeploy: {register: {exec: [python3, ./main.py], after: ['stack:network'], within: 20s}}\n\
         validate: {answers: {exec: [python3, ./main.py]}}\n",
    );
    let finding = |severity: &str| {
        format!(
            "[{{'severity': '{severity}', 'code': 'seen', 'message': stage + ' saw ' + min(network)}}]"
        )
    };
    program(&finding("warning"));
    let (code, said) = up(&cluster);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("h/register") && said.contains("deploy saw ApiDnsName"), "{said}");
    program("[]");
    let (code, said) = kaws(&cluster, &["validate", "--cloud", "local"], "");
    assert!(code == 0 && said.contains("h/answers"), "{code} {said}");
    program(&finding("fatal"));
    let (code, said) = kaws(&cluster, &["validate", "--cloud", "local"], "");
    assert!(code == 1 && said.contains("validate saw ApiDnsName"), "{code} {said}");
    // In deploy it is the step that fails.
    let (code, said) = self::said(&cluster, 1);
    assert!(code != 0 && said.contains("deploy saw ApiDnsName"), "{code} {said}");
    cluster.plugin(
        "h",
        "deploy: {register: {exec: ./bin/none}}\nvalidate: {answers: {exec: {a: 1}}}\n",
    );
    let said = cluster.fatal();
    assert!(said.contains("h has no file bin/none") && said.contains("plugin/runtime"), "{said}");
}

/// What a hook missed, the next run makes up for.
#[test]
fn hooks_that_are_owed_are_run_later() {
    let cluster = Cluster::small("plugins: {h: {}}\n");
    let hooks = |word: &str| {
        let hook = |event: &str| format!("{event}: {{x: {{command: '{word} heard $KAWS_EVENT'}}}}");
        let all = ["after-create", "after-deploy", "after-delete"].map(hook).join(", ");
        cluster.plugin("h", &format!("initialise: {{hooks: {{{all}}}}}\n"));
    };
    hooks("exit 1; echo");
    let (code, said) = up(&cluster);
    assert!(code == 1 && !said.contains("is up on the local cloud"), "{said}");
    hooks("echo");
    let (code, said) = up(&cluster);
    assert_eq!((code, heard(&said)), (0, vec!["after-create", "after-deploy"]), "{said}");
    assert!(heard(&up(&cluster).1).is_empty());
    hooks("exit 1; echo");
    let destroy = || kaws(&cluster, &["destroy", "--cloud", "local", "--yes"], "");
    assert_eq!(destroy().0, 1);
    hooks("echo");
    let (code, said) = destroy();
    assert_eq!((code, heard(&said)), (0, vec!["after-delete"]), "{said}");
    assert!(heard(&destroy().1).is_empty());
}
