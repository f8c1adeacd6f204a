//! The supervisors of calls are started ahead: while one program runs, the supervisor of the next one is started and then
//! waits for its order. Starting it is half of what a call would cost otherwise.
//!
//! Not here: what a supervisor does once it has its order (`supervise`).

#![expect(clippy::disallowed_methods, reason = "supervisors are started here")]

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::folder::WRITING;
use super::supervise::Order;

/// The supervisor that waits, if there is one; it goes away with this value.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Seat>);

#[derive(Debug, Default)]
enum Seat {
    #[default]
    Empty,
    /// Somebody is about to take it.
    Taken,
    Waits(Child),
}

impl Spare {
    /// Gives an order to the supervisor that waits, or to a new one.
    pub(super) fn order(&self, program: &Path, order: &Order) -> std::io::Result<Child> {
        let text = serde_json::to_vec(order)?;
        let waits = self.leave().and_then(|child| hand_over(child, &text).ok());
        waits.map_or_else(|| hand_over(start(program)?, &text), Ok)
    }

    /// Starts the next one, unless one waits; without one, the next call takes longer, and that is all.
    pub(super) fn refill(&self, program: &Path) {
        {
            let mut seat = self.seat();
            if !matches!(*seat, Seat::Empty) {
                return;
            }
            *seat = Seat::Taken;
        }
        let new = start(program).map_or(Seat::Empty, Seat::Waits);
        *self.seat() = new;
    }

    /// Sends the one that waits away.
    pub(super) fn close(&self) {
        self.leave().into_iter().for_each(dismiss);
    }

    /// Returns the one that waits, which does so no more.
    fn leave(&self) -> Option<Child> {
        let mut seat = self.seat();
        match std::mem::take(&mut *seat) {
            Seat::Waits(child) => Some(child),
            other => {
                *seat = other;
                None
            }
        }
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.close();
    }
}

fn start(program: &Path) -> std::io::Result<Child> {
    let _nobody_writes = WRITING.read();
    Command::new(program)
        .arg("__exec")
        .current_dir("/")
        .process_group(0)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Gives a supervisor its order: what comes after that on its standard input is the program's.
fn hand_over(mut child: Child, order: &[u8]) -> std::io::Result<Child> {
    let length = u32::try_from(order.len()).map_err(std::io::Error::other);
    let written = length.and_then(|length| {
        let to = child.stdin.as_mut().ok_or_else(|| std::io::Error::other("a pipe is missing"))?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(order)
    });
    match written {
        Ok(()) => Ok(child),
        Err(error) => {
            dismiss(child);
            Err(error)
        }
    }
}

/// Ends a supervisor that has no order, and so nothing to see to.
fn dismiss(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_waits_is_sent_away_and_was_not_started_twice() {
        let spare = Spare::default();
        spare.refill(Path::new("/bin/cat"));
        let first = match &*spare.seat() {
            Seat::Waits(child) => child.id(),
            other => panic!("{other:?}"),
        };
        spare.refill(Path::new("/bin/cat"));
        assert!(matches!(&*spare.seat(), Seat::Waits(child) if child.id() == first));
        // Even one that does not listen.
        let stopped = Command::new("kill").args(["-STOP", &first.to_string()]).status();
        assert!(stopped.unwrap().success());
        spare.close();
        assert!(matches!(&*spare.seat(), Seat::Empty));
        spare.refill(Path::new("/nonexistent"));
        assert!(spare.leave().is_none());
    }
}
