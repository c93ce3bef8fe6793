//! What content returns: a response that is complete in memory, a file, or the notice that the client has left.

use crate::exchange::file_parts::FileParts;
use http1::FieldId;
use reactor::OpenFile;
use std::sync::Arc;

/// A response that is complete in memory.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Further fields, in order.
    pub(crate) fields: Vec<(FieldId, Vec<u8>)>,
    pub(crate) content_type: Option<Box<[u8]>>,
    pub(crate) body: ReplyBody,
    /// Its length is not stated: nginx does not know it when it sends the head.
    pub(crate) is_unmeasured: bool,
}

impl Reply {
    /// The built-in page of a status.
    pub(crate) fn error(status: u16) -> Self {
        Self { status, body: ReplyBody::ErrorPage, ..Self::default() }
    }

    /// The log status of a request whose client has left.
    pub(crate) fn to_nobody(status: u16) -> Self {
        Self { status, body: ReplyBody::ToNobody, ..Self::default() }
    }

    /// A status without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, ..Self::default() }
    }
}

/// The body of a reply.
#[derive(Debug, Default)]
pub(crate) enum ReplyBody {
    /// None; no length is sent if the status has none.
    #[default]
    Empty,
    Bytes(Vec<u8>),
    /// The built-in page of the status.
    ErrorPage,
    /// A file, or a part of it.
    File(Box<FileReply>),
    /// Nothing is sent because the client has left; the status is only logged.
    ToNobody,
}

/// Whether responses with this status never have a body.
pub(crate) fn is_bodiless(status: u16) -> bool {
    status < 200 || status == 204 || status == 304
}

/// A file as the body of a reply.
#[derive(Debug)]
pub(crate) struct FileReply {
    pub(crate) file: Arc<OpenFile>,
    /// The part of it that is sent.
    pub(crate) parts: FileParts,
    pub(crate) tag: Option<String>,
    /// `Content-Encoding`: the file is encoded in this form.
    pub(crate) coding: Option<&'static str>,
    /// The client may ask for ranges.
    pub(crate) ranges: bool,
    pub(crate) sendfile: bool,
    /// Bytes sent at once.
    pub(crate) chunk: usize,
}
