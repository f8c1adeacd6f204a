//! Releases of a repository, as GitHub's API tells of them; Gitea, Forgejo and others speak it, too.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ANY;

/// A release.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Release {
    /// Its tag.
    pub(super) tag_name: String,
    /// What hangs on it.
    #[serde(default)]
    pub(super) assets: Vec<Asset>,
}

/// A file of a release.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Asset {
    /// Its name.
    pub(super) name: String,
    /// Where it is.
    pub(super) browser_download_url: String,
}

/// What stands beside the thing itself.
const BESIDE: &[&str] =
    &[".minisig", ".sha256", ".sha256sum", ".sig", ".asc", ".txt", ".json", ".sbom", ".pem"];

/// Names of systems and processors, as publishers spell them, and as kaws does.
const SYSTEMS: &[(&str, &str)] = &[("linux", "linux"), ("darwin", "darwin"), ("macos", "darwin")];
const PROCESSORS: &[(&str, &str)] =
    &[("amd64", "amd64"), ("x86_64", "amd64"), ("arm64", "arm64"), ("aarch64", "arm64")];

/// Words of systems and processors that kaws is not made for, and of what is no plugin.
const FOREIGN: &[&str] = &[
    "windows", "freebsd", "netbsd", "openbsd", "i386", "i686", "_386", "-386", "armv6", "armv7",
    "armhf", "riscv64", "s390x", "ppc64", "source", "-src", "_src",
];

impl Release {
    /// Returns the version that the tag says.
    pub(super) fn version(&self) -> &str {
        let tag = self.tag_name.rsplit('/').next().unwrap_or_default();
        tag.strip_prefix('v').unwrap_or(tag)
    }

    /// Returns what to download, by platform: one for all where there is one.
    ///
    /// # Errors
    /// A release in which nobody can know what is meant.
    pub(super) fn chosen(&self) -> Result<BTreeMap<String, &Asset>, String> {
        let own = |asset: &&Asset| {
            let name = asset.name.to_lowercase();
            !BESIDE.iter().any(|end| name.ends_with(end))
                && !FOREIGN.iter().any(|word| name.contains(word))
        };
        let mut chosen: BTreeMap<String, &Asset> = BTreeMap::new();
        for asset in self.assets.iter().filter(own) {
            let platform = platform(&asset.name);
            if let Some(other) = chosen.insert(platform.clone(), asset) {
                let names = format!("{} and {}", other.name, asset.name);
                return Err(format!(
                    "{names} are both for {platform}: name the one by its address"
                ));
            }
        }
        if let Some(one) = chosen.get(ANY).filter(|_| chosen.len() > 1) {
            let name = &one.name;
            return Err(format!(
                "{name} is for all platforms, and others are for each: name the one by its address"
            ));
        }
        if chosen.is_empty() {
            return Err("it has no archive".to_owned());
        }
        Ok(chosen)
    }

    /// Returns what hangs on the release under a name.
    pub(super) fn asset(&self, name: &str) -> Option<&Asset> {
        self.assets.iter().find(|asset| asset.name == name)
    }
}

/// Returns the platform a file's name speaks of.
fn platform(name: &str) -> String {
    let name = name.to_lowercase();
    let of = |table: &[(&str, &'static str)]| {
        table.iter().find(|(word, _)| name.contains(word)).map(|(_, ours)| *ours)
    };
    match (of(SYSTEMS), of(PROCESSORS)) {
        (Some(system), Some(processor)) => format!("{system}-{processor}"),
        _ => ANY.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(names: &[&str]) -> Release {
        let asset = |name: &&str| Asset {
            name: (*name).to_owned(),
            browser_download_url: format!("https://example.com/{name}"),
        };
        Release { tag_name: "v1.2.0".to_owned(), assets: names.iter().map(asset).collect() }
    }

    #[test]
    fn one_for_all_or_one_for_each_platform() {
        let one = release(&["motd-1.2.0.tar.gz", "motd-1.2.0.tar.gz.minisig", "checksums.txt"]);
        let chosen = one.chosen().unwrap();
        assert_eq!(chosen[ANY].name, "motd-1.2.0.tar.gz");
        let each = release(&["motd_Linux_x86_64.tar.gz", "motd_macOS_arm64.tar.gz"]);
        let platforms: Vec<String> = each.chosen().unwrap().into_keys().collect();
        assert_eq!(platforms, ["darwin-arm64", "linux-amd64"]);
        assert_eq!(each.version(), "1.2.0");
    }

    #[test]
    fn nobody_guesses() {
        assert!(release(&["a.tar.gz", "b.tar.gz"]).chosen().unwrap_err().contains("both for any"));
        let mixed = release(&["motd.tar.gz", "motd_linux_amd64.tar.gz"]);
        assert!(mixed.chosen().unwrap_err().contains("for all platforms"));
        let foreign = release(&["m_windows_amd64.zip", "m_source.tar.gz", "m_linux_arm64.tar.gz"]);
        assert_eq!(foreign.chosen().unwrap().into_keys().collect::<Vec<_>>(), ["linux-arm64"]);
        assert!(release(&["checksums.txt"]).chosen().unwrap_err().contains("no archive"));
    }
}
