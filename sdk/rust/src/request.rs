//! What a program is asked.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::VERSION;

/// What a program is asked. It is about a stage, an event or a lookup: just one of them.
///
/// What was not told is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The release of kaws that asks.
    pub kaws: String,
    /// The stage: `initialise`, `render`, `deploy` or `validate`.
    pub stage: Option<String>,
    /// The event, as `after-deploy`.
    pub event: Option<String>,
    /// The name of the lookup, step or check that is run.
    pub name: Option<String>,
    /// The plugin itself, as this cluster uses it.
    pub plugin: Plugin,
    /// `cluster.yaml` with its defaults, and what follows from it.
    pub cluster: Value,
    /// The groups of machines, by key: `etcd`, `controller`, `pool:NAME`.
    pub groups: BTreeMap<String, Group>,
    /// What all plugins of earlier ranks contributed, merged.
    pub model: Value,
    /// The plugins that are on, by name.
    pub plugins: BTreeMap<String, Plugin>,
    /// The files that earlier ranks made, by path.
    pub artifacts: BTreeMap<String, Made>,
    /// What the manifest's lookups were answered, by name.
    pub lookups: BTreeMap<String, Value>,
    /// What deploying learned: outputs of stacks and endpoints.
    pub facts: Value,
    /// The values of the secrets that were granted.
    pub secrets: Secrets,
}

/// A plugin, as a cluster uses it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugin {
    /// Its name in this cluster.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its settings, with defaults.
    pub settings: Value,
    /// Settings of pools that have their own, by the pool's name.
    pub pool_settings: BTreeMap<String, Value>,
    /// The keys of the groups it is on.
    pub nodes: Vec<String>,
}

/// A group of machines that are alike.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Group {
    /// Its key.
    pub group: String,
    /// Its stack.
    pub stack: String,
    /// The pool that it is, if it is one.
    pub pool: Option<String>,
    /// What its machines are for: `etcd`, `controller` or `worker`.
    pub role: String,
    /// Their architecture: `amd64` or `arm64`.
    pub arch: String,
    /// Their operating system, as `ubuntu-24.04`.
    pub os: String,
    /// Their instance types.
    pub instance_types: Vec<String>,
    /// The labels that their nodes register with.
    pub labels: BTreeMap<String, String>,
}

/// A file that plugins of earlier ranks made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Made {
    /// Its hash.
    pub sha256: String,
    /// Its permissions where it ends up.
    pub mode: String,
}

/// The values of secrets. They are for the program alone: none is shown where a request is printed.
#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// Returns the value of a secret, if it was granted.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why a document is no request.
#[derive(Debug)]
pub enum NoRequest {
    /// It is no JSON, or has another form.
    Form(serde_json::Error),
    /// It is in another version of the contract.
    Version(String),
}

impl fmt::Display for NoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(error) => write!(f, "the request cannot be read: {error}"),
            Self::Version(asked) => {
                write!(f, "asked in `{asked}`, and this plugin speaks `{VERSION}`")
            }
        }
    }
}

impl std::error::Error for NoRequest {}

impl From<serde_json::Error> for NoRequest {
    fn from(error: serde_json::Error) -> Self {
        Self::Form(error)
    }
}

impl Request {
    /// Returns the request that a JSON document is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(document: &[u8]) -> Result<Self, NoRequest> {
        /// Another version may have another form: so its name comes first.
        #[derive(Deserialize)]
        struct Version {
            #[serde(rename = "apiVersion", default)]
            name: String,
        }
        let version: Version = serde_json::from_slice(document)?;
        if version.name != VERSION {
            return Err(NoRequest::Version(version.name));
        }
        Ok(serde_json::from_slice(document)?)
    }

    /// Returns the plugin's settings, with defaults.
    ///
    /// # Errors
    /// They have another form than `T`.
    pub fn settings<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        T::deserialize(&self.plugin.settings)
    }

    /// Returns the settings that count for a group: its pool's own, where it has some.
    ///
    /// # Errors
    /// They have another form than `T`.
    pub fn settings_for<T: DeserializeOwned>(&self, group: &str) -> serde_json::Result<T> {
        let pool = group.strip_prefix("pool:");
        let own = pool.and_then(|pool| self.plugin.pool_settings.get(pool));
        T::deserialize(own.unwrap_or(&self.plugin.settings))
    }

    /// Returns what it is about: `render`, `event after-deploy`, `lookup ami`.
    pub(crate) fn subject(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        match (&self.stage, &self.event) {
            (Some(stage), _) => stage.clone(),
            (None, Some(event)) => format!("event {event}"),
            (None, None) => format!("lookup {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(document: Value) -> Result<Request, String> {
        Request::read(document.to_string().as_bytes()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn what_was_not_told_is_empty() {
        let request = read(json!({"apiVersion": "kaws/v1", "plugin": {"name": "acme"}, "new": 1}));
        let request = request.unwrap();
        assert_eq!(request.plugin.name, "acme");
        assert!(request.groups.is_empty() && request.model.is_null() && request.stage.is_none());
    }

    #[test]
    fn what_is_no_request_is_said() {
        assert!(read(json!(1)).unwrap_err().contains("cannot be read"));
        assert!(read(json!({})).unwrap_err().contains("asked in ``"));
        assert!(read(json!({"apiVersion": "kaws/v2"})).unwrap_err().contains("asked in `kaws/v2`"));
        assert!(read(json!({"apiVersion": "kaws/v1", "groups": 1})).unwrap_err().contains("read"));
    }

    #[test]
    fn a_pools_own_settings_count_for_it() {
        let plugin = json!({"settings": {"a": 1}, "poolSettings": {"gpu": {"a": 2}}});
        let request = read(json!({"apiVersion": "kaws/v1", "plugin": plugin})).unwrap();
        let settings = |group| request.settings_for::<Value>(group).unwrap();
        assert_eq!(settings("pool:gpu"), json!({"a": 2}));
        assert_eq!(settings("pool:general"), json!({"a": 1}));
        assert_eq!(settings("gpu"), request.settings::<Value>().unwrap());
    }

    #[test]
    fn secrets_are_not_shown() {
        let request =
            read(json!({"apiVersion": "kaws/v1", "secrets": {"token": "hunter2"}})).unwrap();
        assert_eq!(request.secrets.get("token"), Some("hunter2"));
        assert!(!format!("{request:?}").contains("hunter2"));
    }
}
