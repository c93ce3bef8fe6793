//! A token: its three parts, its signature, and the times between which it is valid.

use crate::base64url::decode;
use crate::envelope::Envelope;
use crate::keys::{Key, KeySet, selects, try_keys};
use serde_json::Value;

/// The longest token: heads of requests end at 32 KB by default, and cookies at 4 KB.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Most signatures that are verified for one token. A token without `kid`, and a set with many keys, would otherwise
/// let a client use milliseconds of a worker's time.
pub const TRIES_MAX: usize = 8;

/// An algorithm for signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSA, PKCS #1 1.5, SHA-256.
    Rs256,
    /// RSA, PKCS #1 1.5, SHA-384.
    Rs384,
    /// RSA, PKCS #1 1.5, SHA-512.
    Rs512,
    /// RSA, PSS, SHA-256.
    Ps256,
    /// RSA, PSS, SHA-384.
    Ps384,
    /// RSA, PSS, SHA-512.
    Ps512,
    /// ECDSA with P-256.
    Es256,
    /// ECDSA with P-384.
    Es384,
    /// ECDSA with P-521.
    Es512,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    const NAMES: [(&'static str, Self); 14] = [
        ("HS256", Self::Hs256),
        ("HS384", Self::Hs384),
        ("HS512", Self::Hs512),
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("ES512", Self::Es512),
        ("EdDSA", Self::EdDsa),
        ("Ed25519", Self::EdDsa),
    ];

    /// The algorithm of a name; `none` is none.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// It is longer than [`TOKEN_BYTES_MAX`].
    #[error("the token is longer than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// It has not three parts.
    #[error("the token has not three parts with dots between them")]
    NotThreeParts,
    /// It has five parts.
    #[error("the token is encrypted, and a signed one is expected")]
    Encrypted,
    /// It has three parts.
    #[error("the token is not encrypted")]
    NotEncrypted,
    /// It has neither.
    #[error("the token has not five parts with dots between them")]
    NotFiveParts,
    /// `zip`
    #[error("the content of the token is compressed, which is not supported")]
    Compressed,
    /// No key opens it, or it was changed.
    #[error("the token cannot be decrypted")]
    Undecipherable,
    /// A part is not base64url.
    #[error("the {0} of the token is not base64url")]
    NotBase64(&'static str),
    /// Header or payload is no JSON object.
    #[error("the {0} of the token is not a JSON object")]
    NotAnObject(&'static str),
    /// The algorithm is missing, `none` or unknown.
    #[error("the token's algorithm \"{0}\" is not supported")]
    UnknownAlgorithm(String),
    /// `crit` names extensions that have to be understood (RFC 7515 section 4.1.11).
    #[error("the token needs an extension (\"crit\")")]
    CriticalExtension,
    /// No key has its `kid`, or fits its algorithm.
    #[error("no key fits the token's algorithm and \"kid\"")]
    NoKey,
    /// More keys fit than are tried.
    #[error(
        "the token has no \"kid\" that selects one of more than {TRIES_MAX} keys, and the tried ones do not verify it"
    )]
    TooManyKeys,
    /// The signature is wrong.
    #[error("the token's signature is wrong")]
    BadSignature,
    /// A time is no number.
    #[error("the token's \"{0}\" is not a number")]
    BadTime(&'static str),
    /// `exp` is over.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
}

/// A token that was read. Reading verifies nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    header: Value,
    payload: Value,
    /// The payload's JSON as it came.
    text: Vec<u8>,
    seal: Seal,
}

/// What shows that the claims are genuine.
#[derive(Debug, Clone, PartialEq)]
enum Seal {
    /// Nothing yet: it is encrypted.
    Closed,
    /// It was decrypted with a key of ours, which authenticates.
    Opened,
    /// `message`: what the signature is over, header and payload with the dot between them.
    Signature { message: Vec<u8>, signature: Vec<u8>, algorithm: Algorithm },
}

/// What an encrypted token contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The claims.
    Claims,
    /// A signed token.
    SignedToken,
}

