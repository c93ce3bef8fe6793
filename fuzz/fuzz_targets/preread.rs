//! The parser of `ssl_preread`: no panic; a prefix is either partial or gives the same result as the whole; and it never waits for
//! more bytes than the bound. The first byte is where the prefix ends, in sixteenths of the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tls::{HELLO_BYTES_MAX, Prereading, preread};

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let whole = preread(bytes);
    let end = bytes.len() * usize::from(cut % 17) / 16;
    let of_prefix = preread(&bytes[..end.min(bytes.len())]);
    if of_prefix != Prereading::Partial {
        assert_eq!(of_prefix, whole);
    }
    // Records of a byte each have five bytes of head.
    assert!(bytes.len() <= 6 * (HELLO_BYTES_MAX + 4) || whole != Prereading::Partial);
    if let Prereading::Hello(read) = whole {
        assert!(read.alpn_protocols.len() < bytes.len());
        assert!(read.server_name.is_none_or(|name| !name.is_empty() && name.is_ascii()));
    }
});
