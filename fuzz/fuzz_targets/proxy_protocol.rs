//! Headers of the PROXY protocol: no panic; a header is never longer than the input or the bound; a prefix is either
//! partial or gives the same result as the whole; and any TLVs can be read. The first byte is where the prefix ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proxyproto::{HEADER_BYTES_MAX, Parse, TlvName, parse, write_tlv};

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let whole = parse(bytes);
    let of_prefix = parse(&bytes[..bytes.len().min(cut as usize)]);
    if of_prefix != Ok(Parse::Partial) {
        assert_eq!(of_prefix, whole);
    }
    assert!(bytes.len() < HEADER_BYTES_MAX || whole != Ok(Parse::Partial));
    let Ok(Parse::Complete { len, header }) = whole else { return };
    assert!(len <= bytes.len() && len <= HEADER_BYTES_MAX && header.tlvs.len() < len);
    for name in [TlvName::Type(cut), TlvName::Ssl(cut), TlvName::SslVerify] {
        let mut value = Vec::new();
        assert!(write_tlv(&header.tlvs, name, &mut value) || value.is_empty());
    }
});
