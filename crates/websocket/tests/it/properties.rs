//! For all messages, fragmentations, masks and pieces, the decoder returns what was encoded. No bytes make it panic or lose
//! count, and the split into pieces changes nothing.

use crate::support::{Seen, decode, frame};
use proptest::prelude::*;
use websocket::{CloseCode, FrameHead, Kind, Opcode, Sender, encode_close, encode_frame_head};

const MAX: usize = 1 << 20;

/// A message in fragments, with control frames between them.
#[derive(Debug, Clone)]
struct Sent {
    kind: Kind,
    payload: Vec<u8>,
    cuts: Vec<prop::sample::Index>,
    pings: Vec<Vec<u8>>,
    key: [u8; 4],
}

fn sent() -> impl Strategy<Value = Sent> {
    let text = "\\PC{0,60}".prop_map(|text| (Kind::Text, text.into_bytes()));
    let binary = prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| (Kind::Binary, bytes));
    let pings = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=125), 0..3);
    (prop_oneof![text, binary], prop::collection::vec(any::<prop::sample::Index>(), 0..4), pings, any::<[u8; 4]>())
        .prop_map(|((kind, payload), cuts, pings, key)| Sent { kind, payload, cuts, pings, key })
}

impl Sent {
    fn encode(&self, sender: Sender, out: &mut Vec<u8>, seen: &mut Vec<Seen>) {
        let key = (sender == Sender::Client).then_some(self.key);
        let mut cuts: Vec<usize> = self.cuts.iter().map(|cut| cut.index(self.payload.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut from, mut opcode) = (0, self.kind.opcode());
        let mut pings = self.pings.iter();
        for to in cuts {
            out.extend(frame(false, opcode, key, &self.payload[from..to]));
            (from, opcode) = (to, Opcode::Continuation);
            if let Some(ping) = pings.next() {
                out.extend(frame(true, Opcode::Ping, key, ping));
                seen.push(Seen::Ping(ping.clone()));
            }
        }
        out.extend(frame(true, opcode, key, &self.payload[from..]));
        seen.push(Seen::Message(self.kind, self.payload.clone()));
    }
}

proptest! {
    #[test]
    fn frames_survive_a_round_trip(
        all in prop::collection::vec(sent(), 0..5),
        sender in prop_oneof![Just(Sender::Client), Just(Sender::Server)],
        piece in 1usize..200,
        code in prop_oneof![Just(None), (3000u16..5000).prop_map(Some)],
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for one in &all {
            one.encode(sender, &mut bytes, &mut expected);
        }
        if let Some(code) = code {
            let key = (sender == Sender::Client).then_some([1, 2, 3, 4]);
            encode_close(CloseCode(code), "because", key, &mut bytes);
            expected.push(Seen::Close(Some(CloseCode(code)), "because".to_owned()));
        }
        prop_assert_eq!(decode(sender, MAX, &bytes, piece), (expected, None));
    }

    #[test]
    fn any_bytes_give_the_same_in_any_pieces(bytes: Vec<u8>, piece in 1usize..9, client: bool) {
        let sender = if client { Sender::Client } else { Sender::Server };
        prop_assert_eq!(decode(sender, 100, &bytes, piece), decode(sender, 100, &bytes, usize::MAX));
    }

    #[test]
    fn heads_come_back(fin: bool, opcode in 0u8..3, mask: Option<[u8; 4]>, payload_bytes in 0u64..u64::MAX / 2) {
        let head = FrameHead { fin, opcode: Opcode::parse(opcode).unwrap(), mask, payload_bytes };
        let mut bytes = Vec::new();
        encode_frame_head(&head, &mut bytes);
        let len = bytes.len();
        prop_assert_eq!(FrameHead::parse(&bytes), Ok(Some((head, len))));
        prop_assert_eq!(FrameHead::parse(&bytes[..len - 1]), Ok(None));
    }
}
