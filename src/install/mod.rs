//! Installs plugins: fetches what a source names, looks at it before anything is written, and says what kaws.lock is to
//! hold, so that the same is installed everywhere.
//!
//! Not here: writing kaws.lock and asking for rights (`cli`), and running what was installed (`runtime`).

pub mod archive;
mod fetch;
mod git;
mod release;
mod signature;
mod source;
mod store;

pub use source::{NoSource, Source};
pub use store::Store;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::config::Signatures;
use crate::finding::{Finding, Findings};
use crate::lock::{Archive, Installed, LockedPlugin};
use crate::name::platform;
use crate::origin::SourceFile;
use crate::plugin::{Home, Package};
use crate::port::{Cloud, Web};
use crate::runtime::Runtime;
use crate::value::{read, sha256};
use archive::Tree;
use fetch::{Download, Fetched};

/// The address of the releases' API that is asked where no other is named.
pub const RELEASES: &str = "https://api.github.com";
/// The platform of what is for all of them.
pub const ANY: &str = "any";
/// Where a release's only program lies in the folder that is made of it.
const PROGRAM: &str = "program";

/// What plugins are fetched with.
#[derive(Clone, Copy, Debug)]
pub struct Fetcher<'a> {
    /// The folder that paths start in.
    pub folder: &'a Path,
    /// The web.
    pub web: &'a dyn Web,
    /// The cloud, for objects.
    pub cloud: Option<&'a dyn Cloud>,
    /// The address of the releases' API.
    pub api: &'a str,
    /// Who may sign.
    pub signatures: &'a Signatures,
    /// What runs programs, which tell of themselves where no manifest lies beside them.
    pub runtime: Option<&'a Arc<Runtime>>,
}

/// A plugin that may be installed: fetched and checked, and nothing of it written.
#[derive(Debug)]
pub struct Candidate {
    /// It, as this machine would run it.
    pub package: Package,
    /// Its files on this machine.
    pub tree: Tree,
    /// What kaws.lock is to say of where it comes from.
    pub installed: Installed,
    /// The hash of its files, or of the hashes of all platforms' files.
    pub sha256: String,
}

/// Fetches and checks a plugin; `expected` is its name, where it is known, and `before` what kaws.lock says of it so far.
///
/// # Errors
/// All that speaks against it.
pub async fn candidate(
    source: &Source,
    from: &Fetcher<'_>,
    expected: Option<&str>,
    before: impl Fn(&str) -> Option<LockedPlugin>,
) -> Result<Candidate, Findings> {
    let what = source.to_string();
    let api = (from.api != RELEASES).then(|| from.api.to_owned());
    let mut installed = Installed { from: what.clone(), api, ..Installed::default() };
    let mut all = BTreeMap::new();
    let mut claimed = None;
    let mut files = BTreeMap::new();
    match fetch::fetch(source, from).await? {
        Fetched::Tree(tree) => {
            all.insert(ANY.to_owned(), tree);
        }
        Fetched::Commit(commit, tree) => {
            all.insert(ANY.to_owned(), tree);
            installed.revision = Some(commit);
        }
        Fetched::Files(downloads, version) => {
            claimed = version;
            let known = expected.and_then(&before);
            let manifest = told(&what, &downloads, from, signer_of(known.as_ref()))?;
            for (platform, download) in &downloads {
                all.insert(platform.clone(), tree(download, manifest.as_deref())?);
            }
            files = downloads;
        }
    }
    let (package, hashes) = checked(&what, &all)?;
    if let Some(expected) = expected.filter(|expected| *expected != package.name.as_str()) {
        let text = format!("{what} was {expected}, and calls itself {} now", package.name);
        let help = format!("if that is right: kaws plugin remove {expected}, and install it anew");
        return Err(Finding::fatal("install/changed", text).help(help).into());
    }
    let locked = before(package.name.as_str());
    installed.signer = signed(&what, &files, from.signatures, signer_of(locked.as_ref()))?;
    for (platform, download) in &files {
        let archive = Archive {
            url: download.url.clone(),
            sha256: sha256(&download.bytes),
            tree: hashes[platform].clone(),
        };
        installed.archives.insert(platform.clone(), archive);
    }
    let sha256 = common(&hashes);
    stands(&what, &package, claimed.as_deref())?;
    // Folders and branches are worked on; what was published is not.
    let published = !installed.archives.is_empty();
    let same = |locked: &LockedPlugin| published && locked.version == package.manifest.version;
    if let Some(locked) = locked.filter(same) {
        unchanged(&what, &locked, &sha256)?;
    }
    let tree = all.remove(ANY).or_else(|| all.remove(&platform())).unwrap_or_default();
    Ok(Candidate { package, tree, installed, sha256 })
}

/// Who signed a plugin, as kaws.lock has it.
fn signer_of(locked: Option<&LockedPlugin>) -> Option<&str> {
    locked?.source.as_ref()?.signer.as_deref()
}

