//! Streams whose answer came before the end of their request. The engine drops what their clients still send, as far as their windows go, and
//! counts them as open; the session, which owns this, resets them after `lingering_timeout`. A reset at once would make some clients lose
//! the answer: curl 7.88 did so in every fifth try.

use http2::{Connection as Engine, StreamId};
use reactor::Millis;
use std::collections::VecDeque;

/// Entries of streams that have ended by themselves: they are taken out when there are more of them than others, and than this.
const ENDED_MAX: usize = 16;

/// Such streams of a connection, in the order in which they were answered.
#[derive(Debug, Default)]
pub(super) struct Lingering(VecDeque<(StreamId, Millis)>);

impl Lingering {
    pub(super) fn push(&mut self, stream: StreamId, until: Millis, engine: &Engine) {
        if self.0.len() > 2 * engine.streams() + ENDED_MAX {
            self.0.retain(|(stream, _)| engine.is_open(*stream));
        }
        self.0.push_back((stream, until));
    }

    /// When the first is to be looked at. One with a shorter time behind it waits for it: locations seldom differ.
    pub(super) fn until(&self) -> Option<Millis> {
        self.0.front().map(|(_, until)| *until)
    }

    /// The next stream whose time is over.
    pub(super) fn next_over(&mut self, now: Millis, engine: &Engine) -> Option<StreamId> {
        while let Some(&(stream, until)) = self.0.front() {
            let is_open = engine.is_open(stream);
            if is_open && until > now {
                return None;
            }
            self.0.pop_front();
            if is_open {
                return Some(stream);
            }
        }
        self.0 = VecDeque::new();
        None
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(StreamId, Millis)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http2::{Config, ErrorCode, RequestLine, Role};

    #[test]
    fn streams_are_over_at_their_time_or_with_their_client() {
        let mut out = Vec::new();
        let mut engine = Engine::new(Role::Client, Config::default(), 0, &mut out);
        let line = RequestLine { method: b"GET", scheme: b"http", authority: b"a", path: b"/", protocol: b"" };
        let mut lingering = Lingering::default();
        let mut open = |engine: &mut Engine| engine.open(&line, true, &mut out, |_| ()).expect("a stream");
        let ids = [10, 20, 30].map(|until| {
            let id = open(&mut engine);
            lingering.push(id, Millis(until), &engine);
            id
        });
        assert_eq!((lingering.next_over(Millis(9), &engine), lingering.until()), (None, Some(Millis(10))));
        engine.reset(ids[0], ErrorCode::CANCEL, &mut Vec::new());
        assert_eq!((lingering.next_over(Millis(9), &engine), lingering.until()), (None, Some(Millis(20))));
        assert_eq!(lingering.next_over(Millis(25), &engine), Some(ids[1]));
        engine.reset(ids[2], ErrorCode::CANCEL, &mut Vec::new());
        assert_eq!((lingering.next_over(Millis(25), &engine), lingering.until()), (None, None));
        assert_eq!(lingering.held_bytes(), 0);
    }

    #[test]
    fn ended_streams_are_taken_out_behind_one_that_stays() {
        let mut out = Vec::new();
        let mut engine = Engine::new(Role::Client, Config::default(), 0, &mut out);
        let line = RequestLine { method: b"GET", scheme: b"http", authority: b"a", path: b"/", protocol: b"" };
        let mut lingering = Lingering::default();
        for turn in 0..1000 {
            let id = engine.open(&line, true, &mut out, |_| ()).expect("a stream");
            lingering.push(id, Millis(5000), &engine);
            if turn > 0 {
                engine.reset(id, ErrorCode::CANCEL, &mut out);
            }
        }
        assert!(lingering.0.len() < 40, "{} entries", lingering.0.len());
    }
}
