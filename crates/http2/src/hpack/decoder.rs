//! The decoder: a complete block in, fields out, into the caller's buffer. The id of a literal's name and the validity
//! of its bytes are determined once and kept in the table; an indexed field is only copied.

use super::table::Table;
use super::{HpackError, TABLE_BYTES_DEFAULT, huffman, integer, static_table};
use crate::check::{self, FieldFault};
use http1::{FieldId, Span};
use std::sync::LazyLock;

/// A pseudo-header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pseudo {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:protocol` (RFC 8441)
    Protocol,
    /// `:status`
    Status,
}

impl Pseudo {
    fn of_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":protocol" => Self::Protocol,
            b":status" => Self::Status,
            _ => return None,
        })
    }
}

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// Of a regular field.
    Field(FieldId),
    /// Of a pseudo-header field that we know.
    Pseudo(Pseudo),
    /// A name that no message may have.
    Fault(FieldFault),
}

impl Name {
    fn of(name: &[u8]) -> Self {
        if name.first() == Some(&b':') {
            return Pseudo::of_name(name).map_or(Self::Fault(FieldFault::UnknownPseudo), Self::Pseudo);
        }
        check::name(name).map_or_else(Self::Fault, |()| Self::Field(FieldId::of_name(name)))
    }
}

/// Facts about an entry of the table: its name, and the fault of its value.
type Note = (Name, Option<FieldFault>);

/// A decoded field. Name and value are in the sink's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// The kind of its name.
    pub name: Name,
    /// The fault of its value, if any.
    pub value_fault: Option<FieldFault>,
    /// Its name.
    pub name_at: Span,
    /// Its value; it follows the name, a colon and a space.
    pub value_at: Span,
    /// Whether the sender forbids storing it in a table (RFC 7541 §7.1.3).
    pub never_indexed: bool,
}

/// Between a name and a value in the buffer, so that a head reads as one of HTTP/1.
const SEPARATOR: &[u8] = b": ";

/// Takes decoded fields.
pub trait Sink {
    /// Counts a field of this many bytes, name and value; `false`: it is not wanted, and is not copied.
    fn admit(&mut self, bytes: usize) -> bool;

    /// The buffer that names and values are appended to.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Takes a field that was admitted; its bytes are the last ones of the buffer.
    fn take(&mut self, field: Decoded);
}

/// Names of the static table.
static STATIC_NAMES: LazyLock<[Name; static_table::ENTRIES]> = LazyLock::new(|| {
    std::array::from_fn(|at| Name::of(static_table::entry(at + 1).expect("the array is as long as the table").0))
});

/// The decoder of one direction.
#[derive(Debug)]
pub struct Decoder {
    table: Table<Note>,
    /// The size that we allow.
    size_max: u32,
    /// The limit was lowered below the table's size: the next block must state a new size (RFC 7541 §4.2).
    must_update: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        let table = Table::new(TABLE_BYTES_DEFAULT);
        Self { table, size_max: TABLE_BYTES_DEFAULT, must_update: false }
    }
}

impl Decoder {
    /// Sets the size of the dynamic table that the peer may choose from now on: the announced one, once it is
    /// acknowledged.
    pub fn set_size_max(&mut self, size_max: u32) {
        self.size_max = size_max;
        self.must_update = self.table.size_max() > size_max;
    }

    /// Bytes of memory behind it.
    pub fn held_bytes(&self) -> usize {
        self.table.held_bytes()
    }

    #[cfg(test)]
    pub(super) fn table_resize_for_test(&mut self, size: u32) {
        self.table.resize(size);
    }

    /// Decodes a whole block.
    pub fn decode(&mut self, mut block: &[u8], sink: &mut impl Sink) -> Result<(), HpackError> {
        let block = &mut block;
        self.update_size(block)?;
        while let Some(&first) = block.first() {
            match first {
                0x80.. => self.indexed(block, sink)?,
                0x40..=0x7F => self.literal(block, 6, sink)?,
                0x20..=0x3F => return Err(HpackError::TableSize),
                0x00..=0x1F => self.literal(block, 4, sink)?,
            }
        }
        Ok(())
    }

