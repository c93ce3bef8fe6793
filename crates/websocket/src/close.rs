//! Close codes: which may appear on the wire, and what they say (RFC 6455 §7.4, and IANA's registry). Not the closing handshake,
//! which is the caller's. `decode` and `frame` call it; reports show [`CloseCode::text`].

use std::fmt;

/// Longest reason: a control frame's payload without the code.
pub const CLOSE_REASON_BYTES_MAX: usize = 123;

/// The code of a close frame, or one of those that only mean its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The purpose is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The server goes down, or the user left the page.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// Not on the wire: a close frame without a code.
    pub const NONE: Self = Self(1005);
    /// Not on the wire: the connection ended without a close frame.
    pub const ABNORMAL: Self = Self(1006);
    /// Text that is no UTF-8, or data that do not fit the message.
    pub const INVALID_DATA: Self = Self(1007);
    /// A policy was broken.
    pub const POLICY: Self = Self(1008);
    /// The message is too big.
    pub const TOO_BIG: Self = Self(1009);
    /// The server restarts, or its configuration does: connect again.
    pub const SERVICE_RESTART: Self = Self(1012);
    /// Try again later: the server sheds load.
    pub const TRY_AGAIN: Self = Self(1013);

    /// Whether it may appear in a close frame: what is defined for it, 3000 to 3999 (registered) and 4000 to 4999 (private).
    pub fn is_sendable(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }

    /// What it means.
    pub fn text(self) -> &'static str {
        match self.0 {
            1000 => "normal closure",
            1001 => "going away",
            1002 => "protocol error",
            1003 => "unsupported data",
            1005 => "close frame without a code",
            1006 => "ended without a close frame",
            1007 => "invalid payload data",
            1008 => "policy violation",
            1009 => "message too big",
            1010 => "extension missing",
            1011 => "internal error",
            1012 => "service restart",
            1013 => "try again later",
            1014 => "bad gateway",
            1015 => "TLS handshake failed",
            3000..=3999 => "registered by an application",
            4000..=4999 => "private to the application",
            _ => "undefined",
        }
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.0, self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_sends_codes_that_mean_absence() {
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, u16::MAX] {
            assert!(!CloseCode(code).is_sendable(), "{code}");
        }
        for code in [1000, 1003, 1007, 1014, 3000, 4999] {
            assert!(CloseCode(code).is_sendable(), "{code}");
        }
        assert_eq!(CloseCode::TRY_AGAIN.to_string(), "1013 (try again later)");
    }
}
