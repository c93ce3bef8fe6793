//! `X-Accel-*`, `merge_slashes`, `ignore_invalid_headers`, and `error_page`.

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
    "/told/",
    "/told-as/",
    "/told-away/",
    "/told-before/",
    "/told-in-page/",
    "/told-in-own/",
    "/go/1",
    "/go/2",
    "/go/3",
    "/go/4",
    "/go/5",
    "/go/6",
    "/go/7",
    "/go/8",
    "/go/9",
    "/go/b",
    "/go/c",
    "/go/d",
    "/go/e",
    "/file200/x",
    "/file404/x",
    "/file206/x",
];

/// Conditions on error pages that are files.
const CONDITIONS: &[&str] = &[
    "Range: bytes=2-4",
    "Range: bytes=20-",
    "Range: bytes=0-1,3-4",
    "If-None-Match: *",
    "If-Match: \"no\"",
    "If-Modified-Since: Fri, 31 Dec 2100 08:49:37 GMT",
];

/// Files in the directory of both sides.
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
    for target in ["/file200/x", "/file404/x", "/file206/x"] {
        for condition in CONDITIONS {
            let text = format!("GET {target} HTTP/1.1\r\nHost: pages.test\r\n{condition}\r\n\r\n");
            cases.push(Case::raw(format!("pages: {target} {condition}"), text).on(3));
        }
    }
    for target in PAGES {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "pages.test", target).named("pages").on(3));
        }
    }
    cases
}
