//! `holdfast load ws://…`: a load of WebSockets, driven as any other load, and reported. What it does is in `load::websocket`; how it is
//! driven, in `drive`.

pub(super) mod data;
mod live;
mod page;
mod text;

use super::Ended;
use super::args::LoadArgs;
use super::drive::{self, Progress};
use super::files::Reports;
use super::sockets::Sockets;
use super::table;
use super::units::NS_PER_MS;
use super::{exit, refuse};
use crate::report::print;
use load::websocket::{Expectation, Health, Options, Row, Summary};
use load::{Latencies, Sparse, Verdict};
use report::Document;
use terminal::Terminal;

/// What is known after a run.
#[derive(Debug)]
struct Results<'a> {
    summary: &'a Summary,
    health: &'a Health,
    verdicts: &'a [Verdict],
    rows: &'a [Row],
    /// What the kernel said of the sockets; none if it was not asked.
    sockets: Option<&'a Sockets>,
}

pub(super) fn run(args: &LoadArgs) -> u8 {
    let asked = args.websocket_options().and_then(|options| {
        let parse = |text: &String| text.parse::<Expectation>().map_err(|error| format!("--expect: {error}"));
        Ok((options, args.expect.iter().map(parse).collect::<Result<Vec<_>, _>>()?))
    });
    match asked {
        Ok((options, expect)) => {
            execute(&options, &expect, args).unwrap_or_else(|message| refuse(&message, exit::FAILED))
        }
        Err(message) => refuse(&message, exit::USAGE),
    }
}

fn execute(options: &Options, expect: &[Expectation], args: &LoadArgs) -> Result<u8, String> {
    args.files.check()?;
    // Figures in place of the report go where the view would be.
    let live = !args.plain && !args.quiet && Terminal::is_there() && !args.files.json_on_stdout();
    let progress = Progress { quiet: args.quiet, live, sockets: !args.no_sockets };
    let driven = drive::drive(options, progress, &args.files)?;
    let (summary, rows) = (&driven.summary, driven.rows());
    let health = summary.health();
    let verdicts: Vec<Verdict> = expect.iter().map(|expectation| expectation.judge(summary)).collect();
    let sockets = driven.sockets.as_ref();
    let results = Results { summary, health: &health, verdicts: &verdicts, rows, sockets };
    let written = args.files.after(&results) && driven.written;
    if !args.files.json_on_stdout() {
        print(text::render(&results).as_bytes());
    }
    let ended = Ended {
        failure: summary.failure.as_deref(),
        nothing: (summary.record.established == 0 && !summary.stopped).then_some("no WebSocket was opened"),
        is_void: !health.void.is_empty(),
        // Nothing here is a rate that the generator could be too slow for; where it is late, it says so.
        saturated: false,
        verdicts: &verdicts,
        written,
    };
    Ok(ended.code(args.allow_lag))
}

impl Reports for Results<'_> {
    fn json(&self) -> String {
        data::json(self)
    }

    fn csv(&self) -> String {
        let columns = "begun_s,length_s,open,begun,established,failed,losses,sent,delivered,lost,pings,bytes_received,bytes_sent,\
                       handshake_p50_ms,handshake_p99_ms,pong_p50_ms,pong_p99_ms,delivery_p50_ms,delivery_p90_ms,delivery_p99_ms,\
                       delivery_max_ms,lag_p99_ms,lag_own_p99_ms";
        let looks = self.sockets.map(|sockets| &sockets.looks);
        table::csv(columns, looks, self.rows.iter().map(|row| (row.begun + row.length, line(row))))
    }

    fn page(&self) -> Document {
        page::document(self)
    }

    /// That of the times for which the load was made: deliveries where there are messages, else pongs, else handshakes.
    fn spectrum(&self) -> Latencies {
        let record = &self.summary.record;
        let times = [&record.delivery, &record.pong, &record.handshake];
        times.into_iter().find(|latencies| latencies.count() > 0).cloned().unwrap_or_default()
    }
}

/// An interval in the table: times in seconds, latencies in milliseconds.
fn line(row: &Row) -> String {
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
        ms(&row.lag, 0.99),
        ms(&row.lag_own, 0.99),
    ];
    let cells = seconds.into_iter().chain(counts.map(|count| count.to_string())).chain(times);
    let cells: Vec<String> = cells.chain([table::machine_cells(row.spent, row.processors)]).collect();
    cells.join(",")
}
