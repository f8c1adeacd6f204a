//! Objects in S3.

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;

use super::errors::failed;
use crate::port::{Answer, CloudError, ErrorKind, Object, When};

pub(super) async fn put(
    client: &Client,
    bucket: &str,
    key: &str,
    bytes: Vec<u8>,
    when: When,
) -> Answer<String> {
    let call = client.put_object().bucket(bucket).key(key).body(ByteStream::from(bytes));
    let call = match when {
        When::Always => call,
        When::Absent => call.if_none_match("*"),
        When::Is(etag) => call.if_match(etag),
    };
    let said = call.send().await.map_err(|e| failed("PutObject", e))?;
    Ok(said.e_tag.unwrap_or_default())
}

/// An answer that breaks off is asked for so many times: the SDK retries up to its beginning alone.
const READS: u32 = 5;

pub(super) async fn get(client: &Client, bucket: &str, key: &str) -> Answer<Option<Object>> {
    let mut left = READS;
    loop {
        left -= 1;
        match read(client, bucket, key).await {
            Err(error) if error.kind == ErrorKind::Unavailable && left > 0 => {}
            other => return other,
        }
    }
}

async fn read(client: &Client, bucket: &str, key: &str) -> Answer<Option<Object>> {
    let said = match client.get_object().bucket(bucket).key(key).send().await {
        Ok(said) => said,
        Err(error) => {
            return match failed("GetObject", error) {
                error if error.is_not_found() => Ok(None),
                error => Err(error),
            };
        }
    };
    let etag = said.e_tag.unwrap_or_default();
    let bytes =
        said.body.collect().await.map_err(|error| {
            CloudError::new("GetObject", ErrorKind::Unavailable, error.to_string())
        })?;
    Ok(Some(Object { bytes: bytes.to_vec(), etag }))
}

pub(super) async fn list(client: &Client, bucket: &str, prefix: &str) -> Answer<Vec<String>> {
    let mut pages = client.list_objects_v2().bucket(bucket).prefix(prefix).into_paginator().send();
    let mut keys = Vec::new();
    while let Some(page) = pages.next().await {
        match page {
            Ok(page) => {
                keys.extend(page.contents.unwrap_or_default().into_iter().filter_map(|o| o.key));
            }
            Err(error) => {
                return match failed("ListObjectsV2", error) {
                    error if error.is_not_found() => Ok(Vec::new()),
                    error => Err(error),
                };
            }
        }
    }
    keys.sort();
    Ok(keys)
}

pub(super) async fn delete(client: &Client, bucket: &str, key: &str, when: When) -> Answer<()> {
    let call = client.delete_object().bucket(bucket).key(key);
    let call = match when {
        When::Is(etag) => call.if_match(etag),
        When::Always | When::Absent => call,
    };
    match call.send().await {
        Ok(_) => Ok(()),
        Err(error) => match failed("DeleteObject", error) {
            error if error.is_not_found() => Ok(()),
            error => Err(error),
        },
    }
}

/// Deletes every version of every object.
pub(super) async fn empty(client: &Client, bucket: &str) -> Answer<()> {
    loop {
        // What was listed is deleted before the next look, so the first page is always the next one.
        let page = match client.list_object_versions().bucket(bucket).send().await {
            Ok(page) => page,
            Err(error) => {
                return match failed("ListObjectVersions", error) {
                    error if error.is_not_found() => Ok(()),
                    error => Err(error),
                };
            }
        };
        let versions = page.versions.unwrap_or_default().into_iter().map(|v| (v.key, v.version_id));
        let markers =
            page.delete_markers.unwrap_or_default().into_iter().map(|m| (m.key, m.version_id));
        let all: Vec<_> = versions.chain(markers).collect();
        if all.is_empty() {
            return Ok(());
        }
        for (key, version) in all {
            let call = client.delete_object().bucket(bucket).set_key(key).set_version_id(version);
            call.send().await.map_err(|e| failed("DeleteObject", e))?;
        }
    }
}
