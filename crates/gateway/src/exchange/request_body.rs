//! The request on its way out: whether its body is read first or streamed, and the head that the upstream gets.

use super::body::{BodyError, BodyRead};
use super::proxied_head::has_line_end;
use super::reply::Reply;
use super::{Exchange, ExchangeView};
use crate::close::CloseReason;
use crate::error_log::errno;
use crate::generation::{PassUriPlan, ProxyPlan};
use http1::encode::{encode_fields, encode_head_end, encode_number_field};
use http1::{BodyFraming, UpgradeKind};
use rules::uri::{PassUri, ProxyUri};

/// Bytes read from the client at once while a body is collected.
const READ_BYTES: usize = 64 * 1024;

/// The body as the upstream gets it.
#[derive(Debug)]
pub(super) struct OutgoingBody {
    bytes: Vec<u8>,
    complete: bool,
    /// Its whole length, where that is known.
    length: Option<u64>,
    present: bool,
}

impl OutgoingBody {
    /// What of it was read before the first attempt.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All of it is in memory: it can be sent again.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// It is sent in chunks, because its length is not known.
    pub(super) fn is_chunked(&self) -> bool {
        self.present && self.length.is_none()
    }
}

impl Exchange {
    /// Reads the body, as far as the configuration wants that before the upstream sees the request.
    pub(super) async fn take_body(&mut self, plan: &ProxyPlan) -> Result<OutgoingBody, Reply> {
        let framing = self.body.framing();
        let length = match framing {
            BodyFraming::Length(length) => Some(length),
            BodyFraming::None | BodyFraming::Chunked => None,
        };
        if !plan.pass_request_body {
            return Ok(OutgoingBody { bytes: Vec::new(), complete: true, length: None, present: false });
        }
        let mut body = OutgoingBody {
            bytes: Vec::new(),
            complete: self.body.is_done(),
            length,
            present: framing != BodyFraming::None,
        };
        if self.body.is_done() {
            return Ok(body);
        }
        self.send_continue()?;
        let limit = self.client_plan().body_buffer_bytes;
        // A body that does not fit the buffer is streamed; so is every body with `proxy_request_buffering off`.
        if !plan.request_buffering || length.is_some_and(|length| length > limit as u64) {
            return Ok(body);
        }
        while !self.body.is_done() && body.bytes.len() < limit {
            let room = (limit - body.bytes.len()).min(READ_BYTES);
            match self.body.read(&mut self.down.connection, room, |data| body.bytes.extend_from_slice(data)) {
                Ok(BodyRead::Data | BodyRead::Done) => {
                    if let Some(reply) = self.check_received_size() {
                        return Err(reply);
                    }
                }
                Ok(BodyRead::NotReady) => {
                    if self.wait(self.client_plan().body_timeout).await {
                        return Err(self.body_timed_out());
                    }
                }
                Err(error) => return Err(self.refuse_body(&error)),
            }
        }
        body.complete = self.body.is_done();
        if body.complete {
            body.length = Some(body.bytes.len() as u64);
        }
        Ok(body)
    }

    /// Tells a client that waits for it to go on.
    fn send_continue(&mut self) -> Result<(), Reply> {
        let waits =
            self.request.head.expect_continue && self.body.received == 0 && self.down.connection.pending.is_empty();
        if waits && self.down.send_interim(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            self.close = Some(CloseReason::ClientAborted);
            return Err(Reply::error(499));
        }
        Ok(())
    }

    pub(super) fn check_received_size(&mut self) -> Option<Reply> {
        let limit = self.client_plan().body_size_max;
        if limit == 0 || self.body.received <= limit {
            return None;
        }
        self.error_log(&format!("client intended to send too large chunked body: {} bytes", self.body.received));
        self.down.keepalive = false;
        Some(Reply::error(413))
    }

