//! Commands that are not kaws's own: of plugins, and of the PATH.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::Cluster;

struct World {
    cluster: Cluster,
}

impl World {
    fn new(more: &str) -> Self {
        let cluster = Cluster::small(more);
        std::fs::create_dir_all(cluster.path().join("bin")).unwrap();
        Self { cluster }
    }

    fn program(&self, path: &str, text: &str) -> &Self {
        self.cluster.file(path, text);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.cluster.path().join(path), mode).unwrap();
        self
    }

    fn kaws(&self, words: &[&str]) -> (i32, String, String) {
        let path = std::env::var("PATH").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_kaws"))
            .args(words)
            .current_dir(self.cluster.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.cluster.path().join("bin").display()))
            .env("HOME", self.cluster.path())
            .env("SECRET_OF_MINE", "mine")
            .env("GREETING", "hello")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }
}

const ECHO: &str = "#!/bin/sh\necho \"$0\" | sed 's,.*/,,'\nfor word; do echo \"<$word>\"; done\n";

#[test]
fn the_longest_name_on_the_path_is_run_with_all_words_as_they_are() {
    let world = World::new("");
    world
        .program("bin/kaws-a", ECHO)
        .program("bin/kaws-a-b", ECHO)
        .program("bin/kaws-my_word", ECHO);
    let said = |words: &[&str]| world.kaws(words).1;
    assert_eq!(
        said(&["a", "x", "--flag", "-f", "", "two words", "--", "*"]),
        "kaws-a\n<x>\n<--flag>\n<-f>\n<>\n<two words>\n<-->\n<*>\n"
    );
    assert_eq!(said(&["a", "b", "c", "--help"]), "kaws-a-b\n<c>\n<--help>\n");
    assert_eq!(said(&["a", "--x", "b"]), "kaws-a\n<--x>\n<b>\n");
    assert_eq!(said(&["my-word", "1"]), "kaws-my_word\n<1>\n");
    // A folder without a cluster will do, and the user's environment is the user's.
    world.program("bin/kaws-env", "#!/bin/sh\necho $SECRET_OF_MINE $KAWS_CLUSTER $KAWS_COMMAND $KAWS_DEPTH; test -x \"$KAWS_PATH\"\n");
    assert_eq!(said(&["env"]), "mine small EXEC 1\n");
    std::fs::remove_file(world.cluster.path().join("cluster.yaml")).unwrap();
    assert_eq!(said(&["env"]), "mine EXEC 1\n");
}

#[test]
fn how_it_ended_is_how_kaws_ends() {
    let world = World::new("");
    for code in [0, 1, 7, 42, 255] {
        world.program("bin/kaws-ends", &format!("#!/bin/sh\nexit {code}\n"));
        assert_eq!(world.kaws(&["ends"]).0, code);
    }
    world.program("bin/kaws-ends", "#!/bin/sh\nkill -TERM $$\n");
    assert_eq!(world.kaws(&["ends"]).0, 143);
    let (code, _, said) = world.kaws(&["rendr"]);
    assert!(code == 64 && said.contains("did you mean `kaws render`"), "{said}");
    let (code, _, said) = world.kaws(&["nothing-like-it"]);
    assert!(code == 64 && said.contains("kaws --help"), "{said}");
}

#[test]
fn what_is_built_in_is_never_shadowed() {
    let world = World::new("plugins: {h: {}}\n");
    world.program("bin/kaws-render", ECHO).program("bin/kaws-plugin-list", ECHO);
    world.cluster.plugin("h", "commands: {plan: {description: no, exec: ./bin/x}}\n");
    world.program("plugins/h/bin/x", ECHO);
    assert!(world.kaws(&["render"]).1.contains("Rendered small"));
    let said = world.kaws(&["plugin", "list"]).1;
    assert!(!said.contains("kaws-plugin-list"), "{said}");
    assert!(said.contains("the command render on the PATH is never run"), "{said}");
    assert!(said.contains("the command plan of h is never run"), "{said}");
}

