//! The URI that `proxy_pass` sends, by nginx's replacement rules, so that an application sees the same URI behind nginx and
//! Holdfast. The gateway calls it when it builds the upstream head, and handles scheme and address itself.

use super::escape::{Escape, escape};

/// The URI part of `proxy_pass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassUri<'a> {
    /// `http://backend`: no URI, or a URL with variables that is evaluated to no URI.
    Absent,
    /// `http://backend/x`: replaces the part of the URI that the location matched.
    Replace(&'a [u8]),
    /// The URI of a URL with variables, evaluated: sent as it is. One that begins with `?` gets a `/` from the caller.
    AsGiven(&'a [u8]),
}

/// What is known about the request's URI.
#[derive(Debug, Clone, Copy)]
pub struct ProxyUri<'a> {
    /// The target as the client sent it, in origin form.
    pub raw: &'a [u8],
    /// Whether `raw` still means the request: false after a rewrite or an internal redirect, and where the client's
    /// target had no path ([`super::ParsedTarget::empty_path`]).
    pub raw_is_valid: bool,
    /// The normalised path, `$uri`.
    pub uri: &'a [u8],
    /// The arguments.
    pub args: Option<&'a [u8]>,
    /// The name of the location; empty for an expression or a named location.
    pub location: &'a [u8],
    /// Whether `location` still describes `uri`: false after `rewrite … break`.
    pub location_is_valid: bool,
    /// Whether `uri` has to be escaped again: the client's had escapes ([`super::ParsedTarget::quoted`]) or the exchange was
    /// redirected internally. Otherwise its bytes are the client's.
    pub needs_escape: bool,
}

impl ProxyUri<'_> {
    /// Appends the request target for the upstream. If the target is empty, nothing is appended; nginx answers that with 500
    /// and `zero length URI to proxy`.
    pub fn write(&self, pass: PassUri<'_>, out: &mut Vec<u8>) {
        let replacement = match pass {
            PassUri::AsGiven(uri) if !uri.is_empty() => return out.extend_from_slice(uri),
            PassUri::Replace(uri) if !uri.is_empty() => Some(uri),
            _ if self.raw_is_valid => return out.extend_from_slice(self.raw),
            _ => None,
        };
        let mut uri = self.uri;
        if let Some(replacement) = replacement.filter(|_| self.location_is_valid) {
            out.extend_from_slice(replacement);
            uri = &uri[self.location.len().min(uri.len())..];
        }
        if self.needs_escape {
            escape(uri, Escape::Uri, out);
        } else {
            out.extend_from_slice(uri);
        }
        if let Some(args) = self.args.filter(|args| !args.is_empty()) {
            out.push(b'?');
            out.extend_from_slice(args);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uri::parse_target;

    /// The upstream target for a client's target in a location.
    fn sent(raw: &str, location: &str, pass: PassUri<'_>) -> String {
        let raw = raw.as_bytes();
        let mut decoded = Vec::new();
        let parsed = parse_target(raw, true, &mut decoded).unwrap();
        let mut out = Vec::new();
        let uri = ProxyUri {
            raw,
            raw_is_valid: !parsed.empty_path,
            uri: parsed.path(raw, &decoded),
            args: parsed.args(raw),
            location: location.as_bytes(),
            location_is_valid: true,
            needs_escape: parsed.quoted,
        };
        uri.write(pass, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn without_a_uri_part_the_target_goes_unchanged() {
        for raw in ["/name/a", "/name//a/../%41?x?y", "/name/a?", "/"] {
            assert_eq!(sent(raw, "/name/", PassUri::Absent), raw);
        }
        assert_eq!(sent("?x", "/", PassUri::Absent), "/?x", "an absolute form without a path");
    }

    #[test]
    fn uri_part_replaces_the_matched_prefix() {
        assert_eq!(sent("/name/a?b", "/name/", PassUri::Replace(b"/remote/")), "/remote/a?b");
        assert_eq!(sent("/name/", "/name/", PassUri::Replace(b"/")), "/");
        assert_eq!(sent("/name/a", "/name", PassUri::Replace(b"/")), "//a", "nginx's known trap");
        assert_eq!(sent("/name/a", "/name/", PassUri::Replace(b"/x")), "/xa");
        assert_eq!(sent("/a?", "/", PassUri::Replace(b"/")), "/a", "empty arguments are dropped");
    }

    #[test]
    fn a_replaced_uri_is_normalised_and_escaped_again() {
        assert_eq!(sent("/n/a%20b%2fc%3Fd/../e%41", "/n/", PassUri::Replace(b"/r/")), "/r/a%20b/eA");
        assert_eq!(sent("/n/a|b", "/n/", PassUri::Replace(b"/r/")), "/r/a|b", "bytes of an unescaped target stay");
        assert_eq!(sent("/n/%25|", "/n/", PassUri::Replace(b"/r/")), "/r/%25%7C");
    }

    #[test]
    fn a_uri_from_variables_goes_as_given() {
        assert_eq!(sent("/name/a?b", "/name/", PassUri::AsGiven(b"/x%20?y")), "/x%20?y");
        assert_eq!(sent("/name/a?b", "/name/", PassUri::AsGiven(b"")), "/name/a?b");
    }

    #[test]
    fn rewrite_with_break_sends_the_whole_new_uri() {
        let rewritten = ProxyUri {
            raw: b"/name/anna",
            raw_is_valid: false,
            uri: b"/users",
            args: Some(b"name=anna"),
            location: b"/name/",
            location_is_valid: false,
            needs_escape: true,
        };
        for pass in [PassUri::Replace(b"/x/"), PassUri::Absent] {
            let mut out = Vec::new();
            rewritten.write(pass, &mut out);
            assert_eq!(out, b"/users?name=anna");
        }
    }
}
