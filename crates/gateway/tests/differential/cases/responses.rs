//! What is put around an answer: intercepted errors, redirects, fields, access.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/page.html", b"<p>a page\n".to_vec()),
        ("html/sub/x.css", b"i {}\n".to_vec()),
        ("html/data.bin", super::pattern(1000)),
    ]
}

const PATHS: &[&str] = &[
    "/intercepted/status/200",
    "/intercepted/status/401?header=WWW-Authenticate:Basic%20realm%3Dx",
    "/intercepted/status/401?header=WWW-Authenticate:Basic&header=www-authenticate:Digest",
    "/intercepted/status/402",
    "/intercepted/status/403",
    "/intercepted/status/404",
    "/intercepted/status/404?header=X-Kept:1",
    "/intercepted/status/409?a",
    "/intercepted/status/410",
    "/intercepted/status/418",
    "/intercepted/status/302?header=Location:/x",
    "/intercepted/status/304",
    "/intercepted/status/405",
    "/intercepted/status/500",
    "/intercepted/status/502",
    "/intercepted/status/503",
    "/not-intercepted/status/404",
    "/relative/",
    "/relative-directory/sub",
    "/no-port/",
    "/own-name/",
    "/own-name-directory/sub",
    "/proxied-relative/status/302?header=Location:/x",
    "/no-etag/page.html",
    "/tokens/",
    "/unchunked/chunked/10",
    "/chunked/chunked/10",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in PATHS {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "second.test", path));
        }
    }
    for place in ["no-etag", "since-off", "since-before"] {
        for line in [
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
            "If-Modified-Since: Fri, 31 Dec 2100 08:49:37 GMT",
            "If-None-Match: *",
            "If-Match: *",
            "If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\nRange: bytes=0-1",
        ] {
            cases.push(with(&format!("/{place}/page.html"), line));
        }
    }
    let body = "POST /intercepted/status/404 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    cases.push(Case::raw("intercepted with a body", body));
    cases
}

fn with(path: &str, lines: &str) -> Case {
    Case::raw(format!("{path} {lines}"), format!("GET {path} HTTP/1.1\r\nHost: first.test\r\n{lines}\r\n\r\n"))
}
