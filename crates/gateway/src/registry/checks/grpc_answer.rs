//! A check by gRPC's own health protocol (`grpc.health.v1`): the request, and the evaluation of the response. It opens
//! no socket; the control plane moves the bytes. Peers are not trusted: the engine bounds its input, and only the
//! beginning of a body is kept.

use crate::plan::check::GrpcCheck;
use crate::registry::checks::{CheckResult, Finding};
use http1::FieldId;
use http2::{Config, Connection, ErrorCode, Event, Head, HeadKind, RequestLine, ResetBy, Role, StreamId};

/// A message of the health protocol has a few bytes; a longer one is invalid.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Bytes of the message prefix: the compression flag and the length.
const PREFIX_BYTES: usize = 5;
/// `HealthCheckResponse.status`: field 1, a number.
const STATUS_TAG: u8 = 0x08;
/// The value `SERVING` of that field.
const SERVING: u8 = 1;

const READING: &str = "reading response header from upstream";
const CHECKING_STATUS: &str = "checking status code";
const CHECKING_HEALTH: &str = "checking the health of a gRPC service";

/// A check in progress.
pub struct GrpcAnswer<'plan> {
    check: &'plan GrpcCheck,
    engine: Connection,
    head: Head,
    stream: Option<StreamId>,
    /// Bytes to send: first the request, then the protocol's answers.
    out: Vec<u8>,
    status: u16,
    grpc_status: Option<Vec<u8>>,
    message: Vec<u8>,
}

impl<'plan> GrpcAnswer<'plan> {
    /// Starts a check. `secure`: over TLS.
    pub(super) fn new(check: &'plan GrpcCheck, secure: bool) -> Self {
        let mut out = Vec::new();
        let mut engine = Connection::new(Role::Client, Config::default(), 0, &mut out);
        let line = RequestLine {
            method: b"POST",
            scheme: if secure { b"https" } else { b"http" },
            authority: &check.host,
            path: b"/grpc.health.v1.Health/Check",
            protocol: b"",
        };
        let agent = concat!("holdfast/", env!("CARGO_PKG_VERSION"), " (health check)");
        let fields: [(&[u8], &[u8]); 3] =
            [(b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"user-agent", agent.as_bytes())];
        let stream = engine.open(&line, false, &mut out, |head| {
            for (name, value) in fields {
                let _ = head.add(name, value);
            }
        });
        let stream = stream.ok();
        if let Some(stream) = stream {
            let _ = engine.send_data(stream, &check.message, true, &mut out, usize::MAX);
        }
        let (head, message) = (Head::default(), Vec::new());
        Self { check, engine, head, stream, out, status: 0, grpc_status: None, message }
    }

    /// Takes the bytes to send now.
    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub(super) fn phase(&self) -> &'static str {
        if self.status == 0 { READING } else { CHECKING_HEALTH }
    }

    /// Takes further bytes. Returns the result as soon as there is one.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Option<CheckResult> {
        if self.stream.is_none() {
            // The host cannot be sent.
            return Some(CheckResult::new(Finding::Invalid, READING, "the request cannot be sent over HTTP/2"));
        }
        loop {
            let is_end = match self.engine.receive(0, &mut bytes, &mut self.head, &mut self.out) {
                Ok(None) => return None,
                Err(closed) => return Some(CheckResult::new(Finding::Invalid, self.phase(), closed.to_string())),
                Ok(Some(Event::Head { end, .. })) => {
                    // Interim heads are ignored.
                    if !self.head.is_interim() {
                        self.status = self.head.status;
                        self.take_status();
                    }
                    end
                }
                Ok(Some(Event::Data { stream, bytes, end })) => {
                    let room = MESSAGE_BYTES_MAX - self.message.len();
                    self.message.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                    self.engine.consume(stream, bytes.len(), &mut self.out);
                    end
                }
                Ok(Some(Event::Trailers { .. })) => {
                    debug_assert_eq!(self.head.kind, HeadKind::Trailers);
                    self.take_status();
                    true
                }
                Ok(Some(Event::Reset { by, .. })) => {
                    let code: ErrorCode = match by {
                        ResetBy::Peer(code) => code,
                        ResetBy::Us(reason) => reason.code(),
                    };
                    let detail = format!("upstream rejected request with error {} ({code})", code.0);
                    return Some(CheckResult::new(Finding::Broken, self.phase(), detail));
                }
                Ok(Some(Event::GoAway { .. } | Event::SettingsAcked | Event::PeerSettings | Event::Pong(_))) => false,
            };
            if is_end {
                return Some(self.judge());
            }
        }
    }

    fn take_status(&mut self) {
        if let Some(status) = self.head.value(FieldId::GrpcStatus) {
            self.grpc_status = Some(status.to_vec());
        }
    }

    /// The result when the peer has closed.
    pub(super) fn end(&self) -> CheckResult {
        CheckResult::new(Finding::Broken, self.phase(), "upstream prematurely closed connection")
    }

    fn judge(&self) -> CheckResult {
        if self.status != 200 {
            return CheckResult::new(Finding::Status, CHECKING_STATUS, format!("status {}", self.status));
        }
        let Some(code) = &self.grpc_status else {
            return CheckResult::new(Finding::Invalid, CHECKING_STATUS, "upstream sent no \"grpc-status\"");
        };
        if **code != *self.check.status.to_string().as_bytes() {
            let detail = format!("grpc-status {}", code.get(..8).unwrap_or(code).escape_ascii());
            return CheckResult::new(Finding::Status, CHECKING_STATUS, detail);
        }
        // The configured status is an error: a server without the protocol counts as healthy.
        if self.check.status != 0 {
            return CheckResult::new(Finding::Passed, CHECKING_STATUS, "");
        }
        match health(&self.message) {
            Some(SERVING) => CheckResult::new(Finding::Passed, CHECKING_HEALTH, ""),
            Some(status) => {
                let names = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
                let name = names.get(usize::from(status)).copied().unwrap_or("an unknown status");
                CheckResult::new(Finding::Body, CHECKING_HEALTH, format!("the service is {name}"))
            }
            None => CheckResult::new(Finding::Invalid, CHECKING_HEALTH, "upstream sent no HealthCheckResponse"),
        }
    }
}

