//! Plugins of kaws in Rust.
//!
//! A plugin is functions that are told a [`Request`] and give a [`Response`]:
//!
//! ```no_run
//! use kaws_sdk::{Handlers, Request, Response, Result};
//!
//! fn main() -> std::process::ExitCode {
//!     Handlers::new().render(render).main()
//! }
//!
//! fn render(request: &Request) -> Result {
//!     let mut response = Response::new();
//!     response.artifact("hello.txt", format!("Hello from {}\n", request.plugin.name));
//!     Ok(response)
//! }
//! ```
//!
//! Not here: what a contribution may hold. `kaws plugin schema contribution` prints that.

#![forbid(unsafe_code)]

mod content;
mod handlers;
mod log;
mod placeholder;
mod request;
mod response;

pub use content::Content;
pub use handlers::{Handler, Handlers, Result};
pub use log::log;
pub use placeholder::{node, output, secret};
pub use request::{Group, Made, NoRequest, Plugin, Request, Secrets};
pub use response::{Finding, Response, Severity};
/// What JSON can say, and the macro that says it.
pub use serde_json::{Value, json};

/// The version of the contract that this crate speaks.
pub const VERSION: &str = "kaws/v1";
