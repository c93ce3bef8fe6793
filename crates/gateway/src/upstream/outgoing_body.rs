//! The body of a request as the upstream gets it.

use crate::upstream::replay_body::ReplayBody;
use std::fs::File;

/// How the body of a request is marked off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyCoding {
    /// By the length that the head says.
    Plain,
    Chunks,
    /// In records of FastCGI.
    Records,
    /// In frames of HTTP/2.
    Frames,
}

/// The body as the upstream gets it.
#[derive(Debug)]
pub(crate) struct OutgoingBody {
    pub(crate) replay: ReplayBody,
    /// Its whole length, where that is known.
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

    /// One that goes on as it comes from the client; `replay` has what of it has come.
    pub(crate) fn streamed(replay: ReplayBody, length: Option<u64>) -> Self {
        Self { replay, length, present: true }
    }

    /// What Content-Length says of it.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.length.filter(|_| self.present)
    }

    /// What goes out with the head.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.replay {
            ReplayBody::Memory(bytes) | ReplayBody::Streaming(bytes) => bytes,
            _ => &[],
        }
    }

    /// The file behind the head, and its length.
    pub(crate) fn file(&self) -> Option<(&File, u64)> {
        match &self.replay {
            ReplayBody::File(file, length) => Some((file, *length)),
            _ => None,
        }
    }

    pub(crate) fn is_streamed(&self) -> bool {
        matches!(self.replay, ReplayBody::Streaming(_))
    }

    /// It is sent in chunks over HTTP/1.1, because its length is not known.
    pub(crate) fn is_chunked(&self) -> bool {
        self.present && self.length.is_none()
    }

    /// How HTTP/1.1 marks its end.
    pub(crate) fn http_coding(&self) -> BodyCoding {
        if self.is_chunked() { BodyCoding::Chunks } else { BodyCoding::Plain }
    }
}
