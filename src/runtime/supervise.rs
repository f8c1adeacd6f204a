//! The supervisor of one program, a process of its own: `kaws __exec`. It starts the program with its limits and in its
//! sandbox, watches it, ends it when it goes too far, and then ends whatever the program has left behind.
//!
//! Not here: what the program is told and says; that goes past the supervisor.

#![expect(
    clippy::disallowed_methods,
    reason = "a process of its own: it reads its order, watches the clock and starts the program"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

/// The environment variable that holds the order.
pub(super) const ORDER: &str = "KAWS_SUPERVISE";
/// How often the supervisor looks around.
const TICK: Duration = Duration::from_millis(20);
/// How long it tries to end what is left.
const ENDING: Duration = Duration::from_secs(5);

/// What to run, and how far it may go.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The plugin's folder: read, and run from.
    pub(super) folder: PathBuf,
    /// The call's own folder; `work` in it is the program's to write to.
    pub(super) place: PathBuf,
    pub(super) reads: Vec<PathBuf>,
    pub(super) ports: Vec<u16>,
    pub(super) milliseconds: u64,
    /// In bytes.
    pub(super) memory: u64,
    /// The largest file, in bytes.
    pub(super) file: u64,
    pub(super) processes: u64,
    /// Who asked: when it is gone, so is the program.
    pub(super) parent: u32,
}

impl Order {
    pub(super) fn report_file(&self) -> PathBuf {
        self.place.join("report.json")
    }

    /// When this is there, the program is to be stopped.
    pub(super) fn stop_file(&self) -> PathBuf {
        self.place.join("stop")
    }

    pub(super) fn work(&self) -> PathBuf {
        self.place.join("work")
    }
}

/// How it went.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// Why it was stopped, if it was.
    pub(super) stopped: Option<Stopped>,
    /// How many processes it left behind.
    pub(super) left: usize,
    /// Why it could not be started.
    pub(super) start: Option<String>,
    /// What of the sandbox this machine does not have.
    pub(super) without: Vec<String>,
}

/// Why a program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stopped {
    Time,
    Processes,
    Asked,
    Orphaned,
}

/// Runs the order that the environment holds.
#[must_use]
pub fn main() -> ExitCode {
    let order = std::env::var(ORDER).ok().and_then(|text| serde_json::from_str(&text).ok());
    let Some(order) = order else { return ExitCode::from(64) };
    let report = supervise(&order);
    let text = serde_json::to_vec(&report).unwrap_or_default();
    if fs::write(order.report_file(), text).is_err() { ExitCode::from(70) } else { ExitCode::SUCCESS }
}

fn supervise(order: &Order) -> Report {
    let mut report = Report::default();
    // A session of its own: no terminal, no signals of the user's keys; what the program starts stays ours.
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    set_limits(order);
    let (tell, told) = channel();
    let mut group = None;
    std::thread::scope(|scope| {
        // The sandbox is a thread's, and its children's: the supervisor's own thread stays outside.
        scope.spawn(|| run(order, &tell));
        let deadline = Instant::now() + Duration::from_millis(order.milliseconds);
        loop {
            match told.recv_timeout(TICK.min(deadline.saturating_duration_since(Instant::now()))) {
                Ok(Told::Without(parts)) => report.without = parts,
                Ok(Told::Started(pid)) => group = Pid::from_raw(pid.cast_signed()),
                Ok(Told::NotStarted(why)) => {
                    report.start = Some(why).filter(|_| report.stopped.is_none());
                    break;
                }
                Ok(Told::Ended(status)) => {
                    (report.code, report.signal) = (status.code(), status.signal());
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    report.stopped = report.stopped.or_else(|| too_far(order, deadline));
                    if report.stopped.is_some() {
                        end_all(group);
                    }
                }
            }
        }
    });
    let left = end_all(group);
    report.left = if report.stopped.is_none() { left } else { 0 };
    report
}

enum Told {
    Without(Vec<String>),
    Started(u32),
    NotStarted(String),
    Ended(ExitStatus),
}

fn run(order: &Order, tell: &Sender<Told>) {
    let say = |told| {
        let _ = tell.send(told);
    };
    #[cfg(target_os = "linux")]
    match super::sandbox::enter(order) {
        Ok(without) => say(Told::Without(without)),
        Err(why) => return say(Told::NotStarted(why)),
    }
    #[cfg(not(target_os = "linux"))]
    say(Told::Without(vec!["a sandbox".to_owned()]));
    let started = Command::new(&order.program)
        .args(&order.arguments)
        .current_dir(&order.folder)
        .env_remove(ORDER)
        .process_group(0)
        .spawn();
    let ended = started.and_then(|mut child| {
        say(Told::Started(child.id()));
        child.wait()
    });
    match ended {
        Ok(status) => say(Told::Ended(status)),
        Err(error) => {
            let hint = match error.raw_os_error() {
                Some(8) => ": it is no program for this machine, or a script without `#!` in its first line",
                Some(13) => ": the folder of temporary files may not run programs; TMPDIR names another",
                _ => "",
            };
            say(Told::NotStarted(format!("{error}{hint}")));
        }
    }
}

fn set_limits(order: &Order) {
    let limits = [
        (Resource::Core, 0),
        (Resource::Data, order.memory),
        (Resource::Fsize, order.file),
        (Resource::Nofile, 1_024),
    ];
    for (resource, limit) in limits {
        let most = rustix::process::getrlimit(resource).maximum;
        let limit = Some(most.map_or(limit, |most| most.min(limit)));
        let _ = rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit });
    }
}

fn too_far(order: &Order, deadline: Instant) -> Option<Stopped> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(order.parent) {
        return Some(Stopped::Orphaned);
    }
    if order.stop_file().exists() {
        return Some(Stopped::Asked);
    }
    if descendants().len() as u64 > order.processes {
        return Some(Stopped::Processes);
    }
    (Instant::now() >= deadline).then_some(Stopped::Time)
}

/// Ends everything below this process, and returns how many there were.
///
/// First the program's own group, in one go, so that a storm of new processes ends; then, as long as there are any,
/// those that left the group: stopped before they are killed, so that they start no others.
fn end_all(group: Option<Pid>) -> usize {
    let until = Instant::now() + ENDING;
    let mut seen = std::collections::BTreeSet::new();
    while Instant::now() < until && !reap() {
        let all = descendants();
        seen.extend(all.iter().copied());
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in all.iter().filter_map(|pid| Pid::from_raw(*pid)) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    seen.len()
}

/// Takes notice of children that have ended; returns whether there are none any more.
///
/// The program itself is waited for by its own thread; when it was stopped, its exit code says nothing, and may be lost
/// here.
fn reap() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Returns all processes below this one.
#[cfg(target_os = "linux")]
fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, stat) in processes() {
        children.entry(stat.parent).or_default().push(pid);
    }
    let mut all = Vec::new();
    let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        all.extend_from_slice(&below);
        open.extend(below);
    }
    all
}

#[cfg(not(target_os = "linux"))]
fn descendants() -> Vec<i32> {
    Vec::new()
}

/// Ends what is left of a session whose supervisor is gone.
pub(super) fn end_session(leader: u32) {
    for (pid, stat) in processes() {
        if stat.session.unsigned_abs() == leader
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

struct Stat {
    parent: i32,
    session: i32,
}

/// Returns the processes of this machine, but for those that have ended.
fn processes() -> Vec<(i32, Stat)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let one = |entry: fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name may hold anything, brackets too; the fields follow its last one.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        (state != "Z").then_some((pid, Stat { parent, session }))
    };
    entries.flatten().filter_map(one).collect()
}
