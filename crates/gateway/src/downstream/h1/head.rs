//! Heads and trailers in HTTP/1: the status line, field lines, and the fields that HTTP/1 itself adds about the body's
//! end and the connection.

use crate::downstream::ClientWords;
use crate::downstream::h1::Framing;
use crate::downstream::reply_head::{Fields, HeadEntry, HeadView, Mark, ReplyHead};
use http1::encode::{encode_field, encode_fields, encode_head_end, encode_number_field, encode_status_line};
use http1::{Field, FieldId, Version};
use std::iter::{self, Peekable};
use std::slice;

/// What the exchange decides about HTTP/1's own fields.
#[derive(Debug, Clone, Copy)]
pub(in crate::downstream) struct Agreed {
    pub(in crate::downstream) asked_for_head: bool,
    /// The version of the request.
    pub(in crate::downstream) version: Version,
    /// The connection continues.
    pub(in crate::downstream) keepalive: bool,
}

/// What HTTP/1's own fields depend on, besides the head itself.
#[derive(Debug, Clone, Copy)]
pub(in crate::downstream) struct Terms {
    asked_for_head: bool,
    /// The client accepts a chunked body.
    chunks: bool,
    keepalive: bool,
    keepalive_seconds: Option<u64>,
}

impl Terms {
    pub(super) fn new(agreed: Agreed, words: ClientWords) -> Self {
        let Agreed { asked_for_head, version, keepalive } = agreed;
        let ClientWords { chunks, keepalive_seconds } = words;
        Self { asked_for_head, chunks: version == Version::Http11 && chunks, keepalive, keepalive_seconds }
    }

    /// Whether the client accepts a chunked body.
    pub(in crate::downstream) fn takes_chunks(self) -> bool {
        self.chunks
    }

    /// Whether a response with this head has a body.
    pub(in crate::downstream) fn sends_body(self, head: &ReplyHead) -> bool {
        self.framing(head) != Framing::Empty
    }

    /// Whether Content-Length states the length of the body.
    pub(in crate::downstream) fn states_length(self, head: &ReplyHead) -> bool {
        matches!(self.framing(head), Framing::Length(_))
    }

    /// Whether the end of the connection marks the end of the body.
    pub(in crate::downstream) fn ends_by_close(self, head: &ReplyHead) -> bool {
        self.framing(head) == Framing::UntilClose
    }

    pub(super) fn framing(self, head: &ReplyHead) -> Framing {
        if self.asked_for_head || !head.has_body {
            return Framing::Empty;
        }
        match head.stated_length() {
            Some(length) => Framing::Length(length),
            None if head.has_trailers || self.chunks => Framing::Chunked,
            None => Framing::UntilClose,
        }
    }

    /// Calls `say` with the name and the value of each field that HTTP/1 adds at this mark of a head.
    pub(in crate::downstream) fn fields_at(self, mark: Mark, head: &ReplyHead, mut say: impl FnMut(FieldId, &[u8])) {
        match self.addition_at(mark, head) {
            Addition::Nothing => {}
            Addition::Length(length) => say(FieldId::ContentLength, itoa::Buffer::new().format(length).as_bytes()),
            Addition::Chunked => say(FieldId::TransferEncoding, b"chunked"),
            Addition::Upgrade => say(FieldId::Connection, b"upgrade"),
            Addition::Close => say(FieldId::Connection, b"close"),
            Addition::KeepAlive(seconds) => {
                say(FieldId::Connection, b"keep-alive");
                if let Some(seconds) = seconds {
                    say(FieldId::KeepAlive, format!("timeout={seconds}").as_bytes());
                }
            }
        }
    }

    fn addition_at(self, mark: Mark, head: &ReplyHead) -> Addition {
        match mark {
            Mark::Length => match (self.framing(head), head.length) {
                (Framing::Chunked, _) => Addition::Chunked,
                (Framing::Length(length), _) | (Framing::Empty, Some(length)) => Addition::Length(length),
                _ => Addition::Nothing,
            },
            Mark::Connection if head.status == 101 => Addition::Upgrade,
            Mark::Connection if !self.keepalive => Addition::Close,
            Mark::Connection => Addition::KeepAlive(self.keepalive_seconds),
        }
    }

    /// Appends the head and its empty line.
    pub(super) fn encode(self, view: HeadView<'_>, out: &mut Vec<u8>) {
        let HeadView { head, answer } = view;
        let reason = head.reason.map(|reason| reason.of(answer));
        encode_status_line(Version::Http11, head.status, reason, out);
        encode_lines(&head.fields, answer, out, |mark, out| match self.addition_at(mark, head) {
            Addition::Length(length) => encode_number_field(b"Content-Length", length, out),
            // As nearly every head has it: one copy.
            Addition::KeepAlive(None) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            _ => self.fields_at(mark, head, |id, value| encode_field(id.name().as_bytes(), value, out)),
        });
        encode_head_end(out);
    }
}

/// What HTTP/1 adds at a mark of a head.
enum Addition {
    Nothing,
    Length(u64),
    Chunked,
    Upgrade,
    Close,
    /// With the seconds of the Keep-Alive field.
    KeepAlive(Option<u64>),
}

