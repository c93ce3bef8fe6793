//! Clients that are silent in the middle of an exchange: they send a part of a request, or do not read the response. Each
//! ends by a timeout of the server, over HTTP/1.1, over TLS and over HTTP/2. All of a side wait at the same time.

use super::cases::Case;
use super::leaving::connect_secure;
use super::over_http2::{self, Request};
use super::talk::{self, Observed, PATIENCE};
use super::{Side, Sides};
use testkit::{Http2Talk, Talk};

/// The listeners of the impatient server: in clear and under TLS.
const LISTENERS: [usize; 2] = [1, 5];

/// More than the sockets between a server and a client that reads nothing can hold.
pub(super) const LONG_BYTES: usize = 30_000_000;

/// Locations that read the request's body: before they ask the upstream, and while they do.
const READERS: [&str; 2] = ["/body/", "/streamed/"];

/// Requests that stop in their body: name, fields and the part that is sent.
const PARTS: [(&str, &str); 7] = [
    ("nothing", "Content-Length: 10\r\n\r\n"),
    ("half", "Content-Length: 10\r\n\r\nhello"),
    ("expected", "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"),
    ("no-chunk", "Transfer-Encoding: chunked\r\n\r\n"),
    ("chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    ("half-chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\nhel"),
    ("half-line", "Transfer-Encoding: chunked\r\n\r\n5"),
];

/// The same over HTTP/2: name, `content-length`, and the part that is sent.
const PARTS_OVER_HTTP2: [(&str, Option<&str>, &str); 4] = [
    ("nothing", Some("10"), ""),
    ("half", Some("10"), "hello"),
    ("no-length", None, "hello"),
    ("no-length-nothing", None, ""),
];

/// Responses that the client does not read.
const UNREAD: [&str; 2] = ["/unread/bytes/30000000", "/long"];

/// What a client does before it is silent.
enum Silent {
    /// Sends these bytes, in clear or under TLS.
    Sends { case: Case, is_secure: bool },
    /// Sends this part of a request on a stream.
    OnStream(Request),
    /// Asks for this and reads nothing, in clear or under TLS.
    Unread { target: String, is_secure: bool },
    /// Asks for this on a stream, and opens no window.
    UnreadStream { target: String },
}

/// Every such client, with its request line as logs have it.
fn clients() -> Vec<(String, Silent)> {
    let mut clients = Vec::new();
    for (name, is_secure) in [("clear", false), ("tls", true)] {
        let line = format!("GET /{name}-head-timeout HTTP/1.1");
        let case = Case::raw(&line, format!("{line}\r\nHost: test\r\nX-"));
        clients.push((line, Silent::Sends { case, is_secure }));
        for reader in READERS {
            for (part, rest) in PARTS {
                let line = format!("POST {reader}{name}-{part}-timeout HTTP/1.1");
                let case = Case::raw(&line, format!("{line}\r\nHost: test\r\n{rest}"));
                clients.push((line, Silent::Sends { case, is_secure }));
            }
        }
        for path in UNREAD {
            let target = format!("{path}?leaves-{name}");
            clients.push((format!("GET {target} HTTP/1.1"), Silent::Unread { target, is_secure }));
        }
    }
    for reader in READERS {
        for (part, length, body) in PARTS_OVER_HTTP2 {
            let path = format!("{reader}{part}-timeout");
            let mut fields = vec![(":authority".to_owned(), "test".to_owned())];
            fields.extend(length.map(|length| ("content-length".to_owned(), length.to_owned())));
            let line = format!("POST {path} HTTP/2.0");
            let body = Some(body.as_bytes().to_vec());
            clients.push((line, Silent::OnStream(Request { method: "POST".into(), path, fields, body, ends: false })));
        }
    }
    for path in UNREAD {
        let target = format!("{path}?leaves-stream");
        clients.push((format!("GET {target} HTTP/2.0"), Silent::UnreadStream { target }));
    }
    clients
}

impl Silent {
    /// Waits until the server has ended it: what it observed, if it reads.
    fn run(&self, sides: &Sides, side: Side, line: &str) -> Option<Observed> {
        let [plain, secure] = LISTENERS.map(|listener| sides.address(side, listener));
        match self {
            Self::Sends { case, is_secure: false } => Some(talk::run(plain, case)),
            Self::Sends { case, is_secure: true } => Some(talk::run_secure(connect_secure(secure), case)),
            Self::OnStream(request) => Some(over_http2::ask(plain, request, PATIENCE)),
            Self::Unread { target, is_secure } => {
                let mut client = if *is_secure { connect_secure(secure) } else { Talk::connect(plain) };
                client.send_ask_of("test", target, "");
                sides.log_line_of(side, &format!("\"{line}\""));
                None
            }
            Self::UnreadStream { target } => {
                let mut client = Http2Talk::connect(plain);
                client.holds_windows = true;
                let stream = client.open("GET", target, &[(":authority", "test")], true);
                client.answer(stream);
                None
            }
        }
    }
}

/// What all clients of a side observed.
pub(super) fn run(sides: &Sides, side: Side) -> Vec<(String, Option<Observed>)> {
    let clients = clients();
    std::thread::scope(|scope| {
        let running: Vec<_> =
            clients.iter().map(|(line, silent)| scope.spawn(move || silent.run(sides, side, line))).collect();
        let observed = running.into_iter().map(|client| client.join().unwrap());
        clients.iter().map(|(line, _)| line.clone()).zip(observed).collect()
    })
}

/// nginx's lines about a request, as in its error log, without the number in front and the places behind.
pub(super) fn phrases(log: &str, line: &str) -> Vec<String> {
    let request = format!("request: \"{line}\"");
    let own = log.lines().filter(|text| text.contains(&request));
    own.filter_map(|text| {
        let text = text.split_once(", client: ").map_or(text, |(text, _)| text);
        Some(text.rsplit_once("] ")?.1.split_once(": *")?.1.split_once(' ')?.1.to_owned())
    })
    .collect()
}
