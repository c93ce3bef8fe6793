//! The body of a request for the upstream.

use crate::upstream::replay_body::ReplayBody;
use std::fs::File;

/// The framing of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyCoding {
    /// By the length in the head.
    Plain,
    Chunks,
    /// In FastCGI records.
    Records,
    /// In HTTP/2 frames.
    Frames,
}

/// The body for the upstream.
#[derive(Debug)]
pub(crate) struct OutgoingBody {
    pub(crate) replay: ReplayBody,
    /// Its whole length, if known.
    length: Option<u64>,
    present: bool,
}

impl OutgoingBody {
    pub(crate) const ABSENT: Self = Self { replay: ReplayBody::None, length: None, present: false };

    pub(crate) fn complete(replay: ReplayBody) -> Self {
        let length = match &replay {
            ReplayBody::Memory(bytes) => bytes.len() as u64,
            ReplayBody::File(_, length) => *length,
            ReplayBody::None | ReplayBody::Streaming(_) => 0,
        };
        Self { replay, length: Some(length), present: true }
    }

    /// A body that is passed on as the client sends it; `replay` has the part that has come.
    pub(crate) fn streamed(replay: ReplayBody, length: Option<u64>) -> Self {
        Self { replay, length, present: true }
    }

    /// The value of Content-Length.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.length.filter(|_| self.present)
    }

    /// The bytes to send with the head.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.replay {
            ReplayBody::Memory(bytes) | ReplayBody::Streaming(bytes) => bytes,
            _ => &[],
        }
    }

    /// The file to send after the head, and its length.
    pub(crate) fn file(&self) -> Option<(&File, u64)> {
        match &self.replay {
            ReplayBody::File(file, length) => Some((file, *length)),
            _ => None,
        }
    }

    pub(crate) fn is_streamed(&self) -> bool {
        matches!(self.replay, ReplayBody::Streaming(_))
    }

    /// Whether it is sent in chunks over HTTP/1.1, because its length is not known.
    pub(crate) fn is_chunked(&self) -> bool {
        self.present && self.length.is_none()
    }

    /// How HTTP/1.1 marks its end.
    pub(crate) fn http_coding(&self) -> BodyCoding {
        if self.is_chunked() { BodyCoding::Chunks } else { BodyCoding::Plain }
    }
}
