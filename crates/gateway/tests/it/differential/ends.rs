//! Every variable that a log may have, after each kind of end of an exchange: runs the same conversations with nginx
//! and the gateway, and compares the values of each line.
//!
//! Values that depend on the clock are compared by shape. Lengths may differ by the difference between the two servers'
//! names.

use rules::variable::Variable;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::cases::{Case, chunked, pattern};
use super::{Side, Sides, accepted, application, dead_port, start_origin, talk};
use testkit::Talk;
use testkit::sides::{Nginx, nginx_or_skip};

const TEXT: &str = include_str!("cases/ends.conf");

/// Variables that no line has, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("close_side connection pool_wait_time request_trace", "nginx has no such variables, or another number"),
    ("upstream_close_reason upstream_queue_time upstream_reused", "nginx has no such variables"),
    ("jwt_payload otel_parent_id otel_parent_sampled otel_span_id otel_trace_id", "of modules that nginx loads"),
    ("brotli_ratio zstd_ratio", "of modules that nginx loads"),
    (
        "binary_remote_addr hostname nginx_version pid upstream_local_addr",
        "the two sides differ in their addresses and names",
    ),
    ("connections_active connections_reading connections_waiting connections_writing", "they depend on the moment"),
    ("tcpinfo_rcv_space tcpinfo_rtt tcpinfo_rttvar tcpinfo_snd_cwnd", "the kernel decides them"),
];

/// Variables that are not in the table of fixed names: members of families, those of TLS, and those without effect.
const OTHERS: &[&str] = &[
    "ancient_browser arg_none arg_trailer cookie_a cookie_none http3 http_cookie http_host http_referer http_user_agent",
    "http_x_forwarded_for modern_browser msie sent_http_cache_control sent_http_connection sent_http_content_length",
    "sent_http_content_range sent_http_content_type sent_http_etag sent_http_keep_alive sent_http_last_modified",
    "sent_http_location sent_http_transfer_encoding sent_http_x_added sent_trailer_x_t ssl_cipher ssl_protocol",
    "upstream_cookie_a upstream_http_content_type upstream_http_etag upstream_http_server upstream_trailer_x_t",
];

/// Values that are compared only by shape.
const SHAPES: &[&str] = &[
    "connection_time",
    "date_gmt",
    "date_local",
    "msec",
    "realip_remote_port",
    "remote_port",
    "request_time",
    "request_id",
    "time_iso8601",
    "time_local",
];

/// Further values of this kind where a client leaves in the middle of a response: the kernel decides how much was sent.
const SHAPES_OF_LEAVING: &[&str] =
    &["body_bytes_sent", "bytes_sent", "upstream_bytes_received", "upstream_response_length"];

/// Lengths that contain a page or a field with the name of the server.
const LENGTHS: &[&str] = &["body_bytes_sent", "bytes_sent", "sent_http_content_length"];

/// `nginx` and `holdfast` differ by three bytes, in a field and at the foot of a page.
const NAME_BYTES: i64 = 3;

/// The variables of a line.
fn variables() -> impl Iterator<Item = &'static str> {
    let is_excepted = |name: &str| EXCEPTIONS.iter().any(|(names, _)| names.split(' ').any(|known| known == name));
    let fixed = Variable::names().filter(move |name| !is_excepted(name));
    fixed.chain(OTHERS.iter().flat_map(|line| line.split(' ')))
}

#[test]
fn each_excepted_variable_exists() {
    for name in EXCEPTIONS.iter().flat_map(|(names, _)| names.split(' ')) {
        assert!(Variable::names().any(|known| known == name), "{name}");
    }
}

/// Targets that are asked for by GET and by HEAD.
const TARGETS: &[&str] = &[
    "/bytes/10 /bytes/0 /bytes/100000 /chunked/10 /chunked/10?trailer=X-T:1 /close-delimited/10 /status/204 /status/304",
    "/status/404 /status/500 /status/302?header=Location:/x /status/200?header=Set-Cookie:a%3D1 /bytes/1000?cut=10",
    "/chunked/1000?cut=10 /reset/at?point=request /reset/at?point=head /status/200?interim=103 /refused/x /slow-answer/x",
    "/none/x /again/x /page/x /page-proxied/x /return/200 /return/204 /return/301 /return/403 /return/404 /return/500",
    "/return/444 /return/x /file/a.txt /file/none /file/ /file /empty.txt /gzip/bytes/2000 /gzip-own/a.txt /denied/x",
    "/internal/x /limited/x /limited/x?2 /rewritten/x /last/x /redirected/x /added/x /trailers/chunked/10",
    "/intercepted/status/404 /rate/bytes/10 /accel/x /try/x /named/x /a%20b?c=%20d /set/x?a=1",
];

