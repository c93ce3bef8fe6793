//! WebSockets over HTTP/2 (RFC 8441): a client's stream becomes a tunnel to an HTTP/1.1 upstream.

use super::{connect, gateway};
use gateway::Message;
use http2::{Config, ErrorCode};
use testkit::{Answer, Authority, Browser, End, Gateway, Http2Talk, Peer, Request, Signal, Talk};
use websocket::handshake::Key;
use websocket::{CloseCode, Decoder, Event, Opcode, Sender, encode_close, encode_frame};

/// The usual nginx.conf lines for WebSockets.
const PASS: &str = "proxy_pass http://{upstream:0}; proxy_set_header Upgrade $http_upgrade; \
                    proxy_set_header Connection upgrade;";
const FIELDS: [(&str, &str); 2] = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")];

/// The answer to a request's handshake, with the proof that the upstream has understood it.
fn switching(request: &Request) -> String {
    let key = Key::parse(request.value("Sec-WebSocket-Key").unwrap().as_bytes()).expect("the gateway has made a key");
    let accept = String::from_utf8(key.accept().to_vec()).unwrap();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\
         Sec-WebSocket-Protocol: chat\r\n\r\n"
    )
}

/// A peer that switches protocols and then runs the script.
fn websocket(script: impl Fn(Talk) + Send + Sync + 'static) -> Peer {
    Peer::script(move |mut talk| {
        if let Some(request) = talk.request() {
            talk.send(switching(&request));
            script(talk);
        }
    })
}

/// Sends every byte back, and the end.
fn echo(mut talk: Talk) {
    while let Some(bytes) = talk.whatever_came() {
        talk.send(bytes);
    }
}

fn in_location(words: &str, peer: &Peer) -> Gateway {
    gateway(&format!("location / {{ {PASS} {words} }} location /own {{ return 200 own; }}"), &[peer.address()])
}

#[track_caller]
fn open_tunnel(client: &mut Http2Talk) -> u32 {
    let stream = client.connect_for("websocket", "/chat?a=b", &FIELDS);
    client.until("the head", |talk| talk.so_far(stream).status > 0);
    assert_eq!(client.so_far(stream).status, 200, "{:?}", client.so_far(stream));
    stream
}

#[track_caller]
fn until_bytes(client: &mut Http2Talk, stream: u32, bytes: &[u8]) {
    client.until("bytes of the tunnel", |talk| talk.so_far(stream).body.len() >= bytes.len());
    assert_eq!(client.so_far(stream).body, bytes);
}

/// Checks that no tunnel is left, and returns its log line.
#[track_caller]
fn ended(gateway: &Gateway) -> String {
    gateway.until_totals("no tunnel is left", |totals| totals.writing == 0);
    gateway.access_lines(1)[0].clone()
}

#[test]
fn h80_extended_connect_opens_a_tunnel_to_an_http1_upstream() {
    let peer = websocket(echo);
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    let answer: &Answer = client.so_far(stream);
    let named = ["upgrade", "connection", "sec-websocket-accept", "content-length"];
    assert!(named.iter().all(|name| answer.value(name).is_none()), "{:?}", answer.fields);
    assert_eq!(answer.value("sec-websocket-protocol"), Some("chat"));
    client.send(stream, b"hello ", false);
    client.send(stream, b"there", false);
    until_bytes(&mut client, stream, b"hello there");
    assert_eq!(client.get("/own").text(), "own", "other streams go on beside it");
    client.send(stream, b"!", true);
    let answer = client.answer(stream);
    assert_eq!((answer.text(), answer.reset), ("hello there!".into(), None), "END_STREAM is the FIN, both ways");
    let request = peer.only_request();
    assert_eq!((request.method(), request.target()), ("GET", "/chat?a=b"));
    assert_eq!((request.value("Upgrade"), request.value("Connection")), (Some("websocket"), Some("upgrade")));
    assert_eq!(request.value("Sec-WebSocket-Version"), Some("13"));
    gateway.until_totals("no tunnel is left", |totals| totals.writing == 0);
    let lines = gateway.access_lines(2);
    let line = lines.iter().find(|line| line.contains("CONNECT")).unwrap();
    assert!(line.starts_with("200 HTTP/2.0 \"CONNECT /chat?a=b HTTP/2.0\" h2c 1 12 "), "{line}");
}

