//! An index as bytes, so that a new process knows its files without a walk through the directories. A snapshot may be
//! older than the directory: a missing file is noticed when it is requested, and a new one when the directory is
//! walked.

use crate::index::Record;
use crate::key::Key;

const MAGIC: &[u8; 8] = b"HFindex1";
const HEADER_BYTES: usize = 8 + 4 + 8;

/// Bytes of one key.
pub const RECORD_BYTES: usize = 16 + 8 + 8 + 8;

/// Why bytes are no valid snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotFault {
    /// They do not begin like a snapshot of this version.
    #[error("it has no header of this version")]
    Magic,
    /// It does not have the stated number of keys.
    #[error("it is not as long as it says")]
    Size,
    /// The checksum is wrong.
    #[error("its checksum is wrong")]
    Checksum,
}

/// Encodes these records.
pub fn encode_snapshot(records: impl Iterator<Item = Record>) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 12]);
    let mut count: u64 = 0;
    for record in records {
        out.extend_from_slice(&record.key.0);
        out.extend_from_slice(&record.tag.to_le_bytes());
        out.extend_from_slice(&record.bytes.to_le_bytes());
        out.extend_from_slice(&record.expires_s.to_le_bytes());
        count += 1;
    }
    out[12..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    let checksum = crc32fast::hash(&out[12..]);
    out[8..12].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Decodes the records of a snapshot.
pub fn decode_snapshot(bytes: &[u8]) -> Result<impl Iterator<Item = Record> + '_, SnapshotFault> {
    let (header, records) = bytes.split_at_checked(HEADER_BYTES).ok_or(SnapshotFault::Magic)?;
    if !header.starts_with(MAGIC) {
        return Err(SnapshotFault::Magic);
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let count = usize::try_from(number(&header[12..])).ok().and_then(|count| count.checked_mul(RECORD_BYTES));
    if count != Some(records.len()) {
        return Err(SnapshotFault::Size);
    }
    if u64::from(crc32fast::hash(&bytes[12..])) != number(&header[8..12]) {
        return Err(SnapshotFault::Checksum);
    }
    Ok(records.chunks_exact(RECORD_BYTES).map(move |record| {
        let mut key = [0; 16];
        key.copy_from_slice(&record[..16]);
        Record {
            key: Key(key),
            tag: number(&record[16..24]),
            bytes: number(&record[24..32]),
            expires_s: number(&record[32..40]) as i64,
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_damaged_snapshot_is_refused() {
        let record = Record { key: Key::of(b"a"), tag: 1, bytes: 2, expires_s: 3 };
        let bytes = encode_snapshot([record, Record { tag: 9, ..record }].into_iter());
        assert_eq!(decode_snapshot(&bytes).expect("whole").count(), 2);
        for cut in 0..bytes.len() {
            assert!(decode_snapshot(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(decode_snapshot(&other).is_err(), "a bit of byte {at}");
        }
    }

    proptest! {
        #[test]
        fn snapshot_survives_a_round_trip(records in prop::collection::vec(any::<([u8; 16], u64, u64, i64)>(), 0..20)) {
            let records: Vec<Record> = records
                .into_iter()
                .map(|(key, tag, bytes, expires_s)| Record { key: Key(key), tag, bytes, expires_s })
                .collect();
            let bytes = encode_snapshot(records.iter().copied());
            prop_assert_eq!(decode_snapshot(&bytes).unwrap().collect::<Vec<_>>(), records);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_snapshot(&bytes).map(Iterator::count);
        }
    }
}
