//! A client's first message, read by a proxy that does not end TLS: the name, the version and the protocols that decide where the
//! connection goes (`ssl_preread`). The bytes go on as they came. Pure, and bounded by [`crate::HELLO_BYTES_MAX`].

use crate::hello::{self, Found};

/// What the message says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preread {
    /// The name in SNI as it was sent.
    pub server_name: Option<Box<str>>,
    /// The newest version that the client speaks, in nginx's words; empty for one that has no name.
    pub protocol: &'static str,
    /// The protocols of ALPN, with commas between them.
    pub alpn_protocols: Box<[u8]>,
}

/// The result of looking for the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prereading {
    /// More bytes are needed.
    Partial,
    /// It is there.
    Hello(Preread),
    /// These bytes do not begin with such a message. The peer that gets them can say so.
    Other,
}

/// Looks for the message at the beginning of the bytes received on a connection.
pub fn preread(bytes: &[u8]) -> Prereading {
    if bytes.is_empty() {
        return Prereading::Partial;
    }
    let body = match hello::find(bytes) {
        Ok(Found::Partial) => return Prereading::Partial,
        Ok(Found::Whole(body)) => body,
        Err(_) => return Prereading::Other,
    };
    let Ok(hello) = hello::parse(&body) else { return Prereading::Other };
    Prereading::Hello(Preread {
        server_name: hello.server_name.map(Into::into),
        protocol: match hello.newest_version() {
            0x0300 => "SSLv3",
            0x0301 => "TLSv1",
            0x0302 => "TLSv1.1",
            0x0303 => "TLSv1.2",
            0x0304 => "TLSv1.3",
            _ => "",
        },
        alpn_protocols: hello.alpn().collect::<Vec<_>>().join(&b","[..]).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rustls sends for a name, with two protocols.
    fn hello() -> Vec<u8> {
        let mut config =
            rustls::ClientConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
                .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
                .unwrap()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = "a.example".to_owned().try_into().unwrap();
        let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_hello_is_read_as_soon_as_it_is_whole() {
        let bytes = hello();
        for end in 0..bytes.len() {
            assert_eq!(preread(&bytes[..end]), Prereading::Partial, "{end} of {}", bytes.len());
        }
        let Prereading::Hello(read) = preread(&bytes) else { panic!("{bytes:?}") };
        assert_eq!(read.server_name.as_deref(), Some("a.example"));
        assert_eq!((read.protocol, &*read.alpn_protocols), ("TLSv1.3", &b"h2,http/1.1"[..]));
    }

    #[test]
    fn bytes_other_than_hello_are_recognized_at_once() {
        for bytes in [&b"G"[..], b"SSH-2.0-OpenSSH_9.2", &[0x80, 0x2e, 1, 3, 1], &[22, 4], &[22, 3, 1, 0, 0]] {
            assert_eq!(preread(bytes), Prereading::Other, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_hello_that_claims_too_much_is_not_waited_for() {
        assert_eq!(preread(&[22, 3, 1, 0x40, 0, 1, 1, 0, 0]), Prereading::Other);
    }
}
