//! Every variable that a log may have, after each kind of end of an exchange: runs the same conversations with nginx
//! and the gateway, and compares the values of each line.
//!
//! Values that depend on the clock are compared by shape. Lengths may differ by the difference between the two servers'
//! names.

use rules::variable::Variable;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::cases::{Case, chunked, pattern};
use super::leaving::{Seen, Way, connect_secure, upstream, with_certificate};
use super::{Side, Sides, accepted, application, compare, dead_port, over_http2, silence, start_origin, talk};
use testkit::sides::{Nginx, nginx_or_skip};
use testkit::{Http2Talk, Peer, Talk};

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

/// The end of a tunnel.
#[derive(Debug, Clone, Copy)]
enum TunnelEnd {
    Client(Way),
    UpstreamFin,
    UpstreamReset,
    /// The upstream is silent for longer than `proxy_read_timeout`.
    Timeout,
}

impl TunnelEnd {
    fn all() -> impl Iterator<Item = Self> {
        let by_client = Way::ALL.into_iter().map(Self::Client);
        by_client.chain([Self::UpstreamFin, Self::UpstreamReset, Self::Timeout])
    }
}

/// A tunnel with a message each way. Its line follows when it has ended.
fn tunnel(sides: &Sides, side: Side, end: TunnelEnd) {
    let way = if let TunnelEnd::Client(way) = end { way } else { Way::Fin };
    let mut client = way.connect([2, 3].map(|listener| sides.address(side, listener)));
    let place = format!("{end:?}").replace(['(', ')'], "-");
    let line = format!("GET /tunnel/{place} HTTP/1.1");
    client.send(format!("{line}\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"));
    assert_eq!(client.head().map(|head| head.status()), Some(101), "{place}");
    client.send("ping");
    client.expect("hello");
    if let TunnelEnd::Client(way) = end {
        way.leave(&mut client);
    } else {
        client.rest();
        // A tunnel of ours passes the upstream's FIN on, and ends when the client has closed its side, too.
        client.close();
    }
    sides.log_line_of(side, &format!("\"{line}\""));
}

/// The other end of the tunnels: the path says how it ends them.
fn tunnel_peer() -> Peer {
    Peer::script(|mut talk| {
        let Some(head) = talk.head() else { return };
        talk.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n");
        talk.expect("ping");
        talk.send("hello");
        match head.target().rsplit('/').next() {
            Some("UpstreamFin") => talk.close(),
            Some("UpstreamReset") => talk.reset(),
            _ => _ = talk.rest(),
        }
    })
}

/// What the configuration sends as `X-Side`: the names of the sides have different lengths.
fn name_of(sides: &Sides, side: Side) -> String {
    sides.address(side, 0).ip().to_string()
}

/// Clients that leave before the response: each waits for its line.
fn leaving(sides: &Sides, side: Side, seen: &Seen) {
    let (addresses, name) = ([2, 3].map(|listener| sides.address(side, listener)), name_of(sides, side));
    // From now on each request of this zone is delayed.
    talk::run(sides.address(side, 2), &Case::simple("GET", "test", "/delayed/"));
    for (at, way) in Way::ALL.into_iter().enumerate() {
        let body = "Content-Type: a/b\r\nContent-Length: 5\r\n\r\nhello";
        let half = "Content-Length: 10\r\n\r\nhello";
        for (method, path, rest) in [
            ("GET", "/silent", "\r\n"),
            ("GET", "/ignoring/answers", "\r\n"),
            ("POST", "/silent", body),
            ("POST", "/streamed/silent", body),
            ("POST", "/streamed/silent", half),
            ("GET", "/direct/part", "\r\n"),
        ] {
            let place = format!("{way:?}-{}", rest.len());
            let event = |event| seen.event(&name, &format!("{method}{path}{place}"), event);
            let mut client = way.connect(addresses);
            let line = format!("{method} {path}?place={method}{path}{place} HTTP/1.1");
            client.send(format!("{line}\r\nHost: test\r\n{rest}"));
            if path.starts_with("/direct") {
                client.read(20);
            }
            event("asked").wait();
            way.leave(&mut client);
            let _ = talk::run(sides.address(side, 2), &Case::simple("GET", "test", "/alive"));
            event("left").raise();
            sides.log_line_of(side, &format!("\"{line}\""));
        }
        // The line of `limit_req`: a client in it leaves.
        let mut client = way.connect(addresses);
        let line = format!("GET /delayed/?{at} HTTP/1.1");
        client.send(format!("{line}\r\nHost: test\r\n\r\n"));
        let _ = talk::run(sides.address(side, 2), &Case::simple("GET", "test", "/alive"));
        way.leave(&mut client);
        sides.log_line_of(side, &format!("\"{line}\""));
    }
}

