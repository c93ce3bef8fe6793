//! What is told of a load when it is over: text, tables of intervals, figures as data, pages with charts; and what two runs say beside
//! each other. Pure but for [`Files`], which writes. What a run shows while it goes on is `drive`'s.

mod compare;
pub(crate) mod figures;
mod files;
mod floor;
pub mod http;
mod sections;
mod table;
pub(crate) mod tls;
pub(crate) mod units;
pub mod websocket;
pub(crate) mod words;

pub use compare::compare;
pub use files::{Files, Reports, read_at_most};
pub use floor::floor;

use crate::drive::sockets::Sockets;
use crate::{Health, Verdict};

/// Everything that is known after a run.
#[derive(Debug)]
pub struct Results<'a, S, R> {
    /// What the run did.
    pub summary: &'a S,
    /// The generator's own condition.
    pub health: &'a Health,
    /// Of the thresholds, in their order.
    pub verdicts: &'a [Verdict],
    /// The run over time.
    pub rows: &'a [R],
    /// What the kernel said of the sockets; none if it was not asked.
    pub sockets: Option<&'a Sockets>,
}
