//! The encoder: one field at a time, appended to the caller's buffer. Its table is small and searched by hashes; an
//! idle connection frees it ([`Encoder::forget`]), which costs two bytes in the next block.

use super::table::Table;
use super::{TABLE_BYTES_DEFAULT, huffman, integer, static_table};

/// Whether a field is stored in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexing {
    /// Store it: it will be sent again.
    Keep,
    /// Do not store it: the next value will differ.
    Without,
    /// No hop may store it in a table: a secret (RFC 7541 §7.1.3).
    Never,
}

/// The encoder of one direction.
#[derive(Debug)]
pub struct Encoder {
    table: Table<u32>,
    /// The table size in use: the smaller of the peer's limit and ours.
    size_max: u32,
    /// The table size that we want.
    wanted: u32,
    /// Sizes to send at the start of the next block: the smallest in between, if it is smaller than the final one.
    update: Option<u32>,
}

impl Encoder {
    /// `wanted`: most bytes of the dynamic table.
    pub fn new(wanted: u32) -> Self {
        let size_max = wanted.min(TABLE_BYTES_DEFAULT);
        let update = (size_max < TABLE_BYTES_DEFAULT).then_some(size_max);
        Self { table: Table::new(size_max), size_max, wanted, update }
    }

    /// Applies the table size that the peer allows (`SETTINGS_HEADER_TABLE_SIZE`).
    pub fn set_peer_max(&mut self, peer_max: u32) {
        let size_max = peer_max.min(self.wanted);
        if size_max != self.size_max {
            self.size_max = size_max;
            self.update = Some(self.update.unwrap_or(size_max).min(size_max));
            self.table.resize(size_max);
        }
    }

    /// Frees the table's memory. The next block announces that.
    pub fn forget(&mut self) {
        if self.table.held_bytes() > 0 {
            self.table.resize(0);
            self.table.resize(self.size_max);
            self.update = Some(0);
        }
    }

    /// Bytes of memory behind it.
    pub fn held_bytes(&self) -> usize {
        self.table.held_bytes()
    }

    /// Must be called before the first field of each block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(least) = self.update.take() {
            if least < self.size_max {
                integer::encode(least as usize, 5, 0x20, out);
            }
            integer::encode(self.size_max as usize, 5, 0x20, out);
        }
    }

    /// Appends `:status`. It is in the static table, or not worth a place in ours.
    pub fn status(status: u16, out: &mut Vec<u8>) {
        const FIRST: u8 = 8;
        let index = match status {
            200 => FIRST,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
                integer::encode(usize::from(FIRST), 4, 0, out);
                return encode_plain(&digits, out);
            }
        };
        out.push(0x80 | index);
    }

    /// Appends a field. The name is in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let static_name = static_table::find_name(name);
        if let Some(index) = static_name.and_then(|first| find_pair(first, name, value)) {
            return integer::encode(index, 7, 0x80, out);
        }
        let name_index = static_name.unwrap_or(0);
        if indexing == Indexing::Keep && self.size_max > 0 {
            let hash = hash(name, value);
            if let Some(index) = self.table.find(name, value, |note| note == hash) {
                return integer::encode(static_table::ENTRIES + 1 + index, 7, 0x80, out);
            }
            self.table.insert(name, value, hash);
            integer::encode(name_index, 6, 0x40, out);
        } else {
            let first = if indexing == Indexing::Never { 0x10 } else { 0 };
            integer::encode(name_index, 4, first, out);
        }
        if name_index == 0 {
            encode_string(name, out);
        }
        // A value that changes each time is not worth the time to compress it.
        if indexing == Indexing::Keep { encode_string(value, out) } else { encode_plain(value, out) }
    }
}

/// The entry with this pair, among those with this name, which are adjacent in the static table.
fn find_pair(first: usize, name: &[u8], value: &[u8]) -> Option<usize> {
    let mut index = first;
    loop {
        let (known_name, known_value) = static_table::entry(index)?;
        if known_name != name || known_value.is_empty() {
            return None;
        }
        if known_value == value {
            return Some(index);
        }
        index += 1;
    }
}

fn encode_plain(text: &[u8], out: &mut Vec<u8>) {
    integer::encode(text.len(), 7, 0, out);
    out.extend_from_slice(text);
}

/// Uses the Huffman code if it is shorter.
fn encode_string(text: &[u8], out: &mut Vec<u8>) {
    let len = huffman::encoded_len(text);
    if len < text.len() {
        integer::encode(len, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        encode_plain(text, out);
    }
}

/// Distinguishes pairs before they are compared; equal hashes only cost a comparison.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = (name.len() as u64) << 32 | value.len() as u64;
    for part in [name, value] {
        for chunk in part.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(SPREAD);
        }
    }
    (hash >> 32) as u32
}
