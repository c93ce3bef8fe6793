//! Requests as bytes: prepared once per target, and rendered for each request only if it contains templates. The HTTP
//! driver calls this.

use crate::coding::Body;
use crate::options::{Options, OptionsError, Target, Version};
use crate::streamed::Streamed;
use crate::template::{Template, Values};
use crate::upload::{Sending, Upload};
use http1::RequestKind;
use std::sync::Arc;

/// The request of a target.
#[derive(Debug, Clone)]
pub(crate) struct PreparedRequest {
    pub(crate) kind: RequestKind,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    /// The same bytes each time.
    Same(Arc<[u8]>),
    Rendered(Arc<Rendered>),
    /// The head, and a body that follows in pieces.
    Uploaded(Arc<Rendered>, Arc<[u8]>, Upload),
    /// A request over HTTP/2.
    Streamed(Arc<Streamed>),
    /// A message over TCP, which `tcp` has.
    Message,
}

#[derive(Debug)]
struct Rendered {
    /// Everything up to the last field.
    head: Template,
    body: Body,
    /// Whether to add Content-Length.
    length: bool,
}

impl PreparedRequest {
    pub(crate) fn new(target: &Target, options: &Options) -> Result<Self, OptionsError> {
        let kind = kind(target);
        if options.scenario.is_some() {
            // The scenario renders its steps itself.
            return Ok(Self { kind, content: Content::Same(Arc::new([])) });
        }
        if options.is_tcp() {
            return Ok(Self { kind, content: Content::Message });
        }
        if options.is_http2() {
            return Ok(Self { kind, content: Content::Streamed(Arc::new(Streamed::new(target, options)?)) });
        }
        let head = options.template(head(target, options).as_bytes())?;
        let body = Body::new(options.template(&target.body)?, options.compress);
        let has = |name: &str| target.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let length = !target.body.is_empty() && !has("content-length") && !has("transfer-encoding");
        let is_static = head.is_static() && body.is_static();
        let mut rendered = Rendered { head, body, length };
        if let Some(upload) = options.upload {
            let mut bytes = Vec::new();
            rendered.body.render(&mut Values::new(0, 0), &mut bytes);
            rendered.head.append(Template::literal(upload_fields(target, upload, bytes.len()).as_bytes()));
            return Ok(Self { kind, content: Content::Uploaded(Arc::new(rendered), bytes.into(), upload) });
        }
        let content = if is_static {
            let mut bytes = Vec::new();
            let mut values = Values::new(0, 0);
            rendered.encode(&mut values, &mut Vec::new(), &mut bytes);
            Content::Same(bytes.into())
        } else {
            Content::Rendered(Arc::new(rendered))
        };
        Ok(Self { kind, content })
    }

    /// The bytes, if they are always the same.
    pub(crate) fn same(&self) -> Option<&Arc<[u8]>> {
        match &self.content {
            Content::Same(bytes) => Some(bytes),
            Content::Rendered(_) | Content::Uploaded(..) | Content::Streamed(_) | Content::Message => None,
        }
    }

    /// The body that follows the request in pieces, if it is sent so.
    pub(crate) fn upload(&self, now_ns: u64) -> Option<Sending> {
        match &self.content {
            Content::Uploaded(_, body, how) => Some(Sending::new(Arc::clone(body), *how, now_ns)),
            _ => None,
        }
    }

    /// The request for an HTTP/2 stream.
    pub(crate) fn streamed(&self) -> Option<&Arc<Streamed>> {
        match &self.content {
            Content::Streamed(streamed) => Some(streamed),
            Content::Same(_) | Content::Rendered(_) | Content::Uploaded(..) | Content::Message => None,
        }
    }

    /// Appends one request; `body` is a work buffer.
    pub(crate) fn encode(&self, values: &mut Values, body: &mut Vec<u8>, out: &mut Vec<u8>) {
        match &self.content {
            Content::Same(bytes) => out.extend_from_slice(bytes),
            Content::Rendered(rendered) => rendered.encode(values, body, out),
            Content::Uploaded(rendered, ..) => {
                rendered.head.render(values, out);
                http1::encode::encode_head_end(out);
            }
            // `Streamed` encodes itself when it opens a stream; messages are copied from `tcp`.
            Content::Streamed(_) | Content::Message => {}
        }
    }
}

