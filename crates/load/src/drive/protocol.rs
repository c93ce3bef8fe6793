//! What `drive` has to know of a load, whatever it speaks: how it starts, and what is shown of it while it goes on. Implemented for the
//! options of both kinds, in `http` and in `websocket`.

use super::live::Picture;
use crate::{Interval, Plan, SeriesRow, Stopper};
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

/// A load that can be driven.
pub(crate) trait Load: Clone + Debug + Send + Sync + 'static {
    /// What is recorded.
    type Record: Default + Debug;
    /// What is kept of an interval.
    type Row: SeriesRow<Record = Self::Record> + Debug;
    /// What is known in the end.
    type Summary: Debug + Send + 'static;
    /// A load with its plan, before its first socket.
    type Prepared;

    /// What it begins with, for whoever stops it before.
    const FIRST: &'static str;

    fn interval(&self) -> Duration;
    fn connections(&self) -> u64;
    /// The line above everything else in the live view.
    fn head(&self) -> String;
    fn prepare(self) -> Result<Self::Prepared, String>;
    fn plan(prepared: &Self::Prepared) -> &Plan;
    /// Starts it, in as many processes as its plan says; each is made by such a command.
    fn start(prepared: Self::Prepared, part: fn() -> Command) -> Result<Begun<Self>, String>;
    /// Adds an interval to everything before it.
    fn add(whole: &mut Self::Record, interval: &Interval<Self::Record>);
    /// What stands in a progress line.
    fn progress(interval: &Interval<Self::Record>) -> String;
    /// Prometheus' text format, without what is said of the sockets.
    fn metrics(interval: &Interval<Self::Record>, whole: &Self::Record, page: &mut super::metrics::Page);
    /// What the live view shows; `threads` are those of all processes.
    fn picture(&self, interval: &Interval<Self::Record>, whole: &Self::Record, threads: usize) -> Picture;
}

/// To whom each interval is shown.
pub(crate) type Show<'a, L> = &'a mut dyn FnMut(&Interval<<L as Load>::Record>);

/// Waits for the end, and shows each interval.
type Watch<L> = Box<dyn FnOnce(Show<'_, L>) -> io::Result<<L as Load>::Summary> + Send>;

/// A load that runs.
pub(crate) struct Begun<L: Load> {
    pub(crate) stopper: Stopper,
    /// Where it goes.
    pub(crate) addresses: Vec<SocketAddr>,
    /// When it began.
    pub(crate) at: Instant,
    /// Of all processes.
    pub(crate) threads: usize,
    pub(crate) watch: Watch<L>,
}
