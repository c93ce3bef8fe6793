//! `gzip_static`, `gunzip`, `sub_filter`.

use super::Case;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn page() -> Vec<u8> {
    b"<p>a page that is long enough\n".repeat(3)
}

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    let large = b"<p>a line of a page of many\n".repeat(20_000);
    vec![
        ("html/page.html", page()),
        ("html/page.html.gz", packed(&page())),
        ("html/only.html.gz", packed(b"only packed")),
        ("html/plain.html", b"<p>a page\n".to_vec()),
        ("html/large.html", large.clone()),
        ("html/large.html.gz", packed(&large)),
        ("html/folder.html", page()),
        ("html/folder.html.gz/index.html", page()),
        ("html/empty.html", Vec::new()),
        ("html/empty.html.gz", Vec::new()),
        ("html/style.css", b"a { margin: 0 }\n".repeat(4)),
        ("html/data.json", b"{\"a\": 100}\n".repeat(9)),
        ("html/dir/index.html", page()),
        ("html/dir/index.html.gz", packed(&page())),
        ("html/two.html.gz", [packed(b"first page, "), packed(b"second page")].concat()),
    ]
}

const STATIC: &[&str] = &[
    "/static/page.html",
    "/static/plain.html",
    "/static/only.html",
    "/static/none.html",
    "/static/large.html",
    "/static/folder.html",
    "/static/dir",
    "/static/dir/",
    "/static/page.html.gz",
    "/static-vary/page.html",
    "/static-vary/plain.html",
    "/static-vary/none.html",
    "/static-vary/folder.html",
    "/static-always/page.html",
    "/static-always/plain.html",
    "/static-always/only.html",
    "/static-off/page.html",
    "/static-gzip/page.html",
    "/static-gzip/plain.html",
    "/static-10/page.html",
    "/static-disabled/page.html",
    "/static-proxied/page.html",
    "/static-no-etag/page.html",
    "/static-unzip/page.html",
    "/static-unzip/large.html",
    "/static-unzip-vary/page.html",
    "/static-unzip-vary/plain.html",
    "/static-sendfile/large.html",
    "/static-try/x",
    "/static-added/page.html",
];

const UNPACKED: &[&str] = &[
    "/up-gunzip/page.html.gz",
    "/up-gunzip/large.html.gz",
    "/up-gunzip/two.html.gz",
    "/up-gunzip/only.html.gz",
    "/up-gunzip/upper/page.html.gz",
    "/up-gunzip/other/page.html.gz",
    "/up-gunzip/none/page.html.gz",
    "/up-gunzip/none.html",
    "/up-gunzip-vary/page.html.gz",
    "/up-gunzip-vary/none/page.html",
    "/up-gunzip-any/page.html.gz",
    "/up-gunzip-sub/large.html.gz",
    "/up-gunzip-gzip/page.html.gz",
    "/up-unbuffered/large.html.gz",
    "/up-force/page.html.gz",
    "/up-plain/page.html.gz",
];

const SUBSTITUTED: &[&str] = &[
    "/sub/page.html",
    "/sub/plain.html",
    "/sub/large.html",
    "/sub/style.css",
    "/sub/empty.html",
    "/sub/none.html",
    "/sub-all/page.html",
    "/sub-all/large.html",
    "/sub-types/style.css",
    "/sub-types/data.json",
    "/sub-types/page.html",
    "/sub-any/data.json",
    "/sub-dated/page.html",
    "/sub-two/page.html",
    "/sub-two-all/page.html",
    "/sub-case/page.html",
    "/sub-order/",
    "/sub-order-other/",
    "/sub-overlap/",
    "/sub-var/?text=ABC&by=x",
    "/sub-var/?text=ABC",
    "/sub-var/",
    "/sub-var-two/?text=a",
    "/sub-var-two/",
    "/sub-value/",
    "/sub-empty/",
    "/sub-nothing/",
    "/sub-404/x",
    "/sub-301/",
    "/sub-204/",
    "/sub-inherited/page.html",
    "/sub-inherited/own/page.html",
    "/sub-inherited/same/style.css",
    "/sub-inherited/same/page.html",
    "/sub-gzip/page.html",
    "/sub-around/page.html",
    "/sub-trailed/page.html",
    "/sub-slow/slow/300?step=7&every=5",
    "/sub-slow/slow/300?step=100&every=50&cut=250&by=fin",
    "/sub-up/bytes/1000",
    "/sub-up/bytes/100000",
    "/sub-up/chunked/100000?chunk=1000",
    "/sub-up/chunked/50000?chunk=7",
    "/sub-up/bytes/0",
    "/sub-up/status/304",
    "/sub-up/status/304?header=ETag:%22x%22&header=Content-Type:text/html",
    "/sub-up/status/204",
    "/sub-up/status/200?header=ETag:%22x%22&header=Accept-Ranges:bytes",
    "/sub-up/status/206",
    "/sub-up/status/500",
    "/sub-up/bytes/100000?cut=60000&by=fin",
    "/sub-up-unbuffered/bytes/100000",
    "/sub-up-unbuffered/chunked/100000?chunk=1000",
    "/sub-up-force/bytes/100",
];

/// Fields of requests.
const FIELDS: &[&str] = &[
    "Accept-Encoding: gzip",
    "Accept-Encoding: identity",
    "Accept-Encoding: gzip\r\nRange: bytes=1-5",
    "Range: bytes=1-5",
    "Accept-Encoding: gzip\r\nVia: 1.1 x",
    "Accept-Encoding: gzip\r\nUser-Agent: Old",
    "Accept-Encoding: gzip;q=0, *",
    "Accept-Encoding: gzip\r\nIf-None-Match: *",
    "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT",
    "Accept-Encoding: gzip\r\nIf-Match: \"x\"",
    "If-None-Match: \"tag\"",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in STATIC.iter().chain(UNPACKED).chain(SUBSTITUTED) {
        cases.push(Case::simple("GET", "changed.test", target));
        cases.push(Case::simple("HEAD", "changed.test", target));
        for version in ["1.0", "1.1"] {
            let bytes = format!("GET {target} HTTP/{version}\r\nHost: changed.test\r\nAccept-Encoding: gzip\r\n\r\n");
            cases.push(Case::raw(format!("{target} packed by {version}"), bytes));
        }
        let old = format!("GET {target} HTTP/1.0\r\nHost: changed.test\r\n\r\n");
        cases.push(Case::raw(format!("{target} by 1.0"), old));
    }
    for target in [
        "/static/page.html",
        "/static-vary/page.html",
        "/static-always/page.html",
        "/static-disabled/page.html",
        "/static-proxied/page.html",
        "/static-unzip/page.html",
        "/static-unzip-vary/page.html",
        "/up-gunzip/page.html.gz",
        "/up-gunzip-vary/page.html.gz",
        "/up-gunzip-any/page.html.gz",
        "/up-force/page.html.gz",
        "/sub/page.html",
        "/sub-dated/page.html",
        "/sub-up/bytes/100",
        "/sub-up-force/bytes/100",
        "/sub-order/",
    ] {
        for field in FIELDS {
            let bytes = format!("GET {target} HTTP/1.1\r\nHost: changed.test\r\n{field}\r\n\r\n");
            cases.push(Case::raw(format!("{target} with {field}"), bytes));
        }
    }
    for target in ["/static/page.html", "/static-always/only.html"] {
        let bytes = format!("POST {target} HTTP/1.1\r\nHost: changed.test\r\nContent-Length: 1\r\n\r\nx");
        cases.push(Case::raw(format!("POST {target}"), bytes));
    }
    cases
}
