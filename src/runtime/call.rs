//! One call: a program is started under its supervisor, told, heard, and gone.

#![expect(
    clippy::disallowed_methods,
    reason = "programs are started here, and have files of their own"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::find::find;
use super::folder::{Place, report_file, stop_file};
use super::supervise::{Order, Report, Stopped};
use super::{Failure, Runtime};
use crate::finding::{Finding, Findings, plain};
use crate::plugin::Package;
use crate::plugin::contract::Response;
use crate::plugin::program::Command;

/// How much of a log is kept, in bytes: its end.
const LOG: usize = 256 * 1024;
/// How many lines of a log stand in a finding.
const LINES: usize = 12;
/// How much longer than the program its supervisor may take.
const GRACE: Duration = Duration::from_secs(15);
/// The largest file that a program may write, in MiB.
const FILE: u64 = 256;

/// What is run, and what it is told.
#[derive(Debug)]
pub struct Call<'a> {
    /// The plugin.
    pub package: &'a Package,
    /// The program.
    pub command: Command,
    /// What stands on its standard input.
    pub input: &'a [u8],
    /// Its environment, beside what every program has.
    pub environment: BTreeMap<String, String>,
    /// What it may reach.
    pub rights: Rights,
}

/// What a program may reach beside its own folder and the system's programs.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Ports it may connect to.
    pub ports: Vec<u16>,
    /// Files and folders it may read.
    pub reads: Vec<PathBuf>,
    /// Variables of the user's environment that it sees.
    pub env: Vec<String>,
    /// Secrets whose values it is told: they must not come back.
    pub secrets: BTreeMap<String, String>,
}

impl Rights {
    /// Returns no rights at all: those of initialise and render.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
}

/// What a program said.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its answer: the file that `KAWS_RESULT` names, or its standard output.
    pub answer: Vec<u8>,
    /// The end of its log.
    pub log: String,
    /// How many of its processes were still there when it had ended.
    pub left: usize,
    /// The parts of the sandbox that this machine does not have.
    pub without: Vec<String>,
}

impl Ran {
    /// Returns the answer, read.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn response(&self) -> Result<Response, Box<Failure>> {
        Response::read(&self.answer).map_err(|wrong| {
            let text = String::from_utf8_lossy(&self.answer);
            let shown = |c: char| if c.is_control() { ' ' } else { c };
            let begins: String = text.trim_start().chars().take(60).map(shown).collect();
            Box::new(Failure::Answer {
                what: wrong.0,
                begins: begins.trim().to_owned(),
                says: last_lines(&self.log),
            })
        })
    }

    /// Returns what there is to say although all went well, at the place that names the program.
    pub(super) fn notes(&self) -> Findings {
        let mut findings = Findings::new();
        if self.left > 0 {
            let text =
                format!("the program left {} running, which kaws ended", processes(self.left));
            let finding = Finding::warning("exec/left", text);
            findings.push(finding.help("wait for them before it ends"));
        }
        findings
    }
}

fn processes(n: usize) -> String {
    if n == 1 { "1 process".to_owned() } else { format!("{n} processes") }
}

impl Runtime {
    /// Runs a program to its end.
    ///
    /// # Errors
    /// Every way in which there is no answer; nothing of it is running then.
    pub fn run(&self, call: &Call<'_>) -> Result<Ran, Box<Failure>> {
        self.run_to_its_end(call).map_err(Box::new)
    }

    fn run_to_its_end(&self, call: &Call<'_>) -> Result<Ran, Failure> {
        let folder = self.folder(call.package)?;
        let found = find(&call.command, call.package, folder.path(), &self.host)?;
        let place = Place::new(self.places()?)?;
        let work = &place.work;
        let limits = &call.package.manifest.limits;
        let order = Order {
            program: found.program,
            arguments: call.command.arguments.clone(),
            environment: self.environment(call, work),
            folder: folder.path().to_owned(),
            work: work.clone(),
            reads: found.reads.into_iter().chain(call.rights.reads.iter().cloned()).collect(),
            ports: call.rights.ports.clone(),
            milliseconds: limits.milliseconds(),
            memory: limits.memory << 20,
            file: FILE << 20,
            processes: limits.processes,
            parent: std::process::id(),
        };
        let mut child = self.spare.order(&self.host.supervisor, &order)?;
        let most = (limits.output << 20) as usize;
        let too_much = || fs::write(stop_file(work), "output");
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let longest = Duration::from_millis(order.milliseconds) + GRACE;
        let (spoken, supervisor) = std::thread::scope(|scope| {
            // When the supervisor is gone, or does nothing, what it watched over must not keep the pipes open.
            let watched = scope.spawn(|| outlived(&mut child, longest));
            scope.spawn(|| self.spare.refill(&self.host.supervisor));
            let spoken = talk(pipes, call.input, most, &too_much);
            (spoken, watched.join())
        });
        let (output, log) = spoken?;
        let supervisor = supervisor.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let report = fs::read(report_file(work)).ok();
        let report: Option<Report> = report.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(report) = report else {
            let how = supervisor.signal().map_or_else(String::new, |s| format!(" by signal {s}"));
            let says = last_lines(&log);
            return Err(Failure::Ended { how: format!("its supervisor was ended{how}"), says });
        };
        judged(&report, output, log, call, work)
    }

