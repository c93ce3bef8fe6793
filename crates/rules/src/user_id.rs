//! `userid`: numbers of 16 bytes that identify clients, and their form in cookies and variables. nginx writes the same bytes, so
//! each of the two understands the other's cookies.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::fmt::Write as _;

/// Letters of a cookie that hold the number; what follows is padding, or a mark.
const LETTERS: usize = 22;

/// As nginx reads it: what the last letter has too many bits of does not matter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The first number of cookies of the second version.
const FIRST: u32 = 0x0303_0302;

/// The number of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserId([u8; 16]);

/// What is wrong with a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieFault {
    /// It is shorter than a number is.
    TooShort,
    /// It has letters that no number has.
    Invalid,
}

/// The count of one worker: no two numbers of it are the same.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    start: u32,
    first_version: u32,
    second_version: u32,
}

impl Counter {
    /// `start` differs between workers, and between two runs of one.
    pub fn new(start: u32) -> Self {
        Self { start, first_version: 1, second_version: FIRST }
    }

    /// A number of the first version.
    pub fn next_v1(&mut self, service: u32, seconds: u32) -> UserId {
        let last = self.first_version;
        self.first_version = last.wrapping_add(0x100);
        UserId::of([service, seconds, self.start, last].map(u32::to_le_bytes))
    }

    /// A number of the second version; `service` is the first four bytes.
    pub fn next(&mut self, service: [u8; 4], seconds: u32) -> UserId {
        let last = self.second_version;
        self.second_version = last.wrapping_add(0x100).max(FIRST);
        UserId::of([service, seconds.to_be_bytes(), self.start.to_be_bytes(), last.to_be_bytes()])
    }
}

impl UserId {
    fn of(parts: [[u8; 4]; 4]) -> Self {
        let mut bytes = [0; 16];
        bytes.as_chunks_mut::<4>().0.copy_from_slice(&parts);
        Self(bytes)
    }

    /// Reads a cookie. A number that ends in four zeros counts as none.
    pub fn decode(cookie: &[u8]) -> Result<Option<Self>, CookieFault> {
        let letters = cookie.get(..LETTERS).ok_or(CookieFault::TooShort)?;
        let end = letters.iter().position(|&letter| letter == b'=').unwrap_or(LETTERS);
        let decoded = BASE64.decode(&letters[..end]).map_err(|_| CookieFault::Invalid)?;
        let mut bytes = [0; 16];
        bytes[..decoded.len().min(16)].copy_from_slice(&decoded[..decoded.len().min(16)]);
        let id = Self(bytes);
        Ok((id.0[12..] != [0; 4]).then_some(id))
    }

    /// The value of a cookie: the number, then `==`, or a mark and `=`.
    pub fn encode(self, mark: Option<u8>) -> Vec<u8> {
        let mut value = BASE64.encode(self.0).into_bytes();
        if let (Some(mark), Some(place)) = (mark, value.get_mut(LETTERS)) {
            *place = mark;
        }
        value
    }

    /// Whether a cookie with a number has this mark.
    pub fn is_marked(cookie: &[u8], mark: u8) -> bool {
        cookie.get(LETTERS..LETTERS + 2) == Some(&[mark, b'='])
    }

    /// How variables and log lines show it.
    pub fn shown(self, name: &str) -> String {
        let mut text = format!("{name}=");
        for part in self.0.as_chunks::<4>().0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "{:08X}", u32::from_le_bytes(*part));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_nginx() {
        let mut counter = Counter::new(0x1234_5678);
        let id = counter.next([127, 0, 0, 1], 0x0102_0304);
        assert_eq!(id.shown("uid"), "uid=0100007F040302017856341202030303");
        assert_eq!(id.encode(None), b"fwAAAQECAwQSNFZ4AwMDAg==");
        assert_eq!(id.encode(Some(b'z')), b"fwAAAQECAwQSNFZ4AwMDAgz=");
        assert_eq!(UserId::decode(&id.encode(Some(b'z'))), Ok(Some(id)));
        assert!(UserId::is_marked(&id.encode(Some(b'z')), b'z') && !UserId::is_marked(&id.encode(None), b'z'));
        let next = counter.next([127, 0, 0, 1], 0x0102_0304);
        assert_eq!(next.shown("a"), "a=0100007F040302017856341202040303");
        assert_eq!(counter.next_v1(7, 1).shown("b"), "b=00000007000000011234567800000001");
    }

    #[test]
    fn a_count_that_wraps_begins_anew() {
        let mut counter = Counter { second_version: 0xffff_ff02, ..Counter::new(1) };
        counter.next([0; 4], 0);
        assert_eq!(counter.second_version, FIRST);
    }

    #[test]
    fn distinguishes_bad_cookies() {
        assert_eq!(UserId::decode(b"short"), Err(CookieFault::TooShort));
        assert_eq!(UserId::decode(b"!!!!!!!!!!!!!!!!!!!!!!"), Err(CookieFault::Invalid));
        assert_eq!(UserId::decode(b"AAAAAAAAAAAAAAAAAAAAAA=="), Ok(None));
        assert_eq!(UserId::decode(b"AAAA=AAAAAAAAAAAAAAAAAAA"), Ok(None));
        // The last letter has bits that no byte has.
        assert!(matches!(UserId::decode(b"fwAAAQECAwQSNFZ4AwMDAz"), Ok(Some(_))));
    }
}
