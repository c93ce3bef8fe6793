//! The split of bytes into segments has no effect: any split of a client's bytes gives the same upstream requests and
//! the same responses, and any split of an upstream's bytes the same response. Between two pieces another connection is
//! served, so that the only worker has really processed the first piece alone.

use crate::site::{Site, is_alive, text};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use testkit::{Gateway, Message, Peer};

/// Requests of every framing, pipelined; the last one ends the connection.
const REQUESTS: &str = "GET /one?a=b HTTP/1.1\r\nHost: a.example\r\nX-Long: some value with \u{e9}\r\n\r\n\
    POST /two HTTP/1.1\r\nHost: a.example\r\nContent-Length: 11\r\n\r\nhello\r\nGET \
    \r\n\nPOST /three HTTP/1.1\nHost: a.example\nTransfer-Encoding: chunked\r\n\r\n\
    5;ext=\"y\"\r\nhello\r\n00A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n\
    GET http://b.example/four HTTP/1.1\r\nHost: a.example\r\n\r\n\
    DELETE /five HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// Responses of every framing.
const RESPONSES: [&str; 4] = [
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine\r\nContent-Length: 11\r\nX-A: b\r\n\r\nhello\r\n0\r\n\r",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n00a\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n",
    "HTTP/1.1 404 Not Found\nContent-Length: 3\nSet-Cookie: a=b\nSet-Cookie: c=d\n\nno!",
    "HTTP/1.0 200 OK\r\nX-A: until the end\r\n\r\nhello\r\n\r\n",
];

/// The text in pieces that end at these places, in percent of its length, so that cuts stay meaningful if the text
/// changes.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.dedup();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// The content of a response, without its Date.
fn without_date(mut response: Message) -> (String, Vec<(String, String)>, Vec<u8>) {
    response.fields.retain(|(name, _)| name != "Date");
    (response.line, response.fields, response.body)
}

/// What the upstream received: the heads byte by byte (except for the framing), and the bodies without their framing.
/// An unbuffered body has a length if it arrived before it was passed on; otherwise it has chunks.
type Seen = Vec<(Vec<u8>, Vec<u8>)>;
type Said = Vec<(String, Vec<(String, String)>, Vec<u8>)>;

fn without_framing(head: &[u8]) -> Vec<u8> {
    let lines = head.split_inclusive(|&byte| byte == b'\n');
    let kept = lines.filter(|line| !line.starts_with(b"Content-Length:") && !line.starts_with(b"Transfer-Encoding:"));
    kept.collect::<Vec<_>>().concat()
}

fn converse(site: &Site, pieces: &[&[u8]]) -> (Seen, Said) {
    let before = site.peer.requests().len();
    let mut client = site.client();
    for piece in pieces {
        client.send(piece);
        site.is_alive();
    }
    let said = (0..5).map(|_| without_date(client.response())).collect();
    client.end();
    let seen = site.peer.requests().split_off(before);
    (seen.into_iter().map(|(_, request)| (without_framing(&request.head), request.body)).collect(), said)
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }
}

fn echoing() -> Peer {
    Peer::answering(|request| {
        let body = format!("{} {}", request.line, request.text());
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
}

#[test]
fn any_split_of_the_clients_bytes_means_the_same() {
    for buffering in ["on", "off"] {
        let site = Site::with(echoing(), &format!("proxy_request_buffering {buffering};"));
        let whole = converse(&site, &[REQUESTS.as_bytes()]);
        assert_eq!(whole.0.len(), 5);
        assert_eq!(whole.0[1].1, b"hello\r\nGET ");
        assert_eq!(whole.0[2].1, b"hello0123456789");
        proptest!(config(), |(cuts in vec(any::<prop::sample::Index>(), 1..6))| {
            let split = converse(&site, &pieces(REQUESTS.as_bytes(), &cuts));
            prop_assert_eq!(&split, &whole);
        });
    }
}

#[test]
fn the_clients_bytes_one_by_one_mean_the_same() {
    let site = Site::of(echoing());
    let whole = converse(&site, &[REQUESTS.as_bytes()]);
    let single: Vec<&[u8]> = REQUESTS.as_bytes().chunks(1).collect();
    assert_eq!(converse(&site, &single), whole);
}

#[test]
fn any_split_of_the_upstreams_bytes_means_the_same() {
    let gateway_address = Arc::new(OnceLock::<SocketAddr>::new());
    let next = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
    let peer = Peer::script({
        let (next, gateway_address) = (Arc::clone(&next), Arc::clone(&gateway_address));
        move |mut talk| {
            while talk.request().is_some() {
                let pieces = next.lock().unwrap().clone();
                for piece in &pieces {
                    talk.send(piece);
                    let mut other = Gateway::client_of(*gateway_address.get().unwrap());
                    other.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
                    assert_eq!(other.response().text(), "alive");
                }
                if pieces.concat().starts_with(b"HTTP/1.0") {
                    return;
                }
            }
        }
    });
    let gateway = Gateway::start(&text(1, "", ""), &[peer.address()]);
    gateway_address.set(gateway.address()).unwrap();
    let ask = |pieces: Vec<Vec<u8>>| {
        *next.lock().unwrap() = pieces;
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut response = client.response();
        while response.status() < 200 {
            response = client.response();
        }
        without_date(response)
    };
    for response in RESPONSES {
        let response = response.as_bytes();
        let whole = ask(vec![response.to_vec()]);
        proptest!(config(), |(cuts in vec(any::<prop::sample::Index>(), 1..6))| {
            let split = ask(pieces(response, &cuts).into_iter().map(<[u8]>::to_vec).collect());
            prop_assert_eq!(&split, &whole);
        });
        let single = ask(response.chunks(1).map(<[u8]>::to_vec).collect());
        assert_eq!(single, whole);
    }
    is_alive(&gateway);
}
