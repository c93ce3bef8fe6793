//! F1–F12: faults of applications behind FastCGI, SCGI and uwsgi, and requests that cannot be told to them.

use testkit::{Gateway, Peer, Signal, Talk};

const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
/// It ends a request's body.
const LAST_RECORD: &[u8] = &[1, STDIN, 0, 1, 0, 0, 0, 0];
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

const HELLO: &[u8] = b"Content-Type: text/plain\r\n\r\nhello";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A record of the only request of a connection.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    with_header([1, kind, 0, 1], content)
}

/// A record with this version, type and id.
fn with_header(start: [u8; 4], content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&start[..], &[high, low, 0, 0], content].concat()
}

fn end_request() -> Vec<u8> {
    record(END_REQUEST, &[0; 8])
}

/// Reads a whole request; `false` at the end of the connection.
fn take_request(talk: &mut Talk) -> bool {
    let mut came = Vec::new();
    while !came.ends_with(LAST_RECORD) {
        match talk.whatever_came() {
            Some(bytes) => came.extend(bytes),
            None => return false,
        }
    }
    true
}

/// An application that sends these bytes for each request and ends the connection.
fn sending(bytes: impl Into<Vec<u8>>) -> Peer {
    let bytes = bytes.into();
    Peer::script(move |mut talk| {
        if take_request(&mut talk) {
            talk.send(&bytes);
        }
    })
}

/// A gateway with this location, the application behind it, and a location that answers without it.
fn start(location: &str, application: &Peer) -> Gateway {
    let text = format!(
        "events {{}} http {{ access_log off; server {{ listen {{listen}}; client_max_body_size 1g; \
         location = /alive {{ return 200 alive; }} location / {{ {location} }} }} }}"
    );
    Gateway::start(&text, &[application.address()])
}

const PASS: &str = "fastcgi_pass {upstream:0};";

/// The client gets 502, the error log says why, and the client's connection is served on.
#[track_caller]
fn refused(location: &str, application: &Peer, phrase: &str) {
    let gateway = start(location, application);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().status(), 502, "{phrase}");
    let line = gateway.logged(phrase);
    assert!(line.contains(" while reading response header from upstream"), "{line}");
    assert_eq!(client.get("/alive", "").text(), "alive");
    assert_eq!(application.connections(), 1, "one attempt");
}

#[test]
fn f01_another_version() {
    let http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    refused(PASS, &sending(&http[..]), "upstream sent unsupported FastCGI protocol version: 72");
    let newer = with_header([2, STDOUT, 0, 1], HELLO);
    refused(PASS, &sending(newer), "upstream sent unsupported FastCGI protocol version: 2");
}

#[test]
fn f02_a_type_that_applications_do_not_send() {
    for kind in [0, 1, STDIN, 8, 11, 255] {
        let phrase = format!("upstream sent invalid FastCGI record type: {kind}");
        refused(PASS, &sending(record(kind, HELLO)), &phrase);
    }
}

#[test]
fn f03_another_request_id() {
    for (high, low, id) in [(0, 0, "low byte: 0"), (0, 2, "low byte: 2"), (255, 255, "high byte: 255")] {
        let phrase = format!("upstream sent unexpected FastCGI request id {id}");
        refused(PASS, &sending(with_header([1, STDOUT, high, low], HELLO)), &phrase);
    }
}

#[test]
fn f04_an_end_without_a_head() {
    let ended = "upstream sent unexpected FastCGI record: 3";
    refused(PASS, &sending(end_request()), ended);
    refused(PASS, &sending([record(STDOUT, b"Content-Type: text/plain\r\n"), end_request()].concat()), ended);
    // The application is overloaded, and says so in the record that ends the request.
    refused(PASS, &sending(record(END_REQUEST, &[0, 0, 0, 0, 2, 0, 0, 0])), ended);
    // Standard output is over before the head is; what comes behind that is out of order.
    let closed = "upstream prematurely closed FastCGI stdout";
    refused(PASS, &sending([record(STDOUT, b""), end_request()].concat()), closed);
    refused(PASS, &sending([record(STDOUT, b""), record(STDOUT, HELLO), end_request()].concat()), closed);
}

#[test]
fn f05_a_connection_that_ends_before_the_head() {
    let half = &record(STDOUT, HELLO)[..20];
    for bytes in [&b""[..], &[1, STDOUT, 0], half] {
        refused(PASS, &sending(bytes), "upstream prematurely closed connection");
    }
}

