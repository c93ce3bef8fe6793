//! A load of WebSockets over time: the figures of one interval, or of several that were merged into one row of a
//! series. Pure.

use super::ending::Ending;
use super::record::WebSocketRecord;
use crate::cause::Cause;
use crate::processors::{Spent, Ticks};
use crate::run::Interval;
use crate::series::{SeriesRow, Sparse};
use std::time::Duration;

/// The figures of one interval, or of several that were merged into one row.
#[derive(Debug, Clone, PartialEq)]
pub struct WebSocketRow {
    /// Start of the row, from the start of the run.
    pub begun: Duration,
    /// Length of the row.
    pub length: Duration,
    /// Connections begun.
    pub begun_connections: u64,
    /// Handshakes that succeeded.
    pub established: u64,
    /// Attempts that failed, for any reason.
    pub failed: u64,
    /// The same by [`Cause`] as index; responses with a status other than 101 are in none.
    pub failures: Vec<u64>,
    /// Open connections that ended, by [`Ending`] as index.
    pub endings: Vec<u64>,
    /// Lost connections among those: the load itself did not end them.
    pub losses: u64,
    /// Connections open at the end of the row.
    pub open: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages that reached a receiver.
    pub delivered: u64,
    /// Deliveries that never arrived; counted when the connection that expected them ends.
    pub lost: u64,
    /// Pings sent.
    pub pings: u64,
    /// Received bytes of frames and heads.
    pub bytes_received: u64,
    /// Sent bytes of frames and heads.
    pub bytes_sent: u64,
    /// How the generator's time was spent, all threads together.
    pub spent: Spent,
    /// Processor ticks during the row.
    pub processors: Ticks,
    /// From the time a connection was due to its 101, in nanoseconds.
    pub handshake: Sparse,
    /// From the time a ping was due to its pong.
    pub pong: Sparse,
    /// From the time a message was due to each of its receivers.
    pub delivery: Sparse,
    /// Between two events of a connection.
    pub between: Sparse,
    /// The generator's own lag.
    pub lag: Sparse,
    /// The part of the lag in which the generator ran earlier work.
    pub lag_own: Sparse,
}

impl WebSocketRow {
    /// Attempts that failed for this cause.
    pub fn failed_by(&self, cause: Cause) -> u64 {
        self.failures.get(cause as usize).copied().unwrap_or_default()
    }

    /// Number of open connections that ended like this.
    pub fn ended_by(&self, ending: Ending) -> u64 {
        self.endings.get(ending as usize).copied().unwrap_or_default()
    }

    /// Divides a count of this row by its seconds.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.length.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl SeriesRow for WebSocketRow {
    type Record = WebSocketRecord;

    fn of(interval: &Interval<WebSocketRecord>) -> Self {
        let record = &interval.record;
        Self {
            begun: interval.begun,
            length: interval.length,
            begun_connections: record.begun,
            established: record.established,
            failed: record.failed(),
            failures: record.failures.to_vec(),
            endings: record.endings.to_vec(),
            losses: record.losses(),
            open: record.open,
            sent: record.sent,
            delivered: record.delivered,
            lost: record.lost,
            pings: record.pings,
            bytes_received: record.bytes_received,
            bytes_sent: record.bytes_sent,
            spent: record.generator.spent,
            processors: interval.processors,
            handshake: Sparse::from(&record.handshake),
            pong: Sparse::from(&record.pong),
            delivery: Sparse::from(&record.delivery),
            between: Sparse::from(&record.between),
            lag: Sparse::from(&record.generator.lag),
            lag_own: Sparse::from(&record.generator.lag_own),
        }
    }

    fn place(&mut self) -> (&mut Duration, &mut Duration) {
        (&mut self.begun, &mut self.length)
    }

    fn add(&mut self, later: &Self) {
        // `open` is a state, not a sum.
        self.open = later.open;
        let sums: [(&mut u64, u64); 10] = [
            (&mut self.begun_connections, later.begun_connections),
            (&mut self.established, later.established),
            (&mut self.failed, later.failed),
            (&mut self.losses, later.losses),
            (&mut self.sent, later.sent),
            (&mut self.delivered, later.delivered),
            (&mut self.lost, later.lost),
            (&mut self.pings, later.pings),
            (&mut self.bytes_received, later.bytes_received),
            (&mut self.bytes_sent, later.bytes_sent),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        for (sum, more) in self.failures.iter_mut().zip(&later.failures) {
            *sum += more;
        }
        for (sum, more) in self.endings.iter_mut().zip(&later.endings) {
            *sum += more;
        }
        self.spent += later.spent;
        self.processors += later.processors;
        self.handshake.add(&later.handshake);
        self.pong.add(&later.pong);
        self.delivery.add(&later.delivery);
        self.between.add(&later.between);
        self.lag.add(&later.lag);
        self.lag_own.add(&later.lag_own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Series;

    #[test]
    fn merging_adds_everything_but_open_connections() {
        let mut series = Series::<WebSocketRow>::new(Duration::from_secs(1));
        for number in 0..2_100u64 {
            let mut record = WebSocketRecord { established: 2, sent: 3, open: number, ..WebSocketRecord::default() };
            record.fail(Cause::Refused);
            record.end(Ending::Reset);
            record.delivery.record(number * 1_000);
            record.generator.lag_own.record(number);
            record.generator.spent.waited_ns = Some(1);
            let (begun, length) = (Duration::from_secs(number), Duration::from_secs(1));
            series.add(&Interval { number, begun, length, processors: Ticks { all: 100, stolen: 1 }, record });
        }
        let rows = series.rows();
        let sum = |of: fn(&WebSocketRow) -> u64| rows.iter().map(of).sum::<u64>();
        assert!(rows.len() <= 1024, "{}", rows.len());
        assert_eq!((sum(|row| row.established), sum(|row| row.sent), sum(|row| row.failed)), (4_200, 6_300, 2_100));
        assert_eq!(sum(|row| row.failed_by(Cause::Refused) + row.ended_by(Ending::Reset) + row.losses), 6_300);
        assert_eq!((sum(|row| row.delivery.count()), rows.last().map(|row| row.open)), (2_100, Some(2_099)));
        assert_eq!((sum(|row| row.lag_own.count()), sum(|row| row.processors.stolen)), (2_100, 2_100));
        assert_eq!(sum(|row| row.spent.waited_ns.unwrap()), 2_100);
    }
}
