//! Bytes split into records, for both roles; they come in pieces of any size.

use super::{HEADER_BYTES, REQUEST_ID, VERSION};

/// A record that is not valid. The words are those of nginx's error log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The version.
    #[error("upstream sent unsupported FastCGI protocol version: {0}")]
    Version(u8),
    /// The type.
    #[error("upstream sent invalid FastCGI record type: {0}")]
    Kind(u8),
    /// The request's id.
    #[error("upstream sent unexpected FastCGI request id {}", wrong_byte(*.0))]
    RequestId(u16),
}

/// nginx checks the two bytes one after the other, and names the wrong one.
fn wrong_byte(id: u16) -> String {
    match id.to_be_bytes() {
        [0, low] => format!("low byte: {low}"),
        [high, _] => format!("high byte: {high}"),
    }
}

/// A step of [`Records::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A part of the content of a record of this type.
    Content(u8, &'a [u8]),
    /// The record of this type is over, with its padding.
    End(u8),
    /// All bytes are used: more are needed.
    NeedMore,
}

/// Where it is in the records.
#[derive(Debug, Default)]
pub(super) struct Records {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that are there.
    header_bytes: u8,
    /// Bytes of the content, and of the padding behind it, that are still to come.
    content_left: u16,
    padding_left: u8,
}

impl Records {
    /// Bytes of the content of the record that was begun last.
    pub(super) fn content_bytes(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    /// Takes the next step off the front of `bytes`. `kinds` are the types of records that the other side may send.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8], kinds: &[u8]) -> Result<Step<'a>, RecordError> {
        loop {
            if self.content_left > 0 {
                if bytes.is_empty() {
                    return Ok(Step::NeedMore);
                }
                let (content, rest) = bytes.split_at(bytes.len().min(usize::from(self.content_left)));
                *bytes = rest;
                self.content_left -= content.len() as u16;
                return Ok(Step::Content(self.header[1], content));
            }
            if self.padding_left > 0 {
                let skipped = bytes.len().min(usize::from(self.padding_left));
                *bytes = &bytes[skipped..];
                self.padding_left -= skipped as u8;
                if self.padding_left > 0 {
                    return Ok(Step::NeedMore);
                }
            }
            if usize::from(self.header_bytes) == HEADER_BYTES {
                self.header_bytes = 0;
                return Ok(Step::End(self.header[1]));
            }
            if !self.take_header(bytes, kinds)? {
                return Ok(Step::NeedMore);
            }
        }
    }

    fn take_header(&mut self, bytes: &mut &[u8], kinds: &[u8]) -> Result<bool, RecordError> {
        let have = usize::from(self.header_bytes);
        let taken = bytes.len().min(HEADER_BYTES - have);
        self.header[have..have + taken].copy_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
        self.header_bytes += taken as u8;
        if usize::from(self.header_bytes) < HEADER_BYTES {
            return Ok(false);
        }
        let [version, kind, id_high, id_low, high, low, padding, _] = self.header;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        if !kinds.contains(&kind) {
            return Err(RecordError::Kind(kind));
        }
        let id = u16::from_be_bytes([id_high, id_low]);
        if id != u16::from(REQUEST_ID) {
            return Err(RecordError::RequestId(id));
        }
        self.content_left = u16::from_be_bytes([high, low]);
        self.padding_left = padding;
        Ok(true)
    }
}