/// No end of the request, a content that is shorter than its record says, and a length that is not reached.
#[test]
fn f06_a_response_that_is_cut() {
    let rests = [Vec::new(), record(STDOUT, b" and more")[..12].to_vec()];
    let mut cases: Vec<(&[u8], Vec<u8>)> = rests.map(|rest| (HELLO, rest)).into();
    cases.push((b"Content-Length: 9\r\n\r\nhello", end_request()));
    for (head, rest) in cases {
        let (seen, case) = (Signal::new(), rest.escape_ascii().to_string());
        let (waits, head) = (seen.clone(), record(STDOUT, head));
        let application = Peer::script(move |mut talk| {
            if take_request(&mut talk) {
                talk.send(&head);
                talk.wait(&waits);
                talk.send(&rest);
            }
        });
        let gateway = start("fastcgi_buffering off; fastcgi_pass {upstream:0};", &application);
        let mut client = gateway.client();
        client.send(GET);
        let response = client.head().unwrap();
        assert_eq!(response.status(), 200);
        seen.raise();
        let (body, _) = client.rest();
        let length: Option<usize> = response.value("Content-Length").map(|length| length.parse().unwrap());
        let is_cut = length.map_or(!body.ends_with(b"0\r\n\r\n"), |length| body.len() < length);
        assert!(is_cut, "{case}: {}", body.escape_ascii());
        gateway.logged("upstream prematurely closed ");
    }
}

/// 64 MB of standard error before the response: 16 KB of it are kept at a time, and logged in parts.
#[test]
fn f07_a_flood_on_standard_error() {
    let application = Peer::script(|mut talk| {
        if !take_request(&mut talk) {
            return;
        }
        let flood = record(STDERR, &vec![b'e'; 65_000]);
        for _ in 0..1000 {
            talk.send(&flood);
        }
        talk.send([record(STDOUT, HELLO), end_request()].concat());
    });
    let gateway = start("error_log flood.log crit; fastcgi_pass {upstream:0};", &application);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    assert!(gateway.shared().memory().claimed_most < 2 << 20, "{:?}", gateway.shared().memory());
}

#[test]
fn f08_a_head_beyond_the_buffer() {
    let long = [b"X-Long: ", &[b'x'; 5000][..], b"\r\n\r\nhello"].concat();
    let location = "fastcgi_buffer_size 4k; fastcgi_buffers 4 4k; fastcgi_pass {upstream:0};";
    refused(location, &sending([record(STDOUT, &long), end_request()].concat()), "upstream sent too big header");
    // Without an end, and in records of one byte.
    let endless = vec![record(STDOUT, b"x"); 5000].concat();
    refused(location, &sending(endless), "upstream sent too big header");
}

/// A record has no content, or padding only, or one byte of the response.
#[test]
fn f09_a_response_in_crumbs() {
    let crumbs: Vec<u8> = HELLO
        .iter()
        .flat_map(|byte| {
            let padded = [&[1, STDOUT, 0, 1, 0, 1, 255, 0, *byte][..], &[0xff; 255]].concat();
            [record(STDERR, b""), padded].concat()
        })
        .collect();
    let bytes = [crumbs, record(STDOUT, b""), end_request()].concat();
    let application = Peer::script(move |mut talk| {
        if take_request(&mut talk) {
            talk.send_bytewise(&bytes);
        }
    });
    let gateway = start(PASS, &application);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
}

/// Records without content that do not end, before the head and behind it: others are served, and the client can leave.
#[test]
fn f10_empty_records_without_end() {
    for head in [&b""[..], HELLO] {
        let (begun, head) = (Signal::new(), record(STDOUT, head));
        let tell = begun.clone();
        let application = Peer::script(move |mut talk| {
            if take_request(&mut talk) {
                talk.send(&head);
                tell.raise();
                let empty = record(STDERR, b"").repeat(20_000);
                while std::io::Write::write_all(&mut talk.socket(), &empty).is_ok() {}
            }
        });
        let gateway = start(PASS, &application);
        let mut victim = gateway.client();
        victim.send(GET);
        begun.wait();
        for _ in 0..20 {
            assert_eq!(gateway.client().get("/alive", "").text(), "alive");
        }
        victim.close();
        gateway.until_totals("the request has ended", |totals| totals.active == 0);
    }
}

/// The same is no progress towards a head.
#[test]
fn f10_empty_records_do_not_prolong_the_read_timeout() {
    let application = Peer::script(|mut talk| {
        if take_request(&mut talk) {
            let empty = record(STDERR, b"").repeat(20_000);
            while std::io::Write::write_all(&mut talk.socket(), &empty).is_ok() {}
        }
    });
    let gateway = start("fastcgi_read_timeout 500ms; fastcgi_pass {upstream:0};", &application);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().status(), 504);
    gateway.logged("upstream timed out (110: Connection timed out) while reading response header from upstream");
}

