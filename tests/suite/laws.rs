//! Laws that hold for every example: pure, the same bytes whatever the order, everything owned.

use std::collections::BTreeSet;

use kaws::value::sha256;

use crate::support::{examples, files_below, kaws, rendered};

#[test]
fn every_example_renders_the_same_bytes_twice_and_in_any_order_of_discovery() {
    for (name, file) in examples() {
        let run = rendered(&file);
        let again = rendered(&file);
        assert_eq!(run.manifest, again.manifest, "{name}");
        assert_eq!(run.rendered.artifacts, again.rendered.artifacts, "{name}");
        let reversed = kaws::run::again(&run, |plugins| plugins.reverse()).unwrap();
        assert!(reversed == run.rendered.artifacts, "{name}: reversed");
        let rotated = kaws::run::again(&run, |plugins| plugins.rotate_left(7)).unwrap();
        assert!(rotated == run.rendered.artifacts, "{name}: rotated");
    }
}

#[test]
fn every_entity_has_an_owner_with_a_place() {
    for (name, file) in examples() {
        let run = rendered(&file);
        let mut count = 0;
        run.rendered.model.walk(&[], &mut |path, entity| {
            count += 1;
            assert!(!entity.owners.is_empty(), "{name}: {path:?}");
            for owner in &entity.owners {
                assert!(!owner.origin().file().name.is_empty(), "{name}: {path:?}");
            }
        });
        assert!(count > 200, "{name}");
    }
}

#[test]
fn the_environment_enters_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::canonicalize("examples/ha/cluster.yaml").unwrap();
    let file = file.to_str().unwrap();
    let mut hashes = BTreeSet::new();
    for (i, (variables, cwd)) in [
        (vec![], "/"),
        (
            vec![
                ("HOME", "/nonexistent"),
                ("TZ", "Asia/Tokyo"),
                ("LANG", "tr_TR.UTF-8"),
                ("LC_ALL", "tr_TR.UTF-8"),
            ],
            "/tmp",
        ),
        (
            vec![
                ("AWS_REGION", "us-east-1"),
                ("AWS_PROFILE", "x"),
                ("RUST_BACKTRACE", "1"),
                ("NO_COLOR", "1"),
            ],
            "/usr",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let out = dir.path().join(i.to_string());
        let mut command = std::process::Command::new("sh");
        command.env_clear().envs(variables).current_dir(cwd);
        // Another umask: files are for git, and have the same modes everywhere.
        let line = format!(
            "umask 0{}; exec {} render -f {file} --out {}",
            [22, 77, 2][i],
            env!("CARGO_BIN_EXE_kaws"),
            out.display()
        );
        let output = command.args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        hashes.insert(tree_hash(&out));
    }
    assert_eq!(hashes.len(), 1);
}

/// A hash over paths, modes and bytes.
fn tree_hash(dir: &std::path::Path) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let line = |path: std::path::PathBuf| {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let bytes = std::fs::read(&path).unwrap();
        format!("{} {mode:o} {}", path.strip_prefix(dir).unwrap().display(), sha256(&bytes))
    };
    let mut lines: Vec<String> = files_below(dir).into_iter().map(line).collect();
    lines.sort();
    sha256(lines.join("\n").as_bytes())
}

#[test]
fn what_is_rendered_holds_no_provenance_and_no_version_of_kaws() {
    let run = rendered(std::path::Path::new("examples/ha/cluster.yaml"));
    for (path, artifact) in &run.rendered.artifacts {
        let text = String::from_utf8_lossy(&artifact.bytes);
        for word in ["plugin.yaml:", "src/builtin", "cluster.yaml:"] {
            assert!(!text.contains(word), "{path} holds {word}");
        }
    }
}

#[test]
fn user_data_fits_and_bundles_are_named_by_their_hash() {
    for (name, file) in examples() {
        let run = rendered(&file);
        for (path, artifact) in
            run.rendered.artifacts.iter().filter(|(p, _)| p.ends_with("/user-data"))
        {
            assert!(artifact.bytes.len() <= 16_384, "{name}: {path}");
            let text = String::from_utf8_lossy(&artifact.bytes);
            let hash =
                text.lines().find_map(|l| l.trim().strip_prefix("KAWS_BUNDLE_SHA256=")).unwrap();
            assert!(text.contains(&format!("/{hash}.tar.gz")), "{name}: {path}");
        }
    }
}

#[test]
fn help_and_version_end_well_and_a_wrong_command_line_with_64() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(kaws(dir.path(), &["--help"]).code, 0);
    assert_eq!(kaws(dir.path(), &["version"]).code, 0);
    assert_eq!(kaws(dir.path(), &["rendr"]).code, 64);
    assert_eq!(kaws(dir.path(), &["render"]).code, 3);
    assert_eq!(kaws(dir.path(), &["explain", "merge/conflict"]).code, 0);
}
