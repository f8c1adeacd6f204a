//! Deploying what was rendered: the plan, the graph of steps, removal, and what is remembered of it.
//!
//! Asks the world only through the port (`port`); what it is told to show goes to a [`Watcher`]. Not here:
//! reading `rendered/` (`emit`), and printing (`cli`).

mod addons;
mod assets;

mod change_set;
mod charts;
mod destroy;
mod drift;
mod error;
mod health;
mod hold;
mod pki;
pub mod plan;
mod policy;
mod record;
mod reported;
mod reports;
mod requests;
mod roll;
mod secrets;
mod stacks;
mod steps;
mod stuck;
mod tree;
mod up;
mod validate;
mod watch;

pub use addons::AddonChange;
pub use charts::chart_digest;
pub use destroy::{DestroyOptions, DestroyPlan, Kept, destroy, plan_destroy};
pub use drift::drifts;
pub use error::{Error, RootCause};
pub use health::{
    BACKUPS, GroupHealth, Health, Last, StackHealth, Validity, former, health, snapshot_time,
};
pub use hold::{Holder, clear};
pub use pki::{Access, MintError, PkiStatus, Row, Said, access, pki_status};
pub use record::{Deployment, PluginRecord, Record, recorded};
pub use reported::Reported;
pub use reports::Report;
pub use roll::{
    Gate, GroupRoll, Left, Pace, RollState, Rolling, drain, forget_roll, plan_roll, roll,
};
pub use secrets::{list_secrets, remove_secret, secret, set_secret};
pub use stacks::settle;
pub use steps::{Ended, Steps};
pub use stuck::{FreeOptions, Stuck, WayOut, free, stuck};
pub use tree::{ClusterFacts, Issuer, Parameter, Source, Tree, TreeError, TreeStack};
pub use up::{Operator, Running, Up, UpOptions, up, up_state};
pub use validate::{Asked, Checked, Verdict, validate};
pub use watch::{Progress, Silent, StepState, Watcher};
