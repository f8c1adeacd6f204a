//! How a program is started: by a thread that takes the limits, enters the sandbox, and ends as soon as the program is
//! there.
//!
//! On Linux the sandbox, rights and priority are a thread's own, and go on to what it starts: the rest of the supervisor
//! stays outside. The limits are the whole supervisor's, and do it no harm; that of memory would, and is taken back.

#![expect(clippy::disallowed_methods, reason = "programs are started here")]

use std::process::{Child, Command};

use rustix::process::{Resource, Rlimit};

use super::supervise::Order;

/// How the thread differs from its supervisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entering {
    /// How much the program gives way to its supervisor.
    pub(super) nicer: i32,
    /// How many threads this machine has; zero where that is not told.
    pub(super) threads: u64,
}

/// Starts the program; when this returns, no thread of this process is in the sandbox.
///
/// # Errors
/// Why it cannot be started; nothing of it runs then.
pub(super) fn start(order: &Order, entering: Entering) -> Result<Child, String> {
    // Whatever whoever started kaws had open is not the program's.
    close_fds::set_fds_cloexec(3, &[]);
    let memory = Memory::limit(order.memory);
    let started = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || spawn(order, entering));
        let thread = thread.map_err(|error| format!("it has no thread: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("its sandbox has failed".to_owned()))
    });
    memory.take_back();
    let mut child = started?;
    if let Err(error) = memory.limit_finally(&child) {
        let _ = child.kill();
        return Err(format!("its memory cannot be limited: {error}"));
    }
    Ok(child)
}

fn spawn(order: &Order, entering: Entering) -> Result<Child, String> {
    let _ = rustix::process::nice(entering.nicer);
    let limits = [(Resource::Core, 0), (Resource::Fsize, order.file), (Resource::Nofile, 1_024)];
    // It counts all that the user has: what there is now, and the program's own.
    let processes = (Resource::Nproc, entering.threads + order.processes);
    let processes = Some(processes).filter(|_| entering.threads > 0);
    for (resource, limit) in limits.into_iter().chain(processes) {
        let most = rustix::process::getrlimit(resource);
        let _ = rustix::process::setrlimit(resource, at_most(most, limit));
    }
    #[cfg(target_os = "linux")]
    super::sandbox::enter(order).map_err(|why| format!("its sandbox cannot be made: {why}"))?;
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).current_dir(&order.folder).env_clear().envs(&order.environment);
    command.spawn().map_err(|error| format!("{error}{}", hint(&error)))
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(8) => {
            ": it is no program for this machine, or a script without `#!` in its first line"
        }
        Some(13) => {
            ": its interpreter is none, or the folder of temporary files may not run programs (TMPDIR names another)"
        }
        _ => "",
    }
}

/// Returns `limit`, or what was allowed before, where that is less.
fn at_most(before: Rlimit, limit: u64) -> Rlimit {
    let limit = Some(before.maximum.map_or(limit, |most| most.min(limit)));
    Rlimit { current: limit, maximum: limit }
}

/// The limit of memory. A program is started under it, and so the supervisor is under it, too, for that long; what it has
/// already is not touched. Then it is the program's alone, and cannot be raised.
struct Memory {
    most: u64,
    #[cfg(target_os = "linux")]
    before: Rlimit,
}

#[cfg(target_os = "linux")]
impl Memory {
    /// What a supervisor may need while it starts a program.
    const MORE: u64 = 16 << 20;

    fn limit(most: u64) -> Self {
        let before = rustix::process::getrlimit(Resource::Data);
        let current = most.max(written_to() + Self::MORE);
        let current = before.maximum.map_or(current, |most| most.min(current));
        let _ = rustix::process::setrlimit(
            Resource::Data,
            Rlimit { current: Some(current), maximum: before.maximum },
        );
        Self { most, before }
    }

    fn take_back(&self) {
        let _ = rustix::process::setrlimit(Resource::Data, self.before);
    }

    fn limit_finally(&self, child: &Child) -> rustix::io::Result<()> {
        let limit = at_most(self.before, self.most);
        let program = rustix::process::Pid::from_child(child);
        match rustix::process::prlimit(Some(program), Resource::Data, limit) {
            // It is through already.
            Err(rustix::io::Errno::SRCH) => Ok(()),
            set => set.map(|_| ()),
        }
    }
}

/// Returns how much memory this process may write to, in bytes.
#[cfg(target_os = "linux")]
fn written_to() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(5).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Elsewhere no process limits another one.
#[cfg(not(target_os = "linux"))]
impl Memory {
    fn limit(most: u64) -> Self {
        Self { most }
    }

    fn take_back(&self) {}

    fn limit_finally(&self, _: &Child) -> rustix::io::Result<()> {
        let _ = self.most;
        Ok(())
    }
}