/// How a client over HTTP/2 leaves.
const WAYS_OVER_HTTP2: [&str; 3] = ["stream", "fin", "reset"];

/// The same over HTTP/2.
fn leaving_over_http2(sides: &Sides, side: Side, seen: &Seen) {
    let name = name_of(sides, side);
    for way in WAYS_OVER_HTTP2 {
        for (method, path, body) in [
            ("GET", "/silent", None),
            ("GET", "/ignoring/answers", None),
            ("POST", "/silent", Some("hello")),
            ("POST", "/streamed/silent", Some("hello")),
            ("GET", "/direct/part", None),
            ("GET", "/delayed/", None),
        ] {
            let place = format!("{method}{path}http2-{way}");
            let event = |event| seen.event(&name, &place, event);
            let mut client = Http2Talk::connect(sides.address(side, 2));
            let target = format!("{path}?place={place}");
            let fields: &[_] = match body {
                None => &[(":authority", "test")],
                Some(_) => &[(":authority", "test"), ("content-length", "5")],
            };
            let stream = client.open(method, &target, fields, body.is_none());
            if let Some(body) = body {
                client.send(stream, body.as_bytes(), true);
            }
            match path {
                "/delayed/" => client.ping(),
                "/direct/part" => client.until("a part of the body", |talk| talk.so_far(stream).body == b"hello"),
                _ => event("asked").wait(),
            }
            client.ping();
            match way {
                "stream" => client.reset(stream),
                "fin" => client.close(),
                _ => client.break_off(),
            }
            let _ = talk::run(sides.address(side, 2), &Case::simple("GET", "test", "/alive"));
            event("left").raise();
            sides.log_line_of(side, &format!("\"{method} {target} HTTP/2.0\""));
        }
    }
}

/// Ends without a whole response: each waits for its line.
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
}

/// Cases between two looks at the logs: ours hold a bounded number of bytes until they are asked for.
const UNASKED: usize = 32;

/// All cases in clear, under TLS, and over HTTP/2 as far as it can express them.
fn converse(sides: &Sides, side: Side, cases: &[Case]) {
    let [plain, secure] = [0, 4].map(|listener| sides.address(side, listener));
    let look = || {
        sides.log_text(side);
        sides.our_log();
    };
    for cases in cases.chunks(UNASKED) {
        for case in cases {
            talk::run(plain, case);
        }
        look();
        for case in cases {
            talk::run_secure(connect_secure(secure), case);
        }
        look();
        for request in cases.iter().filter_map(over_http2::request_of) {
            over_http2::ask(plain, &request, talk::PATIENCE);
        }
        look();
    }
}

/// The lines of each request, as the log has it. Exchanges at the same time may end in any order.
fn by_request(lines: &[String]) -> BTreeMap<&str, Vec<BTreeMap<&str, &str>>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for line in lines {
        let (request, _) = line.split_once(" ;; ").unwrap_or_default();
        found.entry(request).or_default().push(values(line));
    }
    found
}

