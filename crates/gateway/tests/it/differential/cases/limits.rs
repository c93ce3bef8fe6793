//! `limit_req` and `limit_conn`.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/data.bin", super::pattern(20_000)),
        ("html/page.html", b"<p>a page\n".to_vec()),
        ("html/limited.html", b"<p>later\n".to_vec()),
    ]
}

/// Requests with one key, one after the other on one connection: the targets, and further fields.
const SEQUENCES: &[(&[&str], &str)] = &[
    (&["/one/page.html", "/one/page.html"], ""),
    (&["/one/none", "/one/page.html"], ""),
    (&["/burst/page.html", "/burst/page.html", "/burst/page.html", "/burst/page.html"], ""),
    (&["/partly/page.html", "/partly/page.html", "/partly/page.html"], ""),
    (&["/delayed/page.html", "/delayed/page.html", "/delayed/page.html"], ""),
    (&["/status/page.html", "/status/page.html"], ""),
    (&["/page/page.html", "/page/page.html"], ""),
    (&["/shown/page.html", "/shown/page.html"], ""),
    (&["/shown-again/page.html", "/shown-again/page.html"], ""),
    (&["/dry/page.html", "/dry/page.html"], ""),
    (&["/dry-delayed/page.html", "/dry-delayed/page.html"], ""),
    (&["/both/page.html", "/both/page.html", "/both/page.html"], "X-Other: both\r\n"),
    (&["/both/page.html", "/both/page.html", "/both/page.html"], ""),
    (&["/both-other/page.html", "/both-other/page.html", "/both/page.html"], "X-Other: both-other\r\n"),
    (&["/returned/", "/returned/"], ""),
    (&["/proxied/bytes/10", "/proxied/bytes/10"], ""),
    (&["/denied/page.html", "/denied/page.html"], ""),
    (&["/missing/none", "/missing/none"], ""),
    (&["/inherited/page.html", "/inherited/same/page.html", "/inherited/same/page.html"], ""),
    (&["/inherited/own/page.html", "/inherited/page.html", "/inherited/own/page.html"], ""),
    (&["/one/page.html", "/burst/page.html", "/burst/page.html"], ""),
    (&["/rated/page.html", "/rated/data.bin", "/rated/none"], ""),
    (&["/rated-proxied/bytes/20000?rate=64k", "/rated-proxied/chunked/20000?rate=64k", "/rated-proxied/bytes/9"], ""),
    (&["/outer/page.html", "/inner/page.html", "/outer/page.html"], ""),
    (&["/outer-two/page.html", "/inner-two/page.html"], ""),
    (&["/outer-status/page.html"], ""),
    (&["/outer-dry/page.html"], ""),
    (&["/outer-both/page.html", "/inner/page.html"], "X-Other: conn\r\n"),
    (&["/both-limits/page.html", "/both-limits/page.html"], ""),
    (&["/conn-returned/", "/inner/none"], ""),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, (targets, fields)) in SEQUENCES.iter().enumerate() {
        let request = |target: &&str| {
            format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Key: key-{number}\r\n{fields}\r\n").into_bytes()
        };
        let requests: Vec<Vec<u8>> = targets.iter().map(request).collect();
        let requests: Vec<&[u8]> = requests.iter().map(Vec::as_slice).collect();
        cases.push(Case::pipeline(format!("{number}: {}", targets[0]), &requests));
    }
    // An empty key, and one that is too long.
    for (name, key) in [("no key", String::new()), ("a long key", "k".repeat(300))] {
        let request = |target: &str| {
            let field = if key.is_empty() { String::new() } else { format!("X-Key: {key}\r\n") };
            format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{field}\r\n").into_bytes()
        };
        let requests = [request("/one/page.html"), request("/one/page.html"), request("/outer/page.html")];
        let requests: Vec<&[u8]> = requests.iter().map(Vec::as_slice).collect();
        cases.push(Case::pipeline(name, &requests));
    }
    cases
}
