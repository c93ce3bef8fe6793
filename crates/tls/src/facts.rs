//! Facts about a connection after its handshake, in the words of nginx's `$ssl_*` variables.

use crate::names::Protocol;
use crate::openssl_names::{cipher_name, curve_name, scheme_name};
use crate::peer::ClientCertificate;
use crate::session::Session;
use rustls::{CommonState, HandshakeKind};

impl Session {
    /// The version agreed on (`$ssl_protocol`).
    pub fn protocol(&self) -> Option<Protocol> {
        self.common().and_then(CommonState::protocol_version).and_then(Protocol::of)
    }

    /// OpenSSL's name of the cipher agreed on (`$ssl_cipher`).
    pub fn cipher(&self) -> Option<&'static str> {
        let suite = self.common()?.negotiated_cipher_suite()?;
        cipher_name(suite.suite().into())
    }

    /// OpenSSL's name of the group of the key exchange (`$ssl_curve`). A resumed session of TLS 1.2 has that of its first connection.
    pub fn curve(&self) -> Option<&'static str> {
        let common = self.common()?;
        let group = common.negotiated_key_exchange_group().map(|group| group.name().into());
        group.or_else(|| self.notes().group.filter(|_| self.is_resumed())).and_then(curve_name)
    }

    /// The name of the scheme that this side has signed with (`$ssl_sigalg`). A resumed session has none.
    pub fn signature(&self) -> Option<&'static str> {
        self.notes().own_scheme.and_then(scheme_name)
    }

    /// The name of the scheme that the client has signed with (`$ssl_client_sigalg`).
    pub fn client_signature(&self) -> Option<&'static str> {
        self.notes().peer_scheme.and_then(scheme_name)
    }

    /// Whether a session was resumed (`$ssl_session_reused`).
    pub fn is_resumed(&self) -> bool {
        self.common().and_then(CommonState::handshake_kind) == Some(HandshakeKind::Resumed)
    }

    /// The protocol that ALPN chose (`$ssl_alpn_protocol`).
    pub fn alpn(&self) -> Option<&[u8]> {
        self.common()?.alpn_protocol()
    }

    /// The names of the ciphers that the client offered (`$ssl_ciphers`); unknown ciphers are shown as
    /// numbers.
    pub fn offered_ciphers(&self) -> Option<String> {
        self.offered().map(|offered| list(&offered.ciphers, cipher_name))
    }

    /// The names of the groups that the client offered (`$ssl_curves`); unknown groups are shown as numbers. OpenSSL does not read
    /// them where a session of TLS 1.2 is resumed.
    pub fn offered_curves(&self) -> Option<String> {
        let offered = self.offered().filter(|_| !self.is_resumed_tls12())?;
        Some(list(&offered.groups, curve_name))
    }

    /// The names of the schemes of signatures that the client offered (`$ssl_sigalgs`), as the groups.
    pub fn offered_signatures(&self) -> Option<String> {
        let offered = self.offered().filter(|_| !self.is_resumed_tls12())?;
        Some(list(&offered.schemes, scheme_name))
    }

    fn is_resumed_tls12(&self) -> bool {
        self.is_resumed() && self.protocol() == Some(Protocol::Tls12)
    }

    /// The certificate that the peer has shown: a client's to describe it.
    pub fn peer_certificate(&self) -> Option<ClientCertificate<'_>> {
        self.common()?.peer_certificates()?.first().map(ClientCertificate)
    }
}

/// Two-byte numbers by name, with colons between.
fn list(numbers: &[u8], name: impl Fn(u16) -> Option<&'static str>) -> String {
    let numbers = numbers.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let names = numbers.map(|number| name(number).map_or_else(|| format!("0x{number:04x}"), str::to_owned));
    names.collect::<Vec<_>>().join(":")
}
