//! The same datagrams through nginx and through the gateway: compares what the client gets and the access-log lines.
//! Values that depend on the clock or on a port chosen by the kernel are compared by shape.

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{DatagramPeer, DatagramTalk};

/// A client's action.
#[derive(Clone, Copy)]
enum Act {
    Send(&'static str),
    Expect(&'static str),
    /// Nothing comes.
    Silence,
}
use Act::{Expect, Send, Silence};

/// The text of a `stream` server after `listen ADDRESS`, its client's actions, and the number of lines logged.
const CASES: &[(&str, &[Act], usize)] = &[
    // Its port is queried before the first case. Whether the line of that query is written by then is chance, so there is none.
    ("; access_log off; return '';", &[], 0),
    (" udp; return \"$protocol $remote_addr $server_port_ $status\";", &[Send("x"), Expect("UDP 127.0.0.1 p 000")], 1),
    (" udp; return '';", &[Send("x"), Silence], 1),
    (" udp; proxy_pass peer; proxy_responses 1;", &[Send("hello"), Expect("hello")], 1),
    (" udp; proxy_pass peer; proxy_responses 1;", &[Send("a"), Expect("a"), Send("b"), Expect("b")], 2),
    (" udp; proxy_pass peer; proxy_responses 0;", &[Send("hello"), Silence], 1),
    (" udp; proxy_pass peer; proxy_responses 2;", &[Send("2"), Expect("2"), Expect("2")], 1),
    (" udp; proxy_pass peer; proxy_timeout 300ms;", &[Send("a"), Expect("a"), Send("b"), Expect("b")], 1),
    (" udp; proxy_pass peer; proxy_timeout 300ms;", &[Send(""), Expect("")], 1),
    (" udp; proxy_pass peer; proxy_responses 1;", &[Send(""), Expect("")], 1),
    (
        " udp; proxy_pass peer; proxy_requests 2; proxy_responses 1;",
        &[Send("a"), Expect("a"), Send("b"), Expect("b"), Send("c"), Expect("c"), Send("d"), Expect("d")],
        2,
    ),
    (
        " udp; proxy_pass peer; proxy_requests 1; proxy_timeout 300ms;",
        &[Send("a"), Expect("a"), Send("b"), Expect("b")],
        2,
    ),
    (" udp; proxy_pass mute; proxy_timeout 300ms;", &[Send("a")], 1),
    (" udp; proxy_pass mute; proxy_timeout 300ms; proxy_responses 1;", &[Send("a")], 1),
    (" udp; proxy_pass peer; proxy_timeout 300ms; proxy_responses 3;", &[Send("2"), Expect("2"), Expect("2")], 1),
    (" udp; proxy_pass dead; proxy_timeout 300ms;", &[Send("a")], 1),
    (" udp; proxy_pass dead; proxy_timeout 300ms;", &[Send("a"), Silence], 1),
    (" udp; proxy_pass dead; proxy_responses 1;", &[Send("a")], 1),
    (" udp; set $case x; return \"$case $binary_remote_addr_\";", &[Send("a"), Expect("x b")], 1),
    (" udp; proxy_pass hashed; proxy_responses 1;", &[Send("a"), Expect("a")], 1),
    (" udp; proxy_pass peer; proxy_responses 1; proxy_requests 2; proxy_timeout 300ms;", &[Send("a"), Expect("a")], 1),
    (" udp; proxy_pass peer; proxy_upload_rate 1000; proxy_timeout 500ms;", &[Send("a"), Expect("a")], 1),
    (" udp; proxy_pass all_down;", &[Send("a"), Silence], 1),
    (" udp; proxy_pass peer; proxy_responses 1; deny all;", &[Send("a"), Silence], 1),
    (" udp; proxy_pass peer; proxy_responses 1; limit_conn each 1;", &[Send("a"), Expect("a")], 1),
    (" udp; proxy_pass $target; proxy_responses 1;", &[Send("a"), Expect("a")], 1),
    (" udp; proxy_pass peer; proxy_responses 1; proxy_bind 127.0.0.3;", &[Send("a"), Expect("a")], 1),
    (" udp; proxy_pass peer; proxy_responses 1; ssl_preread on;", &[Send("a"), Expect("a")], 1),
    (" udp; proxy_pass told; proxy_responses 1; proxy_protocol on;", &[Send("a"), Expect("PROXY TCP4 127.0.0.1 a")], 1),
    (" udp; proxy_pass peer; proxy_responses 1; proxy_buffer_size 4k;", &[Send("a"), Expect("a")], 1),
];

const STREAM: &str = "\
    log_format line '$server_port|$protocol|$status|$bytes_sent|$bytes_received|$remote_addr|$upstream_addr|\
$upstream_bytes_sent|$upstream_bytes_received|$upstream_connect_time|$upstream_first_byte_time|$upstream_session_time|\
$session_time|$limit_conn_status|$msec|$server_addr|';\n\
    access_log {side}.log line;\n\
    limit_conn_zone $binary_remote_addr zone=each:1m;\n\
    map $remote_addr $server_port_ { default p; }\n\
    map $remote_addr $target { default peer; }\n\
    upstream peer { server {upstream:0}; }\n\
    upstream mute { server {upstream:1}; }\n\
    upstream dead { server {upstream:2}; }\n\
    upstream told { server {upstream:3}; }\n\
    map $remote_addr $binary_remote_addr_ { default b; }\n\
    upstream hashed { hash $remote_addr consistent; server {upstream:0}; }\n\
    upstream all_down { server {upstream:0} down; }\n";

#[test]
fn datagrams_are_answered_and_logged_as_in_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let peer = DatagramPeer::script(|bytes| match bytes {
        b"2" => vec![b"2".to_vec(), b"2".to_vec()],
        other => vec![other.to_vec()],
    });
    let mute = DatagramPeer::mute();
    // The header without its ports, and the datagram behind it.
    let told = DatagramPeer::script(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let words: Vec<&str> = text.split(' ').collect();
        let last = text.rsplit("\r\n").next().unwrap_or_default();
        vec![format!("{} {last}", words[..3].join(" ")).into_bytes()]
    });
    let mut text = STREAM.to_owned();
    for (number, (server, ..)) in CASES.iter().enumerate() {
        // Each case has its own port, by which its log lines are found.
        let place = if number == 0 { "{listen}".to_owned() } else { format!("{{listen:{number}}}") };
        let _ = writeln!(text, "server {{ listen {place}{server} }}");
    }
    let addresses = [peer.address(), mute.address(), dead(), told.address()];
    let sides = Sides::start_stream(&nginx, &text, &addresses);
    let mut wrong = Vec::new();
    for (number, (server, acts, lines)) in CASES.iter().enumerate() {
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| {
            let address = sides.address(side, number);
            let came = play(address, acts);
            (came, lines_of(&sides, side, address.port(), *lines))
        });
        if theirs != ours {
            wrong.push(format!("{server}\n    nginx: {theirs:?}\n    ours:  {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), sides.logs());
}

/// What a client receives.
fn play(address: SocketAddr, acts: &[Act]) -> Vec<String> {
    let client = DatagramTalk::connect(address);
    let mut came = Vec::new();
    for act in acts {
        let (wait, expected) = match act {
            Send(text) => {
                client.send(text);
                continue;
            }
            Expect(text) => (testkit::DEADLINE, Some(*text)),
            Silence => (Duration::from_millis(200), None),
        };
        let next = client.within(wait).map(|bytes| bytes.escape_ascii().to_string().replace("127.0.0.2", "127.0.0.1"));
        if next.as_deref() != expected {
            came.push(format!("{next:?} instead of {expected:?}"));
        }
    }
    came
}

/// The lines about a port, once there are as many.
fn lines_of(sides: &Sides, side: Side, port: u16, count: usize) -> Vec<String> {
    let mark = format!("{port}|");
    testkit::until("the lines of a case", || {
        let text = sides.log_text(side);
        let lines: Vec<String> = text.lines().filter(|line| line.starts_with(&mark)).map(shape).collect();
        (lines.len() >= count && text.ends_with('\n') || count == 0).then_some(lines)
    })
}

/// Numbers with three decimals are times: replaced by `T`. Each side has its own address.
fn shape(line: &str) -> String {
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    let field = |field: &str| match field.split_once('.') {
        Some((whole, part)) if part.len() == 3 && is_number(whole) && is_number(part) => "T".to_owned(),
        _ => field.to_owned(),
    };
    line.replace("127.0.0.2", "127.0.0.1").split('|').map(field).collect::<Vec<_>>().join("|")
}

/// An address at which no program listens.
fn dead() -> SocketAddr {
    // Bound and connected elsewhere, so that no other program gets the port: the kernel answers ICMP for all but its peer.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect("127.0.0.9:9").unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}
