//! The sandbox of a program on Linux: which files it reaches (Landlock), which system calls it may make (seccomp), and
//! none of root's rights.
//! All hold for the calling thread and all that it starts, and can never be taken off again.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::supervise::Order;

/// Calls that no plugin needs, and that lead out of the sandbox or to other processes, or leave something behind.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_finit_module,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_ioprio_set,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgget,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_removexattr,
    libc::SYS_request_key,
    libc::SYS_semget,
    libc::SYS_setns,
    libc::SYS_setxattr,
    libc::SYS_shmat,
    libc::SYS_shmget,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    // setxattrat and removexattrat, which libc does not name yet.
    463,
    466,
];
/// Those that only this architecture has.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_HERE: &[libc::c_long] = &[libc::SYS_chown, libc::SYS_lchown];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_HERE: &[libc::c_long] = &[];

/// Calls that programs ask whether they are there: they go on without.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_setup,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
];

/// Calls that seem to succeed and do nothing. All processes of a program stay in one group, and end together: a storm of
/// processes that each leave it could not be ended any more. And modes and times of files and whose turn it is on the
/// processors, which Landlock does not cover, stay as they are.
const IDLE: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_setsid,
    libc::SYS_utimensat,
    // fchmodat2.
    452,
];
#[cfg(target_arch = "x86_64")]
const IDLE_HERE: &[libc::c_long] =
    &[libc::SYS_chmod, libc::SYS_futimesat, libc::SYS_utime, libc::SYS_utimes];
#[cfg(not(target_arch = "x86_64"))]
const IDLE_HERE: &[libc::c_long] = &[];

/// Returns what of the sandbox this machine does not have: asked once, as it stays so.
pub(super) fn missing() -> &'static [String] {
    static MISSING: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    MISSING.get_or_init(looked_for)
}

fn looked_for() -> Vec<String> {
    // What each version of Landlock brought; a kernel that lacks one lacks all after it.
    let parts = [
        (ABI::V1, "Landlock, which hides files"),
        (ABI::V3, "Landlock of Linux 6.2, which keeps files from being cut"),
        (ABI::V4, "Landlock of Linux 6.7, which knows ports"),
        (ABI::V6, "Landlock of Linux 6.12, which keeps signals in"),
    ];
    let first = parts.into_iter().find(|(abi, _)| !has(*abi));
    first.map(|(_, what)| what.to_owned()).into_iter().collect()
}

fn has(abi: ABI) -> bool {
    let asked = || {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let ruleset = ruleset.handle_access(AccessFs::from_all(abi))?;
        let net = AccessNet::from_all(abi);
        let ruleset = if net.is_empty() { ruleset } else { ruleset.handle_access(net)? };
        let scope = Scope::from_all(abi);
        if scope.is_empty() { ruleset } else { ruleset.scope(scope)? }.create()
    };
    asked().is_ok()
}

/// Enters the sandbox, as far as this machine has it.
pub(super) fn enter(order: &Order) -> Result<(), String> {
    // Root's rights go past Landlock: without them, root is a user like any other, and cannot get them back.
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(|error| error.to_string())?;
    files(order).map_err(|error| error.to_string())?;
    calls(order)
}

fn files(order: &Order) -> Result<(), landlock::RulesetError> {
    let abi = ABI::V6;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(&order.reads, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules([&order.folder], AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules([&order.work], AccessFs::from_all(abi)))?
        .add_rules(path_beneath_rules(["/dev/null", "/dev/zero"], AccessFs::from_all(abi)))?;
    for port in &order.ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    ruleset.restrict_self().map(|_| ())
}

fn calls(order: &Order) -> Result<(), String> {
    let plain = FORBIDDEN.iter().chain(FORBIDDEN_HERE).map(|number| (*number, Vec::new()));
    let mut denied: Rules = plain.collect();
    // Limits of other processes are theirs, and so is that of memory until the supervisor has set it.
    let data = u64::from(libc::RLIMIT_DATA);
    let on_data = |argument| when(argument, SeccompCmpOp::Eq, data);
    let of_others = rule(&[when(0, SeccompCmpOp::Ne, 0)?])?;
    let sets = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    let sets = sets.map_err(|error| error.to_string())?;
    denied.insert(libc::SYS_prlimit64, vec![of_others, rule(&[on_data(1)?, sets])?]);
    denied.insert(libc::SYS_setrlimit, vec![rule(&[on_data(0)?])?]);
    // This thread shares the sandbox until it ends, and whoever ends it ends the supervisor.
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let at_us = |argument| {
        Ok::<_, String>(vec![rule(&[when(argument, SeccompCmpOp::Eq, thread.into())?])?])
    };
    for call in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo] {
        denied.insert(call, at_us(0)?);
    }
    for call in [libc::SYS_tgkill, libc::SYS_rt_tgsigqueueinfo] {
        denied.insert(call, at_us(1)?);
    }
    // A world of its own users has rights there that are none of ours.
    let users = libc::CLONE_NEWUSER as u64;
    denied.insert(libc::SYS_clone, vec![rule(&[when(0, SeccompCmpOp::MaskedEq(users), users)?])?]);
    let socket = if order.ports.is_empty() {
        Vec::new()
    } else {
        // Of the network, and of what names are looked up by: not of services on this machine.
        let domains = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        let other: Result<Vec<_>, String> =
            domains.iter().map(|domain| when(0, SeccompCmpOp::Ne, *domain as u64)).collect();
        vec![rule(&other?)?]
    };
    denied.insert(libc::SYS_socket, socket);
    let all = |numbers: &[libc::c_long]| numbers.iter().map(|n| (*n, Vec::new())).collect();
    answer(denied, libc::EACCES)?;
    answer(all(ABSENT), libc::ENOSYS)?;
    answer(all(&[IDLE, IDLE_HERE].concat()), 0)
}

/// Calls by their numbers, with what their arguments must be; nothing for any.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn when(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value).map_err(|e| e.to_string())
}

fn rule(all: &[SeccompCondition]) -> Result<SeccompRule, String> {
    SeccompRule::new(all.to_vec()).map_err(|error| error.to_string())
}

/// Has calls answered with `error`, 0 for success, and not done.
fn answer(rules: Rules, error: i32) -> Result<(), String> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(|_| "no filter".to_owned())?;
    let refused = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error| error.to_string())?;
    let program = if error == libc::EACCES { others_refused(program) } else { program };
    apply_filter(&program).map_err(|error| error.to_string())
}

/// Refuses the same calls by their other numbers, which some kernels of this architecture have: all of those, at once,
/// instead of each number twice.
#[cfg(target_arch = "x86_64")]
fn others_refused(program: BpfProgram) -> BpfProgram {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    // Load the call's number; is it one of x32; then it is refused.
    let head = [
        step(0x20, 0, 0, 0),
        step(0x35, 0, 1, 0x4000_0000),
        step(0x06, 0, 0, 0x0005_0000 | libc::EACCES.unsigned_abs()),
    ];
    head.into_iter().chain(program).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn others_refused(program: BpfProgram) -> BpfProgram {
    program
}
