//! A client leaves at each of some twenty points of an exchange, in each way that TCP and TLS have, from nginx and from
//! the gateway. Compares the access log, whether the upstream's connection is closed, and whether the client's place is
//! free again.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{Authority, Deaf, Peer, Refusing, Signal, Talk};
use tls::{ClientSide, Trust};

const TEXT: &str = include_str!("cases/leaving.conf");

/// More than the sockets between a server and a client that reads nothing can hold.
const LONG_BYTES: usize = 30_000_000;

/// More than a head: a part of the body has arrived.
const BEGUN: usize = 400;

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Fin,
    Reset,
    /// Under TLS: `close_notify` and FIN.
    SecureEnd,
    /// Under TLS: FIN without `close_notify`.
    SecureCut,
    /// Under TLS: RST.
    SecureReset,
}

impl Way {
    pub(super) const ALL: [Self; 5] = [Self::Fin, Self::Reset, Self::SecureEnd, Self::SecureCut, Self::SecureReset];

    /// A client of the plain address or of the one with TLS.
    pub(super) fn connect(self, [plain, secure]: [SocketAddr; 2]) -> Talk {
        match self {
            Self::Fin | Self::Reset => Talk::connect(plain),
            Self::SecureEnd | Self::SecureCut | Self::SecureReset => connect_secure(secure),
        }
    }

    pub(super) fn leave(self, client: &mut Talk) {
        match self {
            Self::Fin | Self::SecureEnd => client.half_close(),
            Self::SecureCut => client.socket().shutdown(Shutdown::Write).unwrap(),
            Self::Reset | Self::SecureReset => client.reset(),
        }
    }
}

/// A client under TLS.
pub(super) fn connect_secure(address: SocketAddr) -> Talk {
    let anyone = ClientSide::new(Trust::Anyone).build().unwrap();
    Talk::connect_secure(address, &anyone, "leaving.test").unwrap()
}

/// A certificate in a folder, which is `{tls}` in the text.
pub(super) fn with_certificate(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    Authority::new("Leaving").issue(&["leaving.test"]).write(folder.path(), "own");
    let text = text.replace("{tls}", folder.path().to_str().unwrap());
    (folder, text)
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
    /// A line as it is compared. A begun head may come before or behind the client's end, and nginx takes the status from
    /// it. The kernel decides how much of a long body was sent.
    fn shown(&self, line: &str) -> String {
        let (rest, bytes) = line.rsplit_once(' ').unwrap_or_default();
        let bytes = match bytes.parse::<u64>() {
            Ok(sent) if sent > 0 && self.sends.contains("long?") => "some",
            _ => bytes,
        };
        let rest = match rest.strip_suffix(" 200") {
            Some(rest) if self.name.starts_with("half head") => format!("{rest} -"),
            _ => rest.to_owned(),
        };
        format!("{rest} {bytes}")
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
        get("ignoring, without buffers", "/ignoring-direct/answers", Asked, Answers),
        post("continued", "/silent", "Content-Length: 10\r\nExpect: 100-continue", "", Heard(CONTINUE.len()), Unasked),
        get("connecting", "/deaf/x", Read, Unasked),
        get("second attempt", "/again/silent", Asked, Closed),
        get("delayed", "/delayed/x", Read, Unasked),
        get("half head of the response", "/half-head", Asked, Closed),
        get("response without its body", "/direct/head", Heard(20), Closed),
        get("half response", "/direct/part", Heard(20), Closed),
        get("half response in chunks", "/direct/chunks", Heard(20), Closed),
        get("half response until close", "/direct/until-close", Heard(20), Closed),
        get("unread response", "/long", Heard(BEGUN), Closed),
        get("response at a rate", "/slow/long", Heard(BEGUN), Closed),
        get("unread file", "/file/long", Heard(BEGUN), Unasked),
        get("file at a rate", "/slowfile/long", Heard(BEGUN), Unasked),
        get("idle", "/quick", Heard(HELLO.len()), Answers),
    ]
}

