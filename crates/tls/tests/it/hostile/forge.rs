//! A client that completes a valid handshake and then seals any bytes it likes, with the keys that rustls
//! extracts.

use crate::raw;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::{ConnectionTrafficSecrets, SupportedCipherSuite};
use std::sync::Arc;
use tls::{OneServer, Session};

pub(crate) const TLS13: SupportedCipherSuite = cipher_suite::TLS13_AES_128_GCM_SHA256;
pub(crate) const TLS12: SupportedCipherSuite = cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;

/// Content types.
pub(crate) const CHANGE_CIPHER: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const DATA: u8 = 23;

pub(crate) struct Forger {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    is_tls13: bool,
}

impl Forger {
    /// A forger behind a complete handshake with a session of this server.
    pub(crate) fn shake(side: &Arc<OneServer>, suite: SupportedCipherSuite) -> (Self, Session) {
        let (mut config, _) = raw::config(vec![suite]);
        config.enable_secret_extraction = true;
        let mut client = raw::client(&Arc::new(config));
        let mut server = super::new_server(side);
        raw::shake(&mut client, &mut server);
        let (sequence, secrets) = client.dangerous_extract_secrets().expect("they are given away").tx;
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else { panic!("another cipher") };
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_ref()).expect("a key"));
        let iv = iv.as_ref().try_into().expect("twelve bytes");
        (Self { key, iv, sequence, is_tls13: suite.tls13().is_some() }, server)
    }

    /// A sealed record of a content type.
    pub(crate) fn seal(&mut self, kind: u8, body: &[u8]) -> Vec<u8> {
        self.seal_inner(kind, &if self.is_tls13 { [body, &[kind]].concat() } else { body.to_vec() })
    }

    /// The same; the caller says what is inside, of TLS 1.3 the content type as well.
    pub(crate) fn seal_inner(&mut self, kind: u8, inner: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        let (explicit, kind) = if self.is_tls13 { (&[][..], DATA) } else { (&nonce[4..], kind) };
        let length = explicit.len() + inner.len() + 16;
        let head = [&[kind, 3, 3][..], &(length as u16).to_be_bytes()].concat();
        let bound = if self.is_tls13 {
            head.clone()
        } else {
            [&self.sequence.to_be_bytes()[..], &[kind, 3, 3], &(inner.len() as u16).to_be_bytes()].concat()
        };
        let mut sealed = inner.to_vec();
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce_value, Aad::from(&bound), &mut sealed).expect("it seals");
        self.sequence += 1;
        [&head[..], explicit, &sealed].concat()
    }
}

/// A record in clear.
pub(crate) fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &(body.len() as u16).to_be_bytes(), body].concat()
}

/// A handshake message.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}
