//! The conversations of the suites again, over HTTP/2: each complete HTTP/1.1 request is sent on a stream to nginx and
//! to the gateway, and the answers are compared in the same way. Features of HTTP/1 only (pipelines, framing, syntax
//! errors) are left out.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::accepted::{self, Accepted};
use super::cases::{self, Case, Suite};
use super::talk::{Answer, End, Observed};
use super::{
    Outcome, application, assert_no_differences, cgi_applications, cgi_applications::Protocol, compare, dead_port,
    in_lanes, memcached_peer, start_origin,
};
use testkit::Http2Talk;
use testkit::sides::{Nginx, Side, Sides};

/// Fields that HTTP/2 does not have, or that have another meaning there.
const LEFT_OUT: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "http2-settings",
    "expect",
    "trailer",
];

/// A request in HTTP/2 form.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    /// The body ends; otherwise the client is silent behind it.
    pub(super) ends: bool,
}

#[test]
fn nginx_and_the_gateway_answer_alike_over_http2() {
    // nginx 1.22 knows no `http2 on`.
    let generation = Nginx::New;
    let Some(nginx) = testkit::sides::nginx_or_skip(generation) else { return };
    let origin = start_origin();
    let silent = origin::Options { silent: true, ..origin::Options::default() };
    let silent = origin::Origin::bind(silent).unwrap().start().unwrap();
    let dead = dead_port();
    let dead_address = dead.local_addr().unwrap().as_socket().unwrap();
    let application = application::start();
    let [fastcgi, scgi, uwsgi] = [Protocol::Fastcgi, Protocol::Scgi, Protocol::Uwsgi].map(cgi_applications::start);
    let memcached = memcached_peer::start();
    let upstreams =
        [origin.address(), dead_address, silent.address(), application.address(), fastcgi, scgi, uwsgi, memcached];
    let geo = cases::geo_folder();
    let accepted = accepted::read(include_str!("accepted_over_http2.txt"), generation);
    let over_http1 = accepted::read(include_str!("accepted.txt"), generation);
    let only = std::env::var("DIFFERENTIAL").ok();
    let outcomes = in_lanes(cases::suites(), |suite| {
        if let Some(module) = testkit::sides::missing_module(&nginx, suite.text) {
            testkit::skip(&format!("{} is missing: `cargo xtask peers` unpacks it", module.display()));
            return Outcome::default();
        }
        let text = format!("http2 on;\n{}", suite.text_with(&geo));
        let sides = Sides::start(&nginx, &text, &upstreams, &suite.files);
        compare_over_http2(suite, &sides, [&accepted, &over_http1], only.as_deref())
    });
    let run: usize = outcomes.iter().map(|outcome| outcome.run).sum();
    assert!(run > 1000 || only.is_some(), "{run} conversations are too few: what became of the others?");
    assert_no_differences(&outcomes, generation.program());
}

/// Unaccepted differences of a suite, and lines of the first list that no longer occur.
fn compare_over_http2(suite: &Suite, sides: &Sides, accepted: [&[Accepted]; 2], only: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    for case in &suite.cases {
        let Some(request) = request_of(case) else { continue };
        if only.is_some_and(|part| !case.name.contains(part)) {
            continue;
        }
        outcome.run += 1;
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| {
            let patience = accepted::patience(side, accepted[0], suite.name, &case.name);
            ask(sides.address(side, case.listener), &request, patience)
        });
        if only.is_some() {
            println!("{}/{}\n  nginx: {theirs:?}\n  ours:  {ours:?}", suite.name, case.name);
        }
        let log = sides.our_log();
        assert!(!log.contains("bug in holdfast"), "{}/{}:\n{log}", suite.name, case.name);
        for difference in compare::differences(&theirs, &ours) {
            let covers = |line: &&Accepted| line.covers(suite.name, &case.name, &difference);
            if accepted.iter().all(|list| list.iter().filter(covers).count() == 0) {
                outcome.wrong.push(format!("{}/{} :: {difference}", suite.name, case.name));
            }
        }
    }
    if only.is_none() {
        let unused = accepted[0].iter().filter_map(|line| line.unused(suite.name));
        outcome.wrong.extend(unused.map(|line| format!("no difference any more, take it out: {line}")));
    }
    outcome
}

