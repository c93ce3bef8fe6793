//! The same sessions through nginx and through the gateway: compares what the client gets, how the session ends, and
//! the access-log line. Values that depend on the clock or on a port chosen by the kernel are compared by shape.

use super::{dead, echo};
use std::fmt::Write as _;
use std::net::SocketAddr;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{End, Talk};

/// A client's action.
#[derive(Clone, Copy)]
enum Act {
    Send(&'static str),
    Expect(&'static str),
    HalfClose,
    Close,
}
use Act::{Close, Expect, HalfClose, Send};

/// The text of a `stream` server after `listen ADDRESS`, and its client's actions.
const CASES: &[(&str, &[Act])] = &[
    // Its port is queried before the first case.
    ("; return '';", &[]),
    ("; proxy_pass echo;", &[Send("hello"), Expect("hello"), Send("bye")]),
    ("; proxy_pass echo;", &[Send("hello"), Expect("hello"), HalfClose]),
    ("; proxy_pass echo; proxy_half_close on;", &[Send("hello"), Expect("hello"), HalfClose]),
    ("; proxy_pass echo;", &[Send("hello"), Expect("hello"), Close]),
    ("; proxy_pass {upstream:0};", &[Send("bye")]),
    ("; proxy_pass dead;", &[]),
    ("; proxy_pass retry;", &[Send("bye")]),
    ("; proxy_pass retry_off; proxy_next_upstream off;", &[]),
    ("; proxy_pass one_try; proxy_next_upstream_tries 1;", &[]),
    ("; proxy_pass all_down;", &[]),
    ("; return \"$protocol $remote_addr $server_addr_of_none\";", &[]),
    ("; return \"a $status $mapped\";", &[]),
    ("; deny all; proxy_pass echo;", &[]),
    ("; allow 127.0.0.0/8; deny all; proxy_pass echo;", &[Send("bye")]),
    ("; limit_conn each 1; proxy_pass echo;", &[Send("bye")]),
    ("; limit_conn each 1; limit_conn_dry_run on; proxy_pass echo;", &[Send("bye")]),
    ("; proxy_pass $target;", &[Send("bye")]),
    ("; set $case \"<$remote_addr>\"; return $case;", &[]),
    ("; proxy_timeout 200ms; proxy_pass echo;", &[Send("hello"), Expect("hello")]),
    (" proxy_protocol; return \"$proxy_protocol_addr $proxy_protocol_port $remote_addr\";", &[Send(HEADER)]),
    (
        " proxy_protocol; set_real_ip_from 127.0.0.0/8; return \"$remote_addr $remote_port $realip_remote_addr\";",
        &[Send(HEADER)],
    ),
    (" proxy_protocol; proxy_pass echo;", &[Send(HEADER), Send("bye")]),
    (" proxy_protocol; proxy_pass echo;", &[Send(NONSENSE)]),
];

/// nginx leaves it unread, so the connection ends with a reset.
const NONSENSE: &str = "nonsense\r\n";

const HEADER: &str = "PROXY TCP4 192.0.2.1 192.0.2.2 1111 2222\r\n";

const STREAM: &str = "\
    log_format line '$server_port|$protocol|$status|$bytes_sent|$bytes_received|$remote_addr|$upstream_addr|\
$upstream_bytes_sent|$upstream_bytes_received|$upstream_connect_time|$upstream_first_byte_time|$upstream_session_time|\
$session_time|$proxy_protocol_addr|$realip_remote_addr|$limit_conn_status|$mapped|$case|$msec|$time_iso8601|$hostname_';\n\
    access_log {side}.log line;\n\
    limit_conn_zone $binary_remote_addr zone=each:1m;\n\
    map $remote_addr $mapped { default other; 127.0.0.1 local; }\n\
    map $remote_addr $hostname_ { default h; }\n\
    map $remote_addr $server_addr_of_none { default ''; }\n\
    map $remote_addr $target { default echo; }\n\
    upstream echo { server {upstream:0}; }\n\
    upstream dead { server {upstream:1}; }\n\
    upstream retry { server {upstream:1}; server {upstream:0} backup; }\n\
    upstream retry_off { server {upstream:1}; server {upstream:0} backup; }\n\
    upstream one_try { server {upstream:1}; server {upstream:0} backup; }\n\
    upstream all_down { server {upstream:0} down; }\n";

#[test]
fn sessions_end_and_are_logged_as_in_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let peer = echo();
    let mut text = STREAM.to_owned();
    for (number, (server, _)) in CASES.iter().enumerate() {
        // Each case has its own port, by which its log line is found.
        let place = if number == 0 { "{listen}".to_owned() } else { format!("{{listen:{number}}}") };
        let case = if server.contains("set $case") { "" } else { "set $case -;" };
        let _ = writeln!(text, "server {{ listen {place}{server} {case} }}");
    }
    let sides = Sides::start_stream(&nginx, &text, &[peer.address(), dead()]);
    let mut wrong = Vec::new();
    for (number, (server, acts)) in CASES.iter().enumerate() {
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| {
            let address = sides.address(side, number);
            let came = play(address, acts);
            (came, shape(&sides.log_line_of(side, &format!("{}|", address.port()))))
        });
        if theirs != ours {
            wrong.push(format!("{server}\n    nginx: {theirs:?}\n    ours:  {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), sides.logs());
}

/// What a client receives, and whether the session ended regularly.
fn play(address: SocketAddr, acts: &[Act]) -> (String, bool) {
    let mut client = Talk::connect(address);
    for act in acts {
        match act {
            Send(text) => client.send(text),
            Expect(text) => client.expect(text),
            HalfClose => client.half_close(),
            Close => {
                client.close();
                return (String::new(), true);
            }
        }
    }
    let (rest, end) = client.rest();
    let is_nonsense = acts.iter().any(|act| matches!(act, Send(NONSENSE)));
    (shape(&rest.escape_ascii().to_string()), end == End::Fin || is_nonsense)
}

/// Numbers with three decimals and dates are times: replaced by `T`. Each side has its own address.
fn shape(line: &str) -> String {
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    let word = |word: &str| {
        let seconds =
            word.split_once('.').filter(|(whole, part)| part.len() == 3 && is_number(whole) && is_number(part));
        let is_date = word.len() == 25 && word.as_bytes()[10] == b'T';
        if seconds.is_some() || is_date { "T".to_owned() } else { word.to_owned() }
    };
    let field = |field: &str| field.split(", ").map(word).collect::<Vec<_>>().join(", ");
    line.replace("127.0.0.2", "127.0.0.1").split('|').map(field).collect::<Vec<_>>().join("|")
}
