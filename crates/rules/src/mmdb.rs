//! Reads a database in `MaxMind`'s format: a tree over the bits of addresses, then values. Every access is checked, so that a
//! damaged file gives no value, and never panics. The bytes come from the caller. (The crate `maxminddb` reads nodes without a
//! check, and panics on a file that was cut.)
//!
//! Source: the `MaxMind` DB file format specification, version 2.0.

use std::net::IpAddr;
use thiserror::Error;

/// What precedes the metadata, at its last place in the file.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// Zero bytes between the tree and the values.
const SEPARATOR: usize = 16;

/// Values that a search passes over. A record of the databases in use has some hundreds; a damaged one could cost the time
/// of reading the whole file for each request.
const PASSED_MAX: usize = 10_000;

/// Levels of values inside values that a search passes over.
const DEPTH_MAX: usize = 32;

/// Why bytes are no database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MmdbError {
    /// Another file, or a part of one.
    #[error("no metadata of a MaxMind database in it")]
    NoMetadata,
    /// The metadata lacks this, or has a value that is not known.
    #[error("the metadata of the database has no valid \"{0}\"")]
    Metadata(&'static str),
    /// The file was cut.
    #[error("the database is shorter than its metadata says")]
    Short,
}

/// A database.
#[derive(Debug)]
pub struct Mmdb {
    bytes: Vec<u8>,
    nodes: usize,
    /// Bits of a record: 24, 28 or 32. A node has two.
    record_bits: usize,
    is_ipv6: bool,
    /// Where the values begin and end.
    values: (usize, usize),
    build_epoch: u64,
}

impl Mmdb {
    /// Reads the metadata.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, MmdbError> {
        let at = memchr::memmem::rfind(&bytes, MARKER).ok_or(MmdbError::NoMetadata)?;
        let metadata = Values(&bytes[at + MARKER.len()..]);
        let number = |name: &'static str| {
            let found = metadata.find(0, &[name.as_bytes()]).and_then(|at| metadata.number(at));
            found.ok_or(MmdbError::Metadata(name))
        };
        let check = |name: &'static str, known: &[u64]| {
            number(name)
                .and_then(|value| if known.contains(&value) { Ok(value) } else { Err(MmdbError::Metadata(name)) })
        };
        check("binary_format_major_version", &[2])?;
        let record_bits = check("record_size", &[24, 28, 32])? as usize;
        let is_ipv6 = check("ip_version", &[4, 6])? == 6;
        let nodes = u32::try_from(number("node_count")?).map_err(|_| MmdbError::Metadata("node_count"))? as usize;
        let build_epoch = number("build_epoch")?;
        let begin = (nodes * record_bits / 4).saturating_add(SEPARATOR);
        if begin > at {
            return Err(MmdbError::Short);
        }
        Ok(Self { nodes, record_bits, is_ipv6, values: (begin, at), build_epoch, bytes })
    }

    /// When it was made, in seconds since 1970.
    pub fn build_epoch(&self) -> u64 {
        self.build_epoch
    }

    /// Appends the value at this path in the record of an address. Returns false for maps, arrays and missing values.
    pub fn write(&self, address: IpAddr, path: &[Box<[u8]>], out: &mut Vec<u8>) -> bool {
        let values = Values(&self.bytes[self.values.0..self.values.1]);
        let path: smallvec::SmallVec<[&[u8]; 8]> = path.iter().map(|name| &**name).collect();
        let found = self.record(address).and_then(|at| values.find(at, &path));
        found.is_some_and(|at| values.write(at, out).is_some())
    }

    /// Where the record of an address begins.
    fn record(&self, address: IpAddr) -> Option<usize> {
        let (bits, count) = match (address.to_canonical(), self.is_ipv6) {
            (IpAddr::V4(ip), false) => (u128::from(ip.to_bits()) << 96, 32),
            // An IPv4 address is in the tree as `::a.b.c.d`.
            (IpAddr::V4(ip), true) => (u128::from(ip.to_bits()), 128),
            (IpAddr::V6(ip), true) => (ip.to_bits(), 128),
            (IpAddr::V6(_), false) => return None,
        };
        let mut node = 0;
        for place in 0..count {
            if node >= self.nodes {
                break;
            }
            node = self.child(node, bits >> (127 - place) & 1 == 1)?;
        }
        // The number of nodes itself means that there is no record.
        (node > self.nodes).then(|| node - self.nodes)?.checked_sub(SEPARATOR)
    }

    fn child(&self, node: usize, is_right: bool) -> Option<usize> {
        let node = self.bytes.get(node * self.record_bits / 4..)?.get(..self.record_bits / 4)?;
        let big_endian = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        Some(match (self.record_bits, is_right) {
            (28, false) => usize::from(node[3] >> 4) << 24 | big_endian(&node[..3]),
            (28, true) => usize::from(node[3] & 15) << 24 | big_endian(&node[4..]),
            (_, false) => big_endian(&node[..node.len() / 2]),
            (_, true) => big_endian(&node[node.len() / 2..]),
        })
    }
}

/// The types of values.
const POINTER: u8 = 1;
const TEXT: u8 = 2;
const DOUBLE: u8 = 3;
const BYTES: u8 = 4;
const UINT16: u8 = 5;
const UINT32: u8 = 6;
const MAP: u8 = 7;
const INT32: u8 = 8;
const UINT64: u8 = 9;
const UINT128: u8 = 10;
const ARRAY: u8 = 11;
const BOOLEAN: u8 = 14;
const FLOAT: u8 = 15;

