//! How an open WebSocket ended, in an operator's words. A failed attempt to open one has a `Cause`
//! instead.

use super::options::Held;
use serde::{Serialize, Serializer};

macro_rules! endings {
    ($( $variant:ident $key:literal $text:literal )*) => {
        /// How an open connection ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Ending {
            $( #[doc = $text] $variant, )*
        }

        impl Ending {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Ending] = &[ $( Ending::$variant, )* ];

            /// A short name for JSON and thresholds.
            pub fn key(self) -> &'static str {
                match self { $( Self::$variant => $key, )* }
            }

            /// One line for people.
            pub fn text(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
        }
    };
}

endings! {
    Done "done" "closed by the load at the end of the run, and answered by the target"
    Unanswered "close_unanswered" "closed by the load at the end of the run, and not answered in time"
    Stalled "stalled" "never read, and cut by the load at the end of the run"
    Storm "storm" "cut by the load's own storm"
    CutOff "cut_off" "open when the run was stopped by hand"
    CloseFrame "close_frame" "closed by the target with a close frame"
    Fin "fin" "closed by the target, or something on the way, without a close frame"
    Truncated "truncated" "closed without `close_notify` by the target, or something on the way"
    Reset "reset" "reset by the target, or something on the way"
    NoPong "no_pong" "given up: no pong until the next heartbeat was due"
    NotRead "not_read" "given up: the target does not read what it is sent"
    BadFrame "bad_frame" "given up: the target sent what the protocol forbids"
    Complete "complete" "ended by the target: its response is complete"
}

impl Ending {
    /// The line for people in a load of this kind: TCP connections and events have no close frames.
    pub(crate) fn text_of(self, held: Held) -> &'static str {
        match (self, held) {
            (Self::Fin, Held::Tcp) => "closed by the target, or something on the way",
            (Self::Fin, Held::Events) => "closed by the target, or something on the way, within the response",
            (Self::Done, Held::Events) => "closed by the load at the end of the run",
            (other, _) => other.text(),
        }
    }

    /// Whether the connection was lost, rather than ended by the load itself.
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::Done | Self::Unanswered | Self::Stalled | Self::Storm | Self::CutOff)
    }
}

impl Serialize for Ending {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.key())
    }
}
