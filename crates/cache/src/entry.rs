//! The beginning of a cache file: the facts about the response, its key, and the head that the upstream sent. It has a
//! checksum over all of that, and states the length of the body, so a truncated or half-written file never counts as a
//! response.
//!
//! ```text
//! "HFcache1"  checksum  body_start  body_bytes  times …  lengths …  variant  | key | etag | vary | head | body …
//! ```
//! Numbers are little-endian. The checksum is CRC-32 over everything between itself and the body.

use crate::key::Key;

const MAGIC: &[u8; 8] = b"HFcache1";

/// Bytes before the parts with variable length.
pub const FIXED_BYTES: usize = 8 + 4 + 4 + 8 + 6 * 8 + 2 * 2 + 2 * 4 + 16;

/// Largest offset of a body: everything before it is read into memory. `proxy_buffer_size` bounds heads and keys; this
/// bound is for files that another program has written.
pub const BODY_START_MAX: usize = 256 * 1024;

/// The facts about a stored response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Until when it is fresh, in seconds since the epoch.
    pub valid_until: i64,
    /// Seconds after that in which it may be used while it is revalidated.
    pub updating_s: i64,
    /// Seconds after that in which it may be used instead of an error.
    pub error_s: i64,
    /// When it was stored.
    pub date_s: i64,
    /// `Last-Modified`, if known.
    pub modified_s: Option<i64>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// `ETag`, or nothing.
    pub etag: Vec<u8>,
    /// `Vary`, or nothing.
    pub vary: Vec<u8>,
    /// The second key of the request, if there is a `Vary`.
    pub variant: Option<Key>,
}

/// The parsed beginning of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The facts about the response.
    pub entry: Entry,
    /// The text of its key.
    pub key: &'a [u8],
    /// The head of the response.
    pub head: &'a [u8],
    /// Offset of the body.
    pub body_start: usize,
}

/// Why a file is not a cached response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// More of it must be read: this many bytes.
    #[error("it is shorter than its header")]
    Needs(usize),
    /// It does not begin like a file of this version.
    #[error("it has no header of this version")]
    Magic,
    /// A length in it is impossible.
    #[error("its lengths do not fit together")]
    Lengths,
    /// The checksum is wrong.
    #[error("its checksum is wrong")]
    Checksum,
    /// The file does not have the stated length.
    #[error("it is not as long as it says")]
    Size,
}

