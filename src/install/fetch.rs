//! Fetches what a source names: folders, archives, commits. Not here: whether it may be installed (`mod`).

use std::collections::BTreeMap;
use std::path::Path;

use super::archive::{self, Tree};
use super::release::Release;
use super::{ANY, Fetcher, Source, git};
use crate::finding::{Finding, Findings};
use crate::load::{Found, package, read_bytes};
use crate::plugin::Home;
use crate::port::Request;

/// What came from a source.
#[derive(Debug)]
pub(super) enum Fetched {
    /// A folder's files.
    Tree(Tree),
    /// A commit, and its files.
    Commit(String, Tree),
    /// Archives, or single programs, by platform.
    Files(BTreeMap<String, Download>, Option<String>),
}

/// Something that was downloaded.
#[derive(Clone, Debug)]
pub(super) struct Download {
    /// Where from.
    pub(super) url: String,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// What stands beside it, if it is signed.
    pub(super) signature: Option<Vec<u8>>,
}

fn failed(source: &str, why: impl std::fmt::Display) -> Findings {
    Finding::fatal("install/source", format!("{source} cannot be fetched"))
        .note(why.to_string())
        .into()
}

/// Fetches a source.
///
/// # Errors
/// What there is to say of it.
pub(super) async fn fetch(source: &Source, from: &Fetcher<'_>) -> Result<Fetched, Findings> {
    let name = source.to_string();
    match source {
        Source::Path(path) => path_of(&name, &from.folder.join(path)),
        Source::Url(url) => one(download(url, from).await?),
        Source::S3 { .. } => one(download(&name, from).await?),
        Source::Git { url, revision, folder } => {
            let fetched = git::Commit::fetch(url, revision.as_deref());
            let files = fetched.and_then(|commit| {
                let files = commit.files(folder.as_deref())?;
                Ok((commit.id, files))
            });
            let (id, files) = files.map_err(|why| failed(&name, why))?;
            let tree = archive::gathered(files).map_err(|refused| {
                let text = format!("{name} is not taken: {refused}");
                Findings::from(Finding::fatal("install/archive", text))
            })?;
            Ok(Fetched::Commit(id, tree))
        }
        Source::Release { repository, version } => {
            released(&name, repository, version.as_deref(), from).await
        }
    }
}

/// The largest script of a hook, in bytes.
const SCRIPT: usize = 256 * 1024;

/// Fetches a hook's script: a text.
///
/// # Errors
/// What there is to say of it.
pub(super) async fn script(source: &Source, from: &Fetcher<'_>) -> Result<String, Findings> {
    let name = source.to_string();
    let bytes = match source {
        Source::Path(path) => {
            let read = read_bytes(&from.folder.join(path), SCRIPT as u64);
            read.map_err(|error| failed(&name, error.source))?
        }
        Source::Git { url, revision, folder: Some(path) } => {
            let commit = git::Commit::fetch(url, revision.as_deref());
            commit.and_then(|commit| commit.file(path)).map_err(|why| failed(&name, why))?
        }
        Source::Url(_) | Source::S3 { .. } => match get(&name, from).await? {
            Some(bytes) => bytes,
            None => return Err(failed(&name, "there is nothing")),
        },
        _ => return Err(failed(&name, "it names no file: git+https://…@REV//PATH does")),
    };
    if bytes.len() > SCRIPT {
        return Err(failed(&name, format!("it has {} bytes, over {SCRIPT}", bytes.len())));
    }
    String::from_utf8(bytes).map_err(|_| failed(&name, "it is not text in UTF-8"))
}

fn one(download: Download) -> Result<Fetched, Findings> {
    Ok(Fetched::Files(BTreeMap::from([(ANY.to_owned(), download)]), None))
}

/// The largest archive of this machine, in bytes.
const ARCHIVE: u64 = 256 * 1024 * 1024;

fn path_of(name: &str, path: &Path) -> Result<Fetched, Findings> {
    if path.is_dir() {
        return folder(name, path).map(Fetched::Tree);
    }
    let bytes = read_bytes(path, ARCHIVE).map_err(|error| failed(name, error.source))?;
    let mut signature = path.as_os_str().to_owned();
    signature.push(".minisig");
    let signature = read_bytes(Path::new(&signature), ARCHIVE).ok();
    one(Download { url: name.to_owned(), bytes, signature })
}

