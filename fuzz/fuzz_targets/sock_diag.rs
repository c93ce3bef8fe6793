//! Replies over netlink, lines of /proc/net/tcp and filter words: no panic, no loop, and no socket out of too few bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sockdiag::{Filter, Names, Reply, parse_line, parse_replies};

/// A socket takes a header of 16 bytes and 72 of its own.
const SOCKET_BYTES: usize = 88;

/// Every name is known.
struct All;

impl Names for All {
    fn cgroup(&mut self, _: &str) -> Option<u64> {
        Some(1)
    }

    fn service(&mut self, _: &str) -> Option<u16> {
        Some(1)
    }
}

fuzz_target!(|input: &[u8]| {
    let mut sockets = 0;
    let _ = parse_replies(input, None, |reply, _| sockets += usize::from(matches!(reply, Reply::Socket(_))));
    assert!(sockets * SOCKET_BYTES <= input.len());
    let _ = parse_line(input);
    if let Ok(words) = std::str::from_utf8(input)
        && let Ok(filter) = Filter::parse(words, &mut All)
    {
        let _ = (filter.encode(), filter.states());
    }
});
