//! HPACK (RFC 7541): the compression of fields. `head` interprets the fields. The connection calls it.
//!
//! # Decision: our own
//!
//! The crates that offer only HPACK are unmaintained: `hpack` (2017, with two advisories), `httlib-hpack` (2022),
//! `loona-hpack` (2024), and each allocates two vectors per field. The codec of the `h2` crate is maintained, but not
//! public. This one writes into a buffer that its caller recycles, counts before it copies, and keeps the facts about a
//! field beside it in the table.

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod static_table;
mod table;
#[cfg(test)]
mod tests;

pub use decoder::{Decoded, Decoder, Name, Pseudo, Sink};
pub use encoder::{Encoder, Indexing};

use thiserror::Error;

/// Bytes of a table before any setting (RFC 9113 §6.5.2).
pub const TABLE_BYTES_DEFAULT: u32 = 4096;

/// Largest table that we keep: the lengths in it are 16 bits wide.
pub const TABLE_BYTES_MAX: u32 = u16::MAX as u32;

/// Bytes that an entry counts besides its name and value (RFC 7541 §4.1).
pub const ENTRY_BYTES: usize = 32;

/// Why a block cannot be decoded. After that the states of both sides differ, so the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum HpackError {
    /// The block ends inside a field.
    #[error("a header block ends inside a field")]
    Truncated,
    /// An integer above what any index or length here can be.
    #[error("an integer of a header block is too large")]
    Integer,
    /// A code with wrong padding, or the end-of-string symbol.
    #[error("a string of a header block is not a Huffman code")]
    Huffman,
    /// An index without an entry.
    #[error("an index of a header block has no entry in the tables")]
    Index,
    /// A size of the dynamic table above what we allow, not at the start of a block, or absent after a reduction.
    #[error("the size of the dynamic table is changed against the rules")]
    TableSize,
}
