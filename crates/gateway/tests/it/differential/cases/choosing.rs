//! Selection of servers and locations, and their `return`.

use super::Case;

const HOSTS: &[&str] = &[
    "plain.test",
    "www.plain.test",
    "PLAIN.test",
    "plain.test.",
    "plain.test:8080",
    "x.plain.test",
    "unknown.test",
    "_",
    "a.wild.test",
    "a.b.wild.test",
    "wild.test",
    "deep.wild.test",
    "x.deep.wild.test",
    "a.deeper.wild.test",
    "domain.test",
    "a.domain.test",
    "adomain.test",
    "mail.x",
    "mail.x.y",
    "mail.wild.test",
    "mail.domain.test",
    "mail",
    "ann.users.test",
    "a1.users.test",
    "a.b.users.test",
    "upper.test",
    "UPPER.TEST",
    "127.0.0.9",
    "[::1]",
    "localhost",
    "mail.",
];

const PATHS: &[&str] = &[
    "/",
    "/?a",
    "/x",
    "/exact",
    "/exact?a",
    "/exact/",
    "/exactly",
    "/EXACT",
    "/%65xact",
    "/images/x",
    "/images/x.gif",
    "/images/final/x.gif",
    "/images/final",
    "/images",
    "/x.gif",
    "/x.GIF",
    "/x.jpg",
    "/x.JPG",
    "/x.jpg/y",
    "/named/abc/d",
    "/named/",
    "/nested/x",
    "/nested/x.gif",
    "/nested/in/x",
    "/nested/in/x.gif",
    "/nested",
    "/sp%20ace/x",
    "/sp+ace/x",
    "/%C3%A4/x",
    "/plus+/x",
    "/plus%2B/x",
    "/redirected",
    "/redirected?a=1",
    "/images/../exact",
    "//exact",
    "/./exact",
    "/images/final/../x.png",
    "/images//final/x.gif",
];

const RETURNS: &[&str] = &[
    "/200",
    "/200-text",
    "/200-empty",
    "/200-variables?a=%20b",
    "/200-json",
    "/200-no-type",
    "/typed.html",
    "/201",
    "/204",
    "/204-text",
    "/299",
    "/301",
    "/301-host?a=b",
    "/301-empty",
    "/301-alone",
    "/302",
    "/303",
    "/304",
    "/304-text",
    "/307",
    "/308",
    "/309",
    "/url",
    "/url-https",
    "/url-variable",
    "/relative",
    "/crlf?v=%0d%0aX:y",
    "/400",
    "/401",
    "/403",
    "/404",
    "/404-text",
    "/405",
    "/408",
    "/410",
    "/413",
    "/418",
    "/429",
    "/444",
    "/499",
    "/500",
    "/503",
    "/507",
    "/599",
    "/999",
    "/none",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for host in HOSTS {
        let text = format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases.push(Case::raw(format!("server: {host}"), text));
    }
    cases.push(Case::raw("server: none on 1.0", "GET /x HTTP/1.0\r\n\r\n"));
    for path in PATHS {
        cases.push(Case::simple("GET", "locations.test", path).named("location").on(1));
    }
    for path in RETURNS {
        for method in ["GET", "HEAD", "POST"] {
            cases.push(Case::simple(method, "returns.test", path).named("return").on(2));
        }
    }
    for path in ["/200-text", "/204", "/301", "/404"] {
        let text = format!("GET {path} HTTP/1.0\r\n\r\n");
        cases.push(Case::raw(format!("return on 1.0: {path}"), text).on(2));
        let text = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        cases.push(Case::raw(format!("return with a body: {path}"), text).on(2));
        for condition in [
            "Range: bytes=0-1",
            "If-None-Match: *",
            "If-None-Match: \"a\"",
            "If-None-Match: *\r\nIf-Modified-Since: Fri, 31 Dec 2100 08:49:37 GMT",
            "If-Match: *",
            "If-Match: \"a\"",
            "If-Modified-Since: Fri, 31 Dec 2100 08:49:37 GMT",
            "If-Unmodified-Since: Fri, 31 Dec 2100 08:49:37 GMT",
        ] {
            let text = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{condition}\r\n\r\n");
            cases.push(Case::raw(format!("return with {condition}: {path}"), text).on(2));
        }
    }
    cases
}
