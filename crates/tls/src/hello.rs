//! The first message of a client, read before a server is chosen: its name and its offers. rustls reads the message
//! again, and refuses ambiguous ones, such as a message with the same extension twice. Pure.

use crate::error::TlsError;
use rustls::Error;

/// Longest `ClientHello`. Those with post-quantum keys and long session tickets take 2 to 4 KB.
pub const HELLO_BYTES_MAX: usize = 16 * 1024;

const RECORD_HEAD_BYTES: usize = 5;
const HANDSHAKE_HEAD_BYTES: usize = 4;
const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SSL3: u16 = 0x0300;
const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;
/// A first byte with this bit is that of `SSLv2`, as nginx and OpenSSL see it.
const SSL2_BIT: u8 = 0x80;

/// What a client asks for in its first message (RFC 8446 §4.1.2).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// The name in SNI as it was sent: not empty, ASCII.
    pub server_name: Option<&'a str>,
    /// Cipher suites, two bytes each.
    pub ciphers: Offer<'a>,
    /// Groups of `supported_groups`, two bytes each.
    pub groups: Offer<'a>,
    /// Schemes of `signature_algorithms`, two bytes each.
    pub schemes: Offer<'a>,
    /// The list of ALPN: each protocol with its length in front.
    alpn: &'a [u8],
    /// The session id; the client echoes that of a session which it wants to resume in TLS 1.2.
    pub session_id: &'a [u8],
    /// The newest version that a client before TLS 1.3 speaks.
    version: u16,
    /// Newer clients list their versions in an extension, two bytes each.
    versions: Option<Offer<'a>>,
}

/// A list of two-byte numbers that a client offers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Offer<'a>(&'a [u8]);

impl<'a> Offer<'a> {
    /// The numbers, in the client's order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + 'a {
        self.0.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
    }

    /// The bytes of the list.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> ClientHello<'a> {
    /// Whether the client speaks TLS 1.1 or older only.
    pub(crate) fn is_before_tls12(&self) -> bool {
        self.version < TLS12 && self.versions.is_none()
    }

    /// Whether the client speaks TLS 1.3.
    pub(crate) fn offers_tls13(&self) -> bool {
        self.versions.is_some_and(|versions| versions.iter().any(|version| version == TLS13))
    }

    /// The newest version that the client speaks, of those that are known.
    pub(crate) fn newest_version(&self) -> u16 {
        let known = |version: &u16| (SSL3..=TLS13).contains(version);
        self.versions.and_then(|versions| versions.iter().filter(known).max()).unwrap_or(self.version)
    }

    /// The protocols of ALPN, in the client's order.
    pub fn alpn(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut reader = Reader(self.alpn);
        std::iter::from_fn(move || reader.vector8().filter(|name| !name.is_empty()))
    }
}

/// Whether a message is complete.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// More bytes are needed.
    Partial,
    /// The message's body, put together from its records.
    Whole(Vec<u8>),
}

/// Looks for a whole `ClientHello` at the front of `bytes`, which may be cut into several records.
pub(crate) fn find(bytes: &[u8]) -> Result<Found, TlsError> {
    let mut message = Vec::new();
    let mut rest = bytes;
    match bytes {
        [kind, ..] if kind & SSL2_BIT != 0 => return Err(TlsError::OldHello),
        [kind, ..] if *kind != RECORD_HANDSHAKE => return Err(TlsError::NotTls { is_http: is_http(bytes) }),
        _ => {}
    }
    loop {
        match rest {
            [] => return Ok(Found::Partial),
            [kind, ..] if *kind != RECORD_HANDSHAKE => return Err(TlsError::NotHello),
            [_, major, ..] if *major != 3 => return Err(TlsError::WrongVersion),
            _ => {}
        }
        let Some((head, body)) = rest.split_at_checked(RECORD_HEAD_BYTES) else { return Ok(Found::Partial) };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if length == 0 {
            return Err(TlsError::BadHello);
        }
        if length > HELLO_BYTES_MAX {
            return Err(TlsError::Handshake(Error::PeerSentOversizedRecord));
        }
        let part = body.get(..length.min(body.len())).unwrap_or_default();
        message.extend_from_slice(part);
        if let Some(whole) = whole_message(&message)? {
            return Ok(Found::Whole(whole));
        }
        if part.len() < length {
            return Ok(Found::Partial);
        }
        rest = body.get(length..).unwrap_or_default();
    }
}

/// The body of the handshake message that `bytes` begin with, when it is all there.
fn whole_message(bytes: &[u8]) -> Result<Option<Vec<u8>>, TlsError> {
    match bytes {
        [kind, ..] if *kind != CLIENT_HELLO => Err(TlsError::NotHello),
        [_, a, b, c, ..] => {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if length > HELLO_BYTES_MAX {
                return Err(TlsError::HelloTooLong);
            }
            Ok(bytes.get(HANDSHAKE_HEAD_BYTES..HANDSHAKE_HEAD_BYTES + length).map(<[u8]>::to_vec))
        }
        _ => Ok(None),
    }
}

/// Whether bytes look like a request in clear text: an upper-case method, as `curl http://` sends it to a TLS port.
fn is_http(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_uppercase)
}

