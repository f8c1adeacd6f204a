//! `kaws plugin lint`.

use std::path::Path;

use super::{Exit, folder, tell};
use crate::cli::Common;

/// Says what there is to say; only what is fatal is no success.
pub(super) fn run(common: &Common, dir: &Path) -> Exit {
    let package = match folder(common, dir) {
        Ok(package) => package,
        Err(exit) => return exit,
    };
    let findings = crate::kit::lint(&package);
    tell(common, &findings);
    if findings.any_fatal() { Exit::Findings } else { Exit::Done }
}
