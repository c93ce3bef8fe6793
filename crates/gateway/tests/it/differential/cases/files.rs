//! Files, and error pages.

use super::{Case, pattern};

/// The files of the two roots.
pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/index.html", b"the index\n".to_vec()),
        ("html/page.html", b"<p>a page\n".to_vec()),
        ("html/style.css", b"p {}\n".to_vec()),
        ("html/empty.html", Vec::new()),
        ("html/unknown.xyz", b"?".to_vec()),
        ("html/no-extension", b"plain".to_vec()),
        ("html/.hidden", b"hidden".to_vec()),
        ("html/UPPER.HTML", b"upper".to_vec()),
        ("html/a b.html", b"space".to_vec()),
        ("html/\u{e4}.html", b"umlaut".to_vec()),
        ("html/big.png", pattern(300_000)),
        ("html/sub/index.htm", b"the other index\n".to_vec()),
        ("html/sub/file.css", b"i {}\n".to_vec()),
        ("html/sub/no index/x", b"x".to_vec()),
        ("html/try/there.html", b"there".to_vec()),
        ("html/try/dir/index.html", b"the index of a directory".to_vec()),
        ("html/try/bare/x", b"x".to_vec()),
        ("html/errors/404.html", b"not here\n".to_vec()),
        ("html/errors/403.html", b"not for you\n".to_vec()),
        ("html/errors/50x.html", b"not now\n".to_vec()),
        ("html/errors/413.html", b"not so much\n".to_vec()),
        ("other/other-root/file.html", b"from the other root".to_vec()),
    ]
}

const PATHS: &[&str] = &[
    "/",
    "/?a=1",
    "/index.html",
    "/page.html",
    "/page.html?a=1",
    "/page.html/",
    "/page.html/more",
    "/style.css",
    "/empty.html",
    "/unknown.xyz",
    "/no-extension",
    "/.hidden",
    "/UPPER.HTML",
    "/a%20b.html",
    "/%C3%A4.html",
    "/big.png",
    "/sub",
    "/sub?a=1",
    "/sub/",
    "/sub/no%20index",
    "/sub/no%20index/",
    "/sub/file.css",
    "/none",
    "/none/",
    "/none/none",
    "//page.html",
    "/./page.html",
    "/sub/../page.html",
    "/sub/%2e%2e/page.html",
    "/sub/..%2fpage.html",
    "/alias/",
    "/alias/file.css",
    "/alias/none",
    "/alias",
    "/alias/no%20index",
    "/alias-file",
    "/alias-regex/file.css",
    "/alias-regex/none",
    "/other-root/file.html",
    "/other-root/",
    "/variable/x?root=/nowhere",
    "/other-index/",
    "/index-of-root/",
    "/sendfile/big.png",
    "/sendfile/empty.html",
    "/internal/page.html",
    "/typed/page.html",
    "/typed/unknown.xyz",
    "/try/there.html",
    "/try/none",
    "/try/dir",
    "/try/dir?a=1",
    "/try/dir/",
    "/try/bare",
    "/try/bare/",
    "/try-dir/x",
    "/try-alias/page.html",
    "/try-alias/sub",
    "/try-alias/sub/",
    "/try-alias/none",
    "/try-alias/",
    "/try/",
    "/try-code/none",
    "/try-named/none?a=1",
    "/try-args/x?b=2",
    "/try-regex/sub/file.css",
    "/try-regex/sub/file.css?a=1",
    "/try-regex/sub/none",
    "/try-regex/sub/",
    "/try-regex/try/dir",
    "/try-regex/try/dir/",
    "/try-regex/none/x",
    "/try-regex-uri/page.html",
    "/try-regex-uri/sub",
    "/try-regex-last/sub/none?a=1",
    "/try-regex-named/sub/none",
    "/try-regex-named/sub/file.css",
    "/try-regex-index/sub/",
    "/try-alias-fixed/x",
    "/try-alias-other/x",
    "/try-alias-last/none",
    "/try-alias-last/page.html",
    "/try-alias-cut/none",
    "/try-alias-again/none",
    "/try-alias-bare/x",
    "/try-alias-bare",
    "/try-alias-slash/sub/file.css",
    "/alias-rewritten/page.html",
    "/alias-rewritten/",
    "/try-alias-rewritten/page.html",
    "/alias-regex-rewritten/page.html",
];

const METHODS: &[&str] = &["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"];

