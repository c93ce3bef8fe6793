//! Keys that open encrypted tokens: they decrypt the key of a token's content (RFC 7518 section 4).

use crate::base64url::decode;
use crate::content_cipher::{block_cipher, open_gcm};
use crate::pkcs8::rsa_private_key;
use aws_lc_rs::cipher::{DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384, OAEP_SHA512_MGF1SHA512, OaepAlgorithm,
    OaepPrivateDecryptingKey, PrivateDecryptingKey,
};
use serde_json::{Map, Value};

/// `alg` of an encrypted token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyManagement {
    /// The key itself decrypts the content.
    Direct,
    /// RSA-OAEP with a hash of this many bits.
    RsaOaep(u16),
    /// AES Key Wrap (RFC 3394) with a key of this many bytes.
    AesWrap(usize),
    /// AES-GCM with a key of this many bytes.
    AesGcm(usize),
}

impl KeyManagement {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "dir" => Self::Direct,
            "RSA-OAEP" => Self::RsaOaep(160),
            "RSA-OAEP-256" => Self::RsaOaep(256),
            "RSA-OAEP-384" => Self::RsaOaep(384),
            "RSA-OAEP-512" => Self::RsaOaep(512),
            "A128KW" => Self::AesWrap(16),
            "A192KW" => Self::AesWrap(24),
            "A256KW" => Self::AesWrap(32),
            "A128GCMKW" => Self::AesGcm(16),
            "A192GCMKW" => Self::AesGcm(24),
            "A256GCMKW" => Self::AesGcm(32),
            _ => return None,
        })
    }

    pub(crate) fn is_rsa(self) -> bool {
        matches!(self, Self::RsaOaep(_))
    }
}

/// One key.
#[derive(Debug)]
pub(crate) struct DecryptionKey {
    id: Option<String>,
    /// `alg`: the only one that it is for.
    only: Option<KeyManagement>,
    secret: Secret,
}

/// What decrypts. Each kind has its own algorithms.
enum Secret {
    Rsa(Box<OaepPrivateDecryptingKey>),
    Octets(Vec<u8>),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Rsa(_) => "RSA",
            Self::Octets(_) => "secret",
        })
    }
}

impl DecryptionKey {
    /// Reads a key; `None` if it does not decrypt: it is public, for signatures, or of an unknown kind.
    pub(crate) fn read(key: &Map<String, Value>) -> Result<Option<Self>, &'static str> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let operations = key.get("key_ops").and_then(Value::as_array);
        let decrypts = text("use").is_none_or(|what| what == "enc")
            && operations.is_none_or(|list| list.iter().any(|what| what == "decrypt" || what == "unwrapKey"));
        let only = text("alg").map(KeyManagement::of_name);
        if !decrypts || only == Some(None) {
            return Ok(None);
        }
        let bytes = |name: &str| text(name).and_then(|value| decode(value.as_bytes()));
        let secret = match text("kty") {
            Some("oct") => Secret::Octets(bytes("k").ok_or("\"k\" must be base64url")?),
            Some("RSA") if key.contains_key("d") => {
                let parts = ["n", "e", "d", "p", "q", "dp", "dq", "qi"].map(bytes);
                let private = rsa_private_key(&parts)
                    .ok_or(
                        "an RSA key that decrypts needs \"n\", \"e\", \"d\", \"p\", \"q\", \"dp\", \"dq\" and \"qi\"",
                    )
                    .and_then(|der| {
                        PrivateDecryptingKey::from_pkcs8(&der).map_err(|_| "it is no RSA key of 2048 to 8192 bits")
                    })
                    .and_then(|key| {
                        OaepPrivateDecryptingKey::new(key).map_err(|_| "it is no RSA key of 2048 to 8192 bits")
                    });
                match private {
                    Ok(private) => Secret::Rsa(Box::new(private)),
                    // A key that does not say its use may be meant for signatures alone.
                    Err(_) if text("use").is_none() && operations.is_none() => return Ok(None),
                    Err(reason) => return Err(reason),
                }
            }
            _ => return Ok(None),
        };
        let key = Self { id: text("kid").map(str::to_owned), only: only.flatten(), secret };
        let fits = key.only.is_none_or(|management| key.fits(management));
        if fits { Ok(Some(key)) } else { Err("its \"alg\" does not fit its \"kty\" or length") }
    }

    /// `kid`
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether the key may be used for this algorithm.
    pub(crate) fn fits(&self, management: KeyManagement) -> bool {
        use KeyManagement as M;
        let is_of_kind = match (&self.secret, management) {
            (Secret::Rsa(_), M::RsaOaep(_)) | (Secret::Octets(_), M::Direct) => true,
            (Secret::Octets(key), M::AesWrap(bytes) | M::AesGcm(bytes)) => key.len() == bytes,
            _ => false,
        };
        is_of_kind && self.only.is_none_or(|only| only == management)
    }

    /// The content's key, which has `length` bytes. `header`: of the token, with further parameters.
    pub(crate) fn unwrap_key(
        &self,
        management: KeyManagement,
        header: &Value,
        wrapped: &[u8],
        length: usize,
    ) -> Option<Vec<u8>> {
        use KeyManagement as M;
        let unwrapped = match (&self.secret, management) {
            (Secret::Octets(key), M::Direct) => wrapped.is_empty().then(|| key.clone()),
            (Secret::Octets(key), M::AesWrap(_)) => aes_unwrap(key, wrapped),
            (Secret::Octets(key), M::AesGcm(_)) => {
                let parameter = |name| decode(header.get(name)?.as_str()?.as_bytes());
                open_gcm(key, &parameter("iv")?, &[], wrapped, &parameter("tag")?)
            }
            (Secret::Rsa(key), M::RsaOaep(bits)) => {
                let mut buffer = vec![0; key.min_output_size()];
                Some(key.decrypt(oaep(bits), wrapped, &mut buffer, None).ok()?.to_vec())
            }
            _ => None,
        };
        unwrapped.filter(|key| key.len() == length)
    }
}

