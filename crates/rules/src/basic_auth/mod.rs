//! `auth_basic`: the credentials of a request, the users of a file, passwords and their hashes. It takes bytes and returns
//! decisions. The caller reads the file and chooses the thread that hashes a password.

mod des;
mod md5_crypt;
pub mod password;
pub mod users;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// As nginx reads base64: bits behind the last byte do not matter, nor does what follows the first `=`.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

const BASIC: &[u8] = b"Basic ";

/// Name and password of `Authorization: Basic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    decoded: Vec<u8>,
    colon: usize,
}

impl Credentials {
    /// Reads a value of `Authorization`; `None` where it has no name and password.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (scheme, encoded) = value.split_at_checked(BASIC.len())?;
        if !scheme.eq_ignore_ascii_case(BASIC) {
            return None;
        }
        let decoded = decode_base64(encoded.trim_ascii_start())?;
        let colon = decoded.iter().position(|&byte| byte == b':').filter(|&colon| colon > 0)?;
        Some(Self { decoded, colon })
    }

    /// The name: at least one byte, without a colon.
    pub fn user(&self) -> &[u8] {
        &self.decoded[..self.colon]
    }

    /// The password.
    pub fn password(&self) -> &[u8] {
        &self.decoded[self.colon + 1..]
    }
}

/// The same with the letters of URLs.
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Decodes base64 of a URL as nginx does.
pub(crate) fn decode_base64_url(encoded: &[u8]) -> Option<Vec<u8>> {
    let end = encoded.iter().position(|&byte| byte == b'=').unwrap_or(encoded.len());
    BASE64_URL.decode(&encoded[..end]).ok()
}

/// Decodes base64 as nginx does.
fn decode_base64(encoded: &[u8]) -> Option<Vec<u8>> {
    let end = encoded.iter().position(|&byte| byte == b'=').unwrap_or(encoded.len());
    BASE64.decode(&encoded[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_nginx_reads_them() {
        let read = |value: &str| {
            let found = Credentials::parse(value.as_bytes())?;
            Some(format!("{}|{}", found.user().escape_ascii(), found.password().escape_ascii()))
        };
        for (value, expected) in [
            ("Basic YTpi", Some("a|b")),
            ("bAsIc    YTpi", Some("a|b")),
            ("Basic YTpiOmM=", Some("a|b:c")),
            ("Basic YTpiOmM", Some("a|b:c")),
            ("Basic YTpiOmM==x", Some("a|b:c")),
            ("Basic YTo=", Some("a|")),
            ("Basic OmI=", None),
            ("Basic YWI=", None),
            ("Basic ", None),
            ("Basic", None),
            ("Basic YTpi!", None),
            ("Bearer YTpi", None),
        ] {
            assert_eq!(read(value).as_deref(), expected, "{value}");
        }
    }
}
