//! The words of the command line, and their help.
//!
//! Not here: what they do (`commands`).

mod plugin;

pub(super) use plugin::{
    ContractPart, FetchArguments, InstallArguments, Language, PluginCommand, RunArguments,
    TestArguments, UpdateArguments,
};

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Parser, Subcommand, ValueEnum};

use super::deploying;
use crate::runtime::Runtime;

/// Turns one cluster.yaml into a whole Kubernetes cluster on AWS, as CloudFormation you can review.
#[derive(Debug, Parser)]
#[command(
    name = "kaws",
    version,
    about,
    max_term_width = 80,
    after_help = "\
Examples:
  kaws init prod && cd prod       write a cluster.yaml to start from
  kaws render                     write rendered/, for git
  kaws explain merge/conflict     what a finding means"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

impl Arguments {
    /// Returns the same, with what this machine has for plugins.
    pub(super) fn with(mut self, programs: Option<Arc<Runtime>>, store: Option<PathBuf>) -> Self {
        self.common.programs = programs;
        self.common.store = store;
        self.common.depth = super::programs::depth();
        self
    }
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Common {
    /// The cluster's file; repeatable for render, plan and up.
    #[arg(short, long, global = true, default_value = "cluster.yaml", value_name = "FILE")]
    pub(super) file: Vec<PathBuf>,
    /// Where files are written; by default `rendered` beside the cluster's file.
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// A further folder of plugins; repeatable.
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) plugin_dir: Vec<PathBuf>,
    /// Everything that is fetched must be in kaws.lock.
    #[arg(long, global = true)]
    pub(super) locked: bool,
    /// For people, or for programs.
    #[arg(long, global = true, value_enum, default_value_t = Output::Text, value_name = "FORM")]
    pub(super) output: Output,
    /// How many commands have called one another.
    #[arg(skip)]
    pub(super) depth: u32,
    /// Where installed plugins lie.
    #[arg(skip)]
    pub(super) store: Option<PathBuf>,
    /// What runs the programs of plugins.
    #[arg(skip)]
    pub(super) programs: Option<Arc<Runtime>>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write a commented cluster.yaml to start from.
    #[command(after_help = "Example:\n  kaws init prod")]
    Init {
        /// The folder; it is created if need be.
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Write rendered/: stacks, node bundles, releases, manifests.
    #[command(
        after_help = "Examples:\n  kaws render\n  kaws render --check && echo up to date\n  kaws render -f a/cluster.yaml -f b/cluster.yaml"
    )]
    Render {
        /// Write nothing; end with 2 if rendered/ is not what it would be.
        #[arg(long)]
        check: bool,
    },
    /// Show what `up` would do to every resource, and why. Changes nothing.
    #[command(
        visible_alias = "diff",
        after_help = "Examples:\n  kaws plan\n  kaws plan --save plan.json && kaws up --plan plan.json\n  kaws plan --base main/rendered    what a pull request changes, without an account"
    )]
    Plan(PlanArguments),
    /// Deploy rendered/: make, change and, where named, remove what differs.
    #[command(
        after_help = "Examples:\n  kaws up\n  kaws up --cloud local --yes         try it, without an account\n  kaws up --plan plan.json            exactly what was planned\n  kaws up --remove pool-old"
    )]
    Up(UpArguments),
    /// Delete the cluster's stacks; data, key and state stay unless named.
    #[command(
        after_help = "Examples:\n  kaws destroy\n  kaws destroy --remove-leftovers --allow-data-loss etcd"
    )]
    Destroy(DestroyArguments),
    /// Check the running cluster: machines, nodes, the control plane, add-ons.
    #[command(
        after_help = "Examples:\n  kaws validate\n  kaws validate --wait 10m --count 3     until it holds three times in a row\n  kaws validate --output json            for whoever watches"
    )]
    Validate(ValidateArguments),
    /// Replace machines without a change: drained first, a few at a time, while all checks hold.
    #[command(
        after_help = "Examples:\n  kaws roll pool-general\n  kaws roll --all --outdated        those of before the last change\n  kaws roll general --by-zone --batch 4\n  kaws roll --pause                 from another terminal; --resume goes on"
    )]
    Roll(RollArguments),
    /// How the deployed cluster is: stacks, machines, certificates, backups.
    #[command(
        after_help = "Examples:\n  kaws status\n  kaws status --drift                     what somebody changed by hand, too\n  kaws status --exit-code --output json   for whoever watches"
    )]
    Status {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
        /// Also look for what was changed by hand, which takes a while.
        #[arg(long)]
        drift: bool,
        /// End with 2 if something needs you.
        #[arg(long)]
        exit_code: bool,
    },
    /// Resolve what is fetched from outside, with its source, into kaws.lock.
    #[command(after_help = "Examples:\n  kaws lock\n  kaws lock --update image/ubuntu-24.04/amd64")]
    Lock(LockArguments),
    /// Set, list and remove the secrets that machines read.
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Write a kubeconfig: how you reach the cluster.
    #[command(
        after_help = "Example:\n  kaws kubeconfig --to prod.kubeconfig && kubectl --kubeconfig prod.kubeconfig get nodes\n\nIt needs the right to read `pki/operator/` in the state bucket, and no more."
    )]
    Kubeconfig {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
        /// The file, readable by you alone; without it the text is printed.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Certificates and keys: until when they are valid, and their rotation.
    #[command(subcommand)]
    Pki(PkiCommand),
    /// Snapshots of etcd, and restoring one.
    #[command(subcommand)]
    Etcd(EtcdCommand),
    /// Say who put something there, from which line, or what a finding's code means.
    #[command(
        after_help = "Examples:\n  kaws explain apiServer.flags.audit-log-maxage\n  kaws explain pool-general/Group\n  kaws explain merge/conflict"
    )]
    Explain {
        /// A path of the model, STACK/LOGICAL_ID, or a code.
        what: String,
    },
    /// Plugins: what there is, and their tests.
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Print the JSON Schema of cluster.yaml, for editors.
    #[command(after_help = "Example:\n  kaws schema > .kaws/schema.json")]
    Schema {
        /// Which: cluster, plugin, contribution or lock.
        #[arg(default_value = "cluster", value_parser = ["cluster", "plugin", "contribution", "lock"])]
        what: String,
    },
    /// Draw the stacks and their order, or the plugins and their ranks.
    #[command(
        after_help = "Examples:\n  kaws graph | dot -Tsvg > stacks.svg\n  kaws graph plugins --form mermaid"
    )]
    Graph {
        /// What to draw.
        #[arg(default_value = "stacks", value_parser = ["stacks", "plugins"])]
        what: String,
        /// In which language.
        #[arg(long, default_value = "dot", value_parser = ["dot", "mermaid"], value_name = "LANGUAGE")]
        form: String,
    },
    /// Print completions for a shell.
    #[command(after_help = "Example:\n  kaws completions bash > /etc/bash_completion.d/kaws")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the version, and those of Kubernetes it renders.
    Version,
    /// A command of a plugin, or a program kaws-NAME on the PATH.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    pub(super) cloud: deploying::CloudArguments,
    /// Compare with this rendered tree instead of what is deployed; needs no account.
    #[arg(long, value_name = "DIR")]
    pub(super) base: Option<PathBuf>,
    /// Write the plan to a file, for `kaws up --plan`.
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    pub(super) save: Option<PathBuf>,
    /// End with 2 if there is something to do.
    #[arg(long)]
    pub(super) exit_code: bool,
    /// Plan the removal of a stack that is no longer rendered; repeatable.
    #[arg(long, value_name = "STACK")]
    pub(super) remove: Vec<String>,
    /// How many clusters at once, where several files are given.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(super) clusters: usize,
    /// Also look for what was changed by hand, which takes a while.
    #[arg(long, conflicts_with = "base")]
    pub(super) drift: bool,
    /// Plan to put back what was changed by hand.
    #[arg(long, conflicts_with = "base")]
    pub(super) revert_drift: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct UpArguments {
    #[command(flatten)]
    pub(super) cloud: deploying::CloudArguments,
    /// Ask nothing.
    #[arg(long)]
    pub(super) yes: bool,
    /// Write rendered/ anew first, if it is not what the cluster renders to.
    #[arg(long)]
    pub(super) render: bool,
    /// Do exactly what a saved plan says, or refuse.
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// Delete a stack that is no longer rendered; repeatable.
    #[arg(long, value_name = "STACK")]
    pub(super) remove: Vec<String>,
    /// Let this stack or STACK/LOGICAL_ID lose its data; repeatable.
    #[arg(long, value_name = "NAME")]
    pub(super) allow_data_loss: Vec<String>,
    /// Take over a lock whose holder is gone.
    #[arg(long)]
    pub(super) take_over: bool,
    /// How many clusters at once, where several files are given and nothing is asked.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(super) clusters: usize,
    /// Put back what was changed by hand, which is looked for first.
    #[arg(long)]
    pub(super) revert_drift: bool,
    /// How many steps go on at once.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(super) at_most: usize,
    /// Keep what failed as it is, to be looked at; the next `kaws up` takes it back first. Stacks in which
    /// something is replaced go back as ever: CloudFormation cannot keep those.
    #[arg(long)]
    pub(super) keep_failed: bool,
    /// Do not wait until the checks of the cluster hold.
    #[arg(long)]
    pub(super) no_validate: bool,
    /// Leave the machines of pools that kaws rolls as they are; `kaws roll POOL --outdated` replaces them later.
    #[arg(long)]
    pub(super) no_roll: bool,
    /// The kubeconfig with which the cluster is asked; by default a certificate from the state bucket.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Leave STACK/LOGICAL_ID as it is, which cannot be rolled back or deleted; repeatable.
    #[arg(long, value_name = "NAME")]
    pub(super) leave: Vec<String>,
    /// Let a resource fail, on the local cloud: STACK/LOGICAL_ID, and why; `rollback:STACK/LOGICAL_ID` fails
    /// on the way back; repeatable.
    #[arg(long, value_name = "RESOURCE[=REASON]")]
    pub(super) fail: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ValidateArguments {
    #[command(flatten)]
    pub(super) cluster: deploying::ClusterArguments,
    /// Run the checks again until they hold, for so long at most: 10m.
    #[arg(long, value_name = "DURATION")]
    pub(super) wait: Option<humantime::Duration>,
    /// How often they must hold, one time after the other; with --wait.
    #[arg(long, default_value_t = 1, requires = "wait", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) count: u32,
    /// How long to wait before they are run again.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub(super) interval: humantime::Duration,
    /// So many workers may be missing: that is a warning then.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(super) max_unready: usize,
}

#[derive(Debug, clap::Args)]
pub(super) struct RollArguments {
    #[command(flatten)]
    pub(super) cluster: deploying::ClusterArguments,
    /// The groups of machines: etcd, control-plane, a pool.
    #[arg(value_name = "GROUP")]
    pub(super) groups: Vec<String>,
    /// All groups: etcd first, then the control plane, then pools.
    #[arg(long, conflicts_with = "groups")]
    pub(super) all: bool,
    /// Only machines that were made before the last change of their group.
    #[arg(long)]
    pub(super) outdated: bool,
    /// How many machines of a pool may be missing; by default its `roll.batch`.
    #[arg(long, value_name = "N")]
    pub(super) batch: Option<usize>,
    /// Take machines of one zone at a time.
    #[arg(long)]
    pub(super) by_zone: bool,
    /// How long a machine may take until its pods have gone.
    #[arg(long, default_value = "15m", value_name = "DURATION")]
    pub(super) drain_timeout: humantime::Duration,
    /// How long a new machine may take until it is ready.
    #[arg(long, default_value = "30m", value_name = "DURATION")]
    pub(super) ready_timeout: humantime::Duration,
    /// Let pods go, too, that nobody makes anew.
    #[arg(long)]
    pub(super) evict_unmanaged: bool,
    /// Ask nothing.
    #[arg(long)]
    pub(super) yes: bool,
    /// Let the roll that is under way take no more machines.
    #[arg(long, conflicts_with_all = ["resume", "forget", "groups", "all"])]
    pub(super) pause: bool,
    /// Go on with the roll that was paused or interrupted.
    #[arg(long, conflicts_with_all = ["forget", "groups", "all"])]
    pub(super) resume: bool,
    /// Give up the roll that was paused or interrupted.
    #[arg(long, conflicts_with_all = ["groups", "all"])]
    pub(super) forget: bool,
    /// Take over a lock whose holder is gone.
    #[arg(long)]
    pub(super) take_over: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct DestroyArguments {
    #[command(flatten)]
    pub(super) cloud: deploying::CloudArguments,
    /// Ask nothing.
    #[arg(long)]
    pub(super) yes: bool,
    /// Only show what would be deleted.
    #[arg(long)]
    pub(super) plan: bool,
    /// Also remove what the cluster made itself: load balancers, target groups, security groups.
    #[arg(long)]
    pub(super) remove_leftovers: bool,
    /// Take over a lock whose holder is gone.
    #[arg(long)]
    pub(super) take_over: bool,
    /// Leave STACK/LOGICAL_ID where it cannot be deleted; repeatable.
    #[arg(long, value_name = "NAME")]
    pub(super) leave: Vec<String>,
    /// Also delete what holds data in this stack, or STACK/LOGICAL_ID; `state` is the bucket and the key,
    /// `leftovers` are volumes that the cluster made itself.
    #[arg(long, value_name = "NAME")]
    pub(super) allow_data_loss: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct LockArguments {
    #[command(flatten)]
    pub(super) cloud: deploying::CloudArguments,
    /// Ask again for an entry that is there; repeatable.
    #[arg(long, value_name = "NAME")]
    pub(super) update: Vec<String>,
    /// Grant a plugin's program what it asks for; repeatable.
    #[arg(long, value_name = "PLUGIN")]
    pub(super) grant: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum SecretCommand {
    /// Set a secret to what stands on standard input.
    #[command(after_help = "Example:\n  pass show acme | kaws secret set acme-agent/token")]
    Set {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
        /// PLUGIN/SECRET.
        name: String,
        /// Ask nothing before the stack `state` is made.
        #[arg(long)]
        yes: bool,
    },
    /// List the secrets that machines read, and whether they are set.
    List {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
    },
    /// Remove a secret.
    Remove {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
        /// PLUGIN/SECRET.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum PkiCommand {
    /// List what has been minted, and until when it is valid.
    Status {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
    },
    /// Take the next step of a rotation: cluster.yaml is changed, and nothing else.
    #[command(
        after_help = "Examples:\n  kaws pki rotate leaves\n  kaws pki rotate bootstrap-token\n  kaws pki rotate kubernetes-ca     three times: trust, sign, drop"
    )]
    Rotate {
        /// leaves, an authority, or a key.
        what: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum EtcdCommand {
    /// List the snapshots.
    Backups {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
    },
    /// Have a snapshot restored: cluster.yaml is changed, and nothing else.
    #[command(after_help = "Example:\n  kaws etcd restore 2026-11-20T12-00-00Z-r48211.db")]
    Restore {
        #[command(flatten)]
        cloud: deploying::CloudArguments,
        /// Its name, as `kaws etcd backups` lists it.
        snapshot: String,
    },
}
