//! A peer in memory, for tests of what reads a response: it has sent some pieces, and may close behind them.

use crate::plan::application::ApplicationPlan;
use crate::upstream::side::UpstreamSide;
use reactor::Read;
use std::cell::RefCell;
use std::collections::VecDeque;

/// What comes behind the pieces of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Nothing yet.
    Silence,
    /// The end of the connection.
    Close,
}

/// A peer in memory.
pub(crate) struct ScriptedPeer {
    pieces: RefCell<VecDeque<Vec<u8>>>,
    behind: Behind,
}

impl ScriptedPeer {
    /// The side of an exchange towards a peer that has sent these pieces.
    pub(crate) fn side(pieces: &[&[u8]], behind: Behind, application: Option<&ApplicationPlan>) -> UpstreamSide {
        let pieces = RefCell::new(pieces.iter().map(|piece| piece.to_vec()).collect());
        UpstreamSide::of_script(Self { pieces, behind }, application)
    }

    /// Passes at most `max` bytes of the next piece to the closure.
    pub(super) fn read_with<R>(&self, max: usize, look: impl FnOnce(&[u8]) -> R) -> Read<R> {
        let Some(mut piece) = self.pieces.borrow_mut().pop_front() else {
            return if self.behind == Behind::Close { Read::Closed } else { Read::NotReady };
        };
        let rest = piece.split_off(piece.len().min(max));
        if !rest.is_empty() {
            self.pieces.borrow_mut().push_front(rest);
        }
        Read::Data(look(&piece))
    }
}

mod tests {
    use super::*;
    use crate::upstream::answer::Answer;
    use crate::upstream::head::{ExpectedHead, HeadEvent, HeadFault};
    use http1::Limits;

    /// Reads until the final head has come. Returns the beginning of the body; `None`: the peer has closed before it.
    fn head_of(side: &mut UpstreamSide, answer: &mut Answer) -> Option<Result<Vec<u8>, HeadFault>> {
        let limits = Limits::response(4096);
        loop {
            let read = side.receive_head(4096, |incoming, bytes| {
                let joined = [&std::mem::take(&mut answer.bytes)[..], bytes].concat();
                match incoming.take_head(&joined, &ExpectedHead::by_get(&limits), answer) {
                    Ok(HeadEvent::Partial) => None,
                    Ok(HeadEvent::Interim(rest) | HeadEvent::Switching(rest) | HeadEvent::Final(rest)) => {
                        Some(Ok(rest.to_vec()))
                    }
                    Err(fault) => Some(Err(fault)),
                }
            });
            match read.expect("a peer in memory") {
                Read::Data(Some(found)) => return Some(found),
                Read::Data(None) => {}
                Read::NotReady | Read::Closed => return None,
            }
        }
    }

    #[test]
    fn a_head_in_pieces_is_joined_and_the_rest_is_body() {
        let pieces: [&[u8]; 3] = [b"HTTP/1.1 200 OK\r\nContent-", b"Length: 5\r\n\r\nab", b"cde"];
        let (mut side, mut answer) = (ScriptedPeer::side(&pieces, Behind::Silence, None), Answer::default());
        assert_eq!(head_of(&mut side, &mut answer), Some(Ok(b"ab".to_vec())));
        assert_eq!(answer.head.content_length, Some(5));
        let read = side.read_with(2, <[u8]>::to_vec).expect("a peer in memory");
        assert!(matches!(read, Read::Data(bytes) if bytes == b"cd"));
    }

    #[test]
    fn a_peer_that_closes_inside_its_head_has_given_none() {
        let mut answer = Answer::default();
        let mut side = ScriptedPeer::side(&[b"HTTP/1.1 200 OK\r\n"], Behind::Close, None);
        assert_eq!(head_of(&mut side, &mut answer), None);
        assert!(!answer.bytes.is_empty());
    }
}
