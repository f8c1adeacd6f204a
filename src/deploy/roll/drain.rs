//! Draining a node: it takes no new pods, and those that it has are asked to go, as far as budgets allow it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::deploy::error::Error;
use crate::port::{Answer, Cluster, ErrorKind, Eviction, Keeper, Pod, Pods};

/// How many pods are left, of how many there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Those that are still there.
    pub pods: usize,
    /// Those that were there.
    pub of: usize,
}

/// Drains a node, and tells `told` how far that is. A node that cannot be drained within the time takes pods again.
///
/// # Errors
/// Pods that a budget holds, that do not go, or that nobody would make anew, and the cluster's.
pub async fn drain(
    cluster: &dyn Cluster,
    node: &str,
    within: Duration,
    look: Duration,
    unmanaged: bool,
    told: &(dyn Fn(Left) + Sync),
) -> Result<(), Error> {
    let lost = |pod: &&Pod| pod.keeper == Keeper::Nobody && !unmanaged;
    let first = evictable(cluster, node).await?;
    let nobodys: Vec<String> = first.iter().filter(lost).map(Pod::full_name).collect();
    if !nobodys.is_empty() {
        return Err(Error::Unmanaged { node: node.to_owned(), pods: nobodys });
    }
    cluster.cordon(node, true).await?;
    let held = std::sync::Mutex::new(BTreeMap::new());
    let work = async {
        let mut of = first.len();
        loop {
            // Whoever answers may be replaced just now: it is asked again for as long as there is time.
            let pods = match evictable(cluster, node).await {
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    tokio::time::sleep(look).await;
                    continue;
                }
                other => other?,
            };
            of = of.max(pods.len());
            told(Left { pods: pods.len(), of });
            if pods.is_empty() {
                return Ok(());
            }
            let refused = evict(cluster, &pods).await?;
            *held.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = refused;
            tokio::time::sleep(look).await;
        }
    };
    let drained = match tokio::time::timeout(within, work).await {
        Ok(drained) => drained,
        Err(_) => {
            let pods = held.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            Err(Error::Drain { node: node.to_owned(), pods })
        }
    };
    if drained.is_err() {
        // What went wrong is worth more than that this went wrong, too.
        let _ = cluster.cordon(node, false).await;
    }
    drained
}

/// The pods that a drain asks to go.
async fn evictable(cluster: &dyn Cluster, node: &str) -> Answer<Vec<Pod>> {
    let mut pods = cluster.pods(&Pods::On(node.to_owned())).await?;
    pods.retain(|pod| !pod.is_over() && matches!(pod.keeper, Keeper::Workload | Keeper::Nobody));
    Ok(pods)
}

/// Asks pods to go, and returns those that are still there, each with what holds it.
async fn evict(cluster: &dyn Cluster, pods: &[Pod]) -> Answer<BTreeMap<String, String>> {
    let mut held = BTreeMap::new();
    for pod in pods {
        let why = match cluster.evict(pod).await {
            Ok(Eviction::Gone) => continue,
            Ok(Eviction::Going) => "it was asked to go, and has not gone".to_owned(),
            Ok(Eviction::Refused(why)) => why,
            Err(error) if error.kind == ErrorKind::Unavailable => error.to_string(),
            Err(error) => return Err(error),
        };
        held.insert(pod.full_name(), why);
    }
    Ok(held)
}
