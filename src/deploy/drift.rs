//! What somebody changed by hand, of all stacks at once. It takes a while, so it is looked for only where asked.

use std::collections::BTreeMap;

use crate::port::{Cloud, CloudError, Drift, Stack};

/// Looks at stacks side by side, but for those that are being changed or never came to be; returns what was found by
/// their names in the cluster.
pub async fn drifts<'s>(
    cloud: &dyn Cloud,
    stacks: impl Iterator<Item = &'s Stack>,
) -> BTreeMap<String, Drift> {
    let settled = stacks.filter(|stack| stack.status.is_updatable());
    let look = settled.map(async |stack| (stack, cloud.drift(&stack.name).await));
    let found = futures_util::future::join_all(look).await;
    let unchecked =
        |why: CloudError| Drift { unchecked: Some(why.to_string()), ..Drift::default() };
    let named = |(stack, found): (&Stack, Result<Drift, CloudError>)| {
        Some((stack.tags.get("kaws/stack")?.clone(), found.unwrap_or_else(unchecked)))
    };
    found.into_iter().filter_map(named).collect()
}
