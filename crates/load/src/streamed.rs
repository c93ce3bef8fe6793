//! A target's request over HTTP/2: pseudo-header fields, fields and body, rendered for each stream. `request` has the bytes
//! for HTTP/1.

use crate::coding::Body;
use crate::options::{Options, OptionsError, Target};
use crate::template::{Template, Values};
use http1::FieldId;
use http2::{Connection, OpenFault, RequestLine, StreamId};
use std::sync::Arc;

/// The prefix of a gRPC message: whether it is compressed, and its length.
const GRPC_PREFIX_BYTES: usize = 5;

/// The request of a target on a stream.
#[derive(Debug)]
pub(crate) struct Streamed {
    method: Vec<u8>,
    scheme: &'static [u8],
    authority: Template,
    path: Template,
    fields: Vec<(FieldId, Vec<u8>, Template)>,
    body: Body,
    /// The body, if it is always the same.
    same_body: Option<Arc<[u8]>>,
    /// Whether to add Content-Length.
    length: bool,
    grpc: bool,
}

/// Buffers for rendering, shared by all connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Authority, path and field values, concatenated.
    text: Vec<u8>,
    /// Where each field value ends.
    ends: Vec<usize>,
}

impl Streamed {
    pub(crate) fn new(target: &Target, options: &Options) -> Result<Self, OptionsError> {
        let is = |name: &str, wanted: &str| name.eq_ignore_ascii_case(wanted);
        let has = |wanted: &str| target.fields.iter().any(|(name, _)| is(name, wanted));
        let host = target.fields.iter().find(|(name, _)| is(name, "host"));
        let authority = host.map_or(&target.url.authority, |(_, value)| value);
        let mut fields = Vec::new();
        let mut add = |name: &str, value: &str| -> Result<(), OptionsError> {
            let name = name.to_ascii_lowercase().into_bytes();
            fields.push((FieldId::of_name(&name), name, options.template(value.as_bytes())?));
            Ok(())
        };
        for (name, value) in target.fields.iter().filter(|(name, _)| !is(name, "host")) {
            add(name, value)?;
        }
        if options.grpc {
            for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
                if !has(name) {
                    add(name, value)?;
                }
            }
        }
        if let Some(coding) = options.compress.filter(|_| !target.body.is_empty() && !has("content-encoding")) {
            add("content-encoding", coding.name())?;
        }
        let body = Body::new(options.template(&target.body)?, options.compress);
        let has_body = options.grpc || !target.body.is_empty();
        let mut streamed = Self {
            method: target.method.clone().into_bytes(),
            scheme: if target.url.tls { b"https" } else { b"http" },
            authority: options.template(authority.as_bytes())?,
            path: options.template(target.url.path.as_bytes())?,
            fields,
            body,
            same_body: None,
            length: has_body
                && !options.grpc
                && !options.upload.is_some_and(|upload| upload.chunked)
                && !has("content-length"),
            grpc: options.grpc,
        };
        if has_body && streamed.body.is_static() {
            let mut values = Values::new(0, 0);
            streamed.same_body = Some(streamed.render_body(&mut values));
        }
        if !has_body {
            streamed.same_body = Some(Arc::from(&b""[..]));
        }
        Ok(streamed)
    }

    fn render_body(&self, values: &mut Values) -> Arc<[u8]> {
        let mut bytes = Vec::new();
        if self.grpc {
            bytes.extend_from_slice(&[0; GRPC_PREFIX_BYTES]);
        }
        self.body.render(values, &mut bytes);
        if self.grpc {
            // gRPC allows 4 GB, and `holdfast load` limits a body to 1 GB, so the length fits.
            let len = (bytes.len() - GRPC_PREFIX_BYTES) as u32;
            if let Some(place) = bytes.get_mut(1..GRPC_PREFIX_BYTES) {
                place.copy_from_slice(&len.to_be_bytes());
            }
        }
        bytes.into()
    }

    /// Opens a stream with the head of one request and returns the body to send.
    pub(crate) fn open(
        &self,
        engine: &mut Connection,
        values: &mut Values,
        room: &mut Room,
        out: &mut Vec<u8>,
    ) -> Result<(StreamId, Arc<[u8]>), OpenFault> {
        let Room { text, ends } = room;
        text.clear();
        ends.clear();
        self.authority.render(values, text);
        let authority_end = text.len();
        self.path.render(values, text);
        let path_end = text.len();
        for (_, _, value) in &self.fields {
            value.render(values, text);
            ends.push(text.len());
        }
        let body = self.same_body.as_ref().map_or_else(|| self.render_body(values), Arc::clone);
        let line = RequestLine {
            method: &self.method,
            scheme: self.scheme,
            authority: text.get(..authority_end).unwrap_or_default(),
            path: text.get(authority_end..path_end).unwrap_or_default(),
            protocol: b"",
        };
        let stream = engine.open(&line, body.is_empty(), out, |fields| {
            let mut at = path_end;
            for ((id, name, _), end) in self.fields.iter().zip(ends.iter()) {
                // The options are checked; but a template may produce an invalid value, which is left out.
                let _ = fields.add_known(*id, name, text.get(at..*end).unwrap_or_default());
                at = *end;
            }
            if self.length {
                let mut number = itoa::Buffer::new();
                let _ = fields.add(b"content-length", number.format(body.len()).as_bytes());
            }
        })?;
        Ok((stream, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Version;
    use http2::{Config, Event, Head, Role};
    use std::fmt::Write as _;

    /// The head and the body as a server receives them.
    fn sent(target: Target, grpc: bool) -> (String, Vec<u8>) {
        let options = Options { version: Version::Http2, grpc, ..Options::new(target) };
        let streamed = Streamed::new(&options.targets[0], &options).unwrap();
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut client = Connection::new(Role::Client, Config::default(), 0, &mut to_server);
        let mut server = Connection::new(Role::Server, Config::default(), 0, &mut to_client);
        let mut values = Values { counter: 7, ..Values::new(0, 0) };
        let (_, body) = streamed.open(&mut client, &mut values, &mut Room::default(), &mut to_server).unwrap();
        let (mut head, mut input) = (Head::default(), &to_server[..]);
        while let Some(event) = server.receive(0, &mut input, &mut head, &mut to_client).unwrap() {
            if let Event::Head { .. } = event {
                let text = |span: http1::Span| String::from_utf8_lossy(span.of(&head.bytes)).into_owned();
                let mut lines = format!("{} {} {}\n", text(head.method), text(head.scheme), text(head.path));
                for field in &head.fields {
                    let _ = writeln!(lines, "{}: {}", text(field.name), text(field.value));
                }
                return (lines, body.to_vec());
            }
        }
        panic!("no head came")
    }

    #[test]
    fn request_contains_only_configured_fields() {
        let target = Target::new("http://a.example:81/x?y={{counter}}".parse().unwrap());
        assert_eq!(sent(target, false).0, "GET http /x?y=7\nhost: a.example:81\n");
    }

    #[test]
    fn length_follows_the_rendered_body_and_host_the_authority() {
        let mut target = Target::new("https://a.example/x".parse().unwrap());
        target.method = "POST".to_owned();
        target.fields = vec![("Host".to_owned(), "b".to_owned()), ("X-A".to_owned(), "{{counter}}".to_owned())];
        target.body = b"n={{counter:100}}".to_vec();
        let expected = "POST https /x\nhost: b\nx-a: 7\ncontent-length: 5\n".to_owned();
        assert_eq!(sent(target, false), (expected, b"n=107".to_vec()));
    }

    #[test]
    fn a_message_of_grpc_has_its_prefix() {
        let mut target = Target::new("http://a/p.S/M".parse().unwrap());
        target.method = "POST".to_owned();
        target.body = b"abc".to_vec();
        let expected = "POST http /p.S/M\nhost: a\ncontent-type: application/grpc\nte: trailers\n".to_owned();
        assert_eq!(sent(target, true), (expected, b"\0\0\0\0\x03abc".to_vec()));
    }
}