/// What the upstream has seen, by side and request.
#[derive(Debug, Default)]
pub(super) struct Seen {
    signals: Mutex<BTreeMap<String, Signal>>,
}

impl Seen {
    /// The signal of this event, for the side that raises it and the side that waits.
    pub(super) fn event(&self, side: &str, name: &str, event: &str) -> Signal {
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

pub(super) fn upstream(seen: &Arc<Seen>) -> Peer {
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
    let event = |event| seen.event(side.name(), &name, event);
    let begun = sides.log_text(side).len();
    let mut client = way.connect([0, 1].map(|listener| sides.address(side, listener)));
    let port = client.address().port();
    client.send(point.sends.replace("NAME", &name));
    match point.when {
        When::Read => assert_eq!(ask(sides, side, "/alive"), 204),
        When::Asked => event("asked").wait(),
        When::Heard(bytes) => _ = client.read(bytes),
    }
    way.leave(&mut client);
    assert_eq!(ask(sides, side, "/alive"), 204);
    event("left").raise();
    if point.upstream == Upstream::Closed {
        event("closed").wait();
    }
    let mark = format!("{port} ");
    let line = point.is_logged.then(|| point.shown(&sides.log_line_since(side, begun, &mark)[mark.len()..]));
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
    let (_certificate, text) = with_certificate(TEXT);
    let sides = Sides::start(nginx, &text, &upstreams, &[("files/long", vec![b'x'; LONG_BYTES])]);
    for side in [Side::Nginx, Side::Ours] {
        // From now on every request of this zone is delayed.
        assert_eq!(ask(&sides, side, "/delayed/quick"), 200);
    }
    let mut wrong = Vec::new();
    for point in points() {
        for way in Way::ALL {
            let theirs = run(&sides, Side::Nginx, &seen, &point, way);
            let ours = run(&sides, Side::Ours, &seen, &point, way);
            if theirs != ours {
                wrong.push(format!("{} ({way:?}): nginx: {theirs:?}\n    ours: {ours:?}", point.name));
            }
        }
    }
    wrong
}

/// The status, and the bytes of the body, of a request under TLS whose client sends `close_notify` before the answer.
fn ends_session(sides: &Sides, side: Side, seen: &Seen) -> String {
    let event = |event| seen.event(side.name(), "session", event);
    let mut client = connect_secure(sides.address(side, 1));
    let mark = format!("{} ", client.address().port());
    client.send("GET /answers?place=session HTTP/1.1\r\nHost: a\r\n\r\n");
    event("asked").wait();
    client.end_session();
    assert_eq!(ask(sides, side, "/alive"), 204);
    event("left").raise();
    sides.log_line_of(side, &mark)[mark.len()..].to_owned()
}

#[test]
fn close_notify_alone_is_half_a_close_as_in_nginx() {
    for nginx in [Nginx::Old, Nginx::New].into_iter().filter_map(|nginx| nginx_or_skip(nginx)) {
        let seen = Arc::<Seen>::default();
        let (peer, unused) = (upstream(&seen), Refusing::new());
        let (_certificate, text) = with_certificate(TEXT);
        let sides = Sides::start(&nginx, &text, &[peer.address(), unused.address(), unused.address()], &[]);
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| ends_session(&sides, side, &seen));
        assert!(theirs.starts_with("200 [OK]"), "{theirs}");
        assert_eq!(theirs, ours, "{}", nginx.display());
    }
}

#[test]
fn leaving_client_has_the_same_effect_as_in_nginx() {
    for nginx in [Nginx::Old, Nginx::New].into_iter().filter_map(|nginx| nginx_or_skip(nginx)) {
        let wrong = differences(&nginx);
        let version = nginx.display();
        assert!(wrong.is_empty(), "{} of {version} differ:\n    {}", wrong.len(), wrong.join("\n    "));
    }
}
