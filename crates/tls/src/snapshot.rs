//! The facts of a TLS connection, and a copy that outlives the connection: for requests that a request starts.

use crate::names::Protocol;
use crate::peer::{ClientCertificate, ClientVerification};
use crate::server::ServerSide;
use crate::session::Session;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;

/// What is known of a TLS connection: see the methods of [`Session`] with the same names.
#[allow(missing_docs)] // each says what the method of a session says
pub trait SessionFacts {
    fn protocol(&self) -> Option<Protocol>;
    fn cipher(&self) -> Option<&'static str>;
    fn curve(&self) -> Option<&'static str>;
    fn signature(&self) -> Option<&'static str>;
    fn client_signature(&self) -> Option<&'static str>;
    fn is_resumed(&self) -> bool;
    fn alpn(&self) -> Option<&[u8]>;
    fn offered_ciphers(&self) -> Option<String>;
    fn offered_curves(&self) -> Option<String>;
    fn offered_signatures(&self) -> Option<String>;
    fn peer_certificate(&self) -> Option<ClientCertificate<'_>>;
    fn client_verification(&self) -> Option<&ClientVerification>;
    fn server_name(&self) -> Option<&str>;
    fn session_id(&self) -> Option<&[u8]>;
    fn chosen(&self) -> Option<&Arc<ServerSide>>;
    fn is_early_data(&self) -> bool;
}

impl SessionFacts for Session {
    fn protocol(&self) -> Option<Protocol> {
        self.protocol()
    }

    fn cipher(&self) -> Option<&'static str> {
        self.cipher()
    }

    fn curve(&self) -> Option<&'static str> {
        self.curve()
    }

    fn signature(&self) -> Option<&'static str> {
        self.signature()
    }

    fn client_signature(&self) -> Option<&'static str> {
        self.client_signature()
    }

    fn is_resumed(&self) -> bool {
        self.is_resumed()
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.alpn()
    }

    fn offered_ciphers(&self) -> Option<String> {
        self.offered_ciphers()
    }

    fn offered_curves(&self) -> Option<String> {
        self.offered_curves()
    }

    fn offered_signatures(&self) -> Option<String> {
        self.offered_signatures()
    }

    fn peer_certificate(&self) -> Option<ClientCertificate<'_>> {
        self.peer_certificate()
    }

    fn client_verification(&self) -> Option<&ClientVerification> {
        self.client_verification()
    }

    fn server_name(&self) -> Option<&str> {
        self.server_name()
    }

    fn session_id(&self) -> Option<&[u8]> {
        self.session_id()
    }

    fn chosen(&self) -> Option<&Arc<ServerSide>> {
        self.chosen()
    }

    fn is_early_data(&self) -> bool {
        self.is_early_data()
    }
}

/// The facts of a TLS connection at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    protocol: Option<Protocol>,
    cipher: Option<&'static str>,
    curve: Option<&'static str>,
    signature: Option<&'static str>,
    client_signature: Option<&'static str>,
    is_resumed: bool,
    is_early_data: bool,
    alpn: Option<Box<[u8]>>,
    offered_ciphers: Option<String>,
    offered_curves: Option<String>,
    offered_signatures: Option<String>,
    certificate: Option<CertificateDer<'static>>,
    verification: Option<ClientVerification>,
    server_name: Option<Box<str>>,
    session_id: Option<Box<[u8]>>,
    chosen: Option<Arc<ServerSide>>,
}

impl Snapshot {
    /// Copies what is known now.
    pub fn of(facts: &dyn SessionFacts) -> Self {
        Self {
            protocol: facts.protocol(),
            cipher: facts.cipher(),
            curve: facts.curve(),
            signature: facts.signature(),
            client_signature: facts.client_signature(),
            is_resumed: facts.is_resumed(),
            is_early_data: facts.is_early_data(),
            alpn: facts.alpn().map(Into::into),
            offered_ciphers: facts.offered_ciphers(),
            offered_curves: facts.offered_curves(),
            offered_signatures: facts.offered_signatures(),
            certificate: facts.peer_certificate().map(|certificate| certificate.0.clone()),
            verification: facts.client_verification().copied(),
            server_name: facts.server_name().map(Into::into),
            session_id: facts.session_id().map(Into::into),
            chosen: facts.chosen().cloned(),
        }
    }
}

impl SessionFacts for Snapshot {
    fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    fn cipher(&self) -> Option<&'static str> {
        self.cipher
    }

    fn curve(&self) -> Option<&'static str> {
        self.curve
    }

    fn signature(&self) -> Option<&'static str> {
        self.signature
    }

    fn client_signature(&self) -> Option<&'static str> {
        self.client_signature
    }

    fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    fn offered_ciphers(&self) -> Option<String> {
        self.offered_ciphers.clone()
    }

    fn offered_curves(&self) -> Option<String> {
        self.offered_curves.clone()
    }

    fn offered_signatures(&self) -> Option<String> {
        self.offered_signatures.clone()
    }

    fn peer_certificate(&self) -> Option<ClientCertificate<'_>> {
        self.certificate.as_ref().map(ClientCertificate)
    }

    fn client_verification(&self) -> Option<&ClientVerification> {
        self.verification.as_ref()
    }

    fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    fn session_id(&self) -> Option<&[u8]> {
        self.session_id.as_deref()
    }

    fn chosen(&self) -> Option<&Arc<ServerSide>> {
        self.chosen.as_ref()
    }

    fn is_early_data(&self) -> bool {
        self.is_early_data
    }
}
