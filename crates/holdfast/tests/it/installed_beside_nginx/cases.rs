//! The conversations: requests with bodies of all sizes and framings, responses of all sizes to clients that read at
//! once or late, caches, stored files, and files that the user may not read.

use super::sides::{Side, Sides};
use crate::support::{DEADLINE, until};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::Write as _;
use std::net::TcpStream;
use testkit::Response;

/// Sizes around the limit that counts: `client_body_buffer_size` is 16 KB by default, with nginx two pages of memory. The
/// last one is in many pieces.
const BODIES: [usize; 6] = [0, 1, 8_000, 16_385, 100_000, 2_000_000];
/// More than what the sockets between the two ends hold.
const LARGE: usize = 8_000_000;

/// Longer bodies are shown by their length and a sum.
const BODY_SHOWN_MAX: usize = 1000;

/// One request, and how its response is read.
pub(super) struct Case {
    request: Vec<u8>,
    /// The client begins to read when the side has filled its buffers.
    reads_late: bool,
}

impl Case {
    fn get(target: &str) -> Self {
        Self::with(&format!("GET {target}"), "")
    }

    /// `more` are lines of fields.
    fn with(line: &str, more: &str) -> Self {
        let request = format!("{line} HTTP/1.1\r\nHost: a\r\n{more}Connection: close\r\n\r\n").into_bytes();
        Self { request, reads_late: false }
    }

    fn late(target: &str) -> Self {
        Self { reads_late: true, ..Self::get(target) }
    }

    /// A body with Content-Length.
    fn post(target: &str, bytes: usize) -> Self {
        let mut case = Self::with(&format!("POST {target}"), &format!("Content-Length: {bytes}\r\n"));
        case.request.extend(pattern(bytes));
        case
    }

    fn post_chunked(target: &str, bytes: usize) -> Self {
        let mut case = Self::with(&format!("POST {target}"), "Transfer-Encoding: chunked\r\n");
        for chunk in pattern(bytes).chunks(5_000) {
            case.request.extend(format!("{:x}\r\n", chunk.len()).bytes());
            case.request.extend(chunk);
            case.request.extend(b"\r\n");
        }
        case.request.extend(b"0\r\n\r\n");
        case
    }

    /// Method, target and framing.
    pub(super) fn name(&self) -> String {
        let head = String::from_utf8_lossy(&self.request[..self.request.len().min(200)]).into_owned();
        let line = head.split(" HTTP/1.1").next().unwrap_or_default();
        let framing = if head.contains("chunked") { " chunked" } else { "" };
        format!("{line}{framing}")
    }

    /// The parts of a side's response: status line, fields, body.
    pub(super) fn run(&self, sides: &Sides, side: Side) -> Vec<String> {
        let response = if self.reads_late { self.read_late(sides, side) } else { sides.ask(side, &self.request) };
        shown(side, &response)
    }

    fn read_late(&self, sides: &Sides, side: Side) -> Response {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // A small window, so that the side cannot get rid of the response.
        socket.set_recv_buffer_size(16 << 10).expect("set");
        socket.connect(&sides.address(side).into()).expect("it accepts");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DEADLINE)).expect("set");
        let before = files_of_nginx(sides);
        stream.write_all(&self.request).expect("sent");
        // The response has begun.
        assert!(stream.peek(&mut [0]).expect("it answers") > 0);
        // nginx logs no file that is for a cache.
        if side == Side::Nginx && !self.name().contains("cached") {
            until("nginx writes a temporary file", || files_of_nginx(sides) > before);
        }
        // From now on the client reads as fast as it can.
        SockRef::from(&stream).set_recv_buffer_size(LARGE).expect("set");
        testkit::ask(&stream, "").expect("a response")
    }
}

/// How often nginx has logged that it writes a response to a temporary file.
fn files_of_nginx(sides: &Sides) -> usize {
    sides.error_log(Side::Nginx).matches("an upstream response is buffered to a temporary file").count()
}

/// Shows any loss or doubling.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(origin_byte).collect()
}

fn origin_byte(at: usize) -> u8 {
    b'a' + u8::try_from(at % 23).expect("below 23")
}

/// A response without what differs between any two: the date, the name of the server, and connections.
fn shown(side: Side, response: &Response) -> Vec<String> {
    let echo = serde_json::from_slice::<serde_json::Value>(&response.body).ok();
    let echo = echo.filter(|echo| echo.get("target").is_some());
    let is_left_out = |name: &str| match name {
        "Date" | "Server" => true,
        // The name of the server is part of a page of errors, and the number of the connection of an echo.
        "Content-Length" => response.status() >= 400 || echo.is_some(),
        // A stored file is as old as the request that stored it.
        "ETag" | "Last-Modified" => !response.body.starts_with(b"open"),
        _ => false,
    };
    let fields = response.fields.iter().filter(|(name, _)| !is_left_out(name));
    let mut parts: Vec<String> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
    parts.push(response.line.clone());
    match echo {
        Some(echo) => parts.extend(echoed(side, &echo)),
        None if response.body.len() > BODY_SHOWN_MAX => {
            let sum = response.body.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            parts.push(format!("{} bytes, sum {sum:08x}", response.body.len()));
        }
        None => {
            let server = response.value("Server").unwrap_or_default();
            parts.push(response.text().replace(server, "(server)"));
        }
    }
    parts.sort();
    parts
}