/// Reads a folder as any plugin's folder is read.
fn folder(name: &str, path: &Path) -> Result<Tree, Findings> {
    let real = path.canonicalize().map_err(|error| failed(name, error))?;
    let own = real.file_name().map(|own| own.to_string_lossy().into_owned()).unwrap_or_default();
    let found =
        Found { home: Home::User(name.trim_end_matches('/').to_owned()), folder: Some(real) };
    let read = package(&own, &found).map_err(|error| failed(name, error))??;
    let manifest = read.node.origin.file().text.clone().into_bytes();
    let mut tree: Tree = read.files.into_iter().map(|(path, b)| (path, b.into_owned())).collect();
    tree.insert("plugin.yaml".to_owned(), manifest);
    Ok(tree)
}

/// Downloads an address, and the signature beside it.
pub(super) async fn download(url: &str, from: &Fetcher<'_>) -> Result<Download, Findings> {
    let Some(bytes) = get(url, from).await? else {
        return Err(failed(url, "there is nothing"));
    };
    let signature = beside(&format!("{url}.minisig"), from).await?;
    Ok(Download { url: url.to_owned(), bytes, signature })
}

/// Returns what is at an address; nothing where nothing is.
async fn get(url: &str, from: &Fetcher<'_>) -> Result<Option<Vec<u8>>, Findings> {
    found(url, from, &[404, 410]).await
}

/// Returns the signature beside an archive: stores that list nothing forbid what they do not have.
async fn beside(url: &str, from: &Fetcher<'_>) -> Result<Option<Vec<u8>>, Findings> {
    found(url, from, &[403, 404, 410]).await
}

async fn found(url: &str, from: &Fetcher<'_>, absent: &[u16]) -> Result<Option<Vec<u8>>, Findings> {
    if let Ok(Source::S3 { bucket, key }) = Source::parse(url) {
        let Some(cloud) = from.cloud else { return Err(failed(url, "no cloud was named")) };
        let object = cloud.get(&bucket, &key).await.map_err(|error| failed(url, error))?;
        return Ok(object.map(|object| object.bytes));
    }
    let answer = from.web.send(&Request::get(url)).await.map_err(|error| failed(url, error))?;
    match answer.status {
        200 => Ok(Some(answer.body)),
        status if absent.contains(&status) => Ok(None),
        status => Err(failed(url, format!("it answers {status}"))),
    }
}

async fn released(
    name: &str,
    repository: &str,
    version: Option<&str>,
    from: &Fetcher<'_>,
) -> Result<Fetched, Findings> {
    let base = format!("{}/repos/{repository}/releases", from.api.trim_end_matches('/'));
    let places = match version {
        None => vec![format!("{base}/latest")],
        Some(version) => vec![format!("{base}/tags/v{version}"), format!("{base}/tags/{version}")],
    };
    let mut told = None;
    for place in &places {
        told = told.or(get(place, from).await?);
    }
    let Some(told) = told else {
        let what = version.map_or_else(|| "no release".to_owned(), |v| format!("no release {v}"));
        return Err(failed(name, format!("{} knows {what} of {repository}", from.api)));
    };
    let release: Release =
        serde_json::from_slice(&told).map_err(|error| failed(name, format!("{base}: {error}")))?;
    let mut all = BTreeMap::new();
    for (platform, asset) in release.chosen().map_err(|why| failed(name, why))? {
        let url = &asset.browser_download_url;
        match Source::parse(url) {
            Ok(Source::Url(_)) => {}
            Ok(_) => return Err(failed(url, "it is no address of the web")),
            Err(no) => return Err(failed(url, no)),
        }
        let Some(bytes) = get(url, from).await? else {
            return Err(failed(url, "there is nothing"));
        };
        let signature = match release.asset(&format!("{}.minisig", asset.name)) {
            Some(asset) => beside(&asset.browser_download_url, from).await?,
            None => None,
        };
        let url = asset.browser_download_url.clone();
        all.insert(platform, Download { url, bytes, signature });
    }
    Ok(Fetched::Files(all, Some(release.version().to_owned())))
}