#[test]
fn h81_other_protocols_are_501_and_pages_are_no_tunnels() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage");
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = client.connect_for("connect-udp", "/", &FIELDS);
    assert_eq!(client.answer(stream).status, 501);
    let stream = client.connect_for("websocket", "/own", &FIELDS);
    assert_eq!(client.answer(stream).status, 405, "a `return 200` would look like a tunnel");
    let stream = client.connect_for("websocket", "/chat", &FIELDS);
    assert_eq!(client.answer(stream).status, 502, "and so would the upstream's");
    assert_eq!(client.get("/own").text(), "own");
    let log = gateway.error_log();
    assert!(log.contains("upstream sent 200 instead of 101 (Switching Protocols)"), "{log}");
}

#[test]
fn h82_a_refusal_of_the_upstream_is_passed_on() {
    let peer = Peer::saying("HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!");
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = client.connect_for("websocket", "/chat", &FIELDS);
    let answer = client.answer(stream);
    assert_eq!((answer.status, answer.text()), (403, "no!".into()));
}

#[test]
fn h83_a_handshake_without_its_proof_is_502() {
    let wrong = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send(wrong);
        }
    });
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = client.connect_for("websocket", "/chat", &FIELDS);
    assert_eq!(client.answer(stream).status, 502);
    assert!(gateway.error_log().contains("without the right \"Sec-WebSocket-Accept\""), "{}", gateway.error_log());
}

#[test]
fn h84_resets_go_through_a_tunnel_both_ways() {
    let (opened, reset) = (Signal::new(), Signal::new());
    let (seen, word) = (opened.clone(), reset.clone());
    let peer = websocket(move |mut talk| {
        seen.raise();
        talk.expect("to be reset");
        assert_eq!(talk.end(), End::Reset);
        word.raise();
    });
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    opened.wait();
    client.send(stream, b"to be reset", false);
    gateway.until_totals("a tunnel", |totals| totals.writing == 1);
    client.reset(stream);
    reset.wait();
    ended(&gateway);
    assert_eq!(client.get("/own").text(), "own", "the connection goes on");

    let peer = websocket(|mut talk| {
        talk.expect("reset me");
        talk.reset();
    });
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    client.send(stream, b"reset me", false);
    assert_eq!(client.answer(stream).reset, Some(ErrorCode::CANCEL), "RFC 8441 §5");
    assert_eq!(client.get("/own").text(), "own");
}

#[test]
fn h85_each_direction_ends_for_itself() {
    let peer = websocket(|mut talk| {
        talk.send("first");
        talk.half_close();
        talk.expect("second");
        assert_eq!(talk.end(), End::Fin);
    });
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    client.until("the upstream's end", |talk| talk.so_far(stream).is_whole);
    assert_eq!(client.so_far(stream).text(), "first");
    client.send(stream, b"second", true);
    ended(&gateway);
    assert_eq!(client.so_far(stream).reset, None, "both ends are good ones");
}

/// More than all buffers between two ends can hold.
const FLOOD: usize = 96 << 20;

#[test]
fn h86_closed_window_stops_only_its_stream() {
    let flooded = Signal::new();
    let word = flooded.clone();
    let peer = websocket(move |mut talk| {
        assert!(talk.flood(FLOOD) < FLOOD, "the gateway does not hold what its client does not take");
        word.raise();
        talk.whatever_came();
    });
    let gateway = in_location("", &peer);
    let mut client = Http2Talk::connect_with(gateway.address(), Config { stream_window: 1000, ..Config::default() });
    client.holds_windows = true;
    let stream = open_tunnel(&mut client);
    client.until("a window full", |talk| talk.so_far(stream).body.len() == 1000);
    flooded.wait();
    client.holds_windows = false;
    assert_eq!(client.get("/own").text(), "own");
    client.take_held(stream, 1000);
    client.until("more of it", |talk| talk.so_far(stream).body.len() >= 50_000);
    client.reset(stream);
    ended(&gateway);
}

#[test]
fn h87_stalled_upstream_closes_the_window_of_its_tunnel() {
    let go = Signal::new();
    let word = go.clone();
    let peer = websocket(move |mut talk| {
        talk.wait(&word);
        while talk.whatever_came().is_some() {}
    });
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    let (piece, mut sent, mut idle) = (vec![b'x'; 64 * 1024], 0, 0);
    while idle < 100 {
        let now = client.send_some(stream, &piece);
        sent += now;
        idle = if now > 0 { 0 } else { idle + 1 };
        client.step();
        assert!(sent < FLOOD, "the gateway takes what its upstream does not");
    }
    assert_eq!(client.get("/own").text(), "own", "the connection's window has room for others");
    go.raise();
    client.send(stream, b"the end", true);
    client.answer(stream);
    ended(&gateway);
}

