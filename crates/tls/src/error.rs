//! Errors of a connection, and errors while sides are set up. Each error has nginx's phrase for the error log, a short name for
//! counters, and the side that is at fault.

use crate::verifier::{is_without_authority, none_listed, verify_words};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Which side has to act on a failed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The peer, or the way to it. nginx logs most of these at `info`.
    Peer,
    /// This side: its certificate, its settings, its machine.
    Us,
}

/// At which level of the error log nginx writes a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `info`: what a client does to itself.
    Info,
    /// `error`: what an upstream does.
    Error,
    /// `crit`: the operator of this side has to act.
    Critical,
}

/// Why a connection failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TlsError {
    /// The first byte is not that of a TLS record.
    #[error("{}", if *is_http { "the peer speaks plain HTTP on a TLS port" } else { "the peer does not speak TLS" })]
    NotTls {
        /// It looks like a request in clear text.
        is_http: bool,
    },
    /// The first bytes are those of `SSLv2`.
    #[error("the client speaks SSLv2")]
    OldHello,
    /// The client speaks nothing newer than TLS 1.1.
    #[error("the client speaks TLS 1.1 or older only")]
    OldProtocol,
    /// The first record has a version that is no version of TLS.
    #[error("the client's first record has an unknown version")]
    WrongVersion,
    /// The first message is not that of a client.
    #[error("the client's first message is not a ClientHello")]
    NotHello,
    /// The first message is longer than [`crate::HELLO_BYTES_MAX`].
    #[error("the client's first message is longer than {} bytes", crate::HELLO_BYTES_MAX)]
    HelloTooLong,
    /// The first message cannot be read.
    #[error("the client's first message is malformed")]
    BadHello,
    /// No server wants this name, and the settings say to refuse it.
    #[error("the server refuses handshakes for this name")]
    NameRefused,
    /// The peer has closed before it sent anything.
    #[error("the peer closed the connection before it sent anything")]
    ClosedUnused,
    /// The peer has closed before the handshake was complete.
    #[error("the peer closed the connection during the handshake")]
    ClosedInHandshake,
    /// The handshake has failed.
    #[error("the handshake failed: {}", shown(.0))]
    Handshake(Error),
    /// What came after the handshake breaks the protocol.
    #[error("the peer broke the protocol: {0}")]
    Broken(Error),
    /// A message did not end within the limit.
    #[error("a message of the peer is too long")]
    TooLong,
    /// No more may be encrypted under these keys.
    #[error("the keys of the connection are used up")]
    KeysExhausted,
    /// It is called before the handshake is complete, or after the end.
    #[error("the connection is not open for data")]
    NotOpen,
}

