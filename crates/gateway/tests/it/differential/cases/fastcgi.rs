//! What a FastCGI application receives, and how its answers are passed on.

use super::{Case, chunked, pattern};

/// The files of the root.
pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![("site/index.php", b"<?php".to_vec()), ("site/dir/page.php", b"<?php".to_vec())]
}

const TARGETS: &[&str] = &[
    "/",
    "/?a=b&c=%41",
    "/path/to/",
    "/a%20b%2Fc",
    "/index.php",
    "/index.php?x=1",
    "/index.php/info/more?x=1",
    "/index.php/",
    "/dir/page.php/a%20b",
    "/none.php",
    "/none.php/info",
    "/kept/x",
    "/second/x",
    "/dead/x",
    "/variable/x?y",
    "/group/x",
    "/no-port/x",
    "/own/x",
    "/plain/x",
    "/no-body/x",
    "/streamed/x",
    "/on-disk/x",
    "/unbuffered/x",
    "/authorized/x",
    "/authorized/x?auth=r%3D403",
    "/if/x?to=app",
    "/if/x",
    "/dir/",
];

/// Answers of an application, as selected by its query.
const ANSWERS: &[&str] = &[
    "r=200%20OK",
    "r=201",
    "r=204",
    "r=304%20Not%20Modified",
    "r=404%20Not%20Found",
    "r=500",
    "r=503%20Later",
    "r=599%20My%20own",
    "r=99",
    "r=abc",
    "r=",
    "f=Location:%20/elsewhere",
    "f=Location:%20http://other.test/x",
    "r=301%20Gone%20there&f=Location:%20/elsewhere",
    "f=Content-Length:%205&raw=Content-Length:%205%0d%0a%0d%0ahello",
    "raw=Content-Length:%205%0d%0a%0d%0ahello%20world",
    "raw=Content-Length:%209%0d%0a%0d%0ahello",
    "raw=Content-Type:%20text/x%0a%0alines%20end%20in%20LF",
    "raw=%0d%0ano%20fields",
    "raw=no%20head",
    "raw=Bad%20Name:%20x%0d%0a%0d%0abody",
    "raw=X%0d%0a%0d%0abody",
    "f=Set-Cookie:%20a=b&f=Set-Cookie:%20c=d",
    "f=X-Powered-By:%20PHP/8&f=Server:%20own&f=Date:%20today",
    "f=X-Accel-Redirect:%20/accel?x",
    "f=X-Accel-Expires:%2010&f=X-Secret:%20x",
    "f=Connection:%20close&f=Keep-Alive:%20x",
    "f=Status-X:%201",
    "e=a%20warning",
    "e=Fatal%20error&r=200",
    "split=1",
    "split=10&pad=255&size=100",
    "split=7&pad=1",
    "size=0",
    "size=100000",
    "size=100000&split=1000&pad=3",
    "mute",
    "mute&e=Fatal",
    "cut",
    "cut&size=100",
    "cut&mute",
    "cut&f=Content-Length:%20100&size=50",
];

const FIELDS: &[&str] = &[
    "X-Own: client",
    "X-Twice: a\r\nX-Twice: b",
    "x-Case: a\r\nX-CASE: b",
    "Cookie: a=b\r\nCookie: c=d",
    "Authorization: Basic YTpi",
    "X-Empty:",
    "Accept-Encoding: gzip",
    "Range: bytes=0-9",
    "Connection: close",
    "X-Long: 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
];

fn get(target: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: php.test\r\n{fields}\r\n").into_bytes()
}

fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: php.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in TARGETS {
        cases.push(Case::simple("GET", "php.test", target));
        cases.push(Case::simple("HEAD", "php.test", target));
        cases.push(Case::raw(format!("POST {target}"), post(target, b"a=b&c=d")));
    }
    for place in ["/x", "/kept/x", "/intercept/x", "/hide/x", "/ignore/x", "/catch/x", "/next/x", "/unbuffered/x"] {
        cases.extend(ANSWERS.iter().map(|answer| Case::simple("GET", "php.test", &format!("{place}?{answer}"))));
    }
    for answer in ["r=204", "r=304", "size=100000", "r=404", "f=Content-Length:%2050", "cut"] {
        cases.push(Case::simple("HEAD", "php.test", &format!("/kept/x?{answer}")));
    }
    for fields in FIELDS {
        for target in ["/x", "/own/x", "/plain/x", "/gzip/x?size=3000", "/ranges/x?size=100&f=Content-Length:%20100"] {
            cases.push(Case::raw(format!("{target} with {fields}"), get(target, &format!("{fields}\r\n"))));
        }
    }
    for (at, size) in [0, 1, 7, 8, 1000, 65_528, 65_529, 200_000].into_iter().enumerate() {
        for place in ["/x", "/kept/x", "/streamed/x", "/on-disk/x"] {
            cases.push(Case::raw(format!("{place} with {size} bytes"), post(place, &pattern(size))));
            let head = format!("POST {place} HTTP/1.1\r\nHost: php.test\r\nTransfer-Encoding: chunked\r\n\r\n");
            // Without a length nginx states none if the body is streamed.
            if place != "/streamed/x" {
                let bytes = [head.as_bytes(), &chunked(&pattern(size), 1000 + at)].concat();
                cases.push(Case::raw(format!("{place} with {size} bytes in chunks"), bytes));
            }
        }
    }
    for target in ["/small/x?size=100000", "/small/x?f=X-Big:%20".to_owned().as_str()] {
        cases.push(Case::simple("GET", "php.test", target));
    }
    cases.push(Case::simple("GET", "php.test", &format!("/small/x?f=X-Big:%20{}", "x".repeat(3000))));
    for (listener, name) in [(1, "scgi"), (2, "uwsgi")] {
        cases.extend(of_others(name).into_iter().map(|case| case.on(listener).named(name)));
    }
    let pipeline = [get("/kept/a", ""), post("/kept/b?size=10", b"body"), get("/kept/c?r=404", "")];
    cases.push(Case::pipeline("pipeline", &pipeline.each_ref().map(Vec::as_slice)));
    cases
}

/// Requests to applications behind SCGI and uwsgi.
fn of_others(host: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let line = |target: &str| format!("{target} HTTP/1.1\r\nHost: {host}.test\r\n");
    for target in ["/", "/a%20b?x=1", "/dead/x", "/variable/x", "/own/x", "/plain/x", "/unbuffered/x", "/modified/x"] {
        cases.push(Case::simple("GET", &format!("{host}.test"), target));
        cases.push(Case::simple("HEAD", &format!("{host}.test"), target));
    }
    for place in ["/x", "/intercept/x", "/unbuffered/x"] {
        // The end of the connection is always the same, so it shows nothing.
        for answer in ANSWERS
            .iter()
            .filter(|answer| !answer.contains("cut") && !answer.contains("pad=") && !answer.starts_with("e="))
        {
            cases.push(Case::simple("GET", &format!("{host}.test"), &format!("{place}?{answer}")));
        }
        cases.push(Case::simple(
            "GET",
            &format!("{host}.test"),
            &format!("{place}?f=Content-Length:%20100000&size=100000"),
        ));
    }
    for fields in FIELDS {
        cases.push(Case::raw(format!("/x with {fields}"), format!("GET {}{fields}\r\n\r\n", line("/x"))));
    }
    for size in [0usize, 1, 1000, 70_000] {
        for place in ["/x", "/streamed/x", "/on-disk/x"] {
            let head = format!("POST {}Content-Length: {size}\r\n\r\n", line(place));
            cases.push(Case::raw(format!("{place} with {size} bytes"), [head.as_bytes(), &pattern(size)].concat()));
        }
        let head = format!("POST {}Transfer-Encoding: chunked\r\n\r\n", line("/x"));
        cases.push(Case::raw(
            format!("{size} bytes in chunks"),
            [head.as_bytes(), &chunked(&pattern(size), 999)].concat(),
        ));
    }
    if host == "uwsgi" {
        for answer in
            ["http", "http&f=Content-Length:%2010&size=10", "http&size=100000", "http&f=Connection:%20keep-alive"]
        {
            cases.push(Case::simple("GET", "uwsgi.test", &format!("/x?{answer}")));
        }
        let large = format!("GET {}X-Large: {}\r\nX-More: {}\r\n\r\n", line("/x"), "x".repeat(7000), "y".repeat(7000));
        cases.push(Case::raw("large fields", large));
    }
    cases
}
