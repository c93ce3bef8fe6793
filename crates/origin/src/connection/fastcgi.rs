//! `--fastcgi`: a connection of a web server. Its requests become heads of HTTP/1.1, so that `action` answers them like others;
//! the answers go back in records. `cgi` has the records.

use super::{Dialogue, EndBy, State};
use crate::action::{self, Action, Request, latin1};
use crate::counters::CloseReason;
use crate::options::ClosingStyle;
use crate::query::{Complaint, Query};
use crate::receive::Receiving;
use crate::reply::{Content, Reply};
use crate::sending::Then;
use crate::worker::Site;
use cgi::fastcgi::{RequestDecoder, RequestParams, RequestPiece, encode_end, encode_stderr, encode_stdout};
use http1::encode::{encode_field, encode_head_end};
use http1::{Method, Parse};
use transport::Transport;

/// Fields that concern a connection of HTTP, or the framing that FastCGI has by itself. `/params` has them all the same.
const CONNECTION_FIELDS: [&[u8]; 7] = [
    b"HTTP_CONNECTION",
    b"HTTP_CONTENT_LENGTH",
    b"HTTP_CONTENT_TYPE",
    b"HTTP_EXPECT",
    b"HTTP_KEEP_ALIVE",
    b"HTTP_TRANSFER_ENCODING",
    b"HTTP_UPGRADE",
];

/// What a connection keeps of FastCGI.
#[derive(Debug, Default)]
pub(super) struct FastcgiTalk {
    decoder: RequestDecoder,
    /// What the next response sends to standard error.
    stderr: Vec<u8>,
}

impl FastcgiTalk {
    /// Whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.decoder.is_idle()
    }
}

impl Dialogue {
    /// Takes records as far as the state allows; returns the number of consumed bytes.
    pub(super) fn read_fastcgi(&mut self, stream: &Transport, site: &mut Site, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while matches!(self.state, State::Head | State::Body(_)) {
            let Some(talk) = &mut self.fastcgi else { break };
            match talk.decoder.next(&mut rest) {
                Ok(RequestPiece::NeedMore) => break,
                Ok(RequestPiece::Begun { keep, params }) => self.begin_fastcgi(keep, &params, stream, site),
                Ok(RequestPiece::Stdin(content)) => self.take_stdin(content, site),
                Ok(RequestPiece::End) => self.end_of_body(stream, site),
                Ok(RequestPiece::Aborted) => {
                    self.close(CloseReason::ClientClosedEarly, ClosingStyle::Fin, stream, site);
                }
                // The protocol has no answer to bytes that it does not know.
                Err(_) => self.end(CloseReason::BadRequest, EndBy::Fin),
            }
        }
        bytes.len() - rest.len()
    }

    /// The parameters are complete: a request has begun, and its body follows.
    fn begin_fastcgi(&mut self, keep: bool, params: &RequestParams, stream: &Transport, site: &mut Site) {
        self.requests += 1;
        site.counters().request();
        self.set_due(site, None);
        (self.keepalive, self.head_only) = (keep, false);
        let head = head(params);
        let Some(bytes) = head.filter(|bytes| is_head(bytes, site)) else {
            return self.refuse(Reply::text(400, "the parameters make no request".to_owned()), site);
        };
        self.head_only = site.head.method == Method::Head;
        let request = Request {
            head: &site.head,
            bytes: &bytes,
            page: &site.page,
            connection: self.serial,
            number: self.requests,
            from: &self.from,
            is_one_of_several: site.options().is_one_of_several,
            is_http2: false,
            params: Some(params),
        };
        let chosen =
            action::choose(&request).unwrap_or_else(|Complaint(text)| Action::Reply(Reply::text(400, text)).into());
        let query = site.head.target.query.map(|query| Query(query.of(&bytes)));
        if let (Some(talk), Some(mut text)) = (&mut self.fastcgi, query.and_then(|query| query.text("stderr"))) {
            text.push('\n');
            talk.stderr = text.into_bytes();
        }
        if matches!(chosen.action, Action::Reset { executed: false }) {
            return self.perform(chosen, &Receiving::nothing(), stream, site);
        }
        self.state = State::Body(Box::new(Receiving::of_stream(chosen, false)));
    }

    fn take_stdin(&mut self, content: &[u8], site: &Site) {
        let State::Body(receiving) = &mut self.state else { return };
        if !receiving.take_piece(content, site.options().body_bytes_max) {
            self.refuse(Reply::text(413, "the body is too long".to_owned()), site);
        }
    }

