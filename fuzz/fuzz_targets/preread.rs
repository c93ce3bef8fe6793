//! What `ssl_preread` reads: no panic, a prefix is partial or comes to what the whole comes to, and nothing longer than the bound is
//! waited for. The first byte is where the prefix ends, in sixteenths of what came.
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
