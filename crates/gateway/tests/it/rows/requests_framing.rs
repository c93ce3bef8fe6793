//! R1–R12: what determines the length of a request, and how its lines are separated.

use crate::site::{HELLO, Site, post};
use testkit::Peer;

/// All of these requests are refused with the same log phrase, and none reaches the upstream.
#[track_caller]
fn refused<'a>(requests: impl IntoIterator<Item = &'a str>, status: u16, phrase: &str) {
    let site = Site::of(Peer::saying(HELLO));
    for lines in requests {
        site.refuses(post(lines), status, phrase);
    }
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r01_content_length_and_transfer_encoding() {
    refused(
        ["Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"],
        400,
        "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
    );
}

#[test]
fn r01_what_follows_the_refused_request_is_never_a_request() {
    let site = Site::of(Peer::saying(HELLO));
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let request = post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n" + smuggled;
    site.refuses(request, 400, "at the same time");
    site.peer_saw_nothing();
}

#[test]
fn r02_transfer_encoding_on_http10() {
    let site = Site::of(Peer::saying(HELLO));
    let request = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    site.refuses(request, 400, "client sent HTTP/1.0 request with \"Transfer-Encoding\" header");
    site.is_alive();
    site.peer_saw_nothing();
}

#[test]
fn r03_two_equal_content_lengths() {
    refused(["Content-Length: 2\r\nContent-Length: 2\r\n"], 400, "client sent duplicate header line");
    refused(["Content-Length: 2, 2\r\n"], 400, "client sent invalid \"Content-Length\" header");
}

#[test]
fn r04_two_different_content_lengths() {
    refused(["Content-Length: 2\r\nContent-Length: 3\r\n"], 400, "client sent duplicate header line");
    refused(["Content-Length: 2, 3\r\n"], 400, "client sent invalid \"Content-Length\" header");
}

#[test]
fn r05_content_length_with_a_sign_a_prefix_or_nothing() {
    let lines = ["+2", "-2", "0x2", "", "2 2", "2,", "1e3"].map(|value| format!("Content-Length: {value}\r\n"));
    refused(lines.iter().map(String::as_str), 400, "client sent invalid \"Content-Length\" header");
}

#[test]
fn r06_content_length_above_what_fits() {
    let lines = ["9223372036854775808", "18446744073709551615", "18446744073709551616", "99999999999999999999999"]
        .map(|value| format!("Content-Length: {value}\r\n"));
    refused(lines.iter().map(String::as_str), 400, "client sent invalid \"Content-Length\" header");
}

#[test]
fn r07_unknown_coding() {
    let lines = ["gzip", "x", "identity", "gzip, chunked"].map(|value| format!("Transfer-Encoding: {value}\r\n"));
    refused(lines.iter().map(String::as_str), 501, "client sent unknown \"Transfer-Encoding\"");
}

#[test]
fn r08_chunked_twice_or_with_something_around_it() {
    let lines = ["chunked, chunked", "chunked;q=1", "", ",", "chunked,", "\"chunked\""]
        .map(|value| format!("Transfer-Encoding: {value}\r\n"));
    refused(lines.iter().map(String::as_str), 400, "client sent invalid \"Transfer-Encoding\" header");
}

#[test]
fn r08_chunked_not_last() {
    let site = Site::of(Peer::saying(HELLO));
    site.refuses(post("Transfer-Encoding: chunked, gzip\r\n"), 501, "client sent unknown \"Transfer-Encoding\"");
    site.peer_saw_nothing();
}

#[test]
fn r09_two_transfer_encodings() {
    let lines = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    let other = "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n";
    let unknown = "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n";
    refused([lines, other, unknown], 400, "client sent duplicate header line");
}

#[test]
fn r10_white_space_before_the_colon() {
    refused(
        ["Transfer-Encoding : chunked\r\n", "Content-Length\t: 1\r\n"],
        400,
        "client sent invalid header line: white space before the colon",
    );
}

#[test]
fn r11_an_underscore_does_not_frame_and_is_not_passed_on() {
    let site = Site::of(Peer::saying(HELLO));
    let mut client = site.client();
    client.send(post("Transfer_Encoding: chunked\r\nContent_Length: 9\r\nContent-Length: 3\r\n") + "abc");
    assert_eq!(client.response().text(), "hello");
    let request = site.peer.only_request();
    assert_eq!((request.value("Content-Length"), request.text()), (Some("3"), "abc".into()));
    assert!(!request.head.contains(&b'_'), "{request:?}");
    // The connection continues where the body ended.
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(site.peer.requests()[1].1.target(), "/next");
}

#[test]
fn r12_folded_lines() {
    let phrase = "client sent invalid header line: the line starts with white space";
    refused(["A: b\r\n c\r\n", "A: b\r\n\tContent-Length: 3\r\n"], 400, phrase);
    let site = Site::of(Peer::saying(HELLO));
    site.refuses("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, phrase);
    site.is_alive();
    site.peer_saw_nothing();
}
