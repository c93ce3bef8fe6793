//! `more_set_headers` and its kin.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/page.html", b"<p>a page\n".to_vec()),
        ("html/style.css", b"p { margin: 0 }\n".to_vec()),
        ("html/text", super::pattern(300)),
        ("html/missing.html", b"<p>missing\n".to_vec()),
    ]
}

/// Locations of files.
const FOLDERS: &[&str] = &[
    "plain",
    "set",
    "twice",
    "server",
    "no-server",
    "no-outer",
    "prefix",
    "no-type",
    "type",
    "no-tag",
    "modified",
    "no-ranges",
    "no-ranges-of-css",
    "no-ranges-of-errors",
    "cache",
    "status",
    "parts",
    "types",
    "empty",
    "after",
];

/// Targets that are no files.
const OTHERS: &[&str] = &[
    "/text",
    "/if",
    "/if?a=1",
    "/forbidden",
    "/error",
    "/none",
    "/to-path",
    "/to-relative",
    "/to-url",
    "/to-nothing",
    "/to-variable?to=/path",
    "/to-variable?to=path",
    "/to-variable",
    "/as-written",
    "/of-200",
    "/of-201",
    "/kept",
    "/upstream/status/200",
    "/upstream/status/200?header=X-A:1&header=X-A:2&header=X-B:3",
    "/upstream/status/404?header=X-A:1",
    "/upstream-clear/status/200?header=X-A:1&header=X-Begin:2&header=X-Beginning:3&header=X-B:4",
    "/upstream-clear/status/200?header=Set-Cookie:a=b",
    "/upstream-status/status/503",
    "/upstream-status/status/200",
    "/upstream-parts/status/206?header=Content-Range:bytes%200-3/9",
    "/upstream-parts/status/416",
    "/in-variable",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: first.test\r\n{fields}\r\n");
    for folder in FOLDERS {
        for file in ["page.html", "style.css", "text", "none"] {
            cases.push(Case::simple("GET", "first.test", &format!("/{folder}/{file}")));
        }
        let target = format!("/{folder}/style.css");
        cases.push(Case::simple("HEAD", "first.test", &target));
        cases.push(Case::raw(format!("range {target}"), get(&target, "Range: bytes=2-5\r\n")));
        // The foot of an error page is compared only as the Server field says it.
        if !folder.contains("server") {
            cases.push(Case::raw(format!("beyond {target}"), get(&target, "Range: bytes=900-\r\n")));
        }
    }
    let text = "/no-ranges-of-css/text";
    cases.push(Case::raw(format!("range {text}"), get(text, "Range: bytes=2-5\r\n")));
    for target in OTHERS {
        cases.push(Case::simple("GET", "first.test", target));
        cases.push(Case::simple("HEAD", "first.test", target));
    }
    cases.push(Case::raw("a port in Host", "GET /to-path HTTP/1.1\r\nHost: First.test:81\r\n\r\n"));
    for folder in ["forced", "forced-none"] {
        let target = format!("/{folder}/status/200?body=0123456789");
        cases.push(Case::raw(format!("whole {target}"), get(&target, "")));
        cases.push(Case::raw(format!("range {target}"), get(&target, "Range: bytes=2-5\r\n")));
    }
    for folder in ["in-set", "in-clear", "in-replace"] {
        for (name, fields) in [
            ("none", ""),
            ("one", "X-In: theirs\r\nUser-Agent: a client\r\n"),
            ("two", "X-In: 1\r\nX-In: 2\r\nX-Begin: 3\r\nAccept: */*\r\n"),
        ] {
            let target = format!("/{folder}/echo");
            cases.push(Case::raw(format!("{name} {target}"), get(&target, fields)));
        }
    }
    cases.push(Case::raw("a field that is set", get("/in-variable", "X-In: theirs\r\n")));
    cases
}
