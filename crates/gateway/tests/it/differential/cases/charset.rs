//! `charset` and its kin.

use super::Case;

/// Letters, a line end, and bytes that the tables lack.
fn koi() -> Vec<u8> {
    b"<p>a page \xe1\xe2\xc1\xc2 \x80 \xa3 \xff\n".repeat(3)
}

fn utf8() -> Vec<u8> {
    "<p>a page АБ аб ─ ё ж \u{1f600}\n".repeat(3).into_bytes()
}

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    let broken =
        b"a\xffb \xc1\x80 \xe0\x80\x80. \xf8\x90\x80\x80. \xf7\xbf\xbf\xbf. \xed\xa0\x80 \xd0A \xe2\x94".to_vec();
    vec![
        ("html/page.html", koi()),
        ("html/utf.html", utf8()),
        ("html/page.css", koi()),
        ("html/page.js", koi()),
        ("html/page.koi", koi()),
        ("html/part.html", b"part \xc1\xc2\n".to_vec()),
        ("html/ascii.html", b"<p>a page of ASCII\n".repeat(40)),
        ("html/broken.html", broken),
        ("html/large.html", koi().repeat(3000)),
        ("html/large-utf.html", utf8().repeat(3000)),
        ("html/empty.html", Vec::new()),
        ("html/image.png", koi()),
        ("html/names/ein-äußerst-langer-Name-mit-Umlauten-öäü-der-gerade-passt", b"x".to_vec()),
        ("html/names/ein-äußerst-langer-Name-mit-Umlauten-öäü-der-nicht-mehr-passt", b"x".to_vec()),
        ("html/names/ümlaut/x", b"x".to_vec()),
        ("html/names/plain", b"x".to_vec()),
    ]
}

const TARGETS: &[&str] = &[
    "/name/page.html",
    "/name/page.css",
    "/name/page.js",
    "/name/page.koi",
    "/name/image.png",
    "/name/none.html",
    "/name-off/page.html",
    "/name-types/page.css",
    "/name-types/page.html",
    "/name-types/image.png",
    "/name-any/image.png",
    "/name-text/",
    "/name-empty/",
    "/name-204/",
    "/name-redirect/",
    "/name-303/",
    "/name-error/",
    "/name-page/x",
    "/name-added/page.html",
    "/name-list/",
    "/name-list-off/",
    "/name-list-koi/",
    "/name-if/page.html",
    "/name-if/page.html?a=1",
    "/name-inherited/page.html",
    "/name-inherited/own/page.html",
    "/name-inherited/types/page.css",
    "/var/page.html?c=utf-8",
    "/var/page.html?c=klingon",
    "/var/page.html?c=",
    "/var-source/page.html?s=koi8-r",
    "/var-source/page.html?s=KOI8-R",
    "/var-source/page.html?s=utf-8",
    "/var-source/page.html?s=windows-1251",
    "/var-source/page.html?s=klingon",
    "/var-both/page.html?c=utf-8&s=koi8-r",
    "/var-both/page.html?c=latin1&s=koi8-r",
    "/var-both/page.html?c=klingon&s=klingon",
    "/var-both/page.html?c=latin1&s=utf-8",
    "/to-utf/page.html",
    "/to-utf/page.css",
    "/to-utf/ascii.html",
    "/to-utf/large.html",
    "/to-utf/empty.html",
    "/from-utf/utf.html",
    "/from-utf/page.html",
    "/from-utf/broken.html",
    "/from-utf/large-utf.html",
    "/from-utf/empty.html",
    "/bytes/page.html",
    "/bytes/large.html",
    "/bytes-back/page.html",
    "/same/page.html",
    "/to-utf-gzip/page.html",
    "/to-utf-sub/page.html",
    "/to-utf-sent/large.html",
    "/text-utf/",
    "/up/page.html",
    "/up/named/page.html",
    "/up/image/page.html",
    "/up/moved/",
    "/up/said/page.html",
    "/up/said-koi/page.html",
    "/up/said-klingon/page.html",
    "/up-override/page.html",
    "/up-override/named/page.html",
    "/up-override/named/large.html",
    "/up-override/quoted/page.html",
    "/up-override/utf/utf.html",
    "/up-override/klingon/page.html",
    "/up-override/image/page.html",
    "/up-override/image-named/page.html",
    "/up-override/moved/",
    "/up-override-bytes/named/page.html",
    "/up-override-bytes/utf/page.html",
    "/up-override-upper/utf/utf.html",
    "/up-source/page.html",
    "/up-source/large.html",
    "/up-source/utf/utf.html",
    "/up-source/packed/page.html",
    "/up-off/page.html",
    "/up-off/said/page.html",
    "/up-off/said/image/page.html",
    "/up-off-source/page.html",
    "/up-off-source/said/page.html",
    "/up-off-source/said-koi/page.html",
    "/up-ignored/said/page.html",
    "/up-unbuffered/page.html",
    "/up-unbuffered/large.html",
    "/up-force/page.html",
    "/up-force-utf/page.html",
    "/stream/bytes/1000",
    "/stream/chunked/100000?chunk=1000",
    "/stream/status/204",
    "/stream/status/304?header=Content-Type:text/html",
    "/stream/status/200?header=ETag:%22x%22&header=Accept-Ranges:bytes",
    "/stream/bytes/100000?cut=60000&by=fin",
    "/stream-from/chunked/5000?chunk=7",
    "/around/page.html",
    "/around-koi/page.html",
    "/around-recoded/page.html",
    "/around-none/page.html",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in TARGETS {
        cases.push(Case::simple("GET", "charset.test", target));
        // The page's length differs if it contains the server's name.
        if !["/name/none.html", "/name-error/", "/name-303/"].contains(target) {
            cases.push(Case::simple("HEAD", "charset.test", target));
        }
        let old = format!("GET {target} HTTP/1.0\r\nHost: charset.test\r\n\r\n");
        cases.push(Case::raw(format!("{target} by 1.0"), old));
    }
    let targets =
        ["/name/page.html", "/to-utf/page.html", "/bytes/page.html", "/up-force/page.html", "/up-force-utf/page.html"];
    for target in targets {
        for field in ["Range: bytes=2-9", "Accept-Encoding: gzip", "If-None-Match: *"] {
            let bytes = format!("GET {target} HTTP/1.1\r\nHost: charset.test\r\n{field}\r\n\r\n");
            cases.push(Case::raw(format!("{target} with {field}"), bytes));
        }
    }
    let several = "GET /name/page.html HTTP/1.1\r\nHost: charset.test\r\nRange: bytes=0-1,4-9\r\n\r\n";
    cases.push(Case::raw("several parts of /name/page.html", several));
    cases
}
