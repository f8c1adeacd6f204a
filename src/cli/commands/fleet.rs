//! One command over many clusters' files: several at once, one summary, one exit code.
//!
//! At once each cluster has a process of its own: what one of them is told, keeps or breaks is none of the others'.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use serde_json::json;

use super::Exit;
use crate::cli::deploying::runtime;
use crate::cli::report::{say, say_line};
use crate::cli::{Common, Output};

/// Runs a command for every file, `at_once` at a time, or one after the other where nothing is said; the gravest exit
/// code counts, and an interruption ends it.
pub(super) fn each(common: &Common, at_once: Option<usize>, run: impl Fn(&Common) -> Exit) -> Exit {
    if common.file.len() < 2 {
        return run(common);
    }
    let ended = match at_once {
        Some(at_once) => side_by_side(common, at_once.max(1)),
        None => one_by_one(common, run),
    };
    summary(common, &ended);
    ended.into_iter().fold(Exit::Done, |worst, (_, exit)| worst.worse(exit))
}

fn one_by_one(common: &Common, run: impl Fn(&Common) -> Exit) -> Vec<(PathBuf, Exit)> {
    let mut ended = Vec::new();
    for file in &common.file {
        head(common, file, ended.is_empty());
        let exit = run(&Common { file: vec![file.clone()], ..common.clone() });
        ended.push((file.clone(), exit));
        if exit == Exit::Interrupted {
            break;
        }
    }
    ended
}

fn head(common: &Common, file: &Path, first: bool) {
    if common.output == Output::Text {
        let gap = if first { "" } else { "\n" };
        say(&format!("{gap}== {}", file.display()));
    }
}

/// What became of one cluster.
struct Done {
    at: usize,
    exit: Exit,
    out: Vec<u8>,
    err: Vec<u8>,
}

/// Runs this program for each file; what they print comes whole, in the order of the files.
fn side_by_side(common: &Common, at_once: usize) -> Vec<(PathBuf, Exit)> {
    let next = AtomicUsize::new(0);
    let stop = stopping();
    let (tell, told) = mpsc::channel::<Done>();
    let mut ended = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(common.file.len()) {
            let tell = tell.clone();
            let (next, stop) = (&next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = common.file.get(at) else { break };
                    let _ = tell.send(child(at, file));
                }
            });
        }
        drop(tell);
        let mut waiting: Vec<Done> = Vec::new();
        for done in told {
            waiting.push(done);
            while let Some(at) = waiting.iter().position(|done| done.at == ended.len()) {
                let done = waiting.swap_remove(at);
                let file = &common.file[done.at];
                head(common, file, ended.is_empty());
                say_bytes(&done);
                ended.push((file.clone(), done.exit));
            }
        }
    });
    ended
}

/// Returns what becomes true with the first Ctrl-C. It reaches every process of the terminal: those under way finish.
fn stopping() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stop);
    std::thread::spawn(move || {
        runtime().block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                heard.store(true, Ordering::Relaxed);
            }
        });
    });
    stop
}

#[expect(clippy::disallowed_methods, reason = "each cluster has a process of its own")]
fn child(at: usize, file: &Path) -> Done {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("kaws"));
    let words = without_files(std::env::args_os().skip(1));
    let mut command = std::process::Command::new(program);
    command.args(words).arg("--file").arg(file).stdin(std::process::Stdio::null());
    match command.output() {
        Ok(output) => {
            // Whoever was ended by a signal has no code.
            let exit = output.status.code();
            let exit = exit.map_or(Exit::Interrupted, |code| Exit::of(code).unwrap_or(Exit::Bug));
            Done { at, exit, out: output.stdout, err: output.stderr }
        }
        Err(error) => {
            let err = format!("error: kaws cannot be run: {error}\n").into_bytes();
            Done { at, exit: Exit::Files, out: Vec::new(), err }
        }
    }
}

/// Leaves out which files are meant: `-f FILE`, `-fFILE`, `--file FILE`, `--file=FILE`.
fn without_files(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut value = false;
    for word in words {
        let text = word.to_string_lossy();
        if std::mem::take(&mut value) {
            continue;
        }
        if text == "-f" || text == "--file" {
            value = true;
        } else if !(text.starts_with("--file=") || text.starts_with("-f")) {
            kept.push(word);
        }
    }
    kept
}

fn say_bytes(done: &Done) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let (out, err) = (text(&done.out), text(&done.err));
    if !out.is_empty() {
        say(&out);
    }
    if !err.is_empty() {
        say_line(&err);
    }
}

fn summary(common: &Common, ended: &[(PathBuf, Exit)]) {
    let is_bad = |exit: Exit| !matches!(exit, Exit::Done | Exit::Differences);
    let bad: Vec<&(PathBuf, Exit)> = ended.iter().filter(|(_, exit)| is_bad(*exit)).collect();
    let count = common.file.len();
    if common.output == Output::Json {
        let row = |(file, exit): &(PathBuf, Exit)| json!({"file": file, "exit": exit.code()});
        let rows: Vec<_> = ended.iter().map(row).collect();
        say(&json!({"clusters": count, "ended": rows}).to_string());
        return;
    }
    let done = ended.len() - bad.len();
    say(&format!("\n{count} clusters: {done} done, {} not", count - done));
    for (file, exit) in bad {
        say(&format!("  {}  exit {}", file.display(), exit.code()));
    }
    for file in common.file.iter().skip(ended.len()) {
        say(&format!("  {}  not begun", file.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_files_are_meant_is_left_out_in_every_spelling() {
        let words =
            ["plan", "-f", "a", "--drift", "-fb", "--file", "c", "--file=d", "--output", "json"];
        let kept = without_files(words.iter().map(OsString::from));
        assert_eq!(kept, ["plan", "--drift", "--output", "json"]);
    }
}
