//! A response over HTTP/2, on a connection with one stream, in the form of HTTP/1.1: its head as text, then its body.
//! `opening` and `open_connection` read it like the bytes of HTTP/1.1, and send its frames. Pure.

use crate::cause::Cause;
use http2::{Config, Connection, ErrorCode, Event, Fields, Head, OpenFault, RequestLine, ResetBy, Role, StreamId};

/// Bytes that the target may send before any are read: more than one read takes, so the load's window never limits it.
const WINDOW_BYTES: u32 = 1 << 20;

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// It is complete.
    Complete,
    /// The target has reset the stream, or ends the connection without it.
    Reset(Cause),
    /// The target broke a rule, or does not speak HTTP/2.
    Fault(Cause),
}

/// One connection and its stream.
#[derive(Debug)]
pub(super) struct OneStream {
    engine: Connection,
    stream: StreamId,
    /// Whether any bytes have arrived.
    has_heard: bool,
    end: Option<StreamEnd>,
}

impl OneStream {
    /// Opens the stream; the connection's first frames are appended to `out`.
    pub(super) fn open(
        line: &RequestLine<'_>,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Fields<'_>),
    ) -> Result<Self, OpenFault> {
        let config = Config { stream_window: WINDOW_BYTES, connection_window: WINDOW_BYTES, ..Config::default() };
        let mut engine = Connection::new(Role::Client, config, 0, out);
        let stream = engine.open(line, true, out, fill)?;
        Ok(Self { engine, stream, has_heard: false, end: None })
    }

    /// How the response ended, once it has.
    pub(super) fn end(&self) -> Option<StreamEnd> {
        self.end
    }

    /// Reads bytes of the target. Appends what they are in HTTP/1.1 to `text`, and frames for the target to `out`.
    pub(super) fn take(&mut self, mut bytes: &[u8], now_ms: u64, text: &mut Vec<u8>, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_heard, true) && bytes.starts_with(b"HTTP") {
            self.end = Some(StreamEnd::Fault(Cause::NoHttp2));
        }
        let mut head = Head::default();
        while self.end.is_none() {
            match self.engine.receive(now_ms, &mut bytes, &mut head, out) {
                Ok(Some(event)) => self.take_event(event, &head, text, out),
                Ok(None) => return,
                Err(_) => self.end = Some(StreamEnd::Fault(Cause::Http2Broken)),
            }
        }
    }

    fn take_event(&mut self, event: Event<'_>, head: &Head, text: &mut Vec<u8>, out: &mut Vec<u8>) {
        match event {
            Event::Head { end, .. } => {
                write_head(head, text);
                self.end = end.then_some(StreamEnd::Complete);
            }
            Event::Data { stream, bytes, end } => {
                text.extend_from_slice(bytes);
                self.engine.consume(stream, bytes.len(), out);
                self.end = end.then_some(StreamEnd::Complete);
            }
            Event::Trailers { .. } => self.end = Some(StreamEnd::Complete),
            Event::Reset { stream, by } if stream == self.stream => {
                self.end = Some(match by {
                    ResetBy::Us(http2::Reason::Unprocessed) | ResetBy::Peer(ErrorCode::REFUSED_STREAM) => {
                        StreamEnd::Reset(Cause::RefusedStream)
                    }
                    ResetBy::Us(_) => StreamEnd::Fault(Cause::Http2Broken),
                    ResetBy::Peer(_) => StreamEnd::Reset(Cause::StreamReset),
                });
            }
            _ => {}
        }
    }
}

fn write_head(head: &Head, text: &mut Vec<u8>) {
    text.extend_from_slice(format!("HTTP/1.1 {} \r\n", head.status).as_bytes());
    for field in &head.fields {
        for part in [field.name.of(&head.bytes), b": ", field.value.of(&head.bytes), b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response as a server sends it, and what the client reads.
    fn read(answer: impl FnOnce(&mut Connection, &mut Vec<u8>)) -> (String, Option<StreamEnd>) {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let line = RequestLine { method: b"GET", scheme: b"http", authority: b"a", path: b"/", protocol: b"" };
        let mut client = OneStream::open(&line, &mut to_server, |_| ()).unwrap();
        let mut server = Connection::new(Role::Server, Config::default(), 0, &mut to_client);
        let (mut head, mut input) = (Head::default(), &to_server[..]);
        while server.receive(0, &mut input, &mut head, &mut to_client).unwrap().is_some() {}
        answer(&mut server, &mut to_client);
        let mut text = Vec::new();
        for byte in to_client {
            client.take(&[byte], 0, &mut text, &mut Vec::new());
        }
        (String::from_utf8(text).unwrap(), client.end())
    }

    #[test]
    fn a_response_is_read_as_over_http1() {
        let (text, end) = read(|server, out| {
            server.respond(StreamId(1), 200, false, out, |fields| fields.add(b"x-a", b"1").unwrap()).unwrap();
            server.send_data(StreamId(1), b"data: 1\n\n", false, out, 1 << 20).unwrap();
        });
        assert_eq!((text.as_str(), end), ("HTTP/1.1 200 \r\nx-a: 1\r\n\r\ndata: 1\n\n", None));
    }

    #[test]
    fn distinguishes_ends_of_a_response() {
        let complete = read(|server, out| server.respond(StreamId(1), 404, true, out, |_| ()).unwrap());
        assert_eq!(complete, ("HTTP/1.1 404 \r\n\r\n".to_owned(), Some(StreamEnd::Complete)));
        let reset = |code| read(move |server, out| server.reset(StreamId(1), code, out)).1;
        assert_eq!(reset(ErrorCode::INTERNAL_ERROR), Some(StreamEnd::Reset(Cause::StreamReset)));
        assert_eq!(reset(ErrorCode::REFUSED_STREAM), Some(StreamEnd::Reset(Cause::RefusedStream)));
        let broken = read(|_, out| out.extend([0; 9]));
        assert_eq!(broken.1, Some(StreamEnd::Fault(Cause::Http2Broken)));
    }
}
