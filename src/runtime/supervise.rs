//! The supervisor of one program, a process of its own: `kaws __exec`. It has the program started (`enter`), watches it,
//! ends it when it goes too far, and then ends whatever the program has left behind.
//!
//! Not here: what the program is told and says, which goes past the supervisor; its sandbox and limits (`enter`).

#![expect(
    clippy::disallowed_methods,
    reason = "a process of its own: it reads its order, and watches the clock"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::enter::{Entering, start};
use super::folder::{report_file, stop_file};

/// How often the supervisor looks around.
const TICK: Duration = Duration::from_millis(5);
/// How long it tries to end what is left.
const ENDING: Duration = Duration::from_secs(5);

/// The longest order, in bytes.
const ORDER: u32 = 64 << 20;

/// What to run, and how far it may go.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// All that it sees of an environment.
    pub(super) environment: BTreeMap<String, String>,
    /// The plugin's folder: read, and run from.
    pub(super) folder: PathBuf,
    /// The call's own folder: the program's to write to.
    pub(super) work: PathBuf,
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
}

/// Why a program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stopped {
    Time,
    Processes,
    /// By kaws: it has said too much.
    Asked,
    /// By a signal to the supervisor.
    Signal,
    Orphaned,
}

/// Waits for an order on standard input, and carries it out; where none comes, there is nothing to do.
#[must_use]
pub fn main() -> ExitCode {
    // Nothing of it is anybody's to look at or to write to: its memory, what it has open, where its order comes from.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let mut length = [0; 4];
    let Ok(mut input) = std::io::stdin().as_fd().try_clone_to_owned().map(fs::File::from) else {
        return ExitCode::from(70);
    };
    if input.read_exact(&mut length).is_err() {
        return ExitCode::SUCCESS;
    }
    let Some(order) = receive(input, u32::from_le_bytes(length)) else { return ExitCode::from(64) };
    let report = supervise(&order);
    if report.stopped == Some(Stopped::Orphaned) {
        // Nobody else is there to do it, and nobody to read a report.
        for folder in [order.work.parent(), Some(&order.folder)].into_iter().flatten() {
            let _ = fs::remove_dir_all(folder);
        }
        return ExitCode::SUCCESS;
    }
    let text = serde_json::to_vec(&report).unwrap_or_default();
    if fs::write(report_file(&order.work), text).is_err() {
        ExitCode::from(70)
    } else {
        ExitCode::SUCCESS
    }
}

/// Reads an order and no more: what comes after it is the program's.
fn receive(mut input: fs::File, length: u32) -> Option<Order> {
    let mut text = vec![0; length.min(ORDER) as usize];
    input.read_exact(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn supervise(order: &Order) -> Report {
    let mut report = Report::default();
    // Whoever asks the supervisor to end means the program first.
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, Arc::clone(&asked_to_end));
    }
    // What the program starts, and does not wait for, becomes ours.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut watch = Watch::new(order);
    // Root is free of the limit of processes, and so has to see a storm in time; others may not be this bold.
    let bold = rustix::process::nice(-15).is_ok();
    let entering = Entering { nicer: if bold { 20 } else { 5 }, threads: watch.base };
    match start(order, entering) {
        Ok(child) => {
            watch.leave_group();
            watch.until_it_ends(child, &asked_to_end, &mut report);
        }
        Err(why) => report.start = Some(why),
    }
    if report.stopped.is_some() {
        // Before anybody counts: a storm multiplies meanwhile.
        watch.signal_group(Signal::KILL);
    }
    let left = watch.end_all();
    report.left = if report.stopped.is_none() { left } else { 0 };
    report
}

/// Sleeps for a while, and where this system tells of it no longer than the program runs.
#[cfg(target_os = "linux")]
fn sleep(child: &Child, most: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    let Ok(program) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return std::thread::sleep(most);
    };
    let most = Timespec::try_from(most).ok();
    let _ = poll(&mut [PollFd::new(&program, PollFlags::IN)], most.as_ref());
}

#[cfg(not(target_os = "linux"))]
fn sleep(_: &Child, most: Duration) {
    std::thread::sleep(most);
}

/// What the supervisor watches.
struct Watch<'a> {
    order: &'a Order,
    /// The program's own group of processes.
    group: Option<Pid>,
    /// How many threads this machine had before.
    base: u64,
    ticks: u32,
}

