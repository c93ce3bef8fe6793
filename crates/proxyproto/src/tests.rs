//! Headers by example, and what must hold for any bytes.

use super::*;
use proptest::prelude::*;

fn complete(bytes: &[u8]) -> (usize, Header) {
    match parse(bytes) {
        Ok(Parse::Complete { len, header }) => (len, header),
        other => panic!("{other:?} for {}", bytes.escape_ascii()),
    }
}

fn addresses(source: &str, destination: &str) -> Addresses {
    Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

/// A header of version 2: command, family and transport, the rest.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE_V2, &[0x20 | command, family], &length, rest].concat()
}

fn tlv(code: u8, value: &[u8]) -> Vec<u8> {
    [&[code][..], &u16::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
}

const V4_ADDRESSES: [u8; 12] = [192, 0, 2, 1, 127, 0, 0, 1, 0x12, 0x34, 0, 80];

#[test]
fn lines_of_version_1() {
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 443\r\nGET / HTTP/1.1\r\n";
    let (len, header) = complete(line);
    assert_eq!(&line[len..], b"GET / HTTP/1.1\r\n");
    assert_eq!(header.addresses, Some(addresses("192.0.2.1:56324", "198.51.100.9:443")));
    let (_, header) = complete(b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n");
    assert_eq!(header.addresses, Some(addresses("[2001:db8::1]:1", "[::1]:65535")));
    // As nginx writes it for a client that an earlier proxy named.
    for (line, both) in [
        (&b"PROXY TCP6 2001:db8::1 192.0.2.2 1 2\r\n"[..], addresses("[2001:db8::1]:1", "192.0.2.2:2")),
        (&b"PROXY TCP4 192.0.2.1 ::1 1 2\r\n"[..], addresses("192.0.2.1:1", "[::1]:2")),
    ] {
        assert_eq!(complete(line).1.addresses, Some(both));
    }
    for unknown in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 what ever 1\r\n"] {
        assert_eq!(complete(unknown.as_bytes()), (unknown.len(), Header::default()));
    }
}

#[test]
fn broken_lines_are_refused() {
    for broken in [
        "PROXY \r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2  1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n\r\n",
        "PROXY UNKNOWN\nGET / HTTP/1.1",
        "PROXY \0",
    ] {
        let result = parse(format!("{broken} ").as_bytes());
        assert_eq!(result, Err(HeaderError::BrokenLine), "{broken:?}");
    }
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(200));
    assert_eq!(parse(long.as_bytes()), Err(HeaderError::TooLong));
    for other in ["GET / HTTP/1.1\r\n", "proxy TCP4", "PRI * HTTP/2.0", "\r\n\r\nGET", "\x16\x03\x01"] {
        assert_eq!(parse(other.as_bytes()), Err(HeaderError::NotAHeader), "{other:?}");
    }
}

#[test]
fn headers_of_version_2() {
    let tlvs = [tlv(1, b"h2"), tlv(2, b"example.com")].concat();
    let bytes = v2(1, 0x11, &[&V4_ADDRESSES[..], &tlvs].concat());
    let (len, header) = complete(&[&bytes[..], b"GET"].concat());
    assert_eq!((len, &header.tlvs[..]), (bytes.len(), &tlvs[..]));
    assert_eq!(header.addresses, Some(addresses("192.0.2.1:4660", "127.0.0.1:80")));
    let v6 = [&[0; 15][..], &[1], &[0; 15], &[2], &[0, 7, 0, 8]].concat();
    assert_eq!(complete(&v2(1, 0x21, &v6)).1.addresses, Some(addresses("[::1]:7", "[::2]:8")));
    // LOCAL, UNSPEC, UDP and Unix sockets: no address in any case.
    for (command, family) in [(0, 0x11), (1, 0), (1, 0x12), (1, 0x31)] {
        let bytes = v2(command, family, b"x");
        assert_eq!(complete(&bytes), (bytes.len(), Header::default()));
    }
}