#[test]
fn h88_ending_process_lets_tunnels_finish() {
    let peer = websocket(echo);
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    gateway.shared().send(0, Message::Drain);
    client.until("the first GOAWAY", |talk| talk.goaway.is_some());
    client.send(stream, b"still here", false);
    until_bytes(&mut client, stream, b"still here");
    client.send(stream, b"", true);
    assert_eq!(client.answer(stream).reset, None);
    client.end();
    assert_eq!(client.goaway, Some((1, ErrorCode::NO_ERROR)));
}

#[test]
fn h89_connection_end_resets_its_tunnels() {
    let reset = Signal::new();
    let word = reset.clone();
    let peer = websocket(move |mut talk| {
        talk.expect("hello");
        assert_eq!(talk.end(), End::Reset);
        word.raise();
    });
    let gateway = in_location("", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    client.send(stream, b"hello", false);
    drop(client);
    reset.wait();
    ended(&gateway);
    gateway.until_totals("nothing is left", |totals| totals.active == 0);
}

#[test]
fn h90_silent_tunnel_is_pinged_and_ends_at_its_limit() {
    let peer = websocket(|mut talk| while talk.whatever_came().is_some() {});
    let gateway = in_location("tunnel_timeout 900ms; tunnel_ping 200ms;", &peer);
    let mut client = connect(&gateway);
    let stream = open_tunnel(&mut client);
    let answer = client.answer(stream);
    assert!(answer.body.starts_with(b"\x89\x08holdfast"), "{:?}", answer.body);
    assert!(answer.is_whole, "the end of the gateway's doing is END_STREAM, as a FIN over HTTP/1.1");
    ended(&gateway);
}

#[test]
fn h91_no_tunnel_without_configured_upgrade() {
    let peer = Peer::answering(|request| {
        assert_eq!(request.value("Upgrade"), None);
        b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n"
            .to_vec()
    });
    let gateway = gateway("location / { proxy_pass http://{upstream:0}; }", &[peer.address()]);
    let mut client = connect(&gateway);
    let stream = client.connect_for("websocket", "/chat", &FIELDS);
    assert_eq!(client.answer(stream).status, 426);
}

/// An upstream that sends each text message back.
fn echo_messages(mut talk: Talk) {
    let mut decoder = Decoder::new(Sender::Client, 1 << 20);
    while let Some(bytes) = talk.whatever_came() {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let decoded = decoder.decode(rest).unwrap();
            rest = &rest[decoded.consumed..];
            let mut answer = Vec::new();
            match decoded.event {
                Some(Event::Message { payload, .. }) => encode_frame(true, Opcode::Text, None, payload, &mut answer),
                Some(Event::Close(..)) => encode_close(CloseCode::NORMAL, "", None, &mut answer),
                _ => {}
            }
            talk.send(&answer);
        }
    }
}

#[test]
fn browser_reuses_its_connection_for_a_websocket() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    Authority::new("Test").issue(&["localhost"]).write(folder.path(), "pair");
    let at = folder.path().display();
    let peer = websocket(echo_messages);
    let text = format!(
        "events {{}} http {{ log_format line '$request|$connection|$http2|$status'; access_log access.log line; server {{ \
         listen {{listen}} ssl; http2 on; ssl_certificate {at}/pair.crt; ssl_certificate_key {at}/pair.key; \
         location / {{ default_type text/html; return 200 '<title>page</title>'; }} location /ws {{ {PASS} }} }} }}"
    );
    let gateway = Gateway::start(&text, &[peer.address()]);
    let port = gateway.address().port();
    let script = format!(
        "new Promise((done, failed) => {{ \
           const socket = new WebSocket('wss://localhost:{port}/ws', 'chat'), said = []; \
           socket.onopen = () => socket.send('over HTTP/2'); \
           socket.onmessage = event => {{ said.push(event.data); socket.close(1000); }}; \
           socket.onclose = event => done(said.join() + ' ' + socket.protocol + ' ' + event.code + ' ' + event.wasClean); \
           socket.onerror = () => failed('error'); }})"
    );
    let said = browser.run_at(&format!("https://localhost:{port}/"), &script);
    assert_eq!(said, "over HTTP/2 chat 1000 true");
    gateway.until_totals("no tunnel is left", |totals| totals.writing == 0);
    let lines = gateway.access_lines(2);
    let find = |start: &str| {
        let line = lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {lines:?}"));
        line.split('|').skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let (page, socket) = (find("GET / HTTP/2.0"), find("CONNECT /ws HTTP/2.0"));
    assert_eq!(page, socket, "one connection, h2, 200");
}
