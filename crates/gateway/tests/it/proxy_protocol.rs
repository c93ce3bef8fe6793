//! The PROXY protocol where nginx 1.22 is no reference: fragments, TLVs, garbage, silence, reloads; and HAProxy as a
//! sender.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::process::Command;
use testkit::{End, Gateway, Running, Talk, free_port, peer_program, until};

const TEXT: &str = "events {} http { access_log off; client_header_timeout 1s; server { listen {listen} proxy_protocol; \
    location / { return 200 \"$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr \
    $proxy_protocol_server_port [$proxy_protocol_tlv_alpn] [$proxy_protocol_tlv_0x02] [$proxy_protocol_tlv_ssl_cn] \
    [$proxy_protocol_tlv_ssl_verify]\"; } } }";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LINE: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 4660 443\r\n";
const SAID: &str = "192.0.2.7 4660 198.51.100.1 443 [] [] [] []";

/// The same with a long timeout for heads.
fn patient() -> String {
    TEXT.replace("client_header_timeout 1s; ", "")
}

fn gateway() -> Gateway {
    Gateway::start(&patient(), &[])
}

fn tlv(code: u8, value: &[u8]) -> Vec<u8> {
    [&[code][..], &u16::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
}

/// A header of version 2 from 192.0.2.7 with these TLVs.
fn version_2(tlvs: &[u8]) -> Vec<u8> {
    let addresses = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x34, 1, 0xbb];
    let length = u16::try_from(addresses.len() + tlvs.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11", &length[..], &addresses, tlvs].concat()
}

#[track_caller]
fn assert_answers(client: &mut Talk, said: &str) {
    assert_eq!(client.response().text(), said);
}

#[test]
fn a_header_may_come_in_any_pieces() {
    let gateway = gateway();
    for header in [LINE.as_bytes().to_vec(), version_2(&[])] {
        let mut client = gateway.client();
        client.send_bytewise([&header, GET.as_bytes()].concat());
        assert_answers(&mut client, SAID);
        // The header belongs to the connection: the next request has none.
        client.send(GET);
        assert_answers(&mut client, SAID);
    }
}

#[test]
fn tlvs_are_variables() {
    let gateway = gateway();
    let ssl = [&[7, 0, 0, 0, 0][..], &tlv(0x22, b"client.example")].concat();
    let tlvs = [tlv(1, b"h2"), tlv(2, b"www.example"), tlv(0x20, &ssl)].concat();
    let mut client = gateway.client();
    client.send([&version_2(&tlvs)[..], GET.as_bytes()].concat());
    assert_answers(&mut client, "192.0.2.7 4660 198.51.100.1 443 [h2] [www.example] [client.example] [0]");
}

#[test]
fn invalid_proxy_header_closes_without_answer() {
    let gateway = gateway();
    let long = version_2(&tlv(4, &vec![0; 5000]));
    for garbage in [GET.as_bytes(), b"PROXY TCP4 nowhere\r\n", b"\x16\x03\x01\x02\0", &long[..], &[b'P'; 5000][..]] {
        let mut client = gateway.client();
        client.send(garbage);
        let (answer, _) = client.rest();
        assert!(answer.is_empty(), "{}", answer.escape_ascii());
    }
    let line = gateway.logged("broken header: \"GET / HTTP/1.1\\r\\n");
    assert!(line.contains("while reading PROXY protocol: no PROXY protocol header, client: 127.0.0.1"), "{line}");
    gateway.logged("broken header: \"PROXY TCP4 nowhere\\r\\n\" while reading PROXY protocol: broken header");
    gateway.logged("header is too large");
    let mut client = gateway.client();
    client.send(format!("{LINE}{GET}"));
    assert_answers(&mut client, SAID);
}

#[test]
fn silent_client_is_closed_at_the_timeout() {
    let gateway = Gateway::start(TEXT, &[]);
    for begun in ["", "PROXY TCP4 192.0.2.7 "] {
        let mut client = gateway.client();
        client.send(begun);
        assert_eq!(client.end(), End::Fin, "{begun:?}");
    }
    gateway.logged("client timed out (110: Connection timed out) while reading PROXY protocol");
    // The head has its own timeout, which ends like that of any head.
    let mut client = gateway.client();
    client.send(format!("{LINE}GET / HT"));
    assert_eq!(client.response().status(), 408);
    assert!(gateway.error_log().contains("[info]"));
}

#[test]
fn a_client_may_leave_before_or_inside_the_header() {
    let gateway = gateway();
    for begun in ["", "PROXY TCP4 192"] {
        let mut client = gateway.client();
        client.send(begun);
        client.close();
    }
    gateway.until_totals("no client is left", |totals| totals.active == 0 && totals.accepted == 2);
}

#[test]
fn connection_opened_before_a_reload_needs_no_header() {
    let plain = patient().replace("} proxy_protocol", "}");
    let mut gateway = Gateway::start(&plain, &[]);
    let mut client = gateway.client();
    client.send(GET);
    assert_answers(&mut client, "    [] [] [] []");
    gateway.reload(&patient());
    until("the new configuration holds", || {
        let mut another = gateway.client();
        another.send(format!("{LINE}{GET}"));
        (another.response().status() == 200).then_some(())
    });
    client.send(GET);
    assert_answers(&mut client, "    [] [] [] []");
}

/// HAProxy in front of the gateway: each of its addresses sends another version.
#[test]
fn haproxy_sends_both_versions() {
    let gateway = gateway();
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let server = |index: usize, word: &str| {
        format!(
            "listen l{index}\n bind 127.0.0.1:{port}\n server s 127.0.0.1:{to} {word}\n",
            port = ports[index],
            to = gateway.address().port()
        )
    };
    let text = format!(
        "global\n maxconn 100\ndefaults\n mode tcp\n timeout connect 10s\n timeout client 20s\n timeout server 20s\n{}{}{}",
        server(0, "send-proxy"),
        server(1, "send-proxy-v2"),
        server(2, "send-proxy-v2 proxy-v2-options unique-id").replace(" server", " unique-id-format own-id\n server")
    );
    let file = gateway.prefix().join("haproxy.cfg");
    std::fs::write(&file, text).unwrap();
    let haproxy = Running::start(Command::new(peer_program("haproxy")).args(["-db", "-f"]).arg(&file));
    for port in ports {
        haproxy.until("haproxy listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        let mut client = Talk::connect(([127, 0, 0, 1], port).into());
        client.send(GET);
        let text = client.response().text();
        let own = client.address().port();
        assert!(text.starts_with(&format!("127.0.0.1 {own} 127.0.0.1 {port} [")), "{text}");
    }
}
