//! The request's body, kept for further attempts.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::rc::Rc;
use std::sync::Arc;

/// What can be sent of a body in another attempt.
#[derive(Debug, Clone, Default)]
pub(crate) enum ReplayBody {
    /// There is no body, or it was not read yet.
    #[default]
    None,
    /// The whole body.
    Memory(Rc<Vec<u8>>),
    /// The whole body, in a temporary file of this length.
    File(Arc<File>, u64),
    /// It is passed on as the client sends it. These bytes had come before the first attempt.
    Streaming(Rc<Vec<u8>>),
}

impl ReplayBody {
    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Memory(bytes) | Self::Streaming(bytes) => bytes.capacity(),
            Self::None | Self::File(..) => 0,
        }
    }

    /// Whether it can be sent again, after this many bytes of it were read from the client. As in nginx, a body that
    /// has begun to arrive is sent only once.
    pub(crate) fn can_replay(&self, received: u64) -> bool {
        !matches!(self, Self::Streaming(_)) || received == 0
    }

    /// Length of a complete body; `None`: there is no body.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::File(_, length) => Some(*length),
            Self::None | Self::Streaming(_) => None,
        }
    }

    /// `$request_body`: a body in memory, unless it is empty.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(bytes) if !bytes.is_empty() => Some(bytes),
            _ => None,
        }
    }

    /// `$request_body_file`: a path to the body's file, valid for the duration of the request. A file that is not kept
    /// has no name any more; the path then names this process's descriptor.
    pub(crate) fn path(&self) -> Option<Vec<u8>> {
        let Self::File(file, _) = self else { return None };
        let descriptor = file.as_raw_fd();
        let named = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok().filter(|path| path.exists());
        let path = named.unwrap_or_else(|| format!("/proc/{}/fd/{descriptor}", std::process::id()).into());
        Some(path.into_os_string().into_vec())
    }
}