impl EntryFault {
    /// How many bytes must be read first, if any.
    pub fn needs(self) -> Option<usize> {
        match self {
            Self::Needs(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Whether a file that begins with these bytes is another program's. Nothing, or zeros, is what a power failure may leave of one
/// of ours, and another version of the format is ours, too.
pub fn is_foreign(beginning: &[u8]) -> bool {
    let of_any_version = &MAGIC[..MAGIC.len() - 1];
    let beginning = &beginning[..beginning.len().min(of_any_version.len())];
    !of_any_version.starts_with(beginning) && beginning.iter().any(|&byte| byte != 0)
}

/// Takes bytes from the front of a header.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<usize> {
        self.array().map(|bytes| usize::from(u16::from_le_bytes(bytes)))
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}

impl Entry {
    /// Offset of the body in a file with these parts.
    pub fn body_start(&self, key: &[u8], head: &[u8]) -> usize {
        FIXED_BYTES + key.len() + self.etag.len() + self.vary.len() + head.len()
    }

    /// Whether the beginning of a file can have these parts.
    pub fn fits(&self, key: &[u8], head: &[u8]) -> bool {
        let is_short = |part: &[u8]| u16::try_from(part.len()).is_ok();
        self.body_start(key, head) <= BODY_START_MAX && is_short(&self.etag) && is_short(&self.vary)
    }

    /// Encodes the beginning of a file; `None` if a part is too long for it.
    pub fn encode(&self, key: &[u8], head: &[u8]) -> Option<Vec<u8>> {
        let body_start = self.body_start(key, head);
        if body_start > BODY_START_MAX {
            return None;
        }
        let (etag, vary) = (u16::try_from(self.etag.len()).ok()?, u16::try_from(self.vary.len()).ok()?);
        let mut out = Vec::with_capacity(body_start);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(body_start as u32).to_le_bytes());
        out.extend_from_slice(&self.body_bytes.to_le_bytes());
        for number in [
            self.valid_until,
            self.updating_s,
            self.error_s,
            self.date_s,
            self.modified_s.unwrap_or_default(),
            i64::from(self.modified_s.is_some()) | i64::from(self.variant.is_some()) << 1,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&etag.to_le_bytes());
        out.extend_from_slice(&vary.to_le_bytes());
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(&(head.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.variant.map_or([0; 16], |variant| variant.0));
        for part in [key, &self.etag, &self.vary, head] {
            out.extend_from_slice(part);
        }
        let checksum = crc32fast::hash(&out[12..]);
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        Some(out)
    }

    /// Parses the beginning of a file of `file_bytes`. `bytes` may be only a part of it: [`EntryFault::Needs`] says how
    /// much is needed.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<Parsed<'_>, EntryFault> {
        let mut reader = Reader(bytes);
        let needs = |count: usize| if file_bytes < count as u64 { EntryFault::Size } else { EntryFault::Needs(count) };
        let fixed = (|| {
            let magic: [u8; 8] = reader.array()?;
            let (checksum, body_start) = (reader.u32()?, reader.u32()? as usize);
            let body_bytes = u64::from_le_bytes(reader.array()?);
            let times = [reader.i64()?, reader.i64()?, reader.i64()?, reader.i64()?, reader.i64()?];
            let flags = reader.i64()?;
            let lengths = [reader.u16()?, reader.u16()?, reader.u32()? as usize, reader.u32()? as usize];
            Some((magic, checksum, body_start, body_bytes, times, flags, lengths, Key(reader.array()?)))
        })();
        let Some((magic, checksum, body_start, body_bytes, times, flags, lengths, variant)) = fixed else {
            let is_foreign = !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]);
            return Err(if is_foreign { EntryFault::Magic } else { needs(FIXED_BYTES) });
        };
        if &magic != MAGIC {
            return Err(EntryFault::Magic);
        }
        let [etag_len, vary_len, key_len, head_len] = lengths;
        let stated =
            [etag_len, vary_len, key_len, head_len].iter().try_fold(FIXED_BYTES, |sum, part| sum.checked_add(*part));
        if stated != Some(body_start) || body_start > BODY_START_MAX {
            return Err(EntryFault::Lengths);
        }
        if (body_start as u64).checked_add(body_bytes) != Some(file_bytes) {
            return Err(EntryFault::Size);
        }
        let Some(whole) = bytes.get(..body_start) else { return Err(needs(body_start)) };
        if crc32fast::hash(&whole[12..]) != checksum {
            return Err(EntryFault::Checksum);
        }
        let mut reader = Reader(&whole[FIXED_BYTES..]);
        let mut part = |count| reader.take(count).ok_or(EntryFault::Lengths);
        let (key, etag, vary, head) = (part(key_len)?, part(etag_len)?, part(vary_len)?, part(head_len)?);
        let [valid_until, updating_s, error_s, date_s, modified_s] = times;
        let entry = Self {
            valid_until,
            updating_s,
            error_s,
            date_s,
            modified_s: (flags & 1 != 0).then_some(modified_s),
            body_bytes,
            etag: etag.to_vec(),
            vary: vary.to_vec(),
            variant: (flags & 2 != 0).then_some(variant),
        };
        Ok(Parsed { entry, key, head, body_start })
    }

    /// Whether it is fresh.
    pub fn is_fresh(&self, now_s: i64) -> bool {
        self.valid_until >= now_s
    }

    /// Whether the response's own fields permit using it while it is revalidated.
    pub fn may_be_used_while_updating(&self, now_s: i64) -> bool {
        self.valid_until.saturating_add(self.updating_s) >= now_s
    }

