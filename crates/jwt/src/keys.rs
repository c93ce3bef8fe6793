//! Sets of keys (RFC 7517, RFC 7518 section 6, RFC 8037), and the check of one signature.

use crate::base64url::decode;
use crate::decryption_key::DecryptionKey;
use crate::token::{Algorithm, TRIES_MAX, TokenFault};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde_json::{Map, Value};

/// The largest set: 256 RSA keys of 4096 bits with certificates are smaller. Large providers have about ten keys.
pub const KEY_SET_BYTES_MAX: usize = 512 * 1024;
/// Most keys of a set: each may be tried for a token.
pub const KEYS_MAX: usize = 256;
/// RSA keys: shorter ones can be broken, longer ones take a worker's time and are not used by anybody.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// The longest secret of HMAC: a secret longer than the hash's block is hashed anyway.
const SECRET_BYTES_MAX: usize = 4096;

/// A set of keys.
#[derive(Debug, Default)]
pub struct KeySet {
    /// For signatures.
    pub(crate) keys: Vec<Key>,
    pub(crate) decryption_keys: Vec<DecryptionKey>,
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// `kid`
    pub(crate) id: Option<String>,
    /// `alg`: the only algorithm that it is for.
    only: Option<Algorithm>,
    material: Material,
}

/// What verifies a signature. Each kind has its own algorithms.
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    P521(Vec<u8>),
    Ed25519(Vec<u8>),
    Secret(Vec<u8>),
}

impl std::fmt::Debug for Material {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Rsa { .. } => "RSA",
            Self::P256(_) => "P-256",
            Self::P384(_) => "P-384",
            Self::P521(_) => "P-521",
            Self::Ed25519(_) => "Ed25519",
            Self::Secret(_) => "secret",
        })
    }
}

/// Why a set cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetFault {
    /// It is larger than [`KEY_SET_BYTES_MAX`].
    #[error("a set of keys may have {KEY_SET_BYTES_MAX} bytes")]
    TooLarge,
    /// It is no JSON.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// It is no set.
    #[error("it is not a set of keys: an object with the array \"keys\" is expected")]
    NotASet,
    /// It has more keys than [`KEYS_MAX`].
    #[error("it has more than {KEYS_MAX} keys")]
    TooManyKeys,
    /// One key is wrong: its number, from 0, and why.
    #[error("key {0}: {1}")]
    BadKey(usize, &'static str),
    /// No key verifies signatures or decrypts.
    #[error("it has no key that can verify a signature or decrypt")]
    NoKeys,
}

