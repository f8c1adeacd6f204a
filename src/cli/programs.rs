//! What this machine has for plugins' programs: where kaws itself is, where programs are, where answers are kept.

#![expect(clippy::disallowed_methods, reason = "only the command line reads the environment")]

use std::path::PathBuf;
use std::sync::Arc;

use crate::runtime::{Host, Runtime};

/// Returns whether this process is the supervisor of a program, and no command.
pub(super) fn supervises() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == "__exec")
}

/// Returns how many commands have called one another until here.
pub(super) fn depth() -> u32 {
    let said = std::env::var("KAWS_DEPTH").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns where installed plugins lie on this machine.
pub(super) fn store() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(".local/share")))?;
    Some(data.join("kaws").join("plugins"))
}

/// Returns what runs programs; nothing on a machine that does not say where kaws itself is.
pub(super) fn runtime() -> Option<Arc<Runtime>> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let own = std::env::current_exe().ok()?;
    // Where it is installed beside kaws it starts in a quarter of the time.
    let small = own.with_file_name("kaws-exec");
    let host = Host {
        supervisor: if small.is_file() { small } else { own },
        path: std::env::split_paths(&path).collect(),
        cache: cache.or_else(|| Some(home.as_ref()?.join(".cache"))).map(|dir| dir.join("kaws")),
        home,
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
    };
    Some(Runtime::new(host))
}
