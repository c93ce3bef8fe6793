//! A private RSA key in the form that the cryptographic library reads: PKCS #8 (RFC 5208) around PKCS #1 (RFC 8017).

/// Version 0, then rsaEncryption (1.2.840.113549.1.1.1) without parameters.
const VERSION: &[u8] = &[0x02, 1, 0];
const RSA_ENCRYPTION: &[u8] = &[0x06, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 1, 0x05, 0];

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// n, e, d, p, q, d mod p-1, d mod q-1, 1/q mod p as unsigned numbers. `None` if one is missing.
pub(crate) fn rsa_private_key(parts: &[Option<Vec<u8>>; 8]) -> Option<Vec<u8>> {
    let mut key = VERSION.to_vec();
    for part in parts {
        key.extend(integer(part.as_deref()?));
    }
    let key = wrapped(OCTETS, &wrapped(SEQUENCE, &key));
    Some(wrapped(SEQUENCE, &[VERSION, &wrapped(SEQUENCE, RSA_ENCRYPTION), &key].concat()))
}

fn integer(number: &[u8]) -> Vec<u8> {
    let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    // A leading zero keeps it positive.
    wrapped(
        INTEGER,
        &[&[0], &number[first..]].concat()[usize::from(number.get(first).is_some_and(|byte| *byte < 0x80))..],
    )
}

fn wrapped(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let used = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
    let mut out = vec![kind];
    if content.len() < 0x80 {
        out.push(used[0]);
    } else {
        out.push(0x80 | used.len() as u8);
        out.extend_from_slice(used);
    }
    out.extend_from_slice(content);
    out
}
