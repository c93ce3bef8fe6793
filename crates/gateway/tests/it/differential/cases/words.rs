//! Directives compared with the newer nginx.

use super::Case;

/// Targets that are asked for by GET.
const GETS: &[&str] = &[
    "/families",
    "/families?=x&a=1",
    "/tls",
    "/modules",
    "/modules/",
    "/stub-status/x",
    "/rewritten/a?x=1",
    "/rewritten/a%20b",
    "/rewritten-break/a?x=1",
    "/break-only/a?x=1",
    "/break-before/a?x=1",
    "/rewritten-if/a?b=1",
    "/repeated/x?f=ETag:one&f=ETag:two",
    "/repeated/x?f=Expires:Thu,%2001%20Jan%201970%2000:00:01%20GMT&f=expires:0",
    "/repeated/x?f=Last-Modified:Thu,%2001%20Jan%201970%2000:00:01%20GMT&f=Last-Modified:Fri,%2002%20Jan%201970%2000:00:01%20GMT",
    "/repeated/x?f=Accept-Ranges:bytes&f=Accept-Ranges:none",
    "/repeated/x?f=Server:a&f=Date:now",
    "/repeated/x?f=X-A:1&f=X-A:2&f=Link:a&f=Link:b&f=Vary:a&f=Vary:b&f=Cache-Control:a&f=Cache-Control:b",
    "/repeated-redirects/x?r=302&f=Location:http://one/a&f=Location:http://two/b",
    "/repeated-redirects/x?f=Refresh:1;url=http://one/a&f=Refresh:2;url=http://two/b",
    "/flags/x?f=Set-Cookie:SID%3D1&f=Set-Cookie:sid2%3D1&f=Set-Cookie:Token%3D1&f=Set-Cookie:Plain%3D1&f=Set-Cookie:other%3D1",
    "/accel/none",
    "/accel/bytes",
    "/accel/file",
    "/accel/file-bytes",
    "/trailers/chunked/10",
    "/trailers/bytes/10",
    "/unix-uri/a?x=1",
    "/unix-uri/a%20b",
    "/unix-path/a?s=app",
    "/unix-path/a?s=none",
    "/unix-fixed-uri/a?x=1",
    "/unix-whole/a?x=1",
    "/unix-whole-uri/a",
    "/unix-group/a",
    "/unix-none/a?x=1",
    "/unix-none-fixed/a?x=1",
    "/unix-refused/a%20b?x=1",
];

/// Fields of a request to `/request`.
const FIELDS: &[&str] = &[
    "",
    "Cookie: a=1\r\n",
    "Cookie: a=1\r\nCookie: b=2\r\n",
    "Cookie: a=1; b=2\r\ncookie: a=3\r\nCOOKIE: c=4\r\n",
    "Cookie: =1\r\n",
    "Content-Type: text/a\r\n",
    "Content-Type: text/a\r\nContent-Type: text/b\r\n",
    "X-A: 1\r\nX-A: 2\r\n",
];

const HOSTS: &[&str] = &["[v1.a]", "[v1.a:b]", "[vFf.a-b~c]:80", "[::1]:80", "a.test:80"];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = GETS.iter().map(|target| Case::simple("GET", "test", target)).collect();
    for method in ["HEAD", "POST", "PUT", "OPTIONS", "DELETE"] {
        cases.push(Case::simple(method, "test", "/stub-status"));
    }
    for fields in FIELDS {
        let text = format!("GET /request HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
        cases.push(Case::raw(format!("request with {fields}"), text));
    }
    let one = b"GET /request HTTP/1.1\r\nHost: test\r\n\r\n".as_slice();
    cases.push(Case::pipeline("pipelined", &[one, one, one]));
    let post = b"POST /request HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc".as_slice();
    cases.push(Case::pipeline("pipelined behind a body", &[post, one]));
    for host in HOSTS {
        let text = format!("GET /request HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases.push(Case::raw(format!("host {host}"), text));
    }
    cases
}
