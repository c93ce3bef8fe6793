//! Bytes in, bytes forwarded, parsed again by the strict parser: both readers agree on method, target, host, framing and
//! fields, or the request was refused. This is the property that request smuggling breaks.
#![no_main]

use http1::{BareLf, Limits, Parse, RequestHead, encode};
use libfuzzer_sys::fuzz_target;

/// Encodes the fields that go to the next hop; `hop_too` adds those of this connection, among them the framing.
fn forward(bytes: &[u8], head: &RequestHead, hop_too: bool) -> Vec<u8> {
    let mut out = Vec::new();
    encode::encode_request_line(head.method_name.of(bytes), head.target.raw.of(bytes), head.version, &mut out);
    encode::encode_fields(bytes, head.fields.iter().filter(|field| hop_too || !field.hop), &mut out);
    encode::encode_head_end(&mut out);
    out
}

fuzz_target!(|bytes: &[u8]| {
    let mut head = RequestHead::default();
    let Ok(Parse::Complete { .. }) = http1::request::parse(bytes, &Limits::default(), &mut head) else { return };
    let strict = Limits {
        bare_lf: BareLf::Reject,
        ignore_invalid_headers: false,
        head_bytes_max: 1 << 20,
        line_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let mut again = RequestHead::default();
    for hop_too in [true, false] {
        let out = forward(bytes, &head, hop_too);
        let parsed = http1::request::parse(&out, &strict, &mut again);
        assert_eq!(parsed, Ok(Parse::Complete { len: out.len() }), "{}", out.escape_ascii());
        assert_eq!(again.method_name.of(&out), head.method_name.of(bytes));
        assert_eq!(again.target.raw.of(&out), head.target.raw.of(bytes));
        assert_eq!(again.host.map(|host| host.raw.of(&out)), head.host.map(|host| host.raw.of(bytes)));
        let kept = head.fields.iter().filter(|field| hop_too || !field.hop).count();
        assert_eq!(again.fields.len(), kept);
        if hop_too {
            assert_eq!((again.framing, again.keepalive), (head.framing, head.keepalive));
        } else {
            assert!(again.fields.iter().all(|field| !field.hop));
        }
    }
});
