//! What stands in texts, and is filled in on the node.

use crate::Request;

/// Returns the placeholder of one of the plugin's secrets. Its file needs the mode 0600.
///
/// ```
/// use kaws_sdk::{Plugin, Request, secret};
///
/// let request = Request { plugin: Plugin { name: "acme".to_owned(), ..Plugin::default() }, ..Request::default() };
/// assert_eq!(secret(&request, "token"), "@{secret acme/token}");
/// ```
#[must_use]
pub fn secret(request: &Request, name: &str) -> String {
    format!("@{{secret {}/{name}}}", request.plugin.name)
}

/// Returns the placeholder of a stack's output.
///
/// ```
/// assert_eq!(kaws_sdk::output("network.VpcId"), "@{output network.VpcId}");
/// ```
#[must_use]
pub fn output(name: &str) -> String {
    format!("@{{output {name}}}")
}

/// Returns the placeholder of what a node knows of itself, as `group` or `zone`.
///
/// ```
/// assert_eq!(kaws_sdk::node("zone"), "@{node zone}");
/// ```
#[must_use]
pub fn node(name: &str) -> String {
    format!("@{{node {name}}}")
}
