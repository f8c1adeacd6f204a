//! `kaws plugin install`, `update` and `remove`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Exit, only_file, options, tell, unreadable};
use crate::cli::arguments::{FetchArguments, InstallArguments, UpdateArguments};
use crate::cli::deploying::{connect, fail, runtime};
use crate::cli::report::{say, say_error, say_findings};
use crate::cli::{Common, Output};
use crate::config::Cluster;
use crate::finding::{Finding, Findings, plain};
use crate::install::{Candidate, Fetcher, RELEASES, Source, Store, candidate, restore};
use crate::load::{self, Catalogue};
use crate::lock::{Installed, LockFile, LockedPlugin};
use crate::plugin::{Home, Package};
use crate::port::Cloud;
use crate::web::Http;

/// Installs what a source names, or what kaws.lock does.
pub(super) fn install(common: &Common, arguments: &InstallArguments) -> Exit {
    runtime()
        .block_on(async {
            let session = Session::start(common, &arguments.how)?;
            match &arguments.source {
                None => session.restore().await,
                Some(text) => {
                    let source = session.placed(session.parsed(text)?);
                    session.take(&[Wanted { source, api: None, name: None }]).await
                }
            }
        })
        .into()
}

/// Installs newer versions of what was installed.
pub(super) fn update(common: &Common, arguments: &UpdateArguments) -> Exit {
    runtime()
        .block_on(async {
            let session = Session::start(common, &arguments.how)?;
            let mut sources = Vec::new();
            for (name, installed) in session.chosen(&arguments.names)? {
                let source = session.newer(&name, &installed, arguments.to.as_deref())?;
                sources.push(Wanted { source, api: installed.api, name: Some(name) });
            }
            session.take(&sources).await
        })
        .into()
}

/// Takes a plugin out of kaws.lock.
pub(super) fn remove(common: &Common, name: &str) -> Exit {
    let removed = || {
        let file = only_file(common)?;
        let (config, lock) = read(common, file)?;
        let mut new = lock.file().clone();
        if new.plugins.get(name).is_none_or(|plugin| plugin.source.is_none()) {
            let installed: Vec<&str> = installed(&new).map(|(name, _)| name.as_str()).collect();
            say_error(&format!("{name} was not installed; what was: {}", installed.join(", ")));
            return Err(Exit::Findings);
        }
        let uses = |(used, form): (&String, &crate::config::PluginUse)| {
            used == name || form.uses.as_deref() == Some(name)
        };
        if config.plugins.iter().any(uses) {
            let text = format!("{} still names the plugin {name}", file.display());
            let finding = Finding::fatal("install/in-use", text);
            tell(common, &finding.help(format!("take plugins.{name} out of it first")).into());
            return Err(Exit::Findings);
        }
        new.plugins.remove(name);
        write(file, &new)?;
        say(&format!(
            "{name} is out of kaws.lock; its files stay on this machine, for other clusters"
        ));
        Ok(())
    };
    removed().into()
}

fn read(common: &Common, file: &Path) -> Result<(Cluster, crate::lock::Lock), Exit> {
    let outcome = load::config(&options(common, file)).map_err(|error| unreadable(&error))?;
    outcome.value.ok_or_else(|| {
        tell(common, &outcome.findings);
        Exit::Findings
    })
}

fn write(file: &Path, lock: &LockFile) -> Result<(), Exit> {
    let path = file.parent().unwrap_or(Path::new("")).join("kaws.lock");
    let lock = LockFile { kaws: env!("CARGO_PKG_VERSION").to_owned(), ..lock.clone() };
    super::lock::write(&path, &lock)
}

fn installed(lock: &LockFile) -> impl Iterator<Item = (&String, &Installed)> {
    lock.plugins.iter().filter_map(|(name, plugin)| Some((name, plugin.source.as_ref()?)))
}

/// What one call works with.
struct Session<'a> {
    common: &'a Common,
    how: &'a FetchArguments,
    file: &'a Path,
    /// The folder of the cluster's file: paths in kaws.lock start there.
    folder: PathBuf,
    config: Cluster,
    lock: LockFile,
    store: Store,
    catalogue: Catalogue,
    web: Http,
}

/// A plugin that is wanted.
struct Wanted {
    source: Source,
    /// The address of the releases' API, where kaws.lock knows it.
    api: Option<String>,
    /// Its name, where kaws.lock knows it.
    name: Option<String>,
}