impl KeySet {
    /// Reads a set. As RFC 7517 section 5 says, keys of unknown kinds are skipped, and public ones for encryption.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetFault> {
        if bytes.len() > KEY_SET_BYTES_MAX {
            return Err(KeySetFault::TooLarge);
        }
        let root: Value = serde_json::from_slice(bytes).map_err(|error| KeySetFault::NotJson(error.to_string()))?;
        let list = root.get("keys").and_then(Value::as_array).ok_or(KeySetFault::NotASet)?;
        if list.len() > KEYS_MAX {
            return Err(KeySetFault::TooManyKeys);
        }
        let mut set = Self::default();
        for (number, key) in list.iter().enumerate() {
            let key = key.as_object().ok_or(KeySetFault::BadKey(number, "it is no object"))?;
            let bad = |reason| KeySetFault::BadKey(number, reason);
            set.keys.extend(Key::read(key).map_err(bad)?);
            set.decryption_keys.extend(DecryptionKey::read(key).map_err(bad)?);
        }
        if set.is_empty() { Err(KeySetFault::NoKeys) } else { Ok(set) }
    }

    /// Number of keys; one that both verifies and decrypts counts twice.
    pub fn len(&self) -> usize {
        self.keys.len() + self.decryption_keys.len()
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Tries keys in their order, at most [`TRIES_MAX`] of them: the first result, or why there is none.
pub(crate) fn try_keys<'k, K: 'k, R>(
    fitting: impl Iterator<Item = &'k K>,
    attempt: impl Fn(&K) -> Option<R>,
    failed: TokenFault,
) -> Result<R, TokenFault> {
    let mut tried = 0;
    for key in fitting {
        if tried == TRIES_MAX {
            return Err(TokenFault::TooManyKeys);
        }
        tried += 1;
        if let Some(result) = attempt(key) {
            return Ok(result);
        }
    }
    Err(if tried == 0 { TokenFault::NoKey } else { failed })
}

/// Whether a token's `kid` selects a key: one that has it, or has none. A token without `kid` selects every key.
pub(crate) fn selects(wanted: Option<&str>, known: Option<&str>) -> bool {
    wanted.is_none() || known.is_none() || wanted == known
}

impl Key {
    /// Reads a key; `None` if it is not for signatures, or of an unknown kind.
    fn read(key: &Map<String, Value>) -> Result<Option<Self>, &'static str> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let is_for_signatures = text("use").is_none_or(|what| what == "sig")
            && key.get("key_ops").and_then(Value::as_array).is_none_or(|list| list.iter().any(|what| what == "verify"));
        if !is_for_signatures {
            return Ok(None);
        }
        let only = match text("alg") {
            None => None,
            Some(name) => match Algorithm::of_name(name) {
                Some(algorithm) => Some(algorithm),
                None => return Ok(None),
            },
        };
        let bytes = |name: &str| text(name).and_then(|value| decode(value.as_bytes()));
        let material = match (text("kty").ok_or("it has no \"kty\"")?, text("crv")) {
            ("RSA", _) => rsa(bytes("n"), bytes("e"))?,
            ("EC", Some("P-256")) => Material::P256(point(bytes("x"), bytes("y"), 32)?),
            ("EC", Some("P-384")) => Material::P384(point(bytes("x"), bytes("y"), 48)?),
            ("EC", Some("P-521")) => Material::P521(point(bytes("x"), bytes("y"), 66)?),
            ("OKP", Some("Ed25519")) => {
                let x = bytes("x").filter(|x| x.len() == 32);
                Material::Ed25519(x.ok_or("\"x\" of an Ed25519 key must be 32 bytes in base64url")?)
            }
            ("oct", _) => {
                let secret = bytes("k").filter(|secret| (1..=SECRET_BYTES_MAX).contains(&secret.len()));
                Material::Secret(secret.ok_or("\"k\" must be 1 to 4096 bytes in base64url")?)
            }
            _ => return Ok(None),
        };
        let key = Self { id: text("kid").map(str::to_owned), only, material };
        let fits = only.is_none_or(|algorithm| key.method(algorithm).is_some());
        if fits { Ok(Some(key)) } else { Err("its \"alg\" does not fit its \"kty\"") }
    }

    /// Whether the key may verify a signature of this algorithm.
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        self.only.is_none_or(|only| only == algorithm) && self.method(algorithm).is_some()
    }

    /// How a key of this kind verifies the algorithm; `None`: it does not.
    fn method(&self, algorithm: Algorithm) -> Option<Method> {
        use Algorithm as A;
        Some(match (&self.material, algorithm) {
            (Material::Rsa { .. }, A::Rs256) => Method::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            (Material::Rsa { .. }, A::Rs384) => Method::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            (Material::Rsa { .. }, A::Rs512) => Method::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            (Material::Rsa { .. }, A::Ps256) => Method::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            (Material::Rsa { .. }, A::Ps384) => Method::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            (Material::Rsa { .. }, A::Ps512) => Method::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            (Material::P256(_), A::Es256) => Method::Curve(&signature::ECDSA_P256_SHA256_FIXED),
            (Material::P384(_), A::Es384) => Method::Curve(&signature::ECDSA_P384_SHA384_FIXED),
            (Material::P521(_), A::Es512) => Method::Curve(&signature::ECDSA_P521_SHA512_FIXED),
            (Material::Ed25519(_), A::EdDsa) => Method::Curve(&signature::ED25519),
            (Material::Secret(_), A::Hs256) => Method::Hmac(hmac::HMAC_SHA256),
            (Material::Secret(_), A::Hs384) => Method::Hmac(hmac::HMAC_SHA384),
            (Material::Secret(_), A::Hs512) => Method::Hmac(hmac::HMAC_SHA512),
            _ => return None,
        })
    }

    /// Whether the signature is right.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match (&self.material, self.method(algorithm)) {
            (Material::Rsa { n, e }, Some(Method::Rsa(how))) => {
                RsaPublicKeyComponents { n, e }.verify(how, message, signature).is_ok()
            }
            (
                Material::P256(key) | Material::P384(key) | Material::P521(key) | Material::Ed25519(key),
                Some(Method::Curve(how)),
            ) => UnparsedPublicKey::new(how, key).verify(message, signature).is_ok(),
            (Material::Secret(secret), Some(Method::Hmac(how))) => {
                hmac::verify(&hmac::Key::new(how, secret), message, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// How a signature is verified.
enum Method {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
    Hmac(hmac::Algorithm),
}

fn rsa(n: Option<Vec<u8>>, e: Option<Vec<u8>>) -> Result<Material, &'static str> {
    let without_zeros = |bytes: Vec<u8>| bytes.iter().position(|byte| *byte != 0).map(|first| bytes[first..].to_vec());
    let n = n.and_then(without_zeros).ok_or("an RSA key needs \"n\" in base64url")?;
    let e = e.and_then(without_zeros).ok_or("an RSA key needs \"e\" in base64url")?;
    let bits = n.len() * 8 - n[0].leading_zeros() as usize;
    if RSA_BITS.contains(&bits) { Ok(Material::Rsa { n, e }) } else { Err("an RSA key must have 2048 to 8192 bits") }
}

/// The uncompressed point of a public key.
fn point(x: Option<Vec<u8>>, y: Option<Vec<u8>>, size: usize) -> Result<Vec<u8>, &'static str> {
    let (x, y) = (x.filter(|x| x.len() == size), y.filter(|y| y.len() == size));
    let (x, y) =
        (x.ok_or("\"x\" has another length than its curve")?, y.ok_or("\"y\" has another length than its curve")?);
    Ok([&[4][..], &x, &y].concat())
}
