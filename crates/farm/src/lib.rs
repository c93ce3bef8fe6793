//! The load farm behind `holdfast load --farm`: a load divided over agents on other machines, by way of a NATS server. The
//! crate `load` says what a part of a load is, generates it and merges the figures; this crate finds agents, compares their
//! clocks, takes the messages of `load` to them and back, and sees which agents are lost. The program has the flags.
//!
//! `agent` runs parts for a coordinator; `coordinator` is the other side. `message` has what they say to each other, `access`
//! the connection to NATS. `sequence` makes reports complete and in order over a connection that may break, `clock` estimates
//! how far two clocks are apart, and `allow` is the list of targets of an agent. Those, and the coordinator's `run`, are pure:
//! times and messages come in as arguments.

mod access;
mod agent;
mod allow;
mod clock;
mod coordinator;
mod message;
mod pack;
mod sequence;

pub use access::{Access, FarmError, Secret};
pub use agent::{AgentOptions, PartCommand, run_agent};
pub use allow::AllowList;
pub use coordinator::{Farm, Hire};
pub use message::{AgentState, Beat, Name};

use std::time::Duration;

/// How often an agent says that it lives, and the coordinator that the run goes on.
pub(crate) const BEAT_PERIOD: Duration = Duration::from_millis(500);
/// An agent that sent nothing for this long is lost: three beats are missing, and with one look more it is under two seconds.
pub(crate) const SILENCE_MAX: Duration = Duration::from_millis(1_900);
/// How often both sides look at what is overdue.
pub(crate) const LOOK_PERIOD: Duration = Duration::from_millis(50);
