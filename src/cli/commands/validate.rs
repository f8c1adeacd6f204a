//! `kaws validate`.

use std::collections::BTreeMap;

use super::{Exit, only_file};
use crate::cli::deploying::{Patience, Purpose, Reach, Session, Wait, checks, runtime};
use crate::cli::{Common, ValidateArguments};

/// Runs the checks of the running cluster.
pub(super) fn run(common: &Common, arguments: &ValidateArguments) -> Exit {
    runtime().block_on(validate(common, arguments)).into()
}

async fn validate(common: &Common, arguments: &ValidateArguments) -> Result<(), Exit> {
    let file = only_file(common)?;
    let cloud = &arguments.cluster.cloud;
    let session = Session::open(common, file, cloud, BTreeMap::new(), Purpose::Other).await?;
    let reach = Reach::of(&session, arguments.cluster.kubeconfig.as_ref());
    let patience = Patience {
        wait: arguments.wait.map_or(Wait::Not, |longest| Wait::For(longest.into())),
        count: arguments.count,
        interval: arguments.interval.into(),
        tolerated: arguments.max_unready,
    };
    let seen = checks::run(common, &session, &reach, patience).await?;
    seen.show(common, &session);
    if seen.fails() { Err(Exit::Findings) } else { Ok(()) }
}
