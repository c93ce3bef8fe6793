//! The opening handshake, field by field (RFC 6455 §4), from both sides.
#![allow(clippy::unwrap_used)] // a failed step of a conversation is its end

use http1::{Limits, Parse, RequestHead, RequestKind, ResponseHead};
use websocket::handshake::{
    Accepted, Key, RequestFault, ResponseFault, check_request, check_response, encode_request, encode_response_fields,
    protocols,
};

/// The example of RFC 6455 §1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

fn request(method: &str, version: &str, fields: &str) -> Result<(Vec<String>, bool), RequestFault> {
    let bytes = format!("{method} /chat HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
    let mut head = RequestHead::default();
    let parsed = http1::request::parse(bytes.as_bytes(), &Limits::default(), &mut head).unwrap();
    assert!(matches!(parsed, Parse::Complete { .. }));
    let asked = check_request(&head, bytes.as_bytes())?;
    assert_eq!(asked.key.as_bytes(), KEY.as_bytes());
    let names = protocols(&head, bytes.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    Ok((names, asked.offers_extensions))
}

/// The fields of a sound request, with one line replaced.
fn fields(replaced: &str, by: &str) -> String {
    let sound = format!(
        "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n"
    );
    let line = sound.lines().find(|line| line.starts_with(replaced)).expect("a field of a sound request");
    sound.replace(&format!("{line}\r\n"), by)
}

#[test]
fn a_sound_request_is_taken() {
    assert_eq!(request("GET", "1.1", &fields("Upgrade", "UPGRADE: WebSocket\r\n")), Ok((vec![], false)));
    assert_eq!(request("GET", "1.1", &fields("Upgrade", "Upgrade: foo/2, websocket\r\n")), Ok((vec![], false)));
    let more = "Connection: Upgrade\r\nSec-WebSocket-Protocol: chat, superchat\r\nSec-WebSocket-Protocol: v3\r\n\
                Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let names = ["chat", "superchat", "v3"].map(str::to_owned).to_vec();
    assert_eq!(request("GET", "1.1", &fields("Connection", more)), Ok((names, true)));
}

#[test]
fn each_field_of_a_request_is_checked() {
    let of = |replaced: &str, by: &str| request("GET", "1.1", &fields(replaced, by)).unwrap_err();
    assert_eq!(request("POST", "1.1", &fields("Upgrade", "Upgrade: websocket\r\n")), Err(RequestFault::Method));
    assert_eq!(request("GET", "1.0", &fields("Upgrade", "Upgrade: websocket\r\n")), Err(RequestFault::Version));
    assert_eq!(of("Connection", ""), RequestFault::Upgrade);
    assert_eq!(of("Connection", "Connection: keep-alive\r\n"), RequestFault::Upgrade);
    assert_eq!(of("Upgrade", ""), RequestFault::Upgrade);
    assert_eq!(of("Upgrade", "Upgrade: h2c\r\n"), RequestFault::Upgrade);
    assert_eq!(of("Upgrade", "Upgrade: websocket\r\nContent-Length: 3\r\n"), RequestFault::Body);
    assert_eq!(of("Sec-WebSocket-Key", ""), RequestFault::Key);
    assert_eq!(of("Sec-WebSocket-Key", "Sec-WebSocket-Key: short\r\n"), RequestFault::Key);
    assert_eq!(of("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j!Q==\r\n"), RequestFault::Key);
    let twice = format!("Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Key: {KEY}\r\n");
    assert_eq!(of("Sec-WebSocket-Key", &twice), RequestFault::Key);
    assert_eq!(of("Sec-WebSocket-Version", ""), RequestFault::ProtocolVersion);
    assert_eq!(of("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8\r\n"), RequestFault::ProtocolVersion);
    let mut said = Vec::new();
    RequestFault::ProtocolVersion.encode_fields(&mut said);
    assert_eq!((RequestFault::ProtocolVersion.status(), RequestFault::Key.status()), (426, 400));
    assert_eq!(said, b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
}

fn response(lines: &str) -> Result<Accepted, ResponseFault> {
    let bytes = format!("{lines}\r\n");
    let mut head = ResponseHead::default();
    let limits = Limits::response(4096);
    http1::response::parse(bytes.as_bytes(), &limits, RequestKind::Other, &mut head).unwrap();
    let key = Key::parse(KEY.as_bytes()).unwrap();
    check_response(&head, bytes.as_bytes(), &key, &[b"chat"])
}

#[test]
fn each_field_of_an_answer_is_checked() {
    let sound = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: {ACCEPT}\r\n"
    );
    assert_eq!(response(&sound), Ok(Accepted { protocol: None }));
    let with = |line: &str| response(&format!("{sound}{line}\r\n"));
    assert!(with("Sec-WebSocket-Protocol: chat").unwrap().protocol.is_some());
    assert_eq!(with("Sec-WebSocket-Protocol: other"), Err(ResponseFault::Protocol));
    assert_eq!(with("Sec-WebSocket-Extensions: permessage-deflate"), Err(ResponseFault::Extension));
    assert_eq!(with(&format!("Sec-WebSocket-Accept: {ACCEPT}")), Err(ResponseFault::Accept));
    let without = |line: &str| response(&sound.replace(&format!("{line}\r\n"), ""));
    assert_eq!(without(&format!("Sec-WebSocket-Accept: {ACCEPT}")), Err(ResponseFault::Accept));
    assert_eq!(without("Upgrade: WebSocket"), Err(ResponseFault::Upgrade));
    assert_eq!(without("Connection: upgrade"), Err(ResponseFault::Connection));
    assert_eq!(response(&sound.replace("s3pPL", "S3PPL")), Err(ResponseFault::Accept));
    let refused = response("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n");
    assert_eq!(refused, Err(ResponseFault::Status(503)));
}

#[test]
fn both_sides_read_each_others_handshake() {
    let key = Key::new(*b"0123456789abcdef");
    let mut bytes = Vec::new();
    encode_request(b"/a?b", b"host:80", &key, b"Origin: http://a\r\n", &mut bytes);
    let mut head = RequestHead::default();
    http1::request::parse(&bytes, &Limits::default(), &mut head).unwrap();
    assert_eq!(check_request(&head, &bytes).unwrap().key, key);
    let mut answer = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
    encode_response_fields(&key, Some(b"chat"), &mut answer);
    answer.extend_from_slice(b"\r\n");
    let mut head = ResponseHead::default();
    http1::response::parse(&answer, &Limits::response(4096), RequestKind::Other, &mut head).unwrap();
    let accepted = check_response(&head, &answer, &key, &[b"chat"]).unwrap();
    assert_eq!(accepted.protocol.unwrap().of(&answer), b"chat");
}
