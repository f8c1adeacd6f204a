//! Which cloud a command speaks to.

use std::collections::BTreeMap;
use std::path::Path;

use clap::ValueEnum;

use crate::config::Cluster;
use crate::deploy::Error;
use crate::port::Cloud;

/// Which cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum CloudName {
    /// Amazon's.
    Aws,
    /// A cloud in the folder .kaws beside the cluster's file, for trying: nothing in it is real.
    Local,
}

/// What every command that speaks to a cloud takes.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct CloudArguments {
    /// Which cloud.
    #[arg(long, value_enum, default_value = "aws", value_name = "CLOUD")]
    pub cloud: CloudName,
    /// The profile of ~/.aws/config whose credentials are used; {account}, {region} and {name} are the cluster's.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// The role that CloudFormation works with.
    #[arg(long, value_name = "ARN")]
    pub service_role: Option<String>,
}

impl CloudArguments {
    /// Returns a command that speaks to the same cloud of the same cluster.
    pub(in crate::cli) fn same(&self, command: &str, file: &Path) -> String {
        let mut text = format!("kaws {command}");
        if self.is_local() {
            text.push_str(" --cloud local");
        }
        if let Some(profile) = &self.profile {
            text.push_str(&format!(" --profile {profile}"));
        }
        if file != Path::new("cluster.yaml") {
            text.push_str(&format!(" --file {}", file.display()));
        }
        text
    }

    /// Returns whether it is the cloud in a folder.
    pub(in crate::cli) fn is_local(&self) -> bool {
        self.cloud == CloudName::Local
    }
}

/// Returns the cloud; `faults` are resources that fail on the local one.
pub(in crate::cli) async fn connect(
    arguments: &CloudArguments,
    config: &Cluster,
    file: &Path,
    faults: BTreeMap<String, String>,
) -> Result<Box<dyn Cloud>, Error> {
    match arguments.cloud {
        CloudName::Local => local(config, file, faults),
        CloudName::Aws => aws(arguments, config).await,
    }
}

/// The profile of one cluster among many: `deploy-{account}`.
#[cfg(feature = "aws")]
fn profile_of(profile: &str, config: &Cluster) -> String {
    let named =
        [("{account}", &config.account), ("{region}", &config.region), ("{name}", &config.name)];
    named.iter().fold(profile.to_owned(), |text, (word, value)| text.replace(word, value))
}

#[cfg(feature = "local")]
fn local(
    config: &Cluster,
    file: &Path,
    faults: BTreeMap<String, String>,
) -> Result<Box<dyn Cloud>, Error> {
    let folder = file.parent().unwrap_or(Path::new("")).join(".kaws/local");
    let (account, region) = (&config.account, &config.region);
    let partition = config.partition();
    Ok(Box::new(crate::local::Local::new(folder, account, region, partition.as_ref(), faults)))
}

#[cfg(not(feature = "local"))]
fn local(_: &Cluster, _: &Path, _: BTreeMap<String, String>) -> Result<Box<dyn Cloud>, Error> {
    Err(without("local"))
}

#[cfg(feature = "aws")]
async fn aws(arguments: &CloudArguments, config: &Cluster) -> Result<Box<dyn Cloud>, Error> {
    let profile = arguments.profile.as_ref().map(|profile| profile_of(profile, config));
    let options = crate::aws::Options { region: config.region.clone(), profile };
    let connected = crate::aws::Aws::connect(&options).await;
    let cloud = connected.map_err(|crate::aws::OtherRegion(found)| Error::Region {
        wanted: config.region.clone(),
        found,
    })?;
    Ok(Box::new(cloud))
}

#[cfg(not(feature = "aws"))]
async fn aws(_: &CloudArguments, _: &Cluster) -> Result<Box<dyn Cloud>, Error> {
    Err(without("aws"))
}

#[cfg(not(all(feature = "aws", feature = "local")))]
fn without(cloud: &str) -> Error {
    let text = format!("this kaws was built without the cloud `{cloud}`");
    crate::port::CloudError::new("connect", crate::port::ErrorKind::Refused, text).into()
}
