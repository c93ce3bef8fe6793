//! The events of `/events`: server-sent events (WHATWG HTML section 9.2), made while they are sent. `body` frames and paces
//! them. It reads the wall clock, because each event says when it was sent.

use crate::body::CutBy;
use std::time::{SystemTime, UNIX_EPOCH};

/// The events of one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Events {
    /// The number of the next event, which is its `id`.
    pub(crate) next: u64,
    /// Events that are left; `None` without an end.
    pub(crate) left: Option<u64>,
    /// Milliseconds between two events.
    pub(crate) every_ms: u64,
    /// Bytes of filler in the data.
    pub(crate) fill_bytes: usize,
    /// The reconnection time for the client, in milliseconds.
    pub(crate) retry_ms: Option<u64>,
    /// How the response ends after its last event, if it is not complete then.
    pub(crate) cut: Option<CutBy>,
}

impl Events {
    /// Whether no event is left.
    pub(crate) fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    /// The next event as text.
    pub(crate) fn next_text(&mut self) -> String {
        let sent_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
        let retry = self.retry_ms.take().map_or_else(String::new, |ms| format!("retry: {ms}\n"));
        let (number, filler) = (self.next, "x".repeat(self.fill_bytes));
        self.next += 1;
        self.left = self.left.map(|left| left.saturating_sub(1));
        let filler = if filler.is_empty() { filler } else { format!(",\"filler\":\"{filler}\"") };
        format!("{retry}id: {number}\ndata: {{\"number\":{number},\"sent_us\":{sent_us}{filler}}}\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_and_end() {
        let mut events = Events { next: 7, left: Some(2), every_ms: 1, fill_bytes: 3, retry_ms: Some(50), cut: None };
        let first = events.next_text();
        assert!(first.starts_with("retry: 50\nid: 7\ndata: {\"number\":7,\"sent_us\":"), "{first}");
        assert!(first.ends_with(",\"filler\":\"xxx\"}\n\n"), "{first}");
        assert!(!events.is_over() && events.next_text().starts_with("id: 8\n") && events.is_over());
    }
}