/// The status in a `HealthCheckResponse`; 0 if the message omits it, `None` if the message is invalid.
fn health(message: &[u8]) -> Option<u8> {
    let (prefix, body) = message.split_at_checked(PREFIX_BYTES)?;
    let length = u32::from_be_bytes(prefix.get(1..)?.try_into().ok()?);
    if prefix.first() != Some(&0) || length as usize != body.len() {
        return None;
    }
    match body {
        [] => Some(0),
        [STATUS_TAG, status] if *status < 0x80 => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for a server that answers with this message and status.
    fn result(check: &GrpcCheck, status: u16, message: &[u8], grpc_status: &str) -> CheckResult {
        let mut asked = GrpcAnswer::new(check, false);
        let (mut out, mut head) = (Vec::new(), Head::default());
        let mut server = Connection::new(Role::Server, Config::default(), 0, &mut out);
        let request = asked.take_output();
        let mut input = &request[..];
        while let Some(event) = server.receive(0, &mut input, &mut head, &mut out).unwrap() {
            match event {
                Event::Head { .. } => assert_eq!(head.path.of(&head.bytes), b"/grpc.health.v1.Health/Check"),
                Event::Data { stream, bytes, end: true } => {
                    assert_eq!(bytes, &*check.message);
                    server.respond(stream, status, false, &mut out, |_| ()).unwrap();
                    assert_eq!(server.send_data(stream, message, false, &mut out, 65_536), Ok(message.len()));
                    let trailers =
                        |fields: &mut http2::Fields<'_>| fields.add(b"grpc-status", grpc_status.as_bytes()).unwrap();
                    server.send_trailers(stream, &mut out, trailers).unwrap();
                }
                _ => {}
            }
        }
        // In pieces of any size.
        let mut results = out.chunks(7).filter_map(|piece| asked.take(piece));
        results.next().expect("the answer is whole")
    }

    #[test]
    fn only_a_service_that_serves_is_well() {
        let check = GrpcCheck::new(b"calls", b"shop.Orders", 0);
        assert_eq!(&*check.message, b"\0\0\0\0\x0d\x0a\x0bshop.Orders");
        let finding = |message: &[u8], grpc_status: &str| result(&check, 200, message, grpc_status).finding;
        assert_eq!(finding(b"\0\0\0\0\x02\x08\x01", "0"), Finding::Passed);
        assert_eq!(finding(b"\0\0\0\0\x02\x08\x02", "0"), Finding::Body);
        assert_eq!(finding(b"\0\0\0\0\0", "0"), Finding::Body);
        for message in
            [&b""[..], b"\0\0\0", b"\x01\0\0\0\x02\x08\x01", b"\0\0\0\0\x09\x08\x01", b"\0\0\0\0\x02\x10\x01"]
        {
            assert_eq!(finding(message, "0"), Finding::Invalid, "{message:?}");
        }
        assert_eq!(finding(b"\0\0\0\0\x02\x08\x01", "12"), Finding::Status);
        assert_eq!(result(&check, 503, b"", "0").finding, Finding::Status);
    }

    #[test]
    fn a_server_without_the_protocol_may_be_well() {
        let check = GrpcCheck::new(b"calls", b"", 12);
        assert_eq!(&*check.message, b"\0\0\0\0\0");
        assert_eq!(result(&check, 200, b"", "12").finding, Finding::Passed);
        assert_eq!(result(&check, 200, b"\0\0\0\0\x02\x08\x01", "0").finding, Finding::Status);
    }

    #[test]
    fn invalid_http2_fails_the_check() {
        let check = GrpcCheck::new(b"calls", b"", 0);
        let mut asked = GrpcAnswer::new(&check, false);
        assert_eq!(asked.take(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap().finding, Finding::Invalid);
        assert_eq!(GrpcAnswer::new(&check, false).end().finding, Finding::Broken);
    }
}
