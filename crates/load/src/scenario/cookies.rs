//! The cookies of one virtual user, by the rules of RFC 6265 sections 5.2 to 5.4: domain, path, `Secure`, `Max-Age` and
//! `Expires`. Without a list of public suffixes: a domain of one label is refused instead. Pure: times are arguments.

use std::time::UNIX_EPOCH;

/// Most cookies of a user, as RFC 6265 section 6.1 asks for a domain. The oldest one leaves.
const COOKIES_MAX: usize = 50;
/// Longest cookie, name and value together (RFC 6265 section 6.1).
const COOKIE_BYTES_MAX: usize = 4096;
/// The lifetime that is used for a longer one: longer than any load.
const LIFETIME_S_MAX: i64 = 400 * 24 * 3600;

/// Where a request goes, for the rules of cookies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// The host in lower case, without its port.
    pub(crate) host: &'a str,
    /// The request target; its query does not matter.
    pub(crate) path: &'a [u8],
    /// Whether the request uses TLS.
    pub(crate) is_secure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    domain: String,
    /// Whether only this host gets it.
    host_only: bool,
    path: Vec<u8>,
    secure: bool,
    /// Nanoseconds of the run; `None` means the end of the session.
    expires_ns: Option<u64>,
}

/// The cookies of a user, in the order of their creation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jar(Vec<Cookie>);

/// The attributes of a Set-Cookie field.
#[derive(Debug, Default)]
struct Attributes<'a> {
    domain: Option<&'a str>,
    path: Option<&'a [u8]>,
    max_age: Option<i64>,
    expires: Option<&'a str>,
    secure: bool,
}

impl Jar {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Stores the cookie of a Set-Cookie field, or deletes one. `date` is the response's Date field: the target's own clock
    /// decides whether `Expires` has passed. A field that the rules do not accept is ignored, as browsers do.
    pub(crate) fn store(&mut self, field: &[u8], origin: &Origin<'_>, date: Option<&[u8]>, now_ns: u64) {
        let mut parts = field.split(|byte| *byte == b';');
        let Some((name, value)) = parts.next().and_then(|pair| split_at_byte(pair, b'=')) else { return };
        if name.is_empty() || name.len() + value.len() > COOKIE_BYTES_MAX || !is_sendable(name) || !is_sendable(value) {
            return;
        }
        let attributes = parts.fold(Attributes::default(), Attributes::add);
        let Some((domain, host_only)) = domain(attributes.domain, origin.host) else { return };
        if attributes.secure && !origin.is_secure {
            // draft-ietf-httpbis-rfc6265bis section 5.7: a plain connection sets no secure cookie.
            return;
        }
        let path = match attributes.path {
            Some(path) if path.first() == Some(&b'/') => path.to_vec(),
            _ => default_path(origin.path).to_vec(),
        };
        let lifetime_s = attributes.max_age.or_else(|| lifetime_of(attributes.expires?, date));
        let same = |known: &Cookie| known.name == name && known.domain == domain && known.path == path;
        let place = self.0.iter().position(same);
        if lifetime_s.is_some_and(|seconds| seconds <= 0) {
            place.map(|at| self.0.remove(at));
            return;
        }
        let lifetime_ns = |seconds: i64| seconds.min(LIFETIME_S_MAX) as u64 * 1_000_000_000;
        let expires_ns = lifetime_s.map(|seconds| now_ns.saturating_add(lifetime_ns(seconds)));
        let (name, value, secure) = (name.to_vec(), value.to_vec(), attributes.secure);
        let cookie = Cookie { name, value, domain, host_only, path, secure, expires_ns };
        if let Some(known) = place.and_then(|at| self.0.get_mut(at)) {
            // It keeps its place, because it keeps its creation time.
            *known = cookie;
        } else {
            if self.0.len() >= COOKIES_MAX {
                self.0.remove(0);
            }
            self.0.push(cookie);
        }
    }