/// Ranges of a page of 10 bytes.
const RANGES: &[&str] = &[
    "bytes=0-0",
    "bytes=0-",
    "bytes=2-5",
    "bytes=-3",
    "bytes=-0",
    "bytes=-100",
    "bytes=9-",
    "bytes=10-",
    "bytes=5-100",
    "bytes=5-4",
    "bytes=0-1,3-4",
    "bytes=0-1, 3-4",
    "bytes=0-1,100-",
    "bytes=100-,200-",
    "bytes=0-9,0-9",
    "bytes=0-4,2-9",
    "bytes=",
    "bytes=a-b",
    "bytes=1",
    "bytes =0-1",
    "Bytes=0-1",
    "lines=0-1",
    "bytes=0-99999999999999999999",
    "bytes= 0 - 1 ",
];

const PAST: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const FUTURE: &str = "Fri, 31 Dec 2100 08:49:37 GMT";

/// Errors on the server with error pages.
const ERRORS: &[&str] = &[
    "/none",
    "/none.html",
    "/403",
    "/410",
    "/418?a",
    "/429",
    "/402",
    "/409",
    "/500",
    "/404-text",
    "/dead/x",
    "/silent/x",
    "/dead-to-named/x",
    "/own-page/x",
    "/loop/x",
    "/errors/404.html",
    "/errors",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for host in ["UPPER.test", "dotted.test.", "Both.Test.:81"] {
        for target in ["/sub", "/try/dir", "/alias"] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            cases.push(Case::raw(format!("{target} for {host}"), text));
        }
    }
    for path in PATHS {
        cases.push(Case::simple("GET", "files.test", path));
    }
    for method in METHODS {
        for path in ["/page.html", "/sub/", "/sub", "/none", "/"] {
            cases.push(Case::simple(method, "files.test", path));
        }
    }
    for range in RANGES {
        cases.push(with("/page.html", &format!("Range: {range}")));
    }
    for path in ["/no-ranges/page.html", "/one-range/page.html", "/sendfile/big.png", "/none", "/"] {
        for range in ["bytes=1-2", "bytes=1-2,4-5", "bytes=299990-"] {
            cases.push(with(path, &format!("Range: {range}")));
        }
    }
    for lines in [
        format!("If-Modified-Since: {PAST}"),
        format!("If-Modified-Since: {FUTURE}"),
        format!("If-Unmodified-Since: {PAST}"),
        format!("If-Unmodified-Since: {FUTURE}"),
        "If-Modified-Since: yesterday".to_owned(),
        "If-None-Match: *".to_owned(),
        "If-None-Match: \"none\"".to_owned(),
        "If-None-Match: \"a\", W/\"b\"".to_owned(),
        "If-Match: *".to_owned(),
        "If-Match: \"none\"".to_owned(),
        format!("If-None-Match: \"none\"\r\nIf-Modified-Since: {FUTURE}"),
        format!("If-Range: {PAST}\r\nRange: bytes=0-1"),
        "If-Range: \"none\"\r\nRange: bytes=0-1".to_owned(),
        "If-None-Match: *\r\nRange: bytes=0-1".to_owned(),
    ] {
        for path in ["/page.html", "/none", "/"] {
            cases.push(with(path, &lines));
        }
    }
    for path in ERRORS {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "errors.test", path).named("error").on(1));
        }
    }
    for (path, length) in
        [("/small/x", 9), ("/none", 9), ("/403", 9), ("/418", 9), ("/echo/dead/x?a", 9), ("/echo/dead-to-page/x?a", 9)]
    {
        let text = format!("POST {path} HTTP/1.1\r\nHost: errors.test\r\nContent-Length: {length}\r\n\r\n123456789");
        cases.push(Case::raw(format!("error with a body: {path}"), text).on(1));
    }
    cases.push(Case::raw("error: malformed", "GET / HTTP/1.1\r\n\r\n").on(1));
    for path in ["/page.html", "/sub", "/none"] {
        cases.push(Case::raw(format!("1.0 {path}"), format!("GET {path} HTTP/1.0\r\n\r\n")));
    }
    let page: &[u8] = b"GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n";
    let big: &[u8] = b"GET /sendfile/big.png HTTP/1.1\r\nHost: a\r\n\r\n";
    let head: &[u8] = b"HEAD /big.png HTTP/1.1\r\nHost: a\r\n\r\n";
    let none: &[u8] = b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n";
    cases.push(Case::pipeline("pipeline of files", &[page, big, head, none, big, page]));
    cases
}

fn with(path: &str, lines: &str) -> Case {
    Case::raw(format!("{path} {lines}"), format!("GET {path} HTTP/1.1\r\nHost: files.test\r\n{lines}\r\n\r\n"))
}
