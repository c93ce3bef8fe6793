//! JSON Web Tokens (RFC 7519), signed (JWS, RFC 7515) or encrypted (JWE, RFC 7516) in compact form, and sets of keys (RFC 7517).
//! Pure: bytes and the time come in, decisions go out; it reads no file and no clock. The gateway's `auth_jwt` calls it.
//!
//! The algorithm of a token never selects the kind of a key: each key has its kind, and verifies only algorithms of
//! that kind. So a public RSA key cannot be used as a secret of HMAC, and `none` is no algorithm at all.

mod base64url;
pub mod claims;
mod content_cipher;
mod decryption_key;
pub mod envelope;
pub mod keys;
mod pkcs8;
pub mod token;

pub use envelope::Envelope;
pub use keys::{KeySet, KeySetFault};
pub use token::{Content, Token, TokenFault};
