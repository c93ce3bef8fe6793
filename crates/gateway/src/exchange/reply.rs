//! What content gives: a response that is complete in memory, or a file, or the notice that the client is gone.

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
    /// Its length is not said, as nginx does not know it when it sends the head.
    pub(crate) is_unmeasured: bool,
}

impl Reply {
    /// The built-in page of a status.
    pub(crate) fn error(status: u16) -> Self {
        Self { status, body: ReplyBody::ErrorPage, ..Self::default() }
    }

    /// What is logged of a request whose client has left.
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
    /// None, and no length is sent where the status has none.
    #[default]
    Empty,
    Bytes(Vec<u8>),
    /// The built-in page of the status.
    ErrorPage,
    /// A file, or a part of it.
    File(Box<FileReply>),
    /// Nothing is sent at all, since the client is gone: the status is what is logged.
    ToNobody,
}

/// Whether responses of this status never have a body.
pub(crate) fn is_bodiless(status: u16) -> bool {
    status < 200 || status == 204 || status == 304
}

/// A file as the body of a reply.
#[derive(Debug)]
pub(crate) struct FileReply {
    pub(crate) file: Arc<OpenFile>,
    /// What of it is sent.
    pub(crate) parts: FileParts,
    pub(crate) tag: Option<String>,
    /// `Content-Encoding`: the file holds this form of what was asked for.
    pub(crate) coding: Option<&'static str>,
    /// Parts can be asked for.
    pub(crate) ranges: bool,
    pub(crate) sendfile: bool,
    /// Bytes sent at once.
    pub(crate) chunk: usize,
}
