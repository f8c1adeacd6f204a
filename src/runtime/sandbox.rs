//! The sandbox of a program on Linux: which files it reaches (Landlock), which system calls it may make (seccomp), and
//! none of root's rights.
//! All hold for the calling thread and all that it starts, and can never be taken off again.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

use super::supervise::Order;

/// Calls that no plugin needs, and that lead out of the sandbox or to other processes.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Calls that programs ask whether they are there: they go on without.
const ABSENT: &[libc::c_long] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter];

/// Calls that seem to succeed and do nothing: all processes of a program stay in one group, and end together. A storm of
/// processes that each leave it could not be ended any more.
const IDLE: &[libc::c_long] = &[libc::SYS_setpgid, libc::SYS_setsid];

/// Enters the sandbox; returns what of it this machine does not have.
pub(super) fn enter(order: &Order) -> Result<Vec<String>, String> {
    let mut without = Vec::new();
    // Root's rights go past Landlock: without them, root is a user like any other, and cannot get them back.
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(|error| error.to_string())?;
    match files(order) {
        // Kernels before 6.12 know less of it; what files there are is hidden from 5.13 on, and the rest is seccomp's.
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => {}
        Ok(RulesetStatus::NotEnforced) => without.push("Landlock, which hides files".to_owned()),
        Err(error) => return Err(format!("the sandbox for files cannot be made: {error}")),
    }
    if calls(order).is_err() {
        without.push("seccomp, which hides the network".to_owned());
    }
    Ok(without)
}

fn files(order: &Order) -> Result<RulesetStatus, landlock::RulesetError> {
    let abi = ABI::V6;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(&order.reads, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules([&order.folder], AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules([order.work()], AccessFs::from_all(abi)))?
        .add_rules(path_beneath_rules(["/dev/null", "/dev/zero"], AccessFs::from_all(abi)))?;
    for port in &order.ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

fn calls(order: &Order) -> Result<(), String> {
    let network = if order.ports.is_empty() { Some(libc::SYS_socket) } else { None };
    let forbidden = FORBIDDEN.iter().copied().chain(network);
    deny(&forbidden.collect::<Vec<_>>(), libc::EACCES)?;
    deny(ABSENT, libc::ENOSYS)?;
    deny(IDLE, 0)
}

fn deny(numbers: &[libc::c_long], error: i32) -> Result<(), String> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(|_| "no filter".to_owned())?;
    // The same calls by their other numbers, which some kernels of this architecture have.
    let others = if cfg!(target_arch = "x86_64") { Some(0x4000_0000) } else { None };
    let rules: BTreeMap<i64, Vec<_>> = numbers
        .iter()
        .flat_map(|number| [Some(*number), others.map(|bit| *number | bit)])
        .flatten()
        .map(|number| (number, Vec::new()))
        .collect();
    let error = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error| error.to_string())?;
    apply_filter(&program).map_err(|error| error.to_string())
}
