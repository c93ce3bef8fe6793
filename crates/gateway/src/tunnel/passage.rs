//! How the bytes of one direction go on: as they are, with the frames of a WebSocket followed, and in a drained one up to
//! our close frame, which goes between two frames.

use std::io;
use websocket::Boundary;

/// How the bytes of one direction go on.
#[derive(Default)]
pub(super) struct Passage<'a> {
    /// Where its frames are, if it has frames.
    pub(super) place: Option<&'a mut Boundary>,
    /// Our close frame, if the direction gets one.
    pub(super) close: Option<OurClose<'a>>,
}

/// A close frame to put into a direction.
pub(super) struct OurClose<'a> {
    pub(super) frame: &'a [u8],
    /// It is sent: the other end reads nothing after it.
    pub(super) is_sent: &'a mut bool,
}

impl Passage<'_> {
    /// Whether received bytes are dropped.
    pub(super) fn is_cut(&self) -> bool {
        self.close.as_ref().is_some_and(|close| *close.is_sent)
    }

    /// Sends our close frame if no frame has begun.
    pub(super) fn close_between(&mut self, write: impl FnOnce(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        let (Some(place), Some(close)) = (&self.place, &mut self.close) else { return Ok(()) };
        if !*close.is_sent && place.is_between() {
            *close.is_sent = true;
            write(close.frame)?;
        }
        Ok(())
    }

    /// Passes received bytes on by `write`; returns how many of them went on.
    pub(super) fn pass(&mut self, data: &[u8], mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let Some(place) = &mut self.place else { return write(data).map(|_| data.len()) };
        let Some(close) = &mut self.close else {
            place.advance(data);
            return write(data).map(|_| data.len());
        };
        if *close.is_sent {
            place.advance(data);
            return Ok(0);
        }
        let (frame, rest) = data.split_at(place.finish_frame(data));
        if !place.is_between() {
            // The frame goes on, or it is a close frame of the sender.
            place.advance(rest);
            return write(data).map(|_| data.len());
        }
        *close.is_sent = true;
        write(frame)?;
        write(close.frame)?;
        place.advance(rest);
        Ok(frame.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use websocket::{CloseCode, Opcode, encode_close, encode_frame};

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_frame(true, Opcode::Text, None, payload, &mut bytes);
        bytes
    }

    fn close() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_close(CloseCode::SERVICE_RESTART, "", None, &mut bytes);
        bytes
    }

    /// What the receiver gets of these pieces if the drain begins before the piece with this index, and whether our close
    /// frame was sent.
    fn received(pieces: &[&[u8]], drained_before: usize) -> (Vec<u8>, bool) {
        let (mut out, mut place, mut is_sent, frame) = (Vec::new(), Boundary::default(), false, close());
        for (index, piece) in pieces.iter().enumerate() {
            let close = (index >= drained_before).then_some(OurClose { frame: &frame, is_sent: &mut is_sent });
            let mut passage = Passage { place: Some(&mut place), close };
            let mut write = |bytes: &[u8]| {
                out.extend_from_slice(bytes);
                Ok(bytes.len())
            };
            passage.close_between(&mut write).unwrap();
            passage.pass(piece, &mut write).unwrap();
        }
        (out, is_sent)
    }

    #[test]
    fn close_frame_precedes_frames_not_begun() {
        assert_eq!(received(&[&frame(b"late")], 0), (close(), true));
        assert_eq!(received(&[&frame(b"one"), b""], 1), ([frame(b"one"), close()].concat(), true));
    }

    #[test]
    fn a_frame_that_has_begun_is_finished_first() {
        let (one, two) = (frame(b"hello"), frame(b"never"));
        let (first, second) = one.split_at(3);
        let rest = [second, &two].concat();
        assert_eq!(received(&[first, &rest], 1), ([one, close()].concat(), true));
    }

    #[test]
    fn the_end_of_a_large_frame_is_awaited() {
        let large = frame(&[b'x'; 300]);
        let (out, is_sent) = received(&[&large[..10], &large[10..200]], 1);
        assert_eq!((out.as_slice(), is_sent), (&large[..200], false));
    }

    #[test]
    fn no_close_frame_follows_the_senders_own() {
        let own = close();
        assert_eq!(received(&[&own[..1], &own[1..]], 1), (own.clone(), false));
    }

    #[test]
    fn bytes_without_frames_pass_unchanged() {
        let mut out = Vec::new();
        let passed = Passage::default().pass(b"\x81\x05any", |bytes| {
            out.extend_from_slice(bytes);
            Ok(2)
        });
        assert_eq!((passed.unwrap(), out.as_slice()), (5, &b"\x81\x05any"[..]));
    }

    proptest! {
        #[test]
        fn the_receiver_gets_whole_frames_and_one_close(
            lengths in prop::collection::vec(0_usize..300, 1..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            drained_before in 0_usize..9,
        ) {
            let frames: Vec<Vec<u8>> = lengths.iter().map(|length| frame(&vec![b'a'; *length])).collect();
            let bytes = frames.concat();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let mut pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            pieces.push(b"");
            let (out, is_sent) = received(&pieces, drained_before);
            prop_assert_eq!(is_sent, drained_before < pieces.len());
            let whole = (0..=frames.len()).map(|count| frames[..count].concat());
            let end = if is_sent { close() } else { Vec::new() };
            prop_assert!(whole.map(|whole| [whole, end.clone()].concat()).any(|expected| expected == out));
        }
    }
}
