//! The state of a tunnel from another process: no panic; what is understood is the same after another round. The first byte
//! selects a single tunnel, an idle connection, or a message
//! with several.
#![no_main]

use handover::{Idle, Tunnel, decode_batch, encode_batch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else { return };
    if kind & 3 == 2 {
        if let Some(idle) = Idle::decode(bytes) {
            assert_eq!(Idle::decode(&idle.encode()), Some(idle));
        }
    } else if kind & 1 == 0 {
        if let Some(tunnel) = Tunnel::decode(bytes) {
            // An address has one text form, and the other process may write another.
            assert_eq!(Tunnel::decode(&tunnel.encode()), Some(tunnel));
        }
    } else if let Some(states) = decode_batch(bytes) {
        let states: Vec<&[u8]> = states.iter().map(Vec::as_slice).collect();
        assert_eq!(encode_batch(&states), bytes);
    }
});
