//! Drives a load of WebSockets: its start, and what is shown while it runs.

use crate::drive::live::{Cell, GeneratorFigures, Picture};
use crate::drive::metrics::Page;
use crate::drive::protocol::Load;
use crate::results::units::time;
use crate::run::PreparedLoad;
use crate::websocket::{Ending, Held, WebSocketLoad, WebSocketOptions, WebSocketRecord, WebSocketRow};
use crate::{Cause, Interval, Limits, StartError};
use report::prometheus::Kind;
use report::text::grouped;
use std::fmt::Write as _;
use std::time::Duration;

impl Load for WebSocketOptions {
    type Kind = WebSocketLoad;
    type Row = WebSocketRow;

    const FIRST: &'static str = "connection";

    fn interval(&self) -> Duration {
        self.interval
    }

    fn connections(&self) -> u64 {
        self.connections as u64
    }

    fn head(&self) -> String {
        format!("{}  {} connections, {}/s", self.target(), grouped(self.connections as u64), self.ramp)
    }

    fn prepare(self, _limits: &Limits) -> Result<PreparedLoad<WebSocketLoad>, StartError> {
        crate::websocket::prepare(self)
    }

    fn add(whole: &mut WebSocketRecord, interval: &Interval<WebSocketRecord>) {
        whole.add(&interval.record);
        // `open` is a state, not a sum.
        whole.open = interval.record.open;
    }

    fn established(record: &WebSocketRecord) -> u64 {
        record.established
    }

    fn progress(interval: &Interval<WebSocketRecord>) -> String {
        let record = &interval.record;
        let mut line = format!(
            "{:>7.1} s  {:>9} open  {:>7} established  {:>6} failed  {:>6} lost connections",
            interval.ended().as_secs_f64(),
            grouped(record.open),
            grouped(record.established),
            grouped(record.failed()),
            grouped(record.losses()),
        );
        if record.between.count() > 0 {
            let p99 = time(record.between.quantile_ns(0.99) as f64);
            let _ = write!(line, "  {:>9} events  p99 between {p99:>8}", grouped(record.delivered));
        } else if record.sent + record.delivered > 0 {
            let p99 = time(record.delivery.quantile_ns(0.99) as f64);
            let (sent, delivered) = (grouped(record.sent), grouped(record.delivered));
            let _ = write!(line, "  {sent:>7} sent  {delivered:>9} delivered  p99 {p99:>8}");
        }
        line
    }

    fn metrics(interval: &Interval<WebSocketRecord>, whole: &WebSocketRecord, page: &mut Page) {
        let now = &interval.record;
        page.one("websockets_open", Kind::Gauge, "WebSockets open at the end of the last interval.", now.open);
        page.one("connections_opened_total", Kind::Counter, "Connections begun.", whole.begun);
        page.one("websockets_established_total", Kind::Counter, "Handshakes that succeeded.", whole.established);
        let failures = Cause::ALL.iter().map(|cause| (cause.key().to_owned(), whole.failed_by(*cause)));
        let statuses = whole.statuses.iter().map(|(status, count)| (format!("status_{status}"), *count));
        let failures = failures.chain(statuses).chain([("bad_handshake".to_owned(), whole.bad_handshakes)]);
        page.by("failures_total", "Connections that became no WebSocket.", "cause", failures);
        let endings = Ending::ALL.iter().map(|ending| (ending.key(), whole.ended_by(*ending)));
        page.by("websockets_ended_total", "Open WebSockets that ended.", "by", endings);
        page.one("messages_sent_total", Kind::Counter, "Messages sent.", whole.sent);
        page.one("messages_delivered_total", Kind::Counter, "Messages that reached a receiver.", whole.delivered);
        page.one("messages_lost_total", Kind::Counter, "Deliveries that did not come.", whole.lost);
        page.one("pings_total", Kind::Counter, "Pings sent.", whole.pings);
        page.one("pongs_total", Kind::Counter, "Pongs to them.", whole.pongs);
        page.one("received_bytes_total", Kind::Counter, "Bytes received.", whole.bytes_received);
        page.one("sent_bytes_total", Kind::Counter, "Bytes sent.", whole.bytes_sent);
        page.times(
            "handshake_seconds",
            "From due to 101; quantiles of the last interval.",
            &now.handshake,
            &whole.handshake,
        );
        page.times("pong_seconds", "From due to pong; quantiles of the last interval.", &now.pong, &whole.pong);
        page.times("delivery_seconds", "From due to each delivery, likewise.", &now.delivery, &whole.delivery);
        if whole.between.count() > 0 {
            let help = "Between two events of a connection, likewise.";
            page.times("event_interval_seconds", help, &now.between, &whole.between);
        }
    }

