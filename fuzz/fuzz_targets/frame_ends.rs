//! The finder of WebSocket frame ends: no panic, the same ends for any split of the stream, and the same ends as the decoder
//! of heads. The first byte is where the stream is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use websocket::{Boundary, FrameHead};

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let after = |bytes: &[u8]| {
        let mut boundary = Boundary::default();
        boundary.advance(bytes);
        boundary
    };
    let (first, second) = bytes.split_at(bytes.len().min(usize::from(cut)));
    let mut in_two = after(first);
    in_two.advance(second);
    assert_eq!(in_two, after(bytes));
    let mut at = 0;
    while let Some(Ok(Some((head, len)))) = bytes.get(at..).map(FrameHead::parse) {
        let end = (at + len).checked_add(usize::try_from(head.payload_bytes).unwrap_or(usize::MAX));
        let Some(end) = end.filter(|end| *end <= bytes.len()) else { break };
        let boundary = after(&bytes[..end]);
        assert!(boundary.is_between() || boundary.is_closing());
        assert!(end == at + 1 || !after(&bytes[..end - 1]).is_between());
        at = end;
    }
});
