//! `memcached_pass`.

use super::Case;

/// Targets for GET and HEAD.
const TARGETS: &[&str] = &[
    "/value/0",
    "/value/1",
    "/value/5",
    "/value/5/4294967295",
    "/value/5/x",
    "/value/1000",
    "/value/4096",
    "/value/100000",
    "/value/1000000",
    "/missing",
    "/page.html",
    "/style.css",
    "/data.json",
    "/none",
    "/packed",
    "/slow",
    "/echo/plain",
    "/echo/a%20b",
    "/echo/%25",
    "/echo/%01%1f%7f",
    "/echo/%0d%0aset%20x",
    "/echo/%c3%a4",
    "/echo/x?a=b&c=d%20e",
    "/echo/x?%",
    "/pooled/",
    "/dead/",
    "/small/",
    "/empty/",
    "/gone/",
    "/flag/",
    "/flag-gunzip/",
    "/other-flag/",
    "/bad-flag/",
    "/bad-flag-unused/",
    "/fallback/",
    "/fallback-gone/",
    "/paged/",
    "/not-found/",
    "/invalid/",
    "/late/",
    "/late-fallback/",
    "/gzip/",
    "/sub/",
    "/headers/",
    "/typed/x.html",
    "/typed/x.css",
    "/typed/x.unknown",
    "/no-ranges/",
    "/if/",
    "/if/?x=1",
];

/// Answers as the peer sends them, after the key `/raw?…` or `/end?…`; `KEY` is that key.
const ANSWERS: &[&str] = &[
    "END%0D%0A",
    "END%0A",
    "END",
    "ERROR%0D%0A",
    "CLIENT_ERROR%20bad%20key%0D%0A",
    "SERVER_ERROR%20out%20of%20memory%0D%0A",
    "VALUE%20/other%200%205%0D%0Ahello%0D%0AEND%0D%0A",
    "VALUE%20%0D%0A",
    "VALUE%0D%0A",
    "STORED%0D%0A",
    "HTTP/1.1%20200%20OK%0D%0A%0D%0A",
    "%81%00%00%00%00%00%00%00%0A",
    "%0D%0A",
    "%0A",
    "",
];

/// Ranges of a value of 100 bytes.
const RANGES: &[&str] = &[
    "bytes=0-9",
    "bytes=90-",
    "bytes=-5",
    "bytes=100-",
    "bytes=0-0",
    "bytes=99-200",
    "bytes=0-1,5-6",
    "bytes=x",
    "lines=0-1",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let request = |method: &str, target: &str, fields: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n")
    };
    for target in TARGETS {
        for method in ["GET", "HEAD"] {
            cases.push(Case::raw(format!("{method} {target}"), request(method, target, "")));
        }
    }
    for answer in ANSWERS {
        // An unfinished line of `/raw` waits for more until the timeout of a minute.
        if answer.ends_with("%0A") {
            cases.push(Case::raw(format!("raw {answer}"), request("GET", &format!("/raw?{answer}"), "")));
        }
        cases.push(Case::raw(format!("end {answer}"), request("GET", &format!("/end?{answer}"), "")));
    }
    for range in RANGES {
        for target in ["/value/100", "/no-ranges/", "/value/0"] {
            let bytes = request("GET", target, &format!("Range: {range}\r\n"));
            cases.push(Case::raw(format!("{target} {range}"), bytes));
        }
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"] {
        cases.push(Case::raw(format!("{method} value"), request(method, "/value/5", "Content-Length: 0\r\n")));
    }
    for body in ["abc", "a body"] {
        let fields = format!("Content-Length: {}\r\n", body.len());
        let bytes = request("GET", "/limited/", &fields) + body;
        cases.push(Case::raw(format!("GET with the body {body:?}"), bytes));
    }
    for fields in ["Accept-Encoding: gzip\r\n", "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n"] {
        for target in ["/gzip/", "/flag/", "/flag-gunzip/", "/value/100"] {
            cases.push(Case::raw(format!("{target} with {fields:?}"), request("GET", target, fields)));
        }
    }
    for fields in ["", "Connection: keep-alive\r\n"] {
        for target in ["/value/10", "/missing", "/pooled/"] {
            let bytes = format!("GET {target} HTTP/1.0\r\nHost: a.test\r\n{fields}\r\n");
            cases.push(Case::raw(format!("1.0 {target} {fields:?}"), bytes));
        }
    }
    let several = ["/pooled/", "/value/3", "/missing", "/pooled/", "/pooled/"].map(|target| request("GET", target, ""));
    cases.push(Case::pipeline("several", &several.each_ref().map(String::as_bytes)));
    cases
}