/// Fetches again what kaws.lock holds, for this platform.
///
/// # Errors
/// What cannot be fetched any more, or is not what it was.
pub async fn restore(
    name: &str,
    locked: &LockedPlugin,
    installed: &Installed,
    from: &Fetcher<'_>,
) -> Result<Tree, Findings> {
    let changed = |why: String| -> Findings {
        let text = format!("{name} {} is not what it was when it was locked", locked.version);
        Finding::fatal("install/changed", text).note(why).into()
    };
    let tree = if installed.archives.is_empty() {
        let mut source = parsed(&installed.from)?;
        if let (Source::Git { revision, .. }, Some(commit)) = (&mut source, &installed.revision) {
            *revision = Some(commit.clone());
        }
        match fetch::fetch(&source, from).await? {
            Fetched::Tree(tree) | Fetched::Commit(_, tree) => tree,
            Fetched::Files(..) => return Err(changed("it was a folder".to_owned())),
        }
    } else {
        let Some(archive) = installed.archive() else {
            let text = format!("{name} {} is not made for {}", locked.version, platform());
            return Err(Finding::fatal("install/source", text).into());
        };
        let source = parsed(&archive.url)?;
        let Fetched::Files(mut downloads, _) = fetch::fetch(&source, from).await? else {
            return Err(changed("it was an archive".to_owned()));
        };
        let Some(download) = downloads.remove(ANY) else { return Err(changed(String::new())) };
        if sha256(&download.bytes) != archive.sha256 {
            return Err(changed(format!("{} has other bytes now", archive.url)));
        }
        let own = BTreeMap::from([(platform(), download.clone())]);
        let signer = installed.signer.as_deref();
        signed(&archive.url, &own, from.signatures, signer)?;
        let manifest = told(&installed.from, &own, from, signer)?;
        tree(&download, manifest.as_deref())?
    };
    let package = package_of(&installed.from, &tree)?;
    if package.name.as_str() != name {
        return Err(changed(format!("its name is {} now", package.name)));
    }
    if package.hash() == locked.tree() {
        Ok(tree)
    } else {
        Err(changed(format!("its files hash to {}", &package.hash()[..8])))
    }
}

/// Fetches the script of a hook.
///
/// # Errors
/// What is no source, cannot be fetched, or has another hash.
pub async fn script(
    text: &str,
    sha256: Option<&str>,
    from: &Fetcher<'_>,
) -> Result<String, Findings> {
    let script = fetch::script(&parsed(text)?, from).await?;
    let found = crate::value::sha256(script.as_bytes());
    match sha256.filter(|asked| *asked != found) {
        Some(asked) => {
            let text = format!("{text} is not the script that was asked for");
            let note = format!("asked for {asked}, found {found}");
            Err(Finding::fatal("install/changed", text).note(note).into())
        }
        None => Ok(script),
    }
}

fn parsed(text: &str) -> Result<Source, Findings> {
    Source::parse(text).map_err(|no| Finding::fatal("install/source", no.to_string()).into())
}

fn unpack(what: &str, bytes: &[u8]) -> Result<Tree, Findings> {
    archive::read(bytes).map_err(|refused| {
        Finding::fatal("install/archive", format!("{what} is not unpacked: {refused}")).into()
    })
}

/// The folder that a download makes: an archive's, or a program and what it told of itself.
fn tree(download: &Download, manifest: Option<&[u8]>) -> Result<Tree, Findings> {
    match manifest {
        Some(manifest) => Ok(Tree::from([
            ("plugin.yaml".to_owned(), manifest.to_vec()),
            (PROGRAM.to_owned(), download.bytes.clone()),
        ])),
        None => unpack(&download.url, &download.bytes),
    }
}

/// What single programs say of themselves: the manifest. Nothing where there are archives.
fn told(
    what: &str,
    downloads: &BTreeMap<String, Download>,
    from: &Fetcher<'_>,
    signer: Option<&str>,
) -> Result<Option<Vec<u8>>, Findings> {
    let own = downloads.get(&platform()).or_else(|| downloads.get(ANY));
    let Some(own) = own else {
        let names: Vec<&str> = downloads.keys().map(String::as_str).collect();
        let text = format!("{what} is not made for {}, only for {}", platform(), names.join(", "));
        return Err(Finding::fatal("install/source", text).into());
    };
    let programs: [&[u8]; 4] = [b"#!", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];
    let is_program = programs.iter().any(|magic| own.bytes.starts_with(magic));
    if archive::is_archive(&own.bytes) || !is_program {
        return Ok(None);
    }
    // Before a program is run, to tell of itself, it is whose it should be.
    signed(what, downloads, from.signatures, signer)?;
    let Some(runtime) = from.runtime else {
        let text = format!("{what} is a program, and nothing here runs programs");
        return Err(Finding::fatal("install/source", text).into());
    };
    let files = BTreeMap::from([(PROGRAM.to_owned(), Cow::Owned(own.bytes.clone()))]);
    runtime.info(PROGRAM, files).map(Some).map_err(|failure| {
        let text = format!("{what} is a program, and does not say what it is");
        let help = "it is asked with KAWS_COMMAND=INFO and answers its plugin.yaml; or publish an archive with a plugin.yaml";
        Finding::fatal("install/manifest", text).note(failure.to_string()).help(help).into()
    })
}