impl TlsError {
    /// A short name for counters and reports.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NotTls { is_http: true } => "plain_http",
            Self::NotTls { is_http: false } => "not_tls",
            Self::OldHello | Self::OldProtocol | Self::WrongVersion => "unsupported_version",
            Self::NotHello | Self::HelloTooLong | Self::BadHello => "bad_hello",
            Self::NameRefused => "name_refused",
            Self::ClosedUnused => "closed_unused",
            Self::ClosedInHandshake => "closed_in_handshake",
            Self::Handshake(error) | Self::Broken(error) => key_of(error),
            Self::TooLong => "too_long",
            Self::KeysExhausted => "keys_exhausted",
            Self::NotOpen => "not_open",
        }
    }

    /// nginx's phrase for the error log, which people and tools search for; `while SSL handshaking` follows it there. The numbers are
    /// those of OpenSSL 3.6.
    pub fn phrase(&self) -> String {
        match self {
            Self::ClosedUnused => "client closed connection".to_owned(),
            Self::ClosedInHandshake => "peer closed connection in SSL handshake".to_owned(),
            Self::NotTls { is_http: true } => {
                "client sent plain HTTP request to HTTPS port while reading client request headers".to_owned()
            }
            Self::NotTls { .. } => "client sent invalid method while reading client request line".to_owned(),
            Self::OldHello | Self::OldProtocol => handshake_phrase("0A000102", "unsupported protocol"),
            Self::WrongVersion => handshake_phrase("0A00010B", "wrong version number"),
            Self::NotHello => handshake_phrase("0A0000F4", "unexpected message"),
            Self::HelloTooLong => handshake_phrase("0A000098", "excessive message size"),
            Self::BadHello => handshake_phrase("0A00009F", "length mismatch"),
            Self::NameRefused => "handshake rejected".to_owned(),
            Self::Handshake(error) => {
                let (number, text) = openssl_words(error);
                handshake_phrase(number, text)
            }
            Self::Broken(error) => {
                let (number, text) = openssl_words(error);
                format!("SSL_read() failed (SSL: error:{number}:SSL routines::{text})")
            }
            Self::TooLong => "SSL_read() failed (SSL: error:0A000098:SSL routines::excessive message size)".to_owned(),
            Self::KeysExhausted | Self::NotOpen => "SSL_write() failed".to_owned(),
        }
    }

    /// nginx's phrase for the error log of a client that asked an upstream for this name. Certificate errors use OpenSSL's words. The
    /// phrase does not include the place ("while SSL handshaking to upstream").
    pub fn upstream_phrase(&self, name: &str) -> String {
        match self.certificate() {
            Some(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
                format!("upstream SSL certificate does not match \"{name}\"")
            }
            Some(error) if let Some(names) = none_listed(error) => {
                format!("upstream SSL certificate does not match \"{names}\"")
            }
            Some(error) => {
                let (number, words) = verify_words(error);
                format!("upstream SSL certificate verify error: ({number}:{words})")
            }
            None => self.phrase(),
        }
    }

    /// nginx's level for a client's connection: nearly everything is the client's doing.
    pub fn level(&self) -> Level {
        match self {
            // It is what the settings ask for.
            Self::NameRefused => Level::Info,
            _ if self.blame() == Blame::Peer => Level::Info,
            _ => Level::Critical,
        }
    }

    /// Which side has to act.
    pub fn blame(&self) -> Blame {
        match self {
            Self::NameRefused | Self::KeysExhausted | Self::NotOpen => Blame::Us,
            Self::Handshake(error) | Self::Broken(error) => match error {
                Error::NoCertificatesPresented
                | Error::General(_)
                | Error::FailedToGetRandomBytes
                | Error::FailedToGetCurrentTime
                | Error::EncryptError => Blame::Us,
                _ => Blame::Peer,
            },
            _ => Blame::Peer,
        }
    }

    /// What was wrong with the peer's certificate, if that was the reason.
    pub fn certificate(&self) -> Option<&CertificateError> {
        match self {
            Self::Handshake(Error::InvalidCertificate(error)) => Some(error),
            _ => None,
        }
    }

    /// What the operator of the client can do about the error, if the error tells.
    pub fn advice(&self) -> Option<&'static str> {
        let error = match self {
            Self::NotTls { .. } => return Some("use http:// (or ws://), or connect to the port that speaks TLS"),
            Self::Handshake(error) | Self::Broken(error) => error,
            _ => return None,
        };
        Some(match error {
            Error::InvalidCertificate(error)
                if is_without_authority(error) || *error == CertificateError::UnknownIssuer =>
            {
                "name the file of its certificate authority (--ca), or skip verification (--insecure)"
            }
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => "ask for a name that the certificate has (--sni), or skip verification (--insecure)",
            Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
                "renew the certificate; check the clock of this machine"
            }
            Error::InvalidCertificate(CertificateError::BadSignature) => {
                "another authority may have the same name: name the file of the one that issued it (--ca)"
            }
            Error::InvalidCertificate(_) => "look at the certificate: openssl s_client -connect HOST:PORT -showcerts",
            Error::AlertReceived(AlertDescription::CertificateRequired) => {
                "give a client certificate (--cert and --key)"
            }
            Error::AlertReceived(AlertDescription::UnrecognisedName) => "ask for a name that the server has (--sni)",
            Error::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion) => {
                "the server has no protocol version or cipher of TLS 1.2 (ECDHE with AEAD) or 1.3 in common with this side"
            }
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                "use http:// (or ws://), or connect to the port that speaks TLS"
            }
            _ => return None,
        })
    }
}

/// A short name for an error of rustls.
fn key_of(error: &Error) -> &'static str {
    match error {
        Error::AlertReceived(_) => "alert",
        Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate_expired",
            CertificateError::UnknownIssuer => "certificate_unknown_issuer",
            error if is_without_authority(error) => "certificate_unknown_issuer",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => "certificate_name",
            error if none_listed(error).is_some() => "certificate_name",
            CertificateError::Revoked => "certificate_revoked",
            _ => "certificate_invalid",
        },
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => "nothing_in_common",
        Error::DecryptError => "decrypt",
        Error::PeerSentOversizedRecord => "too_long",
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "not_tls",
        Error::NoCertificatesPresented => "no_certificate",
        _ => "protocol",
    }
}

fn handshake_phrase(number: &str, text: &str) -> String {
    format!("SSL_do_handshake() failed (SSL: error:{number}:SSL routines::{text})")
}

/// OpenSSL's number and words for an error.
fn openssl_words(error: &Error) -> (&'static str, &'static str) {
    match error {
        Error::AlertReceived(alert) => alert_words(*alert),
        Error::PeerIncompatible(incompatible) => match incompatible {
            PeerIncompatible::NoKxGroupsInCommon => ("0A000065", "no suitable key share"),
            PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
            | PeerIncompatible::NoSignatureSchemesInCommon => ("0A000076", "no suitable signature algorithm"),
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::SupportedVersionsExtensionRequired => ("0A000102", "unsupported protocol"),
            _ => ("0A0000C1", "no shared cipher"),
        },
        Error::InvalidCertificate(_) => ("0A000086", "certificate verify failed"),
        Error::NoApplicationProtocol => ("0A0000EB", "no application protocol"),
        Error::DecryptError => {
            ("0A000119", "decryption failed or bad record mac error:0A000139:SSL routines::record layer failure")
        }
        Error::PeerSentOversizedRecord => {
            ("0A000092", "data length too long error:0A000139:SSL routines::record layer failure")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
            ("0A00010B", "wrong version number")
        }
        Error::NoCertificatesPresented => ("0A0000C1", "no shared cipher"),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            ("0A0000F4", "unexpected message")
        }
        _ => ("0A000126", "unexpected eof or invalid message"),
    }
}

