//! `ssi`: clients that leave, pages byte by byte, pages without end, limits. The differential suite compares the pages
//! with nginx.

use std::time::Duration;
use testkit::{Gateway, Peer, Signal};

/// A gateway whose pages are those of the first upstream, and whose `/part` is of the second one.
fn text(words: &str) -> String {
    format!(
        "worker_processes 1;
        events {{ worker_connections 64; }}
        http {{
            log_format line '$status $uri';
            access_log access.log line;
            default_type text/html;
            upstream pages {{ server {{upstream:0}}; keepalive 4; }}
            upstream parts {{ server {{upstream:1}}; keepalive 4; }}
            server {{
                listen {{listen}};
                ssi on;
                location = /alive {{ return 200 alive; }}
                location / {{ proxy_pass http://pages; {words} }}
                location /part {{ internal; proxy_pass http://parts; }}
                location = /twice {{ return 200 \"<!--#include virtual='/twice' --><!--#include virtual='/twice' -->.\"; }}
                location = /text {{ return 200 text; }}
                location = /large {{ subrequest_output_buffer_size 4; return 200 12345; }}
            }}
        }}"
    )
}

/// Answers every request with this page.
fn page(text: &str) -> Peer {
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send(&answer);
        }
    })
}

fn ask(gateway: &Gateway) -> String {
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response().text()
}

/// The text for errors.
const ERROR: &str = "[an error occurred while processing the directive]";

#[test]
fn i04_wrong_order_of_if_and_block_is_an_error() {
    let open = "<!--#if expr=\"x\" -->";
    let cases = [
        ("a<!--#elif expr=\"x\" -->b".to_owned(), format!("a{ERROR}b")),
        ("a<!--#else -->b".to_owned(), format!("a{ERROR}b")),
        ("a<!--#endif -->b".to_owned(), format!("a{ERROR}b")),
        (format!("{open}a{open}b<!--#endif -->c"), format!("a{ERROR}bc")),
        (format!("a{open}b"), "ab".to_owned()),
        ("a<!--#block name=\"b\" -->b".to_owned(), "a".to_owned()),
    ];
    for (written, expected) in cases {
        let pages = page(&written);
        let gateway = Gateway::start(&text(""), &[pages.address(), pages.address()]);
        assert_eq!(ask(&gateway), expected, "{written}");
    }
}

#[test]
fn i06_unsafe_or_contradictory_includes_fetch_nothing() {
    for parameters in ["virtual=\"/../part\"", "virtual=\"/part\" file=\"part\"", "virtual=\"/part\" stub=\"none\""] {
        let written = format!("a<!--#include {parameters} -->b");
        let (pages, parts) = (page(&written), page("part"));
        let gateway = Gateway::start(&text(""), &[pages.address(), parts.address()]);
        assert_eq!(ask(&gateway), format!("a{ERROR}b"), "{written}");
        assert_eq!(parts.connections(), 0, "{written}");
    }
}

#[test]
fn i07_a_page_that_includes_itself_twice_ends() {
    let pages = page("<!--#include virtual=\"/twice\" -->");
    let gateway = Gateway::start(&text(""), &[pages.address(), pages.address()]);
    let made = ask(&gateway);
    assert!(made.contains(ERROR) && made.ends_with('.'), "{}", made.len());
    assert!(made.matches('.').count() <= 1024, "{}", made.matches('.').count());
    gateway.logged("more than 1024 pages are included");
    gateway.until_totals("nothing is left", |totals| totals.writing == 0);
}

#[test]
fn i11_a_client_that_leaves_ends_the_included_page() {
    for command in ["virtual=\"/part\"", "virtual=\"/part\" wait=\"yes\"", "virtual=\"/part\" set=\"v\""] {
        let (asked, left) = (Signal::new(), Signal::new());
        let (raise_asked, raise_left) = (asked.clone(), left.clone());
        let parts = Peer::script(move |mut talk| {
            if talk.request().is_some() {
                raise_asked.raise();
                assert!(talk.request().is_none());
                raise_left.raise();
            }
        });
        let pages = page(&format!("a<!--#include {command} -->b"));
        let gateway = Gateway::start(&text(""), &[pages.address(), parts.address()]);
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().unwrap().status(), 200);
        asked.wait();
        client.reset();
        left.wait();
        gateway.until_totals("nothing is left", |totals| (totals.active, totals.writing) == (0, 0));
    }
}

#[test]
fn i12_a_page_byte_by_byte_is_the_same() {
    let pages = Peer::script(|mut talk| {
        while talk.request().is_some() {
            let page = "a<<!--#include virtual=\"/text\" --><!--#echo var='uri'-->b";
            let chunks =
                page.chars().fold(String::new(), |chunks, letter| chunks + "1\r\n" + &letter.to_string() + "\r\n");
            talk.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n");
            talk.send_bytewise(chunks + "0\r\n\r\n");
        }
    });
    let gateway = Gateway::start(&text(""), &[pages.address(), pages.address()]);
    assert_eq!([ask(&gateway), ask(&gateway)], ["a<text/b", "a<text/b"]);
}

#[test]
fn i12_truncated_page_is_sent_as_far_as_it_came() {
    let pages = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\na<!--#echo var='uri' -->b",
            );
        }
    });
    let gateway = Gateway::start(&text(""), &[pages.address(), pages.address()]);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let received = String::from_utf8(client.rest().0).unwrap();
    assert!(received.contains("a/b") || (received.contains('a') && received.contains("/b")), "{received}");
    assert!(!received.contains("0\r\n\r\n"), "no regular end: {received}");
}