/// What a candidate was granted, of what it asks for.
struct Rights {
    asked: Vec<String>,
    granted: Vec<String>,
}

impl<'a> Session<'a> {
    fn start(common: &'a Common, how: &'a FetchArguments) -> Result<Self, Exit> {
        let file = only_file(common)?;
        let (config, lock) = read(common, file)?;
        let Some(store) = common.store.clone().map(Store) else {
            say_error("this machine says no place for plugins: set HOME or XDG_DATA_HOME");
            return Err(Exit::Files);
        };
        let catalogue = load::catalogue(&options(common, file), &config.plugin_dirs)
            .map_err(|error| unreadable(&error))?;
        let lock = lock.file().clone();
        let folder = load::folder_of(file);
        Ok(Self { common, how, file, folder, config, lock, store, catalogue, web: Http::patient() })
    }

    fn parsed(&self, text: &str) -> Result<Source, Exit> {
        Source::parse(text)
            .map_err(|no| self.refuse(&Finding::fatal("install/source", no.to_string()).into()))
    }

    /// What was typed starts here; what kaws.lock says of it, where the cluster's file is.
    fn placed(&self, source: Source) -> Source {
        match source {
            Source::Path(path) if self.folder != Path::new(".") => {
                let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone().into());
                Source::Path(absolute.to_string_lossy().into_owned())
            }
            other => other,
        }
    }

    fn refuse(&self, findings: &Findings) -> Exit {
        tell(self.common, findings);
        Exit::Findings
    }

    async fn cloud(&self, needed: bool) -> Result<Option<Box<dyn Cloud>>, Exit> {
        if !needed {
            return Ok(None);
        }
        let cloud = connect(&self.how.cloud, &self.config, self.file, BTreeMap::new());
        cloud.await.map(Some).map_err(|error| fail(&error))
    }

    fn fetcher<'s>(&'s self, cloud: Option<&'s dyn Cloud>, api: Option<&'s String>) -> Fetcher<'s> {
        let named = self.how.releases.as_ref().or(api);
        Fetcher {
            folder: &self.folder,
            web: &self.web,
            cloud,
            api: named.map_or(RELEASES, String::as_str),
            signatures: &self.config.signatures,
            runtime: self.common.programs.as_ref(),
        }
    }

    /// What was installed, all of it or what is named.
    fn chosen(&self, names: &[String]) -> Result<Vec<(String, Installed)>, Exit> {
        let all: Vec<_> = installed(&self.lock).map(|(n, i)| (n.clone(), i.clone())).collect();
        if let Some(name) = names.iter().find(|name| !all.iter().any(|(n, _)| n == *name)) {
            say_error(&format!("{name} was not installed"));
            return Err(Exit::Findings);
        }
        Ok(all.into_iter().filter(|(n, _)| names.is_empty() || names.contains(n)).collect())
    }

    /// Where a newer version comes from.
    fn newer(&self, name: &str, installed: &Installed, to: Option<&str>) -> Result<Source, Exit> {
        let mut source = self.parsed(&installed.from)?;
        match (&mut source, to) {
            (_, None) => {}
            (Source::Release { version, .. }, Some(to)) => *version = Some(to.to_owned()),
            (Source::Git { revision, .. }, Some(to)) => *revision = Some(to.to_owned()),
            _ => {
                say_error(&format!(
                    "{name} comes from {source}, which has no versions: install it from another address"
                ));
                return Err(Exit::Usage);
            }
        }
        Ok(source)
    }

    /// Fetches and checks all sources, and only then writes anything.
    async fn take(&self, sources: &[Wanted]) -> Result<(), Exit> {
        let cloud =
            self.cloud(sources.iter().any(|w| matches!(w.source, Source::S3 { .. }))).await?;
        let mut findings = Findings::new();
        let mut all = Vec::new();
        for Wanted { source, api, name } in sources {
            let before = |name: &str| self.lock.plugins.get(name).cloned();
            let from = self.fetcher(cloud.as_deref(), api.as_ref());
            match candidate(source, &from, name.as_deref(), before).await {
                Ok(candidate) => match self.admitted(candidate) {
                    Ok(admitted) => all.push(admitted),
                    Err(finding) => findings.push(*finding),
                },
                Err(wrong) => findings.extend(wrong),
            }
        }
        if findings.any_fatal() {
            return Err(self.refuse(&findings));
        }
        self.keep(all)
    }

    /// Whether a candidate may stand beside what there is, and what it may reach.
    fn admitted(&self, candidate: Candidate) -> Result<(Candidate, Rights), Box<Finding>> {
        let (name, manifest) = (&candidate.package.name, &candidate.package.manifest);
        let others = self.catalogue.places(name.as_str()).iter();
        let others = others.filter(|found| !matches!(found.home, Home::Installed(_)));
        if others.count() > 0 && manifest.replaces.as_deref() != Some(name.as_str()) {
            let text = format!("there is a plugin {name} already, which was not installed");
            let help = "two plugins of one name cannot be told apart: kaws plugin list --all";
            return Err(Box::new(Finding::fatal("plugin/duplicate", text).help(help)));
        }
        let asked = manifest.capabilities.rights();
        let locked = self.lock.plugins.get(name.as_str());
        let had = locked.map_or(&[][..], |locked| locked.granted.as_slice());
        let mut granted: Vec<String> = asked.iter().filter(|r| had.contains(r)).cloned().collect();
        let open: Vec<&String> = asked.iter().filter(|right| !had.contains(right)).collect();
        let new = match (locked, self.powers_before(name.as_str())) {
            (None, _) => Vec::new(),
            (Some(locked), _) if locked.sha256 == candidate.sha256 => Vec::new(),
            (Some(_), Some(known)) => {
                manifest.powers().into_iter().filter(|power| !known.contains(power)).collect()
            }
            (Some(_), None) => {
                let text = format!("{name} is in kaws.lock, and not on this machine");
                let help = "kaws plugin install first: then it can be seen what is new";
                return Err(Box::new(Finding::fatal("plugin/not-installed", text).help(help)));
            }
        };
        let new: Vec<&String> = new.iter().collect();
        let question: Vec<&String> = if new.is_empty() { open } else { new.clone() };
        if self.how.grant || (!question.is_empty() && self.agreed(&candidate, &question)) {
            granted.clone_from(&asked);
        } else if !new.is_empty() {
            let text = format!(
                "{name} {} does what {} did not: {}",
                manifest.version,
                locked.map_or("the one before", |locked| locked.version.as_str()),
                new.iter().map(|power| plain(power)).collect::<Vec<_>>().join(", ")
            );
            let help = "if it should, once more with --grant";
            return Err(Box::new(Finding::fatal("install/new-rights", text).help(help)));
        }
        Ok((candidate, Rights { asked, granted }))
    }

    /// What the version that is installed does and asks for; nothing where it is not on this machine.
    fn powers_before(&self, name: &str) -> Option<Vec<String>> {
        let mut found = self.catalogue.places(name).iter();
        let found = found.find(|found| matches!(found.home, Home::Installed(_)))?;
        Some(load::package(name, found).ok()?.ok()?.manifest.powers())
    }

    /// Asks on the terminal; without one nobody agrees.
    fn agreed(&self, candidate: &Candidate, open: &[&String]) -> bool {
        use std::io::IsTerminal as _;
        if self.common.output == Output::Json || !std::io::stdin().is_terminal() {
            return false;
        }
        let manifest = &candidate.package.manifest;
        let list: String = open.iter().map(|power| format!("\n  {}", plain(power))).collect();
        say(&format!("{} {} is new with, or asks for:{list}", manifest.name, manifest.version));
        super::asked("Agree, and grant what it asks for?", "").is_ok()
    }

    /// Puts plugins into the store, and then all of them into kaws.lock.
    fn keep(&self, all: Vec<(Candidate, Rights)>) -> Result<(), Exit> {
        let mut lock = self.lock.clone();
        let mut rows = Vec::new();
        for (candidate, rights) in all {
            let Candidate { package, tree, installed, sha256 } = candidate;
            let name = package.name.to_string();
            self.put(&name, package.hash(), &tree)?;
            let before = lock.plugins.get(&name).cloned();
            let locked = LockedPlugin {
                version: package.manifest.version.clone(),
                sha256,
                accepted: None,
                granted: rights.granted.clone(),
                source: Some(installed),
            };
            rows.push(json!({"name": name, "version": locked.version, "sha256": locked.sha256,
                "before": before.as_ref().map(|b| &b.version),
                "changed": before.as_ref().map(|b| &b.sha256) != Some(&locked.sha256)}));
            if self.common.output == Output::Text {
                self.describe(&package, &locked, before.as_ref(), &rights);
            }
            lock.plugins.insert(name, locked);
        }
        write(self.file, &lock)?;
        if self.common.output == Output::Json {
            say(&json!({ "installed": rows }).to_string());
        }
        Ok(())
    }

    fn put(
        &self,
        name: &str,
        sha256: &str,
        tree: &crate::install::archive::Tree,
    ) -> Result<PathBuf, Exit> {
        self.store.put(name, sha256, tree).map_err(|error| {
            say_error(&format!(
                "cannot write {}: {error}",
                self.store.folder(name, sha256).display()
            ));
            Exit::Files
        })
    }

    fn describe(
        &self,
        package: &Package,
        locked: &LockedPlugin,
        before: Option<&LockedPlugin>,
        rights: &Rights,
    ) {
        let manifest = &package.manifest;
        let source = locked.source.as_ref().map_or("", |source| source.from.as_str());
        let news = match before {
            Some(before) if before.sha256 == locked.sha256 => ", as before".to_owned(),
            Some(before) => format!(", instead of {}", before.version),
            None => String::new(),
        };
        say(&format!("{} {} from {source}{news}", manifest.name, manifest.version));
        say(&format!("  {}", plain(&manifest.description)));
        if let Some(writes) = manifest.writes.as_ref().filter(|writes| !writes.is_empty()) {
            say(&format!("  adds to    {}", plain(&writes.join(", "))));
        }
        for name in manifest.commands.keys() {
            say(&format!("  command    kaws {name}, which runs as you"));
        }
        if !manifest.programs_of().is_empty() {
            say("  runs       a program of its own");
        }
        if let Some(signer) = locked.source.as_ref().and_then(|source| source.signer.as_ref()) {
            say(&format!("  signed by  {signer}"));
        }
        for right in &rights.asked {
            let word = if rights.granted.contains(right) { "granted" } else { "not granted" };
            say(&format!("  asks for   {right}: {word}"));
        }
        if rights.granted.len() < rights.asked.len() {
            say(&format!("  to grant that: kaws lock --grant {}", manifest.name));
        }
        if !self.config.plugins.contains_key(&manifest.name) {
            say(&format!(
                "  to turn it on, in {}:\n\n    plugins:\n      {}: {{}}\n",
                self.file.display(),
                manifest.name
            ));
        }
    }

    /// Installs what kaws.lock names, each with the hash it has there.
    async fn restore(&self) -> Result<(), Exit> {
        let all: Vec<_> = installed(&self.lock).collect();
        let there = |name: &str, locked: &LockedPlugin| {
            let found = self.catalogue.places(name).iter();
            let mut found = found.filter(|found| matches!(found.home, Home::Installed(_)));
            let package = found.next().map(|found| load::package(name, found));
            matches!(package, Some(Ok(Ok(package))) if package.hash() == locked.tree())
        };
        let open: Vec<_> =
            all.iter().filter(|(name, _)| !there(name, &self.lock.plugins[*name])).collect();
        let cloud = self.cloud(open.iter().any(|(_, i)| i.from.starts_with("s3://"))).await?;
        let mut findings = Findings::new();
        let mut rows: Vec<Value> = Vec::new();
        for (name, installed) in &open {
            let locked = &self.lock.plugins[*name];
            let from = self.fetcher(cloud.as_deref(), installed.api.as_ref());
            match restore(name, locked, installed, &from).await {
                Ok(tree) => {
                    self.put(name, locked.tree(), &tree)?;
                    rows.push(json!({"name": name, "version": locked.version}));
                    if self.common.output == Output::Text {
                        say(&format!("{name} {} from {}", locked.version, installed.from));
                    }
                }
                Err(wrong) => findings.extend(wrong),
            }
        }
        if self.common.output == Output::Json {
            let findings = crate::cli::report::findings_json(&findings);
            say(&json!({"installed": rows, "findings": findings}).to_string());
        } else {
            say_findings(&findings, true);
            say(&format!(
                "kaws.lock names {}: {} installed now, {} there before",
                all.len(),
                rows.len(),
                all.len() - open.len()
            ));
        }
        if findings.any_fatal() { Err(Exit::Findings) } else { Ok(()) }
    }
}
