//! The head of a response as a value: content fills it, filters edit it, and the downstream encodes it once, in its
//! protocol. Fields of an upstream's response are not copied: they point into its bytes, which a [`HeadView`] carries
//! along. All other fields are in the head's own bytes, as lines like those of a parsed head: adjacent ones are sent in
//! one piece.

use crate::base::buffer::recycle;
use http1::encode::keep_field;
use http1::{Field, FieldId, FieldSet, Span};
use std::cell::RefCell;

/// Fields that a recycled head keeps room for; far above any usual head.
const RECYCLED_FIELDS_MAX: usize = 256;

/// Places for fields that the protocol itself adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The length of the body, or the marking of its end.
    Length,
    /// Whether the connection continues, or changes its protocol.
    Connection,
}

/// One field, or a mark. Spans of an answer point into the upstream's bytes, others into the list's own bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum HeadEntry {
    /// A field of an upstream's response, unchanged.
    Passed(Field),
    /// The name of an upstream's field with another value.
    Rewritten {
        id: FieldId,
        name: Span,
        value: Span,
    },
    /// A field in the list's own bytes.
    Own(Field),
    Mark(Mark),
}

impl HeadEntry {
    pub(super) fn id(&self) -> Option<FieldId> {
        match self {
            Self::Passed(field) | Self::Own(field) => Some(field.id),
            Self::Rewritten { id, .. } => Some(*id),
            Self::Mark(_) => None,
        }
    }

    /// The field, if it is one of an upstream's response.
    pub(super) fn passed(&self) -> Option<&Field> {
        match self {
            Self::Passed(field) => Some(field),
            _ => None,
        }
    }

    /// The field, if it is in the list's own bytes.
    pub(super) fn own(&self) -> Option<&Field> {
        match self {
            Self::Own(field) => Some(field),
            _ => None,
        }
    }
}

/// Fields in order.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(super) entries: Vec<HeadEntry>,
    /// The well-known fields that are present.
    seen: FieldSet,
    pub(super) own: Vec<u8>,
}

impl Fields {
    /// Adds a well-known field.
    pub(crate) fn push(&mut self, id: FieldId, value: &[u8]) {
        self.push_line(id, id.name().as_bytes(), value);
    }

    /// Adds a field with any name, which is sent as it is spelled.
    pub(crate) fn push_named(&mut self, name: &[u8], value: &[u8]) {
        self.push_line(FieldId::of_name(name), name, value);
    }

    #[inline]
    fn push_line(&mut self, id: FieldId, name: &[u8], value: &[u8]) {
        let field = self.keep_line(id, name, value);
        self.seen.insert(id);
        self.entries.push(HeadEntry::Own(field));
    }

    /// Adds a field of the upstream's response unchanged.
    #[inline]
    pub(crate) fn pass(&mut self, field: &Field) {
        self.seen.insert(field.id);
        self.entries.push(HeadEntry::Passed(*field));
    }

    /// The same with another value.
    pub(crate) fn pass_as(&mut self, field: &Field, value: &[u8]) {
        let value = self.keep(value);
        self.seen.insert(field.id);
        self.entries.push(HeadEntry::Rewritten { id: field.id, name: field.name, value });
    }

    /// Adds a place for the protocol's own fields.
    pub(crate) fn mark(&mut self, mark: Mark) {
        self.entries.push(HeadEntry::Mark(mark));
    }

    /// The marks, in order.
    pub(crate) fn marks(&self) -> impl Iterator<Item = Mark> {
        self.entries.iter().filter_map(|entry| match entry {
            HeadEntry::Mark(mark) => Some(*mark),
            _ => None,
        })
    }

    /// Moves the mark to the end.
    pub(crate) fn move_mark_last(&mut self, mark: Mark) {
        self.entries.retain(|entry| !matches!(entry, HeadEntry::Mark(known) if *known == mark));
        self.mark(mark);
    }

    /// Moves the last field to just before `mark`.
    pub(crate) fn move_last_before(&mut self, mark: Mark) {
        let place = self.entries.iter().position(|entry| matches!(entry, HeadEntry::Mark(known) if *known == mark));
        if let (Some(place), Some(last)) = (place, self.entries.pop()) {
            self.entries.insert(place, last);
        }
    }

    /// Whether there may be a field with this name.
    #[inline]
    pub(crate) fn has(&self, id: FieldId) -> bool {
        self.seen.contains(id)
    }

    /// Replaces the value of the first field with a well-known name, and removes further ones.
    pub(crate) fn replace(&mut self, id: FieldId, value: &[u8]) {
        let Some(place) = self.entries.iter().position(|entry| entry.id() == Some(id)) else { return };
        let entry = match self.entries[place] {
            HeadEntry::Passed(Field { id, name, .. }) | HeadEntry::Rewritten { id, name, .. } => {
                HeadEntry::Rewritten { id, name, value: self.keep(value) }
            }
            HeadEntry::Own(Field { name, .. }) => {
                let name = name.of(&self.own).to_vec();
                HeadEntry::Own(self.keep_line(id, &name, value))
            }
            HeadEntry::Mark(_) => return,
        };
        let mut at = 0;
        self.entries.retain(|entry| {
            at += 1;
            at <= place + 1 || entry.id() != Some(id)
        });
        self.entries[place] = entry;
    }

