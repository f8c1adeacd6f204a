//! The corpus of bad inputs: each gets a located message and the right exit code; nothing panics, nothing
//! is half written.

use std::path::Path;

use crate::support::{Cluster, MINIMAL, Output, expect_file, kaws};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, target).unwrap();
        }
    }
}

fn check(name: &str, output: &Output) {
    assert!([1, 3, 0].contains(&output.code), "{name}: exit {}\n{}", output.code, output.err);
    assert!(!output.err.contains("panicked"), "{name} panics:\n{}", output.err);
    assert!(!output.err.contains("a bug in kaws"), "{name}:\n{}", output.err);
}

#[test]
fn each_of_the_corpus_is_told_where_and_what() {
    let corpus = Path::new("tests/bad");
    let mut names: Vec<String> = std::fs::read_dir(corpus)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().is_dir())
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 80, "{}", names.len());
    let reports: Vec<(String, Output, bool)> = std::thread::scope(|scope| {
        let run = |part: Vec<String>| {
            scope.spawn(move || {
                let one = |name: String| {
                    let dir = tempfile::tempdir().unwrap();
                    copy(&corpus.join(&name), dir.path());
                    let _ = std::fs::remove_file(dir.path().join("expected.txt"));
                    let output = kaws(dir.path(), &["render"]);
                    let written = dir.path().join("rendered").exists();
                    (name, output, written)
                };
                part.into_iter().map(one).collect::<Vec<_>>()
            })
        };
        let half = names.split_off(names.len() / 2);
        let (a, b) = (run(names), run(half));
        let mut all = a.join().unwrap();
        all.extend(b.join().unwrap());
        all
    });
    for (name, output, written) in reports {
        check(&name, &output);
        if name.starts_with("warns-") {
            assert_eq!(output.code, 0, "{name}:\n{}", output.err);
        } else {
            assert_ne!(output.code, 0, "{name} is accepted");
        }
        assert_eq!(written, output.code == 0, "{name}: files are written only when all is well");
        // A finding names its place; an error its file.
        let located = output.err.contains("-->")
            || output.err.contains(" at ")
            || output.code == 3
            || output.err.contains("cluster.yaml");
        assert!(located, "{name} has no place:\n{}", output.err);
        // What a run that is fine prints of its files is no matter of this test.
        let out = if output.code == 0 { String::new() } else { output.out };
        let output = Output { out, ..output };
        expect_file(
            &corpus.join(&name).join("expected.txt"),
            &format!(
                "{}
",
                output.all()
            ),
        );
    }
}

#[test]
fn a_hundred_megabytes_are_refused_at_once() {
    let cluster = Cluster::new("");
    let file = std::fs::File::create(cluster.path().join("cluster.yaml")).unwrap();
    file.set_len(100 * 1024 * 1024).unwrap();
    let output = cluster.kaws(&["render"]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("yaml/too-large"), "{}", output.err);
}

#[test]
fn links_that_lead_out_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    let cluster = Cluster::small("plugins: {mine: {settings: {ca: link}}}\n");
    cluster.plugin(
        "mine",
        "settings: {properties: {ca: {type: string, format: file}}}\ninitialise: {}\n",
    );
    std::os::unix::fs::symlink(outside.path().join("secret"), cluster.path().join("link")).unwrap();
    assert!(cluster.fatal().contains("config/file"));
    let cluster = Cluster::small("plugins: {mine: {}}\n");
    cluster.plugin("mine", "initialise: {}\n");
    std::fs::create_dir_all(cluster.path().join("plugins/mine/files")).unwrap();
    std::os::unix::fs::symlink(
        outside.path().join("secret"),
        cluster.path().join("plugins/mine/files/x"),
    )
    .unwrap();
    assert!(cluster.fatal().contains("leads out of the plugin's folder"));
}

#[test]
fn what_cannot_be_read_is_an_error_of_files() {
    let cluster = Cluster::new(MINIMAL);
    std::fs::remove_file(cluster.path().join("cluster.yaml")).unwrap();
    std::fs::create_dir(cluster.path().join("cluster.yaml")).unwrap();
    let output = cluster.kaws(&["render"]);
    assert_eq!(output.code, 3);
    assert!(output.err.contains("cluster.yaml"), "{}", output.err);
    assert_eq!(cluster.kaws(&["render", "--plugin-dir", "nowhere"]).code, 3);
}
