//! Edits of responses: intercepted errors, redirects, fields, access.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/page.html", b"<p>a page\n".to_vec()),
        ("html/sub/x.css", b"i {}\n".to_vec()),
        ("html/empty.html", Vec::new()),
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
    "/added/page/page.html",
    "/added/page/page.html?tag=%22x%22&date=Sun,",
    "/added/page/sub",
    "/added/page/none",
    "/added/proxied/status/200",
    "/added/proxied/status/200?header=X-One:theirs&header=ETag:%22y%22&header=Cache-Control:no-store",
    "/added/proxied/status/206",
    "/added/proxied/status/304",
    "/added/proxied/status/404",
    "/added/proxied/status/500",
    "/added/proxied/chunked/10",
    "/added/return/200",
    "/added/return/204",
    "/added/return/301",
    "/added/return/404",
    "/added/return/404-text",
    "/added/replaced/",
    "/added/error/",
    "/epoch/page.html",
    "/epoch/none",
    "/max/status/200?header=Expires:0&header=Expires:1&header=Cache-Control:no-store&header=Cache-Control:no-cache",
    "/max/status/404?header=Expires:0",
    "/off/status/200?header=Expires:0",
    "/variable/status/200?when=epoch",
    "/variable/status/200?when=max&header=Expires:0",
    "/variable/status/200?when=off&header=Expires:0",
    "/variable/status/200?when=nonsense&header=Expires:0",
    "/variable/status/200",
    "/trailed/page/page.html",
    "/trailed/page/data.bin",
    "/trailed/page/empty.html",
    "/trailed/page/none",
    "/trailed/proxied/status/200",
    "/trailed/proxied/status/404",
    "/trailed/proxied/status/304",
    "/trailed/proxied/chunked/100",
    "/trailed/return/200",
    "/trailed/return/404",
    "/trailed/return/204",
    "/trailed/unchunked",
    "/access/page.html",
    "/access/denied/page.html",
    "/access/other/page.html",
    "/access/any/page.html",
    "/access/return/x",
    "/access/proxied/status/200",
    "/access/page/x",
    "/access/page-denied/x",
    "/access/named/x",
    "/access/try/x",
    "/access/index/",
    "/variables/",
    "/body/status/200?header=X-Origin:1&header=X-Origin:2",
    "/body/status/302?header=Location:/x",
    "/limited/page.html",
    "/limited-to-proxy/x",
    "/limited-allowed/status/200",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in PATHS {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "second.test", path));
        }
    }
    for method in ["PUT", "DELETE", "OPTIONS", "PROPFIND", "BREW"] {
        for path in ["/limited/page.html", "/limited-to-proxy/x", "/limited-allowed/status/200"] {
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
    for line in
        ["Range: bytes=0-1", "Range: bytes=0-0,-1", "Range: bytes=20-", "If-None-Match: *", "If-Match: \"none\""]
    {
        for place in ["added", "trailed"] {
            cases.push(with(&format!("/{place}/page/page.html"), line));
        }
    }
    for range in ["0-0,-1", "1-2,4-5", "900-,0-99", "0-499,400-899", "0-899,100-", "0-1,2000-", "0-1,5-4", ""] {
        cases.push(with("/no-etag/data.bin", &format!("Range: bytes={range}")));
    }
    cases.push(with("/no-etag/empty.html", "Range: bytes=0-"));
    cases.push(with("/no-etag/empty.html", "Range: bytes=-1"));
    for path in ["/trailed/page/page.html", "/added/page/page.html"] {
        cases.push(Case::raw(format!("1.0 {path}"), format!("GET {path} HTTP/1.0\r\n\r\n")));
    }
    for (length, what) in [(0, "empty"), (5, "short"), (100, "full")] {
        let head = format!("POST /body/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        cases.push(Case::raw(format!("body: {what}"), [head.as_bytes(), &vec![b'x'; length]].concat()));
    }
    let chunked = [
        b"POST /body/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        &super::chunked(b"abcdef", 2)[..],
    ];
    cases.push(Case::raw("body: chunked", chunked.concat()));
    for value in
        ["Basic dXNlcjpzZWNyZXQ=", "Basic dXNlcg==", "Basic !!", "Bearer x", "basic  dXNlcjo6", "Basic OnNlY3JldA=="]
    {
        cases.push(with("/variables/", &format!("Authorization: {value}")));
    }
    let body = "POST /intercepted/status/404 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    cases.push(Case::raw("intercepted with a body", body));
    cases
}

fn with(path: &str, lines: &str) -> Case {
    Case::raw(format!("{path} {lines}"), format!("GET {path} HTTP/1.1\r\nHost: first.test\r\n{lines}\r\n\r\n"))
}
