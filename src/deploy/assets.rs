//! What stacks and machines fetch, uploaded under the hash of its content: what is there is never sent
//! twice, and never overwritten.

use std::sync::Arc;

use futures_util::stream::{self, TryStreamExt as _};

use super::error::Error;
use super::tree::{Tree, TreeStack};
use crate::port::{Cloud, When};
use crate::value::sha256;

/// How many uploads go on at once.
const AT_ONCE: usize = 8;

/// Returns the key of a stack's template.
pub(super) fn template_key(stack: &TreeStack) -> String {
    format!("stacks/{}/{}.yaml", stack.short, sha256(stack.text.as_bytes()))
}

/// Returns the key of a group's bundle: what its user data names.
pub(super) fn bundle_key(group: &str, hash: &str) -> String {
    format!("nodes/{group}/{hash}.tar.gz")
}

/// Something to upload.
struct Asset {
    key: String,
    content: Content,
}

enum Content {
    Text(Arc<str>),
    Bundle(crate::archive::Bundle),
}

/// Returns the bundles that are not in the bucket yet, by group; all of them where there is no bucket.
pub(super) fn missing_bundles(tree: &Tree, there: &[String]) -> Vec<(String, String)> {
    let groups = tree.groups().into_iter();
    let named = groups.filter_map(|group| tree.bundle_hash(&group).map(|hash| (group, hash)));
    named.filter(|(group, hash)| !there.contains(&bundle_key(group, hash))).collect()
}

/// Uploads what is missing; returns what was done, in words.
pub(super) async fn upload(
    cloud: &dyn Cloud,
    tree: &Tree,
    stacks: &[&TreeStack],
) -> Result<String, Error> {
    let bucket = &tree.cluster.bucket;
    let mut there = cloud.list(bucket, "nodes/").await?;
    there.extend(cloud.list(bucket, "stacks/").await?);
    let mut assets = Vec::new();
    let bundles = missing_bundles(tree, &there);
    let count = bundles.len();
    for (group, _) in bundles {
        let (hash, bundle) = tree.checked_bundle(&group)?;
        assets.push(Asset { key: bundle_key(&group, &hash), content: Content::Bundle(bundle) });
    }
    for stack in stacks {
        let key = template_key(stack);
        if !there.contains(&key) {
            assets.push(Asset { key, content: Content::Text(Arc::clone(&stack.text)) });
        }
    }
    if assets.is_empty() {
        return Ok("nothing to upload".to_owned());
    }
    let uploads = stream::iter(assets.into_iter().map(Ok::<_, Error>));
    uploads
        .try_for_each_concurrent(AT_ONCE, |asset| async move {
            let bytes = match asset.content {
                Content::Text(text) => text.as_bytes().to_vec(),
                Content::Bundle(bundle) => crate::archive::packed(&bundle),
            };
            cloud.put(bucket, &asset.key, bytes, When::Always).await?;
            Ok(())
        })
        .await?;
    let noun = if count == 1 { "bundle" } else { "bundles" };
    Ok(if count == 0 {
        "templates uploaded".to_owned()
    } else {
        format!("{count} node {noun} uploaded")
    })
}

/// Returns how large the bundles are that would be uploaded, in bytes, compressed.
pub(super) fn size(tree: &Tree, groups: &[(String, String)]) -> u64 {
    let one = |group: &str| crate::archive::packed(&tree.bundle(group)).len() as u64;
    groups.iter().map(|(group, _)| one(group)).sum()
}
