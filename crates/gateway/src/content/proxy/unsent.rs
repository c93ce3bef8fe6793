//! The proof that a request did not arrive (P3, `retry_unsent`): what is asked of the kernel, and when. What the answers
//! prove is decided by `upstream::unsent`; ADR 18 has the reasons. `attempt` calls it, on reused connections only.

use crate::exchange::Exchange;
use crate::exchange::waiting::Wants;
use crate::upstream::side::UpstreamSide;
use reactor::{TcpState, Woken};
use std::time::Duration;
use transport::Transport;
use upstream::DiscardReason;
use upstream::unsent::{Ending, Finding, examine};

/// How long a reset that would prove it is waited for. It comes one round trip behind the request, or behind the first
/// retransmission (200 ms) where that was lost; no client should wait longer for an error.
const PROOF_WAIT_MS: u64 = 250;
/// An acknowledgement, which ends the wait too, makes no event: it is looked for this often.
const PROOF_STEP: Duration = Duration::from_millis(10);

/// Errno of a reset that came behind a FIN (tcp(7), and `tcp_reset` in `net/ipv4/tcp_input.c`).
const EPIPE: i32 = 32;

impl Exchange {
    /// Whether it is proved that nothing of the request was taken. `write_error` is what a failed write said, `ended` how
    /// reading ended.
    pub(crate) async fn is_proved_unsent(
        &self,
        up: &UpstreamSide,
        write_error: Option<i32>,
        ended: DiscardReason,
    ) -> bool {
        // What a peer has not looked at over HTTP/2 it says itself.
        let Some(up) = up.connection() else { return false };
        // A read that failed got the kernel's reason, and behind a FIN it would have got the end of the stream.
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

/// Why the kernel ended the connection. It reports it once: to the write that failed, otherwise to the next call.
fn first_error(stream: &Transport, write_error: Option<i32>) -> Option<i32> {
    write_error.or_else(|| stream.take_error().ok().flatten()?.raw_os_error())
}
