//! URIs: decoding and normalising them as nginx does, escaping what is sent on, and the rules by which
//! `proxy_pass` replaces a URI. Called by the gateway when a head is complete and when the upstream head is built.
//!
//! The common target needs no change, and then the caller keeps using the raw bytes: nothing is copied.

mod escape;
mod normalize;
mod proxy;

pub use escape::{Escape, escape};
pub use normalize::{ParsedTarget, UriError, parse_target};
pub use proxy::{PassUri, ProxyUri};

/// Splits `/uri?args` of the configuration or of `X-Accel-Redirect` at the first `?`. Nothing is decoded.
pub fn split_args(uri: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', uri) {
        Some(at) => (&uri[..at], Some(&uri[at + 1..])),
        None => (uri, None),
    }
}

/// Takes a URI apart that an upstream names for an internal redirect (`X-Accel-Redirect`): its path is decoded, what follows
/// the first `?` is not. `None`: it is empty, has an escape that is none, a NUL, or leaves a directory by `..`.
pub fn parse_internal(uri: &[u8]) -> Option<(Vec<u8>, Option<&[u8]>)> {
    let (path, args) = split_args(uri);
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            decoded.push(byte);
            rest = tail;
            continue;
        }
        let [high, low, tail @ ..] = tail else { return None };
        let value = |digit: u8| (digit as char).to_digit(16);
        decoded.push((value(*high)? << 4 | value(*low)?) as u8);
        rest = tail;
    }
    let is_unsafe =
        decoded.is_empty() || decoded.contains(&0) || decoded.split(|&byte| byte == b'/').any(|part| part == b"..");
    (!is_unsafe).then_some((decoded, args))
}

/// Appends the Location of a redirect to `path` (a normalised path, escaped here) that keeps the arguments: what is sent for
/// `location::Found::Redirect`, with the location's name, and for a directory that was asked for without its slash.
pub fn write_redirect(path: &[u8], args: Option<&[u8]>, out: &mut Vec<u8>) {
    escape(path, Escape::Uri, out);
    if let Some(args) = args.filter(|args| !args.is_empty()) {
        out.push(b'?');
        out.extend_from_slice(args);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_escapes_the_path_and_keeps_the_arguments() {
        let redirect = |args: Option<&[u8]>| {
            let mut out = Vec::new();
            write_redirect(b"/a b?/", args, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(redirect(Some(b"x=%20&y")), "/a%20b%3F/?x=%20&y");
        assert_eq!(redirect(Some(b"")), "/a%20b%3F/");
        assert_eq!(redirect(None), "/a%20b%3F/");
    }

    #[test]
    fn upstream_uri_is_decoded_and_stays_below_the_root() {
        assert_eq!(parse_internal(b"/a%20b?c%20d"), Some((b"/a b".to_vec(), Some(&b"c%20d"[..]))));
        assert_eq!(parse_internal(b"/a..b/...?"), Some((b"/a..b/...".to_vec(), Some(&b""[..]))));
        for bad in [&b""[..], b"?x", b"/a/../b", b"/a/%2e%2e/b", b"..", b"/a%00", b"/a%", b"/a%4", b"/a%zz"] {
            assert_eq!(parse_internal(bad), None, "{}", bad.escape_ascii());
        }
    }
}