    /// The answer to a body that does not come.
    pub(super) fn body_timed_out(&mut self) -> Reply {
        self.error_log("client timed out (110: Connection timed out) while reading client request body");
        self.close = Some(CloseReason::BodyTimeout);
        self.down.keepalive = false;
        Reply::error(408)
    }

    /// The answer to a body that cannot be read.
    pub(super) fn refuse_body(&mut self, error: &BodyError) -> Reply {
        self.down.keepalive = false;
        match error {
            BodyError::Malformed(error) => {
                self.error_log(&format!("{}: {error}", error.request_phrase()));
                self.close = Some(CloseReason::BadRequest);
                Reply::error(400)
            }
            BodyError::Closed => {
                self.error_log("client prematurely closed connection while sending request body");
                self.close = Some(CloseReason::ClientAborted);
                Reply::error(400)
            }
            BodyError::Broken(error) => {
                self.error_log(&format!("recv() failed ({}) while reading client request body", errno(error)));
                self.close = Some(CloseReason::ClientAborted);
                Reply::error(400)
            }
        }
    }

    /// Writes the head for the upstream.
    pub(super) fn encode_upstream_head(&mut self, plan: &ProxyPlan, body: &OutgoingBody) {
        let mut out = std::mem::take(&mut self.request.upstream_head);
        out.clear();
        out.extend_from_slice(self.method_name());
        out.push(b' ');
        self.write_upstream_target(plan, &mut out);
        out.extend_from_slice(if plan.http_1_1 { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" });
        let mut upgrade_sent = false;
        let view = ExchangeView::of(self);
        for field in &plan.set_fields {
            let start = out.len();
            out.extend_from_slice(&field.name);
            out.extend_from_slice(b": ");
            let value = out.len();
            field.value.write(&view, &mut out);
            if self.is_h2c(&field.name) {
                // R47: `Upgrade: h2c` ends here, also where a template passes the client's field on.
                out.truncate(start);
                continue;
            }
            if out.len() == value {
                out.truncate(start);
                continue;
            }
            if has_line_end(&out[value..]) {
                // A captured or decoded value with a line end in it would become a field of its own.
                out.truncate(start);
                self.error_log(
                    "a line end in the value of a request header that proxy_set_header sets; it is not sent",
                );
                continue;
            }
            out.extend_from_slice(b"\r\n");
            upgrade_sent |= field.name.eq_ignore_ascii_case(b"Upgrade");
        }
        if body.is_chunked() {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        } else if let Some(length) = body.length.filter(|_| body.present) {
            encode_number_field(b"Content-Length", length, &mut out);
        }
        let head = &self.request.head;
        let bytes = &self.request.bytes;
        let passed = head.fields.iter().filter(|field| {
            plan.pass_request_headers && !field.hop && !plan.replaced.contains(field.id, field.name.of(bytes))
        });
        encode_fields(bytes, passed, &mut out);
        encode_head_end(&mut out);
        self.request.upstream_head = out;
        self.upgrade_sent = upgrade_sent;
    }

    fn is_h2c(&self, name: &[u8]) -> bool {
        let h2c = self.request.head.upgrade.is_some_and(|upgrade| upgrade.kind == UpgradeKind::H2c);
        h2c && name.eq_ignore_ascii_case(b"Upgrade")
    }

    fn write_upstream_target(&self, plan: &ProxyPlan, out: &mut Vec<u8>) {
        let parsed = self.target.parsed.as_ref();
        let uri = ProxyUri {
            raw: self.raw_target(),
            raw_is_valid: parsed.is_some_and(|parsed| !parsed.empty_path) && !self.target.uri_replaced,
            uri: self.uri(),
            args: self.args(),
            location: &self.location().name,
            location_is_valid: true,
            needs_escape: self.target.uri_replaced || parsed.is_some_and(|parsed| parsed.quoted),
        };
        uri.write(
            match &plan.uri {
                PassUriPlan::Absent => PassUri::Absent,
                PassUriPlan::Replace(uri) => PassUri::Replace(uri),
            },
            out,
        );
    }
}
