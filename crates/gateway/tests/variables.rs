//! Variables whose values only a running gateway has.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use testkit::Gateway;

#[test]
fn a_request_id_is_the_same_within_a_request_and_another_in_the_next() {
    let gateway = Gateway::start(
        "events {}\nhttp { access_log off; server { listen {listen}; return 200 \"$request_id $request_id\"; } }\n",
        &[],
    );
    let mut client = gateway.client();
    let mut seen = Vec::new();
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let body = client.response().text().clone();
        let (first, second) = body.split_once(' ').unwrap();
        assert_eq!(first, second);
        assert!(first.len() == 32 && first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{first}");
        seen.push(first.to_owned());
    }
    assert_ne!(seen[0], seen[1]);
}
