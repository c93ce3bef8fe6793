//! The usual request and response, as the gateway sees them.

use http1::{BodyFraming, FieldId, Limits, Method, Parse, RequestHead, RequestKind, ResponseFraming, ResponseHead};

#[test]
fn a_usual_request_and_its_response() {
    let bytes = b"POST /a/b?c=d HTTP/1.1\r\nHost: example.com:8080\r\nContent-Length: 3\r\nX-Y:\t z \r\n\r\nabcGET";
    let mut head = RequestHead::default();
    assert_eq!(
        http1::request::parse(bytes, &Limits::default(), &mut head),
        Ok(Parse::Complete { len: bytes.len() - 6 })
    );
    assert_eq!(head.method, Method::Post);
    assert_eq!(head.target.path.of(bytes), b"/a/b");
    assert_eq!(head.target.query.map(|query| query.of(bytes)), Some(b"c=d".as_slice()));
    assert_eq!(head.line.of(bytes), b"POST /a/b?c=d HTTP/1.1");
    let host = head.host.unwrap();
    assert_eq!((host.name.of(bytes), host.port), (b"example.com".as_slice(), Some(8080)));
    assert_eq!(head.framing, BodyFraming::Length(3));
    assert!(head.keepalive && head.target.path_is_plain);
    assert_eq!(head.fields[2].value.of(bytes), b"z");
    assert_eq!(head.value(FieldId::ContentLength, bytes), Some(b"3".as_slice()));
    assert_eq!(head.value(FieldId::Cookie, bytes), None);

    let bytes = b"HTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut head = ResponseHead::default();
    let parsed = http1::response::parse(bytes, &Limits::response(4096), RequestKind::Other, &mut head);
    assert_eq!(parsed, Ok(Parse::Complete { len: bytes.len() }));
    assert_eq!((head.status, head.framing, head.keepalive), (200, ResponseFraming::Chunked, true));
    assert_eq!(head.reason.of(bytes), b"OK");
}