#[test]
fn i09_truncated_include_does_not_end_the_page() {
    let parts = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
        }
    });
    let pages = page("a<!--#include virtual=\"/part\" -->b");
    let gateway = Gateway::start(&text(""), &[pages.address(), parts.address()]);
    assert_eq!(ask(&gateway), "apartb");
}

#[test]
fn i10_response_too_large_for_a_variable_is_dropped() {
    let pages = page(
        "<!--#set var=\"v\" value=\"old\" --><!--#include virtual=\"/large\" set=\"v\" --><!--#echo var=\"v\" -->.",
    );
    let gateway = Gateway::start(&text(""), &[pages.address(), pages.address()]);
    assert_eq!(ask(&gateway), "old.");
    gateway.logged("too big subrequest response");
}

#[test]
fn i13_an_expression_without_end_is_an_error() {
    let pages = page(
        "<!--#set var=\"v\" value=\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\" --><!--#if expr=\"$v = /^(a+)+\\$/\" -->a<!--#endif -->b",
    );
    let gateway = Gateway::start(&text(""), &[pages.address(), pages.address()]);
    assert_eq!(ask(&gateway), format!("{ERROR}a{ERROR}b"));
    gateway.logged("pcre2_match() failed");
}

#[test]
fn includes_run_concurrently_unless_they_wait() {
    // Each part answers when both were asked for.
    let both = Signal::new();
    let (raise, wait) = (both.clone(), both);
    let parts = Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            if request.target() == "/part2" {
                raise.raise();
            } else {
                talk.wait(&wait);
            }
            let name = &request.target()[1..];
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()));
        }
    });
    let pages = page("a<!--#include virtual=\"/part1\" -->b<!--#include virtual=\"/part2\" -->c");
    let gateway = Gateway::start(&text(""), &[pages.address(), parts.address()]);
    assert_eq!(ask(&gateway), "apart1bpart2c");

    let parts = Peer::answering(|request| {
        let name = &request.target()[1..];
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).into_bytes()
    });
    let pages =
        page("<!--#include virtual=\"/part1\" wait=\"yes\" --><!--#include virtual=\"/part2\" wait=\"yes\" -->");
    let gateway = Gateway::start(&text(""), &[pages.address(), parts.address()]);
    assert_eq!(ask(&gateway), "part1part2");
    let asked: Vec<String> = parts.requests().iter().map(|(_, request)| request.target().to_owned()).collect();
    assert_eq!(asked, ["/part1", "/part2"]);
}

#[test]
fn include_slower_than_send_timeout_is_awaited() {
    let (asked, go) = (Signal::new(), Signal::new());
    let (raise, wait) = (asked.clone(), go.clone());
    let parts = Peer::script(move |mut talk| {
        if talk.request().is_some() {
            raise.raise();
            talk.wait(&wait);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npart");
        }
    });
    let pages = page("a<!--#include virtual=\"/part\" -->b");
    let gateway = Gateway::start(&text("send_timeout 100ms;"), &[pages.address(), parts.address()]);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.head().unwrap().status(), 200);
    client.expect("1\r\na\r\n");
    asked.wait();
    assert!(!client.receives_within(Duration::from_millis(400)));
    go.raise();
    let rest = String::from_utf8(client.rest().0).unwrap();
    assert!(rest.contains("part") && rest.ends_with("b\r\n0\r\n\r\n"), "{rest}");
}

#[test]
fn large_parts_stream_within_bounds() {
    const BYTES: usize = 5_000_000;
    let parts = Peer::script(|mut talk| {
        while talk.request().is_some() {
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"));
            talk.send(vec![b'x'; BYTES]);
        }
    });
    let pages = page("a<!--#include virtual=\"/part\" wait=\"yes\" -->b<!--#include virtual=\"/part\" -->c");
    let gateway = Gateway::start(&text(""), &[pages.address(), parts.address()]);
    let made = ask(&gateway);
    assert_eq!(made.len(), 2 * BYTES + 3);
    assert!(made.starts_with("ax") && made.ends_with("xc"));
}

#[test]
fn cached_page_is_assembled_for_each_client() {
    let pages = page("<!--#echo var=\"arg_a\" --><!--#include virtual=\"/text\" -->");
    let words = "proxy_cache c; proxy_cache_key k; proxy_cache_valid 1m; add_header X-Cache $upstream_cache_status;";
    let text = text(words).replace("default_type", "proxy_cache_path cache keys_zone=c:1m; default_type");
    let gateway = Gateway::start(&text, &[pages.address(), pages.address()]);
    let ask = |target: &str| {
        let answer = gateway.client().get(target, "");
        (answer.value("X-Cache").unwrap_or_default().to_owned(), answer.text())
    };
    assert_eq!(ask("/?a=1"), ("MISS".to_owned(), "1text".to_owned()));
    assert_eq!(ask("/?a=2"), ("HIT".to_owned(), "2text".to_owned()));
    assert_eq!(pages.requests().len(), 1);
}

#[test]
fn endless_page_is_read_at_its_clients_speed() {
    // The output of commands is bounded too: each of these writes 60 KB.
    let value = "v".repeat(250);
    let mut body = format!("<!--#set var=\"a\" value=\"{value}\" -->");
    for _ in 0..8 {
        body.push_str("<!--#set var=\"a\" value=\"$a$a\" -->");
    }
    body.push_str(&"<!--#echo var=\"a\" encoding=\"none\" -->".repeat(200));
    let pages = page(&body);
    let gateway = Gateway::start(&text(""), &[pages.address(), pages.address()]);
    let mut client = gateway.client();
    client.receive_buffer(4096);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().unwrap().status(), 200);
    client.read(100_000);
    let held = gateway.shared().memory().held;
    assert!(held < 4_000_000, "{held}");
    client.reset();
    assert_eq!(ask(&gateway).len(), 200 * 250 * 256);
}