/// How the response to a request of this target ends.
fn kind(target: &Target) -> RequestKind {
    match target.method.as_str() {
        "HEAD" => RequestKind::Head,
        "CONNECT" => RequestKind::Connect,
        _ => RequestKind::Other,
    }
}

impl Rendered {
    fn encode(&self, values: &mut Values, body: &mut Vec<u8>, out: &mut Vec<u8>) {
        body.clear();
        self.head.render(values, out);
        self.body.render(values, body);
        if self.length {
            http1::encode::encode_number_field(b"Content-Length", body.len() as u64, out);
        }
        http1::encode::encode_head_end(out);
        out.extend_from_slice(body);
    }
}

/// Request line and fields, without the empty line.
fn head(target: &Target, options: &Options) -> String {
    format!(
        "{} {} {}\r\n{}",
        target.method,
        target.url.path,
        options.version.name(),
        fields(target, options, !target.body.is_empty())
    )
}

/// The framing of a body that is sent in pieces, unless the target has its own.
fn upload_fields(target: &Target, upload: Upload, bytes: usize) -> String {
    let has = |name: &str| target.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    match upload.chunked {
        _ if has("content-length") || has("transfer-encoding") => String::new(),
        true => "Transfer-Encoding: chunked\r\n".to_owned(),
        false => format!("Content-Length: {bytes}\r\n"),
    }
}

/// The header fields, each with its line end.
pub(crate) fn fields(target: &Target, options: &Options, has_body: bool) -> String {
    let mut head = String::new();
    let mut add = |name: &str, value: &str| {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    };
    let has = |name: &str| target.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    if !has("host") {
        add("Host", &target.url.authority);
    }
    if !has("connection") {
        match (options.keepalive, options.version) {
            (true, Version::Http10) => add("Connection", "keep-alive"),
            (false, Version::Http11) => add("Connection", "close"),
            _ => {}
        }
    }
    if let Some(coding) = options.compress.filter(|_| has_body && !has("content-encoding")) {
        add("Content-Encoding", coding.name());
    }
    for (name, value) in &target.fields {
        add(name, value);
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::new("http://a.example:81/x?y={{counter}}".parse().unwrap())
    }

    fn encoded(target: Target, change: fn(&mut Options)) -> String {
        let mut options = Options::new(target);
        change(&mut options);
        let prepared = PreparedRequest::new(&options.targets[0], &options).unwrap();
        let mut values = Values { counter: 7, ..Values::new(0, 0) };
        let mut out = Vec::new();
        prepared.encode(&mut values, &mut Vec::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_is_sent_that_was_not_asked_for() {
        assert_eq!(encoded(target(), |_| ()), "GET /x?y=7 HTTP/1.1\r\nHost: a.example:81\r\n\r\n");
        assert_eq!(
            encoded(target(), |options| options.templates = false),
            "GET /x?y={{counter}} HTTP/1.1\r\nHost: a.example:81\r\n\r\n"
        );
        assert_eq!(
            encoded(target(), |options| options.keepalive = false),
            "GET /x?y=7 HTTP/1.1\r\nHost: a.example:81\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            encoded(target(), |options| options.version = Version::Http10),
            "GET /x?y=7 HTTP/1.0\r\nHost: a.example:81\r\nConnection: keep-alive\r\n\r\n"
        );
    }

    #[test]
    fn the_length_is_that_of_the_rendered_body() {
        let mut with_body = target();
        with_body.method = "POST".to_owned();
        with_body.fields.push(("host".to_owned(), "b".to_owned()));
        with_body.body = b"n={{counter:100}}".to_vec();
        assert_eq!(encoded(with_body, |_| ()), "POST /x?y=7 HTTP/1.1\r\nhost: b\r\nContent-Length: 5\r\n\r\nn=107");
    }
}
