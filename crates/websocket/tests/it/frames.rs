//! Frames one by one: the examples of RFC 6455 §5.7, what is refused and with which close code, and what costs memory.

use crate::support::{Seen, decode, frame};
use websocket::{CloseCode, Decoder, Event, Fault, Kind, Opcode, Sender, encode_close};

const MAX: usize = 1 << 20;
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

fn server(bytes: &[u8]) -> (Vec<Seen>, Option<Fault>) {
    decode(Sender::Server, MAX, bytes, usize::MAX)
}

fn text(words: &str) -> Seen {
    Seen::Message(Kind::Text, words.into())
}

#[test]
fn the_examples_of_the_rfc() {
    assert_eq!(server(b"\x81\x05Hello"), (vec![text("Hello")], None));
    let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(decode(Sender::Client, MAX, &masked, 3), (vec![text("Hello")], None));
    assert_eq!(frame(true, Opcode::Text, Some(KEY), b"Hello"), masked);
    assert_eq!(server(b"\x01\x03Hel\x80\x02lo"), (vec![text("Hello")], None));
    assert_eq!(server(b"\x89\x05Hello"), (vec![Seen::Ping(b"Hello".to_vec())], None));
    for len in [256, 65_536] {
        let bytes = frame(true, Opcode::Binary, None, &vec![7; len]);
        assert_eq!(bytes.len(), len + if len == 256 { 4 } else { 10 });
        assert_eq!(server(&bytes), (vec![Seen::Message(Kind::Binary, vec![7; len])], None));
    }
}

#[test]
fn control_frames_come_between_fragments() {
    let bytes = [
        frame(false, Opcode::Text, None, b"one "),
        frame(true, Opcode::Ping, None, b"?"),
        frame(false, Opcode::Continuation, None, b""),
        frame(true, Opcode::Pong, None, b"!"),
        frame(true, Opcode::Continuation, None, b"two"),
    ];
    let expected = vec![Seen::Ping(b"?".to_vec()), Seen::Pong(b"!".to_vec()), text("one two")];
    for piece in [1, 2, 5, usize::MAX] {
        assert_eq!(decode(Sender::Server, MAX, &bytes.concat(), piece), (expected.clone(), None));
    }
}

#[test]
fn refuses_forbidden_frames_with_the_rfcs_code() {
    let cases: [(&[u8], Fault, CloseCode); 18] = [
        (b"\xc1\x00", Fault::ReservedBits, CloseCode::PROTOCOL_ERROR),
        (b"\x91\x00", Fault::ReservedBits, CloseCode::PROTOCOL_ERROR),
        (b"\x83", Fault::UnknownOpcode(3), CloseCode::PROTOCOL_ERROR),
        (b"\x8f", Fault::UnknownOpcode(15), CloseCode::PROTOCOL_ERROR),
        (b"\x81\x80\0\0\0\0", Fault::Masked, CloseCode::PROTOCOL_ERROR),
        (b"\x09", Fault::FragmentedControl, CloseCode::PROTOCOL_ERROR),
        (b"\x89\x7e", Fault::LongControl, CloseCode::PROTOCOL_ERROR),
        (b"\x82\x7e\x00\x7d", Fault::LengthNotMinimal, CloseCode::PROTOCOL_ERROR),
        (b"\x82\x7f\0\0\0\0\0\0\xff\xff", Fault::LengthNotMinimal, CloseCode::PROTOCOL_ERROR),
        (b"\x82\x7f\x80\0\0\0\0\0\0\0", Fault::LengthTooLarge, CloseCode::PROTOCOL_ERROR),
        (b"\x82\x7f\0\0\0\0\0\x10\0\x01", Fault::TooBig, CloseCode::TOO_BIG),
        (b"\x80\x00", Fault::UnexpectedContinuation, CloseCode::PROTOCOL_ERROR),
        (b"\x01\x00\x81\x00", Fault::ExpectedContinuation, CloseCode::PROTOCOL_ERROR),
        (b"\x81\x02\xc3\x28", Fault::InvalidUtf8, CloseCode::INVALID_DATA),
        (b"\x01\x01\xc3\x80\x00", Fault::InvalidUtf8, CloseCode::INVALID_DATA),
        (b"\x88\x01\x03", Fault::HalfCloseCode, CloseCode::PROTOCOL_ERROR),
        (b"\x88\x02\x03\xed", Fault::InvalidCloseCode(1005), CloseCode::PROTOCOL_ERROR),
        (b"\x88\x03\x03\xe8\xff", Fault::InvalidCloseReason, CloseCode::INVALID_DATA),
    ];
    for (bytes, fault, code) in cases {
        for piece in [1, usize::MAX] {
            assert_eq!(decode(Sender::Server, MAX, bytes, piece), (vec![], Some(fault)), "{bytes:x?}");
        }
        assert_eq!(fault.close_code(), code);
    }
    assert_eq!(decode(Sender::Client, MAX, b"\x81\x00", 1), (vec![], Some(Fault::Unmasked)));
}

