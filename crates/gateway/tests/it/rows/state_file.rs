//! `state`: a group with its servers in a separate file. nginx's open-source version does not have the directive, so
//! this tests nginx's documentation.

use crate::site::{GET, HELLO};
use testkit::{Gateway, Peer};

fn conf(file: &str, words: &str) -> String {
    format!(
        "events {{}} http {{ access_log off; upstream peers {{ zone peers 64k; {words} state {file}; }}
         server {{ listen {{listen}}; location / {{ proxy_pass http://peers; }} }} }}"
    )
}

fn ask(gateway: &Gateway) -> (u16, String) {
    let mut client = gateway.client();
    client.send(GET);
    let response = client.response();
    (response.status(), response.text())
}

#[test]
fn the_peers_are_those_of_the_file_at_start_and_after_a_reload() {
    let (first, second) = (Peer::saying(HELLO), Peer::saying(HELLO.replace("hello", "other")));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("peers.conf");
    let text = conf(file.to_str().unwrap(), "");
    std::fs::write(&file, format!("server {} weight=5;\n", first.address())).unwrap();
    let mut gateway = Gateway::start(&text, &[]);
    assert_eq!(ask(&gateway), (200, "hello".into()));
    std::fs::write(&file, format!("server {};\nserver {} down;\n", second.address(), first.address())).unwrap();
    gateway.reload(&text);
    testkit::until("the other peer", || (ask(&gateway).1 == "other").then_some(()));
}

#[test]
fn without_its_file_a_group_has_no_peers_whatever_its_balance() {
    for words in
        ["", "least_conn;", "ip_hash;", "hash $uri consistent;", "random two;", "sticky cookie id;", "hash $uri;"]
    {
        let gateway = Gateway::start(&conf("/nonexistent/peers.conf", words), &[]);
        assert_eq!(ask(&gateway).0, 502, "{words}");
        gateway.logged("no live upstreams while connecting to upstream");
    }
}