impl<'a> Watch<'a> {
    fn new(order: &'a Order) -> Self {
        Self { order, group: None, base: threads(), ticks: 0 }
    }

    /// Leaves the group of processes that kaws made for this call: from now on it is the program's own, and can be ended
    /// in one go. Nothing that the program starts gets out of it.
    fn leave_group(&mut self) {
        let own = rustix::process::getpid();
        let parent = Pid::from_raw(self.order.parent.cast_signed());
        let others = rustix::process::getpgid(parent);
        if others.and_then(|group| rustix::process::setpgid(None, Some(group))).is_ok() {
            self.group = Some(own);
        }
    }

    /// Waits until the program ends, or has to be ended.
    fn until_it_ends(&mut self, mut child: Child, asked_to_end: &AtomicBool, report: &mut Report) {
        let deadline = Instant::now() + Duration::from_millis(self.order.milliseconds);
        while report.stopped.is_none() {
            sleep(&child, TICK.min(deadline.saturating_duration_since(Instant::now())));
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    (report.code, report.signal) = (status.code(), status.signal());
                    return;
                }
                Err(_) => return,
            }
            let signalled = asked_to_end.load(Ordering::Relaxed).then_some(Stopped::Signal);
            report.stopped = signalled.or_else(|| self.too_far(deadline));
        }
    }

    /// Returns why the program is to be ended, if it is.
    fn too_far(&mut self, deadline: Instant) -> Option<Stopped> {
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        if parent.map(i32::unsigned_abs) != Some(self.order.parent) {
            return Some(Stopped::Orphaned);
        }
        if stop_file(&self.order.work).exists() {
            return Some(Stopped::Asked);
        }
        self.ticks += 1;
        if self.too_many() {
            return Some(Stopped::Processes);
        }
        (Instant::now() >= deadline).then_some(Stopped::Time)
    }

    /// Counts only when this machine has more threads than it could have without a storm, and now and then: whoever
    /// counts processes while they multiply never ends. So the program stands still meanwhile.
    fn too_many(&self) -> bool {
        let most = self.order.processes;
        if threads() <= self.base + most && !self.ticks.is_multiple_of(50) {
            return false;
        }
        self.signal_group(Signal::STOP);
        let many = counted(true).len() as u64 > most;
        self.signal_group(Signal::CONT);
        many
    }

    /// Sends a signal to the program's own group, all at once.
    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Ends everything below this process, and returns how many there were: also those that left the group, where a
    /// machine's sandbox lets them; they are stopped before they are killed, so that they start no others.
    fn end_all(&self) -> usize {
        let until = Instant::now() + ENDING;
        let mut seen = std::collections::BTreeSet::new();
        while Instant::now() < until && !reap() {
            let all = descendants();
            seen.extend(all.iter().copied());
            self.signal_group(Signal::KILL);
            for signal in [Signal::STOP, Signal::KILL] {
                for pid in all.iter().filter_map(|pid| Pid::from_raw(*pid)) {
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        seen.len()
    }
}

/// Returns how many threads this machine has; zero where that is not told.
fn threads() -> u64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let field = text.split_whitespace().nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

/// Takes notice of children that have ended; returns whether there are none any more.
///
/// When the program was stopped, its exit code says nothing, and is lost here.
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
    counted(false)
}

/// Returns all processes below this one, those that have ended and were not waited for among them or not.
#[cfg(target_os = "linux")]
fn counted(ended: bool) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, parent) in processes(ended) {
        children.entry(parent).or_default().push(pid);
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

#[cfg(not(target_os = "linux"))]
fn counted(_: bool) -> Vec<i32> {
    Vec::new()
}

/// Ends a supervisor that does not end.
pub(super) fn kill(process: u32) {
    if let Some(process) = Pid::from_raw(process.cast_signed()) {
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}

/// Ends what is left of a program whose supervisor is gone.
pub(super) fn end_group(leader: u32) {
    if let Some(group) = Pid::from_raw(leader.cast_signed()) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

/// Returns the processes of this machine with their parents.
#[cfg(target_os = "linux")]
fn processes(with_ended: bool) -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let one = |entry: fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name may hold anything, brackets too; the fields follow its last one.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let ended = fields.next()? == "Z";
        let parent = fields.next()?.parse().ok()?;
        (with_ended || !ended).then_some((pid, parent))
    };
    entries.flatten().filter_map(one).collect()
}
