//! How the content of an encrypted token is encrypted (RFC 7518 section 5).

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm as BlockCipher, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{aead, hmac};

/// The length of a nonce and a tag of AES-GCM, in bytes.
const GCM_NONCE_BYTES: usize = 12;
const GCM_TAG_BYTES: usize = 16;

/// `enc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentCipher {
    /// AES-GCM with a key of this many bytes.
    Gcm(usize),
    /// AES-CBC and HMAC with keys of this many bytes each.
    CbcHmac(usize),
}

impl ContentCipher {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "A128GCM" => Self::Gcm(16),
            "A192GCM" => Self::Gcm(24),
            "A256GCM" => Self::Gcm(32),
            "A128CBC-HS256" => Self::CbcHmac(16),
            "A192CBC-HS384" => Self::CbcHmac(24),
            "A256CBC-HS512" => Self::CbcHmac(32),
            _ => return None,
        })
    }

    /// The length of the content's key.
    pub(crate) fn key_bytes(self) -> usize {
        match self {
            Self::Gcm(bytes) => bytes,
            Self::CbcHmac(bytes) => 2 * bytes,
        }
    }

    /// Decrypts; `None` if anything does not fit. `header`: what is authenticated too.
    pub(crate) fn open(self, key: &[u8], nonce: &[u8], header: &[u8], sealed: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Gcm(bytes) if key.len() == bytes => open_gcm(key, nonce, header, sealed, tag),
            Self::CbcHmac(bytes) if key.len() == 2 * bytes => open_cbc(key, nonce, header, sealed, tag),
            _ => None,
        }
    }
}

/// AES-GCM by the length of its key.
pub(crate) fn open_gcm(key: &[u8], nonce: &[u8], header: &[u8], sealed: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
    let algorithm = match key.len() {
        16 => &aead::AES_128_GCM,
        24 => &aead::AES_192_GCM,
        32 => &aead::AES_256_GCM,
        _ => return None,
    };
    if nonce.len() != GCM_NONCE_BYTES || tag.len() != GCM_TAG_BYTES {
        return None;
    }
    let nonce = aead::Nonce::try_assume_unique_for_key(nonce).ok()?;
    let key = aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, key).ok()?);
    let mut buffer = [sealed, tag].concat();
    let length = key.open_in_place(nonce, aead::Aad::from(header), &mut buffer).ok()?.len();
    buffer.truncate(length);
    Some(buffer)
}

/// AES-CBC with HMAC: the first half of the key authenticates, the second one decrypts. The tag is checked first, so
/// wrong padding shows nothing.
fn open_cbc(key: &[u8], nonce: &[u8], header: &[u8], sealed: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
    let (for_mac, for_cipher) = key.split_at(key.len() / 2);
    let hash = match for_mac.len() {
        16 => hmac::HMAC_SHA256,
        24 => hmac::HMAC_SHA384,
        32 => hmac::HMAC_SHA512,
        _ => return None,
    };
    let header_bits = (header.len() as u64 * 8).to_be_bytes();
    let message = [header, nonce, sealed, &header_bits].concat();
    let expected = hmac::sign(&hmac::Key::new(hash, for_mac), &message);
    verify_slices_are_equal(expected.as_ref().get(..for_mac.len())?, tag).ok()?;
    let iv = FixedLength::<16>::try_from(nonce).ok()?;
    let key = UnboundCipherKey::new(block_cipher(for_cipher.len())?, for_cipher).ok()?;
    let mut buffer = sealed.to_vec();
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
    let length = key.decrypt(&mut buffer, DecryptionContext::Iv128(iv)).ok()?.len();
    buffer.truncate(length);
    Some(buffer)
}

/// AES by the length of its key.
pub(crate) fn block_cipher(key_bytes: usize) -> Option<&'static BlockCipher> {
    match key_bytes {
        16 => Some(&AES_128),
        24 => Some(&AES_192),
        32 => Some(&AES_256),
        _ => None,
    }
}
