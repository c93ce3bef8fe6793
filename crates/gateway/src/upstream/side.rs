//! The upstream's side of an exchange: a connection of its own, or an HTTP/2 stream on a shared one, with what has come of the response.
//! It takes the request and returns the response in the same way for every protocol.

use crate::connector::h2::stream::LeasedStream;
use crate::connector::leased::Leased;
use crate::plan::application::ApplicationPlan;
use crate::thread::WorkerThread;
use crate::upstream::answer::{Answer, read_failure};
use crate::upstream::h2::StreamIncoming;
use crate::upstream::head::HeadFault;
use crate::upstream::incoming::Incoming;
#[cfg(test)]
use crate::upstream::scripted::ScriptedPeer;
use http1::{FieldId, Trailers};
use http2::ErrorCode;
use reactor::{Interest, Read};
use std::io;
use std::net::SocketAddr;
use transport::Transport;
use upstream::DiscardReason;
use upstream::retry::Failure;

/// The upstream's side of an exchange.
pub(crate) struct UpstreamSide {
    link: PeerLink,
    incoming: Incoming,
}

/// What carries request and response.
pub(crate) enum PeerLink {
    /// A connection that belongs to the exchange alone.
    Connection(Box<Leased>),
    /// A stream of a shared connection.
    Stream(Box<LeasedStream>),
    /// A peer in memory.
    #[cfg(test)]
    Script(ScriptedPeer),
}

/// The end of an exchange that its connection outlives, if everything was read and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reuse {
    /// The whole request was given to the socket.
    pub(crate) request_sent: bool,
    /// A part of the body was not read.
    pub(crate) unread: bool,
    /// Bytes followed the end of the response.
    pub(crate) excess: bool,
    /// The head permits another request.
    pub(crate) keepalive: bool,
}

impl Reuse {
    /// Why the connection serves no other request; `None`: it does.
    fn refusal(self) -> Option<DiscardReason> {
        if self.excess {
            Some(DiscardReason::ProtocolError)
        } else if self.unread {
            Some(DiscardReason::ResponseBodyUnread)
        } else if !self.request_sent {
            Some(DiscardReason::RequestBodyUnsent)
        } else if !self.keepalive {
            Some(DiscardReason::ConnectionClose)
        } else {
            None
        }
    }
}

impl UpstreamSide {
    /// A connection to a server of HTTP, or to an application.
    pub(crate) fn of_connection(leased: Box<Leased>, application: Option<&ApplicationPlan>) -> Self {
        Self { link: PeerLink::Connection(leased), incoming: Incoming::over_connection(application) }
    }

    /// A stream of HTTP/2.
    pub(crate) fn of_stream(stream: Box<LeasedStream>) -> Self {
        Self { link: PeerLink::Stream(stream), incoming: Incoming::Http2(StreamIncoming::default()) }
    }

    /// A peer in memory.
    #[cfg(test)]
    pub(super) fn of_script(peer: ScriptedPeer, application: Option<&ApplicationPlan>) -> Self {
        Self { link: PeerLink::Script(peer), incoming: Incoming::over_connection(application) }
    }

    pub(crate) fn link(&self) -> &PeerLink {
        &self.link
    }

    /// What has come of the response.
    pub(crate) fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    /// The connection, if it belongs to the exchange alone.
    pub(crate) fn connection(&self) -> Option<&Leased> {
        match &self.link {
            PeerLink::Connection(leased) => Some(leased),
            PeerLink::Stream(_) => None,
            #[cfg(test)]
            PeerLink::Script(_) => None,
        }
    }

    /// The same, for a tunnel over it.
    pub(crate) fn into_connection(self) -> Option<Box<Leased>> {
        match self.link {
            PeerLink::Connection(leased) => Some(leased),
            PeerLink::Stream(_) => None,
            #[cfg(test)]
            PeerLink::Script(_) => None,
        }
    }

    /// The stream, if the connection is shared.
    fn stream(&self) -> Option<&LeasedStream> {
        match &self.link {
            PeerLink::Connection(_) => None,
            PeerLink::Stream(stream) => Some(stream),
            #[cfg(test)]
            PeerLink::Script(_) => None,
        }
    }

    /// Whether the request may still be sent while its response arrives.
    pub(crate) fn sends_both_ways(&self) -> bool {
        self.stream().is_some()
    }

    /// Bytes of memory held for bodies that wait.
    pub(crate) fn held_bytes(&self) -> usize {
        self.stream().map_or(0, LeasedStream::held_bytes)
    }

    /// The socket to wait on for this interest; `None` for a stream, which wakes its task itself.
    pub(crate) fn awaited(&self, interest: Interest) -> Option<(&Transport, Interest)> {
        self.connection().map(|leased| (leased.stream(), interest))
    }

    /// Whether the connection has served an exchange before this one.
    pub(crate) fn is_reused(&self) -> bool {
        match &self.link {
            PeerLink::Connection(leased) => leased.is_reused(),
            PeerLink::Stream(stream) => stream.is_reused(),
            #[cfg(test)]
            PeerLink::Script(_) => false,
        }
    }

