//! Secrets as objects: `secrets/<plugin>/<name>` in the state bucket, encrypted with its key.
//!
//! Values pass through here and are never shown, logged, or kept.

use std::collections::BTreeSet;

use super::error::Error;
use crate::port::{Cloud, When};

fn key(name: &str) -> String {
    format!("secrets/{name}")
}

/// Returns the names of the secrets that are set.
///
/// # Errors
/// The cloud's.
pub async fn list_secrets(cloud: &dyn Cloud, bucket: &str) -> Result<BTreeSet<String>, Error> {
    let keys = cloud.list(bucket, "secrets/").await?;
    Ok(keys.iter().filter_map(|k| k.strip_prefix("secrets/")).map(str::to_owned).collect())
}

/// Returns a secret's value; nothing where it is not set, or where there is no bucket yet.
///
/// # Errors
/// The cloud's; and a value that is no text, which no program could be told.
pub async fn secret(cloud: &dyn Cloud, bucket: &str, name: &str) -> Result<Option<String>, Error> {
    let object = match cloud.get(bucket, &key(name)).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    Ok(object.and_then(|object| String::from_utf8(object.bytes).ok()))
}

/// Sets a secret.
///
/// # Errors
/// The cloud's.
pub async fn set_secret(
    cloud: &dyn Cloud,
    bucket: &str,
    name: &str,
    value: Vec<u8>,
) -> Result<(), Error> {
    cloud.put(bucket, &key(name), value, When::Always).await?;
    Ok(())
}

/// Removes a secret.
///
/// # Errors
/// The cloud's.
pub async fn remove_secret(cloud: &dyn Cloud, bucket: &str, name: &str) -> Result<(), Error> {
    cloud.delete(bucket, &key(name), When::Always).await?;
    Ok(())
}