impl Token {
    /// Reads the compact form.
    pub fn parse(bytes: &[u8]) -> Result<Self, TokenFault> {
        if bytes.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::TooLong);
        }
        let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'.').take(6).collect();
        let [header, payload, signature] = parts[..] else {
            return Err(if parts.len() == 5 { TokenFault::Encrypted } else { TokenFault::NotThreeParts });
        };
        let message = bytes[..header.len() + 1 + payload.len()].to_vec();
        let header = object(header, "header")?.0;
        let algorithm = algorithm_of(&header, "alg", Algorithm::of_name)?;
        let signature = decode(signature).ok_or(TokenFault::NotBase64("signature"))?;
        let (payload, text) = object(payload, "payload")?;
        Ok(Self { header, payload, text, seal: Seal::Signature { message, signature, algorithm } })
    }

    /// An encrypted token as far as it can be read before it is decrypted: it has a header, and no claims.
    pub fn closed(envelope: &Envelope) -> Self {
        Self { header: envelope.header().clone(), payload: Value::Null, text: Vec::new(), seal: Seal::Closed }
    }

    /// Decrypts a token. The signature of one inside it, and the times, are not checked yet. As in nginx, the payload's
    /// text is then the signed token itself.
    pub fn open<'k>(
        envelope: &Envelope,
        content: Content,
        sets: impl IntoIterator<Item = &'k KeySet>,
    ) -> Result<Self, TokenFault> {
        let text = envelope.open(sets)?;
        match content {
            Content::SignedToken => Ok(Self { text: text.clone(), ..Self::parse(&text)? }),
            Content::Claims => {
                let payload = object_of(&text, "payload")?;
                Ok(Self { header: envelope.header().clone(), payload, text, seal: Seal::Opened })
            }
        }
    }

    /// The header's JSON.
    pub fn header(&self) -> &Value {
        &self.header
    }

    /// The claims.
    pub fn claims(&self) -> &Value {
        &self.payload
    }

    /// The payload as text; of a signed token inside an encrypted one, that token.
    pub fn payload(&self) -> &[u8] {
        &self.text
    }

    /// Checks the signature with the keys of some sets, and the times. `now_s`: seconds since 1970; `leeway_s`: how far
    /// clocks may differ.
    pub fn verify<'k>(
        &self,
        sets: impl IntoIterator<Item = &'k KeySet>,
        now_s: u64,
        leeway_s: u64,
    ) -> Result<(), TokenFault> {
        self.verify_signature(sets)?;
        self.check_times(now_s, leeway_s)
    }

    fn verify_signature<'k>(&self, sets: impl IntoIterator<Item = &'k KeySet>) -> Result<(), TokenFault> {
        let (message, signature, algorithm) = match &self.seal {
            Seal::Closed => return Err(TokenFault::Undecipherable),
            Seal::Opened => return Ok(()),
            Seal::Signature { message, signature, algorithm } => (message, signature, *algorithm),
        };
        let id = self.header.get("kid").and_then(Value::as_str);
        let is_meant = |key: &&Key| selects(id, key.id.as_deref()) && key.fits(algorithm);
        let fitting = sets.into_iter().flat_map(|set| &set.keys).filter(is_meant);
        let verifies = |key: &Key| key.verifies(algorithm, message, signature).then_some(());
        try_keys(fitting, verifies, TokenFault::BadSignature)
    }

    fn check_times(&self, now_s: u64, leeway_s: u64) -> Result<(), TokenFault> {
        let (now, leeway) = (now_s as f64, leeway_s as f64);
        let time = |name: &'static str| match self.payload.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(TokenFault::BadTime(name)),
        };
        if time("exp")?.is_some_and(|end| now >= end + leeway) {
            return Err(TokenFault::Expired);
        }
        if time("nbf")?.is_some_and(|begin| now + leeway < begin) {
            return Err(TokenFault::NotYetValid);
        }
        Ok(())
    }
}

/// The algorithm that a header names; `crit` is refused with it, since no extension is understood.
pub(crate) fn algorithm_of<T>(header: &Value, name: &str, known: fn(&str) -> Option<T>) -> Result<T, TokenFault> {
    let algorithm = header.get(name).and_then(Value::as_str).unwrap_or_default();
    let algorithm =
        known(algorithm).ok_or_else(|| TokenFault::UnknownAlgorithm(algorithm.escape_default().to_string()))?;
    if header.get("crit").is_some() { Err(TokenFault::CriticalExtension) } else { Ok(algorithm) }
}

/// A part that is a JSON object, and its text.
pub(crate) fn object(part: &[u8], what: &'static str) -> Result<(Value, Vec<u8>), TokenFault> {
    let text = decode(part).ok_or(TokenFault::NotBase64(what))?;
    Ok((object_of(&text, what)?, text))
}

fn object_of(text: &[u8], what: &'static str) -> Result<Value, TokenFault> {
    // serde_json bounds the depth: 128 levels.
    let value: Value = serde_json::from_slice(text).map_err(|_| TokenFault::NotAnObject(what))?;
    if value.is_object() { Ok(value) } else { Err(TokenFault::NotAnObject(what)) }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