#[test]
fn a_plugins_command_has_the_terminal_and_what_was_granted() {
    let world = World::new("plugins: {registry: {}, off: {enabled: false}}\n");
    let more = "capabilities: {env: [GREETING]}\ncommands:\n  registry: {description: Keeps a registry., exec: ./bin/registry}\n  \
                python: {description: With an interpreter., exec: [python3, ./main.py, first]}\nprograms: [python3]\n";
    world.cluster.plugin("registry", more);
    world.cluster.plugin("off", "commands: {gone: {description: x, exec: ./bin/x}}\n");
    world.program("plugins/off/bin/x", ECHO);
    world.program(
        "plugins/registry/bin/registry",
        "#!/bin/sh\necho \"$KAWS_PLUGIN $KAWS_CLUSTER [$SECRET_OF_MINE] [$GREETING] $1\"\ncat\n",
    );
    world.program("plugins/registry/main.py", "import sys\nprint(sys.argv[1:])\n");
    world.program("bin/kaws-registry", ECHO);
    let (code, said, wrong) = world.kaws(&["registry", "create"]);
    assert_eq!((code, said.as_str()), (0, "registry small [] [] create\n"), "{wrong}");
    let hash = "0".repeat(64);
    world.cluster.file("kaws.lock", format!("kaws: 0.1.0\nplugins: {{registry: {{version: 1.0.0, sha256: '{hash}', granted: [env GREETING]}}}}\n"));
    assert_eq!(world.kaws(&["registry", "create"]).1, "registry small [] [hello] create\n");
    assert_eq!(world.kaws(&["python", "--flag", "x"]).1, "['first', '--flag', 'x']\n");
    // A plugin that is off has no command.
    assert_eq!(world.kaws(&["gone"]).0, 64);
}

#[test]
fn a_command_may_hand_on_to_kaws() {
    let world = World::new("");
    let on =
        |words: &str| format!("#!/bin/sh\necho '{{\"continue\": {words}}}' >\"$KAWS_RESULT\"\n");
    world.program("bin/kaws-quick", &on("[\"render\", \"--output\", \"json\"]"));
    let (code, said, _) = world.kaws(&["quick", "--anything"]);
    assert!(code == 0 && said.contains("\"findings\""), "{said}");
    assert!(world.cluster.path().join("rendered/manifest.yaml").exists());
    world.program("bin/kaws-quick", &on("[\"quick\"]"));
    let (code, _, said) = world.kaws(&["quick"]);
    assert!(code == 1 && said.contains("round in a circle"), "{said}");
    // Through another process it is counted all the same.
    world.program("bin/kaws-quick", "#!/bin/sh\nexec kaws quick\n");
    std::fs::copy(env!("CARGO_BIN_EXE_kaws"), world.cluster.path().join("bin/kaws")).unwrap();
    let (code, _, said) = world.kaws(&["quick"]);
    assert!(code == 1 && said.contains("round in a circle"), "{said}");
    for (result, expected) in [
        ("render", "cannot be used"),
        ("{\"continue\": \"render\"}", "list of words"),
        ("{\"next\": []}", "list of words"),
    ] {
        world.program("bin/kaws-quick", &format!("#!/bin/sh\necho '{result}' >\"$KAWS_RESULT\"\n"));
        let (code, _, said) = world.kaws(&["quick"]);
        assert!(code == 1 && said.contains(expected), "{said}");
    }
    // What stood before the name holds on; several clusters are not for one command.
    world.program("bin/kaws-quick", &on("[\"plugin\", \"list\"]"));
    let (code, said, _) = world.kaws(&["--output", "json", "quick"]);
    assert!(code == 0 && said.starts_with('['), "{said}");
    world.program("bin/kaws-quick", &on("[\"plan\", \"-f\", \"a\", \"-f\", \"b\"]"));
    let (code, _, said) = world.kaws(&["quick"]);
    assert!(code == 1 && said.contains("several clusters"), "{said}");
    // One that fails does not hand on.
    world.program(
        "bin/kaws-quick",
        "#!/bin/sh\necho '{\"continue\": [\"version\"]}' >\"$KAWS_RESULT\"\nexit 5\n",
    );
    let (code, said, _) = world.kaws(&["quick"]);
    assert_eq!((code, said.as_str()), (5, ""));
}
