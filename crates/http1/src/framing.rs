//! The length of a body, from the fields of a head (RFC 9112 §6). Stricter than nginx and than the RFC's "may repair":
//! a message that two parties could frame differently is refused. `request` and `response` call it.

use crate::error::{RequestError, ResponseError};
use crate::scan;

/// Longest body: system calls take lengths as signed 64-bit offsets.
pub(crate) const BODY_BYTES_MAX: u64 = i64::MAX as u64;

/// Version of a message; 1.2 to 1.9 count as 1.1 (RFC 9110 §2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// The values of Content-Length and Transfer-Encoding in one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FramingFields {
    /// Content-Length.
    pub(crate) length: Option<u64>,
    /// `Transfer-Encoding: chunked`.
    pub(crate) chunked: bool,
    /// An error in another Transfer-Encoding. As in nginx, it is reported once the head is complete: a second field is
    /// a worse error than an unknown coding.
    coding: Option<FramingFault>,
}

/// The error in these fields; each role has its own error for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FramingFault {
    InvalidLength,
    DuplicateLength,
    Both,
    DuplicateCoding,
    CodingOnHttp10,
    InvalidCoding,
    UnknownCoding,
}

impl FramingFields {
    /// Takes a Content-Length.
    pub(crate) fn take_content_length(&mut self, value: &[u8]) -> Result<(), FramingFault> {
        if self.length.is_some() {
            return Err(FramingFault::DuplicateLength);
        }
        self.length = Some(parse_length(value).ok_or(FramingFault::InvalidLength)?);
        Ok(())
    }

    /// Takes a Transfer-Encoding.
    pub(crate) fn take_transfer_encoding(&mut self, value: &[u8]) -> Result<(), FramingFault> {
        if self.chunked || self.coding.is_some() {
            return Err(FramingFault::DuplicateCoding);
        }
        self.chunked = value.eq_ignore_ascii_case(b"chunked");
        if !self.chunked {
            self.coding = Some(explain_coding(value));
        }
        Ok(())
    }

    /// Checks both together, once the head is complete.
    pub(crate) fn check(self, version: Version) -> Result<(), FramingFault> {
        if !self.chunked && self.coding.is_none() {
            return Ok(());
        }
        if self.length.is_some() {
            return Err(FramingFault::Both);
        }
        if version == Version::Http10 {
            return Err(FramingFault::CodingOnHttp10);
        }
        self.coding.map_or(Ok(()), Err)
    }
}

/// Decimal digits, nothing else, up to [`BODY_BYTES_MAX`].
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let mut length: u64 = 0;
    for &byte in value {
        if !byte.is_ascii_digit() {
            return None;
        }
        length = length.checked_mul(10)?.checked_add((byte - b'0') as u64)?;
    }
    (length <= BODY_BYTES_MAX).then_some(length)
}

/// The fault of a Transfer-Encoding other than `chunked`: 501 for unsupported codings, 400 for an invalid list, and for
/// `chunked` twice.
#[cold]
fn explain_coding(value: &[u8]) -> FramingFault {
    let mut chunked_seen = false;
    let mut other_seen = false;
    for coding in value.split(|&byte| byte == b',') {
        let (start, end) = scan::trim(coding, 0, coding.len());
        let coding = coding.get(start..end).unwrap_or_default();
        let name = coding.split(|&byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
        let is_chunked = name.eq_ignore_ascii_case(b"chunked");
        let is_token = !name.is_empty() && name.iter().all(|&byte| scan::is_token_byte(byte));
        if !is_token || (is_chunked && chunked_seen) {
            return FramingFault::InvalidCoding;
        }
        chunked_seen |= is_chunked;
        other_seen |= !is_chunked;
    }
    if other_seen { FramingFault::UnknownCoding } else { FramingFault::InvalidCoding }
}

macro_rules! from_framing_fault {
    ($error:ty) => {
        impl From<FramingFault> for $error {
            fn from(fault: FramingFault) -> Self {
                match fault {
                    FramingFault::InvalidLength => Self::InvalidContentLength,
                    FramingFault::DuplicateLength => Self::DuplicateContentLength,
                    FramingFault::Both => Self::ContentLengthAndTransferEncoding,
                    FramingFault::DuplicateCoding => Self::DuplicateTransferEncoding,
                    FramingFault::CodingOnHttp10 => Self::TransferEncodingOnHttp10,
                    FramingFault::InvalidCoding => Self::InvalidTransferEncoding,
                    FramingFault::UnknownCoding => Self::UnknownTransferEncoding,
                }
            }
        }
    };
}

from_framing_fault!(RequestError);
from_framing_fault!(ResponseError);