    /// The same for any name; `false`: there is no such field. Upstream fields point into `answer`.
    pub(crate) fn replace_named(&mut self, name: &[u8], value: &[u8], answer: &[u8]) -> bool {
        let is_named = |fields: &Self, entry: &HeadEntry| {
            fields.parts(entry, answer).is_some_and(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        let Some(place) = self.entries.iter().position(|entry| is_named(self, entry)) else { return false };
        let id = FieldId::of_name(name);
        let further: Vec<bool> = self.entries[place + 1..].iter().map(|entry| is_named(self, entry)).collect();
        self.entries[place] = HeadEntry::Own(self.keep_line(id, name, value));
        let mut at = 0;
        self.entries.retain(|_| {
            at += 1;
            at <= place + 1 || !further[at - place - 2]
        });
        true
    }

    /// Removes the fields that match.
    pub(crate) fn remove_where(&mut self, answer: &[u8], is_meant: impl Fn(FieldId, &[u8]) -> bool) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| {
            let name = self.parts(entry, answer).map(|(name, _)| name);
            !name.is_some_and(|name| is_meant(entry.id().unwrap_or(FieldId::Other), name))
        });
        self.entries = entries;
        self.seen = FieldSet::default();
        for id in self.entries.iter().filter_map(HeadEntry::id) {
            self.seen.insert(id);
        }
    }

    /// Removes all fields with a well-known name.
    pub(crate) fn remove(&mut self, id: FieldId) {
        if id != FieldId::Other && self.has(id) {
            self.entries.retain(|entry| entry.id() != Some(id));
            self.seen.remove(id);
        }
    }

    fn keep(&mut self, value: &[u8]) -> Span {
        let start = self.own.len();
        self.own.extend_from_slice(value);
        Span::new(start, self.own.len())
    }

    /// Keeps a field as a line of a head. Any value becomes one line.
    fn keep_line(&mut self, id: FieldId, name: &[u8], value: &[u8]) -> Field {
        let (name, value) = keep_field(name, value, &mut self.own);
        Field { name, value, id, hop: false }
    }

    /// The value of the first field of a well-known name.
    pub(crate) fn value<'a>(&'a self, id: FieldId, answer: &'a [u8]) -> Option<&'a [u8]> {
        if !self.has(id) {
            return None;
        }
        let entry = self.entries.iter().find(|entry| entry.id() == Some(id))?;
        self.parts(entry, answer).map(|(_, value)| value.trim_ascii())
    }

    /// Whether a field with a well-known name has a value that is not empty.
    pub(crate) fn has_value(&self, id: FieldId, answer: &[u8]) -> bool {
        let named = |entry: &&HeadEntry| entry.id() == Some(id);
        let mut parts = self.entries.iter().filter(named).filter_map(|entry| self.parts(entry, answer));
        self.has(id) && parts.any(|(_, value)| !value.trim_ascii().is_empty())
    }

    /// Name and value of all fields, in order, without the fields at the marks.
    pub(crate) fn iter<'a>(&'a self, answer: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.entries.iter().filter_map(|entry| self.parts(entry, answer))
    }

    /// Name and value of a field.
    pub(super) fn parts<'a>(&'a self, entry: &HeadEntry, answer: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        Some(match entry {
            HeadEntry::Passed(field) => (field.name.of(answer), field.value.of(answer)),
            HeadEntry::Rewritten { name, value, .. } => (name.of(answer), value.of(&self.own)),
            HeadEntry::Own(field) => (field.name.of(&self.own), field.value.of(&self.own)),
            HeadEntry::Mark(_) => return None,
        })
    }

    /// A copy of the fields with bytes of their own.
    pub(crate) fn copy(&self, answer: &[u8]) -> Self {
        let mut copy = Self::default();
        for entry in &self.entries {
            match (entry, self.parts(entry, answer)) {
                (HeadEntry::Mark(mark), _) => copy.mark(*mark),
                (_, Some((name, value))) => copy.push_named(name, value),
                (_, None) => {}
            }
        }
        copy
    }

    /// Empties it for reuse.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(RECYCLED_FIELDS_MAX);
        self.seen = FieldSet::default();
        recycle(&mut self.own);
    }
}

/// The head of a response.
#[derive(Debug, Default)]
pub(crate) struct ReplyHead {
    pub(crate) status: u16,
    /// The upstream's reason phrase, in the answer's bytes; `None` for the standard one.
    pub(crate) reason: Option<Span>,
    pub(crate) fields: Fields,
    /// A body follows, unless the request was HEAD.
    pub(crate) has_body: bool,
    /// Length of the body, or of the one that GET would get; `None` if unknown.
    pub(crate) length: Option<u64>,
    /// Trailers follow the body.
    pub(crate) has_trailers: bool,
    /// Buffer for its encoding, recycled with it.
    wire: RefCell<Vec<u8>>,
}

