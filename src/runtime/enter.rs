//! The process that becomes a program: it takes its limits, enters the sandbox, lets go of every open file that it was
//! not meant to have, and is the program from then on.

#![expect(
    clippy::disallowed_methods,
    reason = "a process of its own, that ends as another program"
)]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit};

use super::supervise::{Entering, NOT_STARTED, ORDER, Order};

/// Becomes the program; returns only if that fails.
pub(super) fn main(order: &Order) -> ExitCode {
    let why = become_program(order);
    let _ = fs::write(order.not_started_file(), why);
    ExitCode::from(NOT_STARTED as u8)
}

fn become_program(order: &Order) -> String {
    let told = std::env::args().nth(2);
    let Some(told) = told.and_then(|text| serde_json::from_str::<Entering>(&text).ok()) else {
        return "nobody says how".to_owned();
    };
    let _ = rustix::process::nice(told.nicer);
    limit(order, told.threads);
    // Whatever whoever started kaws had open is not the program's.
    close_fds::set_fds_cloexec(3, &[]);
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).current_dir(&order.folder).env_remove(ORDER);
    #[cfg(target_os = "linux")]
    if let Err(why) = super::sandbox::enter(order) {
        return format!("its sandbox cannot be made: {why}");
    }
    let error = command.exec();
    let hint = match error.raw_os_error() {
        Some(8) => {
            ": it is no program for this machine, or a script without `#!` in its first line"
        }
        Some(13) => {
            ": its interpreter is none, or the folder of temporary files may not run programs (TMPDIR names another)"
        }
        _ => "",
    };
    format!("{error}{hint}")
}

fn limit(order: &Order, threads: u64) {
    let limits = [
        (Resource::Core, 0),
        (Resource::Data, order.memory),
        (Resource::Fsize, order.file),
        (Resource::Nofile, 1_024),
        // It counts all that the user has: what there is now, and the program's own.
        (Resource::Nproc, threads + order.processes),
    ];
    for (resource, limit) in limits {
        let most = rustix::process::getrlimit(resource).maximum;
        let limit = Some(most.map_or(limit, |most| most.min(limit)));
        let _ = rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit });
    }
}
