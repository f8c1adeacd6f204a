//! Says on every machine whose it is. `kaws plugin schema contribution` tells what else there is to say.

use kaws_sdk::{Handlers, Request, Response, Result, json};
use serde::Deserialize;

#[derive(Deserialize)]
struct Settings {
    owner: String,
}

fn main() -> std::process::ExitCode {
    Handlers::new().initialise(initialise).main()
}

/// Adds one file to every machine.
fn initialise(request: &Request) -> Result {
    let settings: Settings = request.settings()?;
    let mut response = Response::new();
    let greeting = json!({"content": format!("Ask {}.\n", settings.owner)});
    response.put(["machines", "nodes", "files", "/etc/motd.d/my-plugin"], greeting);
    Ok(response)
}
