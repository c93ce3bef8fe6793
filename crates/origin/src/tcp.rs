//! `--tcp`: connections without HTTP. An echo, a sink or a source, with a pace, delays and ends by FIN, half-close or RST, as
//! the paths of HTTP have them. `connection` drives it.

use crate::body::{Body, Framing, pause_end};
use crate::counters::CloseReason;
use crate::options::ClosingStyle;
use crate::query::{Complaint, Query, number};
use reactor::{Millis, Read};
use std::io::IoSlice;
use std::str::FromStr;
use transport::Transport;

/// Bytes per read, with other connections in between.
const READ_BYTES: u64 = 64 * 1024;
/// The default pace, as for `/slow/N`.
const EVERY_MS: u64 = 100;

/// What every connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Sends everything back.
    Echo,
    /// Reads and sends nothing.
    Sink,
    /// Sends this many bytes of the pattern, and reads nothing.
    Source(u64),
}

/// What every connection does, and when and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    kind: Kind,
    /// Before the first byte of a source, and before each piece of an echo.
    delay_ms: u64,
    /// Bytes that are read or sent at once, and milliseconds until the next.
    pace: Option<(u64, u64)>,
    /// Received bytes after which the origin ends the connection.
    after: Option<u64>,
    /// How it ends a connection.
    pub(crate) by: ClosingStyle,
}

impl FromStr for Tcp {
    type Err = String;

    /// `echo`, `sink` or `source/BYTES`, with `?delay=MS&step=BYTES&every=MS&after=BYTES&by=STYLE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        let said = |Complaint(text)| text;
        let kind = match name.split_once('/') {
            None if name == "echo" => Kind::Echo,
            None if name == "sink" => Kind::Sink,
            Some(("source", bytes)) => Kind::Source(number("source", bytes, 0, u64::MAX).map_err(said)?),
            _ => return Err("expected echo, sink or source/BYTES".to_owned()),
        };
        let known = ["delay", "step", "every", "after", "by"];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            if !known.contains(&name) {
                return Err(format!("unknown parameter \"{name}\": expected {}", known.join(", ")));
            }
        }
        let query = Query(query.as_bytes());
        let value = |name, min| query.number(name, min, u64::from(u32::MAX)).map_err(said);
        let by = query.text("by").map(|style| style.parse::<ClosingStyle>()).transpose();
        Ok(Self {
            kind,
            delay_ms: value("delay", 0)?.unwrap_or(0),
            pace: match (value("step", 1)?, value("every", 0)?) {
                (None, None) => None,
                (step, every) => Some((step.unwrap_or(1), every.unwrap_or(EVERY_MS))),
            },
            after: query.number("after", 0, u64::MAX).map_err(said)?,
            by: by.map_err(|unknown| format!("by: {unknown}"))?.unwrap_or_default(),
        })
    }
}

impl Tcp {
    fn body(&self, bytes: u64) -> Body {
        let body = Body::new(Framing::UntilClose, bytes);
        match self.pace {
            Some((step, every_ms)) => body.paced(step, every_ms),
            None => body,
        }
    }
}

/// The progress of one connection.
#[derive(Debug, Default)]
pub(crate) struct TcpTalk {
    has_begun: bool,
    received: u64,
    /// The client has sent FIN.
    ended: bool,
    /// `out[sent..]` is still to be sent back.
    out: Vec<u8>,
    sent: usize,
    paused_until: Option<Millis>,
}

/// The result of a step.
pub(crate) enum TcpStep {
    Again,
    /// For an event of the socket, or for this time.
    Wait(Option<Millis>),
    /// From now on this is sent.
    Send(Body),
    End(CloseReason, ClosingStyle),
}

impl TcpTalk {
    /// Reads or writes once. `now` must be read from the clock.
    pub(crate) fn step(&mut self, tcp: &Tcp, stream: &Transport, now: Millis) -> TcpStep {
        if let Some(until) = self.paused_until {
            if now < until {
                return TcpStep::Wait(Some(until));
            }
            self.paused_until = None;
        }
        if let Kind::Source(bytes) = tcp.kind {
            if std::mem::replace(&mut self.has_begun, true) || tcp.delay_ms == 0 {
                return TcpStep::Send(tcp.body(bytes));
            }
            self.paused_until = Some(pause_end(now, tcp.delay_ms));
            return TcpStep::Again;
        }
        if self.sent < self.out.len() {
            return match stream.write(&[IoSlice::new(&self.out[self.sent..])], false) {
                Ok(0) => TcpStep::Wait(None),
                Ok(count) => {
                    self.sent += count;
                    TcpStep::Again
                }
                Err(_) => TcpStep::End(CloseReason::ClientReset, ClosingStyle::Fin),
            };
        }
        (self.sent, self.out) = (0, Vec::new());
        if tcp.after.is_some_and(|after| self.received >= after) {
            return TcpStep::End(CloseReason::TcpEnd, tcp.by);
        }
        if self.ended {
            return TcpStep::End(CloseReason::TcpEnd, ClosingStyle::Fin);
        }
        self.read(tcp, stream, now)
    }

    fn read(&mut self, tcp: &Tcp, stream: &Transport, now: Millis) -> TcpStep {
        let left = tcp.after.map_or(u64::MAX, |after| after - self.received);
        let step = tcp.pace.map_or(READ_BYTES, |(step, _)| step);
        let read = stream.read_with(left.min(step).min(READ_BYTES) as usize, |bytes| {
            self.received += bytes.len() as u64;
            if tcp.kind == Kind::Echo {
                self.out.extend_from_slice(bytes);
            }
        });
        match read {
            Ok(Read::Data(())) => {
                let pause_ms = tcp.delay_ms.max(tcp.pace.map_or(0, |(_, every_ms)| every_ms));
                self.paused_until = (pause_ms > 0).then(|| pause_end(now, pause_ms));
                TcpStep::Again
            }
            Ok(Read::NotReady) => TcpStep::Wait(None),
            Ok(Read::Closed) => {
                self.ended = true;
                TcpStep::Again
            }
            Err(_) => TcpStep::End(CloseReason::ClientReset, ClosingStyle::Fin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_are_read_as_written() {
        let tcp: Tcp = "echo?delay=5&after=10&by=reset".parse().unwrap();
        assert_eq!((tcp.kind, tcp.delay_ms, tcp.after, tcp.by), (Kind::Echo, 5, Some(10), ClosingStyle::Reset));
        let tcp: Tcp = "source/1000?step=10".parse().unwrap();
        assert_eq!((tcp.kind, tcp.pace), (Kind::Source(1000), Some((10, EVERY_MS))));
        assert_eq!("sink".parse::<Tcp>().unwrap().pace, None);
        for wrong in ["", "source", "source/x", "echo/1", "echo?by=x", "echo?delay=x", "echo?dely=1", "sink?step=0"] {
            assert!(wrong.parse::<Tcp>().is_err(), "{wrong}");
        }
    }
}