/// The request of a case, if it has one that HTTP/2 can express.
pub(super) fn request_of(case: &Case) -> Option<Request> {
    if case.to_head.len() != 1 {
        return None;
    }
    let end = case.bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&case.bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let [method, path, "HTTP/1.1"] = lines.next()?.split(' ').collect::<Vec<_>>()[..] else { return None };
    let is_token =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_text = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if !is_token(method) || !path.starts_with('/') || !path.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return None;
    }
    let (mut fields, mut authority, mut chunked) = (Vec::new(), None, false);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        if !is_token(&name) || !is_text(value) {
            return None;
        }
        match name.as_str() {
            "host" if authority.is_some() => return None,
            "host" => authority = Some(value.to_owned()),
            "transfer-encoding" if value == "chunked" => chunked = true,
            _ if LEFT_OUT.contains(&name.as_str()) => return None,
            _ => fields.push((name, value.to_owned())),
        }
    }
    let authority =
        authority.filter(|host| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte)))?;
    let rest = &case.bytes[end + 4..];
    let length = fields.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse::<usize>());
    let body = match (length, chunked) {
        (Some(Ok(length)), false) if rest.len() == length => Some(rest.to_vec()),
        (None, true) => Some(dechunked(rest)?),
        (None, false) if rest.is_empty() => None,
        _ => return None,
    };
    fields.insert(0, (":authority".to_owned(), authority));
    Some(Request { method: method.to_owned(), path: path.to_owned(), fields, body, ends: true })
}

/// A body without its chunks.
fn dechunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return (rest == b"\r\n").then_some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// Sends one request on a connection of its own; observes whether the connection continues.
pub(super) fn ask(address: SocketAddr, request: &Request, patience: Duration) -> Observed {
    let mut talk = Http2Talk::connect(address);
    let fields: Vec<(&str, &str)> =
        request.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let body = request.body.as_deref().unwrap_or_default();
    // nginx would wait for ever for an end that comes in its own frame after `content-length: 0`.
    let stream = talk.open(&request.method, &request.path, &fields, body.is_empty() && request.ends);
    if !body.is_empty() {
        talk.send(stream, body, request.ends);
    }
    let mut answers = Vec::new();
    let is_over = wait(&mut talk, stream, patience);
    let answer = talk.so_far(stream).clone();
    for (status, fields) in &answer.interims {
        answers.push(Answer { version: "HTTP/2".into(), status: *status, fields: named(fields), ..Answer::default() });
    }
    if answer.status != 0 {
        answers.push(Answer {
            version: "HTTP/2".into(),
            status: answer.status,
            fields: named(&answer.fields),
            body: answer.body,
            trailers: named(&answer.trailers),
            is_cut: !answer.is_whole,
            to_head: request.method == "HEAD",
            ..Answer::default()
        });
    }
    if !is_over {
        return Observed { answers, end: End::Silent };
    }
    // A connection with GOAWAY accepts no further streams.
    if talk.is_closed() || talk.goaway.is_some() {
        return Observed { answers, end: End::Closed };
    }
    let probe = talk.open("GET", "/alive", &[(":authority", "alive")], true);
    wait(&mut talk, probe, patience);
    let end = match talk.so_far(probe).status {
        204 => End::Open,
        0 => End::Closed,
        status => End::Confused(status),
    };
    Observed { answers, end }
}

/// Fields with their usual HTTP/1.1 names, as in accepted.txt.
fn named(fields: &[(String, String)]) -> Vec<(String, String)> {
    let customary = |name: &str| match http1::FieldId::of_name(name.as_bytes()) {
        http1::FieldId::Other => {
            let word = |word: &str| word[..1].to_uppercase() + &word[1..];
            name.split('-').filter(|part| !part.is_empty()).map(word).collect::<Vec<_>>().join("-")
        }
        id => id.name().to_owned(),
    };
    fields.iter().map(|(name, value)| (customary(name), value.clone())).collect()
}

/// Waits for the end of a stream, or of its connection; `false`: nothing more arrives.
fn wait(talk: &mut Http2Talk, stream: u32, patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let answer = talk.so_far(stream);
        if answer.is_whole || answer.reset.is_some() || talk.is_closed() {
            return true;
        }
        if begun.elapsed() > patience {
            return false;
        }
        talk.step();
    }
}
