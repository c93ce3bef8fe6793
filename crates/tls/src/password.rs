//! Private keys out of PEM, with a password where they are encrypted. Passwords come from the lines of an `ssl_password_file`.
//! Two forms exist: PKCS #8, and OpenSSL's old one, which `openssl genrsa -aes256` wrote before version 3.

use crate::finding::Finding;
use aes::cipher::{BlockModeDecrypt, KeyIvInit, block_padding::Pkcs7};
use aes::{Aes128, Aes192, Aes256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cbc::Decryptor;
use der::asn1::ObjectIdentifier;
use der::{AnyRef, Decode, Sequence};
use des::TdesEde3;
use md5::{Digest, Md5};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::spki::AlgorithmIdentifierRef;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// The old form salts with the first bytes of the initialization vector.
const SALT_BYTES: usize = 8;

/// The first private key in `pem`. Each line of `passwords` is tried, as nginx does.
pub(crate) fn read_key(pem: &[u8], passwords: &[u8]) -> Result<PrivateKeyDer<'static>, Finding> {
    let text = String::from_utf8_lossy(pem);
    if let Some((_, rest)) = text.split_once(ENCRYPTED_BEGIN) {
        let body = rest.split_once(ENCRYPTED_END).map_or(rest, |(body, _)| body);
        return decrypt(body, passwords);
    }
    if let Some((before, rest)) = text.split_once("Proc-Type: 4,ENCRYPTED") {
        return decrypt_old(before, rest, passwords);
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let advice = "the file must have a PEM block PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY";
        Finding::error("key_unreadable", format!("there is no private key that can be read ({error})"), advice)
    })
}

fn unreadable(what: impl Into<String>) -> Finding {
    Finding::error("key_unreadable", what.into(), "write the key again, or convert it with openssl pkcs8")
}

fn decode(body: &str) -> Result<Vec<u8>, Finding> {
    let compact: String = body.split_whitespace().collect();
    let decoded = STANDARD.decode(compact);
    decoded.map_err(|error| unreadable(format!("the encrypted private key is no base64 ({error})")))
}

fn decrypt(body: &str, passwords: &[u8]) -> Result<PrivateKeyDer<'static>, Finding> {
    let der = decode(body)?;
    let info = EncryptedPrivateKeyInfoRef::try_from(der.as_slice());
    let info = match info {
        Ok(info) if info.encryption_algorithm.pbes1().is_none() => info,
        Err(error) if Encrypted::from_der(&der).is_err() => {
            return Err(unreadable(format!("the encrypted private key cannot be read ({error})")));
        }
        _ => return Err(unsupported(&der)),
    };
    try_each(passwords, |password| {
        let document = info.decrypt(password).ok()?;
        Some(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(document.as_bytes().to_vec())))
    })
}

/// The outer form of an encrypted key (RFC 5208 §6), whatever encrypts it.
#[derive(Sequence)]
struct Encrypted<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    _data: AnyRef<'a>,
}

/// OpenSSL's names of the old ciphers, which are weak and not read here (RFC 8018 §A.3, RFC 7292 §C), and whether OpenSSL 3 has them in
/// its `legacy` provider only.
const OLD_SCHEMES: [(&str, &str, bool); 12] = [
    ("1.2.840.113549.1.5.1", "PBE-MD2-DES", true),
    ("1.2.840.113549.1.5.3", "PBE-MD5-DES", true),
    ("1.2.840.113549.1.5.4", "PBE-MD2-RC2-64", true),
    ("1.2.840.113549.1.5.6", "PBE-MD5-RC2-64", true),
    ("1.2.840.113549.1.5.10", "PBE-SHA1-DES", true),
    ("1.2.840.113549.1.5.11", "PBE-SHA1-RC2-64", true),
    ("1.2.840.113549.1.12.1.1", "PBE-SHA1-RC4-128", true),
    ("1.2.840.113549.1.12.1.2", "PBE-SHA1-RC4-40", true),
    ("1.2.840.113549.1.12.1.3", "PBE-SHA1-3DES", false),
    ("1.2.840.113549.1.12.1.4", "PBE-SHA1-2DES", false),
    ("1.2.840.113549.1.12.1.5", "PBE-SHA1-RC2-128", true),
    ("1.2.840.113549.1.12.1.6", "PBE-SHA1-RC2-40", true),
];

/// A key under a cipher that is not read here, with the command that converts it.
fn unsupported(der: &[u8]) -> Finding {
    let oid = Encrypted::from_der(der).map(|key| key.algorithm.oid);
    let is_it = |known: &str| oid.is_ok_and(|oid| ObjectIdentifier::new(known) == Ok(oid));
    let old = OLD_SCHEMES.iter().find(|(known, _, _)| is_it(known));
    let (name, is_legacy) = old.map_or(("a cipher that is rarely used", false), |(_, name, legacy)| (*name, *legacy));
    let providers = if is_legacy { " -provider legacy -provider default" } else { "" };
    Finding::error(
        "key_cipher_unsupported",
        format!("the private key is encrypted with {name}, which is not supported"),
        format!("encrypt it with AES, under the same password: openssl pkcs8 -topk8{providers} -in KEY -out NEW"),
    )
}