impl ReplyHead {
    /// A head without a body.
    pub(crate) fn of(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// The head of a whole response of this length.
    pub(crate) fn whole(length: u64) -> Self {
        Self { status: 200, has_body: true, length: Some(length), ..Self::default() }
    }

    /// The length that the head may state: none before trailers in a protocol that marks a body's end itself.
    pub(crate) fn stated_length(&self) -> Option<u64> {
        self.length.filter(|_| !self.has_trailers)
    }

    /// The head with the answer's bytes.
    pub(crate) fn with<'a>(&'a self, answer: &'a [u8]) -> HeadView<'a> {
        HeadView { head: self, answer }
    }

    /// An empty buffer for its encoding.
    pub(super) fn take_wire(&self) -> Vec<u8> {
        self.wire.take()
    }

    /// Returns the buffer with its content.
    pub(super) fn put_wire(&self, mut wire: Vec<u8>) {
        recycle(&mut wire);
        self.wire.replace(wire);
    }

    /// Clears it for the next response.
    pub(crate) fn clear(&mut self) {
        self.fields.clear();
        let Self { status, reason, fields: _, has_body, length, has_trailers, wire: _ } = self;
        (*status, *reason, *has_body, *length, *has_trailers) = (0, None, false, None, false);
    }
}

/// A head, and the answer's bytes that its fields point into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadView<'a> {
    pub(crate) head: &'a ReplyHead,
    pub(crate) answer: &'a [u8],
}

impl<'a> HeadView<'a> {
    /// The value of the first field of a well-known name.
    pub(crate) fn value(&self, id: FieldId) -> Option<&'a [u8]> {
        self.head.fields.value(id, self.answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"Etag: x\r\nX-Own: 1\r\n";

    fn field(id: FieldId, name: (usize, usize), value: (usize, usize)) -> Field {
        Field { name: Span::new(name.0, name.1), value: Span::new(value.0, value.1), id, hop: false }
    }

    fn shown(fields: &Fields) -> String {
        fields
            .iter(ANSWER)
            .map(|(name, value)| format!("{}={};", name.escape_ascii(), value.escape_ascii()))
            .collect::<Vec<_>>()
            .concat()
    }

    fn filled() -> Fields {
        let mut fields = Fields::default();
        fields.push(FieldId::Server, b"holdfast");
        fields.pass(&field(FieldId::ETag, (0, 4), (6, 7)));
        fields.pass_as(&field(FieldId::Other, (9, 14), (16, 17)), b"2");
        fields.mark(Mark::Length);
        fields.push_named(b"content-TYPE", b"a/b");
        fields
    }

    #[test]
    fn fields_keep_their_order_and_spelling() {
        assert_eq!(shown(&filled()), "Server=holdfast;Etag=x;X-Own=2;content-TYPE=a/b;");
    }

    #[test]
    fn fields_are_found_and_taken_out_by_name() {
        let mut fields = filled();
        assert_eq!(fields.value(FieldId::ETag, ANSWER), Some(&b"x"[..]));
        assert_eq!(fields.value(FieldId::ContentType, ANSWER), Some(&b"a/b"[..]));
        assert_eq!(fields.value(FieldId::Date, ANSWER), None);
        fields.remove(FieldId::ETag);
        fields.remove(FieldId::Date);
        assert_eq!(shown(&fields), "Server=holdfast;X-Own=2;content-TYPE=a/b;");
        assert!(!fields.has(FieldId::ETag));
    }

    #[test]
    fn a_field_is_replaced_in_its_place() {
        let mut fields = filled();
        fields.push(FieldId::ETag, b"another");
        fields.replace(FieldId::ETag, b"y");
        fields.replace(FieldId::ContentType, b"c/d");
        fields.replace(FieldId::Server, b"s");
        fields.replace(FieldId::Date, b"none");
        assert_eq!(shown(&fields), "Server=s;Etag=y;X-Own=2;content-TYPE=c/d;");
    }

    #[test]
    fn places_for_the_protocol_move() {
        let mut fields = filled();
        fields.push(FieldId::AcceptRanges, b"bytes");
        fields.move_last_before(Mark::Length);
        assert_eq!(shown(&fields), "Server=holdfast;Etag=x;X-Own=2;Accept-Ranges=bytes;content-TYPE=a/b;");
        fields.move_mark_last(Mark::Length);
        assert!(matches!(fields.entries.last(), Some(HeadEntry::Mark(Mark::Length))));
        assert_eq!(fields.entries.len(), 6);
    }

    #[test]
    fn a_cleared_head_is_as_new() {
        let mut head = ReplyHead { status: 200, fields: filled(), has_body: true, ..ReplyHead::default() };
        head.clear();
        assert_eq!((head.status, head.has_body, shown(&head.fields)), (0, false, String::new()));
        assert!(!head.fields.has(FieldId::Server));
    }
}
