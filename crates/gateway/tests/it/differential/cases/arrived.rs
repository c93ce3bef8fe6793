//! Unbuffered bodies that have arrived completely.

use super::{Case, chunked, pattern};

const TARGETS: &[&str] = &[
    "/named/x",
    "/named/x?r=404",
    "/retried/x",
    "/passed-over/x?r=503",
    "/passed-over/x?r=500",
    "/refused/x",
    "/answered/x?r=404",
    "/answered/x?r=503",
    "/answered/x?r=200",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in TARGETS {
        for method in ["POST", "PUT"] {
            for length in [0, 5, 700] {
                let body = pattern(length);
                let head = format!("{method} {target} HTTP/1.1\r\nHost: arrived.test\r\n");
                let whole = [format!("{head}Content-Length: {length}\r\n\r\n").as_bytes(), &body].concat();
                cases.push(Case::raw(format!("{method} {length} by length to {target}"), whole));
                let head = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
                let whole = [head.as_bytes(), &chunked(&body, 300)].concat();
                cases.push(Case::raw(format!("{method} {length} in chunks to {target}"), whole));
            }
        }
    }
    cases
}
