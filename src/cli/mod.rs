//! The command line: arguments in, one call of the library, a report out. The only place that prints,
//! reads the environment, or knows the time.

mod commands;
mod deploying;
mod exit;
mod explain;
mod graph;
mod report;

pub use exit::{EXIT_CODES, Exit};
pub use report::{findings_json, summary_line};

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

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
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// The cluster's file; repeatable for render, plan and up.
    #[arg(short, long, global = true, default_value = "cluster.yaml", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Where files are written; by default `rendered` beside the cluster's file.
    #[arg(long, global = true, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A further folder of plugins; repeatable.
    #[arg(long, global = true, value_name = "DIR")]
    plugin_dir: Vec<PathBuf>,
    /// Everything that is fetched must be in kaws.lock.
    #[arg(long, global = true)]
    locked: bool,
    /// For people, or for programs.
    #[arg(long, global = true, value_enum, default_value_t = Output::Text, value_name = "FORM")]
    output: Output,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
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
}

#[derive(Debug, clap::Args)]
struct PlanArguments {
    #[command(flatten)]
    cloud: deploying::CloudArguments,
    /// Compare with this rendered tree instead of what is deployed; needs no account.
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Write the plan to a file, for `kaws up --plan`.
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    save: Option<PathBuf>,
    /// End with 2 if there is something to do.
    #[arg(long)]
    exit_code: bool,
    /// Plan the removal of a stack that is no longer rendered; repeatable.
    #[arg(long, value_name = "STACK")]
    remove: Vec<String>,
    /// How many clusters at once, where several files are given.
    #[arg(long, default_value_t = 4, value_name = "N")]
    clusters: usize,
    /// Also look for what was changed by hand, which takes a while.
    #[arg(long, conflicts_with = "base")]
    drift: bool,
    /// Plan to put back what was changed by hand.
    #[arg(long, conflicts_with = "base")]
    revert_drift: bool,
}

