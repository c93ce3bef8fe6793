//! Bytes that variables bring into heads: escapes in groups, raw bytes of clients, values over several lines.

use super::Case;

/// Locations that use a group of the path.
const GROUPS: &[&str] =
    &["set", "both", "ifset", "setargs", "named", "eq", "miss", "rewritten", "rewritten-if", "direct", "header"];

/// Contents of the group.
const PARTS: &[&str] = &[
    "plain",
    "a%20b",
    "a%26b",
    "a%2Bb",
    "a+b",
    "a&b;c",
    "a%25b",
    "a%3Fb",
    "a%2Fb",
    "a%23b",
    "%C3%A4",
    "a%22b",
    "x+y%20z?q=%26",
    "plain?q=a%20b",
];

/// Locations that show bytes unchanged.
const RAW: &[&str] = &["raw", "replaced", "computed", "shown", "moved", "direct"];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (place, part) in GROUPS.iter().flat_map(|place| PARTS.iter().map(move |part| (place, part))) {
        cases.push(Case::simple("GET", "wire.test", &format!("/{place}/{part}")));
    }
    let bytes: [(&str, &[u8]); 4] = [
        ("utf-8", b"caf\xc3\xa9"),
        ("latin-1", b"caf\xe9/\xff"),
        ("utf-8 and an escape", b"caf\xc3\xa9%20\xc3\xa9"),
        ("in arguments", b"x?q=\xc3\xa9&\x80"),
    ];
    for (place, (name, bytes)) in RAW.iter().flat_map(|place| bytes.iter().map(move |bytes| (place, bytes))) {
        let request = [b"GET /", place.as_bytes(), b"/", *bytes, b" HTTP/1.1\r\nHost: wire.test\r\n\r\n"].concat();
        cases.push(Case::raw(format!("{place}: {name}"), request));
    }
    for target in [
        "/lines/",
        // Compared with nginx 1.22 and 1.30.6; from 1.31.3 on it is passed on to HTTP/1 only.
        "/offer/x?f=Upgrade:websocket",
        "/offer/x?r=426&f=Upgrade:websocket,%20x/2&f=Connection:upgrade",
        "/no-host/x",
        "/method/x?m=PURGE",
        "/method/x?m=purge",
    ] {
        cases.push(Case::simple("GET", "wire.test", target));
    }
    cases
}
