//! For every configuration and every client: the bytes that reach an upstream are exactly one request with one Host.
//! The test's own strict parser reads them. It generates whole configurations from a list of parts, and raw requests.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use testkit::{DEADLINE, Gateway};

/// Descriptions of bytes that an upstream received and that are not one request.
type Faults = Arc<Mutex<Vec<String>>>;

/// Accepts connections, reads one request after the other, and answers each. A byte beyond the request before its
/// answer was sent is a fault.
fn start_upstream(faults: &Faults, read: &Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (faults, read) = (Arc::clone(faults), Arc::clone(read));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (faults, read) = (Arc::clone(&faults), Arc::clone(&read));
            std::thread::spawn(move || serve(stream, &faults, &read));
        }
    });
    address
}

fn serve(mut stream: TcpStream, faults: &Faults, requests: &AtomicUsize) {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
        match read_request(&bytes) {
            Ok(None) => {}
            Ok(Some(length)) if length == bytes.len() => {
                bytes.clear();
                requests.fetch_add(1, Ordering::Relaxed);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n";
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
            wrong => {
                let why = wrong.err().unwrap_or_else(|| "bytes behind the request".to_owned());
                let fault = format!("{why}: {}", bytes.escape_ascii());
                return faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
            }
        }
    }
}

/// Length of the request at the start of these bytes, including its body; `None`: more bytes are needed. The error: it
/// is no request.
fn read_request(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.contains(&0) { Err("a NUL in the head".to_owned()) } else { Ok(None) };
    };
    let head = &bytes[..end];
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lf = head.iter().filter(|&&byte| byte == b'\n').count();
    let crlf = head.windows(2).filter(|window| window == b"\r\n").count();
    if lf != crlf || head.iter().filter(|&&byte| byte == b'\r').count() != crlf {
        return Err("a line end that is no CRLF".to_owned());
    }
    let words: Vec<&[u8]> = lines.next().unwrap_or_default().split(|&byte| byte == b' ').collect();
    let [method, target, version] = words[..] else { return Err(format!("{} words in the first line", words.len())) };
    if method.is_empty() || !method.iter().all(|&byte| is_token(byte)) {
        return Err("a method that is no token".to_owned());
    }
    if target.is_empty() || target.iter().any(|&byte| byte <= b' ' || byte == 0x7f || byte == b'#') {
        return Err("a byte that no target has".to_owned());
    }
    if version != b"HTTP/1.1" && version != b"HTTP/1.0" {
        return Err("a version that there is none of".to_owned());
    }
    let (mut hosts, mut lengths, mut chunked) = (0, Vec::new(), 0);
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return Err("a line without colon".into()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return Err("a field name that is no token".to_owned());
        }
        if value.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
            return Err("a control character in a value".to_owned());
        }
        hosts += usize::from(name.eq_ignore_ascii_case(b"host"));
        if name.eq_ignore_ascii_case(b"content-length") {
            let text = std::str::from_utf8(value).map_err(|_| "a length that is none".to_owned())?;
            lengths.push(text.parse::<usize>().map_err(|_| "a length that is none".to_owned())?);
        }
        chunked += usize::from(name.eq_ignore_ascii_case(b"transfer-encoding"));
    }
    if hosts != 1 {
        return Err(format!("{hosts} Hosts"));
    }
    let body = &bytes[end + 4..];
    match (&lengths[..], chunked) {
        ([], 0) => Ok(Some(end + 4)),
        ([length], 0) => Ok((body.len() >= *length).then_some(end + 4 + length)),
        ([], 1) => Ok(chunks(body)?.map(|length| end + 4 + length)),
        _ => Err("two ways to say how long the body is".to_owned()),
    }
}

