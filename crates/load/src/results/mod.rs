//! The reports of a finished load: text, tables of intervals, figures as data, pages with charts; and the comparison of two
//! runs. Pure except for [`Files`], which writes files. `drive` shows a run while it is running.

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

/// All results of a run.
#[derive(Debug)]
pub struct Results<'a, S, R> {
    /// The summary of the run.
    pub summary: &'a S,
    /// The generator's own condition.
    pub health: &'a Health,
    /// The verdicts of the thresholds, in the order of the thresholds.
    pub verdicts: &'a [Verdict],
    /// The run over time.
    pub rows: &'a [R],
    /// The kernel's figures for the sockets; `None` if they were not queried.
    pub sockets: Option<&'a Sockets>,
}
