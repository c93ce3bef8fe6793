//! Heads of responses and trailers as values of their own: the engine uses the head that it has filled again.

use http1::hop::is_forbidden_in_trailers;
use http1::response::{Status, assemble, text_bytes};
use http1::{Field, FieldId, Limits, RequestKind, ResponseError, ResponseHead, Span, Trailers};
use http2::Head;

/// The head of a response that waits for its exchange.
#[derive(Debug)]
pub(crate) struct ReceivedHead {
    status: Status,
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

impl ReceivedHead {
    pub(crate) fn of(head: &Head) -> Self {
        let mut bytes = head.bytes.clone();
        for field in head.fields.iter().filter(|field| field.id == FieldId::ContentType) {
            // nginx spells this one itself, as in HTTP/1.
            if let Some(name) = bytes.get_mut(field.name.start as usize..field.name.end()) {
                name.copy_from_slice(field.id.name().as_bytes());
            }
        }
        Self { status: Status { code: head.status, reason: Span::default() }, bytes, fields: head.fields.clone() }
    }

    /// Whether the body follows it.
    pub(crate) fn is_final(&self) -> bool {
        self.status.code >= 200
    }

    /// Its size as HTTP/1.1: limits and counters mean the same over both protocols.
    pub(crate) fn text_bytes(&self) -> usize {
        text_bytes(self.status, &self.fields)
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    /// Fills the typed head, which points into `bytes`.
    pub(crate) fn fill(
        self,
        limits: &Limits,
        request: RequestKind,
        bytes: &mut Vec<u8>,
        head: &mut ResponseHead,
    ) -> Result<(), ResponseError> {
        assemble(&self.bytes, self.status, &self.fields, limits, request, head)?;
        *bytes = self.bytes;
        Ok(())
    }
}

/// The trailers in a head, without fields that could change decisions made from the head of the message.
pub(crate) fn trailers_of(head: &Head) -> Trailers {
    let mut trailers = Trailers::default();
    for field in head.fields.iter().filter(|field| !is_forbidden_in_trailers(field.id)) {
        trailers.push(field.id, field.name.of(&head.bytes), field.value.of(&head.bytes));
    }
    trailers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &[(&[u8], &[u8])]) -> Head {
        let mut head = Head::default();
        head.status = status;
        for (name, value) in fields {
            let field = Field::write(FieldId::of_name(name), name, value, &mut head.bytes);
            head.fields.push(field);
        }
        head
    }

    #[test]
    fn a_received_head_fills_a_typed_one() {
        let received = ReceivedHead::of(&head(200, &[(b"content-type", b"a/b"), (b"content-length", b"5")]));
        assert!(received.is_final());
        assert_eq!(received.text_bytes(), b"HTTP/1.1 200 \r\nContent-Type: a/b\r\ncontent-length: 5\r\n\r\n".len());
        let (mut bytes, mut typed) = (Vec::new(), ResponseHead::default());
        received.fill(&Limits::response(4096), RequestKind::Other, &mut bytes, &mut typed).expect("a head");
        assert_eq!((typed.status, typed.content_length), (200, Some(5)));
        assert_eq!(typed.value(FieldId::ContentType, &bytes), Some(&b"a/b"[..]));
        assert_eq!(typed.fields[0].name.of(&bytes), b"Content-Type");
    }

    #[test]
    fn an_interim_head_has_no_body() {
        assert!(!ReceivedHead::of(&head(103, &[])).is_final());
    }

    #[test]
    fn trailers_leave_out_what_would_change_decisions() {
        let trailers = trailers_of(&head(0, &[(b"grpc-status", b"0"), (b"content-length", b"9"), (b"x", b"")]));
        let fields: Vec<(&[u8], &[u8])> = trailers.iter().map(|(_, name, value)| (name, value)).collect();
        assert_eq!(fields, [(&b"grpc-status"[..], &b"0"[..]), (b"x", b"")]);
    }
}