/// Name, request line and fields.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("1.0", "GET /bytes/10 HTTP/1.0", "Host: test"),
    ("1.0 chunked", "GET /chunked/10 HTTP/1.0", "Host: test"),
    ("1.0 kept", "GET /bytes/10 HTTP/1.0", "Host: test\r\nConnection: keep-alive"),
    ("close", "GET /bytes/10 HTTP/1.1", "Host: test\r\nConnection: close"),
    ("port", "GET /bytes/10 HTTP/1.1", "Host: test:80\r\nReferer: r\r\nX-Forwarded-For: a\r\nX-Forwarded-For: b"),
    ("cookies", "GET /bytes/10 HTTP/1.1", "Host: test\r\nCookie: a=1\r\nCookie: b=2\r\nAuthorization: Basic dTpw"),
    ("range", "GET /file/a.txt HTTP/1.1", "Host: test\r\nRange: bytes=1-3"),
    ("ranges", "GET /file/a.txt HTTP/1.1", "Host: test\r\nRange: bytes=1-3,5-6"),
    ("bad range", "GET /file/a.txt HTTP/1.1", "Host: test\r\nRange: bytes=100-"),
    ("not modified", "GET /file/a.txt HTTP/1.1", "Host: test\r\nIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"),
    ("not modified, by tag", "GET /file/a.txt HTTP/1.1", "Host: test\r\nIf-None-Match: *"),
    ("precondition", "GET /file/a.txt?412 HTTP/1.1", "Host: test\r\nIf-Match: \"x\""),
    ("gzip", "GET /gzip/bytes/2000 HTTP/1.1", "Host: test\r\nAccept-Encoding: gzip"),
    ("gzip file", "GET /gzip-own/a.txt HTTP/1.1", "Host: test\r\nAccept-Encoding: gzip"),
    ("absolute", "GET http://other/bytes/10 HTTP/1.1", "Host: test"),
    ("no host", "GET /bytes/10 HTTP/1.1", "X: y"),
    ("two hosts", "GET /bytes/10?hosts HTTP/1.1", "Host: a\r\nHost: b"),
    ("bad version", "GET /bytes/10 HTTP/3.0", "Host: test"),
    ("bad line", "GET", "Host: test"),
    ("bad method", "get /bytes/10 HTTP/1.1", "Host: test"),
    ("bad target", "GET /%00 HTTP/1.1", "Host: test"),
    ("bad escape", "GET /%zz HTTP/1.1", "Host: test"),
    ("bad length", "POST /bytes/10 HTTP/1.1", "Host: test\r\nContent-Length: x"),
    ("too large", "POST /small/x HTTP/1.1", "Host: test\r\nContent-Length: 100"),
    ("too large, expected", "POST /small/x HTTP/1.1", "Host: test\r\nContent-Length: 100\r\nExpect: 100-continue"),
    ("trace", "TRACE /bytes/10 HTTP/1.1", "Host: test"),
    ("post to file", "POST /file/a.txt HTTP/1.1", "Host: test\r\nContent-Length: 0"),
    ("delete of return", "DELETE /return/200 HTTP/1.1", "Host: test"),
];

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in TARGETS.iter().flat_map(|line| line.split(' ')) {
        cases.push(Case::simple("GET", "test", target));
        cases.push(Case::simple("HEAD", "test", target));
    }
    for (name, line, fields) in REQUESTS {
        let mut case = Case::raw(format!("{name}: {line}"), format!("{line}\r\n{fields}\r\n\r\n"));
        case.to_head = vec![false];
        cases.push(case);
    }
    for target in ["/bytes/3", "/body/x", "/small/x", "/return/200", "/discarded/x"] {
        let body = pattern(8);
        let head = format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Type: a/b\r\n");
        cases.push(Case::raw(
            format!("POST {target} with a length"),
            [head.as_bytes(), b"Content-Length: 8\r\n\r\n", &body].concat(),
        ));
        let is_read = !matches!(target, "/return/200" | "/discarded/x");
        if is_read {
            let coding = b"Transfer-Encoding: chunked\r\n\r\n".as_slice();
            let bytes = [head.as_bytes(), coding, &chunked(&body, 3)].concat();
            cases.push(Case::raw(format!("POST {target} in chunks"), bytes));
        }
    }
    let one = b"GET /bytes/10 HTTP/1.1\r\nHost: test\r\n\r\n".as_slice();
    cases.push(Case::pipeline("pipelined", &[one, one, b"HEAD /file/a.txt HTTP/1.1\r\nHost: test\r\n\r\n"]));
    cases
}

/// A tunnel: its messages, and its end by the client.
fn tunnel(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
        .write_all(b"GET /tunnel/x HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        .unwrap();
    let mut heads = Vec::new();
    let mut buffer = [0; 4096];
    while !heads.windows(4).any(|window| window == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "no 101");
        heads.extend_from_slice(&buffer[..count]);
    }
    stream.write_all(b"GET /inside HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 204"), "{}", rest.escape_ascii());
}

