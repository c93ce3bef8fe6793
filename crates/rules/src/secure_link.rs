//! `secure_link`: links with a checksum of their target, a secret and, optionally, an expiry time.

use crate::basic_auth::decode_base64_url;
use md5::{Digest as _, Md5};
use subtle::ConstantTimeEq as _;

/// Letters of a checksum, which has 16 bytes.
const LETTERS_MAX: usize = 24;

/// The value of `secure_link`: the checksum, and the time at which the link expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    checksum: &'a [u8],
    /// As it is written, and in seconds since 1970.
    pub expires: Option<(&'a [u8], i64)>,
}

impl<'a> Link<'a> {
    /// Splits a value; `None` if its expiry is not a number of seconds.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let Some(comma) = memchr::memchr(b',', value) else { return Some(Self { checksum: value, expires: None }) };
        let (checksum, text) = (&value[..comma], &value[comma + 1..]);
        let seconds = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
        let seconds = seconds.parse().ok().filter(|seconds| *seconds > 0)?;
        Some(Self { checksum, expires: Some((text, seconds)) })
    }

    /// Whether the checksum is that of the text.
    pub fn is_of(&self, text: &[u8]) -> bool {
        let decoded = Some(self.checksum).filter(|letters| letters.len() <= LETTERS_MAX).and_then(decode_base64_url);
        decoded.is_some_and(|decoded| Md5::digest(text).ct_eq(&decoded).into())
    }

    /// Whether the link has expired.
    pub fn has_ended(&self, now_s: i64) -> bool {
        self.expires.is_some_and(|(_, seconds)| seconds < now_s)
    }
}

/// `secure_link_secret`: of a target `/name/checksum/rest` the rest, where the checksum is that of the rest and the secret.
pub fn rest_of_target<'a>(target: &'a [u8], secret: &[u8]) -> Option<&'a [u8]> {
    let mut parts = target.get(1..)?.splitn(3, |&byte| byte == b'/');
    let (_, checksum, rest) = (parts.next()?, parts.next()?, parts.next()?);
    if checksum.len() != 32 || rest.is_empty() {
        return None;
    }
    let given = checksum.chunks_exact(2).map(|pair| {
        let digit = |letter: u8| char::from(letter).to_digit(16);
        Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
    });
    let given: Vec<u8> = given.collect::<Option<_>>()?;
    let expected = Md5::new().chain_update(rest).chain_update(secret).finalize();
    bool::from(expected.ct_eq(&given)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_checksum_and_perhaps_an_end() {
        // The example of nginx's documentation: `echo -n '2147483647/s/link127.0.0.1 secret' | openssl md5 -binary | base64`
        let link = Link::parse(b"_e4Nc3iduzkWRm01TBBNYw,2147483647").expect("a link");
        assert!(link.is_of(b"2147483647/s/link127.0.0.1 secret"));
        assert!(!link.is_of(b"2147483647/s/link127.0.0.2 secret"));
        assert_eq!(link.expires, Some((&b"2147483647"[..], 2_147_483_647)));
        assert!(!link.has_ended(2_147_483_647) && link.has_ended(2_147_483_648));
        assert!(!Link::parse(b"_e4Nc3iduzkWRm01TBBNYw").expect("a link").has_ended(i64::MAX));
        for wrong in ["x,", "x,0", "x,-1", "x,1s", "x,99999999999999999999", "x,1,2"] {
            assert_eq!(Link::parse(wrong.as_bytes()), None, "{wrong}");
        }
        for wrong in ["", "!", "_e4Nc3iduzkWRm01TBBN", "_e4Nc3iduzkWRm01TBBNYwAAAAAAA"] {
            assert!(!Link::parse(wrong.as_bytes()).expect("a link").is_of(b"x"), "{wrong}");
        }
    }

    #[test]
    fn a_target_holds_the_checksum_of_its_rest() {
        // `echo -n 'linksecret' | openssl md5 -hex`
        let rest = |target: &str| {
            rest_of_target(target.as_bytes(), b"secret").map(|rest| String::from_utf8_lossy(rest).into_owned())
        };
        assert_eq!(rest("/p/5e814704a28d9bc1914ff19fa0c4a00a/link").as_deref(), Some("link"));
        assert_eq!(rest("/p/5E814704A28D9BC1914FF19FA0C4A00A/link").as_deref(), Some("link"));
        for wrong in [
            "",
            "/",
            "/p",
            "/p/",
            "/p/5e814704a28d9bc1914ff19fa0c4a00a",
            "/p/5e814704a28d9bc1914ff19fa0c4a00a/",
            "/p/5e814704a28d9bc1914ff19fa0c4a00b/link",
            "/p/zz814704a28d9bc1914ff19fa0c4a00a/link",
        ] {
            assert_eq!(rest(wrong), None, "{wrong}");
        }
    }
}
