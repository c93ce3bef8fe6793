//! The trace context: no panic; what is read of a `traceparent` is written as a valid one; a joined `tracestate` is bounded, has no
//! line end, and joins to itself; a redacted target keeps its path and shows no value of a token.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::trace_context::{TRACESTATE_BYTES_MAX, TraceParent, join_tracestate, redact_target};

fuzz_target!(|input: &[u8]| {
    if let Some(parent) = TraceParent::parse(input) {
        let text = parent.text();
        assert_eq!(TraceParent::parse(text.as_bytes()), Some(parent));
        assert_eq!(text.as_bytes()[3..52], input[3..52]);
    }
    let values = input.split(|&byte| byte == b'\n');
    let joined = join_tracestate(values);
    assert!(joined.len() <= TRACESTATE_BYTES_MAX && joined.iter().all(|byte| (b' '..=b'~').contains(byte)));
    assert_eq!(join_tracestate([&joined[..]]), joined);
    let mut out = Vec::new();
    redact_target(input, 4096, &mut out);
    let path = input.iter().position(|&byte| byte == b'?').unwrap_or(input.len()).min(4096);
    assert_eq!(out.get(..path), input.get(..path));
    let query = out.get(path..).unwrap_or_default();
    let pairs = query.strip_prefix(b"?").unwrap_or_default().split(|&byte| byte == b'&');
    assert!(pairs.into_iter().all(|pair| pair.strip_prefix(b"token=").is_none_or(|value| value == b"REDACTED")));
});
