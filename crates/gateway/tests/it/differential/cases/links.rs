//! `secure_link`, `valid_referers`, `empty_gif`.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![("html/a.txt", b"0123456789".to_vec())]
}

const PLACES: &[&str] = &[
    "/ref/any/",
    "/ref/names/",
    "/ref/paths/",
    "/ref/regex/",
    "/ref/strict/a.txt",
    "/ref/several/",
    "/ref/outer/",
    "/ref/outer/same/",
    "/ref/outer/own/",
    "/ref/outer/own-re/",
    "/ref/without/",
];

const REFERERS: &[&str] = &[
    "",
    "-",
    "secret",
    "http://",
    "http://a.t",
    "http://a.test",
    "https://a.test",
    "HTTP://A.TEST/X/",
    "http://a.test/",
    "http://a.test/x/",
    "http://a.test/x",
    "http://a.test:8080/x/y",
    "http://a.test:8080",
    "http://b.test/y",
    "http://www.b.test/y",
    "http://a.b.test/",
    "http://c.example/",
    "http://c.a.b/",
    "http://xc.example/",
    "http://user@a.test/",
    "ftp://a.test/",
    "http://links.test/",
    "http://sub.links.test/",
    "http://re12.test/",
    "http://re.test/",
    "http://www.google.com/search?q=1",
    "https://www.google.com/",
    "http://other.test/?q=a.test",
    "http://own.test/",
    "http://a.test./",
    "//a.test/x/y/z/",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in include_str!("links-targets.txt").lines() {
        cases.push(Case::simple("GET", "links.test", target));
        cases.push(Case::simple("HEAD", "links.test", target));
    }
    for place in PLACES {
        cases.push(Case::simple("GET", "links.test", place));
        for referer in REFERERS {
            let bytes = format!("GET {place} HTTP/1.1\r\nHost: links.test\r\nReferer: {referer}\r\n\r\n");
            cases.push(Case::raw(format!("{place} from {referer:?}"), bytes));
        }
        let long = format!("http://{}/", "a".repeat(300));
        let bytes = format!("GET {place} HTTP/1.1\r\nHost: links.test\r\nReferer: {long}\r\n\r\n");
        cases.push(Case::raw(format!("{place} from a long name"), bytes));
    }
    for target in ["/pixel", "/pixel-headed", "/pixel-type"] {
        for method in ["GET", "HEAD", "POST", "PUT"] {
            cases.push(Case::simple(method, "links.test", target));
        }
        for field in [
            "If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT",
            "If-Modified-Since: Mon, 28 Sep 1970 06:00:01 GMT",
            "Range: bytes=0-1",
            "If-None-Match: *",
            "If-Unmodified-Since: Mon, 28 Sep 1960 06:00:00 GMT",
        ] {
            let bytes = format!("GET {target} HTTP/1.1\r\nHost: links.test\r\n{field}\r\n\r\n");
            cases.push(Case::raw(format!("{target} with {field}"), bytes));
        }
    }
    cases
}
