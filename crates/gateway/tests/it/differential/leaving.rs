//! A client leaves at each of some twenty points of an exchange, by FIN and by RST, from nginx and from the gateway.
//! Compares the access log, whether the upstream's connection is closed, and whether the client's place is free again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use testkit::{Deaf, Peer, Refusing, Signal, Talk};

use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};

const TEXT: &str = include_str!("cases/leaving.conf");

/// More than the sockets between a server and a client that reads nothing can hold.
const LONG_BYTES: usize = 30_000_000;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Fin,
    Reset,
}

/// When it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Its bytes were read: a later client has been served.
    Read,
    /// The upstream has the request's head.
    Asked,
    /// This many bytes of the response have arrived.
    Heard(usize),
}

/// What happens to the upstream's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upstream {
    /// There is none.
    Unasked,
    /// It is closed, although the upstream has not answered.
    Closed,
    /// It may answer first.
    Answers,
}

/// A point of an exchange.
#[derive(Debug, Clone)]
struct Point {
    name: &'static str,
    sends: String,
    when: When,
    upstream: Upstream,
    /// nginx writes a line.
    is_logged: bool,
}

impl Point {
    /// A line as it is compared. A begun head may come before or behind the client's end, and nginx takes the status from it.
    fn shown(&self, line: &str) -> String {
        match line.strip_suffix(" 200") {
            Some(rest) if self.name.starts_with("half head") => format!("{rest} -"),
            _ => line.to_owned(),
        }
    }
}

fn get(name: &'static str, path: &str, when: When, upstream: Upstream) -> Point {
    let sends = format!("GET {path}?place=NAME HTTP/1.1\r\nHost: a\r\n\r\n");
    Point { name, sends, when, upstream, is_logged: true }
}

/// A request with these lines and this body.
fn post(name: &'static str, path: &str, lines: &str, body: &str, when: When, upstream: Upstream) -> Point {
    let sends = format!("POST {path}?place=NAME HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n{body}");
    Point { name, sends, when, upstream, is_logged: true }
}

fn points() -> Vec<Point> {
    use Upstream::{Answers, Closed, Unasked};
    use When::{Asked, Heard, Read};
    let nothing = Point { name: "nothing", sends: String::new(), when: Read, upstream: Unasked, is_logged: false };
    let raw = |name, sends: &str| Point { name, sends: sends.to_owned(), is_logged: true, ..nothing.clone() };
    let (ten, chunked) = ("Content-Length: 10", "Transfer-Encoding: chunked");
    vec![
        nothing.clone(),
        raw("request line", "GET /silent"),
        raw("head", "GET /silent HTTP/1.1\r\nHost: a\r\nX-"),
        post("body unsent", "/silent", ten, "", Read, Unasked),
        post("half body", "/silent", ten, "hello", Read, Unasked),
        post("half chunk", "/silent", chunked, "5\r\nhel", Read, Unasked),
        post("half body streamed", "/streamed/silent", ten, "hello", Asked, Closed),
        post("half chunk streamed", "/streamed/silent", chunked, "5\r\nhello\r\n5\r\nwo", Asked, Closed),
        get("waits", "/silent", Asked, Closed),
        post("waits, with a body", "/silent", ten, "helloworld", Asked, Closed),
        post("waits, with a streamed body", "/streamed/silent", ten, "helloworld", Asked, Closed),
        post("waits, with streamed chunks", "/streamed/silent", chunked, "5\r\nhello\r\n0\r\n\r\n", Asked, Closed),
        get("ignoring", "/ignoring/answers", Asked, Answers),
        get("connecting", "/deaf/x", Read, Unasked),
        get("second attempt", "/again/silent", Asked, Closed),
        get("delayed", "/delayed/x", Read, Unasked),
        get("half head of the response", "/half-head", Asked, Closed),
        get("response without its body", "/direct/head", Heard(20), Closed),
        get("half response", "/direct/part", Heard(20), Closed),
        get("half response in chunks", "/direct/chunks", Heard(20), Closed),
        get("half response until close", "/direct/until-close", Heard(20), Closed),
        get("unread response", "/long", Heard(20), Closed),
        get("response at a rate", "/slow/long", Heard(20), Closed),
        get("unread file", "/file/long", Heard(20), Unasked),
        get("file at a rate", "/slowfile/long", Heard(20), Unasked),
        get("idle", "/quick", Heard(HELLO.len()), Answers),
    ]
}

/// What the upstream has seen, by side and request.
#[derive(Debug, Default)]
struct Seen {
    signals: Mutex<BTreeMap<String, Signal>>,
}

