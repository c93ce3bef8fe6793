//! Calls of `TraceService/Export` over one HTTP/2 connection, one after the other, with the project's own engine. The
//! collector is not trusted: the engine bounds its input, and only the beginning of an answer is kept.

use crate::dial::Failed;
use crate::otel::client::{Fault, Wire, judge};
use gateway::spans::ExporterPlan;
use http1::FieldId;
use http2::{Config, Connection, Event, Head, RequestLine, ResetBy, Role, StreamId};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PATH: &[u8] = b"/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Bytes of a message's prefix: the compression flag and the length.
const PREFIX_BYTES: usize = 5;
/// Longest answer: a number and a text.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Bytes written at once.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes per read.
const READ_BYTES: usize = 4096;

/// Codes after which OTLP lets a client try again: cancelled, deadline exceeded, aborted, out of range, unavailable, data
/// loss. "Resource exhausted" is one only with a hint that few collectors send; the pause between attempts serves it.
const AGAIN: [u32; 7] = [1, 4, 8, 10, 11, 14, 15];

/// A connection to the collector.
pub(super) struct Link {
    stream: Box<dyn Wire>,
    engine: Connection,
    /// Bytes to send.
    out: Vec<u8>,
    begun: Instant,
}

/// What has come of an answer.
#[derive(Default)]
struct Answer {
    status: u16,
    code: Option<Vec<u8>>,
    /// `grpc-message`
    text: Vec<u8>,
    message: Vec<u8>,
}

impl Link {
    pub(super) fn new(stream: Box<dyn Wire>) -> Self {
        let mut out = Vec::new();
        let engine = Connection::new(Role::Client, Config::default(), 0, &mut out);
        Self { stream, engine, out, begun: Instant::now() }
    }

    /// Whether another call can be made.
    pub(super) fn is_usable(&self) -> bool {
        !self.engine.is_going()
    }

    /// Makes a call; returns the response's message. After an error the connection is not used again.
    pub(super) async fn call(&mut self, plan: &ExporterPlan, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let length = u32::try_from(message.len()).map_err(|_| Fault::last("the batch is too large for a message"))?;
        let frame = [&[0][..], &length.to_be_bytes(), message].concat();
        let stream = self.open(plan)?;
        let (mut sent, mut answer, mut head) = (0, Answer::default(), Head::default());
        loop {
            let rest = frame.get(sent..).unwrap_or_default();
            if !rest.is_empty() {
                let more = self.engine.send_data(stream, rest, true, &mut self.out, OUT_BYTES_MAX);
                sent += more.map_err(|_| Fault::again("the collector has ended the call before it was sent"))?;
            }
            self.flush().await?;
            if sent < frame.len() && self.engine.sendable_bytes(stream).is_some_and(|bytes| bytes > 0) {
                continue;
            }
            let mut bytes = [0; READ_BYTES];
            let count = self.stream.read(&mut bytes).await.map_err(|error| lost(&error))?;
            if count == 0 {
                return Err(Fault::again("the collector has closed the connection"));
            }
            let is_over = self.receive(stream, bytes.get(..count).unwrap_or_default(), &mut head, &mut answer)?;
            if is_over {
                self.flush().await?;
                return answer.judge();
            }
        }
    }

    fn open(&mut self, plan: &ExporterPlan) -> Result<StreamId, Fault> {
        let authority = plan.authority();
        let line = RequestLine {
            method: b"POST",
            scheme: if plan.secure { b"https" } else { b"http" },
            authority: authority.as_bytes(),
            path: PATH,
            protocol: b"",
        };
        let agent = concat!("holdfast/", env!("CARGO_PKG_VERSION"));
        let fields = [("content-type", "application/grpc"), ("te", "trailers"), ("user-agent", agent)];
        let own = plan.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let opened = self.engine.open(&line, false, &mut self.out, |head| {
            for (name, value) in fields.into_iter().chain(own) {
                let _ = head.add(name.as_bytes(), value.as_bytes());
            }
        });
        opened.map_err(|_| Fault::again("the collector takes no further call on this connection"))
    }

    async fn flush(&mut self) -> Result<(), Fault> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out).await.map_err(|error| lost(&error))?;
            self.out.clear();
            self.stream.flush().await.map_err(|error| lost(&error))?;
        }
        Ok(())
    }

    /// Takes bytes of the collector; `true` at the end of the answer.
    fn receive(
        &mut self,
        own: StreamId,
        mut bytes: &[u8],
        head: &mut Head,
        answer: &mut Answer,
    ) -> Result<bool, Fault> {
        let now_ms = self.begun.elapsed().as_millis() as u64;
        let is_http1 = !self.engine.knows_peer() && bytes.starts_with(b"HTTP/1.");
        let broken = |closed: http2::Closed| {
            if is_http1 {
                return Fault::last("the collector answers in HTTP/1: OTLP over HTTP has a path, such as /v1/traces");
            }
            Fault::again(&format!("the collector's HTTP/2 is broken: {closed}"))
        };
        while let Some(event) = self.engine.receive(now_ms, &mut bytes, head, &mut self.out).map_err(broken)? {
            let is_end = match event {
                Event::Head { stream, end } if stream == own => {
                    if !head.is_interim() {
                        answer.status = head.status;
                        answer.take_code(head);
                    }
                    end
                }
                Event::Data { stream, bytes, end } => {
                    let room = ANSWER_BYTES_MAX.saturating_sub(answer.message.len());
                    answer.message.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                    self.engine.consume(stream, bytes.len(), &mut self.out);
                    end
                }
                Event::Trailers { stream } if stream == own => {
                    answer.take_code(head);
                    true
                }
                Event::Reset { stream, by } if stream == own => {
                    let code = match by {
                        ResetBy::Peer(code) => code,
                        ResetBy::Us(reason) => reason.code(),
                    };
                    return Err(Fault::again(&format!("the collector has reset the call ({code})")));
                }
                _ => false,
            };
            if is_end {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Answer {
    fn take_code(&mut self, head: &Head) {
        if let Some(code) = head.value(FieldId::GrpcStatus) {
            self.code = Some(code.to_vec());
        }
        if let Some(text) = head.value(FieldId::GrpcMessage) {
            self.text = text.to_vec();
        }
    }

    fn judge(self) -> Result<Vec<u8>, Fault> {
        if self.status != 200 {
            return Err(judge(self.status));
        }
        let code = self.code.as_deref().and_then(|code| std::str::from_utf8(code).ok()?.parse::<u32>().ok());
        match code {
            Some(0) => {}
            Some(code) => {
                let text = self.text.get(..200).unwrap_or(&self.text).escape_ascii();
                let message = format!("the collector answers grpc-status {code}: {text}");
                return Err(if AGAIN.contains(&code) { Fault::again(&message) } else { Fault::last(&message) });
            }
            None => return Err(Fault::last("the collector sent no grpc-status: is it an address of OTLP over gRPC?")),
        }
        let (prefix, message) = self.message.split_at_checked(PREFIX_BYTES).unwrap_or((&[0; PREFIX_BYTES], &[]));
        // No compression was offered.
        if prefix.first() != Some(&0) {
            return Err(Fault::last("the collector answers with a compressed message"));
        }
        Ok(message.to_vec())
    }
}

fn lost(error: &std::io::Error) -> Fault {
    let error: Failed = format!("the connection to the collector is lost ({})", gateway::errno(error)).into();
    Fault::again(&error.to_string())
}