    fn environment(&self, call: &Call<'_>, work: &Path) -> BTreeMap<String, String> {
        let path: Vec<String> =
            self.host.path.iter().map(|dir| dir.to_string_lossy().into_owned()).collect();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut all = BTreeMap::from([
            ("HOME".to_owned(), text(work)),
            ("KAWS_PATH".to_owned(), text(&self.host.supervisor)),
            ("KAWS_RESULT".to_owned(), text(&work.join("result.json"))),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("PATH".to_owned(), path.join(":")),
            ("TMPDIR".to_owned(), text(work)),
            ("TZ".to_owned(), "UTC".to_owned()),
        ]);
        all.extend(call.environment.clone());
        all
    }
}

/// What of the sandbox this machine does not have.
#[cfg(target_os = "linux")]
fn without() -> Vec<String> {
    super::sandbox::missing().to_vec()
}

#[cfg(not(target_os = "linux"))]
fn without() -> Vec<String> {
    vec!["a sandbox".to_owned()]
}

/// Waits for the supervisor, and then ends what is left of the program's group: nothing, unless the supervisor was ended
/// itself, or does not end.
fn outlived(child: &mut Child, longest: Duration) -> std::io::Result<ExitStatus> {
    let (over, waiting) = std::sync::mpsc::channel::<()>();
    let supervisor = child.id();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Until it was waited for, the number is nobody else's.
            if waiting.recv_timeout(longest) == Err(RecvTimeoutError::Timeout) {
                super::supervise::kill(supervisor);
            }
        });
        let status = child.wait();
        drop(over);
        super::supervise::end_group(supervisor);
        status
    })
}

/// Writes the input and reads all that is said; over `most` bytes of output the program is stopped.
fn talk(
    pipes: (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>),
    input: &[u8],
    most: usize,
    too_much: &(dyn Fn() -> std::io::Result<()> + Sync),
) -> std::io::Result<(Vec<u8>, String)> {
    let (Some(mut to), Some(from), Some(errors)) = pipes else {
        return Err(std::io::Error::other("a pipe is missing"));
    };
    std::thread::scope(|scope| {
        // Who does not read its input closes it, and that is no mistake.
        scope.spawn(move || to.write_all(input));
        let log = scope.spawn(|| last_of(errors));
        let output = at_most(from, most, too_much)?;
        let log = log.join().unwrap_or_default();
        Ok((output, String::from_utf8_lossy(&log).into_owned()))
    })
}

fn at_most(
    mut from: impl Read,
    most: usize,
    too_much: &dyn Fn() -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    from.by_ref().take(most as u64 + 1).read_to_end(&mut all)?;
    if all.len() > most {
        too_much()?;
        std::io::copy(&mut from, &mut std::io::sink())?;
    }
    Ok(all)
}

/// Reads to the end and keeps the last of it.
fn last_of(mut from: impl Read) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut piece) {
        if read == 0 {
            break;
        }
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > 2 * LOG {
            kept.drain(..kept.len() - LOG);
        }
    }
    kept.split_off(kept.len().saturating_sub(LOG))
}

fn last_lines(log: &str) -> Vec<String> {
    let lines: Vec<String> = log.lines().filter(|l| !l.trim().is_empty()).map(logged).collect();
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

/// Returns a line of a log: plain, or the message and level of a JSON line. Nothing in it reaches the terminal's
/// controls.
fn logged(line: &str) -> String {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default)]
        level: String,
        #[serde(alias = "msg")]
        message: String,
    }
    let text = match serde_json::from_str::<Line>(line) {
        Ok(line) if line.level.is_empty() => line.message,
        Ok(line) => format!("{}: {}", line.level, line.message),
        Err(_) => line.to_owned(),
    };
    plain(&text).chars().take(400).collect()
}

