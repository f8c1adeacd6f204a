//! A run that is stopped at any of its write points leaves a tree that matches its manifest, or is
//! refused; the next one repairs it; files of others stay.

use std::path::{Path, PathBuf};

use kaws::emit::{self, Error};
use kaws::run::Run;

use crate::support::{Cluster, files_below};

fn write(out: &Path, run: &Run) -> Result<emit::Written, Error> {
    emit::write(out, &run.rendered.artifacts, &run.manifest, &mut |_| true)
}

fn leftovers(out: &Path) -> Vec<PathBuf> {
    let left = |path: &PathBuf| {
        path.to_string_lossy().contains("kaws-aside") || path.ends_with(".journal.yaml")
    };
    files_below(out).into_iter().filter(left).collect()
}

#[test]
fn a_run_stopped_at_any_point_is_repaired_by_the_next() {
    let before = Cluster::small("").render();
    let changed =
        Cluster::small("tags: {team: other}\nplugins: {coredns: {enabled: false}}\n").render();
    let points = {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &before).unwrap();
        let mut points = 0;
        emit::write(dir.path(), &changed.rendered.artifacts, &changed.manifest, &mut |_| {
            points += 1;
            true
        })
        .unwrap();
        points
    };
    assert!(points > 12, "{points}");
    for stop in 0..points {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &before).unwrap();
        std::fs::write(dir.path().join("stacks/mine.txt"), "mine").unwrap();
        let mut at = 0;
        let result =
            emit::write(dir.path(), &changed.rendered.artifacts, &changed.manifest, &mut |_| {
                at += 1;
                at <= stop
            });
        assert!(matches!(result, Err(Error::Stopped { .. })), "{stop}");
        // Either nothing was touched yet, or the tree is refused.
        let untouched = emit::check(dir.path(), &before.rendered.artifacts, &before.manifest)
            .unwrap()
            .is_same();
        assert!(untouched || !emit::is_intact(dir.path()).unwrap(), "{stop}");
        write(dir.path(), &changed).unwrap();
        assert!(emit::is_intact(dir.path()).unwrap(), "{stop}");
        assert!(
            emit::check(dir.path(), &changed.rendered.artifacts, &changed.manifest)
                .unwrap()
                .is_same(),
            "{stop}"
        );
        assert_eq!(leftovers(dir.path()), Vec::<PathBuf>::new(), "{stop}");
        assert!(!dir.path().join("helm/coredns").exists(), "{stop}");
        assert_eq!(std::fs::read_to_string(dir.path().join("stacks/mine.txt")).unwrap(), "mine");
    }
}

#[test]
fn the_first_run_too_can_be_stopped_anywhere() {
    let run = Cluster::small("").render();
    for stop in [0, 1, 2, 3, 40, 41] {
        let dir = tempfile::tempdir().unwrap();
        let mut at = 0;
        let result = emit::write(dir.path(), &run.rendered.artifacts, &run.manifest, &mut |_| {
            at += 1;
            at <= stop
        });
        assert!(result.is_err());
        // A file may have been written in part when the run was killed.
        for path in files_below(dir.path()).iter().filter(|path| !path.ends_with(".journal.yaml")) {
            let bytes = std::fs::read(path).unwrap();
            std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }
        assert!(!emit::is_intact(dir.path()).unwrap());
        write(dir.path(), &run).unwrap();
        assert!(emit::is_intact(dir.path()).unwrap());
        assert_eq!(leftovers(dir.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_file_of_somebody_elses_stops_the_run_before_anything_is_written() {
    let cluster = Cluster::small("");
    cluster.file("rendered/stacks/network.yaml", "mine");
    let output = cluster.kaws(&["render"]);
    assert_eq!(output.code, 3);
    assert!(output.err.contains("kaws did not write it"), "{}", output.err);
    assert_eq!(std::fs::read_dir(cluster.path().join("rendered")).unwrap().count(), 1);
}

#[test]
fn check_says_what_differs_and_writes_nothing() {
    let cluster = Cluster::small("");
    assert_eq!(cluster.kaws(&["render", "--check"]).code, 2);
    assert!(!cluster.path().join("rendered").exists());
    assert_eq!(cluster.kaws(&["render"]).code, 0);
    assert_eq!(cluster.kaws(&["render", "--check"]).code, 0);
    let again = cluster.kaws(&["render"]);
    assert!(again.out.contains("0 changed, 0 new, 0 gone"), "{}", again.out);
    cluster.file("rendered/stacks/network.yaml", "changed by hand");
    let output = cluster.kaws(&["render", "--check"]);
    assert_eq!(output.code, 2);
    assert!(output.out.contains("~ stacks/network.yaml"), "{}", output.out);
    assert_eq!(cluster.kaws(&["render"]).code, 0);
    assert_eq!(cluster.kaws(&["render", "--check"]).code, 0);
}

#[test]
fn a_manifest_cannot_make_kaws_remove_files_elsewhere() {
    let cluster = Cluster::small("");
    cluster.file("precious", "x");
    cluster.file("rendered/manifest.yaml", "files: {../precious: abc, /etc/hostname: abc}\n");
    assert_eq!(cluster.kaws(&["render"]).code, 0);
    assert!(cluster.path().join("precious").exists());
}