/// A key in OpenSSL's old form (`PEM_do_header`): `before` ends with the first line of the block, `rest` begins after `Proc-Type`.
fn decrypt_old(before: &str, rest: &str, passwords: &[u8]) -> Result<PrivateKeyDer<'static>, Finding> {
    let header = rest.split_once("DEK-Info:").and_then(|(_, info)| info.split_once('\n'));
    let (info, body) = header.ok_or_else(|| unreadable("the encrypted private key names no cipher (DEK-Info)"))?;
    let body = body.split_once("-----END").map_or(body, |(body, _)| body);
    let (cipher, iv) = info.trim().split_once(',').unwrap_or((info.trim(), ""));
    let cipher = OldCipher::of(cipher)
        .ok_or_else(|| unreadable(format!("the private key is encrypted with {cipher}, which is not supported")))?;
    let iv = from_hex(iv).filter(|iv| iv.len() == cipher.iv_bytes());
    let iv = iv.ok_or_else(|| unreadable("the encrypted private key has no initialization vector"))?;
    let encrypted = decode(body)?;
    let is_rsa = before.trim_end().ends_with("RSA PRIVATE KEY-----");
    try_each(passwords, |password| {
        let plain = cipher.decrypt(password, &iv, &encrypted)?;
        // A wrong password may leave a valid padding.
        AnyRef::from_der(&plain).ok()?;
        Some(if is_rsa { PrivatePkcs1KeyDer::from(plain).into() } else { PrivateSec1KeyDer::from(plain).into() })
    })
}

/// The ciphers of `DEK-Info` in use.
#[derive(Clone, Copy)]
enum OldCipher {
    Aes128,
    Aes192,
    Aes256,
    TripleDes,
}

impl OldCipher {
    fn of(name: &str) -> Option<Self> {
        match name {
            "AES-128-CBC" => Some(Self::Aes128),
            "AES-192-CBC" => Some(Self::Aes192),
            "AES-256-CBC" => Some(Self::Aes256),
            "DES-EDE3-CBC" => Some(Self::TripleDes),
            _ => None,
        }
    }

    fn iv_bytes(self) -> usize {
        if matches!(self, Self::TripleDes) { 8 } else { 16 }
    }

    fn key_bytes(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes192 | Self::TripleDes => 24,
            Self::Aes256 => 32,
        }
    }

    fn decrypt(self, password: &[u8], iv: &[u8], encrypted: &[u8]) -> Option<Vec<u8>> {
        let key = derive(password, iv.get(..SALT_BYTES)?, self.key_bytes());
        let mut room = encrypted.to_vec();
        let plain = match self {
            Self::Aes128 => Decryptor::<Aes128>::new_from_slices(&key, iv).ok()?.decrypt_padded::<Pkcs7>(&mut room),
            Self::Aes192 => Decryptor::<Aes192>::new_from_slices(&key, iv).ok()?.decrypt_padded::<Pkcs7>(&mut room),
            Self::Aes256 => Decryptor::<Aes256>::new_from_slices(&key, iv).ok()?.decrypt_padded::<Pkcs7>(&mut room),
            Self::TripleDes => {
                Decryptor::<TdesEde3>::new_from_slices(&key, iv).ok()?.decrypt_padded::<Pkcs7>(&mut room)
            }
        };
        plain.ok().map(<[u8]>::to_vec)
    }
}

/// OpenSSL's `EVP_BytesToKey` with MD5 and one round.
fn derive(password: &[u8], salt: &[u8], bytes: usize) -> Vec<u8> {
    let (mut key, mut last) = (Vec::new(), Vec::new());
    while key.len() < bytes {
        last = Md5::new().chain_update(&last).chain_update(password).chain_update(salt).finalize().to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(bytes);
    key
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty().then_some(())?;
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// The key that the first fitting line of the password file opens.
fn try_each(
    passwords: &[u8],
    open: impl Fn(&[u8]) -> Option<PrivateKeyDer<'static>>,
) -> Result<PrivateKeyDer<'static>, Finding> {
    let mut lines =
        passwords.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).peekable();
    if lines.peek().is_none_or(|line| line.is_empty() && passwords.len() <= 1) {
        return Err(Finding::error(
            "key_needs_password",
            "the private key is encrypted, and there is no password for it",
            "name a file with the password (ssl_password_file), or decrypt the key: openssl pkey -in KEY -out NEW",
        ));
    }
    lines.find_map(open).ok_or_else(|| {
        Finding::error(
            "key_wrong_password",
            "no line of the password file opens the private key",
            "put the key's password into the file, on a line of its own",
        )
    })
}
