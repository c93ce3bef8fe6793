//! `X-Accel-*`, `merge_slashes`, `ignore_invalid_headers`, and how `error_page` goes on.

use super::Case;

const ACCEL: &[&str] = &[
    "/file",
    "/file?a=b",
    "/typed-file",
    "/json-file",
    "/file404",
    "/file500",
    "/none",
    "/spaced",
    "/args?x=1",
    "/noargs?x=1",
    "/unsafe",
    "/unsafe2",
    "/dots",
    "/named?x=1",
    "/unknown",
    "/again",
    "/again?x=1",
    "/loop",
    "/ignoring/x",
    "/passing/x",
    "/intercepting/x",
    "/buffering",
    "/hidden",
    "/private/a.txt",
    "/said",
];

const SLASHES: &[&str] =
    &["/a//b", "/a/b", "/a//c", "//x", "//", "/a/../b", "/a//../b", "/proxied//x", "/proxied/a//b?c//d"];

const LINES: &[&str] = &["X-Y: 1", "X_Y: 1", "X.Y: 1", "X!Y: 1", "X Y: 1", ": 1", "X-Y", "X\tY: 1"];

const PAGES: &[&str] = &[
    "/a404",
    "/a403?x=1",
    "/a410",
    "/a405",
    "/a418",
    "/a503?x=1",
    "/a500?page=own",
    "/a500",
    "/missing",
    "/nothing",
    "/deep/a",
    "/deep/b",
    "/deep/loop",
    "/shallow/a",
    "/shallow/b",
    "/reset/x",
];

/// What lies below the folder of both sides.
pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![("site/a.txt", b"0123456789".to_vec()), ("site/a b.txt", b"spaced".to_vec())]
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in ACCEL {
        for method in ["GET", "HEAD"] {
            cases.push(Case::simple(method, "accel.test", target).named("accel"));
        }
        let text = format!("POST {target} HTTP/1.1\r\nHost: accel.test\r\nContent-Length: 5\r\n\r\nhello");
        cases.push(Case::raw(format!("accel: POST {target}"), text));
    }
    let text = "GET /file HTTP/1.1\r\nHost: accel.test\r\nRange: bytes=2-4\r\n\r\n";
    cases.push(Case::raw("accel: a part of the file", text));
    for target in SLASHES {
        cases.push(Case::simple("GET", "heads.test", target).named("slashes").on(2));
    }
    for line in LINES {
        let text = format!("GET /x HTTP/1.1\r\nHost: heads.test\r\n{line}\r\n\r\n");
        cases.push(Case::raw(format!("invalid fields: {line}"), text).on(2));
    }
    for target in PAGES {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "pages.test", target).named("pages").on(3));
        }
    }
    cases
}