    /// Appends the value of the Cookie field of a request: longer paths first, then older cookies.
    pub(crate) fn write(&self, origin: &Origin<'_>, now_ns: u64, out: &mut Vec<u8>) {
        let mut sent: Vec<&Cookie> = self.0.iter().filter(|cookie| cookie.is_for(origin, now_ns)).collect();
        sent.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        for (number, cookie) in sent.into_iter().enumerate() {
            if number > 0 {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
        }
    }
}

impl Cookie {
    fn is_for(&self, origin: &Origin<'_>, now_ns: u64) -> bool {
        let is_host = if self.host_only { origin.host == self.domain } else { is_within(origin.host, &self.domain) };
        is_host
            && is_under(without_query(origin.path), &self.path)
            && (!self.secure || origin.is_secure)
            && self.expires_ns.is_none_or(|expires_ns| now_ns < expires_ns)
    }
}

impl<'a> Attributes<'a> {
    fn add(mut self, part: &'a [u8]) -> Self {
        let (name, value) = split_at_byte(part, b'=').unwrap_or((part.trim_ascii(), b""));
        let text = std::str::from_utf8(value).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"secure") {
            self.secure = true;
        } else if name.eq_ignore_ascii_case(b"domain") {
            self.domain = Some(text.strip_prefix('.').unwrap_or(text)).filter(|domain| !domain.is_empty());
        } else if name.eq_ignore_ascii_case(b"path") {
            self.path = Some(value);
        } else if name.eq_ignore_ascii_case(b"max-age") {
            // Digits beyond the range of a number are a very long or a very old lifetime.
            let is_number = text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
            let extreme = if text.starts_with('-') { 0 } else { LIFETIME_S_MAX };
            self.max_age = (is_number && !text.is_empty()).then(|| text.parse().unwrap_or(extreme)).or(self.max_age);
        } else if name.eq_ignore_ascii_case(b"expires") {
            self.expires = Some(text);
        }
        self
    }
}

/// The domain of a cookie, and whether it is for its host only; `None` if the host may not set it.
fn domain(asked: Option<&str>, host: &str) -> Option<(String, bool)> {
    let Some(asked) = asked.map(str::to_ascii_lowercase).filter(|asked| asked != host) else {
        return Some((host.to_owned(), asked.is_none() || is_address(host)));
    };
    (is_within(host, &asked) && asked.contains('.')).then_some((asked, false))
}

fn is_address(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
}

/// RFC 6265 section 5.1.3.
fn is_within(host: &str, domain: &str) -> bool {
    host == domain || (host.strip_suffix(domain).is_some_and(|before| before.ends_with('.')) && !is_address(host))
}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// RFC 6265 section 5.1.4: up to the last slash.
fn default_path(path: &[u8]) -> &[u8] {
    let path = without_query(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(last) if last > 0 && path.first() == Some(&b'/') => path.get(..last).unwrap_or(b"/"),
        _ => b"/",
    }
}

/// RFC 6265 section 5.1.4.
fn is_under(path: &[u8], cookie: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(cookie) else { return false };
    rest.is_empty() || cookie.last() == Some(&b'/') || rest.first() == Some(&b'/')
}

/// Seconds from the response's date to `Expires`. Without a date, a date before 1971 is the past and another one the future.
fn lifetime_of(expires: &str, date: Option<&[u8]>) -> Option<i64> {
    const YEAR_S: i64 = 365 * 24 * 3600;
    let expires = seconds(expires)?;
    let date = date.and_then(|date| seconds(std::str::from_utf8(date).ok()?));
    Some(expires - date.unwrap_or(YEAR_S))
}

/// Seconds since 1970. Many servers write hyphens in the date (`01-Jan-1970`).
fn seconds(date: &str) -> Option<i64> {
    let parsed =
        httpdate::parse_http_date(date).or_else(|_| httpdate::parse_http_date(&date.replace('-', " "))).ok()?;
    Some(parsed.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64))
}

/// Whether the bytes can be sent in a field again.
fn is_sendable(bytes: &[u8]) -> bool {
    !bytes.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127 | b';'))
}

