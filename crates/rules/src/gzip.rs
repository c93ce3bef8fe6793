//! Decides which responses are compressed: nginx's conditions of `gzip`, over the bytes of requests and responses. The
//! gateway compresses.

use conf::value::words::GzipProxied;

/// What `gzip_proxied` looks at.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProxiedFacts<'a> {
    /// The request has `Authorization`.
    pub authorized: bool,
    /// `Expires`: whether it lies before `Date`; a date that cannot be read does not.
    pub expired: Option<bool>,
    /// `Cache-Control`
    pub cache_control: Option<&'a [u8]>,
    /// There is `Last-Modified`.
    pub has_last_modified: bool,
    /// There is `ETag`.
    pub has_etag: bool,
}

/// Whether a response to a request with `Via` may be compressed.
pub fn is_proxied_allowed(flags: GzipProxied, facts: &ProxiedFacts<'_>) -> bool {
    if flags.contains(GzipProxied::OFF) {
        return false;
    }
    if flags.contains(GzipProxied::ANY) || (facts.authorized && flags.contains(GzipProxied::AUTH)) {
        return true;
    }
    if let Some(expired) = facts.expired {
        return expired && flags.contains(GzipProxied::EXPIRED);
    }
    if let Some(control) = facts.cache_control {
        let says = |word: &[u8]| {
            control.split(|&byte| byte == b',').any(|part| {
                part.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii().eq_ignore_ascii_case(word)
            })
        };
        return (flags.contains(GzipProxied::NO_CACHE) && says(b"no-cache"))
            || (flags.contains(GzipProxied::NO_STORE) && says(b"no-store"))
            || (flags.contains(GzipProxied::PRIVATE) && says(b"private"));
    }
    let too_exact = (flags.contains(GzipProxied::NO_LAST_MODIFIED) && facts.has_last_modified)
        || (flags.contains(GzipProxied::NO_ETAG) && facts.has_etag);
    !too_exact
}

/// The quality of gzip in an `Accept-Encoding`, in thousandths; `None` if it is not accepted. As in nginx, the first `gzip` that
/// begins a word decides.
pub fn gzip_quality(value: &[u8]) -> Option<u16> {
    let word = b"gzip";
    let found = value.windows(word.len()).enumerate().find(|(at, window)| {
        window.eq_ignore_ascii_case(word)
            && at.checked_sub(1).is_none_or(|before| matches!(value.get(before), Some(b',' | b' ')))
    });
    let (at, _) = found?;
    let mut rest = value.get(at + word.len()..).unwrap_or_default();
    loop {
        rest = match rest {
            [] | [b',', ..] => return Some(QUALITY_MAX),
            [b' ', rest @ ..] => rest,
            [b';', rest @ ..] => return quality_above_zero(rest),
            _ => return None,
        };
    }
}

/// The quality of a coding without `q`, in thousandths.
pub const QUALITY_MAX: u16 = 1000;

/// What is behind `gzip;`.
fn quality_above_zero(text: &[u8]) -> Option<u16> {
    let text = text.trim_ascii_start();
    let digits = match text {
        [] => return Some(QUALITY_MAX),
        [b'q' | b'Q', b'=', digits @ ..] => digits,
        _ => return None,
    };
    let digits = digits.split(|byte| matches!(byte, b',' | b' ')).next().unwrap_or_default();
    thousandths(digits).filter(|&quality| quality > 0)
}

/// A quality from 0 to 1, with three decimals at most; `None` for other texts.
fn thousandths(digits: &[u8]) -> Option<u16> {
    match digits {
        [b'1'] => Some(QUALITY_MAX),
        [b'1', b'.', zeros @ ..] => (zeros.len() <= 3 && zeros.iter().all(|&byte| byte == b'0')).then_some(QUALITY_MAX),
        [b'0'] => Some(0),
        [b'0', b'.', parts @ ..] => (parts.len() <= 3 && parts.iter().all(u8::is_ascii_digit)).then(|| {
            let value = parts.iter().fold(0, |sum, &digit| sum * 10 + u16::from(digit - b'0'));
            value * 10_u16.pow(3 - parts.len() as u32)
        }),
        _ => None,
    }
}

/// The quality of brotli or zstd in an `Accept-Encoding`, in thousandths; `None` if it is not accepted. As in their
/// modules, a quality that cannot be read counts as the highest.
pub fn coding_quality(value: &[u8], coding: &[u8]) -> Option<u16> {
    let (_, parameters) = value.split(|&byte| byte == b',').find_map(|part| {
        let end = part.iter().position(|&byte| byte == b';').unwrap_or(part.len());
        let (name, parameters) = part.split_at(end);
        name.trim_ascii().eq_ignore_ascii_case(coding).then_some((name, parameters))
    })?;
    let quality = parameters.split(|&byte| byte == b';').find_map(|parameter| {
        let (name, digits) = parameter.split_at(parameter.iter().position(|&byte| byte == b'=')?);
        name.trim_ascii().eq_ignore_ascii_case(b"q").then(|| digits[1..].trim_ascii())
    });
    Some(quality.and_then(thousandths).unwrap_or(QUALITY_MAX)).filter(|&quality| quality > 0)
}

/// `gzip_disable msie6`: MSIE 4 to 6, but for 6 in Windows XP SP2.
pub fn is_msie6(agent: &[u8]) -> bool {
    let has = |text: &[u8], word: &[u8]| text.windows(word.len()).any(|window| window == word);
    let Some(at) = agent.windows(5).position(|window| window == b"MSIE ") else { return false };
    let version = agent.get(at + 5..).unwrap_or_default();
    let is_old = match version {
        [b'4' | b'5', b'.', ..] => true,
        [b'6', b'.', rest @ ..] => !has(rest, b"SV1"),
        _ => false,
    };
    is_old && !has(agent, b"Opera")
}