/// Length of a chunked body; `None`: more bytes are needed.
fn chunks(body: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let Some(line) = body[at..].windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&body[at..at + line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.ok_or_else(|| "a chunk size that is none".to_owned())?;
        at += line + 2 + size + 2;
        match body.get(at - 2..at) {
            None => return Ok(None),
            Some(b"\r\n") if size == 0 => return Ok(Some(at)),
            Some(b"\r\n") => {}
            Some(_) => return Err("a chunk that does not end".to_owned()),
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Sources of a value.
const VARIABLES: &[&str] = &[
    "$uri",
    "$document_uri",
    "$1",
    "$part",
    "$copy",
    "$mapped",
    "$args",
    "$arg_a",
    "$request_uri",
    "$request",
    "$http_x",
    "$http_upgrade",
    "$http_host",
    "$host",
    "$cookie_c",
    "$remote_user",
    "$request_body",
    "$request_method",
    "$binary_remote_addr",
    "$content_type",
    "$nothing",
    "$proxy_host",
];

fn variable() -> impl Strategy<Value = &'static str> {
    prop::sample::select(VARIABLES)
}

/// The directives before `proxy_pass`.
fn program() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        variable().prop_map(|from| format!("set $copy {from};")),
        variable().prop_map(|from| format!("set $args {from};")),
        variable().prop_map(|from| format!("if ($uri ~ \"^/([\\s\\S]*)\") {{ set $copy \"$1{from}\"; }}")),
        Just("rewrite \"^/([\\s\\S]*)$\" /$1 break;".to_owned()),
        Just("rewrite \"^/([\\s\\S]*)$\" /r/$1?x=$1&y break;".to_owned()),
        Just("rewrite \"^/([\\s\\S]*)$\" \"$1/\" break;".to_owned()),
        variable().prop_map(|from| format!("rewrite ^ \"/r{from}?{from}\" break;")),
    ]
}

fn pass() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("http://origin".to_owned()),
        Just("http://{upstream:0}".to_owned()),
        variable().prop_map(|from| format!("http://origin{from}")),
        variable().prop_map(|from| format!("http://origin/a/{from}")),
        variable().prop_map(|from| format!("http://{{upstream:0}}/{from}?q={from}")),
        variable().prop_map(|from| format!("http://origin?{from}")),
        variable().prop_map(|from| format!("http://{from}")),
        Just("http://$target".to_owned()),
    ]
}

fn set_header() -> impl Strategy<Value = String> {
    let names = &["X-A", "Host", "Connection", "Upgrade", "Content-Length", "Transfer-Encoding", "TE", "X-B", "Expect"];
    let value = prop_oneof![
        Just("\"\"".to_owned()),
        Just("one".to_owned()),
        Just("\"a\n  b\"".to_owned()),
        variable().prop_map(str::to_owned),
        variable().prop_map(|from| format!("\"pre{from} post\"")),
    ];
    (prop::sample::select(&names[..]), value).prop_map(|(name, value)| format!("proxy_set_header {name} {value};"))
}

fn other_words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("proxy_method POST;".to_owned()),
        variable().prop_map(|from| format!("proxy_method {from};")),
        variable().prop_map(|from| format!("proxy_set_body \"<{from}>\";")),
        Just("proxy_pass_request_headers off;".to_owned()),
        Just("proxy_pass_request_body off;".to_owned()),
        Just("proxy_request_buffering off;".to_owned()),
        Just("proxy_http_version 1.0;".to_owned()),
    ]
}

fn location() -> impl Strategy<Value = String> {
    let headers = prop::collection::vec(set_header(), 0..4).prop_map(|headers| headers.concat());
    let words = prop::collection::vec(other_words(), 0..2).prop_map(|mut words| {
        words.dedup();
        words.concat()
    });
    (any::<bool>(), program(), pass(), headers, words).prop_map(|(regex, program, pass, headers, words)| {
        let matcher = if regex { "~ \"^/(?<part>[\\s\\S]*)$\"" } else { "/" };
        format!("location {matcher} {{ {program} {headers} {words} proxy_pass {pass}; }}")
    })
}

