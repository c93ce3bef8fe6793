//! Decides what happens to a client's connection after an exchange. Each phase may end it, with a reason; when the
//! exchange is settled, one function decides.

use crate::base::close::CloseReason;

/// Whether the connection continues after this exchange, and why not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    keeps: bool,
    reason: Option<CloseReason>,
}

/// The facts when an exchange is settled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled {
    /// `Ok` if the client accepted the response, or why it did not.
    pub(crate) sent: Result<(), CloseReason>,
    /// The body was sent completely.
    pub(crate) is_complete: bool,
    /// The end of the connection marks the end of the body.
    pub(crate) until_close: bool,
    /// Part of the request was not read.
    pub(crate) is_unread: bool,
    /// `lingering_close`
    pub(crate) lingers: bool,
    /// `reset_timedout_connection`
    pub(crate) resets: bool,
}

/// What happens to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It waits for the next request.
    Keep,
    /// It is closed.
    Close(CloseReason),
    /// It is closed for writing, and input is read and dropped for a while.
    Linger(CloseReason),
    /// It is reset.
    Reset(CloseReason),
}

impl Ending {
    pub(crate) fn new(keeps: bool) -> Self {
        Self { keeps, reason: None }
    }

    /// Whether the connection continues, as far as is known.
    pub(crate) fn keeps(self) -> bool {
        self.keeps
    }

    /// Why it ends; also `None` if the client asked for the close.
    pub(crate) fn reason(self) -> Option<CloseReason> {
        self.reason
    }

    /// Closes the connection after the response. The first of several reasons counts.
    pub(crate) fn close(&mut self, reason: CloseReason) {
        self.keeps = false;
        self.reason.get_or_insert(reason);
    }

    /// Ends the connection because of an event; this overrides earlier reasons.
    pub(crate) fn break_off(&mut self, reason: CloseReason) {
        self.keeps = false;
        self.reason = Some(reason);
    }

    /// Whether the client has left or accepts nothing any more: nothing can be sent.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self.reason, Some(CloseReason::ClientAborted | CloseReason::SendTimeout))
    }

    /// What happens to the connection.
    pub(crate) fn after(self, settled: Settled) -> After {
        let unwanted = settled.sent.err().or(self.reason.filter(|reason| *reason == CloseReason::Unanswered));
        if let Some(reason @ (CloseReason::SendTimeout | CloseReason::Unanswered)) = unwanted
            && settled.resets
        {
            // A reset frees the kernel's memory for a client that does not read.
            return After::Reset(reason);
        }
        if let Err(reason) = settled.sent {
            return After::Close(reason);
        }
        match self.reason {
            // The client must not take a truncated response for a whole one: if FIN marks the end of the body, only a
            // reset shows the truncation (S15–S18).
            Some(CloseReason::Truncated) if settled.until_close => After::Reset(CloseReason::Truncated),
            Some(reason @ (CloseReason::Truncated | CloseReason::Unanswered)) => After::Close(reason),
            _ if !settled.is_complete => After::Close(self.reason.unwrap_or(CloseReason::Truncated)),
            _ if self.keeps => After::Keep,
            reason => {
                let reason = reason.unwrap_or(CloseReason::ClientAsked);
                let unread = settled.is_unread || reason == CloseReason::BadRequest;
                if unread && settled.lingers { After::Linger(reason) } else { After::Close(reason) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Settled =
        Settled { sent: Ok(()), is_complete: true, until_close: false, is_unread: false, lingers: true, resets: false };

    fn closed_for(reason: CloseReason) -> Ending {
        let mut ending = Ending::new(true);
        ending.close(reason);
        ending
    }

    #[test]
    fn the_first_decision_counts_and_an_event_counts_more() {
        let mut ending = closed_for(CloseReason::KeepaliveLimit);
        ending.close(CloseReason::Shutdown);
        assert_eq!((ending.keeps(), ending.reason()), (false, Some(CloseReason::KeepaliveLimit)));
        ending.break_off(CloseReason::Truncated);
        assert_eq!(ending.reason(), Some(CloseReason::Truncated));
    }

    #[test]
    fn a_whole_response_leaves_the_connection_as_it_was_agreed() {
        assert_eq!(Ending::new(true).after(WHOLE), After::Keep);
        assert_eq!(Ending::new(false).after(WHOLE), After::Close(CloseReason::ClientAsked));
        assert_eq!(closed_for(CloseReason::Shutdown).after(WHOLE), After::Close(CloseReason::Shutdown));
    }

    #[test]
    fn lingers_while_the_client_may_still_be_sending() {
        let unread = Settled { is_unread: true, ..WHOLE };
        assert_eq!(closed_for(CloseReason::BodyUnread).after(unread), After::Linger(CloseReason::BodyUnread));
        let off = Settled { lingers: false, ..unread };
        assert_eq!(closed_for(CloseReason::BodyUnread).after(off), After::Close(CloseReason::BodyUnread));
        assert_eq!(closed_for(CloseReason::BadRequest).after(WHOLE), After::Linger(CloseReason::BadRequest));
    }

    #[test]
    fn a_cut_response_does_not_look_like_a_whole_one() {
        let truncated = closed_for(CloseReason::Truncated);
        assert_eq!(truncated.after(WHOLE), After::Close(CloseReason::Truncated));
        let until_close = Settled { until_close: true, ..WHOLE };
        assert_eq!(truncated.after(until_close), After::Reset(CloseReason::Truncated));
        let incomplete = Settled { is_complete: false, ..WHOLE };
        assert_eq!(Ending::new(true).after(incomplete), After::Close(CloseReason::Truncated));
    }

    #[test]
    fn a_client_that_takes_nothing_is_reset_where_that_is_wanted() {
        let stuck = Settled { sent: Err(CloseReason::SendTimeout), ..WHOLE };
        assert_eq!(Ending::new(true).after(stuck), After::Close(CloseReason::SendTimeout));
        let resets = Settled { resets: true, ..stuck };
        assert_eq!(Ending::new(true).after(resets), After::Reset(CloseReason::SendTimeout));
        let unanswered = closed_for(CloseReason::Unanswered);
        assert_eq!(unanswered.after(Settled { resets: true, ..WHOLE }), After::Reset(CloseReason::Unanswered));
        assert_eq!(unanswered.after(WHOLE), After::Close(CloseReason::Unanswered));
        let left = Settled { sent: Err(CloseReason::ClientAborted), resets: true, ..WHOLE };
        assert_eq!(Ending::new(true).after(left), After::Close(CloseReason::ClientAborted));
    }
}
