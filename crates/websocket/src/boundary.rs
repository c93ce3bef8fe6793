//! Finds where frames end in a stream that is passed on. It reads heads and skips payloads, and refuses nothing: a relay must
//! not judge what the two ends send to each other. The gateway calls it to find the places at which it may insert a control
//! frame of its own (RFC 6455 §5.4: between any two frames, also those of one message).

use crate::frame::Opcode;

/// The position of one direction of a connection within its frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Boundary {
    place: Place,
    /// Whether a close frame has begun: its sender sends nothing after it.
    closing: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// The next byte begins a frame.
    #[default]
    Between,
    /// The next byte says how long the payload is.
    Second,
    /// This many bytes of the length are missing.
    Length { left: u8, masked: bool, payload_bytes: u64 },
    /// This many bytes of the mask are missing.
    Mask { left: u8, payload_bytes: u64 },
    /// This many bytes of the payload are missing; at least one.
    Payload(u64),
    /// This is no WebSocket: where its frames end is unknown.
    Lost,
}

impl Boundary {
    /// Takes the next bytes of the stream.
    pub fn advance(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            (self.place, bytes) = match self.place {
                Place::Lost => return,
                Place::Payload(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    (payload(left - taken as u64), bytes.get(taken..).unwrap_or_default())
                }
                Place::Between => {
                    self.closing |= byte & 0x0f == Opcode::Close as u8;
                    (Place::Second, rest)
                }
                Place::Second => (second(byte), rest),
                Place::Length { left, masked, payload_bytes } => {
                    let payload_bytes = payload_bytes << 8 | u64::from(byte);
                    let place = match left {
                        1 if payload_bytes >> 63 != 0 => Place::Lost,
                        1 => behind_length(masked, payload_bytes),
                        left => Place::Length { left: left - 1, masked, payload_bytes },
                    };
                    (place, rest)
                }
                Place::Mask { left: 1, payload_bytes } => (payload(payload_bytes), rest),
                Place::Mask { left, payload_bytes } => (Place::Mask { left: left - 1, payload_bytes }, rest),
            };
        }
    }

    /// Takes the bytes up to the end of the frame that has begun, and returns how many; none between two frames.
    pub fn finish_frame(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while self.place != Place::Between
            && let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty())
        {
            let step = match self.place {
                Place::Payload(left) => usize::try_from(left).unwrap_or(usize::MAX).min(rest.len()),
                Place::Lost => rest.len(),
                _ => 1,
            };
            self.advance(&rest[..step]);
            taken += step;
        }
        taken
    }

    /// Whether another frame may begin here.
    pub fn is_between(&self) -> bool {
        self.place == Place::Between && !self.closing
    }

    /// Whether a close frame has begun.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether a close frame is complete: nothing more comes.
    pub fn has_closed(&self) -> bool {
        self.closing && self.place == Place::Between
    }

    /// Whether the boundaries of frames are lost.
    pub fn is_lost(&self) -> bool {
        self.place == Place::Lost
    }

    /// The position as bytes, for another process.
    pub fn to_bytes(&self) -> [u8; 12] {
        let (kind, left, masked, payload_bytes) = match self.place {
            Place::Between => (0, 0, false, 0),
            Place::Second => (1, 0, false, 0),
            Place::Length { left, masked, payload_bytes } => (2, left, masked, payload_bytes),
            Place::Mask { left, payload_bytes } => (3, left, true, payload_bytes),
            Place::Payload(left) => (4, 0, false, left),
            Place::Lost => (5, 0, false, 0),
        };
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&[kind, left, u8::from(masked), u8::from(self.closing)]);
        bytes[4..].copy_from_slice(&payload_bytes.to_le_bytes());
        bytes
    }

    /// The inverse of [`Self::to_bytes`]; `None` if no position has these bytes.
    pub fn from_bytes(bytes: [u8; 12]) -> Option<Self> {
        let [kind, left, masked, closing, payload_bytes @ ..] = bytes;
        let (masked, payload_bytes) = (masked == 1, u64::from_le_bytes(payload_bytes));
        let place = match (kind, left) {
            (0, _) => Place::Between,
            (1, _) => Place::Second,
            (2, 1..=8) => Place::Length { left, masked, payload_bytes },
            (3, 1..=4) => Place::Mask { left, payload_bytes },
            (4, _) if payload_bytes > 0 => Place::Payload(payload_bytes),
            (5, _) => Place::Lost,
            _ => return None,
        };
        let boundary = Self { place, closing: closing == 1 };
        // A position has one form only.
        (boundary.to_bytes() == bytes).then_some(boundary)
    }
}

