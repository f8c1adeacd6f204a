//! What is inside the binary: plugins, partials, examples, the order and the table of known hashes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use include_dir::{Dir, include_dir};

use crate::lock::Pinned;
use crate::order::Order;
use crate::origin::SourceFile;
use crate::plugin::Files;
use crate::value::read;

static PLUGINS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/plugins");
static CONTRIB: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/contrib/plugins");
static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");
static EXAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/examples");

/// `cluster.yaml.example`, with which `kaws init` begins.
pub const EXAMPLE: &str = include_str!("../../cluster.yaml.example");

/// Returns the names of kaws's own plugins, sorted.
pub(super) fn names(contrib: bool) -> Vec<&'static str> {
    let dir = if contrib { &CONTRIB } else { &PLUGINS };
    let mut names: Vec<&str> = dir.dirs().filter_map(|d| d.path().file_name()?.to_str()).collect();
    names.sort_unstable();
    names
}

/// Returns the manifest and the other files of one of kaws's own plugins.
pub(super) fn plugin(name: &str, contrib: bool) -> Option<(&'static str, Files)> {
    let dir = if contrib { &CONTRIB } else { &PLUGINS };
    let dir = dir.get_dir(name)?;
    let manifest = dir.get_file(format!("{name}/plugin.yaml"))?.contents_utf8()?;
    let mut files = Files::new();
    collect(dir, name, &mut files);
    files.remove("plugin.yaml");
    Some((manifest, files))
}

fn collect(dir: &'static Dir<'static>, root: &str, files: &mut Files) {
    for file in dir.files() {
        let path = file.path().strip_prefix(root).unwrap_or(file.path());
        files.insert(path.to_string_lossy().into_owned(), Cow::Borrowed(file.contents()));
    }
    dir.dirs().for_each(|inner| collect(inner, root, files));
}

/// Returns the partials that all templates may use, by name.
#[must_use]
pub fn partials() -> &'static BTreeMap<String, String> {
    static PARTIALS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    PARTIALS.get_or_init(|| {
        let named = TEMPLATES.files().filter_map(|file| {
            let name = file.path().file_name()?.to_str()?.strip_suffix(".hbs")?;
            Some((name.to_owned(), file.contents_utf8()?.to_owned()))
        });
        named.collect()
    })
}

/// Returns the order of kaws's own plugins.
///
/// # Panics
/// Never: the file is part of the binary, and a test reads it.
pub(super) fn order() -> Order {
    let text = PLUGINS.get_file("order.yaml").and_then(|f| f.contents_utf8()).unwrap_or_default();
    let node = read(&SourceFile::new("builtin:order.yaml", text)).expect("a test reads order.yaml");
    Order::read(&node).expect("a test reads order.yaml")
}

/// Returns the hashes that kaws knows, by their names in kaws.lock.
///
/// # Panics
/// Never: the file is part of the binary, and a test reads it.
#[must_use]
pub fn known_pins() -> BTreeMap<String, Pinned> {
    let text = PLUGINS.get_file("pins.yaml").and_then(|f| f.contents_utf8()).unwrap_or_default();
    serde_yaml::from_str(text).expect("a test reads pins.yaml")
}

/// Returns the names of the example clusters.
#[must_use]
pub fn example_names() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        EXAMPLES.dirs().filter_map(|d| d.path().file_name()?.to_str()).collect();
    names.sort_unstable();
    names
}

/// Returns the text of an example cluster.
#[must_use]
pub fn example_cluster(name: &str) -> Option<&'static str> {
    EXAMPLES.get_file(format!("{name}/cluster.yaml"))?.contents_utf8()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_embedded_can_be_read() {
        assert!(order().names().count() > 10);
        assert!(
            known_pins().values().all(|p| p.value.starts_with("sha256:") && !p.from.is_empty())
        );
    }
}