/// The variables that differ, with their requests.
fn differences_of_lines(theirs: &[String], ours: &[String]) -> Vec<(String, String)> {
    let (theirs, ours) = (by_request(theirs), by_request(ours));
    let mut found = Vec::new();
    for request in theirs.keys().chain(ours.keys().filter(|request| !theirs.contains_key(*request))) {
        let [theirs, ours] = [&theirs, &ours].map(|side| side.get(request).map_or(&[][..], Vec::as_slice));
        if theirs.len() != ours.len() {
            found.push(((*request).to_owned(), format!("lines {} -> {}", theirs.len(), ours.len())));
            continue;
        }
        for (theirs, ours) in theirs.iter().zip(ours) {
            for (name, value) in theirs {
                let own = ours.get(name).copied().unwrap_or("(missing)");
                if !is_alike(request, name, value, own) {
                    found.push(((*request).to_owned(), format!("${name} {value:?} -> {own:?}")));
                }
            }
        }
    }
    found
}

/// What silent clients observed, and the lines of the error logs about them, where they differ: nginx's comes first.
fn differences_of_silent(
    silent: &[Vec<(String, Option<talk::Observed>)>],
    [their_log, our_log]: [&str; 2],
) -> Vec<(String, String)> {
    let [theirs, ours] = silent else { return Vec::new() };
    let mut found = Vec::new();
    for ((line, theirs), (_, ours)) in theirs.iter().zip(ours) {
        if let (Some(theirs), Some(ours)) = (theirs, ours) {
            found.extend(
                compare::differences(theirs, ours).into_iter().map(|difference| (format!("\"{line}\""), difference)),
            );
        }
        let [theirs, ours] = [their_log, our_log].map(|log| silence::phrases(log, line).join("; "));
        if theirs != ours {
            found.push((format!("\"{line}\""), format!("log {theirs:?} -> {ours:?}")));
        }
    }
    found
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
    let seen = Arc::<Seen>::default();
    let (leaving_peer, tunnel_peer) = (upstream(&seen), tunnel_peer());
    let upstreams = [
        origin.address(),
        dead_address,
        silent.address(),
        application.address(),
        leaving_peer.address(),
        tunnel_peer.address(),
    ];
    let format: Vec<_> = variables().map(|name| format!("{name}=${name}")).collect();
    let (_certificate, text) = with_certificate(&TEXT.replace("{format}", &format.join(" ;; ")));
    let page = pattern(20);
    let files = [
        ("site/long", vec![b'x'; silence::LONG_BYTES]),
        ("site/a.txt", page),
        ("site/empty.txt", Vec::new()),
        ("site/page.html", b"<p>page</p>".to_vec()),
    ];
    let sides = Sides::start(&nginx, &text, &upstreams, &files);
    let mut cases = cases();
    let only = std::env::var("DIFFERENTIAL").ok();
    cases.retain(|case| only.as_ref().is_none_or(|part| case.name.contains(part)));
    let mut silent = Vec::new();
    for side in [Side::Nginx, Side::Ours] {
        converse(&sides, side, &cases);
        for end in TunnelEnd::all() {
            tunnel(&sides, side, end);
        }
        unfinished(&sides, side);
        silent.push(silence::run(&sides, side));
        leaving(&sides, side, &seen);
        leaving_over_http2(&sides, side, &seen);
        talk::run(sides.address(side, 0), &Case::simple("GET", "test", LAST));
    }
    let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| sides.log_lines(side, LAST));
    let accepted = accepted::read(include_str!("accepted.txt"), Nginx::New);
    let mut wrong = Vec::new();
    let logs = [sides.their_log(), sides.our_log()];
    let mut found = differences_of_silent(&silent, [&logs[0], &logs[1]]);
    found.extend(differences_of_lines(&theirs, &ours));
    for (request, difference) in found {
        if accepted.iter().filter(|line| line.covers("ends", &request, &difference)).count() == 0 {
            wrong.push(format!("ends/{request} :: {difference}"));
        }
    }
    if only.is_none() {
        let unused = accepted.iter().filter_map(|line| line.unused("ends"));
        wrong.extend(unused.map(|line| format!("no difference any more, take it out of accepted.txt: {line}")));
    }
    assert!(theirs.len() > cases.len().min(100), "{} lines of {} cases", theirs.len(), cases.len());
    assert!(wrong.is_empty(), "{} values differ (nginx's -> ours):\n    {}", wrong.len(), wrong.join("\n    "));
}
