//! The supervisor of a plugin's program, by itself: `kaws __exec` does the same, and takes longer to start.

fn main() -> std::process::ExitCode {
    kaws::runtime::supervise::main()
}
