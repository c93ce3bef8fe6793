//! The socket of an HTTP/2 connection: its start, reads, writes, and its end. `multiplex` handles its streams.

use super::{Dialogue, EndBy, PREFACE, READ_BYTES, Round, State};
use crate::counters::CloseReason;
use crate::multiplex::{Multiplex, OUT_BYTES_MAX, Who};
use crate::options::ClosingStyle;
use crate::worker::Site;
use reactor::{Read, monotonic_millis};
use transport::Transport;

/// Whether these first bytes can be the start of an HTTP/2 preface (prior knowledge).
pub(super) fn may_be_preface(bytes: &[u8]) -> bool {
    let len = bytes.len().min(PREFACE.len());
    bytes.get(..len) == PREFACE.get(..len)
}

impl Dialogue {
    pub(super) fn begin_http2(&mut self, site: &Site) {
        site.counters().http2_connection();
        self.set_due(site, None);
        self.state = State::Http2(Box::new(Multiplex::new(site)));
    }

    /// Handles bytes that were read together with the preface.
    pub(super) fn read_http2(&mut self, bytes: &[u8], site: &mut Site) {
        let Some((mut session, mut who)) = self.take_session() else { return };
        let mut out = std::mem::take(&mut site.frames);
        session.read_frames(bytes, &mut who, site, &mut out);
        session.keep(&out);
        out.clear();
        site.frames = out;
        self.state = State::Http2(session);
    }

    /// Takes the session out of the state, with the parts of this connection that it may use.
    fn take_session(&mut self) -> Option<(Box<Multiplex>, Who<'_>)> {
        let State::Http2(session) = std::mem::replace(&mut self.state, State::Head) else { return None };
        let who = Who {
            serial: self.serial,
            from: &self.from,
            requests: &mut self.requests,
            requests_left: &mut self.requests_left,
            closing: &mut self.closing,
        };
        Some((session, who))
    }

    /// One round: due work, a write, and a read.
    pub(super) fn drive_http2(&mut self, stream: &Transport, site: &mut Site) -> Round {
        let Some((mut session, mut who)) = self.take_session() else { return Round::Again };
        match session.flush(stream) {
            Ok(true) => {}
            Ok(false) => {
                self.state = State::Http2(session);
                return self.watch(stream);
            }
            Err(_) => return self.end_round(CloseReason::ClientReset),
        }
        if let Some(reason) = session.over() {
            let style = if reason == CloseReason::Http2Fault { ClosingStyle::Fin } else { self.closing.style };
            // Clients send frames until they see the end, even behind their own GOAWAY.
            self.close_while(true, reason, style, stream, site);
            return Round::Again;
        }
        let mut out = std::mem::take(&mut site.frames);
        out.clear();
        let now = monotonic_millis();
        session.fire(now, &mut who, site, &mut out);
        session.pump(now, &mut out);
        let mut is_over = None;
        let mut again = true;
        if out.len() < OUT_BYTES_MAX && !session.is_closed() {
            match stream.read_with(READ_BYTES, |bytes| session.read_frames(bytes, &mut who, site, &mut out)) {
                Ok(Read::Data(())) => {}
                Ok(Read::NotReady) => again = !out.is_empty(),
                Ok(Read::Closed) => {
                    let is_early = session.has_streams();
                    is_over = Some(if is_early { CloseReason::ClientClosedEarly } else { CloseReason::ClientClosed });
                }
                Err(_) => is_over = Some(CloseReason::ClientReset),
            }
        }
        let written = session.write(stream, &out);
        out.clear();
        site.frames = out;
        if session.is_reset_wanted() {
            self.end(CloseReason::FaultReset, EndBy::Reset);
            return Round::Again;
        }
        if written.is_err() {
            is_over = is_over.or(Some(CloseReason::ClientReset));
        }
        if let Some(reason) = is_over {
            return self.end_round(reason);
        }
        // The next round handles streams that have ended meanwhile.
        if again || session.over().is_some() {
            self.state = State::Http2(session);
            return Round::Again;
        }
        session.rest();
        let due = session.due(now, self.closing.after_idle);
        self.state = State::Http2(session);
        self.set_due(site, due);
        self.watch(stream)
    }
}