/// Returns what a call comes to.
fn judged(
    report: &Report,
    output: Vec<u8>,
    log: String,
    call: &Call<'_>,
    work: &Path,
) -> Result<Ran, Failure> {
    let limits = &call.package.manifest.limits;
    leaks(&call.rights.secrets, "log", log.as_bytes())?;
    leaks(&call.rights.secrets, "answer", &output)?;
    let most = (limits.output << 20) as usize;
    // Also of one that failed: what it wrote there is told.
    if let Ok(Some(written)) = result(work, most) {
        leaks(&call.rights.secrets, "result", &written)?;
    }
    let says = last_lines(&log);
    if let Some(why) = &report.start {
        return Err(Failure::Start(why.clone()));
    }
    let limit = |what: String, key: &str, value: &str| {
        let help =
            format!("if it needs more, its manifest says so:\n\n    limits: {{{key}: {value}}}");
        Err(Failure::Limit { what, help, says: says.clone() })
    };
    if output.len() > most {
        let what = format!("it said over {} MiB, and was ended", limits.output);
        return limit(what, "output", &(limits.output * 2).min(256).to_string());
    }
    match report.stopped {
        Some(Stopped::Time) => {
            let what = format!("it had no answer after {}, and was ended", limits.timeout);
            let more = if limits.milliseconds() < 120_000 { "2m" } else { "30m" };
            return limit(what, "timeout", more);
        }
        Some(Stopped::Processes) => {
            let what =
                format!("it had over {}, and was ended", processes(limits.processes as usize));
            return limit(what, "processes", &(limits.processes * 2).min(1_024).to_string());
        }
        Some(Stopped::Asked | Stopped::Signal | Stopped::Orphaned) => {
            return Err(Failure::Ended { how: "kaws was asked to end".to_owned(), says });
        }
        None => {}
    }
    let document = || {
        let written = result(work, most).ok().flatten();
        said_error(&output).or_else(|| said_error(&written?))
    };
    let ended = |how: String| {
        let says = document().unwrap_or_else(|| says.clone());
        Err(Failure::Ended { how, says })
    };
    match (report.code, report.signal) {
        (Some(0), _) => {}
        (Some(code), _) => return ended(format!("it ended with the exit code {code}")),
        (None, Some(signal)) => {
            return ended(format!("it was killed by signal {signal}{}", signal_name(signal)));
        }
        (None, None) => return ended("it ended".to_owned()),
    }
    let answer = result(work, most)?.unwrap_or(output);
    Ok(Ran { answer, log, left: report.left, without: without() })
}

/// Returns what a program wrote into its result file; that must be a file of its own, and no link to another.
fn result(work: &Path, most: usize) -> Result<Option<Vec<u8>>, Failure> {
    let path = work.join("result.json");
    let wrong = |what: &str| {
        let (what, begins) = (format!("its result file {what}"), String::new());
        Err(Failure::Answer { what, begins, says: Vec::new() })
    };
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !metadata.is_file() {
        return wrong("is no plain file");
    }
    if metadata.len() > most as u64 {
        return wrong("is too large");
    }
    Ok(Some(fs::read(&path)?))
}

/// Returns the error document that a program which failed may print: `{"code": …, "msg": …, "details": …}`.
fn said_error(output: &[u8]) -> Option<Vec<String>> {
    let value: Value = serde_json::from_slice(output).ok()?;
    let text =
        |key: &str| value.get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
    let message = text("msg").or_else(|| text("message"))?;
    let head = text("code").map_or_else(|| message.clone(), |code| format!("{code}: {message}"));
    let details = text("details").unwrap_or_default();
    let lines = head.lines().chain(details.lines()).map(logged);
    Some(lines.take(LINES).collect())
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (ILL)",
        6 => " (ABRT)",
        7 => " (BUS)",
        8 => " (FPE)",
        9 => " (KILL)",
        11 => " (SEGV)",
        13 => " (PIPE)",
        15 => " (TERM)",
        24 => " (XCPU)",
        25 => " (XFSZ)",
        31 => " (SYS)",
        _ => "",
    }
}

/// Looks for the value of a secret in what a program said, as it is and in the forms it may have been put into.
fn leaks(
    secrets: &BTreeMap<String, String>,
    place: &'static str,
    bytes: &[u8],
) -> Result<(), Failure> {
    for (name, value) in secrets {
        if super::leak::holds(bytes, value) {
            return Err(Failure::Leak { secret: name.clone(), place });
        }
    }
    Ok(())
}
