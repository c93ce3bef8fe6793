//! Heads and trailers as HTTP/1 writes them: the status line, field lines, and what HTTP/1 says itself of the body's end and
//! the connection.

use crate::downstream::h1::{Downstream, Framing};
use crate::downstream::reply_head::{Entry, Fields, HeadView, Mark, ReplyHead};
use http1::encode::{encode_field, encode_fields, encode_head_end, encode_status_line};
use http1::{FieldId, Method, Version};

/// What a location says about HTTP/1's own fields.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientWords {
    /// `chunked_transfer_encoding`
    pub(crate) chunks: bool,
    /// Seconds that Keep-Alive says.
    pub(crate) keepalive_seconds: Option<u64>,
}

impl Downstream {
    /// Whether a body may come in chunks.
    pub(crate) fn takes_chunks(&self) -> bool {
        self.version == Version::Http11 && self.words.chunks
    }

    /// How the end of this head's body is marked.
    pub(crate) fn framing_of(&self, head: &ReplyHead) -> Framing {
        if self.method == Method::Head || !head.has_body {
            return Framing::Empty;
        }
        match head.stated_length() {
            Some(length) => Framing::Length(length),
            None if head.has_trailers || self.takes_chunks() => Framing::Chunked,
            None => Framing::UntilClose,
        }
    }

    /// Calls `say` with the name and the value of each field that HTTP/1 has at this mark of a head.
    pub(crate) fn say(&self, mark: Mark, head: &ReplyHead, mut say: impl FnMut(FieldId, &[u8])) {
        match mark {
            Mark::Length => match (self.framing_of(head), head.length) {
                (Framing::Chunked, _) => say(FieldId::TransferEncoding, b"chunked"),
                (Framing::Length(length), _) | (Framing::Empty, Some(length)) => {
                    say(FieldId::ContentLength, itoa::Buffer::new().format(length).as_bytes());
                }
                _ => {}
            },
            Mark::Connection if head.status == 101 => say(FieldId::Connection, b"upgrade"),
            Mark::Connection if !self.ending.keeps() => say(FieldId::Connection, b"close"),
            Mark::Connection => {
                say(FieldId::Connection, b"keep-alive");
                if let Some(seconds) = self.words.keepalive_seconds {
                    say(FieldId::KeepAlive, format!("timeout={seconds}").as_bytes());
                }
            }
        }
    }

    /// Appends a head with its empty line.
    pub(super) fn encode(&self, view: HeadView<'_>, out: &mut Vec<u8>) {
        let HeadView { head, answer } = view;
        let reason = head.reason.map(|reason| reason.of(answer));
        encode_status_line(Version::Http11, head.status, reason, out);
        encode_lines(&head.fields, answer, out, |mark, out| {
            self.say(mark, head, |id, value| encode_field(id.name().as_bytes(), value, out));
        });
        encode_head_end(out);
    }
}

/// Appends field lines. Neighbours of the upstream's go in one piece, where they are written as we write them.
pub(super) fn encode_lines(fields: &Fields, answer: &[u8], out: &mut Vec<u8>, mut say: impl FnMut(Mark, &mut Vec<u8>)) {
    let mut entries = fields.entries.iter().peekable();
    while let Some(entry) = entries.peek() {
        match entry {
            Entry::Passed(_) => {
                let run = std::iter::from_fn(|| match entries.next_if(|entry| matches!(entry, Entry::Passed(_)))? {
                    Entry::Passed(field) => Some(field),
                    _ => None,
                });
                encode_fields(answer, run, out);
            }
            Entry::Mark(mark) => {
                say(*mark, out);
                entries.next();
            }
            entry => {
                if let Some((name, value)) = fields.parts(entry, answer) {
                    encode_field(name, value, out);
                }
                entries.next();
            }
        }
    }
}
