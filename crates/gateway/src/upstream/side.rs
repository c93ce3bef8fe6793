//! The upstream's side of an exchange: a connection of its own over HTTP/1 (or FastCGI and its kin), or an HTTP/2
//! stream on a shared one. Both take the request and return the response in the same way; this module hides the
//! differences.

use crate::connector::h2::stream::LeasedStream;
use crate::connector::leased::Leased;
use crate::thread::WorkerThread;
use crate::upstream::answer::read_failure;
use http2::ErrorCode;
use reactor::{Interest, Read};
use std::io;
use std::net::SocketAddr;
use transport::Transport;
use upstream::DiscardReason;
use upstream::retry::Failure;

/// The upstream's side of an exchange.
pub(crate) enum UpstreamSide {
    H1(Box<Leased>),
    H2(Box<LeasedStream>),
}

impl UpstreamSide {
    /// The connection, if it belongs to the exchange alone.
    pub(crate) fn connection(&self) -> Option<&Leased> {
        match self {
            Self::H1(leased) => Some(leased),
            Self::H2(_) => None,
        }
    }

    /// The stream, if the connection is shared.
    pub(crate) fn stream(&self) -> Option<&LeasedStream> {
        match self {
            Self::H1(_) => None,
            Self::H2(stream) => Some(stream),
        }
    }

    /// The socket to wait on for this interest; `None` for a stream, which wakes its task itself.
    pub(crate) fn awaited(&self, interest: Interest) -> Option<(&Transport, Interest)> {
        self.connection().map(|leased| (leased.stream(), interest))
    }

    /// Whether the connection has served an exchange before this one.
    pub(crate) fn is_reused(&self) -> bool {
        match self {
            Self::H1(leased) => leased.is_reused(),
            Self::H2(stream) => stream.is_reused(),
        }
    }

    /// The local address of the connection.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::H1(leased) => leased.stream().local_address().ok().flatten(),
            Self::H2(stream) => stream.local_address(),
        }
    }

    /// Passes the next bytes of the response to the closure.
    pub(crate) fn read_with<R>(&self, max: usize, look: impl FnOnce(&[u8]) -> R) -> io::Result<Read<R>> {
        match self {
            Self::H1(leased) => leased.stream().read_with(max, look),
            Self::H2(stream) => stream.read_with(max, look),
        }
    }

    /// Whether the bytes read last were the end of the response; `None` if its own framing tells.
    pub(crate) fn has_ended(&self) -> Option<bool> {
        self.stream().map(LeasedStream::has_ended)
    }

    /// Whether the response has ended without trailers.
    pub(crate) fn lacks_trailers(&self) -> bool {
        self.stream().is_some_and(|stream| stream.has_ended() && !stream.has_trailers())
    }

    /// Whether the response may be truncated: the TLS connection ended without a `close_notify`.
    pub(crate) fn is_truncated(&self) -> bool {
        self.connection().is_some_and(|leased| leased.stream().is_truncated())
    }

    /// Why a read failed, and so there is no response: for the retry policy, for the log, and for the connection.
    /// `begun`: a part of the head has come.
    pub(crate) fn read_failure(&self, error: &io::Error, begun: bool) -> (Failure, String, DiscardReason) {
        if let Some(failure) = self.stream().and_then(LeasedStream::failure) {
            return (failure.failure(begun), failure.phrase(), failure.discard_reason());
        }
        let failure = if begun { Failure::ClosedInsideHead } else { Failure::ClosedBeforeHead };
        (failure, read_failure(error), DiscardReason::Error)
    }

    /// Ends it without keeping the exchange's own connection. An incomplete stream is reset.
    pub(crate) fn discard(self, reason: DiscardReason) {
        match self {
            Self::H1(leased) => leased.discard(reason),
            Self::H2(stream) => stream.end(ErrorCode::CANCEL),
        }
    }

    /// The peer's FIN came instead of an answer: learns its idle timeout.
    pub(crate) fn note_end(&self, thread: &WorkerThread) {
        if let Self::H1(leased) = self {
            leased.note_end(thread);
        }
    }
}
