//! Lookups: granted, asked once, kept in kaws.lock, and read from there.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::support::Cluster;

/// A server that answers everything with one document, as long as the test runs.
fn server(document: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let length = document.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{document}"
            );
        }
    });
    port
}

const PROGRAM: &str = r#"#!/bin/sh
sed -n 's/.*"lookups":{\([^}]*\)}.*/{"contribution": {"values": {"acme": {\1}}}}/p'
"#;

fn cluster(lookups: &str, capabilities: &str) -> Cluster {
    let cluster = Cluster::small("plugins:\n  acme: {settings: {channel: stable}}\n");
    cluster.plugin("acme", &format!("settings: {{type: object, properties: {{channel: {{type: string}}}}}}\nwrites: []\nlookups:\n{lookups}\n{capabilities}\ninitialise: {{exec: ./bin/acme}}\n"));
    cluster.file("plugins/acme/bin/acme", PROGRAM);
    cluster
}

fn lock(cluster: &Cluster) -> String {
    std::fs::read_to_string(cluster.path().join("kaws.lock")).unwrap_or_default()
}

#[test]
fn an_answer_is_asked_for_once_and_read_from_the_lock() {
    let port = server(r#"{"release": {"version": "4.2.0"}}"#);
    let url = |channel: &str| format!("http://127.0.0.1:{port}/{channel}.json");
    let cluster = cluster(
        &format!(
            "  release: {{http: \"http://127.0.0.1:{port}/{{{{settings.channel}}}}.json\", pointer: /release/version}}"
        ),
        "",
    );
    let before = cluster.kaws(&["render"]);
    assert_eq!(before.code, 1);
    assert!(
        before.err.contains("nobody has asked yet what acme looks up as `release`"),
        "{}",
        before.all()
    );
    // Nobody publishes checksums here: the pins fail, and the answer is kept all the same.
    let locked = cluster.kaws(&["lock", "--cloud", "local"]);
    assert!(locked.out.contains("acme/release\n    \"4.2.0\""), "{}", locked.all());
    assert!(
        lock(&cluster).contains(&format!(
            "  acme/release:\n    from: {}#/release/version\n    value: 4.2.0\n",
            url("stable")
        )),
        "{}",
        lock(&cluster)
    );
    let after = cluster.kaws(&["render"]);
    assert_eq!(after.code, 0, "{}", after.all());
    let model = std::fs::read_to_string(cluster.path().join("rendered/model.yaml")).unwrap();
    assert!(model.contains("release: 4.2.0"), "{model}");
    // Another question has no answer yet.
    let text = std::fs::read_to_string(cluster.path().join("cluster.yaml")).unwrap();
    cluster.file("cluster.yaml", text.replace("stable", "beta"));
    assert_eq!(cluster.kaws(&["render"]).code, 1);
}

#[test]
fn a_program_reaches_what_it_was_granted_and_nothing_else() {
    let (port, other) = (server("\"granted\""), server("\"not granted\""));
    let script = |port: u16| {
        format!(
            "#!/bin/sh\nprintf '{{\"value\": %s}}' \"$(curl -sS --max-time 5 http://127.0.0.1:{port}/)\"\n"
        )
    };
    let cluster = cluster(
        "  word: {exec: ./bin/ask}",
        &format!("capabilities: {{network: [\"127.0.0.1:{port}\"]}}"),
    );
    cluster.file("plugins/acme/bin/ask", script(port));
    let asked = cluster.kaws(&["lock", "--cloud", "local"]);
    assert_eq!(asked.code, 1);
    assert!(
        asked.out.contains(&format!("acme 1.0.0 asks for:\n  network 127.0.0.1:{port}")),
        "{}",
        asked.all()
    );
    assert!(asked.err.contains("kaws lock --grant acme"), "{}", asked.all());
    let granted = cluster.kaws(&["lock", "--cloud", "local", "--grant", "acme"]);
    assert!(granted.out.contains("acme/word\n    \"granted\""), "{}", granted.all());
    assert!(
        lock(&cluster).contains(&format!("granted:\n      - network 127.0.0.1:{port}\n")),
        "{}",
        lock(&cluster)
    );
    assert_eq!(cluster.kaws(&["render"]).code, 0);
    // The grant is remembered; what goes past it fails; and a right more stops.
    cluster.file("plugins/acme/bin/ask", script(other));
    let past = cluster.kaws(&["lock", "--cloud", "local", "--update", "acme/word"]);
    assert_eq!(past.code, 1);
    assert!(past.err.contains("the lookup acme/word"), "{}", past.all());
    let manifest =
        std::fs::read_to_string(cluster.path().join("plugins/acme/plugin.yaml")).unwrap();
    cluster.file(
        "plugins/acme/plugin.yaml",
        manifest.replace("{network: [", "{env: [TOKEN], network: ["),
    );
    let more = cluster.kaws(&["lock", "--cloud", "local"]);
    assert!(
        more.err.contains("acme asks for rights that nobody granted: env TOKEN"),
        "{}",
        more.all()
    );
}

/// A case asks the outside once, where its author says so; from then on it needs nobody.
#[test]
fn what_a_case_looks_up_is_recorded_once() {
    let port = server(r#"{"version": "4.2.0"}"#);
    let cluster = cluster(
        &format!(
            "  release: {{http: \"http://127.0.0.1:{port}/x.json\", pointer: /version}}\n  greeting: {{exec: [./bin/acme, greeting]}}"
        ),
        "capabilities: {env: [GREETING]}",
    );
    cluster.file(
        "plugins/acme/bin/acme",
        "#!/bin/sh\nif [ \"$1\" = greeting ]; then printf '{\"value\": \"hello\"}'; exit; fi\nsed -n 's/.*\"lookups\":{\\([^}]*\\)}.*/{\"contribution\": {\"values\": {\"acme\": {\\1}}}}/p'\n",
    );
    cluster.file(
        "plugins/acme/cases/on/case.yaml",
        "cluster: minimal\nplugins: {acme: {}}\nexpect: {findings: []}\n",
    );
    let test = |more: &[&str]| {
        let arguments = [&["plugin", "test", "plugins/acme"], more].concat();
        cluster.kaws(&arguments)
    };
    let before = test(&[]);
    assert!(before.all().contains("nobody has asked yet"), "{}", before.all());
    // Nobody is there to agree.
    let alone = test(&["--record"]);
    assert!(alone.all().contains("env GREETING"), "{}", alone.all());
    assert!(alone.all().contains("--record --grant"), "{}", alone.all());
    let recorded = test(&["--record", "--grant"]);
    assert_eq!(recorded.code, 0, "{}", recorded.all());
    let path = cluster.path().join("plugins/acme/cases/on/kaws.lock");
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept.contains("value: 4.2.0") && kept.contains("value: hello"), "{kept}");
    assert!(!kept.contains("sha256:"), "only what was looked up: {kept}");
    // What is known is not asked again, and enters what is rendered.
    std::fs::write(&path, kept.replace("4.2.0", "4.3.0")).unwrap();
    let known = test(&["--record"]);
    assert_eq!(known.code, 0, "{}", known.all());
    assert!(std::fs::read_to_string(&path).unwrap().contains("4.3.0"));
    let ran = cluster.kaws(&["plugin", "run", "plugins/acme", "--case", "on", "--ask"]);
    assert!(ran.out.contains("4.3.0"), "{}", ran.all());
}
