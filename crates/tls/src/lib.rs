//! TLS for both roles, on rustls through its unbuffered interface: bytes in, bytes out. The gateway, the load generator and the
//! origin share it. It has no socket: `transport` joins it with one. Randomness and the date for certificates come from the
//! provider that a [`ServerSide`] or [`ClientSide`] was made with.
//!
//! A [`Session`] is one connection. It keeps bytes only while they are an incomplete record or an incomplete handshake
//! message, so a waiting connection owns no buffer.
//!
//! ```
//! use std::sync::Arc;
//! use tls::{ClientSide, Listener, OneServer, Pair, ServerSide, Session, Trust};
//!
//! let pair = Pair::self_made(&["localhost".to_owned()])?;
//! let server = Arc::new(ServerSide::new().pair(pair).build()?);
//! let client = ClientSide::new(Trust::Anyone).build()?;
//! let mut asks = Session::client(&client, "localhost")?;
//! let mut answers = Session::server(Arc::new(OneServer(server)));
//!
//! let mut wire = Vec::new();
//! while asks.is_handshaking() || answers.is_handshaking() {
//!     wire.clear();
//!     asks.take_output(&mut wire);
//!     answers.receive(&mut wire, &mut |_| ())?;
//!     wire.clear();
//!     answers.take_output(&mut wire);
//!     asks.receive(&mut wire, &mut |_| ())?;
//! }
//! let mut record = [0; 128];
//! let sealed = asks.seal(b"hello", tls::RECORD_BYTES_MAX, &mut record)?;
//! let mut heard = Vec::new();
//! answers.receive(&mut record[..sealed.written], &mut |plain| heard.extend_from_slice(plain))?;
//! assert_eq!(heard, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Parts: `session` is the connection, `hello` reads a client's first message before a server is chosen, `server` and `client` are
//! the two sides' settings, `names` maps OpenSSL's words to what rustls has, `notes` are facts that rustls does not tell, `pair` loads certificates and keys and `finding` says
//! what is wrong with them, `acme` makes what an ACME client asks with and answers with, `renewal` says when it asks again, `peer` checks and describes client certificates, `ocsp` asks for the status of a certificate, `resume` holds ticket keys and sessions.

mod acme;
mod client;
mod dn;
mod error;
mod facts;
mod finding;
mod hello;
mod keys;
mod machine;
mod names;
mod notes;
mod ocsp;
mod openssl_names;
mod pair;
mod password;
mod peer;
mod preread;
mod remembered;
mod renewal;
mod resume;
mod server;
mod session;
mod snapshot;
mod ticket_ratchet;
mod verifier;
mod version1;

pub use acme::{ACME_PROTOCOL, CertificateRequest, KeyKind, account_key, challenge_side, new_account_key};
pub use client::digest;
pub use client::{AlternativeName, ClientSide, ClientSideBuilder, Trust, is_server_name};
pub use error::{Blame, Level, SetupError, TlsError};
pub use finding::{Finding, Severity};
pub use hello::{ClientHello, HELLO_BYTES_MAX, Offer};
pub use names::{Ciphers, Curves, Protocol, Protocols};
pub use ocsp::{CertStatus, StatusAnswer, StatusError, StatusQuestion, StatusTrust, is_status_response};
pub use openssl_names::{cipher_name, curve_name, scheme_name};
pub use pair::{CertificateFacts, Pair, inspect_chain};
pub use peer::{ClientCertificate, ClientCheck, ClientVerification, Revocations, STATUS_REQUEST_FAILED, StatusCheck};
pub use peer::{VerifyResult, verify_error_number};
pub use preread::{Preread, Prereading, preread};
pub use renewal::{renew_at, retry_pause};
pub use resume::{SessionCache, TICKET_KEY_BYTES, TicketKeys};
pub use server::{Choice, Listener, OneServer, Pairs, ServerSide, ServerSideBuilder};
pub use session::{End, RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES, Sealed, Session};
pub use snapshot::{SessionFacts, Snapshot};
pub use ticket_ratchet::TicketState;
