//! Conversations about `proxy_store`: a request, and often a second one that may find the file of the first.

use super::Case;

/// Responses of an HTTP upstream: a name, the bytes, and how many further bytes of body follow. A connection ends behind
/// a response.
const RESPONSES: &[(&str, &str, usize)] = &[
    ("length", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\na body 01", 0),
    ("empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0),
    ("chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n3\r\nabc\r\n0\r\n\r\n", 0),
    ("until the end", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nbody until the end", 0),
    ("old", "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold body", 0),
    ("cut", "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\ntoo short", 0),
    ("cut chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n3\r\n", 0),
    ("dated", "HTTP/1.1 200 OK\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 5\r\n\r\ndated", 0),
    (
        "dated as once",
        "HTTP/1.1 200 OK\r\nLast-Modified: Sunday, 06-Nov-94 08:49:37 GMT\r\nContent-Length: 5\r\n\r\ndated",
        0,
    ),
    ("dated wrong", "HTTP/1.1 200 OK\r\nLast-Modified: yesterday\r\nContent-Length: 5\r\n\r\ndated", 0),
    ("created", "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nbody", 0),
    ("nothing", "HTTP/1.1 204 No Content\r\n\r\n", 0),
    ("part", "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\nbody", 0),
    ("moved", "HTTP/1.1 301 Moved\r\nLocation: http://elsewhere.test/\r\nContent-Length: 4\r\n\r\nbody", 0),
    ("unchanged", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", 0),
    ("missing", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nbody", 0),
    ("failed", "HTTP/1.1 500 Failed\r\nContent-Length: 4\r\n\r\nbody", 0),
    (
        "no-store",
        "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nSet-Cookie: a=b\r\nVary: *\r\nContent-Length: 4\r\n\r\nbody",
        0,
    ),
    ("unbuffered", "HTTP/1.1 200 OK\r\nX-Accel-Buffering: no\r\nContent-Length: 4\r\n\r\nbody", 0),
    ("buffered", "HTTP/1.1 200 OK\r\nX-Accel-Buffering: yes\r\nContent-Length: 4\r\n\r\nbody", 0),
    ("sent elsewhere", "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /page\r\nContent-Length: 4\r\n\r\nbody", 0),
    (
        "coded",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody",
        0,
    ),
    ("large", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 400000\r\n\r\n", 400_000),
    ("large and cut", "HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n", 400_000),
    ("large until the end", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", 300_000),
];

/// Outputs of an application.
const OUTPUTS: &[(&str, &str)] = &[
    ("length", "raw=Content-Length:%209%0D%0A%0D%0Aa%20body%2001"),
    ("plain", "raw=Content-Type:%20text/plain%0D%0A%0D%0Aplain%20body"),
    ("empty", "raw=Content-Type:%20text/plain%0D%0A%0D%0A"),
    ("dated", "raw=Last-Modified:%20Sun,%2006%20Nov%201994%2008:49:37%20GMT%0D%0A%0D%0Adated"),
    ("created", "r=201"),
    ("missing", "r=404"),
    ("moved", "r=302&f=Location:%20http://a.test/"),
    ("unbuffered", "f=X-Accel-Buffering:%20no&size=100"),
    ("large", "size=400000"),
    ("cut short", "raw=Content-Length:%2090%0D%0A%0D%0Atoo%20short"),
    ("too long", "raw=Content-Length:%203%0D%0A%0D%0Atoo%20long"),
];

/// All locations in which every response is tried.
const LOCATIONS: &[&str] = &["on", "off", "alias", "path", "group", "unbuffered", "ignoring", "zipped"];

/// Locations for some responses, by their names.
const SOME: &[(&str, &[&str])] = &[
    ("whole", &["length", "dated", "missing", "cut"]),
    ("readers", &["length", "empty", "dated", "large"]),
    ("everyone", &["length", "empty", "dated", "large"]),
    ("intercepting", &["length", "missing", "failed", "moved", "created"]),
    ("replaced", &["length", "until the end", "large"]),
    ("slow", &["length", "large", "large and cut"]),
    ("getting", &["length", "empty", "dated", "missing"]),
    ("rewritten", &["length", "dated", "missing"]),
    ("ranges", &["length", "dated", "chunks"]),
    ("cached", &["length", "dated", "missing", "no-store"]),
    ("mirror", &["dated", "missing", "created", "cut", "empty"]),
    ("inner", &["dated", "missing", "created", "cut"]),
];

const APPLICATIONS: &[&str] =
    &["fcgi", "fcgi-group", "fcgi-unbuffered", "fcgi-off", "scgi", "scgi-group", "uwsgi", "uwsgi-group"];

fn coded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A request for a path that no other conversation asks for.
fn ask(name: &str, method: &str, path: &str, query: &str, fields: &str) -> Case {
    let body = if method == "POST" { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
    Case::raw(name, format!("{method} {path}?{query} HTTP/1.1\r\nHost: store.test\r\n{fields}{body}"))
}

fn query(response: &(&str, &str, usize)) -> String {
    format!("size={}&raw={}", response.2, coded(response.1))
}

fn respond(name: &str) -> &'static (&'static str, &'static str, usize) {
    RESPONSES.iter().find(|response| response.0 == name).expect("a response of the table")
}

/// Every conversation: requests one after the other, each on a connection of its own.
pub(crate) fn conversations() -> Vec<Vec<Case>> {
    let mut all = Vec::new();
    for location in LOCATIONS {
        for (number, response) in RESPONSES.iter().enumerate() {
            let path = format!("/{location}/{number}/file.txt");
            all.push(vec![ask(&format!("{location}: {}", response.0), "GET", &path, &query(response), "")]);
        }
    }
    for (location, names) in SOME {
        for (number, name) in names.iter().enumerate() {
            let (path, query) = (format!("/{location}/{number}/file.txt"), query(respond(name)));
            let first = ask(&format!("{location}: {name}"), "GET", &path, &query, "");
            all.push(vec![first, ask(&format!("{location}: {name} again"), "GET", &path, &query, "")]);
        }
    }
    for location in APPLICATIONS {
        for (number, (name, query)) in OUTPUTS.iter().enumerate() {
            all.push(vec![ask(&format!("{location}: {name}"), "GET", &format!("/{location}/{number}"), query, "")]);
        }
    }
    all.extend(requests());
    all
}

/// Other methods and fields.
fn requests() -> Vec<Vec<Case>> {
    let (plain, chunks) = (query(respond("length")), query(respond("chunks")));
    let head = |length: &str| format!("size=0&raw={}", coded(&format!("HTTP/1.1 200 OK\r\n{length}\r\n")));
    let mut all = Vec::new();
    for (number, method) in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE"].iter().enumerate() {
        let path = format!("/on/method-{number}");
        all.push(vec![ask(&format!("method {method}"), method, &path, &plain, "")]);
    }
    all.push(vec![ask("HEAD with a length", "HEAD", "/on/head", &head("Content-Length: 9\r\n"), "")]);
    all.push(vec![
        ask("GET before HEAD", "GET", "/on/get-head", &plain, ""),
        ask("HEAD after GET", "HEAD", "/on/get-head", &head("Content-Length: 9\r\n"), ""),
    ]);
    all.push(vec![ask("HEAD sent as GET", "HEAD", "/getting/head", &plain, "")]);
    all.push(vec![ask("HEAD sent as GET in chunks", "HEAD", "/getting/head-chunks", &chunks, "")]);
    for (number, field) in [
        "Range: bytes=0-3",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-None-Match: *",
        "Cookie: a=b",
        "Authorization: Basic YTpi",
        "Cache-Control: no-store",
        "Pragma: no-cache",
    ]
    .iter()
    .enumerate()
    {
        let path = format!("/on/field-{number}");
        all.push(vec![ask(&format!("field {field}"), "GET", &path, &plain, &format!("{field}\r\n"))]);
        let path = format!("/ranges/field-{number}");
        all.push(vec![ask(&format!("ranges and field {field}"), "GET", &path, &plain, &format!("{field}\r\n"))]);
    }
    all.extend(paths());
    all
}

/// Paths of requests, files that are replaced, and paths that variables make.
fn paths() -> Vec<Vec<Case>> {
    let (plain, chunks) = (query(respond("length")), query(respond("chunks")));
    let mut all = Vec::new();
    for (number, path) in [
        "/on/%41%20b",
        "/on/a//b",
        "/on/./c",
        "/on/x/../d",
        "/on/e%2Ff",
        "/on/%c3%a4",
        "/on/..g",
        "/on/h..",
        "/on/.hidden",
        "/on/a;b",
        "/on/a:b",
        "/on/%25",
        "/on/deep/er/and/deep/er",
        "/on/%2e%2e/up",
        "/on/%2e%2e%2fup2",
        "/on/..%2fup3",
    ]
    .iter()
    .enumerate()
    {
        all.push(vec![ask(&format!("path {number} {path}"), "GET", path, &plain, "")]);
    }
    for (number, response) in ["length", "dated", "missing"].iter().enumerate() {
        let path = format!("/on/twice-{number}");
        all.push(vec![
            ask(&format!("{response} is replaced"), "GET", &path, &query(respond(response)), ""),
            ask(&format!("{response} is replaced by chunks"), "GET", &path, &chunks, ""),
            ask(&format!("{response} is not replaced by half a response"), "GET", &path, &query(respond("cut")), ""),
        ]);
    }
    for (number, more) in ["place=in&name=a", "place=in&name=b/c", "place=out&name=d", "name=e", "place=in&name=f.html"]
        .iter()
        .enumerate()
    {
        all.push(vec![ask(
            &format!("mapped {more}"),
            "GET",
            &format!("/mapped/{number}"),
            &format!("{more}&{plain}"),
            "",
        )]);
    }
    for protocol in ["fcgi", "scgi", "uwsgi"] {
        let more = "name=by-name&raw=Content-Length:%205%0D%0A%0D%0Anamed";
        all.push(vec![ask(&format!("{protocol} by name"), "GET", &format!("/{protocol}-path/1"), more, "")]);
        all.push(vec![ask(&format!("{protocol} POST"), "POST", &format!("/{protocol}/post"), more, "")]);
    }
    all
}
