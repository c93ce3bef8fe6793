//! `explain` against the gateway: the same configuration, the same requests. Where explain says that the gateway
//! answers, status, fields and body are compared; where it says that the request goes to an upstream, the peer and the
//! bytes of the head that it receives. Each location adds a field with its line, so that the location is compared, too.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use gateway::explain::{ExplainedEnd, ExplainedRequest, Explanation, LocalAnswer, Phase, UpstreamAnswer};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use testkit::{Explainer, Gateway, Peer, Request, Response, Talk};

/// The field with the line of the location that answered.
const LINE: &str = "X-Line";

/// Fields that depend on the connection or the second.
const OF_THE_CONNECTION: [&str; 6] = ["Date", "Expires", "Connection", "Transfer-Encoding", "Keep-Alive", LINE];

/// Method, host, target, and further fields.
type Row = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The requests to the first port.
const ROWS: &[Row] = &[
    // Servers.
    ("GET", "first.example", "/", &[]),
    ("GET", "unknown.example", "/exact", &[]),
    ("GET", "www.example.com", "/", &[]),
    ("GET", "WWW.Example.COM.", "/", &[]),
    ("GET", "other.example.com", "/", &[]),
    ("GET", "a.b.example.com", "/", &[]),
    ("GET", "mail.example.org", "/", &[]),
    ("GET", "shop.regex.example", "/", &[]),
    ("GET", "dotted.example", "/x?y=1", &[]),
    ("GET", "a.dotted.example", "/", &[]),
    ("GET", "slashes.example", "/a//b", &[]),
    ("GET", "slashes.example", "/a/b", &[]),
    ("GET", "slashes.example", "/client", &[("X-Real-IP", "192.0.2.1")]),
    ("GET", "slashes.example", "/client", &[("X-Real-IP", "192.0.2.2")]),
    ("GET", "slashes.example", "/return-client", &[("X-Real-IP", "192.0.2.3")]),
    // A server's own program.
    ("GET", "d", "/exact", &[("X-Gone", "1")]),
    ("GET", "d", "/server/x?y", &[]),
    // Locations.
    ("GET", "d", "/exact", &[]),
    ("GET", "d", "/exactly", &[]),
    ("GET", "d", "//exact", &[]),
    ("GET", "d", "/./x/../exact", &[]),
    ("GET", "d", "/%65xact", &[]),
    ("GET", "d", "/a.txt", &[]),
    ("GET", "d", "/static/a.txt", &[]),
    ("GET", "d", "/static/absent.txt", &[]),
    ("GET", "d", "/a.PNG", &[]),
    ("GET", "d", "/user/17", &[]),
    ("GET", "d", "/user/x", &[]),
    ("GET", "d", "/outer/a.txt", &[]),
    ("GET", "d", "/outer/inner/a", &[]),
    ("GET", "d", "/outer/inner/a.txt", &[]),
    ("GET", "d", "/outer/b", &[]),
    ("GET", "d", "/internal", &[]),
    ("GET", "d", "/to-internal", &[]),
    // Programs.
    ("GET", "d", "/last/x?y=1", &[]),
    ("GET", "d", "/last/a%20b", &[]),
    ("GET", "d", "/break/a.txt", &[]),
    ("GET", "d", "/break/absent", &[]),
    ("GET", "d", "/loop", &[]),
    ("GET", "d", "/moved/a%3fb?c", &[]),
    ("GET", "d", "/scheme", &[]),
    ("GET", "d", "/redirect?a=b", &[]),
    ("GET", "d", "/see", &[]),
    ("GET", "d", "/silent", &[]),
    ("GET", "d", "/nothing", &[]),
    ("GET", "d", "/set?x=2", &[]),
    ("GET", "d", "/set?x=3", &[]),
    ("GET", "d", "/if", &[]),
    ("POST", "d", "/if?x=z", &[("Content-Length", "0")]),
    ("GET", "d", "/if?x=1", &[("Cookie", "ID=seven; other=1")]),
    ("GET", "d", "/if?break=1", &[]),
    ("GET", "d", "/if-proxy/x", &[]),
    ("GET", "d", "/if-proxy/x?other=1", &[]),
    // Files.
    ("GET", "d", "/there.html", &[]),
    ("HEAD", "d", "/there.html", &[]),
    ("GET", "d", "/there.html", &[("If-None-Match", "*")]),
    ("GET", "d", "/there.html", &[("Range", "bytes=1-2")]),
    ("PUT", "d", "/there.html", &[("Content-Length", "0")]),
    ("GET", "d", "/absent", &[]),
    ("GET", "d", "/directory", &[]),
    ("GET", "d", "/directory/", &[]),
    ("GET", "d", "/empty/", &[]),
    ("GET", "d", "/named", &[]),
    ("GET", "d", "/named-proxy/x?y", &[]),
    ("GET", "d", "/fallback", &[]),
    ("GET", "d", "/fallback-uri?x=7", &[]),
    ("GET", "d", "/alias/a.txt", &[]),
    ("GET", "d", "/alias/a.css", &[]),
    ("GET", "d", "/alias-regex/a.css", &[]),
    ("GET", "d", "/alias", &[]),
    ("GET", "d", "/gif", &[]),
    ("GET", "d", "/list/", &[]),
    // Pages for errors.
    ("GET", "d", "/error", &[]),
    ("GET", "d", "/error-status", &[]),
    ("GET", "d", "/error-away", &[]),
    ("GET", "d", "/error-code", &[]),
    ("GET", "d", "/error-own", &[]),
    ("POST", "d", "/error", &[("Content-Length", "0")]),
    // Access and limits.
    ("GET", "d", "/denied", &[]),
    ("GET", "d", "/denied-file", &[]),
    ("GET", "d", "/allowed-file", &[]),
    ("GET", "d", "/password", &[]),
    ("GET", "d", "/password", &[("Authorization", "Basic bWU6c2VjcmV0")]),
    ("GET", "d", "/password", &[("Authorization", "Basic bWU6d3Jvbmc=")]),
    ("GET", "d", "/any", &[]),
    ("GET", "d", "/any", &[("Authorization", "Basic bWU6c2VjcmV0")]),
    ("GET", "d", "/limited", &[]),
    ("GET", "d", "/get-only", &[]),
    ("POST", "d", "/get-only", &[("Content-Length", "0")]),
    ("POST", "d", "/large", &[("Content-Length", "11")]),
    ("POST", "d", "/large", &[("Content-Length", "10")]),
    ("GET", "d", "/map", &[("X-Kind", "green")]),
    ("GET", "d", "/map", &[]),
    // Upstreams.
    ("GET", "d", "/proxy/a%20b?c=d", &[]),
    ("GET", "d", "/proxy/../proxy/x", &[]),
    ("HEAD", "d", "/proxy/x", &[]),
    ("GET", "d", "/proxy/x", &[("Connection", "close, X-Hop"), ("X-Hop", "1"), ("X-Stays", "1")]),
    ("POST", "d", "/proxy/x", &[("Content-Length", "5")]),
    ("GET", "d", "/proxy-uri/a/b?c", &[]),
    ("GET", "d", "/proxy-uri/a%2fb", &[]),
    ("GET", "d", "/proxy-uri//a", &[]),
    ("GET", "d", "/proxy-slash/a?b", &[]),
    ("GET", "d", "/proxy-slash", &[]),
    ("GET", "d", "/proxy-exact?own=1", &[]),
    ("GET", "d", "/proxy-regex/a", &[]),
    ("GET", "d", "/proxy-rewritten/a%20b?c", &[]),
    ("GET", "d", "/proxy-args?c=d", &[]),
    ("GET", "d", "/proxy-variable/x?to=other", &[]),
    ("GET", "d", "/proxy-variable/x", &[]),
    ("GET", "d", "/proxy-variable-uri/x?to=other", &[]),
    (
        "GET",
        "d:8080",
        "/proxy-headers",
        &[("X-Kind", "blue"), ("X-Forwarded-For", "192.0.2.9"), ("Accept-Encoding", "gzip")],
    ),
    ("GET", "d", "/proxy-10", &[]),
    ("GET", "d", "/proxy-method", &[]),
    ("POST", "d", "/proxy-body/x", &[("Content-Length", "3")]),
    ("POST", "d", "/proxy-no-body", &[("Content-Length", "3")]),
    ("GET", "d", "/proxy-no-headers", &[("X-Own", "1")]),
    ("GET", "d", "/proxy-upgrade", &[]),
    ("GET", "d", "/slash-missing", &[]),
    ("GET", "d", "/slash-missing?a=b", &[]),
    ("GET", "d", "/hashed/a", &[]),
    ("GET", "d", "/hashed/b", &[]),
    ("GET", "d", "/hashed/c", &[]),
    ("GET", "d", "/hashed/d", &[]),
    ("GET", "d", "/by-client", &[]),
    ("GET", "d", "/by-key?key=a", &[]),
    ("GET", "d", "/by-key?key=b", &[]),
    ("GET", "d", "/by-key?key=c", &[]),
    ("GET", "d", "/more", &[("Cookie", "a=b")]),
    ("GET", "d", "/cached/a?b", &[("If-None-Match", "x"), ("X-Own", "1")]),
    ("HEAD", "d", "/cached/head", &[]),
    ("POST", "d", "/cached/post", &[("Content-Length", "2")]),
    ("GET", "d", "/cached-default/a?fresh=1", &[("Range", "bytes=0-1")]),
    ("GET", "d", "/direct?to=name.example", &[]),
    ("GET", "d", "/direct", &[]),
    // Filters and redirects.
    ("GET", "d", "/tested", &[]),
    ("GET", "d", "/gzip", &[("Accept-Encoding", "gzip")]),
    ("GET", "d", "/gzip", &[]),
    ("GET", "d", "/charset", &[]),
    ("GET", "d", "/conditions", &[]),
    ("GET", "d:99", "/no-absolute", &[]),
    ("GET", "D.", "/named-server", &[]),
    // Requests that are refused.
    ("GET", "d", "/%00", &[]),
    ("GET", "d", "/../x", &[]),
    ("get", "d", "/", &[]),
    ("GET", "d", "/", &[("Content-Length", "x")]),
    ("GET", "d", "/", &[("Host", "twice")]),
    ("TRACE", "d", "/exact", &[]),
];

