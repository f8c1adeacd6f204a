//! What the commands that speak to a cloud share: which cloud, the tree and its plan, and what is shown
//! while things go on.

mod cloud;
mod failure;
mod live;
mod plan_text;
mod session;
mod stuck;

pub(super) use cloud::{CloudArguments, connect};
pub(super) use failure::{reasons, said_failures, say_root_cause};
use live::nanoseconds;
pub(super) use live::{Live, clock, stamp};
pub(super) use plan_text::{plan_against, plan_text};
pub(super) use session::{Purpose, Session, fail, operator, runtime};
pub(super) use stuck::free_stuck;
