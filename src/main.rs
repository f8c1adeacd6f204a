//! The `kaws` command.

fn main() -> std::process::ExitCode {
    kaws::cli::main()
}