#[test]
fn broken_headers_of_version_2_are_refused() {
    assert_eq!(parse(&v2(1, 0x11, &V4_ADDRESSES[..11])), Err(HeaderError::TooShort));
    assert_eq!(parse(&v2(1, 0x21, &V4_ADDRESSES)), Err(HeaderError::TooShort));
    assert_eq!(parse(&v2(2, 0x11, &V4_ADDRESSES)), Err(HeaderError::UnknownCommand(2)));
    let mut other = v2(1, 0x11, &V4_ADDRESSES);
    other[12] = 0x31;
    assert_eq!(parse(&other), Err(HeaderError::UnknownVersion(3)));
    assert_eq!(parse(&[SIGNATURE_V2, &[0x21, 0x11, 0xff, 0xff]].concat()), Err(HeaderError::TooLong));
}

#[test]
fn tlvs_have_the_names_of_nginx() {
    let ssl = [&[1, 0, 0, 0, 19][..], &tlv(0x21, b"TLSv1.3"), &tlv(0x22, b"client")].concat();
    let tlvs = [tlv(1, b"h2"), tlv(4, b"padding"), tlv(SSL_TYPE, &ssl), tlv(0xea, b""), vec![9, 0]].concat();
    let value = |name: &str| {
        let mut out = Vec::new();
        write_tlv(&tlvs, TlvName::parse(name.as_bytes()).unwrap(), &mut out).then(|| String::from_utf8(out).unwrap())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!((value("alpn"), value("0x01"), value("0x4")), (some("h2"), some("h2"), some("padding")));
    assert_eq!(
        (value("ssl_version"), value("ssl_cn"), value("ssl_0x22")),
        (some("TLSv1.3"), some("client"), some("client"))
    );
    assert_eq!((value("ssl_verify"), value("ssl_cipher"), value("authority")), (some("19"), None, None));
    assert_eq!((value("0xea"), value("0x09")), (some(""), None), "an empty value, and one that was cut");
    for wrong in ["", "nothing", "0x", "0x100", "0x+1", "ssl_", "ssl_nothing", "ssl_alpn", "ALPN"] {
        assert_eq!(TlvName::parse(wrong.as_bytes()), None, "{wrong}");
    }
}

const SSL_TYPE: u8 = 0x20;

/// Bytes that are often nearly a header.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let line = "PROXY (TCP4|TCP6|UNKNOWN)( [0-9a-f.:]{1,20}){0,4}(\r\n)?.{0,20}".prop_map(String::into_bytes);
    let binary = (any::<u8>(), 0_u8..0x40, prop::collection::vec(any::<u8>(), 0..80))
        .prop_map(|(command, family, rest)| v2(command & 0x1f, family, &rest));
    prop_oneof![line, binary, prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    /// A prefix is partial, or already gives the result of the whole; a header is never longer than the input or the
    /// bound.
    #[test]
    fn pieces_give_the_same_result_as_the_whole(bytes in nearly(), cut in 0_usize..200) {
        let whole = parse(&bytes);
        let part = parse(&bytes[..cut.min(bytes.len())]);
        if part != Ok(Parse::Partial) {
            prop_assert_eq!(&part, &whole);
        }
        if let Ok(Parse::Complete { len, header }) = whole {
            prop_assert!(len <= bytes.len() && len <= HEADER_BYTES_MAX && header.tlvs.len() < len);
        }
        prop_assert!(bytes.len() < HEADER_BYTES_MAX || parse(&bytes) != Ok(Parse::Partial));
    }

    /// Any TLVs are read without a panic, and a value is a part of them.
    #[test]
    fn any_tlvs_are_read(tlvs in prop::collection::vec(any::<u8>(), 0..100), code in any::<u8>()) {
        for name in [TlvName::Type(code), TlvName::Ssl(code), TlvName::SslVerify] {
            let mut out = Vec::new();
            let found = write_tlv(&tlvs, name, &mut out);
            prop_assert!(found || out.is_empty());
        }
    }
}