/// Ends without a whole request, or without a whole response: each waits for its line.
fn unfinished(sides: &Sides, side: Side) {
    for way in ["fin", "reset"] {
        let mut client = Talk::connect(sides.address(side, 0));
        let line = format!("GET /cut/bytes/100000?leaves-{way} HTTP/1.1");
        client.send(format!("{line}\r\nHost: test\r\n\r\n"));
        client.read(20);
        if way == "fin" {
            client.half_close();
        } else {
            client.reset();
        }
        sides.log_line_of(side, &format!("\"{line}\""));
    }
    for (line, rest) in [
        ("GET /head-timeout HTTP/1.1", "Host: test\r\nX-"),
        ("POST /body/timeout HTTP/1.1", "Host: test\r\nContent-Length: 10\r\n\r\nhello"),
    ] {
        let mut client = Talk::connect(sides.address(side, 1));
        client.send(format!("{line}\r\n{rest}"));
        client.rest();
        sides.log_line_of(side, &format!("\"{line}\""));
    }
}

/// Splits a line into its values by name.
fn values(line: &str) -> BTreeMap<&str, &str> {
    line.split(" ;; ").filter_map(|part| part.split_once('=')).collect()
}

/// Digits as `0`, letters as `a`.
fn shape(value: &str) -> String {
    let mut shape = String::new();
    for letter in value.chars() {
        let class = if letter.is_ascii_digit() {
            '0'
        } else if letter.is_alphabetic() {
            'a'
        } else {
            letter
        };
        if !shape.ends_with(class) || class == '.' {
            shape.push(class);
        }
    }
    shape
}

fn compared(request: &str, name: &str, value: &str) -> String {
    let is_time = name.ends_with("_time");
    let leaves = request.contains("?leaves-") && SHAPES_OF_LEAVING.contains(&name);
    if SHAPES.contains(&name) || is_time || leaves {
        // An identifier mixes digits and letters at random.
        return if name == "request_id" { format!("{} letters", value.len()) } else { shape(value) };
    }
    if let Some((multipart, _)) = value.split_once("; boundary=") {
        return multipart.to_owned();
    }
    value.replace("127.0.0.2", "127.0.0.1")
}

fn is_alike(request: &str, name: &str, theirs: &str, ours: &str) -> bool {
    if compared(request, name, theirs) == compared(request, name, ours) {
        return true;
    }
    let (Ok(theirs), Ok(ours)) = (theirs.parse::<i64>(), ours.parse::<i64>()) else { return false };
    LENGTHS.contains(&name) && [NAME_BYTES, 2 * NAME_BYTES].contains(&(ours - theirs))
}

const LAST: &str = "/return/200?last";

#[test]
fn each_variable_is_logged_alike_after_each_end() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let (origin, dead, application) = (start_origin(), dead_port(), application::start());
    let silent = origin::Options { silent: true, ..origin::Options::default() };
    let silent = origin::Origin::bind(silent).unwrap().start().unwrap();
    let dead_address = dead.local_addr().unwrap().as_socket().unwrap();
    let upstreams = [origin.address(), dead_address, silent.address(), application.address()];
    let format: Vec<_> = variables().map(|name| format!("{name}=${name}")).collect();
    let text = TEXT.replace("{format}", &format.join(" ;; "));
    let page = pattern(20);
    let files = [("site/a.txt", page), ("site/empty.txt", Vec::new()), ("site/page.html", b"<p>page</p>".to_vec())];
    let sides = Sides::start(&nginx, &text, &upstreams, &files);
    let mut cases = cases();
    let only = std::env::var("DIFFERENTIAL").ok();
    cases.retain(|case| only.as_ref().is_none_or(|part| case.name.contains(part)));
    for side in [Side::Nginx, Side::Ours] {
        for case in &cases {
            talk::run(sides.address(side, 0), case);
        }
        tunnel(sides.address(side, 0));
        unfinished(&sides, side);
        talk::run(sides.address(side, 0), &Case::simple("GET", "test", LAST));
    }
    let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| sides.log_lines(side, LAST));
    let accepted = accepted::read(include_str!("accepted.txt"), Nginx::New);
    let mut wrong = Vec::new();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let (request, _) = theirs.split_once(" ;; ").unwrap_or_default();
        let (theirs, ours) = (values(theirs), values(ours));
        for (name, value) in &theirs {
            let own = ours.get(name).copied().unwrap_or("(missing)");
            if is_alike(request, name, value, own) {
                continue;
            }
            let difference = format!("${name} {value:?} -> {own:?}");
            if accepted.iter().filter(|line| line.covers("ends", request, &difference)).count() == 0 {
                wrong.push(format!("ends/{request} :: {difference}"));
            }
        }
    }
    if only.is_none() {
        let unused = accepted.iter().filter_map(|line| line.unused("ends"));
        wrong.extend(unused.map(|line| format!("no difference any more, take it out of accepted.txt: {line}")));
    }
    if theirs.len() != ours.len() {
        wrong.push(format!("nginx has {} lines, we have {}", theirs.len(), ours.len()));
    }
    assert!(theirs.len() > cases.len().min(100), "{} lines of {} cases", theirs.len(), cases.len());
    assert!(wrong.is_empty(), "{} values differ (nginx's -> ours):\n    {}", wrong.len(), wrong.join("\n    "));
}
