//! What `drive` has to know of a load of any protocol: how it is prepared, and what is shown of it while it goes on. Implemented for the
//! options of both kinds, in `http` and in `websocket`.

use super::live::Picture;
use super::metrics::Page;
use crate::run::{Interval, Kind, LoadKind, PreparedLoad};
use crate::{SeriesRow, StartError};
use std::fmt::Debug;
use std::time::Duration;

/// What the workers of a load record.
pub(crate) type RecordOf<L> = <<L as Load>::Kind as LoadKind>::Record;

/// A load that can be driven: its options.
pub(crate) trait Load: Clone + Debug + Send + Sync + 'static {
    /// What it becomes when it is prepared.
    type Kind: Kind + LoadKind<Record: Debug, Summary: Debug + Send> + Send + 'static;
    /// What is kept of an interval.
    type Row: SeriesRow<Record = RecordOf<Self>> + Debug;

    /// What it begins with, for the message that it was stopped before.
    const FIRST: &'static str;

    fn interval(&self) -> Duration;
    fn connections(&self) -> u64;
    /// The line above everything else in the live view.
    fn head(&self) -> String;
    fn prepare(self) -> Result<PreparedLoad<Self::Kind>, StartError>;
    /// Adds an interval to everything before it.
    fn add(whole: &mut RecordOf<Self>, interval: &Interval<RecordOf<Self>>);
    /// The text of a progress line.
    fn progress(interval: &Interval<RecordOf<Self>>) -> String;
    /// Its own metrics for Prometheus; those of the generator and the sockets are the same for all loads.
    fn metrics(interval: &Interval<RecordOf<Self>>, whole: &RecordOf<Self>, page: &mut Page);
    /// What the live view shows; `threads` are those of all processes.
    fn picture(&self, interval: &Interval<RecordOf<Self>>, whole: &RecordOf<Self>, threads: usize) -> Picture;
}