/// The request that reached the origin.
fn echoed(side: Side, echo: &serde_json::Value) -> Vec<String> {
    let fields = echo["fields"].as_array().into_iter().flatten();
    let fields = fields.map(|field| match field[0].as_str() {
        Some("X-File") => format!("upstream X-File: {}", side.neutral_path(field[1].as_str().unwrap_or_default())),
        _ => format!("upstream {field}"),
    });
    fields.chain(["method", "target", "body"].map(|key| format!("upstream {key} {}", echo[key]))).collect()
}

/// All conversations, in the order in which they are run.
pub(super) fn cases() -> Vec<Case> {
    [uploads(), downloads(), files()].into_iter().flatten().collect()
}

fn uploads() -> Vec<Case> {
    let mut cases = Vec::new();
    for bytes in BODIES {
        for place in ["body", "streamed", "fastcgi"] {
            cases.push(Case::post(&format!("/{place}/echo?{bytes}"), bytes));
            cases.push(Case::post_chunked(&format!("/{place}/echo?{bytes}"), bytes));
        }
    }
    for place in ["small", "single", "kept", "cleaned", "elsewhere"] {
        // With nginx an empty body has a file, too.
        for bytes in [1, 100_000] {
            cases.push(Case::post(&format!("/{place}/echo?{bytes}"), bytes));
        }
        cases.push(Case::post_chunked(&format!("/{place}/echo?chunked"), 5_000));
    }
    cases.push(Case::post("/limited/echo", 1_025));
    cases
}

fn downloads() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in ["body", "direct", "fastcgi", "cached", "aside", "fastcgi-cached", "stored", "closed"] {
        for bytes in [0, 1, 5_000, 100_000] {
            cases.push(Case::get(&format!("/{place}/bytes/{bytes}")));
            cases.push(Case::get(&format!("/{place}/chunked/{bytes}")));
        }
    }
    for place in ["cached", "aside", "fastcgi-cached", "stored"] {
        cases.push(Case::get(&format!("/{place}/bytes/5000")));
        cases.push(Case::with(&format!("GET /{place}/bytes/5000"), "Range: bytes=10-19\r\n"));
        cases.push(Case::with(&format!("HEAD /{place}/bytes/0"), ""));
    }
    for target in ["body/bytes", "fastcgi/bytes", "cached/bytes", "body/chunked"] {
        cases.push(Case::late(&format!("/{target}/{LARGE}")));
    }
    cases.extend(["/buffered-log/a", "/named-log/named", "/own-log/own"].map(Case::get));
    cases
}

fn files() -> Vec<Case> {
    let mut cases = Vec::new();
    // Few requests with one error: beyond fifty equal lines a second Holdfast counts them instead of writing them.
    for place in ["files", "own-errors"] {
        for name in [
            "open.txt",
            "roots.txt",
            "sealed.txt",
            "missing.txt",
            "folder/page.txt",
            "closed/page.txt",
            "closed/",
            "closed",
            "unlisted/page.txt",
            "unlisted/",
            "indexed/",
        ] {
            cases.push(Case::get(&format!("/{place}/{name}")));
        }
    }
    for target in [
        "listed/roots.txt",
        "listed/closed/",
        "listed/unlisted/",
        "listed/folder/page.txt",
        "cached-files/open.txt",
        "cached-files/roots.txt",
        "cached-files/closed/page.txt",
        "ready-made/page.txt",
        "page/closed/page.txt",
        "page/missing.txt",
    ] {
        cases.push(Case::get(&format!("/{target}")));
    }
    cases.push(Case::with("GET /ready-made/page.txt", "Accept-Encoding: gzip\r\n"));
    cases.push(Case::with("POST /files/roots.txt", "Content-Length: 0\r\n"));
    for place in ["users", "known-users"] {
        cases.push(Case::get(&format!("/{place}/open.txt")));
        cases.push(Case::with(&format!("GET /{place}/open.txt"), "Authorization: Basic dXNlcjp3b3Jk\r\n"));
    }
    cases.extend(["/tried/a", "/tried-in/page.txt", "/socket/a", "/files/page.txt/below"].map(Case::get));
    cases
}
