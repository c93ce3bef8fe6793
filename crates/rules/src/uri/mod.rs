//! Request targets: splitting, decoding and normalising them as nginx does, escaping what is sent on, and the rules by which
//! `proxy_pass` replaces a URI. Called by the gateway when a head is complete and when the upstream head is built.
//!
//! The common target needs no change, and then the caller keeps using the raw bytes: nothing is copied.

mod escape;
mod normalize;
mod proxy;

pub use escape::{Escape, escape};
pub use normalize::{ParsedTarget, UriError, parse_target};
pub use proxy::{PassUri, ProxyUri};

/// The forms of RFC 9112 section 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm<'a> {
    /// `/path?args`: the whole target.
    Origin(&'a [u8]),
    /// `http://host/path?args`: `authority` replaces Host (catalogue R23). `target` may lack the leading slash
    /// (`http://host`, `http://host?args`); `parse_target` adds it.
    Absolute {
        /// Between `://` and the next `/` or `?`.
        authority: &'a [u8],
        /// The rest.
        target: &'a [u8],
    },
    /// `*`, for OPTIONS only.
    Asterisk,
}

/// Splits a request target. CONNECT's authority form is [`UriError::Form`], as the method is refused anyway (R26); so is any
/// scheme other than `http` and `https` (R24).
pub fn split_target(raw: &[u8]) -> Result<TargetForm<'_>, UriError> {
    if raw.first() == Some(&b'/') {
        return Ok(TargetForm::Origin(raw));
    }
    if raw == b"*" {
        return Ok(TargetForm::Asterisk);
    }
    let scheme_end = memchr::memchr(b':', raw).ok_or(UriError::Form)?;
    let (scheme, rest) = raw.split_at(scheme_end);
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return Err(UriError::Form);
    }
    let rest = rest.strip_prefix(b"://").ok_or(UriError::Form)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    if authority.is_empty() { Err(UriError::Form) } else { Ok(TargetForm::Absolute { authority, target }) }
}

/// Splits `/uri?args` of the configuration or of `X-Accel-Redirect` at the first `?`. Nothing is decoded.
pub fn split_args(uri: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', uri) {
        Some(at) => (&uri[..at], Some(&uri[at + 1..])),
        None => (uri, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_target() {
        assert_eq!(split_target(b"/a?b"), Ok(TargetForm::Origin(b"/a?b")));
        assert_eq!(split_target(b"*"), Ok(TargetForm::Asterisk));
        for (raw, authority, target) in [
            (&b"http://a.com/x?y"[..], &b"a.com"[..], &b"/x?y"[..]),
            (b"HTTPS://a.com:8443", b"a.com:8443", b""),
            (b"http://a.com?x=/y", b"a.com", b"?x=/y"),
        ] {
            assert_eq!(split_target(raw), Ok(TargetForm::Absolute { authority, target }));
        }
        for raw in [&b"ftp://a/"[..], b"a.com:443", b"http:/a", b"http:///x", b"x", b"", b"**"] {
            assert_eq!(split_target(raw), Err(UriError::Form), "{}", raw.escape_ascii());
        }
    }
}