/// OpenSSL's number and words for an alert that the peer has sent.
fn alert_words(alert: AlertDescription) -> (&'static str, &'static str) {
    match alert {
        AlertDescription::UnexpectedMessage => ("0A0003F2", "ssl/tls alert unexpected message:SSL alert number 10"),
        AlertDescription::BadRecordMac => ("0A0003FC", "ssl/tls alert bad record mac:SSL alert number 20"),
        AlertDescription::HandshakeFailure => ("0A000410", "ssl/tls alert handshake failure:SSL alert number 40"),
        AlertDescription::BadCertificate => ("0A000412", "ssl/tls alert bad certificate:SSL alert number 42"),
        AlertDescription::CertificateRevoked => ("0A000414", "ssl/tls alert certificate revoked:SSL alert number 44"),
        AlertDescription::CertificateExpired => ("0A000415", "ssl/tls alert certificate expired:SSL alert number 45"),
        AlertDescription::CertificateUnknown => ("0A000416", "ssl/tls alert certificate unknown:SSL alert number 46"),
        AlertDescription::IllegalParameter => ("0A000417", "ssl/tls alert illegal parameter:SSL alert number 47"),
        AlertDescription::UnknownCA => ("0A000418", "tlsv1 alert unknown ca:SSL alert number 48"),
        AlertDescription::AccessDenied => ("0A000419", "tlsv1 alert access denied:SSL alert number 49"),
        AlertDescription::DecodeError => ("0A00041A", "tlsv1 alert decode error:SSL alert number 50"),
        AlertDescription::DecryptError => ("0A00041B", "tlsv1 alert decrypt error:SSL alert number 51"),
        AlertDescription::ProtocolVersion => ("0A00042E", "tlsv1 alert protocol version:SSL alert number 70"),
        AlertDescription::InsufficientSecurity => ("0A00042F", "tlsv1 alert insufficient security:SSL alert number 71"),
        AlertDescription::InternalError => ("0A000438", "tlsv1 alert internal error:SSL alert number 80"),
        AlertDescription::UserCanceled => ("0A000442", "tlsv1 alert user cancelled:SSL alert number 90"),
        AlertDescription::UnrecognisedName => ("0A000458", "tlsv1 unrecognized name:SSL alert number 112"),
        AlertDescription::CertificateRequired => ("0A00045C", "tlsv13 alert certificate required:SSL alert number 116"),
        AlertDescription::NoApplicationProtocol => {
            ("0A000460", "tlsv1 alert no application protocol:SSL alert number 120")
        }
        _ => ("0A0000F6", "unknown alert type"),
    }
}

/// Why a side cannot be set up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SetupError {
    /// What is wrong with a certificate, a key or a list of them.
    #[error("{0}")]
    Finding(#[from] crate::Finding),
    /// rustls refuses the combination.
    #[error("{0}")]
    Refused(String),
    /// A name is not one that can be asked for in TLS.
    #[error("{0:?} is not a host name or an IP address")]
    Name(String),
    /// The system's certificate authorities cannot be read.
    #[error(
        "the system has no certificate authorities that can be read ({0}); install ca-certificates, or name a file"
    )]
    NoSystemRoots(String),
    /// Nothing is left of protocols, ciphers or curves.
    #[error("{0}")]
    NothingLeft(&'static str),
}

/// The error in words: rustls shows errors of verifiers as Rust's values.
fn shown(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(certificate) if is_without_authority(certificate) => {
            format!("invalid peer certificate: {}", verify_words(certificate).1)
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_match_known_error_texts() {
        let alert = TlsError::Handshake(Error::AlertReceived(AlertDescription::CertificateUnknown));
        assert_eq!(
            alert.phrase(),
            "SSL_do_handshake() failed (SSL: error:0A000416:SSL routines::ssl/tls alert certificate unknown:SSL alert number 46)"
        );
        assert_eq!((alert.key(), alert.blame()), ("alert", Blame::Peer));
        assert_eq!(TlsError::ClosedInHandshake.phrase(), "peer closed connection in SSL handshake");
        let none = TlsError::Handshake(PeerIncompatible::NoCipherSuitesInCommon.into());
        assert!(none.phrase().ends_with("no shared cipher)"), "{}", none.phrase());
    }

    #[test]
    fn advice_names_the_way_out() {
        let issuer = TlsError::Handshake(CertificateError::UnknownIssuer.into());
        assert!(issuer.advice().unwrap().contains("--ca"));
        assert!(TlsError::NotTls { is_http: true }.advice().unwrap().contains("http://"));
    }
}
