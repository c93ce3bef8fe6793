//! Whether the peer took a request that was sent on a connection which then ended: the proof that `retry_unsent`
//! requires (P3). `retry` decides what to do with it, and the gateway makes the system calls; ADR 18 says why these
//! facts and no others prove it.

/// How a connection with an unanswered request ended, according to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The peer's FIN has come, and no reset so far.
    Fin,
    /// A reset followed the peer's FIN: the kernel's first error was EPIPE.
    FinThenReset,
    /// Anything else: a reset without a FIN before it (ECONNRESET), a timeout, no end at all.
    Other,
}

/// The conclusion from the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The peer closed before it had anything of the request, and its kernel discarded what arrived: the request may be
    /// repeated.
    Unsent,
    /// Nothing proves that.
    Unproved,
    /// Nothing proves it yet: the reset that would may still arrive.
    Pending,
}

/// Examines a connection that has ended, or half ended. `acked_before` and `acked_now` are the bytes that the peer had
/// acknowledged when the connection was leased, and has acknowledged now.
pub fn examine(ending: Ending, acked_before: u64, acked_now: u64) -> Finding {
    if acked_now != acked_before {
        return Finding::Unproved;
    }
    match ending {
        Ending::Fin => Finding::Pending,
        Ending::FinThenReset => Finding::Unsent,
        Ending::Other => Finding::Unproved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p03_only_an_unacknowledged_fin_before_reset_is_proof() {
        assert_eq!(examine(Ending::FinThenReset, 541, 541), Finding::Unsent);
        assert_eq!(examine(Ending::FinThenReset, 541, 542), Finding::Unproved, "one byte is enough: somebody took it");
        assert_eq!(examine(Ending::Other, 541, 541), Finding::Unproved, "executed, then reset, before it acknowledged");
    }

    #[test]
    fn p03_fin_alone_is_no_proof() {
        assert_eq!(examine(Ending::Fin, 541, 541), Finding::Pending);
        assert_eq!(examine(Ending::Fin, 541, 584), Finding::Unproved);
    }
}
