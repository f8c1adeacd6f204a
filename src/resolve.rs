//! Resolves pins: asks whoever publishes a thing which exact one its name and version stand for.
//!
//! Not here: which things a cluster needs (`pipeline`), and reading kaws.lock (`lock`).

use crate::lock::Pinned;
use crate::pipeline::PinNeed;
use crate::port::{Answer, Cloud, CloudError, ErrorKind, Request, Response, Web};

/// What an OCI registry may answer with, as it is asked for.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json";

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
        let digest = match repository.strip_prefix("oci://") {
            Some(registry) => oci(registry, chart, version, web).await?,
            None => indexed(repository, chart, version, web).await?,
        };
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

/// The digest in a chart repository's index.
async fn indexed(repository: &str, chart: &str, version: &str, web: &dyn Web) -> Answer<String> {
    let url = format!("{}/index.yaml", repository.trim_end_matches('/'));
    let Some(index) = text(&url, web).await? else {
        return refused(&url, "it is not there");
    };
    #[derive(serde::Deserialize)]
    struct Index {
        #[serde(default)]
        entries: std::collections::BTreeMap<String, Vec<Entry>>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        version: String,
        digest: Option<String>,
    }
    let index: Index = match serde_yaml::from_str(&index) {
        Ok(index) => index,
        Err(error) => return refused(&url, format!("it is no index of charts: {error}")),
    };
    let entry = index.entries.get(chart).into_iter().flatten();
    let plain = |text: &str| text.trim_start_matches('v').to_owned();
    let found = entry.into_iter().find(|e| plain(&e.version) == plain(version));
    match found.and_then(|e| e.digest.clone()) {
        Some(digest) => hash(digest.trim_start_matches("sha256:"), &url),
        None => refused(&url, format!("it has no digest for {chart} {version}")),
    }
}

/// The digest of a manifest in an OCI registry.
async fn oci(registry: &str, chart: &str, version: &str, web: &dyn Web) -> Answer<String> {
    let (host, path) = registry.trim_end_matches('/').split_once('/').unwrap_or((registry, ""));
    let path = if path.is_empty() { chart.to_owned() } else { format!("{path}/{chart}") };
    // Tags cannot have a plus: Helm writes it so.
    let tag = version.replace('+', "_");
    let url = format!("https://{host}/v2/{path}/manifests/{tag}");
    let request = Request { method: "HEAD".to_owned(), ..Request::get(&url) };
    let accept = ("accept", MANIFESTS.to_owned());
    let mut answer = web.send_with(&request, std::slice::from_ref(&accept)).await?;
    if answer.status == 401
        && let Some(token) = token(&answer, web).await?
    {
        let bearer = ("authorization", format!("Bearer {token}"));
        answer = web.send_with(&request, &[accept, bearer]).await?;
    }
    match (answer.status, answer.headers.get("docker-content-digest")) {
        (200, Some(digest)) => hash(digest.trim_start_matches("sha256:"), &url),
        (200, None) => refused(&url, "it answers without a digest"),
        (status, _) => refused(&url, format!("it answers {status}")),
    }
}

/// A token for anybody, from where the registry says.
async fn token(answer: &Response, web: &dyn Web) -> Answer<Option<String>> {
    let Some(challenge) = answer.headers.get("www-authenticate") else { return Ok(None) };
    let part = |name: &str| {
        let (_, rest) = challenge.split_once(&format!("{name}=\""))?;
        rest.split('"').next().map(str::to_owned)
    };
    let Some(realm) = part("realm") else { return Ok(None) };
    let query: Vec<String> = ["service", "scope"]
        .iter()
        .filter_map(|name| part(name).map(|value| format!("{name}={value}")))
        .collect();
    let said = text(&format!("{realm}?{}", query.join("&")), web).await?;
    let value: Option<serde_json::Value> = said.and_then(|t| serde_json::from_str(&t).ok());
    Ok(value.and_then(|v| {
        let token = v.get("token").or_else(|| v.get("access_token"))?;
        token.as_str().map(str::to_owned)
    }))
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
