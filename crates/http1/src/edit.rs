//! Setting, adding and removing fields of a request's head after it was read. Values are appended to the head's bytes,
//! into which the spans point. Fields that frame the message stay unchanged, so the body ends where it did.

use crate::field::{Field, FieldId, FieldSet};
use crate::request::RequestHead;
use crate::span::Span;
use crate::target::parse_host;

/// The fields that an edit applies to.
#[derive(Debug, Clone, Copy)]
pub enum Names<'a> {
    /// Fields with this name.
    Exact(&'a [u8]),
    /// Fields with names that begin with this.
    Beginning(&'a [u8]),
}

/// How a field is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetHow {
    /// Set or added.
    Always,
    /// Set only if it exists.
    IfPresent,
}

/// The value is no valid host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidHost;

impl Names<'_> {
    /// Whether it covers a name.
    pub fn cover(self, name: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => exact.eq_ignore_ascii_case(name),
            Self::Beginning(start) => {
                name.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
            }
        }
    }
}

/// Whether a field frames its message.
fn is_framing(id: FieldId) -> bool {
    matches!(id, FieldId::ContentLength | FieldId::TransferEncoding | FieldId::Expect | FieldId::Upgrade)
}

impl RequestHead {
    /// Removes fields. `bytes` holds the head.
    pub fn remove_fields(&mut self, bytes: &[u8], names: Names<'_>) {
        self.fields.retain(|field| field.hop || is_framing(field.id) || !names.cover(field.name.of(bytes)));
        self.note_seen();
        if !self.seen.contains(FieldId::Host) && names.cover(b"host") {
            self.host = None;
            self.host_is_from_target = false;
        }
    }

    /// Sets the first field with a name to another value and removes further ones, or adds the field. The value is one
    /// line. An error leaves the head unchanged.
    pub fn set_field(
        &mut self,
        bytes: &mut Vec<u8>,
        name: &[u8],
        value: &[u8],
        how: SetHow,
    ) -> Result<(), InvalidHost> {
        let names = Names::Exact(name);
        let id = FieldId::of_name(name);
        let place = self.fields.iter().position(|field| names.cover(field.name.of(bytes)));
        if is_framing(id) || (place.is_none() && how == SetHow::IfPresent) {
            return Ok(());
        }
        let length = bytes.len();
        let mut keep = |text: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(text);
            Span::new(start, bytes.len())
        };
        let value = keep(value);
        let name = match place {
            Some(place) => self.fields[place].name,
            None => keep(name),
        };
        if id == FieldId::Host {
            let Some(host) = parse_host(bytes, value) else {
                bytes.truncate(length);
                return Err(InvalidHost);
            };
            self.host = Some(host);
            self.host_is_from_target = false;
        }
        let field = Field { name, value, id, hop: false };
        match place {
            None => self.fields.push(field),
            Some(place) => {
                self.fields[place] = field;
                let mut at = 0;
                self.fields.retain(|field| {
                    at += 1;
                    at <= place + 1 || !names.cover(field.name.of(bytes))
                });
            }
        }
        self.note_seen();
        Ok(())
    }

    fn note_seen(&mut self) {
        self.seen = FieldSet::default();
        for field in &self.fields {
            self.seen.insert(field.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Parse};

    fn parsed(text: &str) -> (Vec<u8>, RequestHead) {
        let mut head = RequestHead::default();
        let parsed = crate::request::parse(text.as_bytes(), &Limits::default(), &mut head).expect("a head");
        assert!(matches!(parsed, Parse::Complete { .. }));
        (text.as_bytes().to_vec(), head)
    }

    fn shown(bytes: &[u8], head: &RequestHead) -> String {
        let line = |field: &Field| {
            format!("{}={};", field.name.of(bytes).escape_ascii(), field.value.of(bytes).escape_ascii())
        };
        head.fields.iter().map(line).collect()
    }

    const HEAD: &str = "POST / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nContent-Length: 3\r\nx-one: 2\r\nX-Two: 3\r\n\r\n";

    #[test]
    fn fields_are_set_in_their_place_or_at_the_end() {
        let (mut bytes, mut head) = parsed(HEAD);
        head.set_field(&mut bytes, b"X-ONE", b"new", SetHow::Always).expect("set");
        head.set_field(&mut bytes, b"X-Three", b"3", SetHow::IfPresent).expect("left");
        head.set_field(&mut bytes, b"Accept", b"*/*", SetHow::Always).expect("added");
        assert_eq!(shown(&bytes, &head), "Host=a;X-One=new;Content-Length=3;X-Two=3;Accept=*/*;");
        assert_eq!(head.value(FieldId::Accept, &bytes), Some(&b"*/*"[..]));
    }

    #[test]
    fn a_host_that_is_set_is_the_requests() {
        let (mut bytes, mut head) = parsed(HEAD);
        head.set_field(&mut bytes, b"host", b"b.example:81", SetHow::Always).expect("set");
        let host = head.host.expect("a host");
        assert_eq!((host.name.of(&bytes), host.port), (&b"b.example"[..], Some(81)));
        assert_eq!(head.set_field(&mut bytes, b"Host", b"no host", SetHow::Always), Err(InvalidHost));
        assert_eq!(head.value(FieldId::Host, &bytes), Some(&b"b.example:81"[..]));
    }

    #[test]
    fn what_says_where_the_body_ends_stays() {
        let (mut bytes, mut head) = parsed(HEAD);
        head.remove_fields(&bytes, Names::Exact(b"Content-Length"));
        head.set_field(&mut bytes, b"Content-Length", b"9", SetHow::Always).expect("left");
        head.remove_fields(&bytes, Names::Beginning(b"x-"));
        assert_eq!(shown(&bytes, &head), "Host=a;Content-Length=3;");
        head.remove_fields(&bytes, Names::Beginning(b"H"));
        assert!(head.host.is_none() && !head.seen.contains(FieldId::Host));
    }
}