fn oaep(bits: u16) -> &'static OaepAlgorithm {
    match bits {
        160 => &OAEP_SHA1_MGF1SHA1,
        256 => &OAEP_SHA256_MGF1SHA256,
        384 => &OAEP_SHA384_MGF1SHA384,
        _ => &OAEP_SHA512_MGF1SHA512,
    }
}

/// AES Key Unwrap (RFC 3394 section 2.2.2). The crate's own has no keys of 192 bits.
fn aes_unwrap(key: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    // The largest key of a content has 64 bytes.
    const BLOCK: usize = 8;
    let n = (wrapped.len() / BLOCK).checked_sub(1)?;
    if !wrapped.len().is_multiple_of(BLOCK) || !(2..=8).contains(&n) {
        return None;
    }
    let cipher = DecryptingKey::ecb(UnboundCipherKey::new(block_cipher(key.len())?, key).ok()?).ok()?;
    let (check, registers) = wrapped.split_at(BLOCK);
    let (mut check, mut registers) = (u64::from_be_bytes(check.try_into().ok()?), registers.to_vec());
    for round in (0..6u64).rev() {
        for (i, register) in registers.chunks_exact_mut(BLOCK).enumerate().rev() {
            let step = n as u64 * round + i as u64 + 1;
            let mut block = [0; 2 * BLOCK];
            block[..BLOCK].copy_from_slice(&(check ^ step).to_be_bytes());
            block[BLOCK..].copy_from_slice(register);
            cipher.decrypt(&mut block, DecryptionContext::None).ok()?;
            let (first, second) = block.split_at(BLOCK);
            check = u64::from_be_bytes(first.try_into().ok()?);
            register.copy_from_slice(second);
        }
    }
    verify_slices_are_equal(&check.to_be_bytes(), &[0xA6; BLOCK]).ok()?;
    Some(registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3394 sections 4.1 to 4.6: key, wrapped and unwrapped, in hexadecimal.
    const WRAPPED: [[&str; 3]; 4] = [
        [
            "000102030405060708090A0B0C0D0E0F",
            "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5",
            "00112233445566778899AABBCCDDEEFF",
        ],
        [
            "000102030405060708090A0B0C0D0E0F1011121314151617",
            "96778B25AE6CA435F92B5B97C050AED2468AB8A17AD84E5D",
            "00112233445566778899AABBCCDDEEFF",
        ],
        [
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "64E8C3F9CE0F5BA263E9777905818A2A93C8191E7D6E8AE7",
            "00112233445566778899AABBCCDDEEFF",
        ],
        [
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21",
            "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
        ],
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn keys_of_the_standard_are_unwrapped_and_changed_ones_are_not() {
        for row in WRAPPED {
            let [key, mut wrapped, expected] = row.map(bytes);
            assert_eq!(aes_unwrap(&key, &wrapped), Some(expected));
            for at in 0..wrapped.len() {
                wrapped[at] ^= 1;
                assert_eq!(aes_unwrap(&key, &wrapped), None);
                wrapped[at] ^= 1;
            }
        }
        for length in [0, 7, 8, 16, 17, 80] {
            assert_eq!(aes_unwrap(&[0; 16], &vec![0; length]), None, "{length}");
        }
    }
}
