//! `set_real_ip_from` and the PROXY protocol.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![("html/page", b"a page\n".to_vec())]
}

/// Values of a field that names the client.
const VALUES: &[&str] = &[
    "192.0.2.7",
    "192.0.2.7:8080",
    "192.0.2.7:99999",
    "2001:db9::7",
    "[2001:db9::7]",
    "[2001:db9::7]:443",
    "192.0.2.7, 192.0.2.8",
    "192.0.2.7,10.0.0.1",
    "192.0.2.7, 10.0.0.1, 127.0.0.1",
    "10.0.0.1, 10.0.0.2",
    "2001:db9::7, 2001:db8::1 , 10.0.0.1,",
    "unknown",
    "unknown, 10.0.0.1",
    "192.0.2.7, unknown",
    "256.0.0.1",
    "unix:",
    ",",
    "192.0.2.7 192.0.2.8",
];

/// Headers of the PROXY protocol, with the bytes that follow.
const HEADERS: &[(&str, &[u8])] = &[
    ("TCP4", b"PROXY TCP4 192.0.2.7 198.51.100.1 4660 443\r\n"),
    ("TCP6", b"PROXY TCP6 2001:db8::7 2001:db8::1 4660 443\r\n"),
    ("UNKNOWN", b"PROXY UNKNOWN\r\n"),
    ("UNKNOWN and more", b"PROXY UNKNOWN 192.0.2.7 198.51.100.1 4660 443\r\n"),
    ("none", b""),
    ("no port", b"PROXY TCP4 192.0.2.7 198.51.100.1 4660\r\n"),
    ("UDP", b"PROXY UDP4 192.0.2.7 198.51.100.1 4660 443\r\n"),
    ("lower case", b"proxy TCP4 192.0.2.7 198.51.100.1 4660 443\r\n"),
    ("a large port", b"PROXY TCP4 192.0.2.7 198.51.100.1 4660 70000\r\n"),
    (
        "version 2",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x34\x01\xbb",
    ),
    (
        "version 2, TCP6",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x12\x34\x01\xbb",
    ),
    ("version 2, a TLV", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x34\x01\xbb\x01\0\x02h2"),
    ("version 2, LOCAL", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"),
    ("version 2, UNSPEC", b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\x02ab"),
    ("version 2, too short", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x04\xc0\0\x02\x07"),
    ("version 2, another command", b"\r\n\r\n\0\r\nQUIT\n\x22\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x34\x01\xbb"),
    ("version 3", b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x34\x01\xbb"),
];

fn request(target: &str, host: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for value in VALUES {
        for (place, field) in [
            ("/file/page", "X-Real-IP"),
            ("/forwarded/page", "X-Forwarded-For"),
            ("/recursive/page", "X-Forwarded-For"),
            ("/own/page", "cf-connecting-ip"),
            ("/own-recursive/page", "CF-Connecting-IP"),
        ] {
            let fields = format!("{field}: {value}\r\n");
            cases.push(Case::raw(format!("{place} {value:?}"), request(place, "a.test", &fields)));
        }
        let fields = format!("X-Real-IP: {value}\r\n");
        cases.push(Case::raw(format!("all {value:?}"), request("/", "all.test", &fields)));
    }
    for (place, fields) in [
        ("/file/page", ""),
        ("/untrusted/page", "X-Real-IP: 192.0.2.7\r\n"),
        ("/inherited/page", "X-Real-IP: 192.0.2.7\r\n"),
        ("/returned/", "X-Real-IP: 192.0.2.7\r\n"),
        ("/denied/page", "X-Real-IP: 192.0.2.7\r\n"),
        ("/denied/page", "X-Real-IP: 198.51.100.7\r\n"),
        ("/proxied/x", "X-Real-IP: 192.0.2.7\r\n"),
        ("/proxied/x", "X-Real-IP: 192.0.2.7\r\nX-Forwarded-For: 192.0.2.1\r\n"),
        ("/recursive/page", "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 10.0.0.1\r\n"),
        ("/recursive/page", "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: nonsense\r\n"),
        ("/forwarded/page", "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 192.0.2.8\r\n"),
        ("/own/page", "CF-Connecting-IP: 192.0.2.7\r\nCF-Connecting-IP: 192.0.2.8\r\n"),
    ] {
        cases.push(Case::raw(format!("{place} with {fields:?}"), request(place, "a.test", fields)));
    }
    let fields = "X-Real-IP: 192.0.2.7\r\n";
    cases.push(Case::raw("a field that is not asked for", request("/none", "all.test", fields)));
    // Each request determines its own client.
    let first = request("/file/page", "a.test", fields);
    cases.push(Case::pipeline("one after the other", &[&first, &request("/file/page", "a.test", "")]));
    for (name, header) in HEADERS {
        for (listener, target) in [(1, "/"), (1, "/file/page"), (2, "/")] {
            let bytes = [header, &request(target, "a.test", "")[..]].concat();
            cases.push(Case::raw(format!("PROXY {listener} {target}: {name}"), bytes).on(listener));
        }
    }
    cases
}
