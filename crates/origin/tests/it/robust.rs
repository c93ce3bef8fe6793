//! Unexpected bytes: the origin answers or closes, and serves the next client.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use crate::talk::{Client, start};
use origin::Options;
use proptest::prelude::*;

/// Complete and broken pieces of requests, including every path that has arguments.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let path = prop::sample::select(vec![
        "/",
        "/bytes/9",
        "/bytes/",
        "/chunked/9",
        "/close-delimited/5",
        "/slow/3",
        "/echo",
        "/status/200",
        "/status/9",
        "/delay/1",
        "/reset/at",
        "/execute-then-reset",
        "/executed",
        "/close-after",
        "/counters",
        "/upgrade",
        "//%",
        "*",
    ]);
    let query = prop::sample::select(vec![
        "",
        "?",
        "?id=",
        "?id=a",
        "?chunk=0",
        "?chunk=2",
        "?cut=1&by=bad-chunk",
        "?cut=1&by=reset",
        "?point=head",
        "?point=accept&count=0",
        "?idle=0",
        "?requests=1&style=half-close",
        "?early=99999999999",
        "?every=0",
        "?%=%&&==",
        "?header=:&header=a:b",
        "?step=1&every=0",
        "?interim=100",
    ]);
    let fields = prop::sample::select(vec![
        "",
        "Connection: close\r\n",
        "Content-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Range: bytes=-1\r\n",
        "Connection: upgrade\r\nUpgrade: x\r\n",
        "Expect: 100-continue\r\nContent-Length: 2\r\n",
        "X\r\n",
    ]);
    let method = prop::sample::select(vec!["GET", "POST", "HEAD", "DELETE", "OPTIONS", "get"]);
    let request = (method, path, query, fields, prop::sample::select(vec!["1.1", "1.0", "2.0"])).prop_map(
        |(method, path, query, fields, version)| {
            format!("{method} {path}{query} HTTP/{version}\r\nHost: o\r\n{fields}\r\n").into_bytes()
        },
    );
    prop_oneof![
        8 => request,
        1 => prop::sample::select(vec!["abc", "3\r\nabc\r\n", "0\r\n\r\n", "\r\n\r\n"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

#[test]
fn bad_bytes_end_only_their_own_connection() {
    let origin = start(Options::default());
    let runner_options = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(runner_options, |(pieces in prop::collection::vec(piece(), 1..6), cut in any::<prop::sample::Index>())| {
        let bytes = pieces.concat();
        let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut client = Client::connect(&origin);
        // The origin may have closed already; a failed write or read is an end, too.
        client.send(first);
        client.send(second);
        client.half_close();
        // Fails the test if the connection does not end.
        client.rest();
    });
    let mut client = Client::connect(&origin);
    client.get("/");
    assert_eq!(client.response().1.len(), 612);
    origin.stop().unwrap();
}
