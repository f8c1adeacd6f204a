//! Charts: their digests and their archives, from repositories and OCI registries.

use std::collections::BTreeMap;

use crate::port::{Answer, CloudError, ErrorKind, Request, Response, Web};
use crate::value::sha256;

/// What an OCI registry may answer with, as it is asked for.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json";
/// What a chart's archive is called in an OCI manifest.
const ARCHIVE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

fn refused<T>(operation: &str, text: impl Into<String>) -> Answer<T> {
    Err(CloudError::new(operation, ErrorKind::Refused, text))
}

/// Returns the SHA-256 that identifies a chart: of its archive in a repository, of its manifest in a
/// registry.
///
/// # Errors
/// The web's, and a publisher who does not say.
pub async fn chart_digest(
    repository: &str,
    chart: &str,
    version: &str,
    web: &dyn Web,
) -> Answer<String> {
    if let Some(registry) = repository.strip_prefix("oci://") {
        let (host, path) = location(registry, chart);
        let url = format!("https://{host}/v2/{path}/manifests/{}", tag(version));
        let request = Request { method: "HEAD".to_owned(), ..Request::get(&url) };
        let answer = asked(&request, web).await?;
        return match (answer.status, answer.headers.get("docker-content-digest")) {
            (200, Some(digest)) => hash(digest, &url),
            (200, None) => refused(&url, "it answers without a digest"),
            (status, _) => refused(&url, format!("it answers {status}")),
        };
    }
    let (url, entry) = indexed(repository, chart, version, web).await?;
    match entry.digest {
        Some(digest) => hash(&digest, &url),
        None => refused(&url, format!("it has no digest for {chart} {version}")),
    }
}

/// Returns a chart's archive, if it is the one that `digest` (`sha256:…`) says.
///
/// # Errors
/// The web's, and a chart that is another one by now.
pub(super) async fn chart_archive(
    repository: &str,
    chart: &str,
    version: &str,
    digest: &str,
    web: &dyn Web,
) -> Answer<Vec<u8>> {
    let digest = digest.trim_start_matches("sha256:");
    if let Some(registry) = repository.strip_prefix("oci://") {
        let (host, path) = location(registry, chart);
        let url = format!("https://{host}/v2/{path}/manifests/sha256:{digest}");
        let manifest = bytes(&Request::get(&url), digest, web).await?;
        let manifest: serde_json::Value =
            serde_json::from_slice(&manifest).or_else(|_| refused(&url, "it is no manifest"))?;
        let layers = manifest["layers"].as_array().into_iter().flatten();
        let layer = layers.into_iter().find(|l| l["mediaType"] == ARCHIVE);
        let Some(blob) = layer.and_then(|l| l["digest"].as_str()) else {
            return refused(&url, "no chart is in it");
        };
        let url = format!("https://{host}/v2/{path}/blobs/{blob}");
        return bytes(&Request::get(&url), blob.trim_start_matches("sha256:"), web).await;
    }
    let (url, entry) = indexed(repository, chart, version, web).await?;
    let Some(place) = entry.urls.first() else {
        return refused(&url, format!("it does not say where {chart} {version} is"));
    };
    let place = if place.contains("://") {
        place.clone()
    } else {
        format!("{}/{place}", repository.trim_end_matches('/'))
    };
    bytes(&Request::get(&place), digest, web).await
}

/// What is at an address, if its hash is the one that is wanted.
async fn bytes(request: &Request, wanted: &str, web: &dyn Web) -> Answer<Vec<u8>> {
    let answer = asked(request, web).await?;
    if answer.status != 200 {
        return refused(&request.url, format!("it answers {}", answer.status));
    }
    let found = sha256(&answer.body);
    if found != wanted {
        return refused(
            &request.url,
            format!("its SHA-256 is {found}, and kaws.lock says {wanted}"),
        );
    }
    Ok(answer.body)
}

#[derive(serde::Deserialize)]
struct Index {
    #[serde(default)]
    entries: BTreeMap<String, Vec<Entry>>,
}

/// One version of a chart in a repository's index.
#[derive(serde::Deserialize)]
struct Entry {
    version: String,
    digest: Option<String>,
    #[serde(default)]
    urls: Vec<String>,
}

/// A chart in a repository's index, and where that is.
async fn indexed(
    repository: &str,
    chart: &str,
    version: &str,
    web: &dyn Web,
) -> Answer<(String, Entry)> {
    let url = format!("{}/index.yaml", repository.trim_end_matches('/'));
    let answer = web.send(&Request::get(&url)).await?;
    match answer.status {
        200 => {}
        404 | 403 | 410 => return refused(&url, "it is not there"),
        status => return refused(&url, format!("it answers {status}")),
    }
    let mut index: Index = match serde_yaml::from_str(&String::from_utf8_lossy(&answer.body)) {
        Ok(index) => index,
        Err(error) => return refused(&url, format!("it is no index of charts: {error}")),
    };
    let plain = |text: &str| text.trim_start_matches('v').to_owned();
    let mut entries = index.entries.remove(chart).unwrap_or_default();
    match entries.iter().position(|e| plain(&e.version) == plain(version)) {
        Some(at) => Ok((url, entries.swap_remove(at))),
        None => refused(&url, format!("it has no digest for {chart} {version}")),
    }
}

/// Host and path of a chart in a registry.
fn location(registry: &str, chart: &str) -> (String, String) {
    let (host, path) = registry.trim_end_matches('/').split_once('/').unwrap_or((registry, ""));
    let path = if path.is_empty() { chart.to_owned() } else { format!("{path}/{chart}") };
    (host.to_owned(), path)
}

/// Tags cannot have a plus: Helm writes it so.
fn tag(version: &str) -> String {
    version.replace('+', "_")
}

/// Asks a registry, with a token for anybody where it wants one.
async fn asked(request: &Request, web: &dyn Web) -> Answer<Response> {
    let accept = ("accept", MANIFESTS.to_owned());
    let headers: &[(&str, String)] =
        if request.url.contains("/manifests/") { std::slice::from_ref(&accept) } else { &[] };
    let answer = web.send_with(request, headers).await?;
    if answer.status == 401
        && let Some(token) = token(&answer, web).await?
    {
        let mut headers = headers.to_vec();
        headers.push(("authorization", format!("Bearer {token}")));
        return web.send_with(request, &headers).await;
    }
    Ok(answer)
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
    let said = web.send(&Request::get(&format!("{realm}?{}", query.join("&")))).await?;
    let value: Option<serde_json::Value> = serde_json::from_slice(&said.body).ok();
    Ok(value.and_then(|v| {
        let token = v.get("token").or_else(|| v.get("access_token"))?;
        token.as_str().map(str::to_owned)
    }))
}

fn hash(text: &str, place: &str) -> Answer<String> {
    let text = text.trim_start_matches("sha256:");
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(text.to_lowercase())
    } else {
        refused(place, format!("`{text}` is no SHA-256"))
    }
}