/// Appends field lines. Adjacent fields are copied in one piece if they are already written in our format.
pub(super) fn encode_lines(fields: &Fields, answer: &[u8], out: &mut Vec<u8>, mut say: impl FnMut(Mark, &mut Vec<u8>)) {
    let mut entries = fields.entries.iter().peekable();
    while let Some(entry) = entries.next() {
        match entry {
            HeadEntry::Passed(first) => encode_fields(answer, run(first, &mut entries, HeadEntry::passed), out),
            HeadEntry::Own(first) => encode_fields(&fields.own, run(first, &mut entries, HeadEntry::own), out),
            HeadEntry::Mark(mark) => say(*mark, out),
            HeadEntry::Rewritten { .. } => {
                if let Some((name, value)) = fields.parts(entry, answer) {
                    encode_field(name, value, out);
                }
            }
        }
    }
}

/// The first field, and the fields of its kind that follow it.
fn run<'a>(
    first: &'a Field,
    entries: &mut Peekable<slice::Iter<'a, HeadEntry>>,
    of_kind: impl Fn(&'a HeadEntry) -> Option<&'a Field>,
) -> impl Iterator<Item = &'a Field> {
    iter::once(first).chain(iter::from_fn(move || {
        let field = of_kind(entries.peek()?)?;
        entries.next();
        Some(field)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::{Field, Span};

    const TERMS: Terms = Terms { asked_for_head: false, chunks: true, keepalive: true, keepalive_seconds: None };

    /// Passed fields, one of our own among them, and the marks.
    const ANSWER: &[u8] = b"OK then\r\nserver: up\r\nX-A:  odd\r\nX-B: 1\r\n";

    fn filled() -> ReplyHead {
        let field = |id, name: (usize, usize), value: (usize, usize)| Field {
            name: Span::new(name.0, name.1),
            value: Span::new(value.0, value.1),
            id,
            hop: false,
        };
        let mut head = ReplyHead::whole(5);
        head.reason = Some(Span::new(0, 7));
        head.fields.pass(&field(FieldId::Server, (9, 15), (17, 19)));
        head.fields.pass(&field(FieldId::Other, (21, 24), (27, 30)));
        head.fields.push(FieldId::Vary, b"x");
        head.fields.pass(&field(FieldId::Other, (32, 35), (37, 38)));
        head.fields.mark(Mark::Length);
        head.fields.mark(Mark::Connection);
        head
    }

    fn encoded(terms: Terms, head: &ReplyHead) -> String {
        let mut out = Vec::new();
        terms.encode(head.with(ANSWER), &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn a_head_keeps_order_and_spelling_of_its_fields() {
        let fields = "HTTP/1.1 200 OK then\r\nserver: up\r\nX-A: odd\r\nVary: x\r\nX-B: 1\r\n";
        let own = "Content-Length: 5\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(encoded(TERMS, &filled()), format!("{fields}{own}"));
    }

    #[test]
    fn client_and_known_length_decide_the_framing() {
        let head = |length, has_trailers| {
            let mut head = filled();
            (head.length, head.has_trailers) = (length, has_trailers);
            head
        };
        let http10 = Terms { chunks: false, ..TERMS };
        let asked_for_head = Terms { asked_for_head: true, ..TERMS };
        for (terms, head, framing, said) in [
            (TERMS, head(Some(5), false), Framing::Length(5), Some("Content-Length: 5")),
            (TERMS, head(Some(5), true), Framing::Chunked, Some("Transfer-Encoding: chunked")),
            (TERMS, head(None, false), Framing::Chunked, Some("Transfer-Encoding: chunked")),
            (http10, head(None, false), Framing::UntilClose, None),
            (asked_for_head, head(Some(5), false), Framing::Empty, Some("Content-Length: 5")),
            (asked_for_head, head(None, false), Framing::Empty, None),
            (TERMS, ReplyHead::of(204), Framing::Empty, None),
        ] {
            assert_eq!(terms.framing(&head), framing, "{terms:?} {head:?}");
            let text = encoded(terms, &head);
            let mut lines = text.lines().filter(|line| line.starts_with("Content-L") || line.starts_with("Transfer"));
            assert_eq!((lines.next(), lines.next()), (said, None));
        }
    }

    #[test]
    fn the_connection_field_says_what_becomes_of_the_connection() {
        let said = |terms: Terms, status| {
            let mut head = ReplyHead::of(status);
            head.fields.mark(Mark::Connection);
            let text = encoded(terms, &head);
            text.lines().skip(1).collect::<Vec<_>>().join("|")
        };
        let seconds = Terms { keepalive_seconds: Some(7), ..TERMS };
        assert_eq!(said(seconds, 200), "Connection: keep-alive|Keep-Alive: timeout=7|");
        assert_eq!(said(Terms { keepalive: false, ..seconds }, 200), "Connection: close|");
        assert_eq!(said(seconds, 101), "Connection: upgrade|");
    }
}