/// Parts of a path that may confuse a parser, raw and escaped.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|byte| format!("%{byte:02x}").into_bytes()),
        any::<u8>()
            .prop_filter("no space or control", |byte| *byte > b' ' && *byte != 0x7f)
            .prop_map(|byte| vec![byte]),
        Just(b"%20HTTP/1.1%0d%0aHost:%20a%0d%0a%0d%0aGET%20/evil%20HTTP/1.1%0d%0aX:%20".to_vec()),
        Just(b"%0d%0aX-Injected:%20y".to_vec()),
        Just(b"%0d%0aContent-Length:%203%0d%0a%0d%0aabc".to_vec()),
        Just(b"?a=%0d%0a".to_vec()),
        Just(b"+".to_vec()),
        Just(b"//..".to_vec()),
        Just(b"a".to_vec()),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| [&b"/"[..], &pieces.concat()].concat())
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let fields = prop::sample::subsequence(
        vec![
            "X: a\tb\u{e4}",
            "Cookie: c=1; d",
            // `a\r\nX-Injected: y:`
            "Authorization: Basic YQ0KWC1JbmplY3RlZDogeTo=",
            "Connection: upgrade",
            "Upgrade: websocket",
            "Upgrade: h2c",
            "TE: trailers",
            "Content-Type: text/plain",
            "Expect: 100-continue",
        ],
        0..5,
    );
    let body = prop::sample::select(vec![
        "\r\n",
        "Content-Length: 35\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\nX: y\r\n\r",
        "Transfer-Encoding: chunked\r\n\r\n1d\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n0\r\nX-T: 1\r\n\r\n",
    ]);
    let start = (prop::sample::select(vec!["GET", "POST", "HEAD", "X-OWN", "OPTIONS"]), path());
    (start, any::<bool>(), fields, body).prop_map(|((method, path), old, fields, body)| {
        let version = if old && body == "\r\n" { "1.0" } else { "1.1" };
        let fields: Vec<String> = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let rest = format!(" HTTP/{version}\r\nHost: Client.Example\r\nConnection: close\r\n{}{body}", fields.concat());
        [method.as_bytes(), b" ", &path, rest.as_bytes()].concat()
    })
}

fn ask(address: SocketAddr, request: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // This test does not check whether the request is refused, or refused before all of it was read.
    let _ = stream.write_all(request);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// One configuration, and the clients' requests.
fn run(location: &str, requests: &[Vec<u8>], upstream: SocketAddr, faults: &Faults) -> Result<(), TestCaseError> {
    let text = format!(
        "events {{}} http {{ access_log off;
            map $uri $mapped {{ default none; \"~^/(?<rest>[\\s\\S]*)$\" \"<$rest>\"; }}
            map $uri $part {{ volatile; default \"\"; }}
            map $uri $target {{ default \"{{upstream:0}}$uri\"; }}
            map $uri $nothing {{ default \"\"; }}
            upstream origin {{ server {{upstream:0}}; keepalive 4; }}
            server {{ listen {{listen}}; set $copy \"\"; {location} }} }}"
    );
    let gateway = Gateway::start(&text, &[upstream]);
    for request in requests {
        ask(gateway.address(), request);
    }
    drop(gateway);
    let faults = faults.lock().unwrap_or_else(PoisonError::into_inner).split_off(0);
    prop_assert!(faults.is_empty(), "{}\nin\n{text}", faults.join("\n"));
    Ok(())
}

#[test]
fn an_upstream_reads_one_request() {
    let faults = Faults::default();
    let read = Arc::new(AtomicUsize::new(0));
    let upstream = start_upstream(&faults, &read);
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let strategy = (location(), prop::collection::vec(request(), 24));
    let outcome = runner.run(&strategy, |(location, requests)| run(&location, &requests, upstream, &faults));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    // A third of the requests is refused, and some configurations lead nowhere; the others test the property.
    let read = read.load(Ordering::Relaxed);
    assert!(read > 300, "only {read} requests came to the upstream");
}

#[test]
fn the_reader_is_strict() {
    let whole = |text: &str| read_request(text.as_bytes());
    assert_eq!(whole("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(Some(27)));
    assert_eq!(whole("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcd"), Ok(Some(49)));
    assert_eq!(
        whole("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nx"),
        Ok(Some(66))
    );
    for bad in [
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\n HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        " / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert!(whole(bad).is_err(), "{bad:?}");
    }
}
