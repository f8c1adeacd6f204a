//! Objects in buckets: a folder a bucket, a file an object, named by its key.

use super::seal::{is_secret, open, seal};
use super::store::Store;
use crate::port::{Answer, CloudError, ErrorKind, Object, When};
use crate::value::sha256;

/// Who made a bucket, in a file beside its objects.
const OWNER: &str = "owner";

fn folder(bucket: &str) -> String {
    format!("buckets/{bucket}")
}

/// Keys become file names: what a file name cannot hold is written as `%XX`.
fn file(bucket: &str, key: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let name: String = key
        .bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    format!("{}/objects/{name}", folder(bucket))
}

fn key(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.bytes();
    while let Some(b) = rest.next() {
        let hex = |b: Option<u8>| char::from(b.unwrap_or(b'0')).to_digit(16).unwrap_or(0);
        if b == b'%' {
            let value = hex(rest.next()) * 16 + hex(rest.next());
            bytes.push(u8::try_from(value).unwrap_or(b'?'));
        } else {
            bytes.push(b);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn etag(bytes: &[u8]) -> String {
    sha256(bytes)[..32].to_owned()
}

/// Makes a bucket for `owner`, who may ask twice.
pub(super) fn make(store: &Store, bucket: &str, owner: &str) -> Result<(), String> {
    let name = format!("{}/{OWNER}", folder(bucket));
    match store.bytes(&name).map_err(|e| e.message)? {
        Some(bytes) if bytes != owner.as_bytes() => Err(format!("{bucket} already exists")),
        Some(_) => Ok(()),
        None => store.put(&name, owner.as_bytes()).map_err(|e| e.message),
    }
}

/// Removes a bucket, which must be empty.
pub(super) fn unmake(store: &Store, bucket: &str) -> Result<(), String> {
    let objects = store.names(&format!("{}/objects", folder(bucket))).map_err(|e| e.message)?;
    if !objects.is_empty() {
        return Err(format!(
            "The bucket you tried to delete is not empty: {bucket} holds {} objects",
            objects.len()
        ));
    }
    store.remove(&format!("{}/{OWNER}", folder(bucket))).map_err(|e| e.message)
}

fn there(store: &Store, bucket: &str, operation: &str) -> Answer<()> {
    match store.bytes(&format!("{}/{OWNER}", folder(bucket)))? {
        Some(_) => Ok(()),
        None => Err(CloudError::new(
            operation,
            ErrorKind::NotFound,
            format!("there is no bucket {bucket}"),
        )),
    }
}

fn check(now: Option<&[u8]>, when: &When, operation: &str, key: &str) -> Answer<()> {
    let holds = match when {
        When::Always => true,
        When::Absent => now.is_none(),
        When::Is(tag) => now.is_some_and(|bytes| etag(bytes) == *tag),
    };
    if holds {
        return Ok(());
    }
    let text = format!("{key} is there, or is no longer what it was");
    Err(CloudError::new(operation, ErrorKind::Conflict, text))
}

/// Writes an object.
pub(super) fn put(
    store: &Store,
    bucket: &str,
    key: &str,
    bytes: &[u8],
    when: &When,
) -> Answer<String> {
    let _held = store.hold()?;
    there(store, bucket, "PutObject")?;
    let name = file(bucket, key);
    check(read(store, bucket, key)?.as_deref(), when, "PutObject", key)?;
    if is_secret(key) {
        store.put(&name, &seal(store, key, bytes)?)?;
    } else {
        store.put(&name, bytes)?;
    }
    Ok(etag(bytes))
}

/// Returns an object's bytes, decrypted where they are kept encrypted.
fn read(store: &Store, bucket: &str, key: &str) -> Answer<Option<Vec<u8>>> {
    match store.bytes(&file(bucket, key))? {
        Some(sealed) if is_secret(key) => open(store, key, &sealed).map(Some),
        bytes => Ok(bytes),
    }
}

/// Returns an object.
pub(super) fn get(store: &Store, bucket: &str, key: &str) -> Answer<Option<Object>> {
    let bytes = read(store, bucket, key)?;
    Ok(bytes.map(|bytes| Object { etag: etag(&bytes), bytes }))
}

/// Deletes an object.
pub(super) fn delete(store: &Store, bucket: &str, key: &str, when: &When) -> Answer<()> {
    let _held = store.hold()?;
    let name = file(bucket, key);
    let now = read(store, bucket, key)?;
    if now.is_some() {
        check(now.as_deref(), when, "DeleteObject", key)?;
    }
    store.remove(&name)
}

/// Returns the keys that begin with `prefix`.
pub(super) fn list(store: &Store, bucket: &str, prefix: &str) -> Answer<Vec<String>> {
    let names = store.names(&format!("{}/objects", folder(bucket)))?;
    let mut keys: Vec<String> =
        names.iter().map(|name| key(name)).filter(|k| k.starts_with(prefix)).collect();
    keys.sort();
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_comes_back() {
        let name = file("b", "pki/ä b%41");
        assert_eq!(key(name.rsplit('/').next().unwrap()), "pki/ä b%41");
    }
}
