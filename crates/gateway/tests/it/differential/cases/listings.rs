//! `autoindex`, `random_index`.

use super::{Case, pattern};

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/sub/a.txt", pattern(10)),
        ("html/sub/B.txt", pattern(9_999)),
        ("html/sub/c.txt", pattern(10_000)),
        ("html/sub/d.txt", pattern(10_751)),
        ("html/sub/e.txt", pattern(1_572_864)),
        ("html/sub/empty", Vec::new()),
        ("html/sub/.hidden", pattern(1)),
        ("html/sub/inner/x.html", pattern(1)),
        ("html/sub/Zinner/x", pattern(1)),
        ("html/names/with space.txt", pattern(1)),
        ("html/names/a&b<c>\"d'.txt", pattern(1)),
        ("html/names/per%cent#hash?mark.txt", pattern(1)),
        ("html/names/co:lon;semi+plus.txt", pattern(1)),
        ("html/names/back\\slash", pattern(1)),
        ("html/names/tab\tand\nline", pattern(1)),
        ("html/names/ümlaut.txt", pattern(1)),
        ("html/names/exactly-fifty-letters-long-name-of-a-file-1234.txt", pattern(1)),
        ("html/names/one-more-than-fifty-letters-long-name-of-a-file-12.txt", pattern(1)),
        ("html/names/a-long-name-with-signs-<&>-that-is-cut-somewhere-<&>-here", pattern(1)),
        ("html/names/a-directory-of-forty-nine-letters-long-name-of-ab/x", pattern(1)),
        ("html/names/a-directory-of-fifty-letters-long-name-of-it-abcd/x", pattern(1)),
        ("html/indexed/index.html", b"an index\n".to_vec()),
        ("html/single/only.html", b"the only one\n".to_vec()),
        ("html/single/.hidden", pattern(1)),
        ("html/single/folder/.x", pattern(1)),
        ("html/<odd>&dir/x", pattern(1)),
        ("html/nothing/.x", pattern(1)),
    ]
}

const FOLDERS: &[&str] = &[
    "sub/",
    "sub",
    "names/",
    "indexed/",
    "nothing/",
    "%3Codd%3E&dir/",
    "none/",
    "sub/a.txt/",
    "sub/a.txt",
    "sub/../names/",
];

const PLACES: &[&str] = &[
    "/html/",
    "/rounded/",
    "/local/",
    "/json/",
    "/jsonp/",
    "/xml/",
    "/off/",
    "/inherited/",
    "/inherited/off/",
    "/inherited/html/",
    "/added/",
    "/packed/",
    "/substituted/",
    "/around/",
    "/error/",
    "/unchunked/",
];

const CALLBACKS: &[&str] = &["f", "a.b_c9", "", "a-b", "a(b", "%41", "f&callback=g"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        for folder in FOLDERS {
            for method in ["GET", "HEAD", "POST"] {
                cases.push(Case::simple(method, "listings.test", &format!("{place}{folder}")));
            }
        }
        let target = format!("{place}sub/");
        let old = format!("GET {target} HTTP/1.0\r\nHost: listings.test\r\n\r\n");
        cases.push(Case::raw(format!("{target} by 1.0"), old));
        for field in ["Accept-Encoding: gzip", "Range: bytes=0-1", "If-None-Match: *"] {
            let bytes = format!("GET {target} HTTP/1.1\r\nHost: listings.test\r\n{field}\r\n\r\n");
            cases.push(Case::raw(format!("{target} with {field}"), bytes));
        }
    }
    for callback in CALLBACKS {
        cases.push(Case::simple("GET", "listings.test", &format!("/jsonp/sub/?callback={callback}")));
        cases.push(Case::simple("GET", "listings.test", &format!("/json/sub/?callback={callback}")));
    }
    let long = "a".repeat(129);
    cases.push(Case::simple("GET", "listings.test", &format!("/jsonp/sub/?callback={long}")).named("long"));
    cases.push(Case::simple("GET", "listings.test", &format!("/jsonp/sub/?callback={}", &long[1..])).named("longest"));
    for place in ["/random/", "/random-listed/"] {
        for folder in ["single/", "single", "nothing/", "none/", "single/only.html"] {
            for method in ["GET", "HEAD", "POST"] {
                cases.push(Case::simple(method, "listings.test", &format!("{place}{folder}?x=1")));
            }
        }
    }
    cases
}
