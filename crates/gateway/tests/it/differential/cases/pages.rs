//! Pages for heads that are too large, and which fields of a reply its error page keeps.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/page.txt", b"0123456789".to_vec()),
        ("html/errors/page.txt", b"what went wrong\n".to_vec()),
        ("html/slash/dir/x", b"x".to_vec()),
        ("html/slash/index", b"x".to_vec()),
    ]
}

const HOSTS: &[&str] = &["plain.test", "own.test", "named.test", "away.test", "bad.test", "nobody.test"];

const RETURNED: &[&str] = &[
    "/494",
    "/495",
    "/496",
    "/497",
    "/text494",
    "/named494",
    "/own494",
    "/as494",
    "/file494",
    "/file497",
    "/away497",
    "/away494",
    "/not494",
];

/// The lines after Host in a head that is refused.
const FAULTS: &[(&str, &str)] = &[
    ("a second Host", "Host: other.test\r\n"),
    ("two lengths", "Content-Length: 1\r\nContent-Length: 2\r\n"),
    ("a bad length", "Content-Length: x\r\n"),
    ("a bare carriage return", "X-A: a\rb\r\n"),
];

const PLACES: &[&str] = &["/kept/", "/as/", "/ok/", "/whole/", "/said/", "/away/"];

const CONDITIONS: &[&str] =
    &["Range: bytes=20-", "Range: bytes=2-3", "If-Match: \"no\"", "If-Range: \"no\"\r\nRange: bytes=20-"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in RETURNED {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "plain.test", target).named("returned"));
        }
    }
    for host in HOSTS {
        let long = "y".repeat(1100);
        let line = format!("X-A: {}\r\n", "z".repeat(600));
        for (name, fields) in [
            ("a long field behind Host", format!("Host: {host}\r\nX-A: {long}\r\n")),
            ("a long field before Host", format!("X-A: {long}\r\nHost: {host}\r\n")),
            ("many fields", format!("Host: {host}\r\n{}", line.repeat(5))),
        ] {
            for method in ["GET", "HEAD", "POST"] {
                let text = format!("{method} /x HTTP/1.1\r\n{fields}\r\n");
                cases.push(Case::raw(format!("large: {method}, {name}, for {host}"), text));
            }
        }
        let text = format!("GET http://{host}/x HTTP/1.1\r\nX-A: {long}\r\nHost: plain.test\r\n\r\n");
        cases.push(Case::raw(format!("large: absolute target for {host}"), text));
        let text = format!("GET /{long} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases.push(Case::raw(format!("long line for {host}"), text));
        for (name, field) in FAULTS {
            let text = format!("GET /x HTTP/1.1\r\nHost: {host}\r\n{field}\r\n");
            cases.push(Case::raw(format!("bad: {name}, for {host}"), text));
        }
    }
    for place in PLACES {
        for condition in CONDITIONS {
            for method in ["GET", "HEAD"] {
                let target = format!("{place}page.txt");
                let text = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{condition}\r\n\r\n");
                cases.push(Case::raw(format!("{method} {target} {condition}"), text).on(1));
            }
        }
        cases.push(Case::simple("POST", "a.test", &format!("{place}page.txt")).on(1));
    }
    for range in ["20-", "2-3", "90-"] {
        let text = format!("GET /forced/bytes/50 HTTP/1.1\r\nHost: a.test\r\nRange: bytes={range}\r\n\r\n");
        cases.push(Case::raw(format!("forced {range}"), text).on(1));
    }
    for target in
        ["/moved/x", "/moved-ok/x", "/moved-again/x", "/moved-named/x", "/slash/dir", "/slash", "/proxied-location/x"]
    {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "a.test", target).on(1));
        }
    }
    cases
}