/// A tag for other bytes of the same meaning; `None` for what is no tag.
pub fn weak_tag(tag: &[u8]) -> Option<Vec<u8>> {
    match tag {
        [b'W', b'/', ..] => Some(tag.to_vec()),
        [b'"', ..] => Some([b"W/", tag].concat()),
        _ => None,
    }
}

/// How many times smaller it has become, with two decimals: `$gzip_ratio`.
pub fn ratio(before: u64, after: u64) -> Option<String> {
    let hundredths = (u128::from(before) * 1000).checked_div(u128::from(after))?;
    // As in nginx 2.125 becomes 2.13.
    let rounded = hundredths / 10 + u128::from(hundredths % 10 > 4);
    Some(format!("{}.{:02}", rounded / 100, rounded % 100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accept_encoding_as_nginx_reads_it() {
        for (value, expected) in [
            ("gzip", true),
            ("gzip, deflate, br", true),
            ("GZip", true),
            ("deflate, gzip", true),
            ("deflate,gzip;q=1.0", true),
            ("gzip;q=0.001", true),
            ("gzip ; q=0.5", true),
            ("gzip;", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip;q=2", false),
            ("gzip;q=1.001", false),
            ("gzip;q=0.0001", false),
            ("gzip;x=1", false),
            ("x-gzip", false),
            ("gzipx", false),
            ("x-gzip, gzip", true),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(gzip_quality(value.as_bytes()).is_some(), expected, "{value:?}");
        }
    }

    #[test]
    fn old_browsers_are_known() {
        for (agent, expected) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", false),
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", true),
            ("Mozilla/4.0 (compatible; MSIE 6.0; X) Opera 7.0", false),
            ("Mozilla/4.0 (compatible; MSIE 7.0)", false),
            ("MSIE ", false),
        ] {
            assert_eq!(is_msie6(agent.as_bytes()), expected, "{agent}");
        }
    }

    #[test]
    fn tags_become_weak() {
        assert_eq!(weak_tag(b"\"x\"").as_deref(), Some(&b"W/\"x\""[..]));
        assert_eq!(weak_tag(b"W/\"x\"").as_deref(), Some(&b"W/\"x\""[..]));
        assert_eq!((weak_tag(b"x"), weak_tag(b"")), (None, None));
    }

    #[test]
    fn responses_for_proxies() {
        let none = ProxiedFacts::default();
        let allowed = is_proxied_allowed;
        assert!(!allowed(GzipProxied::OFF, &none) && allowed(GzipProxied::ANY, &none));
        let control = |value: &'static [u8]| ProxiedFacts { cache_control: Some(value), ..none };
        assert!(allowed(GzipProxied::NO_CACHE, &control(b"max-age=1, No-Cache")));
        assert!(!allowed(GzipProxied::NO_STORE, &control(b"no-cache")));
        assert!(allowed(GzipProxied::PRIVATE, &control(b"private=\"x\"")));
        assert!(allowed(GzipProxied::EXPIRED, &ProxiedFacts { expired: Some(true), ..none }));
        assert!(!allowed(GzipProxied::EXPIRED, &ProxiedFacts { expired: Some(false), ..none }));
        assert!(!allowed(GzipProxied::NO_CACHE, &ProxiedFacts { expired: Some(true), ..none }));
        assert!(allowed(GzipProxied::AUTH, &ProxiedFacts { authorized: true, expired: Some(false), ..none }));
        assert!(!allowed(GzipProxied::NO_ETAG, &ProxiedFacts { has_etag: true, ..none }));
        assert!(allowed(GzipProxied::NO_LAST_MODIFIED, &ProxiedFacts { has_etag: true, ..none }));
    }

    #[test]
    fn ratios_are_rounded() {
        assert_eq!(ratio(2125, 1000).as_deref(), Some("2.13"));
        assert_eq!(ratio(1999, 1000).as_deref(), Some("2.00"));
        assert_eq!((ratio(0, 20).as_deref(), ratio(1, 0)), (Some("0.00"), None));
    }

    #[test]
    fn the_quality_of_a_coding_is_read() {
        for (value, expected) in [
            ("br", Some(1000)),
            ("gzip, deflate, br, zstd", Some(1000)),
            ("BR;q=0.5", Some(500)),
            ("gzip;q=1, br ; q = 0.25", Some(250)),
            ("br;q=0", None),
            ("br;q=0.000", None),
            ("br;q=1.000", Some(1000)),
            ("br;q=0.001", Some(1)),
            ("br;q=7", Some(1000)),
            ("br;level=4", Some(1000)),
            ("br;", Some(1000)),
            ("brx, xbr", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(coding_quality(value.as_bytes(), b"br"), expected, "{value:?}");
        }
        assert_eq!(gzip_quality(b"br, gzip;q=0.75"), Some(750));
        assert_eq!(gzip_quality(b"gzip;q=1.000"), Some(1000));
    }

    proptest! {
        #[test]
        fn any_coding_is_read(value in prop::collection::vec(any::<u8>(), 0..60), nearly in "[brzstd;,q=.0-9 ]{0,20}") {
            for value in [&value[..], nearly.as_bytes()] {
                let qualities = [coding_quality(value, b"br"), coding_quality(value, b"zstd"), gzip_quality(value)];
                prop_assert!(qualities.into_iter().flatten().all(|quality| (1..=QUALITY_MAX).contains(&quality)));
            }
        }

        #[test]
        fn any_bytes_are_read(value in prop::collection::vec(any::<u8>(), 0..60), nearly in "[gzip;,q=.0-9 ]{0,20}") {
            let _ = (gzip_quality(&value), is_msie6(&value), weak_tag(&value), gzip_quality(nearly.as_bytes()));
        }
    }
}
