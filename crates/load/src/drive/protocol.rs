//! What `drive` needs from a load of any protocol: how to prepare it, and what to show while it runs. `http` and
//! `websocket` implement it for their options.

use super::live::Picture;
use super::metrics::Page;
use crate::run::{Interval, Kind, LoadKind, PreparedLoad};
use crate::{Limits, SeriesRow, StartError};
use std::fmt::Debug;
use std::time::Duration;

/// What the workers of a load record.
pub(crate) type RecordOf<L> = <<L as Load>::Kind as LoadKind>::Record;

/// A load that can be run: its options.
pub(crate) trait Load: Clone + Debug + Send + Sync + 'static {
    /// The prepared load.
    type Kind: Kind + LoadKind<Record: Debug, Summary: Debug + Send> + Send + 'static;
    /// The row that a series keeps of an interval.
    type Row: SeriesRow<Record = RecordOf<Self>> + Debug;

    /// The first thing the load sends or opens, for the message that it was stopped before that.
    const FIRST: &'static str;

    fn interval(&self) -> Duration;
    fn connections(&self) -> u64;
    /// The top line of the live view.
    fn head(&self) -> String;
    /// Prepares it for machines with these limits.
    fn prepare(self, limits: &Limits) -> Result<PreparedLoad<Self::Kind>, StartError>;
    /// Adds an interval to the totals.
    fn add(whole: &mut RecordOf<Self>, interval: &Interval<RecordOf<Self>>);
    /// Connections to the targets that were established.
    fn established(record: &RecordOf<Self>) -> u64;
    /// The text of one progress line.
    fn progress(interval: &Interval<RecordOf<Self>>) -> String;
    /// Adds the Prometheus metrics of this protocol; those of the generator and the sockets are the same for all loads.
    fn metrics(interval: &Interval<RecordOf<Self>>, whole: &RecordOf<Self>, page: &mut Page);
    /// The picture for the live view; `threads` counts those of all processes.
    fn picture(&self, interval: &Interval<RecordOf<Self>>, whole: &RecordOf<Self>, threads: usize) -> Picture;
}