#[derive(Debug, clap::Args)]
struct UpArguments {
    #[command(flatten)]
    cloud: deploying::CloudArguments,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Write rendered/ anew first, if it is not what the cluster renders to.
    #[arg(long)]
    render: bool,
    /// Do exactly what a saved plan says, or refuse.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Delete a stack that is no longer rendered; repeatable.
    #[arg(long, value_name = "STACK")]
    remove: Vec<String>,
    /// Let this stack or STACK/LOGICAL_ID lose its data; repeatable.
    #[arg(long, value_name = "NAME")]
    allow_data_loss: Vec<String>,
    /// Take over a lock whose holder is gone.
    #[arg(long)]
    take_over: bool,
    /// How many clusters at once, where several files are given and nothing is asked.
    #[arg(long, default_value_t = 4, value_name = "N")]
    clusters: usize,
    /// Put back what was changed by hand, which is looked for first.
    #[arg(long)]
    revert_drift: bool,
    /// How many steps go on at once.
    #[arg(long, default_value_t = 8, value_name = "N")]
    at_most: usize,
    /// Keep what failed as it is, to be looked at; the next `kaws up` takes it back first. Stacks in which
    /// something is replaced go back as ever: CloudFormation cannot keep those.
    #[arg(long)]
    keep_failed: bool,
    /// Do not wait until the checks of the cluster hold.
    #[arg(long)]
    no_validate: bool,
    /// Leave the machines of pools that kaws rolls as they are; `kaws roll POOL --outdated` replaces them later.
    #[arg(long)]
    no_roll: bool,
    /// The kubeconfig with which the cluster is asked; by default a certificate from the state bucket.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Leave STACK/LOGICAL_ID as it is, which cannot be rolled back or deleted; repeatable.
    #[arg(long, value_name = "NAME")]
    leave: Vec<String>,
    /// Let a resource fail, on the local cloud: STACK/LOGICAL_ID, and why; `rollback:STACK/LOGICAL_ID` fails
    /// on the way back; repeatable.
    #[arg(long, value_name = "RESOURCE[=REASON]")]
    fail: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct ValidateArguments {
    #[command(flatten)]
    cluster: deploying::ClusterArguments,
    /// Run the checks again until they hold, for so long at most: 10m.
    #[arg(long, value_name = "DURATION")]
    wait: Option<humantime::Duration>,
    /// How often they must hold, one time after the other; with --wait.
    #[arg(long, default_value_t = 1, requires = "wait", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// How long to wait before they are run again.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    interval: humantime::Duration,
    /// So many workers may be missing: that is a warning then.
    #[arg(long, default_value_t = 0, value_name = "N")]
    max_unready: usize,
}

#[derive(Debug, clap::Args)]
struct RollArguments {
    #[command(flatten)]
    cluster: deploying::ClusterArguments,
    /// The groups of machines: etcd, control-plane, a pool.
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,
    /// All groups: etcd first, then the control plane, then pools.
    #[arg(long, conflicts_with = "groups")]
    all: bool,
    /// Only machines that were made before the last change of their group.
    #[arg(long)]
    outdated: bool,
    /// How many machines of a pool may be missing; by default its `roll.batch`.
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Take machines of one zone at a time.
    #[arg(long)]
    by_zone: bool,
    /// How long a machine may take until its pods have gone.
    #[arg(long, default_value = "15m", value_name = "DURATION")]
    drain_timeout: humantime::Duration,
    /// How long a new machine may take until it is ready.
    #[arg(long, default_value = "30m", value_name = "DURATION")]
    ready_timeout: humantime::Duration,
    /// Let pods go, too, that nobody makes anew.
    #[arg(long)]
    evict_unmanaged: bool,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Let the roll that is under way take no more machines.
    #[arg(long, conflicts_with_all = ["resume", "forget", "groups", "all"])]
    pause: bool,
    /// Go on with the roll that was paused or interrupted.
    #[arg(long, conflicts_with_all = ["forget", "groups", "all"])]
    resume: bool,
    /// Give up the roll that was paused or interrupted.
    #[arg(long, conflicts_with_all = ["groups", "all"])]
    forget: bool,
    /// Take over a lock whose holder is gone.
    #[arg(long)]
    take_over: bool,
}

#[derive(Debug, clap::Args)]
struct DestroyArguments {
    #[command(flatten)]
    cloud: deploying::CloudArguments,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Only show what would be deleted.
    #[arg(long)]
    plan: bool,
    /// Also remove what the cluster made itself: load balancers, target groups, security groups.
    #[arg(long)]
    remove_leftovers: bool,
    /// Take over a lock whose holder is gone.
    #[arg(long)]
    take_over: bool,
    /// Leave STACK/LOGICAL_ID where it cannot be deleted; repeatable.
    #[arg(long, value_name = "NAME")]
    leave: Vec<String>,
    /// Also delete what holds data in this stack, or STACK/LOGICAL_ID; `state` is the bucket and the key,
    /// `leftovers` are volumes that the cluster made itself.
    #[arg(long, value_name = "NAME")]
    allow_data_loss: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct LockArguments {
    #[command(flatten)]
    cloud: deploying::CloudArguments,
    /// Ask again for an entry that is there; repeatable.
    #[arg(long, value_name = "NAME")]
    update: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum SecretCommand {
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
enum PkiCommand {
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
enum EtcdCommand {
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

#[derive(Debug, Subcommand)]
enum PluginCommand {
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
    /// Run a plugin's cases.
    #[command(
        after_help = "Examples:\n  kaws plugin test plugins/acme-agent\n  kaws plugin test plugins/acme-agent --update"
    )]
    Test {
        /// The plugin's folder.
        dir: PathBuf,
        /// Write what is expected anew.
        #[arg(long)]
        update: bool,
    },
}

/// Runs the command, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and the version are no mistakes.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            return exit.into();
        }
    };
    match std::panic::catch_unwind(|| commands::run(&arguments)) {
        Ok(exit) => exit.into(),
        Err(_) => {
            report::say_error("a bug in kaws: please report it with the lines above");
            Exit::Bug.into()
        }
    }
}

/// Returns the help of every command, for the reference page.
#[must_use]
pub fn help_pages() -> Vec<(String, String)> {
    fn pages(command: &mut clap::Command, path: &str, all: &mut Vec<(String, String)>) {
        let path = if path.is_empty() {
            command.get_name().to_owned()
        } else {
            format!("{path} {}", command.get_name())
        };
        all.push((path.clone(), command.render_long_help().to_string()));
        for inner in command.get_subcommands_mut() {
            if inner.get_name() != "help" {
                pages(inner, &path, all);
            }
        }
    }
    let mut command = Arguments::command();
    command.build();
    let mut all = Vec::new();
    pages(&mut command, "", &mut all);
    all
}
