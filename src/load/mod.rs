//! Reads everything that rendering needs, and then never again: `cluster.yaml`, plugins, orders, lock.
//!
//! Not here: what any of it means for the cluster (`pipeline`).

mod cluster;
mod discover;
mod embedded;
mod files;
mod instances;

pub use discover::{Catalogue, Found, installed, package};
pub use embedded::{EXAMPLE, example_cluster, example_names, known_pins, partials};
pub use files::{Error, read_text};
pub(crate) use files::{folder_of, read_bytes};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Cluster;
use crate::finding::{Findings, Outcome};
use crate::lock::Lock;
use crate::order::Order;
use crate::pipeline::Setup;
use crate::plugin::Plugin;
use crate::runtime::Runtime;
use crate::template::Engine;

/// What to read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's file.
    pub file: PathBuf,
    /// Further folders of plugins.
    pub plugin_dirs: Vec<PathBuf>,
    /// Whether pins must all be in kaws.lock.
    pub locked: bool,
    /// One of kaws's own example clusters, in place of the file's text; the file's folder still counts.
    pub example: Option<String>,
    /// A plugin's folder that stands for its name alone, whatever else has that name: the one under test.
    pub under_test: Option<PathBuf>,
    /// Where installed plugins lie on this machine; without it there are none.
    pub store: Option<PathBuf>,
    /// What runs plugins that are programs; without it they are fatal findings.
    pub runtime: Option<Arc<Runtime>>,
    /// Native code beside kaws's own: of a program that has kaws as a library, and plugins of its own.
    pub natives: Natives,
}

impl Options {
    /// Returns what is needed to read a cluster's file, and nothing else.
    #[must_use]
    pub fn of(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            plugin_dirs: Vec::new(),
            locked: false,
            example: None,
            under_test: None,
            store: None,
            runtime: None,
            natives: Natives::new(),
        }
    }
}

/// Native code in the binary, by the name of its plugin.
pub type Natives = BTreeMap<&'static str, Arc<dyn Plugin>>;

/// Reads all that `options` name.
///
/// # Errors
/// Files that cannot be read. Everything about their contents is a finding; where one is fatal there is
/// no setup.
pub fn load(options: &Options, natives: &Natives) -> Result<Outcome<Option<Setup>>, Error> {
    load_with(options, natives, None)
}

/// Reads all that `options` name, with `over` laid over the cluster's file: what a plugin's case sets.
///
/// # Errors
/// As [`load`].
pub fn load_with(
    options: &Options,
    natives: &Natives,
    over: Option<&crate::value::Node>,
) -> Result<Outcome<Option<Setup>>, Error> {
    let mut findings = Findings::new();
    let read = cluster::read(options, over)?;
    let Some((config, node)) = read.collect(&mut findings) else {
        return Ok(Outcome { value: None, findings });
    };
    let folder = files::folder_of(&options.file);
    let mut catalogue = Catalogue::find(&folder, &config.plugin_dirs, &options.plugin_dirs)?;
    let lock = lock(&folder)?.collect(&mut findings);
    if let Some(lock) = &lock {
        catalogue.add_installed(lock, options.store.as_deref());
    }
    if let Some(folder) = &options.under_test {
        catalogue.put_alone(folder);
    }
    findings.extend(catalogue.findings());
    let facts = cluster::facts(&config, &node);
    let groups = crate::config::groups(&config);
    let engine = Engine::new(embedded::partials());
    let mut all = natives.clone();
    all.extend(options.natives.clone());
    let natives = &all;
    let cx = instances::Cx {
        config: &config,
        node: &node,
        facts: &facts,
        groups: &groups,
        folder: &folder,
        natives,
        runtime: options.runtime.as_ref(),
        engine: &engine,
    };
    let plugins = instances::resolve(&cx, &catalogue)?.collect(&mut findings);
    if let Some(lock) = &lock {
        findings.extend(instances::check_locked(&plugins, &config, lock, options.locked));
        // Nobody has granted anything to a plugin that is only tried.
        if options.under_test.is_none() {
            findings.extend(instances::check_granted(&plugins, lock));
        }
    }
    let order = order(&folder, &plugins)?.collect(&mut findings);
    findings.sort();
    let (Some(order), Some(lock), false) = (order, lock, findings.any_fatal()) else {
        return Ok(Outcome { value: None, findings });
    };
    let setup = Setup { config, node, facts, groups, plugins, order, lock, engine };
    Ok(Outcome { value: Some(setup), findings })
}

/// Reads the config alone, and what kaws.lock says: before plugins are looked for.
///
/// # Errors
/// As [`load`].
pub fn config(options: &Options) -> Result<Outcome<Option<(Cluster, Lock)>>, Error> {
    let mut findings = Findings::new();
    let config = cluster::read(options, None)?.collect(&mut findings);
    let lock = lock(&files::folder_of(&options.file))?.collect(&mut findings);
    Ok(Outcome { value: config.map(|(config, _)| config).zip(lock), findings })
}

/// Returns all plugins there are, installed ones among them; a kaws.lock that cannot be read names none.
///
/// # Errors
/// Folders and files that cannot be read.
pub fn catalogue(options: &Options, named: &[String]) -> Result<Catalogue, Error> {
    let folder = files::folder_of(&options.file);
    let mut catalogue = Catalogue::find(&folder, named, &options.plugin_dirs)?;
    if let Some(lock) = lock(&folder)?.value {
        catalogue.add_installed(&lock, options.store.as_deref());
    }
    Ok(catalogue)
}

fn lock(folder: &Path) -> Result<Outcome<Option<Lock>>, Error> {
    let path = folder.join("kaws.lock");
    let node = match files::read_yaml_if_there(&path)? {
        Some(Ok(node)) => Some(node),
        Some(Err(findings)) => return Ok(Outcome { value: None, findings }),
        None => None,
    };
    Ok(match Lock::read(node.as_ref(), known_pins()) {
        Ok(lock) => Outcome::clean(Some(lock)),
        Err(findings) => Outcome { value: None, findings },
    })
}

fn order(
    folder: &Path,
    plugins: &[crate::plugin::Instance],
) -> Result<Outcome<Option<Order>>, Error> {
    let base = embedded::order();
    let path = folder.join("order.yaml");
    let own = match files::read_yaml_if_there(&path)? {
        None => return Ok(Outcome::clean(Some(base))),
        Some(Ok(node)) => Order::read(&node),
        Some(Err(findings)) => Err(findings),
    };
    let names: Vec<&str> = plugins.iter().map(|p| p.name.as_str()).collect();
    let merged = own.and_then(|own| {
        let unknown = unknown_in_order(&own, &base, &names);
        if unknown.is_empty() { base.with_cluster(&own) } else { Err(unknown) }
    });
    Ok(match merged {
        Ok(order) => Outcome::clean(Some(order)),
        Err(findings) => Outcome { value: None, findings },
    })
}

fn unknown_in_order(own: &Order, base: &Order, plugins: &[&str]) -> Findings {
    let known: Vec<&str> = base.names().map(|(n, _)| n).chain(plugins.iter().copied()).collect();
    let unknown = own.names().filter(|(name, _)| !known.contains(name));
    unknown
        .map(|(name, origin)| {
            let text = format!("order.yaml names `{name}`, and no such plugin is on");
            let finding = crate::finding::Finding::fatal("order/unknown-plugin", text).at(origin);
            match crate::name::did_you_mean(name, known.iter().copied()) {
                Some(near) => finding.help(format!("did you mean `{near}`?")),
                None => finding,
            }
        })
        .collect()
}
