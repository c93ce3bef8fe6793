//! `auth_request` with `satisfy`, `mirror`, `add_before_body` and `add_after_body`.

use super::{Case, chunked, pattern};

/// The files of the root.
pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("site/a.txt", b"0123456789".to_vec()),
        ("site/dir/a.html", b"<p>a\n".to_vec()),
        ("site/empty.html", Vec::new()),
        ("site/big.html", pattern(300_000)),
    ]
}

const AUTH: &[&str] = &[
    "/a/200",
    "/a/204?x=1",
    "/a/401",
    "/a/403",
    "/a/404",
    "/a/302",
    "/a/500",
    "/a/none",
    "/a/page",
    "/a/moved",
    "/a/file",
    "/a/denied",
    "/a/forbidden-file",
    "/a/off",
    "/a/files/a.txt",
    "/a/no-files/a.txt",
    "/a/return",
    "/a/query",
    "/a/own-page?x=1",
    "/a/own-page-kept",
    "/p/x?y=1&z=%41",
    "/sets/",
    "/unset/",
    "/any/ad",
    "/any/da",
    "/any/dd",
    "/any/du",
    "/any/d5",
    "/any/nu",
    "/all/ad",
    "/all/da",
    "/all/aa",
    "/all/au",
    "/nested/off",
    "/nested/own",
    "/nested/same",
    "/index/",
    "/auth",
    "/auth-200",
];

/// Statuses of the upstream of `auth_request`, each selected by `?is=`.
const STATUSES: [&str; 8] = ["200", "201", "401", "403", "429", "500", "502", "999"];

const AROUND: &[&str] = &[
    "/both/dir/a.html",
    "/both/a.txt",
    "/both/empty.html",
    "/both/none.html",
    "/both/big.html",
    "/only-before/dir/a.html",
    "/only-after/dir/a.html",
    "/files/dir/a.html",
    "/typed/a.txt",
    "/typed/dir/a.html",
    "/any-type/a.txt",
    "/off/in",
    "/return",
    "/return-empty",
    "/return-404",
    "/return-204",
    "/proxied/x",
    "/proxied/chunked",
    "/proxied/plain",
    "/proxied/big",
    "/missing/dir/a.html",
    "/nested/dir/a.html",
    "/authorized/dir/a.html",
    "/before?x=1",
];

const MIRRORED: &[&str] =
    &["/x?y=1", "/two/x", "/without/x", "/dead/x", "/slow/x", "/files/a.txt", "/files/none", "/off/x", "/copy"];

fn post(host: &str, target: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in AUTH {
        cases.push(Case::simple("GET", "auth.test", target));
        cases.push(Case::simple("HEAD", "auth.test", target));
        cases.push(Case::raw(format!("POST {target}"), post("auth.test", target, b"a=b")));
    }
    for status in STATUSES {
        cases.push(Case::simple("GET", "auth.test", &format!("/s/x?is={status}")));
    }
    let with = |field: &str, target: &str| {
        Case::raw(
            format!("{target} with {field}"),
            format!("GET {target} HTTP/1.1\r\nHost: auth.test\r\n{field}\r\n\r\n"),
        )
    };
    for field in [
        "X-User: anna",
        "Range: bytes=0-1",
        "If-None-Match: \"x\"",
        "If-Modified-Since: Thu, 01 Jan 2037 00:00:00 GMT",
        "Cookie: a=b",
        "Authorization: Basic YTpi",
        "Upgrade: websocket\r\nConnection: upgrade",
    ] {
        cases.extend(["/p/x", "/a/files/a.txt", "/a/204"].map(|target| with(field, target)));
    }
    // Both requests of a pipeline cause a subrequest, and the connection continues.
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: auth.test\r\n\r\n").into_bytes();
    let pipeline = [get("/a/403"), post("auth.test", "/p/x", b"body"), get("/a/200")];
    cases.push(Case::pipeline("pipeline", &pipeline.each_ref().map(Vec::as_slice)));
    let body = [
        b"POST /p/chunked HTTP/1.1\r\nHost: auth.test\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        chunked(&pattern(40_000), 1000),
    ];
    cases.push(Case::raw("a chunked body", body.concat()));
    cases.push(Case::raw("a body that is refused", post("auth.test", "/a/403", &pattern(40_000))));

    for target in AROUND {
        cases.push(Case::simple("GET", "around.test", target).on(2));
        cases.push(Case::simple("HEAD", "around.test", target).on(2));
        let old = format!("GET {target} HTTP/1.0\r\nHost: around.test\r\n\r\n");
        cases.push(Case::raw(format!("GET {target} by 1.0"), old).on(2));
    }
    for field in ["Range: bytes=0-1", "If-None-Match: \"x\"", "Accept-Encoding: gzip"] {
        for target in ["/both/dir/a.html", "/both/a.txt", "/gzip/dir/a.html"] {
            let bytes = format!("GET {target} HTTP/1.1\r\nHost: around.test\r\n{field}\r\n\r\n");
            cases.push(Case::raw(format!("{target} with {field}"), bytes).on(2));
        }
    }
    for target in MIRRORED {
        cases.push(Case::simple("GET", "mirror.test", target).on(4).named("mirror"));
        let bytes = post("mirror.test", target, b"a body");
        cases.push(Case::raw(format!("POST {target}"), bytes).on(4).named("mirror"));
    }
    cases.push(Case::raw("mirror: too large", post("mirror.test", "/small/x", b"12345")).on(4));
    cases.push(Case::raw("mirror: large", post("mirror.test", "/x", &pattern(200_000))).on(4));
    cases
}
