//! The results of a load over HTTP: as data, as a table of intervals, as a page, and as text in several styles.

pub(crate) mod json;
mod page;
mod scenario;
pub(crate) mod streams;
pub(crate) mod style;

pub use style::Style;

use super::Reports;
use super::table;
use super::units::NS_PER_MS;
use crate::drive::sockets::account::Looks;
use crate::{Latencies, Row, Sparse, Summary};
use report::Document;

/// All results of a run over HTTP.
pub type HttpResults<'a> = super::Results<'a, Summary, Row>;

impl Reports for HttpResults<'_> {
    fn json(&self) -> String {
        let mut text =
            serde_json::to_string(&self.file()).expect("maps with text keys, numbers and strings are always JSON");
        text.push('\n');
        text
    }

    fn csv(&self) -> String {
        csv(self.rows, self.sockets.map(|sockets| &sockets.looks))
    }

    fn page(&self) -> Document {
        page::document(self)
    }

    fn junit(&self) -> String {
        let summary = self.summary;
        let targets = &summary.options.targets;
        let more = if targets.len() > 1 { format!(" and {} more", targets.len() - 1) } else { String::new() };
        let name = targets.first().map(|target| format!("{}{more}", target.url)).unwrap_or_default();
        let (elapsed_s, failure) = (summary.elapsed.as_secs_f64(), summary.failure.as_deref());
        super::junit(&name, elapsed_s, self.verdicts, failure, &self.health.void)
    }

    fn spectrum(&self) -> Latencies {
        self.summary.record.whole().latency
    }
}

/// One line per interval: times in seconds, latencies in milliseconds.
fn csv(rows: &[Row], looks: Option<&Looks>) -> String {
    let columns = "begun_s,length_s,requests,responses,errors,rate,bytes_received,connections_opened,waiting_max,\
                   p50_ms,p90_ms,p99_ms,p999_ms,max_ms,lag_p99_ms,lag_own_p99_ms";
    table::csv(columns, looks, rows.iter().map(|row| (row.begun + row.length, line(row))))
}

fn line(row: &Row) -> String {
    let ms_of = |times: &Sparse, quantile: f64| times.quantile(quantile) as f64 / NS_PER_MS;
    let ms = |quantile: f64| ms_of(&row.latency, quantile);
    format!(
        "{:.3},{:.3},{},{},{},{:.1},{},{},{},{:.4},{:.4},{:.4},{:.4},{:.4},{:.4},{:.4},{}",
        row.begun.as_secs_f64(),
        row.length.as_secs_f64(),
        row.begun_requests,
        row.responses,
        row.errors,
        row.rate(),
        row.bytes_received,
        row.opened,
        row.waiting_max,
        ms(0.5),
        ms(0.9),
        ms(0.99),
        ms(0.999),
        ms(1.0),
        ms_of(&row.lag, 0.99),
        ms_of(&row.lag_own, 0.99),
        table::machine_cells(row.spent, row.processors),
    )
}