/// Reads the body of a `ClientHello`. What is unknown is skipped; what is cut short is an error.
pub(crate) fn parse(body: &[u8]) -> Result<ClientHello<'_>, TlsError> {
    read(body).ok_or(TlsError::BadHello)
}

fn read(body: &[u8]) -> Option<ClientHello<'_>> {
    let mut reader = Reader(body);
    let version = reader.number16()?;
    let _random = reader.take(32)?;
    let session_id = reader.vector8()?;
    let ciphers = Offer(reader.vector16()?);
    let _compression = reader.vector8()?;
    let mut hello = ClientHello { ciphers, session_id, version, ..ClientHello::default() };
    if reader.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = Reader(reader.vector16()?);
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.number16()?, extensions.vector16()?);
        let mut content = Reader(content);
        match kind {
            0 => hello.server_name = Some(server_name(content.vector16()?)?).filter(|name| !name.is_empty()),
            10 => hello.groups = Offer(content.vector16()?),
            13 => hello.schemes = Offer(content.vector16()?),
            16 => hello.alpn = content.vector16()?,
            43 => hello.versions = Some(Offer(content.vector8()?)),
            _ => {}
        }
    }
    Some(hello)
}

/// The host name of an SNI extension (RFC 6066 §3). An empty list names no host.
fn server_name(list: &[u8]) -> Option<&str> {
    let mut reader = Reader(list);
    while !reader.0.is_empty() {
        let kind = reader.take(1)?;
        let name = reader.vector16()?;
        if kind == [0] {
            let name = std::str::from_utf8(name).ok().filter(|name| name.is_ascii())?;
            return Some(name);
        }
    }
    Some("")
}

/// Takes numbers and counted vectors from the front of bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn number16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(*self.take(1)?.first()?);
        self.take(length)
    }

    fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.number16()?);
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello with SNI, groups and ALPN.
    fn body() -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([2, 0xaa, 0xbb]);
        body.extend([0, 4, 0x13, 0x01, 0x1a, 0x1a]);
        body.extend([1, 0]);
        let mut extensions = vec![0, 0, 0, 8, 0, 6, 0, 0, 3, b'a', b'.', b'b'];
        extensions.extend([0, 10, 0, 4, 0, 2, 0, 29]);
        extensions.extend([0, 13, 0, 6, 0, 4, 4, 3, 8, 4]);
        extensions.extend([0, 16, 0, 14, 0, 12, 2, b'h', b'2', 8]);
        extensions.extend(b"http/1.1");
        extensions.extend([0xff, 0x01, 0, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        body
    }

    fn in_records(body: &[u8], piece: usize) -> Vec<u8> {
        let mut message = vec![CLIENT_HELLO];
        message.extend(&(body.len() as u32).to_be_bytes()[1..]);
        message.extend(body);
        let record = |part: &[u8]| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
        message.chunks(piece).flat_map(record).collect()
    }

    #[test]
    fn reads_names_and_offers() {
        let body = body();
        let hello = parse(&body).unwrap();
        assert_eq!(hello.server_name, Some("a.b"));
        assert_eq!(hello.ciphers.iter().collect::<Vec<_>>(), [0x1301, 0x1a1a]);
        assert_eq!(hello.groups.iter().collect::<Vec<_>>(), [29]);
        assert_eq!(hello.schemes.iter().collect::<Vec<_>>(), [0x0403, 0x0804]);
        assert_eq!(hello.alpn().collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
        assert_eq!(hello.session_id, [0xaa, 0xbb]);
    }

    #[test]
    fn finds_a_hello_that_is_cut_into_records_and_reads() {
        let body = body();
        for piece in [1, 7, 50, 1000] {
            let bytes = in_records(&body, piece);
            for end in 0..bytes.len() {
                assert_eq!(find(&bytes[..end]).unwrap(), Found::Partial, "{end} of {}", bytes.len());
            }
            assert_eq!(find(&bytes).unwrap(), Found::Whole(body.clone()));
        }
    }

    #[test]
    fn a_hello_that_is_cut_short_inside_is_refused() {
        let body = body();
        // 34 + 3 + 6 + 2 bytes are a whole hello without extensions.
        for end in (0..body.len()).filter(|&end| end != 45) {
            assert!(parse(&body[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn distinguishes_clear_text_from_tls() {
        assert!(matches!(find(b"GET / HTTP/1.1\r\n"), Err(TlsError::NotTls { is_http: true })));
        assert!(matches!(find(&[0, 1, 2]), Err(TlsError::NotTls { is_http: false })));
        assert!(matches!(find(&[0x80, 0x2e, 1]), Err(TlsError::OldHello)));
        assert!(matches!(find(&[22, 4, 1]), Err(TlsError::WrongVersion)));
        assert!(matches!(find(&[22, 3, 1, 0x7f, 0xff]), Err(TlsError::Handshake(Error::PeerSentOversizedRecord))));
        assert!(matches!(find(&[22, 3, 1, 0, 4, 1, 1, 0, 0]), Err(TlsError::HelloTooLong)));
        assert!(matches!(find(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), Err(TlsError::NotHello)));
        assert!(matches!(find(&[22, 3, 1, 0, 1, 1, 23, 3, 1]), Err(TlsError::NotHello)));
    }
}
