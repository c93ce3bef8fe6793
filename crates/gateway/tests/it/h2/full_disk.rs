//! K2 over HTTP/2: a full disk costs the cache only.

use crate::rows::caches::files;
use crate::rows::collapse::pattern;
use crate::rows::full_disk::{on_a_small_disk, without_length};
use std::sync::Arc;
use testkit::{Http2Talk, until, with_own_mounts};

#[test]
fn k02_filling_disk_cuts_no_stream_of_http2() {
    with_own_mounts(|| {
        let body = Arc::new(pattern(4 << 20));
        let (peer, go_on, _) = without_length(30_000, Arc::clone(&body));
        let (gateway, _disk) = on_a_small_disk("", &peer);
        let mut first = Http2Talk::connect(gateway.address());
        let begins = first.open("GET", "/a", &[], true);
        first.until("a part of the first response", |client| client.so_far(begins).body.len() == 30_000);
        assert_eq!(first.so_far(begins).value("x-cache"), Some("MISS"));
        let mut others = Http2Talk::connect(gateway.address());
        let follow = [0; 3].map(|_| others.open("GET", "/a", &[], true));
        for stream in follow {
            others.until("a part out of the file", |client| client.so_far(stream).body.len() == 30_000);
            assert_eq!(others.so_far(stream).value("x-cache"), Some("HIT"));
        }
        go_on.raise();
        gateway.logged("No space left on device");
        std::thread::scope(|scope| {
            let all = scope.spawn(|| first.answer(begins).body);
            for stream in follow {
                assert!(others.answer(stream).body == *body, "a follower");
            }
            assert!(all.join().unwrap() == *body, "the first client");
        });
        until("no file is left", || files(&gateway).is_empty().then_some(()));
    });
}
