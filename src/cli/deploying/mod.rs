//! What the commands that speak to a cloud share: which cloud, the tree and its plan, and what is shown
//! while things go on.

pub(super) mod checks;
mod cloud;
mod events;
mod failure;
mod granted;
mod live;
mod plan_text;
mod reach;
mod refusal;
mod session;
mod stuck;

pub(super) use checks::{Patience, Wait};
pub(super) use cloud::{CloudArguments, connect};
pub(super) use events::{
    Learned, add_pending, clear_pending, events, events_of_up, events_told, run_pending,
};
pub(super) use failure::{reasons, said_failures, say_root_cause};
pub(super) use granted::PluginPrograms;
use live::nanoseconds;
pub(super) use live::{Live, clock, stamp};
pub(super) use plan_text::{plan_against, plan_text};
pub(super) use reach::{ClusterArguments, Reach, own_kubeconfig};
pub(super) use refusal::fail;
pub(super) use session::{Drifting, Purpose, Session, operator, runtime};
pub(super) use stuck::free_stuck;
