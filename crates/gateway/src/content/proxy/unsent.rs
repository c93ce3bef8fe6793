//! The proof that a request did not arrive (P3, `retry_unsent`): what to ask the kernel, and when. `upstream::unsent`
//! decides what the answers prove; ADR 18 has the reasons. `attempt` calls it, on reused connections only.

use crate::exchange::Exchange;
use crate::exchange::waiting::Wants;
use crate::upstream::side::UpstreamSide;
use reactor::{TcpState, Woken};
use std::time::Duration;
use transport::Transport;
use upstream::DiscardReason;
use upstream::unsent::{Ending, Finding, examine};

/// How long to wait for a reset that would prove it. It arrives one round trip after the request, or after the first
/// retransmission (200 ms) if the request was lost; no client should wait longer for an error.
const PROOF_WAIT_MS: u64 = 250;
/// An acknowledgement also ends the wait but makes no event, so it is polled this often.
const PROOF_STEP: Duration = Duration::from_millis(10);

/// Errno of a reset that followed a FIN (tcp(7), and `tcp_reset` in `net/ipv4/tcp_input.c`).
const EPIPE: i32 = 32;

impl Exchange {
    /// Whether it is proved that the peer took nothing of the request. `write_error` is the errno of a failed write,
    /// `ended` is how reading ended.
    pub(crate) async fn is_proved_unsent(
        &self,
        up: &UpstreamSide,
        write_error: Option<i32>,
        ended: DiscardReason,
    ) -> bool {
        // Over HTTP/2 the peer itself says which streams it has not looked at.
        let Some(up) = up.connection() else { return false };
        // A failed read returned the kernel's reason; after a FIN it would have returned the end of the stream.
        let Some(acked_before) = up.acked_before().filter(|_| ended == DiscardReason::PeerClosedIdle) else {
            return false;
        };
        let began = self.thread.reactor.now();
        loop {
            let Some(progress) = up.stream().progress() else { return false };
            let ending = match progress.state {
                TcpState::CloseWait => Ending::Fin,
                TcpState::Closed if first_error(up.stream(), write_error) == Some(EPIPE) => Ending::FinThenReset,
                _ => Ending::Other,
            };
            match examine(ending, acked_before, progress.acked_bytes) {
                Finding::Unsent => return true,
                Finding::Unproved => return false,
                Finding::Pending => {}
            }
            let waited = self.thread.reactor.now().since(began);
            if waited >= PROOF_WAIT_MS || self.wait(Wants::NOTHING, PROOF_STEP).await == Woken::PeerGone {
                return false;
            }
        }
    }
}

/// Why the kernel ended the connection. It reports the error once: to the write that failed, otherwise to the next
/// call.
fn first_error(stream: &Transport, write_error: Option<i32>) -> Option<i32> {
    write_error.or_else(|| stream.take_error().ok().flatten()?.raw_os_error())
}
