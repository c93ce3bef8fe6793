//! The results of a load of WebSockets: as data, as a table of intervals, as a page, and as text.

pub(crate) mod json;
mod page;
mod text;

use super::Reports;
use super::table;
use super::units::NS_PER_MS;
use crate::websocket::{WebSocketRow, WebSocketSummary};
use crate::{Latencies, Sparse};
use report::Document;

/// All results of a load of WebSockets.
pub type WebSocketResults<'a> = super::Results<'a, WebSocketSummary, WebSocketRow>;

impl WebSocketResults<'_> {
    /// The report as text, with its final line end.
    pub fn text(&self) -> String {
        text::render(self)
    }
}

impl Reports for WebSocketResults<'_> {
    fn json(&self) -> String {
        json::json(self)
    }

    fn csv(&self) -> String {
        let columns = "begun_s,length_s,open,begun,established,failed,losses,sent,delivered,lost,pings,bytes_received,bytes_sent,\
                       handshake_p50_ms,handshake_p99_ms,pong_p50_ms,pong_p99_ms,delivery_p50_ms,delivery_p90_ms,delivery_p99_ms,\
                       delivery_max_ms,between_p50_ms,between_p99_ms,lag_p99_ms,lag_own_p99_ms";
        let looks = self.sockets.map(|sockets| &sockets.looks);
        table::csv(columns, looks, self.rows.iter().map(|row| (row.begun + row.length, line(row))))
    }

    fn page(&self) -> Document {
        page::document(self)
    }

    fn junit(&self) -> String {
        let summary = self.summary;
        let name = summary.options.target();
        let (elapsed_s, failure) = (summary.elapsed.as_secs_f64(), summary.failure.as_deref());
        super::junit(&name, elapsed_s, self.verdicts, failure, &self.health.void)
    }

    /// The times that the load mainly measures: deliveries if there are any, else times between events, else pongs, else
    /// handshakes.
    fn spectrum(&self) -> Latencies {
        let record = &self.summary.record;
        let times = [&record.delivery, &record.between, &record.pong, &record.handshake];
        times.into_iter().find(|latencies| latencies.count() > 0).cloned().unwrap_or_default()
    }
}

/// An interval in the table: times in seconds, latencies in milliseconds.
fn line(row: &WebSocketRow) -> String {
    let ms = |times: &Sparse, quantile: f64| format!("{:.4}", times.quantile(quantile) as f64 / NS_PER_MS);
    let seconds = [row.begun, row.length].map(|time| format!("{:.3}", time.as_secs_f64()));
    let counts = [
        row.open,
        row.begun_connections,
        row.established,
        row.failed,
        row.losses,
        row.sent,
        row.delivered,
        row.lost,
        row.pings,
        row.bytes_received,
        row.bytes_sent,
    ];
    let times = [
        ms(&row.handshake, 0.5),
        ms(&row.handshake, 0.99),
        ms(&row.pong, 0.5),
        ms(&row.pong, 0.99),
        ms(&row.delivery, 0.5),
        ms(&row.delivery, 0.9),
        ms(&row.delivery, 0.99),
        ms(&row.delivery, 1.0),
        ms(&row.between, 0.5),
        ms(&row.between, 0.99),
        ms(&row.lag, 0.99),
        ms(&row.lag_own, 0.99),
    ];
    let cells = seconds.into_iter().chain(counts.map(|count| count.to_string())).chain(times);
    let cells: Vec<String> = cells.chain([table::machine_cells(row.spent, row.processors)]).collect();
    cells.join(",")
}
