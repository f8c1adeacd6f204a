//! Resolves pins: asks whoever publishes a thing which exact one its name and version stand for.
//!
//! Not here: which things a cluster needs (`pipeline`), and reading kaws.lock (`lock`).

use serde_json::Value;

use crate::deploy::chart_digest;
use crate::lock::Pinned;
use crate::pipeline::PinNeed;
use crate::plugin::How;
use crate::port::{Answer, Cloud, CloudError, ErrorKind, Request, Web};

/// Returns the answer to a question that is not a program's.
///
/// # Errors
/// The cloud's and the web's, and a document that has no such part.
pub async fn look_up(how: &How, cloud: Option<&dyn Cloud>, web: &dyn Web) -> Answer<Value> {
    match how {
        How::Ssm(parameter) => {
            let Some(cloud) = cloud else { return refused("GetParameter", "no cloud was named") };
            let value = cloud.parameter(parameter).await?;
            let none = || format!("there is no {parameter} in this region");
            value.map(Value::String).map_or_else(|| refused("GetParameter", none()), Ok)
        }
        How::Http(url, pointer) => {
            let Some(said) = text(url, web).await? else {
                return refused(url, "there is no such document");
            };
            let document: Value = match serde_json::from_str(&said) {
                Ok(document) => document,
                Err(error) => return refused(url, format!("it is no JSON: {error}")),
            };
            let part = pointer.as_ref().map_or(Some(&document), |p| document.pointer(p)).cloned();
            part.map_or_else(
                || refused(url, format!("it has no {}", pointer.as_deref().unwrap_or_default())),
                Ok,
            )
        }
        How::Exec(..) => refused("exec", "programs are asked by who runs programs"),
    }
}

fn refused<T>(operation: &str, text: impl Into<String>) -> Answer<T> {
    Err(CloudError::new(operation, ErrorKind::Refused, text))
}

/// Returns the exact identity of something, and where it was taken from.
///
/// # Errors
/// The cloud's and the web's, and a publisher who does not say.
pub async fn resolve(need: &PinNeed, cloud: &dyn Cloud, web: &dyn Web) -> Answer<Pinned> {
    let from = need.from.as_str();
    if let Some(parameter) = from.strip_prefix("ssm:") {
        return image(parameter, cloud).await;
    }
    if let Some((repository, chart)) = from.split_once('#') {
        let version = need.name.rsplit('/').next().unwrap_or_default();
        let digest = chart_digest(repository, chart, version, web).await?;
        return Ok(Pinned { value: format!("sha256:{digest}"), from: from.to_owned() });
    }
    let digest = published(from, web).await?;
    Ok(Pinned { value: format!("sha256:{digest}"), from: from.to_owned() })
}

async fn image(parameter: &str, cloud: &dyn Cloud) -> Answer<Pinned> {
    let Some(value) = cloud.parameter(parameter).await? else {
        return refused("GetParameter", format!("there is no {parameter} in this region"));
    };
    // What the local cloud makes up says so, and is never taken for real.
    let word = if cloud.is_local() { "local" } else { "ssm" };
    Ok(Pinned { value, from: format!("{word}:{parameter}") })
}

async fn text(url: &str, web: &dyn Web) -> Answer<Option<String>> {
    let answer = web.send(&Request::get(url)).await?;
    match answer.status {
        200 => Ok(Some(String::from_utf8_lossy(&answer.body).into_owned())),
        404 | 403 | 410 => Ok(None),
        status => refused(url, format!("it answers {status}")),
    }
}

/// The checksum that is published beside a file: `FILE.sha256`, `FILE.sha256sum`, or a list of them.
async fn published(url: &str, web: &dyn Web) -> Answer<String> {
    let (folder, file) = url.rsplit_once('/').unwrap_or((url, ""));
    let places = [
        format!("{url}.sha256"),
        format!("{url}.sha256sum"),
        format!("{folder}/SHA256SUMS"),
        format!("{folder}/sha256sums.txt"),
        format!("{folder}/checksums.txt"),
    ];
    for place in &places {
        let Some(said) = text(place, web).await? else { continue };
        // `HASH  FILE`, `HASH *./FILE`; or the hash alone.
        let name = |word: &str| word.trim_start_matches('*').rsplit('/').next() == Some(file);
        let own = said.lines().filter(|l| l.split_whitespace().any(name));
        let alone = said.lines().filter(|_| said.split_whitespace().count() == 1);
        let hashes: std::collections::BTreeSet<&str> =
            own.chain(alone).flat_map(str::split_whitespace).filter(|w| is_hash(w)).collect();
        match hashes.into_iter().collect::<Vec<_>>().as_slice() {
            [] => {}
            [one] => return hash(one, place),
            _ => return refused(place, format!("it has several checksums for {file}")),
        }
    }
    refused(url, "no checksum is published beside it: write the entry by hand, with its source")
}

fn is_hash(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit())
}

fn hash(text: &str, place: &str) -> Answer<String> {
    if is_hash(text) {
        Ok(text.to_lowercase())
    } else {
        refused(place, format!("`{text}` is no SHA-256"))
    }
}