/// A gateway with its upstreams, which remember what they got.
struct Site {
    gateway: Gateway,
    explainer: Explainer,
    peers: Vec<Peer>,
    received: Arc<Mutex<Vec<(usize, Request)>>>,
}

impl Site {
    fn start(text: &str) -> Self {
        let received: Arc<Mutex<Vec<(usize, Request)>>> = Arc::default();
        let peer = |index: usize| {
            let received = Arc::clone(&received);
            Peer::answering(move |request| {
                received.lock().unwrap().push((index, request.clone()));
                b"HTTP/1.1 200 OK\r\nX-Upstream: yes\r\nContent-Length: 0\r\n\r\n".to_vec()
            })
        };
        let peers = vec![peer(0), peer(1)];
        let addresses: Vec<_> = peers.iter().map(Peer::address).collect();
        let gateway = Gateway::start(&with_lines(text), &addresses);
        let site = Self { explainer: gateway.explainer(), gateway, peers, received };
        for (path, content) in [
            ("users", "me:{PLAIN}secret\n"),
            ("html/there.html", "there"),
            ("html/own.html", "own page"),
            ("html/missing.html", "missing"),
            ("html/static/a.txt", "static text"),
            ("html/static/a.css", "css"),
            ("html/directory/two.html", "two"),
            ("html/list/one.html", "one"),
            ("html/empty/.keep", ""),
        ] {
            let path = site.gateway.prefix().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        site
    }

    /// The answer of the gateway; `None` if it closed without one.
    fn ask(&self, row: &Row, port: usize) -> Option<Response> {
        let (method, host, target, fields) = row;
        let mut client = Talk::connect(self.gateway.address_of(port));
        let fields: String = fields.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]).collect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        client.send("x".repeat(body_bytes(row).unwrap_or_default()));
        let mut head = client.head()?;
        if *method == "HEAD" || matches!(head.status(), 204 | 304) {
            return Some(head);
        }
        head = client.response_behind(head);
        Some(head)
    }

    fn explain(&self, row: &Row, port: usize) -> Explanation {
        let (method, host, target, fields) = row;
        let port = self.gateway.address_of(port).port();
        let mut question = ExplainedRequest::new(&format!("http://127.0.0.1:{port}{target}")).unwrap();
        (*method).clone_into(&mut question.method);
        (*host).clone_into(&mut question.host);
        question.fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        question.body_bytes = body_bytes(row).map(|bytes| bytes as u64);
        self.explainer.explain(&question).unwrap()
    }

    /// What the upstreams got since the last call.
    fn take_received(&self) -> Vec<(usize, Request)> {
        std::mem::take(&mut self.received.lock().unwrap())
    }
}

