//! Private keys out of PEM, with a password where they are encrypted. Passwords come from the lines of an `ssl_password_file`.

use crate::finding::Finding;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// The first private key in `pem`. Each line of `passwords` is tried, as nginx does.
pub(crate) fn read_key(pem: &[u8], passwords: &[u8]) -> Result<PrivateKeyDer<'static>, Finding> {
    let text = String::from_utf8_lossy(pem);
    if let Some((_, rest)) = text.split_once(ENCRYPTED_BEGIN) {
        let body = rest.split_once(ENCRYPTED_END).map_or(rest, |(body, _)| body);
        return decrypt(body, passwords);
    }
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(Finding::error(
            "key_old_encryption",
            "the private key is encrypted in OpenSSL's old form, which derives its key by MD5",
            "convert it: openssl pkcs8 -topk8 -in OLD.key -out NEW.key",
        ));
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let advice = "the file must have a PEM block PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY";
        Finding::error("key_unreadable", format!("there is no private key that can be read ({error})"), advice)
    })
}

fn decrypt(body: &str, passwords: &[u8]) -> Result<PrivateKeyDer<'static>, Finding> {
    let unreadable =
        |what: String| Finding::error("key_unreadable", what, "write the key again, or convert it with openssl pkcs8");
    let compact: String = body.split_whitespace().collect();
    let der = STANDARD
        .decode(compact)
        .map_err(|error| unreadable(format!("the encrypted private key is no base64 ({error})")))?;
    let info = EncryptedPrivateKeyInfoRef::try_from(der.as_slice())
        .map_err(|error| unreadable(format!("the encrypted private key cannot be read ({error})")))?;
    let mut lines =
        passwords.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).peekable();
    if lines.peek().is_none_or(|line| line.is_empty() && passwords.len() <= 1) {
        return Err(Finding::error(
            "key_needs_password",
            "the private key is encrypted, and there is no password for it",
            "name a file with the password (ssl_password_file), or decrypt the key: openssl pkey -in KEY -out NEW",
        ));
    }
    for line in lines {
        if let Ok(document) = info.decrypt(line) {
            return Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(document.as_bytes().to_vec())));
        }
    }
    Err(Finding::error(
        "key_wrong_password",
        "no line of the password file opens the private key",
        "put the key's password into the file, on a line of its own",
    ))
}