/// Behind the byte that has the mask's bit and the short length.
fn second(byte: u8) -> Place {
    let masked = byte & 0x80 != 0;
    match byte & 0x7f {
        126 => Place::Length { left: 2, masked, payload_bytes: 0 },
        127 => Place::Length { left: 8, masked, payload_bytes: 0 },
        short => behind_length(masked, u64::from(short)),
    }
}

fn behind_length(masked: bool, payload_bytes: u64) -> Place {
    if masked { Place::Mask { left: 4, payload_bytes } } else { payload(payload_bytes) }
}

fn payload(left: u64) -> Place {
    if left == 0 { Place::Between } else { Place::Payload(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::encode_frame;
    use proptest::prelude::*;

    fn after(bytes: &[u8]) -> Boundary {
        let mut boundary = Boundary::default();
        boundary.advance(bytes);
        boundary
    }

    #[test]
    fn a_frame_ends_with_its_payload() {
        for (length, key) in [(0, None), (5, None), (5, Some([1, 2, 3, 4])), (126, None), (70_000, Some([0; 4]))] {
            let mut bytes = Vec::new();
            encode_frame(true, Opcode::Binary, key, &vec![b'x'; length], &mut bytes);
            assert!(after(&bytes).is_between(), "{length}");
            for cut in (0..bytes.len()).step_by(1 + length / 50) {
                assert_eq!(after(&bytes[..cut]).is_between(), cut == 0, "{length} {cut}");
            }
        }
        assert!(after(&[0x01, 0]).is_between(), "between the frames of one message");
        assert!(after(&[0xf3, 0]).is_between(), "an extension's frame has a head like any other");
    }

    #[test]
    fn sends_nothing_after_a_close_frame() {
        let boundary = after(&[0x88, 0]);
        assert!(boundary.is_closing() && boundary.has_closed() && !boundary.is_between());
        assert!(!after(&[0x88]).has_closed(), "its end is missing");
        assert!(!after(&[0x89, 0]).is_closing());
    }

    #[test]
    fn a_length_that_cannot_be_is_the_end_of_knowing() {
        let boundary = after(&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert!(!boundary.is_between() && !boundary.is_closing() && boundary.is_lost());
        let mut later = boundary;
        later.advance(&[0; 100]);
        assert_eq!(later, boundary);
    }

    #[test]
    fn frame_position_is_restored_from_its_bytes() {
        let mut bytes = Vec::new();
        encode_frame(true, Opcode::Binary, Some([1, 2, 3, 4]), &[b'x'; 300], &mut bytes);
        encode_frame(true, Opcode::Binary, None, &vec![b'x'; 70_000], &mut bytes);
        encode_frame(true, Opcode::Close, None, &[], &mut bytes);
        for cut in (0..20).chain([bytes.len() - 1, bytes.len()]).chain(300..330) {
            let boundary = after(&bytes[..cut]);
            assert_eq!(Boundary::from_bytes(boundary.to_bytes()), Some(boundary), "{cut}");
        }
        let lost = after(&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Boundary::from_bytes(lost.to_bytes()), Some(lost));
        for bad in [
            [6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [4; 12],
            [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Boundary::from_bytes(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn parses_bytes_in_any_pieces(
            frames in prop::collection::vec((0_usize..300, any::<Option<[u8; 4]>>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            for (length, key) in &frames {
                encode_frame(true, Opcode::Text, *key, &vec![b'a'; *length], &mut bytes);
            }
            let (first, second) = bytes.split_at(cut.index(bytes.len()));
            let mut boundary = after(first);
            boundary.advance(second);
            prop_assert_eq!(boundary, after(&bytes));
            prop_assert!(boundary.is_between());
        }

        #[test]
        fn finishes_the_frame_that_has_begun_and_no_more(
            first in 0_usize..70_000, second in 0_usize..200, key in any::<Option<[u8; 4]>>(), cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            encode_frame(true, Opcode::Text, key, &vec![b'a'; first], &mut bytes);
            let end = bytes.len();
            encode_frame(true, Opcode::Text, key, &vec![b'b'; second], &mut bytes);
            let at = 1 + cut.index(end - 1);
            let mut boundary = after(&bytes[..at]);
            prop_assert_eq!(boundary.finish_frame(&bytes[at..]), end - at);
            prop_assert_eq!((boundary.is_between(), boundary.finish_frame(&bytes[end..])), (true, 0));
            let mut inside = after(&bytes[..at]);
            let part = (end - at) / 2;
            prop_assert_eq!(inside.finish_frame(&bytes[at..at + part]), part);
        }
    }
}
