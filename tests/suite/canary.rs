//! Secrets and private keys lie nowhere in the clear, and no command prints them: every command is run in a cluster
//! that has some, and all that was printed and written is searched.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Cluster, Output, files_below, kaws_with_input};

/// What is searched for: a secret, its base64, and what private keys begin with, in PEM and in base64 of PEM.
const WORDS: [&str; 4] = [
    "canary-of-datadog",
    "Y2FuYXJ5LW9mLWRhdGFkb2",
    "PRIVATE KEY",
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS",
];

/// What is run, in this order, and how it ends.
const COMMANDS: &[(&str, i32)] = &[
    ("version", 0),
    ("init other", 0),
    ("schema", 0),
    ("completions bash", 0),
    ("plugin list", 0),
    ("plugin info datadog", 0),
    ("plugin info datadog --output json", 0),
    ("plugin schema request", 0),
    ("plugin new mine --runtime python", 0),
    ("plugin lint CONTRIB/datadog", 0),
    ("plugin run CONTRIB/datadog", 1),
    ("plugin test CONTRIB/datadog", 0),
    ("plugin package CONTRIB/datadog --to datadog.tar.gz", 0),
    ("plugin install ./datadog.tar.gz", 3),
    ("plugin update", 3),
    ("plugin remove datadog", 1),
    ("render", 0),
    ("render --check", 0),
    ("render --output json", 0),
    ("graph", 0),
    ("graph plugins", 0),
    ("explain pki.certificates.apiserver", 0),
    ("explain machines.worker.files", 0),
    ("explain boot/authority-key", 0),
    ("plan --cloud local --save plan.json", 0),
    ("up --cloud local --yes --fail pool-general/Group", 4),
    ("up --cloud local --yes", 0),
    ("plan --cloud local --output json", 0),
    ("status --cloud local", 0),
    ("roll --all --cloud local", 0),
    ("validate --cloud local", 0),
    ("validate --cloud local --output json", 0),
    ("status --cloud local --drift --output json", 0),
    ("pki status --cloud local", 0),
    ("pki status --cloud local --output json", 0),
    ("pki rotate leaves", 0),
    ("up --cloud local --yes --render --output json", 0),
    ("secret list --cloud local", 0),
    ("secret list --cloud local --output json", 0),
    ("secret set datadog/api-key --cloud local --yes", 0),
    ("etcd backups --cloud local", 0),
    ("etcd restore none.db --cloud local", 1),
    ("kubeconfig --cloud local --to mine.kubeconfig", 0),
    ("lock --cloud local", 1),
    ("up --cloud local --yes --render", 0),
    ("secret remove datadog/api-key --cloud local", 0),
    ("destroy --cloud local --yes", 0),
    ("plan --cloud local", 0),
];

/// Every command that help lists, with those below it.
fn listed(dir: &Path, above: &str) -> BTreeSet<String> {
    let words: Vec<&str> = above.split_whitespace().chain(["--help"]).collect();
    let help = kaws_with_input(dir, &words, "").out;
    let Some((_, list)) = help.split_once("Commands:\n") else {
        return BTreeSet::from([above.to_owned()]);
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let below = names.filter(|name| *name != "help");
    below.flat_map(|name| listed(dir, format!("{above} {name}").trim())).collect()
}

fn run(cluster: &Cluster, line: &str) -> Output {
    let contrib = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/plugins");
    let line = line.replace("CONTRIB", contrib);
    let words: Vec<&str> = line.split_whitespace().collect();
    let input = if line.starts_with("secret set") { WORDS[0] } else { "" };
    kaws_with_input(cluster.path(), &words, input)
}

#[test]
fn no_secret_and_no_private_key_lies_or_is_printed_in_the_clear() {
    let cluster = Cluster::small("plugins: {datadog: {settings: {apiKey: {$secret: api-key}}}}\n");
    assert_eq!(run(&cluster, "secret set datadog/api-key --cloud local --yes").code, 0);
    let mut left = listed(cluster.path(), "");
    assert!(left.len() > 20, "{left:?}");
    let mut facts = false;
    for (line, code) in COMMANDS {
        let output = run(&cluster, line);
        assert_eq!(output.code, *code, "kaws {line}\n{}{}", output.out, output.err);
        left.retain(|command| line != command && !line.starts_with(&format!("{command} ")));
        // The one file that has a key was asked for, and is its owner's alone.
        if line.starts_with("kubeconfig") {
            the_kubeconfig_is_its_owners(&cluster.path().join("mine.kubeconfig"));
        }
        let lying = everything(cluster.path());
        facts |= lying.contains("CN=kube-apiserver");
        for word in WORDS {
            let printed = output.out.contains(word) || output.err.contains(word);
            assert!(!printed && !lying.contains(word), "kaws {line}: {word}");
        }
    }
    // They were there all the same: encrypted, and public facts beside them.
    assert!(facts);
    assert!(left.is_empty(), "these commands are not run here: {left:?}");
}

fn the_kubeconfig_is_its_owners(file: &Path) {
    let meta = std::fs::metadata(file).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&meta.permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        std::fs::read_to_string(file).unwrap().contains(&format!("client-key-data: {}", WORDS[3]))
    );
    std::fs::remove_file(file).unwrap();
}

/// Everything in a folder, as one text.
fn everything(dir: &Path) -> String {
    let files = files_below(dir).into_iter().map(|path| std::fs::read(path).unwrap());
    files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}
