//! Encrypted tokens: JWE in compact form (RFC 7516), with the algorithms of RFC 7518 sections 4 and 5 that nginx knows.

use crate::base64url::decode;
use crate::content_cipher::ContentCipher;
use crate::decryption_key::{DecryptionKey, KeyManagement};
use crate::keys::{KeySet, selects, try_keys};
use crate::token::{TOKEN_BYTES_MAX, TokenFault, algorithm_of, object};
use serde_json::Value;

/// An encrypted token that was read. Reading decrypts nothing.
#[derive(Debug)]
pub struct Envelope {
    header: Value,
    /// The header as it came: it is authenticated with the content.
    protected: Vec<u8>,
    /// The key of the content, encrypted.
    wrapped: Vec<u8>,
    nonce: Vec<u8>,
    sealed: Vec<u8>,
    tag: Vec<u8>,
    management: KeyManagement,
    cipher: ContentCipher,
}

impl Envelope {
    /// Reads the compact form.
    pub fn parse(bytes: &[u8]) -> Result<Self, TokenFault> {
        if bytes.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::TooLong);
        }
        let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'.').take(6).collect();
        let [protected, wrapped, nonce, sealed, tag] = parts[..] else {
            return Err(if parts.len() == 3 { TokenFault::NotEncrypted } else { TokenFault::NotFiveParts });
        };
        let header = object(protected, "header")?.0;
        let management = algorithm_of(&header, "alg", KeyManagement::of_name)?;
        let cipher = algorithm_of(&header, "enc", ContentCipher::of_name)?;
        // Decompression would let a short token become a long one.
        if header.get("zip").is_some() {
            return Err(TokenFault::Compressed);
        }
        let part = |part: &[u8], name| decode(part).ok_or(TokenFault::NotBase64(name));
        Ok(Self {
            header,
            protected: protected.to_vec(),
            wrapped: part(wrapped, "key")?,
            nonce: part(nonce, "initialization vector")?,
            sealed: part(sealed, "ciphertext")?,
            tag: part(tag, "tag")?,
            management,
            cipher,
        })
    }

    /// The header's JSON.
    pub(crate) fn header(&self) -> &Value {
        &self.header
    }

    /// Whether opening it takes a millisecond or more: an operation with a private RSA key.
    pub fn is_costly(&self) -> bool {
        self.management.is_rsa()
    }

    /// The content, decrypted with a key of some sets. Every failure that depends on a key looks the same.
    pub(crate) fn open<'k>(&self, sets: impl IntoIterator<Item = &'k KeySet>) -> Result<Vec<u8>, TokenFault> {
        let id = self.header.get("kid").and_then(Value::as_str);
        let is_meant = |key: &&DecryptionKey| selects(id, key.id()) && key.fits(self.management);
        let fitting = sets.into_iter().flat_map(|set| &set.decryption_keys).filter(is_meant);
        let opens = |key: &DecryptionKey| {
            let key = key.unwrap_key(self.management, &self.header, &self.wrapped, self.cipher.key_bytes())?;
            self.cipher.open(&key, &self.nonce, &self.protected, &self.sealed, &self.tag)
        };
        try_keys(fitting, opens, TokenFault::Undecipherable)
    }
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
