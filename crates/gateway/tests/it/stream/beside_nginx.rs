//! The same sessions through nginx and through the gateway: compares what the client gets, how the session ends, and
//! the access-log line. Values that depend on the clock or on a port chosen by the kernel are compared by shape.

use super::{dead, echo};
use std::fmt::Write as _;
use std::net::SocketAddr;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{Deaf, End, Talk};

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
    ("; proxy_pass two_tries; proxy_next_upstream_tries 2;", &[]),
    ("; proxy_pass three_tries; proxy_next_upstream_tries 3;", &[Send("bye")]),
    ("; proxy_pass late; proxy_connect_timeout 300ms; proxy_next_upstream_timeout 100ms;", &[]),
    ("; proxy_pass in_time; proxy_connect_timeout 300ms; proxy_next_upstream_timeout 1h;", &[Send("bye")]),
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
    upstream two_tries { server {upstream:1}; server {upstream:2}; server {upstream:0} backup; }\n\
    upstream three_tries { server {upstream:1}; server {upstream:2}; server {upstream:0} backup; }\n\
    upstream late { server {upstream:3}; server {upstream:0} backup; }\n\
    upstream in_time { server {upstream:3}; server {upstream:0} backup; }\n\
    upstream all_down { server {upstream:0} down; }\n";

#[test]
fn sessions_end_and_are_logged_as_in_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let (peer, deaf) = (echo(), Deaf::new());
    let mut text = STREAM.to_owned();
    for (number, (server, _)) in CASES.iter().enumerate() {
        // Each case has its own port, by which its log line is found.
        let place = if number == 0 { "{listen}".to_owned() } else { format!("{{listen:{number}}}") };
        let case = if server.contains("set $case") { "" } else { "set $case -;" };
        let _ = writeln!(text, "server {{ listen {place}{server} {case} }}");
    }
    let sides = Sides::start_stream(&nginx, &text, &[peer.address(), dead(), dead(), deaf.address()]);
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

/// Which of three peers each of forty clients gets. The PROXY protocol names the clients.
#[test]
fn peers_are_chosen_as_in_nginx() {
    const GROUPS: [&str; 4] =
        ["hash $proxy_protocol_addr;", "hash $proxy_protocol_addr consistent;", "", "least_conn;"];
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let peers = ["one", "two", "three"].map(|name| testkit::Peer::script(move |mut talk| talk.send(name)));
    let mut text = "server { listen {listen}; return ''; }\n".to_owned();
    for (number, method) in (1..).zip(GROUPS) {
        let _ = write!(
            text,
            "upstream group{number} {{ {method} server {{upstream:0}}; server {{upstream:1}} weight=3; \
             server {{upstream:2}} weight=2; }}\n\
             server {{ listen {{listen:{number}}} proxy_protocol; proxy_pass group{number}; }}\n"
        );
    }
    let addresses: Vec<SocketAddr> = peers.iter().map(testkit::Peer::address).collect();
    let sides = Sides::start_stream(&nginx, &text, &addresses);
    for (number, method) in (1..).zip(GROUPS) {
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| {
            let ask = |client: usize| {
                let mut talk = Talk::connect(sides.address(side, number));
                talk.send(format!("PROXY TCP4 10.{client}.3.{} 192.0.2.2 1000 2222\r\n", client * 7 % 250));
                String::from_utf8(talk.rest().0).unwrap()
            };
            (0..40).map(ask).collect::<Vec<_>>()
        });
        assert_eq!(theirs, ours, "{method}");
        assert!(["one", "two", "three"].iter().all(|name| ours.iter().any(|peer| peer == name)), "{method} {ours:?}");
    }
}

/// Tables, and what headers of the PROXY protocol say: the text that a client of each kind gets.
#[test]
fn values_are_those_of_nginx() {
    const TEXT: &str = "\
        geo $proxy_protocol_addr $near { default far; 192.0.2.0/24 near; 2001:db8::/32 six; }\n\
        geo $proxy_protocol_addr $range { ranges; default out; 192.0.2.5-192.0.2.9 in; }\n\
        split_clients $proxy_protocol_addr $share { 20% a; 30.5% b; * c; }\n\
        map $proxy_protocol_addr $last { default none; ~^192\\.0\\.2\\.(?<digits>\\d+)$ <$digits>; }\n\
        map $ssl_preread_server_name $host { hostnames; default other; .example.com wild; *.org star; www.* www; }\n\
        server { listen {listen}; return ''; }\n\
        server { listen {listen:1} proxy_protocol; return \"$near $range $share $last $proxy_protocol_addr \
            $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port\"; }\n\
        server { listen {listen:2} proxy_protocol; return \"$proxy_protocol_tlv_alpn $proxy_protocol_tlv_authority \
            $proxy_protocol_tlv_ssl_version $proxy_protocol_tlv_ssl_cn $proxy_protocol_tlv_0xea\"; }\n\
        server { listen {listen:3}; ssl_preread on; return \"$host $ssl_preread_server_name $ssl_preread_protocol \
            $ssl_preread_alpn_protocols\"; }\n";
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let sides = Sides::start_stream(&nginx, TEXT, &[]);
    let mut sent: Vec<(usize, Vec<u8>)> = Vec::new();
    for client in ["192.0.2.1", "192.0.2.5", "192.0.2.9", "192.0.2.10", "198.51.100.77", "203.0.113.200"] {
        sent.push((1, format!("PROXY TCP4 {client} 192.0.2.2 1111 2222\r\n").into()));
    }
    sent.push((1, b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n".to_vec()));
    sent.push((1, b"PROXY UNKNOWN\r\n".to_vec()));
    let tlvs = [
        &b"\x01\0\x02h2\x02\0\x0chost.example\xea\0\x03aws\x20\0\x18\x07\0\0\0\0\x21\0\x07TLSv1.3\x22\0\x06client"[..],
    ]
    .concat();
    let addresses = [192, 0, 2, 1, 192, 0, 2, 2, 4, 0, 1, 187];
    let length = u16::try_from(addresses.len() + tlvs.len()).unwrap().to_be_bytes();
    sent.push((2, [b"\r\n\r\n\0\r\nQUIT\n\x21\x11", &length[..], &addresses, &tlvs].concat()));
    let anyone = tls::ClientSide::new(tls::Trust::Anyone).alpn(["h2", "http/1.1"]).build().unwrap();
    for name in ["a.example.com", "EXAMPLE.com", "x.org", "www.test", "test"] {
        let mut hello = Vec::new();
        tls::Session::client(&anyone, name).unwrap().take_output(&mut hello);
        sent.push((3, hello));
    }
    sent.push((3, b"no TLS".to_vec()));
    for (listener, bytes) in sent {
        // nginx leaves what it has looked at unread, so the end is a reset: only the text counts.
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| {
            let mut talk = Talk::connect(sides.address(side, listener));
            talk.send(&bytes);
            talk.rest().0.escape_ascii().to_string()
        });
        assert_eq!(theirs, ours, "{listener} {}", bytes.escape_ascii());
        assert!(!ours.is_empty(), "{listener} {}", bytes.escape_ascii());
    }
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
