//! `kaws plugin`: its words, and their help.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::cli::deploying;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PluginCommand {
    /// List the plugins, and where they are on.
    List {
        /// Those that are off as well.
        #[arg(long)]
        all: bool,
    },
    /// Show one plugin: what it does, its settings, what it touches.
    #[command(
        after_help = "Examples:\n  kaws plugin info dex\n  kaws plugin info dex --file plugin.yaml"
    )]
    Info {
        /// Its name.
        name: String,
        /// Print this file of its folder instead.
        #[arg(long = "path", visible_alias = "show", value_name = "PATH")]
        path: Option<String>,
    },
    /// Print the JSON Schema of what a plugin is made of, and of what its program is asked and answers.
    #[command(after_help = "Example:\n  kaws plugin schema response")]
    Schema {
        /// manifest, contribution, request, response or case.
        #[arg(value_enum)]
        what: ContractPart,
    },
    /// Write a plugin to start from, with its cases.
    #[command(
        after_help = "Examples:\n  kaws plugin new plugins/acme-motd\n  kaws plugin new plugins/acme-motd --runtime python && kaws plugin test plugins/acme-motd"
    )]
    New {
        /// Its folder; the folder's name is the plugin's.
        dir: PathBuf,
        /// What it is written in.
        #[arg(long, value_enum, default_value_t = Language::Declared, value_name = "LANGUAGE")]
        runtime: Language,
    },
    /// Look for what is allowed in a plugin's folder, and will be a trouble to somebody.
    #[command(after_help = "Example:\n  kaws plugin lint plugins/acme-agent")]
    Lint {
        /// The plugin's folder.
        dir: PathBuf,
    },
    /// Ask a plugin's program once, and print what it says.
    #[command(
        after_help = "Examples:\n  kaws plugin run plugins/acme --case everywhere\n  kaws plugin run plugins/acme --stage render         in the cluster that is here\n  kaws plugin run plugins/acme --case everywhere --ask > request.json\n  kaws plugin run plugins/acme --request request.json"
    )]
    Run(RunArguments),
    /// Install a plugin, or all that kaws.lock names: fetched, checked, and written into kaws.lock.
    #[command(
        after_help = "Examples:\n  kaws plugin install acme/motd              its latest release\n  kaws plugin install acme/motd@1.2.0\n  kaws plugin install git+https://git.example.com/acme/plugins@v3//motd\n  kaws plugin install https://example.com/motd-1.2.0.tar.gz\n  kaws plugin install s3://acme-plugins/motd-1.2.0.tar.gz\n  kaws plugin install ./motd-1.2.0.tar.gz\n  kaws plugin install                        what kaws.lock names"
    )]
    Install(InstallArguments),
    /// Install newer versions of what was installed; stops where one asks for new rights.
    #[command(after_help = "Examples:\n  kaws plugin update\n  kaws plugin update motd --to 1.3.0")]
    Update(UpdateArguments),
    /// Take a plugin that was installed out of kaws.lock.
    #[command(after_help = "Example:\n  kaws plugin remove motd")]
    Remove {
        /// Its name.
        name: String,
    },
    /// Pack a plugin's folder into the archive that others install: the same bytes each time.
    #[command(
        after_help = "Example:\n  kaws plugin package plugins/motd && minisign -Sm motd-1.2.0.tar.gz"
    )]
    Package {
        /// The plugin's folder.
        dir: PathBuf,
        /// Where the archive is written; by default NAME-VERSION.tar.gz here.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Build a plugin, where its manifest says how, and run its cases.
    #[command(
        after_help = "Examples:\n  kaws plugin test plugins/acme-agent\n  kaws plugin test plugins/acme-agent --review\n  kaws plugin test plugins/acme-agent --case one-pool --update\n  kaws plugin test plugins/acme-agent --record        once, where it looks something up\n  kaws plugin test plugins/acme-agent --junit report.xml"
    )]
    Test(TestArguments),
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InstallArguments {
    /// Where it comes from; without it, all that kaws.lock names is installed.
    pub(in crate::cli) source: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) how: FetchArguments,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UpdateArguments {
    /// The plugins; without names, all that were installed.
    pub(in crate::cli) names: Vec<String>,
    /// The version, or the revision, instead of the newest.
    #[arg(long, value_name = "VERSION")]
    pub(in crate::cli) to: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) how: FetchArguments,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct FetchArguments {
    #[command(flatten)]
    pub(in crate::cli) cloud: deploying::CloudArguments,
    /// Grant what it asks for.
    #[arg(long)]
    pub(in crate::cli) grant: bool,
    /// The address of the API that tells of releases, for USER/REPO.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) releases: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RunArguments {
    /// The plugin's folder.
    pub(in crate::cli) dir: PathBuf,
    /// Ask what it is asked in this case; without it, in the cluster that is here.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) case: Option<String>,
    /// Ask what stands in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["case", "stage", "ask"])]
    pub(in crate::cli) request: Option<PathBuf>,
    /// The stage; by default the first that it has a program for.
    #[arg(long, value_name = "STAGE", value_parser = ["initialise", "render"])]
    pub(in crate::cli) stage: Option<String>,
    /// Print what it is asked, and do not run it.
    #[arg(long)]
    pub(in crate::cli) ask: bool,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TestArguments {
    /// The plugin's folder.
    pub(in crate::cli) dir: PathBuf,
    /// Write what is expected anew.
    #[arg(long)]
    pub(in crate::cli) update: bool,
    /// Show each difference, and ask whether it is kept.
    #[arg(long, conflicts_with = "update")]
    pub(in crate::cli) review: bool,
    /// Run this case alone.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) case: Option<String>,
    /// First ask what cases look up and nobody has answered, and keep it in the kaws.lock beside each.
    #[arg(long)]
    pub(in crate::cli) record: bool,
    /// Grant what plugins ask for while that is recorded.
    #[arg(long, requires = "record")]
    pub(in crate::cli) grant: bool,
    #[command(flatten)]
    pub(in crate::cli) cloud: deploying::CloudArguments,
    /// Write the report in JUnit's form, too.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) junit: Option<PathBuf>,
}

/// A part of the contract with plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ContractPart {
    /// plugin.yaml.
    Manifest,
    /// What a plugin adds to the model.
    Contribution,
    /// What a program is asked.
    Request,
    /// What a program answers.
    Response,
    /// A case of `kaws plugin test`.
    Case,
}

/// What a plugin is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Language {
    /// YAML and templates.
    Declared,
    /// bash and jq.
    Bash,
    /// Python, without anything to install.
    Python,
    /// Go, without anything to download.
    Go,
    /// Rust.
    Rust,
}