/// A section of values; pointers count from its beginning.
#[derive(Clone, Copy)]
struct Values<'a>(&'a [u8]);

/// What a value begins with.
struct Header {
    kind: u8,
    /// Bytes, or entries; of a pointer its target.
    size: usize,
    /// Where the content begins.
    at: usize,
}

impl<'a> Values<'a> {
    fn header(self, at: usize) -> Option<Header> {
        let control = *self.0.get(at)?;
        let more = |at: usize, count: usize| -> Option<usize> {
            let bytes = self.0.get(at..)?.get(..count)?;
            Some(bytes.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
        };
        let mut kind = control >> 5;
        let mut at = at + 1;
        if kind == POINTER {
            let high = usize::from(control & 7);
            let (count, base) = [(1, 0), (2, 2048), (3, 526_336), (4, 0)][usize::from(control >> 3 & 3)];
            let high = if count == 4 { 0 } else { high << (8 * count) };
            return Some(Header { kind, size: (high | more(at, count)?) + base, at: at + count });
        }
        if kind == 0 {
            kind = self.0.get(at)?.checked_add(7)?;
            at += 1;
        }
        let (count, base) = [(0, 0), (1, 29), (2, 285), (3, 65_821)][usize::from(control & 31).saturating_sub(28)];
        let size = if count == 0 { usize::from(control & 31) } else { more(at, count)? + base };
        Some(Header { kind, size, at: at + count })
    }

    /// The value that a pointer leads to, or this one. A pointer to a pointer is invalid.
    fn target(self, at: usize) -> Option<Header> {
        let header = self.header(at)?;
        if header.kind != POINTER {
            return Some(header);
        }
        self.header(header.size).filter(|header| header.kind != POINTER)
    }

    /// Where the value at this path begins.
    fn find(self, mut at: usize, path: &[&[u8]]) -> Option<usize> {
        let mut passed = 0;
        for name in path {
            let holder = self.target(at)?;
            at = match holder.kind {
                MAP => self.entry(&holder, name, &mut passed)?,
                ARRAY => {
                    let index: usize = std::str::from_utf8(name).ok()?.parse().ok()?;
                    if index >= holder.size {
                        return None;
                    }
                    let mut at = holder.at;
                    for _ in 0..index {
                        at = self.behind(at, 0, &mut passed)?;
                    }
                    at
                }
                _ => return None,
            };
        }
        Some(at)
    }

    /// Where the value with this name begins.
    fn entry(self, map: &Header, name: &[u8], passed: &mut usize) -> Option<usize> {
        let mut at = map.at;
        for _ in 0..map.size {
            let key = self.target(at)?;
            let is_found = key.kind == TEXT && self.content(&key)? == name;
            at = self.behind(at, 0, passed)?;
            if is_found {
                return Some(at);
            }
            at = self.behind(at, 0, passed)?;
        }
        None
    }

    /// Where the next value begins.
    fn behind(self, at: usize, depth: usize, passed: &mut usize) -> Option<usize> {
        *passed += 1;
        if *passed > PASSED_MAX || depth > DEPTH_MAX {
            return None;
        }
        let header = self.header(at)?;
        let inner = match header.kind {
            POINTER | BOOLEAN => return Some(header.at),
            MAP => header.size.checked_mul(2)?,
            ARRAY => header.size,
            _ => return header.at.checked_add(header.size),
        };
        let mut at = header.at;
        for _ in 0..inner {
            at = self.behind(at, depth + 1, passed)?;
        }
        Some(at)
    }

    fn content(self, header: &Header) -> Option<&'a [u8]> {
        self.0.get(header.at..)?.get(..header.size)
    }

    /// An unsigned number of at most eight bytes.
    fn number(self, at: usize) -> Option<u64> {
        let header = self.target(at)?;
        let is_number = matches!(header.kind, UINT16 | UINT32 | UINT64) && header.size <= 8;
        is_number
            .then(|| self.content(&header))?
            .map(|bytes| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    /// Appends a single value as text.
    fn write(self, at: usize, out: &mut Vec<u8>) -> Option<()> {
        use std::io::Write as _;
        let header = self.target(at)?;
        if header.kind == BOOLEAN {
            out.push(if header.size == 0 { b'0' } else { b'1' });
            return Some(());
        }
        let content = self.content(&header)?;
        let big_endian = || content.iter().fold(0_u128, |sum, &byte| sum << 8 | u128::from(byte));
        // Writing to a vector cannot fail.
        let _ = match (header.kind, content.len()) {
            (TEXT | BYTES, _) => out.write_all(content),
            (DOUBLE, 8) => write!(out, "{:.5}", f64::from_bits(big_endian() as u64)),
            (FLOAT, 4) => write!(out, "{:.5}", f32::from_bits(big_endian() as u32)),
            (UINT16, 0..=2) | (UINT32, 0..=4) | (UINT64, 0..=8) => write!(out, "{}", big_endian()),
            (INT32, 0..=4) => write!(out, "{}", big_endian() as u32 as i32),
            (UINT128, 0..=16) => write!(out, "0x{:032x}", big_endian()),
            _ => return None,
        };
        Some(())
    }
}

#[cfg(test)]
mod tests;