#[test]
fn a_text_is_refused_in_the_middle_of_a_frame() {
    // A surrogate, then a thousand bytes that need not come.
    let bytes = frame(true, Opcode::Text, None, &[b"a\xed\xa0".as_slice(), &[b'b'; 1000]].concat());
    assert_eq!(server(&bytes[..7]), (vec![], Some(Fault::InvalidUtf8)));
}

#[test]
fn a_close_frame_is_the_last_event() {
    let mut bytes = Vec::new();
    encode_close(CloseCode::GOING_AWAY, "later", None, &mut bytes);
    bytes.extend_from_slice(b"\x81\x01a and no frame at all");
    let close = Seen::Close(Some(CloseCode::GOING_AWAY), "later".to_owned());
    assert_eq!(server(&bytes), (vec![close], None));
    assert_eq!(server(b"\x88\x00"), (vec![Seen::Close(None, String::new())], None));
    // What may not be sent is not sent; what is too long is cut between characters.
    bytes.clear();
    encode_close(CloseCode::ABNORMAL, "x", None, &mut bytes);
    assert_eq!(bytes, b"\x88\x00");
    bytes.clear();
    encode_close(CloseCode::NORMAL, &"é".repeat(100), None, &mut bytes);
    assert_eq!(bytes.len(), 2 + 2 + 122);
}

#[test]
fn a_sum_of_fragments_is_bounded_too() {
    let bytes =
        [frame(false, Opcode::Binary, None, &[0; 9]), frame(true, Opcode::Continuation, None, &[0; 2])].concat();
    assert_eq!(decode(Sender::Server, 10, &bytes, 4), (vec![], Some(Fault::TooBig)));
    assert_eq!(decode(Sender::Server, 11, &bytes, 4).1, None);
}

#[test]
fn after_a_fault_nothing_is_looked_at() {
    let mut decoder = Decoder::new(Sender::Server, MAX);
    assert_eq!(decoder.decode(b"\xff"), Err(Fault::ReservedBits));
    let decoded = decoder.decode(b"\x81\x01a").unwrap();
    assert_eq!((decoded.consumed, decoded.event), (3, None));
}

#[test]
fn an_idle_connection_costs_the_struct() {
    // The budget of a connection is one kilobyte, of which this is a part on both ends.
    assert!(size_of::<Decoder>() <= 144, "{}", size_of::<Decoder>());
    let mut decoder = Decoder::new(Sender::Server, MAX);
    let bytes = [frame(false, Opcode::Text, None, b"a"), frame(true, Opcode::Continuation, None, b"b")].concat();
    let decoded = decoder.decode(&bytes).unwrap();
    assert_eq!(decoded.event, Some(Event::Message { kind: Kind::Text, payload: b"ab" }));
    assert!(!decoder.is_inside());
    assert_eq!(decoder.decode(&[]).unwrap().event, None);
}