    /// Handles changes of the table's size, which are only permitted at the start of a block.
    fn update_size(&mut self, block: &mut &[u8]) -> Result<(), HpackError> {
        // After a change of the limit there are two: the smallest size in between, and the final one.
        let mut updates_left = 2;
        while let Some(0x20..=0x3F) = block.first() {
            let size = integer::decode(block, 5)?;
            if size > self.size_max || updates_left == 0 {
                return Err(HpackError::TableSize);
            }
            updates_left -= 1;
            self.must_update = false;
            self.table.resize(size);
        }
        if self.must_update { Err(HpackError::TableSize) } else { Ok(()) }
    }

    #[inline]
    fn indexed(&self, block: &mut &[u8], sink: &mut impl Sink) -> Result<(), HpackError> {
        let index = integer::decode(block, 7)? as usize;
        let (name, value, note) = self.entry(index)?;
        if sink.admit(name.len() + value.len()) {
            let out = sink.buffer();
            let start = out.len();
            out.extend_from_slice(name);
            out.extend_from_slice(SEPARATOR);
            let value_start = out.len();
            out.extend_from_slice(value);
            let (name_at, value_at) = (Span::new(start, start + name.len()), Span::new(value_start, out.len()));
            sink.take(Decoded { name: note.0, value_fault: note.1, name_at, value_at, never_indexed: false });
        }
        Ok(())
    }

    /// Decodes a literal. Its first byte has `prefix_bits` bits of the name's index: six if it is stored in the table.
    fn literal(&mut self, block: &mut &[u8], prefix_bits: u32, sink: &mut impl Sink) -> Result<(), HpackError> {
        let is_kept = prefix_bits == 6;
        let never_indexed = !is_kept && block.first().is_some_and(|first| first & 0x10 != 0);
        let index = integer::decode(block, prefix_bits)? as usize;
        let out = sink.buffer();
        let start = out.len();
        let known = if index == 0 {
            decode_string(block, out)?;
            None
        } else {
            let (name, _, note) = self.entry(index)?;
            out.extend_from_slice(name);
            Some(note.0)
        };
        let name_at = Span::new(start, out.len());
        let name = known.unwrap_or_else(|| Name::of(name_at.of(out)));
        out.extend_from_slice(SEPARATOR);
        let value_start = out.len();
        decode_string(block, out)?;
        let value_at = Span::new(value_start, out.len());
        let value_fault = check::value(value_at.of(out)).err();
        if is_kept {
            self.table.insert(name_at.of(out), value_at.of(out), (name, value_fault));
        }
        if sink.admit((name_at.len + value_at.len) as usize) {
            sink.take(Decoded { name, value_fault, name_at, value_at, never_indexed });
        } else {
            sink.buffer().truncate(start);
        }
        Ok(())
    }

    #[inline]
    fn entry(&self, index: usize) -> Result<(&[u8], &[u8], Note), HpackError> {
        if let Some(at) = index.checked_sub(static_table::ENTRIES + 1) {
            return self.table.get(at).ok_or(HpackError::Index);
        }
        let (name, value) = static_table::entry(index).ok_or(HpackError::Index)?;
        Ok((name, value, (STATIC_NAMES[index - 1], None)))
    }
}

/// Appends the string at the start of `block` to `out`.
fn decode_string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_encoded = block.first().is_some_and(|first| first & 0x80 != 0);
    let len = integer::decode(block, 7)? as usize;
    let (string, rest) = block.split_at_checked(len).ok_or(HpackError::Truncated)?;
    *block = rest;
    if is_encoded {
        return huffman::decode(string, out);
    }
    out.extend_from_slice(string);
    Ok(())
}
