//! `gzip`.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/page.html", b"<p>a page that is long enough\n".repeat(3)),
        ("html/large.html", b"<p>a line of many\n".repeat(20_000)),
        ("html/short.html", b"<p>short\n".to_vec()),
        ("html/empty.html", Vec::new()),
        ("html/style.css", b"p { margin: 0 }\n".repeat(4)),
        ("html/data.json", b"{\"a\": 1}\n".repeat(9)),
        ("html/image.png", super::pattern(500)),
    ]
}

/// Targets that a client with `Accept-Encoding: gzip` asks for, by GET and HEAD.
const TARGETS: &[&str] = &[
    "/up-all/bytes/100000?cut=60000&by=fin",
    "/up-cut/chunked/100000?chunk=1000&cut=60000&by=fin",
    "/up-all/slow/300?step=100&every=50&cut=250&by=fin",
    "/up-all/bytes/1000?cut=0&by=fin",
    "/up-unbuffered/bytes/100000?cut=60000&by=fin",
    "/up-unbuffered/slow/300?step=100&every=50&cut=250&by=fin",
    "/up-late/slow/300?step=100&every=400&framing=chunked",
    "/plain/page.html",
    "/plain/large.html",
    "/plain/short.html",
    "/plain/empty.html",
    "/plain/style.css",
    "/plain/none",
    "/off/page.html",
    "/types/page.html",
    "/types/style.css",
    "/types/data.json",
    "/types/image.png",
    "/all/image.png",
    "/vary/style.css",
    "/vary/image.png",
    "/vary/short.html",
    "/min/page.html",
    "/min/large.html",
    "/min0/short.html",
    "/min1k/page.html",
    "/min1k/large.html",
    "/level/large.html",
    "/unchunked/page.html",
    "/disabled/page.html",
    "/no-etag/page.html",
    "/expires/page.html",
    "/trailed/page.html",
    "/sendfile/large.html",
    "/return/",
    "/return-plain/",
    "/return-404/",
    "/error/",
    "/error-403/",
    "/error-301/",
    "/paged/",
    "/paged-ok/",
    "/up/bytes/1000",
    "/up/bytes/10",
    "/up/bytes/300000",
    "/up/chunked/300000?chunk=5000",
    "/up/chunked/5",
    "/up/status/404",
    "/up/status/200?header=ETag:%22x%22&header=Accept-Ranges:bytes",
    "/up-all/bytes/100?header=x",
    "/up-all/status/200?header=ETag:W/%22x%22",
    "/up-all/status/200?header=ETag:x",
    "/up-all/status/200?header=Content-Encoding:br",
    "/up-all/status/200?header=Vary:Cookie",
    "/up-all/status/206",
    "/up-all/status/304",
    "/up-all/status/500",
    "/up-unbuffered/chunked/100000?chunk=1000",
    "/up-unbuffered/bytes/70000",
];

/// Requests for `/level/page.html`, by their fields.
const ENCODINGS: &[&str] = &[
    "",
    "Accept-Encoding: \r\n",
    "Accept-Encoding: gzip, deflate, br\r\n",
    "Accept-Encoding: deflate, gzip;q=0.5\r\n",
    "Accept-Encoding: gzip;q=0\r\n",
    "Accept-Encoding: gzip;q=0.0\r\n",
    "Accept-Encoding: gzip; q=1\r\n",
    "Accept-Encoding: gzip;q=1.1\r\n",
    "Accept-Encoding: GZIP\r\n",
    "Accept-Encoding: x-gzip\r\n",
    "Accept-Encoding: gzipped\r\n",
    "Accept-Encoding: *\r\n",
    "Accept-Encoding: identity\r\n",
];

/// Targets with further fields besides `Accept-Encoding: gzip`.
const FIELDS: &[(&str, &str)] = &[
    ("/plain/page.html", "Range: bytes=0-9\r\n"),
    ("/plain/image.png", "Range: bytes=0-9\r\n"),
    ("/plain/short.html", "Range: bytes=0-3\r\n"),
    ("/plain/page.html", "Range: bytes=900-\r\n"),
    ("/plain/page.html", "If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\n"),
    ("/plain/page.html", "If-None-Match: *\r\n"),
    ("/plain/page.html", "Via: 1.1 proxy\r\n"),
    ("/expires/page.html", "Via: 1.1 proxy\r\n"),
    ("/proxied-any/page.html", "Via: 1.1 proxy\r\n"),
    ("/proxied-auth/page.html", "Via: 1.1 proxy\r\n"),
    ("/proxied-auth/page.html", "Via: 1.1 proxy\r\nAuthorization: Basic eDp5\r\n"),
    ("/proxied-lm/page.html", "Via: 1.1 proxy\r\n"),
    ("/proxied-etag/page.html", "Via: 1.1 proxy\r\n"),
    ("/up-all/status/200?header=Cache-Control:no-cache", "Via: 1.1 proxy\r\n"),
    ("/up-all/status/200?header=Cache-Control:max-age%3D9", "Via: 1.1 proxy\r\n"),
    ("/up-all/status/200?header=Cache-Control:private,%20x", "Via: 1.1 proxy\r\n"),
    ("/up-all/status/200?header=Expires:Thu,%2001%20Jan%201970%2000:00:01%20GMT", "Via: 1.1 proxy\r\n"),
    ("/up-all/status/200?header=Expires:0", "Via: 1.1 proxy\r\n"),
    ("/up-all/status/200", "Via: 1.1 proxy\r\n"),
    ("/disabled/page.html", "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)\r\n"),
    ("/disabled/page.html", "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)\r\n"),
    ("/disabled/page.html", "User-Agent: An Old Web Browser\r\n"),
    ("/disabled/page.html", "User-Agent: curl\r\n"),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let request = |method: &str, target: &str, version: &str, fields: &str| {
        format!("{method} {target} HTTP/{version}\r\nHost: a.test\r\n{fields}\r\n")
    };
    for target in TARGETS {
        for method in ["GET", "HEAD"] {
            let bytes = request(method, target, "1.1", "Accept-Encoding: gzip\r\n");
            cases.push(Case::raw(format!("{method} {target}"), bytes));
        }
    }
    for fields in ENCODINGS {
        let bytes = request("GET", "/level/page.html", "1.1", fields);
        cases.push(Case::raw(format!("encoding {fields:?}"), bytes));
    }
    for (target, fields) in FIELDS {
        let bytes = request("GET", target, "1.1", &format!("Accept-Encoding: gzip\r\n{fields}"));
        cases.push(Case::raw(format!("{target} with {fields:?}"), bytes));
    }
    for target in ["/plain/page.html", "/one-zero/page.html", "/one-zero/none", "/up-one-zero/bytes/500"] {
        for fields in ["", "Connection: keep-alive\r\n"] {
            let bytes = request("GET", target, "1.0", &format!("Accept-Encoding: gzip\r\n{fields}"));
            cases.push(Case::raw(format!("1.0 {target} {fields:?}"), bytes));
        }
    }
    let one = request("GET", "/plain/page.html", "1.1", "Accept-Encoding: gzip\r\n");
    let other = request("GET", "/up/bytes/1000", "1.1", "Accept-Encoding: gzip\r\n");
    let plain = request("GET", "/plain/page.html", "1.1", "");
    cases.push(Case::pipeline("several", &[one.as_bytes(), other.as_bytes(), plain.as_bytes()]));
    cases
}