    /// Whether the response's own fields permit using it in place of an error.
    pub fn may_be_used_on_error(&self, now_s: i64) -> bool {
        self.valid_until.saturating_add(self.error_s) >= now_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_are_foreign_and_damaged_ones_are_not() {
        let nginx = [5, 0, 0, 0, 0, 0, 0, 0, 0x2a];
        for (beginning, foreign) in [
            (&b""[..], false),
            (&[0; 20], false),
            (b"HFc", false),
            (b"HFcache1 and more", false),
            (b"HFcache2 and more", false),
            (b"HFother", true),
            (b"x", true),
            (&nginx, true),
        ] {
            assert_eq!(is_foreign(beginning), foreign, "{}", beginning.escape_ascii());
        }
    }
    use proptest::prelude::*;

    fn entry() -> Entry {
        Entry {
            valid_until: 10,
            updating_s: 2,
            error_s: 3,
            date_s: 4,
            modified_s: Some(-1),
            body_bytes: 5,
            etag: b"\"e\"".to_vec(),
            vary: b"Accept".to_vec(),
            variant: Some(Key::of(b"v")),
        }
    }

    #[test]
    fn a_torn_file_is_no_response() {
        let entry = entry();
        let bytes = entry.encode(b"key", b"HTTP/1.1 200 OK\r\n\r\n").expect("short");
        let size = bytes.len() as u64 + 5;
        let parsed = Entry::parse(&bytes, size).expect("as written");
        assert_eq!((parsed.entry, parsed.key, parsed.body_start), (entry.clone(), &b"key"[..], bytes.len()));
        assert_eq!(parsed.head, b"HTTP/1.1 200 OK\r\n\r\n");
        for cut in 0..bytes.len() {
            let fault = Entry::parse(&bytes[..cut], size).expect_err("cut");
            assert!(fault.needs().is_some_and(|needs| needs > cut && needs <= bytes.len()), "{cut}: {fault:?}");
            assert!(Entry::parse(&bytes[..cut], cut as u64).is_err_and(|fault| fault.needs().is_none()), "{cut}");
        }
        for size in [size - 1, size + 1, 0] {
            assert_eq!(Entry::parse(&bytes, size).err(), Some(EntryFault::Size), "{size}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(Entry::parse(&other, size).is_err(), "a bit of byte {at}");
        }
        assert_eq!(Entry::parse(&vec![0; 4096], 4096).err(), Some(EntryFault::Magic), "zeros");
    }

    #[test]
    fn refuses_too_long_entries() {
        assert_eq!(entry().encode(&vec![b'k'; BODY_START_MAX], b""), None);
        assert_eq!(Entry { etag: vec![b'e'; 1 << 16], ..entry() }.encode(b"", b""), None);
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(
            times in any::<[i64; 4]>(), modified_s in any::<Option<i64>>(), body_bytes in 0..1_u64 << 40,
            etag in prop::collection::vec(any::<u8>(), 0..40), vary in prop::collection::vec(any::<u8>(), 0..40),
            variant in any::<Option<[u8; 16]>>(), key in prop::collection::vec(any::<u8>(), 0..300),
            head in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let [valid_until, updating_s, error_s, date_s] = times;
            let entry = Entry {
                valid_until, updating_s, error_s, date_s, modified_s, body_bytes, etag, vary, variant: variant.map(Key),
            };
            let bytes = entry.encode(&key, &head).unwrap();
            let parsed = Entry::parse(&bytes, bytes.len() as u64 + body_bytes).unwrap();
            prop_assert_eq!(parsed, Parsed { entry, key: &key, head: &head, body_start: bytes.len() });
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), size in any::<u64>()) {
            let _ = Entry::parse(&bytes, size);
            let mut marked = MAGIC.to_vec();
            marked.extend_from_slice(&bytes);
            let _ = Entry::parse(&marked, size);
        }
    }
}