/// Splits at the first such byte, and trims both parts.
fn split_at_byte(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..position)?.trim_ascii(), bytes.get(position + 1..)?.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DATE: &[u8] = b"Tue, 24 Nov 2026 18:00:00 GMT";
    const SECOND: u64 = 1_000_000_000;

    fn origin<'a>(host: &'a str, path: &'a str, is_secure: bool) -> Origin<'a> {
        Origin { host, path: path.as_bytes(), is_secure }
    }

    /// A jar that got these fields from `http://shop.example/cart/view?x=1`.
    fn jar(fields: &[&str]) -> Jar {
        let mut jar = Jar::default();
        for field in fields {
            jar.store(field.as_bytes(), &origin("shop.example", "/cart/view?x=1", false), Some(DATE), 0);
        }
        jar
    }

    fn sent_at(jar: &Jar, host: &str, path: &str, is_secure: bool, now_ns: u64) -> String {
        let mut out = Vec::new();
        jar.write(&origin(host, path, is_secure), now_ns, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn sent(fields: &[&str], host: &str, path: &str) -> String {
        sent_at(&jar(fields), host, path, false, 0)
    }

    #[test]
    fn a_cookie_goes_back_to_its_host_and_path() {
        assert_eq!(sent(&["a=1; Path=/"], "shop.example", "/x"), "a=1");
        assert_eq!(sent(&["a=1"], "shop.example", "/cart"), "a=1", "the default path is that of the request");
        assert_eq!(sent(&["a=1"], "shop.example", "/cart/pay?y"), "a=1");
        assert_eq!(sent(&["a=1"], "shop.example", "/cartoon"), "");
        assert_eq!(sent(&["a=1; Path=/"], "other.example", "/x"), "");
        assert_eq!(sent(&["a=1; Path=/"], "www.shop.example", "/x"), "", "without a domain it is for its host only");
        assert_eq!(sent(&["a=1; path=x"], "shop.example", "/cart/"), "a=1", "a path without a slash is ignored");
    }

    #[test]
    fn a_domain_includes_its_subdomains_and_no_foreign_ones() {
        assert_eq!(sent(&["a=1; Domain=.Shop.example; Path=/"], "www.shop.example", "/"), "a=1");
        assert_eq!(sent(&["a=1; Domain=shop.example; Path=/"], "myshop.example", "/"), "");
        assert_eq!(sent(&["a=1; Domain=other.example; Path=/"], "other.example", "/"), "");
        assert_eq!(sent(&["a=1; Domain=example; Path=/"], "shop.example", "/"), "", "one label is no domain");
        assert_eq!(sent(&["a=1; Domain=www.shop.example; Path=/"], "www.shop.example", "/"), "");
    }

    #[test]
    fn longer_paths_come_first_and_older_cookies_before_newer_ones() {
        let fields = ["a=1; Path=/", "b=2; Path=/cart", "c=3; Path=/", "a=4; Path=/"];
        assert_eq!(sent(&fields, "shop.example", "/cart/"), "b=2; a=4; c=3");
    }

    #[test]
    fn lifetimes_end_cookies() {
        let kept = jar(&[
            "a=1; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "b=2; Expires=Tue, 24-Nov-2026 18:01:00 GMT",
        ]);
        let at = |seconds: u64| sent_at(&kept, "shop.example", "/cart/", false, seconds * SECOND);
        assert_eq!((at(9).as_str(), at(10).as_str(), at(60).as_str()), ("a=1; b=2", "b=2", ""));
        for deletion in
            ["a=; Max-Age=0", "a=; Expires=Thu, 01-Jan-1970 00:00:01 GMT", "a=; Max-Age=-99999999999999999999"]
        {
            assert_eq!(sent(&["a=1", deletion], "shop.example", "/cart/"), "", "{deletion}");
        }
        assert_eq!(sent(&["a=1; Max-Age=99999999999999999999"], "shop.example", "/cart/"), "a=1");
        assert_eq!(sent(&["a=1; Max-Age=x; Expires=never"], "shop.example", "/cart/"), "a=1");
    }

    #[test]
    fn a_secure_cookie_needs_tls() {
        assert_eq!(sent(&["a=1; Secure"], "shop.example", "/cart/"), "", "a plain connection cannot set it");
        let mut jar = Jar::default();
        jar.store(b"a=1; secure; Path=/", &origin("shop.example", "/", true), None, 0);
        assert_eq!(sent_at(&jar, "shop.example", "/", false, 0), "");
        assert_eq!(sent_at(&jar, "shop.example", "/", true, 0), "a=1");
    }

    proptest! {
        #[test]
        fn no_field_panics_or_adds_a_line(fields in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4)) {
            let mut jar = Jar::default();
            for field in &fields {
                for field in [field.clone(), [b"a=1; domain=", field.as_slice()].concat(), [b"a=1; expires=", field.as_slice()].concat()] {
                    jar.store(&field, &origin("a.example", "/x", true), Some(field.as_slice()), 5);
                }
            }
            let mut out = Vec::new();
            jar.write(&origin("a.example", "/x", true), 5, &mut out);
            prop_assert!(!out.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
    }

    #[test]
    fn jar_is_bounded_and_skips_unsendable_cookies() {
        let long = format!("a={}", "x".repeat(COOKIE_BYTES_MAX));
        assert_eq!(sent(&[&long, "=1", "novalue", "b=\u{1}", ""], "shop.example", "/cart/"), "");
        let many: Vec<String> = (0..=COOKIES_MAX).map(|number| format!("c{number}={number}")).collect();
        let many = sent(&many.iter().map(String::as_str).collect::<Vec<_>>(), "shop.example", "/cart/");
        assert!(many.starts_with("c1=1; ") && many.ends_with("c50=50"), "{many}");
    }
}