impl Seen {
    /// The signal of this event, for the side that raises it and the side that waits.
    fn event(&self, side: &str, name: &str, event: &str) -> Signal {
        self.signals.lock().unwrap().entry(format!("{side} {name} {event}")).or_default().clone()
    }
}

/// The upstream's reaction to this request.
fn answer(talk: &mut Talk, behaviour: &str, left: &Signal) {
    match behaviour {
        "silent" => {}
        "half-head" => talk.send("HTTP/1.1 200 OK\r\nContent-Len"),
        "head" => talk.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        "part" => talk.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello"),
        "chunks" => talk.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        "until-close" => talk.send("HTTP/1.1 200 OK\r\n\r\nhello"),
        "long" => {
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG_BYTES}\r\n\r\n"));
            talk.send(vec![b'x'; LONG_BYTES - 1]);
        }
        "answers" => {
            left.wait();
            talk.send(HELLO);
        }
        _ => talk.send(HELLO),
    }
}

fn upstream(seen: &Arc<Seen>) -> Peer {
    let seen = Arc::clone(seen);
    Peer::script(move |mut talk| {
        let Some(head) = talk.head() else { return };
        let side = head.value("X-Side").unwrap_or_default().to_owned();
        let (path, name) = head.target().split_once("?place=").unwrap_or((head.target(), ""));
        let event = |event| seen.event(&side, name, event);
        event("asked").raise();
        answer(&mut talk, path.rsplit('/').next().unwrap_or_default(), &event("left"));
        talk.rest();
        event("closed").raise();
    })
}

/// How one side handled a client that left.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// The line of the access log, without the port.
    line: Option<String>,
    /// The status of the next request with the same key.
    next: u16,
}

fn run(sides: &Sides, side: Side, seen: &Seen, point: &Point, way: Way) -> Outcome {
    let name = format!("{}-{way:?}", point.name.replace([' ', ','], "-"));
    let (address, side_name) = (sides.address(side, 0), side.name());
    let event = |event| seen.event(side_name, &name, event);
    let mut client = Talk::connect(address);
    let port = client.address().port();
    client.send(point.sends.replace("NAME", &name));
    match point.when {
        When::Read => assert_eq!(ask(sides, side, "/alive"), 204),
        When::Asked => event("asked").wait(),
        When::Heard(bytes) => _ = client.read(bytes),
    }
    match way {
        Way::Fin => client.half_close(),
        Way::Reset => client.reset(),
    }
    assert_eq!(ask(sides, side, "/alive"), 204);
    event("left").raise();
    if point.upstream == Upstream::Closed {
        event("closed").wait();
    }
    let mark = format!("{port} ");
    let line = point.is_logged.then(|| point.shown(&sides.log_line_of(side, &mark)[mark.len()..]));
    Outcome { line, next: ask(sides, side, &format!("/quick?place={name}")) }
}

/// The status of a request on a connection of its own.
fn ask(sides: &Sides, side: Side, target: &str) -> u16 {
    let mut client = Talk::connect(sides.address(side, 0));
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    client.response().status()
}

fn differences(nginx: &Path) -> Vec<String> {
    let seen = Arc::<Seen>::default();
    let (peer, deaf, refusing) = (upstream(&seen), Deaf::new(), Refusing::new());
    let upstreams = [peer.address(), deaf.address(), refusing.address()];
    let sides = Sides::start(nginx, TEXT, &upstreams, &[("files/long", vec![b'x'; LONG_BYTES])]);
    for side in [Side::Nginx, Side::Ours] {
        // From now on every request of this zone is delayed.
        assert_eq!(ask(&sides, side, "/delayed/quick"), 200);
    }
    let mut wrong = Vec::new();
    for point in points() {
        for way in [Way::Fin, Way::Reset] {
            let theirs = run(&sides, Side::Nginx, &seen, &point, way);
            let ours = run(&sides, Side::Ours, &seen, &point, way);
            if theirs != ours {
                wrong.push(format!("{} ({way:?}): nginx: {theirs:?}\n    ours: {ours:?}", point.name));
            }
        }
    }
    wrong
}

#[test]
fn leaving_client_has_the_same_effect_as_in_nginx() {
    for nginx in [Nginx::Old, Nginx::New].into_iter().filter_map(|nginx| nginx_or_skip(nginx)) {
        let wrong = differences(&nginx);
        let version = nginx.display();
        assert!(wrong.is_empty(), "{} of {version} differ:\n    {}", wrong.len(), wrong.join("\n    "));
    }
}