    /// The beginning of a reply in records, with what the request sends to standard error.
    fn output(&mut self, reply: &Reply) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut head) = (Vec::new(), Vec::new());
        if let Some(talk) = &mut self.fastcgi {
            encode_stderr(&std::mem::take(&mut talk.stderr), &mut out);
        }
        reply.encode_cgi_head(&mut head);
        (out, head)
    }

    /// Sends half of a head.
    pub(super) fn cut_head_in_records(&mut self, reply: &Reply) {
        let (mut out, head) = self.output(reply);
        encode_stdout(head.get(..head.len() / 2).unwrap_or_default(), &mut out);
        self.send_bytes(out, None, Then::Reset(CloseReason::FaultReset));
    }

    /// Sends a reply. Interim responses do not exist here.
    pub(super) fn send_in_records(&mut self, reply: Reply, then: Then) {
        let (mut out, mut head) = self.output(&reply);
        let mut rest = None;
        match reply.content {
            _ if self.head_only => {}
            Content::None => {}
            Content::Bytes(bytes) => head.extend_from_slice(&bytes),
            Content::Pattern(body) => rest = Some(body.in_records()),
        }
        encode_stdout(&head, &mut out);
        if rest.is_none() {
            encode_end(&mut out);
        }
        self.send_bytes(out, rest, then);
    }
}

fn is_head(bytes: &[u8], site: &mut Site) -> bool {
    matches!(http1::request::parse(bytes, &site.limits, &mut site.head), Ok(Parse::Complete { len }) if len == bytes.len())
}

/// The request as a head of HTTP/1.1; `None` if a value does not fit into a line.
fn head(params: &RequestParams) -> Option<Vec<u8>> {
    let value = |name: &[u8]| params.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_slice());
    let is_line = |value: &[u8]| !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    if !params.iter().all(|(_, value)| is_line(value)) {
        return None;
    }
    let mut out = value(b"REQUEST_METHOD").unwrap_or(b"GET").to_vec();
    out.push(b' ');
    if let Some(target) = value(b"REQUEST_URI") {
        out.extend_from_slice(target);
    } else {
        out.extend_from_slice(value(b"SCRIPT_NAME").unwrap_or(b"/"));
        if let Some(query) = value(b"QUERY_STRING").filter(|query| !query.is_empty()) {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if value(b"HTTP_HOST").is_none_or(<[u8]>::is_empty) {
        encode_field(b"Host", value(b"SERVER_NAME").filter(|name| !name.is_empty()).unwrap_or(b"localhost"), &mut out);
    }
    if let Some(content) = value(b"CONTENT_TYPE").filter(|content| !content.is_empty()) {
        encode_field(b"Content-Type", content, &mut out);
    }
    let is_field = |name: &[u8]| name.starts_with(b"HTTP_") && !CONNECTION_FIELDS.contains(&name);
    for (name, value) in params.iter().filter(|(name, value)| is_field(name) && !value.is_empty()) {
        encode_field(&field_name(name), value, &mut out);
    }
    encode_head_end(&mut out);
    Some(out)
}

/// `X-Real-Ip` of `HTTP_X_REAL_IP`.
fn field_name(param: &[u8]) -> Vec<u8> {
    let mut begins = true;
    let letters = param.iter().skip(b"HTTP_".len()).map(|&byte| {
        let letter = if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
        if std::mem::replace(&mut begins, letter == b'-') { letter.to_ascii_uppercase() } else { letter }
    });
    letters.collect()
}

/// The parameters in order, as pairs of name and value.
pub(crate) fn params_json(params: &RequestParams) -> Vec<u8> {
    let pairs: Vec<[String; 2]> = params.iter().map(|(name, value)| [latin1(name), latin1(value)]).collect();
    action::to_json(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head_of(params: &[(&str, &str)]) -> Option<String> {
        let params = params.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
        head(&params).map(|head| String::from_utf8(head).unwrap())
    }

    #[test]
    fn parameters_make_a_head() {
        let head = head_of(&[
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/echo?a=b"),
            ("CONTENT_TYPE", "text/plain"),
            ("HTTP_HOST", "a.example"),
            ("HTTP_X_REAL_IP", "::1"),
            ("HTTP_EXPECT", "100-continue"),
            ("HTTP_EMPTY", ""),
        ]);
        let expected =
            "POST /echo?a=b HTTP/1.1\r\nContent-Type: text/plain\r\nHost: a.example\r\nX-Real-Ip: ::1\r\n\r\n";
        assert_eq!(head.as_deref(), Some(expected));
        let script = head_of(&[("SCRIPT_NAME", "/page"), ("QUERY_STRING", "x"), ("SERVER_NAME", "b")]);
        assert_eq!(script.as_deref(), Some("GET /page?x HTTP/1.1\r\nHost: b\r\n\r\n"));
        assert_eq!(head_of(&[("HTTP_A", "b\r\nC: d")]), None);
    }
}
