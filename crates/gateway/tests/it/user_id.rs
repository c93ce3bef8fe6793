//! `userid` where a comparison with nginx is impossible: generated ids.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::Gateway;
use std::collections::BTreeSet;
use testkit::Response;

const SERVER: &str = "location /on { userid on; userid_expires 1h; return 200 \"$uid_set\"; }
    location /v1 { userid v1; userid_service 7; return 200 \"$uid_set\"; }
    location /service { userid on; userid_service 16909060; userid_mark m; return 200 \"$uid_set\"; }
    location /reset { userid on; set $uid_reset $arg_reset; return 200 \"$uid_got $uid_set\"; }
    location /parts { userid on; add_before_body /part; add_after_body /part; types { } default_type text/html; root html; }
    location /part { userid on; return 200 part; }";

/// The id in the cookie of a response, without its padding.
fn number_in(response: &Response) -> &str {
    response.value("Set-Cookie").expect("a cookie").split([';', '=']).nth(1).unwrap()
}

#[test]
fn each_client_gets_another_number_and_variables_show_it() {
    let gateway = Gateway::start(SERVER, "");
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let response = gateway.get("/on");
        let shown = response.text();
        assert!(shown.starts_with("uid=0100007F") && shown.len() == 36, "the server's address comes first: {shown}");
        assert!(seen.insert(shown));
        let cookie = response.value("Set-Cookie").unwrap();
        assert!(cookie.contains("; expires=") && cookie.ends_with("; path=/"), "{cookie}");
    }
    assert!(gateway.get("/v1").text().starts_with("uid=00000007"));
    let marked = gateway.get("/service");
    assert!(marked.text().starts_with("uid=04030201"), "{}", marked.text());
    let cookie = marked.value("Set-Cookie").unwrap();
    assert!(cookie.ends_with("m=; path=/"), "{cookie}");
}

#[test]
fn a_number_that_comes_back_is_kept_until_it_is_reset() {
    let gateway = Gateway::start(SERVER, "");
    let first = gateway.get("/on");
    let field = format!("Cookie: uid={}==\r\n", number_in(&first));
    let again = gateway.request("GET", "/reset", &field);
    assert_eq!(again.text(), format!("{} ", first.text()));
    assert_eq!(again.value("Set-Cookie"), None);
    let other = gateway.request("GET", "/reset?reset=log", &field);
    let (got, set) = other.text().split_once(' ').map(|(got, set)| (got.to_owned(), set.to_owned())).unwrap();
    assert_eq!(got, first.text());
    assert_ne!(set, first.text());
    assert_ne!(number_in(&other), number_in(&first));
    gateway.expect_error(&format!("userid cookie \"{}\" was reset", first.text()));
}

#[test]
fn cookies_that_hold_no_number_are_logged() {
    // B5
    let gateway = Gateway::start(SERVER, "");
    assert!(gateway.request("GET", "/on", "Cookie: uid=short\r\n").text().starts_with("uid=0100007F"));
    gateway.expect_error("client sent too short userid cookie \"short\"");
    gateway.request("GET", "/on", "Cookie: uid=!!!!!!!!!!!!!!!!!!!!!!!!\r\n");
    gateway.expect_error("client sent invalid userid cookie \"!!!!!!!!!!!!!!!!!!!!!!!!\"");
}

#[test]
fn parts_of_a_page_give_no_numbers() {
    let gateway = Gateway::start(SERVER, "");
    gateway.write("html/parts", "<p>");
    let response = gateway.get("/parts");
    assert_eq!(response.text(), "part<p>part");
    assert_eq!(response.values("Set-Cookie").len(), 1);
}