    /// The local address of the connection.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match &self.link {
            PeerLink::Connection(leased) => leased.stream().local_address().ok().flatten(),
            PeerLink::Stream(stream) => stream.local_address(),
            #[cfg(test)]
            PeerLink::Script(_) => None,
        }
    }

    /// Receives bytes before the final head is complete: the closure gives them to [`Incoming::take_head`].
    pub(crate) fn receive_head<R>(
        &mut self,
        max: usize,
        take: impl FnOnce(&mut Incoming, &[u8]) -> R,
    ) -> io::Result<Read<R>> {
        let Self { link, incoming } = self;
        match link {
            PeerLink::Connection(leased) => leased.stream().read_with(max, |bytes| take(incoming, bytes)),
            PeerLink::Stream(stream) => stream.read_with(max, |head, bytes| {
                if let Incoming::Http2(state) = incoming {
                    state.note(head, stream);
                }
                take(incoming, bytes)
            }),
            #[cfg(test)]
            PeerLink::Script(peer) => Ok(peer.read_with(max, |bytes| take(incoming, bytes))),
        }
    }

    /// Passes the next bytes of the body to the closure.
    pub(crate) fn read_with<R>(&self, max: usize, look: impl FnOnce(&[u8]) -> R) -> io::Result<Read<R>> {
        match &self.link {
            PeerLink::Connection(leased) => leased.stream().read_with(max, look),
            PeerLink::Stream(stream) => stream.read_with(max, |_, bytes| look(bytes)),
            #[cfg(test)]
            PeerLink::Script(peer) => Ok(peer.read_with(max, look)),
        }
    }

    /// The trailers of a response that has ended; `of_body` were found behind its body.
    pub(crate) fn take_trailers(&self, of_body: &mut Trailers) -> Trailers {
        self.stream().map_or_else(|| std::mem::take(of_body), LeasedStream::take_trailers)
    }

    /// Whether the response may be truncated: the TLS connection ended without a `close_notify`.
    pub(crate) fn is_truncated(&self) -> bool {
        self.connection().is_some_and(|leased| leased.stream().is_truncated())
    }

    /// Why a read failed, and so there is no response: for the retry policy, for the log, and for the connection.
    /// `begun`: a part of the head has come.
    pub(crate) fn read_failure(&self, error: &io::Error, begun: bool) -> HeadFault {
        if let Some(ended) = self.stream().and_then(LeasedStream::failure) {
            let (failure, reason, discard) = (ended.failure(begun), ended.phrase(), ended.discard_reason());
            return HeadFault { failure, reason, discard };
        }
        let failure = if begun { Failure::ClosedInsideHead } else { Failure::ClosedBeforeHead };
        HeadFault { failure, reason: read_failure(error), discard: DiscardReason::Error }
    }

    /// Ends it without keeping the exchange's own connection. An incomplete stream is reset.
    pub(crate) fn discard(self, reason: DiscardReason) {
        match self.link {
            PeerLink::Connection(leased) => leased.discard(reason),
            PeerLink::Stream(stream) => stream.end(ErrorCode::CANCEL),
            #[cfg(test)]
            PeerLink::Script(_) => {}
        }
    }

    /// Ends it, and keeps the connection if another request may follow. Returns why it is not kept. Of a stream the rest is
    /// reset; its connection stays.
    pub(crate) fn finish(self, reuse: Reuse, answer: Option<&Answer>, thread: &WorkerThread) -> Option<DiscardReason> {
        let leased = match self.link {
            PeerLink::Connection(leased) => leased,
            PeerLink::Stream(stream) => {
                stream.end(ErrorCode::NO_ERROR);
                return None;
            }
            #[cfg(test)]
            PeerLink::Script(_) => return reuse.refusal(),
        };
        if let Some(value) = answer.and_then(|answer| answer.value(FieldId::KeepAlive)) {
            leased.note_keep_alive(value, thread);
        }
        let reason = reuse.refusal().or_else(|| leased.is_own().then_some(DiscardReason::OwnSource));
        match reason {
            Some(reason) => leased.discard(reason),
            None => leased.check_in(thread),
        }
        reason
    }

    /// The peer's FIN came instead of an answer: learns its idle timeout.
    pub(crate) fn note_end(&self, thread: &WorkerThread) {
        if let PeerLink::Connection(leased) = &self.link {
            leased.note_end(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_reused_after_a_whole_exchange_alone() {
        let whole = Reuse { request_sent: true, keepalive: true, ..Reuse::default() };
        assert_eq!(whole.refusal(), None);
        for (reuse, reason) in [
            (Reuse { excess: true, unread: true, ..whole }, DiscardReason::ProtocolError),
            (Reuse { unread: true, request_sent: false, ..whole }, DiscardReason::ResponseBodyUnread),
            (Reuse { request_sent: false, keepalive: false, ..whole }, DiscardReason::RequestBodyUnsent),
            (Reuse { keepalive: false, ..whole }, DiscardReason::ConnectionClose),
        ] {
            assert_eq!(reuse.refusal(), Some(reason), "{reuse:?}");
        }
    }
}