#[test]
fn f11_bytes_behind_the_end_of_a_request() {
    let application = Peer::script(|mut talk| {
        while take_request(&mut talk) {
            talk.send([record(STDOUT, HELLO), end_request(), record(STDOUT, HELLO)].concat());
        }
    });
    let text = "events {} http { access_log off; upstream kept { server {upstream:0}; keepalive 4; } \
                server { listen {listen}; location / { fastcgi_keep_conn on; fastcgi_pass kept; } } }";
    let gateway = Gateway::start(text, &[application.address()]);
    let mut client = gateway.client();
    for _ in 0..5 {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(application.connections(), 5, "none is used again");
}

#[test]
fn f12_a_status_that_is_none() {
    for status in ["20", "2000", "abc", "099", "101 Switching Protocols", ""] {
        let head = format!("Status: {status}\r\n\r\nhello");
        let bytes = [record(STDOUT, head.as_bytes()), end_request()].concat();
        refused(PASS, &sending(bytes), "upstream sent invalid status");
    }
}

/// SCGI and uwsgi have no records: the connection's end is the response's end.
#[test]
fn f13_scgi_and_uwsgi_without_a_head() {
    for pass in ["scgi_pass", "uwsgi_pass"] {
        let location = format!("{pass} {{upstream:0}};");
        for (bytes, phrase) in [
            ("", "upstream prematurely closed connection"),
            ("Status: 200 OK\r\n", "upstream prematurely closed connection"),
            ("Status: none\r\n\r\n", "upstream sent invalid status"),
        ] {
            let application = Peer::script(move |mut talk| {
                if talk.whatever_came().is_some() {
                    talk.send(bytes);
                }
            });
            refused(&location, &application, phrase);
        }
    }
}

/// The values of request fields that differ as fields and are one parameter; and `Proxy`, which would be a setting of programs.
#[test]
fn f14_ambiguous_parameter_fields() {
    for pass in ["fastcgi_pass", "scgi_pass", "uwsgi_pass"] {
        let application = Peer::script(|mut talk| while talk.whatever_came().is_some() {});
        let location = format!("{pass} {{upstream:0}};");
        let text = format!(
            "events {{}} http {{ access_log off; underscores_in_headers on; server {{ listen {{listen}}; \
             location / {{ {location} }} }} }}"
        );
        let gateway = Gateway::start(&text, &[application.address()]);
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX-User: a\r\nX_User: b\r\n\r\n");
        assert_eq!(client.response().status(), 400, "{pass}");
        assert_eq!(application.connections(), 0, "{pass}");
    }
    let application = sending([record(STDOUT, HELLO), end_request()].concat());
    let gateway = start(PASS, &application);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nProxy: evil\r\nX-Mine: good\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    let came = application.received(0).escape_ascii().to_string();
    assert!(came.contains("HTTP_X_MINEgood") && !came.contains("HTTP_PROXY"), "{came}");
}

/// A packet of uwsgi has 64 KB, and all parameters have 4 MB.
#[test]
fn f15_parameters_beyond_the_bound() {
    let fields = "X-Long: LONG\r\n".replace("LONG", &"x".repeat(40_000)).repeat(2);
    let text = "events {} http { access_log off; large_client_header_buffers 8 64k; server { listen {listen}; \
                location / { uwsgi_pass {upstream:0}; } } }";
    let application = Peer::script(|mut talk| while talk.whatever_came().is_some() {});
    let gateway = Gateway::start(text, &[application.address()]);
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let status = client.response().status();
    assert!(status >= 500, "{status}");
}

/// The client knows the length, has all of it, and closes; then the application ends its request.
#[test]
fn f16_client_that_has_all_before_the_end_has_not_left() {
    let closed = Signal::new();
    let waits = closed.clone();
    let application = Peer::script(move |mut talk| {
        if take_request(&mut talk) {
            talk.send(record(STDOUT, b"Content-Length: 5\r\n\r\nhello"));
            talk.wait(&waits);
            talk.send(end_request());
        }
    });
    let format = "log_format whole '$status $body_bytes_sent $upstream_bytes_received \"$request_completion\"';";
    let text = format!(
        "events {{}} http {{ {format} access_log access.log whole; server {{ listen {{listen}}; \
         location = /alive {{ access_log off; return 200 alive; }} location / {{ {PASS} }} }} }}"
    );
    let gateway = Gateway::start(&text, &[application.address()]);
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    client.close();
    // After this response the gateway has seen the FIN, too.
    assert_eq!(gateway.client().get("/alive", "").text(), "alive");
    closed.raise();
    let whole = record(STDOUT, b"Content-Length: 5\r\n\r\nhello").len() + end_request().len();
    assert_eq!(gateway.access_lines(1)[0], format!("200 5 {whole} \"OK\""));
}
