//! `brotli` and `brotli_static`, alone and beside gzip.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    let page = || b"<p>a page that is long enough\n".repeat(3);
    let packed = |bytes: &[u8]| {
        let mut out = Vec::new();
        brotli::BrotliCompress(&mut &*bytes, &mut out, &brotli::enc::BrotliEncoderParams::default()).unwrap();
        out
    };
    vec![
        ("html/page.html", page()),
        ("html/large.html", b"<p>a line of many\n".repeat(20_000)),
        ("html/short.html", b"<p>short\n".to_vec()),
        ("html/empty.html", Vec::new()),
        ("html/style.css", b"p { margin: 0 }\n".repeat(4)),
        ("html/data.json", b"{\"a\": 1}\n".repeat(9)),
        ("html/image.png", super::pattern(500)),
        ("html/ready/page.html", page()),
        ("html/ready/page.html.br", packed(b"<p>the page that was made ready with brotli\n")),
        ("html/ready/page.html.gz", b"not gzip, but that makes no difference here\n".to_vec()),
        ("html/ready/only.html", page()),
        ("html/ready/only.html.gz", b"the only form\n".to_vec()),
        ("html/ready/plain.html", page()),
        ("html/ready/folder.html", page()),
        ("html/ready/folder.html.br/x", page()),
        ("html/ready/gone.html.br", packed(b"<p>only the ready-made form\n")),
    ]
}

/// Targets that a client with `Accept-Encoding: br` asks for, by GET and HEAD.
const TARGETS: &[&str] = &[
    "/plain/page.html",
    "/plain/large.html",
    "/plain/short.html",
    "/plain/empty.html",
    "/plain/style.css",
    "/plain/none",
    "/off/page.html",
    "/both/page.html",
    "/both-vary/style.css",
    "/both-vary/image.png",
    "/gzip/page.html",
    "/gzip-css/style.css",
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
    "/level0/large.html",
    "/level4/large.html",
    "/level6/large.html",
    "/unchunked/page.html",
    "/no-etag/page.html",
    "/trailed/page.html",
    "/sendfile/large.html",
    "/encoded/short.html",
    "/ready/page.html",
    "/ready/only.html",
    "/ready/plain.html",
    "/ready/folder.html",
    "/ready/gone.html",
    "/ready/none.html",
    "/ready-vary/page.html",
    "/ready-vary/plain.html",
    "/ready-always/page.html",
    "/ready-always/plain.html",
    "/ready-both/page.html",
    "/ready-both/only.html",
    "/ready-both/plain.html",
    "/ready-and-on/page.html",
    "/ready-and-on/plain.html",
    "/return/",
    "/return-plain/",
    "/return-404/",
    "/error/",
    "/error-403/",
    "/error-301/",
    "/paged/",
    "/up/bytes/1000",
    "/up/bytes/10",
    "/up/bytes/300000",
    "/up/chunked/300000?chunk=5000",
    "/up/chunked/5",
    "/up/status/404",
    "/up/status/200?header=ETag:%22x%22&header=Accept-Ranges:bytes",
    "/up-all/status/200?header=ETag:W/%22x%22",
    "/up-all/status/200?header=ETag:x",
    "/up-all/status/200?header=Content-Encoding:gzip",
    "/up-all/status/200?header=Vary:Cookie",
    "/up-all/status/206",
    "/up-all/status/304",
    "/up-all/status/500",
    "/up-all/bytes/100000?cut=60000&by=fin",
    "/up-both/bytes/1000",
    "/up-unbuffered/chunked/100000?chunk=1000",
    "/up-unbuffered/bytes/70000",
];

/// `Accept-Encoding` of requests for pages that may be compressed in both ways, or are ready-made in both.
const ENCODINGS: &[&str] = &[
    "",
    "gzip",
    "gzip, deflate, br",
    "gzip, deflate, br, zstd",
    "br;q=0.5",
    "br;q=0",
    "br;q=0.0",
    "br;q=0.001",
    "br; q=1",
    "br;q=1.1",
    "br;q=0, gzip",
    "gzip, br;q=0",
    "gzip;q=0, br",
    "BR",
    "brx",
    "xbr",
    "x-br",
    "br,gzip",
    "gzip,br",
    "*",
    "identity",
];

/// Targets with further fields.
const FIELDS: &[(&str, &str)] = &[
    ("/plain/page.html", "Range: bytes=0-9\r\n"),
    ("/plain/image.png", "Range: bytes=0-9\r\n"),
    ("/plain/short.html", "Range: bytes=0-3\r\n"),
    ("/plain/page.html", "If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\n"),
    ("/plain/page.html", "If-None-Match: *\r\n"),
    ("/plain/page.html", "Via: 1.1 proxy\r\n"),
    ("/both/page.html", "Via: 1.1 proxy\r\n"),
    ("/old/page.html", "User-Agent: Old\r\n"),
    ("/old/page.html", "User-Agent: New\r\n"),
    ("/ready/page.html", "Range: bytes=0-3\r\n"),
    ("/ready/page.html", "If-None-Match: *\r\n"),
    ("/ready/page.html", "If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\n"),
    ("/ready/page.html", "Via: 1.1 proxy\r\n"),
    ("/if/page.html", ""),
    ("/if/page.html?br=1", ""),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let request = |method: &str, target: &str, version: &str, fields: &str| {
        format!("{method} {target} HTTP/{version}\r\nHost: a.test\r\n{fields}\r\n")
    };
    for target in TARGETS {
        for method in ["GET", "HEAD"] {
            let bytes = request(method, target, "1.1", "Accept-Encoding: br\r\n");
            cases.push(Case::raw(format!("{method} {target}"), bytes));
        }
    }
    for target in ["/both-vary/page.html", "/ready-both/page.html", "/ready-vary/plain.html"] {
        for encoding in ENCODINGS {
            let bytes = request("GET", target, "1.1", &format!("Accept-Encoding: {encoding}\r\n"));
            cases.push(Case::raw(format!("{target} for {encoding:?}"), bytes));
        }
        cases.push(Case::raw(format!("{target} without"), request("GET", target, "1.1", "")));
    }
    for (target, fields) in FIELDS {
        let bytes = request("GET", target, "1.1", &format!("Accept-Encoding: gzip, br\r\n{fields}"));
        cases.push(Case::raw(format!("{target} with {fields:?}"), bytes));
    }
    for target in ["/plain/page.html", "/both/page.html", "/ready-old/page.html", "/ready-both/page.html"] {
        for fields in ["", "Connection: keep-alive\r\n"] {
            let bytes = request("GET", target, "1.0", &format!("Accept-Encoding: gzip, br\r\n{fields}"));
            cases.push(Case::raw(format!("1.0 {target} {fields:?}"), bytes));
        }
    }
    cases.push(Case::raw(
        "POST",
        "POST /ready/page.html HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: br\r\nContent-Length: 0\r\n\r\n",
    ));
    let preferring = request("GET", "/both-vary/page.html", "1.1", "Accept-Encoding: gzip, br;q=0.5\r\n");
    cases.push(Case::raw("gzip before br", preferring));
    let one = request("GET", "/plain/page.html", "1.1", "Accept-Encoding: br\r\n");
    let other = request("GET", "/up/bytes/1000", "1.1", "Accept-Encoding: br\r\n");
    let plain = request("GET", "/plain/page.html", "1.1", "");
    cases.push(Case::pipeline("several", &[one.as_bytes(), other.as_bytes(), plain.as_bytes()]));
    cases
}