fn package_of(what: &str, tree: &Tree) -> Result<Package, Findings> {
    let text = tree.get("plugin.yaml").cloned().unwrap_or_default();
    let text = String::from_utf8(text).map_err(|_| -> Findings {
        let text = format!("plugin.yaml of {what} is not text in UTF-8");
        Finding::fatal("install/manifest", text).into()
    })?;
    let file = SourceFile::new(format!("{what}: plugin.yaml"), text);
    let files = tree.iter().filter(|(path, _)| *path != "plugin.yaml");
    let files = files.map(|(path, bytes)| (path.clone(), Cow::Owned(bytes.clone()))).collect();
    Package::read(read(&file)?, Home::Installed(what.to_owned()), files)
}

/// Reads all platforms' folders: one plugin, told in the same words. Returns this platform's, and all hashes.
fn checked(
    what: &str,
    all: &BTreeMap<String, Tree>,
) -> Result<(Package, BTreeMap<String, String>), Findings> {
    let mut hashes = BTreeMap::new();
    let mut own = None;
    let mut manifests: Vec<(&String, Option<&Vec<u8>>)> = Vec::new();
    for (name, tree) in all {
        let package = package_of(what, tree)?;
        hashes.insert(name.clone(), package.hash().to_owned());
        manifests.push((name, tree.get("plugin.yaml")));
        if name == ANY || *name == platform() {
            own = Some(package);
        }
    }
    if let Some((name, _)) = manifests.iter().find(|(_, text)| *text != manifests[0].1) {
        let text = format!("{what} says one thing for {}, and another for {name}", manifests[0].0);
        let help = "plugin.yaml is the same in all archives of a release";
        return Err(Finding::fatal("install/manifest", text).help(help).into());
    }
    own.map(|own| (own, hashes)).ok_or_else(|| {
        let text = format!("{what} is not made for {}", platform());
        Finding::fatal("install/source", text).into()
    })
}

/// One hash for all platforms.
fn common(hashes: &BTreeMap<String, String>) -> String {
    match hashes.get(ANY) {
        Some(one) => one.clone(),
        None => {
            let lines = hashes.iter().map(|(platform, hash)| format!("{hash}  {platform}\n"));
            sha256(lines.collect::<String>().as_bytes())
        }
    }
}

/// Checks the signatures of all downloads; they are by the same key.
fn signed(
    what: &str,
    files: &BTreeMap<String, Download>,
    trusted: &Signatures,
    before: Option<&str>,
) -> Result<Option<String>, Findings> {
    let mut signers = Vec::new();
    for download in files.values() {
        let beside = download.signature.as_deref();
        signers.push(signature::check(&download.url, &download.bytes, beside, trusted, before)?);
    }
    if files.is_empty() {
        // Folders and commits have no signature of minisign's.
        signers.push(signature::check(what, &[], None, trusted, before)?);
    }
    signers.dedup();
    match signers.as_slice() {
        [Some(signer)] if before.is_some_and(|before| before != signer) => {
            let text = format!("{what} is signed by {signer}, and the one before by another key");
            let finding = Finding::fatal("install/signature", text);
            Err(finding.help("if that is right: kaws plugin remove it, and install it anew").into())
        }
        [one] => Ok(one.clone()),
        _ => {
            let text = format!("the archives of {what} are signed by several keys");
            Err(Finding::fatal("install/signature", text).into())
        }
    }
}

/// What a plugin of somebody else's must say, and what its release said of it.
fn stands(what: &str, package: &Package, claimed: Option<&str>) -> Result<(), Findings> {
    let manifest = &package.manifest;
    let mut findings = Findings::new();
    if let Some(claimed) = claimed.filter(|claimed| *claimed != manifest.version) {
        let text = format!("the release says {claimed}, and its plugin.yaml {}", manifest.version);
        findings.push(Finding::fatal("install/manifest", text).note(what.to_owned()));
    }
    let adds = !manifest.initialise.is_empty() || !manifest.render.is_empty();
    if package.writes.is_none() && adds {
        let text = format!("{} does not say where it writes", manifest.name);
        let finding = Finding::fatal("plugin/writes", text).at(&package.node.origin);
        findings
            .push(finding.help(
                "its author adds `writes:` to plugin.yaml: who installs it reads that first",
            ));
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// A version that was locked is never another one later.
fn unchanged(what: &str, locked: &LockedPlugin, sha256: &str) -> Result<(), Findings> {
    if locked.sha256 == sha256 {
        return Ok(());
    }
    let text = format!("{what} is not the {} that kaws.lock recorded", locked.version);
    let note = format!("recorded {}, found {}", &locked.sha256[..8], &sha256[..8]);
    let help = "a published version does not change: ask its publisher what happened";
    Err(Finding::fatal("install/changed", text).note(note).help(help).into())
}