fn body_bytes(row: &Row) -> Option<usize> {
    row.3.iter().find(|(name, _)| *name == "Content-Length").and_then(|(_, value)| value.parse().ok())
}

/// The configuration in which each location adds its line to its responses.
fn with_lines(text: &str) -> String {
    let mut out = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let is_location = line.trim_start().starts_with("location ");
        if let Some(brace) = line.find(" {").filter(|_| is_location) {
            let (before, after) = line.split_at(brace + 2);
            let _ = writeln!(out, "{before} add_header {LINE} {number} always; {after}");
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Compares what explain says with what happened; the text of a difference.
fn difference(
    said: &Explanation,
    got: Option<&Response>,
    received: &[(usize, Request)],
    site: &Site,
) -> Option<String> {
    let line = got.and_then(|got| got.value(LINE)).map(str::to_owned);
    let said_line = said.location.as_ref().map(|location| location.at.line.to_string());
    match (&said.outcome, got) {
        (ExplainedEnd::Closed { .. }, None) => return None,
        (ExplainedEnd::Answer(_) | ExplainedEnd::Upstream(_), Some(_)) if line != said_line => {
            return Some(format!("location: said {said_line:?}, got {line:?}"));
        }
        _ => {}
    }
    match (&said.outcome, got, received) {
        (ExplainedEnd::Answer(answer), Some(got), []) => of_answer(answer, got),
        (ExplainedEnd::Upstream(upstream), Some(_), [(peer, request)]) => of_upstream(upstream, *peer, request, site),
        (outcome, got, received) => Some(format!("said {outcome:?}, got {got:?}, received {received:?}")),
    }
}

fn of_answer(answer: &LocalAnswer, got: &Response) -> Option<String> {
    let kept = |fields: &[(String, String)]| {
        let is_kept = |(name, _): &&(String, String)| {
            !OF_THE_CONNECTION.iter().any(|other| other.eq_ignore_ascii_case(name))
                && !name.eq_ignore_ascii_case("content-length")
        };
        fields.iter().filter(is_kept).map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
    };
    if answer.status != got.status() || kept(&answer.headers) != kept(&got.fields) {
        return Some(format!("said {} {:?}, got {} {:?}", answer.status, answer.headers, got.status(), got.fields));
    }
    let is_same = answer.body.as_ref().is_none_or(|body| got.body.starts_with(body.as_bytes()));
    (!is_same).then(|| format!("said {:?}, got {:?}", answer.body, String::from_utf8_lossy(&got.body)))
}

fn of_upstream(upstream: &UpstreamAnswer, peer: usize, request: &Request, site: &Site) -> Option<String> {
    if upstream.request_line != request.line || upstream.headers != request.fields {
        let (line, headers) = (&upstream.request_line, &upstream.headers);
        return Some(format!("said {line} {headers:?}, the upstream got {} {:?}", request.line, request.fields));
    }
    let address = site.peers[peer].address().to_string();
    (upstream.peer.as_ref() != Some(&address)).then(|| format!("said {:?}, got {address}", upstream.peer))
}

#[test]
fn output_matches_the_gateway() {
    let site = Site::start(include_str!("site.conf"));
    let mut differences = Vec::new();
    for row in ROWS {
        let said = site.explain(row, 0);
        let got = site.ask(row, 0);
        let received = site.take_received();
        if let Some(text) = difference(&said, got.as_ref(), &received, &site) {
            differences.push(format!("{} {} {}: {text}", row.0, row.1, row.2));
        }
    }
    assert!(differences.is_empty(), "{} of {} rows:\n{}", differences.len(), ROWS.len(), differences.join("\n"));
}

#[test]
fn finds_the_listener_by_the_port() {
    let site = Site::start(include_str!("site.conf"));
    let row: Row = ("GET", "second.example", "/", &[]);
    let said = site.explain(&row, 1);
    assert_eq!(said.listener, site.gateway.address_of(1).to_string());
    let got = site.ask(&row, 1);
    assert_eq!(difference(&said, got.as_ref(), &[], &site), None);
    let error = site.explainer.explain(&ExplainedRequest::new("http://127.0.0.1:1/").unwrap()).unwrap_err();
    assert!(error.starts_with("nothing listens on port 1;"), "{error}");
}

#[test]
fn gives_reasons() {
    let site = Site::start(include_str!("site.conf"));
    let why = |host: &'static str, target: &'static str| {
        let said = site.explain(&("GET", host, target, &[]), 0);
        (said.server.unwrap().why, said.location.map(|location| location.why).unwrap_or_default())
    };
    assert_eq!(why("www.example.com", "/").0, "\"www.example.com\" is one of its names");
    assert_eq!(why("x.example.com", "/").0, "\"x.example.com\" matches one of its names with a leading wildcard");
    assert_eq!(
        why("mail.example.org", "/").0,
        "\"mail.example.org\" matches one of its names with a trailing wildcard"
    );
    assert_eq!(why("a.regex.example", "/").0, "\"a.regex.example\" matches the regular expression of its name");
    assert_eq!(why("x", "/").0, "no server has the name \"x\": it is the default server of the address");
    assert_eq!(why("x", "/exact").1, "its exact name is the URI, which ends the search");
    assert_eq!(why("x", "/exactly").1, "it is the longest prefix, and no expression matches");
    assert_eq!(why("x", "/static/a.txt").1, "it is the longest prefix and has ^~, so no expression is tried");
    assert_eq!(why("x", "/a.gif").1, "it is the first regular expression that matches");
    assert_eq!(why("x", "/named").1, "it was named");
}

#[test]
fn steps_name_the_directive_and_its_line() {
    let text = include_str!("site.conf");
    let site = Site::start(text);
    let said = site.explain(&("POST", "d", "/if?x=z", &[("Cookie", "id=7")]), 0);
    let line_of = |part: &str| (1..).zip(text.lines()).find(|(_, line)| line.contains(part)).unwrap().0;
    for (phase, text, part) in [
        (Phase::Server, "Server default.example", "    server {\n"),
        (Phase::Location, "location /if takes /if", "location /if {"),
        (Phase::Rewrite, "set $answer \"none\": the value is \"none\"", "set $answer \"none\""),
        (Phase::Rewrite, "if ($request_method = POST): true", "($request_method = POST)"),
        (Phase::Rewrite, "the value is \"cookie 7\"", "id=("),
        (Phase::Rewrite, "if ($arg_x !~ ^z): false", "!~ ^z"),
        (Phase::Rewrite, "if (-f $document_root/there.html): true. ", "-f $document_root/there.html"),
        (Phase::Rewrite, "if (!-e $document_root/absent.html): true. ", "!-e $document_root"),
    ] {
        let is_it = |step: &&gateway::explain::ExplainedStep| step.phase == phase && step.text.contains(text);
        let step = said.steps.iter().find(is_it).unwrap_or_else(|| panic!("{text} in {:#?}", said.steps));
        let at = step.at.as_ref().unwrap();
        assert!(at.file.ends_with("nginx.conf"), "{at:?}");
        if !part.contains('\n') {
            assert_eq!(at.line, line_of(part), "{text}");
        }
    }
}

#[test]
fn a_pattern_that_did_not_match_is_listed() {
    let site = Site::start(include_str!("site.conf"));
    let said = site.explain(&("GET", "d", "/user/17", &[]), 0);
    let step = said.steps.iter().rfind(|step| step.phase == Phase::Location).unwrap();
    let tried: Vec<_> =
        step.details.iter().map(|detail| format!("{} {}", detail.text, detail.at.as_ref().unwrap().text)).collect();
    assert_eq!(
        tried,
        [
            "the longest prefix location /",
            "does not match location ~ \\.txt$",
            "does not match location ~* \\.(?<kind_of>gif|png)$",
            "matches location ~ ^/user/(\\d+)$",
        ]
    );
}

/// `auth_request`, `mirror` and the cache would ask others or write files.
#[test]
fn nothing_is_asked_and_nothing_is_written() {
    let site = Site::start(
        "events {} http { access_log off;
            proxy_cache_path cache keys_zone=zone:1m;
            server { listen {listen};
                location / { auth_request /auth; mirror /mirror; proxy_cache zone; proxy_cache_key $host$uri;
                    client_body_in_file_only on; proxy_pass http://{upstream:0}; }
                location /auth { proxy_pass http://{upstream:1}; }
                location /mirror { proxy_pass http://{upstream:1}; } } }",
    );
    let before = files_below(&site.gateway.prefix());
    let said = site.explain(&("POST", "d", "/x", &[("Content-Length", "100000")]), 0);
    let ExplainedEnd::Upstream(upstream) = &said.outcome else { panic!("{said:#?}") };
    assert_eq!(upstream.cache.as_ref().map(|cache| &*cache.key), None, "a POST is not cached");
    assert!(upstream.headers.contains(&("Content-Length".to_owned(), "100000".to_owned())), "{upstream:?}");
    assert!(said.assumptions.iter().any(|text| text.contains("/auth (auth_request)")), "{:?}", said.assumptions);
    let said = site.explain(&("HEAD", "d", "/x", &[]), 0);
    let ExplainedEnd::Upstream(upstream) = &said.outcome else { panic!("{said:#?}") };
    assert_eq!(upstream.cache.as_ref().map(|cache| (&*cache.zone, &*cache.key)), Some(("zone", "d/x")));
    assert_eq!(upstream.request_line, "GET /x HTTP/1.1", "a cached response is fetched by GET");
    assert_eq!((files_below(&site.gateway.prefix()), site.take_received().len()), (before, 0));
}

fn files_below(directory: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}
