//! Requests as a gateway takes them over: what HTTP/1's rules make of them.

use crate::support::*;
use http1::{BodyFraming, FieldId, Limits, Method, RequestError, RequestHead};

/// The head that a gateway gets, with the bytes that it points into.
fn request(fields: &[(&str, &str)], end: bool) -> Result<(RequestHead, Vec<u8>), RequestError> {
    let mut server = Side::server();
    let seen = server.feed(&headers(1, u8::from(end), fields)).unwrap();
    assert!(matches!(seen[..], [Seen::Head { .. }]), "{seen:?}");
    let mut request = RequestHead::default();
    server.head.to_request(end, &Limits::from_buffers(1024, 4, 8192, 100), &mut request)?;
    Ok((request, server.head.bytes))
}

#[test]
fn a_request_has_line_target_host_and_fields() {
    let fields = [
        (":method", "GET"),
        (":path", "/a/b?c=d"),
        (":scheme", "https"),
        (":authority", "a.test:8443"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("accept", "*/*"),
        ("te", "trailers"),
    ];
    let (head, bytes) = request(&fields, true).unwrap();
    assert_eq!(head.line.of(&bytes), b"GET /a/b?c=d HTTP/2.0");
    assert_eq!((head.method, head.method_name.of(&bytes)), (Method::Get, &b"GET"[..]));
    assert_eq!((head.target.path.of(&bytes), head.target.query.unwrap().of(&bytes)), (&b"/a/b"[..], &b"c=d"[..]));
    assert!(head.target.path_is_plain);
    let host = head.host.unwrap();
    assert_eq!((host.name.of(&bytes), host.port), (&b"a.test"[..], Some(8443)));
    assert_eq!(head.value(FieldId::Host, &bytes), Some(&b"a.test:8443"[..]));
    assert_eq!(head.value(FieldId::Cookie, &bytes), Some(&b"a=1; b=2"[..]));
    assert_eq!(head.framing, BodyFraming::None);
    assert!(head.find(FieldId::Te).unwrap().hop);
    assert!(head.keepalive && head.upgrade.is_none());
}

#[test]
fn a_body_needs_no_length() {
    assert_eq!(request(&POST, false).unwrap().0.framing, BodyFraming::Chunked);
    let with_length = [POST[0], POST[1], POST[2], POST[3], ("content-length", "5"), ("expect", "100-continue")];
    let (head, _) = request(&with_length, false).unwrap();
    assert_eq!((head.framing, head.expect_continue), (BodyFraming::Length(5), true));
}

#[test]
fn what_http1_refuses_is_refused() {
    let with = |at: usize, value: &'static str| {
        let mut fields = GET;
        fields[at].1 = value;
        request(&fields, true).map(|_| ())
    };
    assert_eq!(with(0, "get"), Err(RequestError::InvalidMethod));
    assert_eq!(with(0, "TRACE"), Err(RequestError::MethodNotAllowed));
    assert_eq!(with(2, "a..test"), Err(RequestError::InvalidHost));
    assert_eq!(with(2, "a.test:99999"), Err(RequestError::InvalidHost));
    assert_eq!(with(3, "/a#b"), Err(RequestError::TargetByte));
    assert_eq!(request(&[GET[0], GET[1], GET[3]], true).map(|_| ()), Err(RequestError::NoHost));
    let twice = [GET[0], GET[1], GET[2], GET[3], ("authorization", "a"), ("authorization", "b")];
    assert_eq!(request(&twice, true).map(|_| ()), Err(RequestError::DuplicateField));
    let long = format!("/{}", "x".repeat(9000));
    let fields = [GET[0], GET[1], GET[2], (":path", long.as_str())];
    assert_eq!(request(&fields, true).map(|_| ()), Err(RequestError::RequestLineTooLong));
    // A field has as much room as in HTTP/1: 8192 bytes with `: ` and the line end.
    let value = "x".repeat(8192);
    let with = |bytes| request(&[GET[0], GET[1], GET[2], GET[3], ("a", &value[..bytes])], true).map(|_| ());
    assert_eq!((with(8187), with(8188)), (Ok(()), Err(RequestError::FieldLineTooLong)));
    let crumb = ("cookie", &value[..5000]);
    let (head, bytes) = request(&[GET[0], GET[1], GET[2], GET[3], crumb, crumb], true).unwrap();
    assert_eq!(head.value(FieldId::Cookie, &bytes).map(<[u8]>::len), Some(10_002));
}
