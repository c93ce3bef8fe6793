//! `X-Holdfast-Trace` and `$request_trace`: the phases of a request that has the location's secret. Times are in
//! milliseconds.

use crate::base::values::bytes;
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::attempts::AttemptRecord;
use http1::edit::Names;
use reactor::Millis;
use rules::request_trace::{TraceLine, is_secret, word};
use std::fmt::Write as _;

/// The request's field with the secret, and the response's with the phases.
const FIELD: &[u8] = b"X-Holdfast-Trace";

/// Most attempts that are shown; the last ones matter.
const ATTEMPTS_MAX: usize = 6;

/// When a traced request came to its phases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseTimes {
    /// The first location was found.
    routed: Millis,
    /// Rewriting, limits and access rules were passed, the last time.
    admitted: Option<Millis>,
    /// The request's body was read as far as the upstream needs it before the first attempt.
    asked: Option<Millis>,
    /// The head of the response was made.
    head: Option<Millis>,
}

impl Exchange {
    /// Removes the field with the secret from the request, and begins to note its phases if the secret is right.
    pub(crate) fn take_trace_secret(&mut self) {
        let Some(secret) = &self.location().trace_secret else { return };
        let (bytes, mut fields) = (&self.request.bytes, self.request.head.fields.iter());
        let is_meant = |field: &&http1::Field| field.name.of(bytes).eq_ignore_ascii_case(FIELD);
        let Some(given) = fields.find(is_meant).map(|field| field.value.of(bytes)) else { return };
        let is_right = is_secret(given, secret) && !self.is_subrequest();
        let request = &mut *self.request;
        request.head.remove_fields(&request.bytes, Names::Exact(FIELD));
        if is_right {
            let routed = self.thread.reactor.now();
            self.routing.traced = Some(Box::new(PhaseTimes { routed, admitted: None, asked: None, head: None }));
        }
    }

    /// Limits and access rules were passed.
    pub(crate) fn note_admitted(&mut self) {
        if let Some(times) = &mut self.routing.traced {
            times.admitted = Some(self.thread.reactor.now());
        }
    }

    /// The request is about to be sent to an upstream.
    pub(crate) fn note_asked(&mut self) {
        if let Some(times) = &mut self.routing.traced {
            times.asked.get_or_insert(self.thread.reactor.now());
        }
    }

    /// Adds the phases so far to the response's head.
    pub(crate) fn show_trace(&mut self, head: &mut ReplyHead) {
        if let Some(times) = &mut self.routing.traced {
            times.head = Some(self.thread.reactor.now());
            head.fields.push_named(FIELD, self.trace_line(false).as_bytes());
        }
    }

    /// `$request_trace`
    pub(crate) fn write_request_trace(&self, out: &mut Vec<u8>) -> bool {
        self.routing.traced.is_some() && bytes(self.trace_line(true).as_bytes(), out)
    }

    /// The phases; `whole`: with what is known at the end only.
    fn trace_line(&self, whole: bool) -> String {
        let Some(times) = &self.routing.traced else { return String::new() };
        let mut line = TraceLine::default();
        line.item("location", word(&self.location().route));
        line.item("route", times.routed.since(self.began_at.millis()));
        let mut before = times.routed;
        for (name, at) in [("admit", times.admitted), ("body", times.asked)] {
            if let Some(at) = at {
                line.item(name, at.since(before));
                before = at;
            }
        }
        let attempts = self.upstream.attempts().all();
        let hidden = attempts.len().saturating_sub(ATTEMPTS_MAX);
        if hidden > 0 {
            line.item("attempts", attempts.len());
        }
        for record in attempts.iter().skip(hidden) {
            line.item("attempt", self.shown_attempt(record));
        }
        if let Some(head) = times.head {
            line.item("head", head.since(self.began_at.millis()));
        }
        if whole {
            line.item("total", self.thread.reactor.now_us().since(self.began_at) / 1000);
            line.item("status", self.response.status());
            line.item("received", self.intake.body.received);
            line.item("sent", self.down.bytes_sent());
            line.item("close", self.down.ending.reason().map_or("-", |reason| reason.label()));
        }
        line.finish()
    }

    fn shown_attempt(&self, record: &AttemptRecord) -> String {
        let peer = word(record.peer_name(&self.generation).unwrap_or_default());
        let mut text = format!("{peer} {} wait={}", record.connection_word(), record.pool_wait_ms);
        let times = [
            ("line", record.queue_ms),
            ("connect", record.own_connect_ms()),
            ("head", record.header_ms()),
            ("done", record.response_ms()),
            ("status", Some(u64::from(record.status)).filter(|status| *status > 0)),
        ];
        for (name, value) in times {
            if let Some(value) = value {
                let _ = write!(text, " {name}={value}");
            }
        }
        // Writing to a string cannot fail.
        let _ = write!(text, " sent={} received={}", record.bytes_sent, record.bytes_received);
        if let Some(failure) = record.failure {
            let _ = write!(text, " failure={}", failure.label());
        }
        if let Some(reason) = record.close_reason {
            let _ = write!(text, " close={}", reason.label());
        }
        text
    }
}