    fn picture(&self, interval: &Interval<WebSocketRecord>, whole: &WebSocketRecord, threads: usize) -> Picture {
        let now = &interval.record;
        let seconds = interval.seconds();
        let rate = |name: &'static str, last: u64, all: u64| {
            let last = (last as f64 / seconds) as u64;
            Cell::of(name, last, grouped(last), grouped(all))
        };
        let mut cells = vec![
            Cell::heading(""),
            Cell::of("open", now.open, grouped(now.open), String::new()),
            rate("opened/s", now.established, whole.established),
            rate("failed/s", now.failed(), whole.failed()),
            rate("cut off/s", now.losses(), whole.losses()),
        ];
        if self.rate > 0.0 {
            cells.push(rate("sent/s", now.sent, whole.sent));
            cells.push(rate("delivered/s", now.delivered, whole.delivered));
        }
        if self.events.is_some() {
            cells.push(rate("events/s", now.delivered, whole.delivered));
        }
        cells.push(Cell::heading("from due"));
        cells.push(Cell::time("opening p50", 0.5, &now.handshake, &whole.handshake));
        cells.push(Cell::time("opening p99", 0.99, &now.handshake, &whole.handshake));
        if self.heartbeat.is_some() {
            cells.push(Cell::time("pong p99", 0.99, &now.pong, &whole.pong));
        }
        if self.rate > 0.0 {
            cells.push(Cell::time("delivery p50", 0.5, &now.delivery, &whole.delivery));
            cells.push(Cell::time("delivery p99", 0.99, &now.delivery, &whole.delivery));
            cells.push(Cell::time("delivery max", 1.0, &now.delivery, &whole.delivery));
        }
        if let Some(events) = &self.events {
            cells.push(Cell::heading("events"));
            cells.push(Cell::time("between p50", 0.5, &now.between, &whole.between));
            cells.push(Cell::time("between p99", 0.99, &now.between, &whole.between));
            if events.time.is_some() {
                cells.push(Cell::time("age p50", 0.5, &now.delivery, &whole.delivery));
                cells.push(Cell::time("age p99", 0.99, &now.delivery, &whole.delivery));
            }
        }
        let planned = self.ramp_time().saturating_add(self.hold);
        Picture {
            progress: format!(
                "{:.1} s of {:.1} s, {} of {} begun",
                interval.ended().as_secs_f64(),
                planned.as_secs_f64(),
                grouped(whole.begun - whole.again.min(whole.begun)),
                grouped(self.connections as u64)
            ),
            cells,
            failures: failures(whole, self.held()),
            generator: GeneratorFigures::new(interval, whole, threads),
        }
    }
}

/// Failed attempts by cause, and the endings of open connections that the load did not end.
fn failures(whole: &WebSocketRecord, held: Held) -> Vec<(u64, &'static str)> {
    let causes = Cause::ALL.iter().map(|cause| (whole.failed_by(*cause), cause.text()));
    let (status, answer) = match held {
        Held::Events => ("the request was answered with another status than 200", "200, but no text/event-stream"),
        _ => ("the handshake was answered with another status than 101", "101, but no answer to a WebSocket handshake"),
    };
    let refused = [(whole.refused(), status), (whole.bad_handshakes, answer)];
    let losses = Ending::ALL.iter().filter(|ending| ending.is_loss());
    causes.chain(refused).chain(losses.map(|ending| (whole.ended_by(*ending), ending.text_of(held)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websocket_view_has_fixed_lines_and_names_failures() {
        let options = WebSocketOptions {
            rate: 5.0,
            heartbeat: Some(Duration::from_secs(1)),
            ..WebSocketOptions::new(crate::websocket::parse_url("ws://a:81/b").unwrap())
        };
        let mut record = WebSocketRecord {
            begun: 12,
            again: 2,
            established: 8,
            open: 7,
            bad_handshakes: 3,
            ..WebSocketRecord::default()
        };
        record.endings[Ending::Reset as usize] = 1;
        record.endings[Ending::Done as usize] = 4;
        let (begun, length, processors) = (Duration::ZERO, Duration::from_secs(2), crate::Ticks::default());
        let interval = Interval { number: 0, begun, length, processors, record };
        let picture = options.picture(&interval, &interval.record, 1);
        assert_eq!(picture.progress, "2.0 s of 10.1 s, 10 of 100 begun");
        let failed: Vec<_> = picture.failures.iter().filter(|(count, _)| *count > 0).collect();
        assert_eq!(failed.len(), 2, "what the load ended itself is no failure: {failed:?}");
        let nothing = Interval { record: WebSocketRecord::default(), ..interval };
        assert_eq!(options.picture(&nothing, &WebSocketRecord::default(), 1).cells.len(), picture.cells.len());
        assert_eq!(options.head(), "ws://a:81/b  100 connections, 1000/s");
    }
}
