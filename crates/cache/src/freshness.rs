//! How long a response stays fresh, according to its fields. The fields and their order of precedence are nginx's:
//! `X-Accel-Expires`, then `Cache-Control`, then `Expires`; `Set-Cookie` and some `Vary` forbid storing. RFC 9111 and
//! RFC 5861 are the background.

/// A field that affects storing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// `X-Accel-Expires`
    AccelExpires,
    /// `Cache-Control`
    CacheControl,
    /// `Expires`
    Expires,
    /// `Set-Cookie`
    SetCookie,
    /// `Vary`
    Vary,
}

/// Fields that are ignored (`proxy_ignore_headers`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored {
    /// `X-Accel-Expires`
    pub accel_expires: bool,
    /// `Cache-Control`
    pub cache_control: bool,
    /// `Expires`
    pub expires: bool,
    /// `Set-Cookie`
    pub set_cookie: bool,
    /// `Vary`
    pub vary: bool,
}

/// What a response says about storing it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Freshness {
    /// Until when it is fresh, in seconds since the epoch; 0 if it does not say.
    pub valid_until: i64,
    /// Seconds after that in which it may be used while it is revalidated (`stale-while-revalidate`).
    pub updating_s: i64,
    /// Seconds after that in which it may be used in place of an error (`stale-if-error`).
    pub error_s: i64,
    /// Its `Vary`, unless that is ignored.
    pub vary: Vec<u8>,
    by_accel: bool,
    no_cache: bool,
    expired: bool,
    refused: bool,
}

/// Longer than any sensible lifetime; keeps sums of times in range.
const SECONDS_MAX: i64 = 1 << 40;

impl Freshness {
    /// Reads the fields of a response in their order. `date` reads an HTTP date as seconds since the epoch.
    pub fn read<'a>(
        fields: impl IntoIterator<Item = (Said, &'a [u8])>,
        ignored: Ignored,
        now_s: i64,
        date: impl Fn(&[u8]) -> Option<i64>,
    ) -> Self {
        let mut this = Self::default();
        for (field, value) in fields {
            match field {
                Said::AccelExpires if !ignored.accel_expires => this.accel_expires(value, now_s),
                Said::CacheControl if !ignored.cache_control => this.cache_control(value, now_s),
                Said::Expires if !ignored.expires && this.valid_until == 0 => match date(value) {
                    Some(at) if at >= now_s => this.valid_until = at.min(now_s.saturating_add(SECONDS_MAX)),
                    _ => this.expired = true,
                },
                Said::SetCookie if !ignored.set_cookie => this.refused = true,
                Said::Vary if !ignored.vary => {
                    if !this.vary.is_empty() {
                        this.vary.extend_from_slice(b", ");
                    }
                    this.vary.extend_from_slice(value);
                }
                _ => {}
            }
        }
        this.refused |= !crate::vary::is_kept_apart(&this.vary);
        this
    }

    /// Whether its fields permit storing it.
    pub fn allows(&self) -> bool {
        !self.no_cache && !self.expired && !self.refused
    }

    fn accel_expires(&mut self, value: &[u8], now_s: i64) {
        let at = match value.strip_prefix(b"@") {
            Some(time) => digits(time),
            None => match digits(value) {
                Some(0) => return self.refused = true,
                Some(seconds) => Some(now_s.saturating_add(seconds)),
                None => return,
            },
        };
        let Some(at) = at else { return };
        self.valid_until = at;
        self.by_accel = true;
        self.no_cache = false;
        self.expired = false;
    }

    fn cache_control(&mut self, value: &[u8], now_s: i64) {
        if !self.by_accel {
            if [&b"no-cache"[..], b"no-store", b"private"].into_iter().any(|word| find(value, word).is_some()) {
                self.no_cache = true;
                return;
            }
            match seconds(value, b"s-maxage=").or_else(|| seconds(value, b"max-age=")) {
                Some(Ok(0)) => return self.no_cache = true,
                Some(Ok(seconds)) => {
                    self.valid_until = now_s.saturating_add(seconds);
                    self.expired = false;
                }
                Some(Err(())) => return self.refused = true,
                None => {}
            }
        }
        match seconds(value, b"stale-while-revalidate=") {
            Some(Ok(seconds)) => {
                self.updating_s = seconds;
                self.error_s = seconds;
            }
            Some(Err(())) => return self.refused = true,
            None => {}
        }
        match seconds(value, b"stale-if-error=") {
            Some(Ok(seconds)) => self.error_s = seconds,
            Some(Err(())) => self.refused = true,
            None => {}
        }
    }
}

/// Whether a `Cache-Control` permits storing the response to a request with `Authorization` (RFC 9111 section 3.5).
pub fn allows_authorized(cache_control: &[u8]) -> bool {
    cache_control.split(|&byte| byte == b',').any(|word| {
        let word = word.trim_ascii();
        let name = word.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii();
        [&b"public"[..], b"s-maxage", b"must-revalidate"].into_iter().any(|known| name.eq_ignore_ascii_case(known))
    })
}

/// The position of a word in a text, in any case.
fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word))
}

/// The number after a word, as nginx reads it: up to a comma, a semicolon or a blank. The error: it is no number.
fn seconds(text: &[u8], word: &[u8]) -> Option<Result<i64, ()>> {
    let rest = &text[find(text, word)? + word.len()..];
    let end = rest.iter().position(|byte| b",; ".contains(byte)).unwrap_or(rest.len());
    Some(if end == 0 { Ok(0) } else { digits(&rest[..end]).ok_or(()) })
}

fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    Some(text.iter().fold(0, add).min(SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1000;

    fn read(fields: &[(Said, &str)]) -> Freshness {
        read_with(fields, Ignored::default())
    }

    fn read_with(fields: &[(Said, &str)], ignored: Ignored) -> Freshness {
        let fields = fields.iter().map(|(field, value)| (*field, value.as_bytes()));
        Freshness::read(fields, ignored, NOW, |value| std::str::from_utf8(value).ok()?.parse().ok())
    }

    #[test]
    fn cache_control_sets_the_lifetime() {
        use Said::CacheControl;
        for (value, until, allows) in [
            ("max-age=10", 1010, true),
            ("MAX-AGE=10", 1010, true),
            ("max-age=10, s-maxage=20", 1020, true),
            ("public, max-age=7", 1007, true),
            ("max-age=0", 0, false),
            ("max-age=", 0, false),
            ("max-age=x", 0, false),
            ("max-age=1x", 0, false),
            ("no-cache", 0, false),
            ("max-age=10, private", 0, false),
            ("no-store", 0, false),
            ("public", 0, true),
            ("max-age=99999999999999999999999", NOW + SECONDS_MAX, true),
        ] {
            let said = read(&[(CacheControl, value)]);
            assert_eq!((said.valid_until, said.allows()), (until, allows), "{value}");
        }
    }

    #[test]
    fn fields_have_their_order_of_precedence() {
        use Said::{AccelExpires, CacheControl, Expires, SetCookie};
        let until = |fields: &[(Said, &str)]| Some(read(fields)).filter(Freshness::allows).map(|said| said.valid_until);
        assert_eq!(until(&[(Expires, "1005"), (CacheControl, "max-age=10")]), Some(1010));
        assert_eq!(until(&[(CacheControl, "max-age=10"), (Expires, "1005")]), Some(1010));
        assert_eq!(until(&[(Expires, "5"), (CacheControl, "max-age=10")]), Some(1010), "Expires in the past");
        assert_eq!(until(&[(Expires, "5")]), None);
        assert_eq!(until(&[(Expires, "never")]), None);
        assert_eq!(until(&[(AccelExpires, "3"), (CacheControl, "no-cache"), (Expires, "1")]), Some(1003));
        assert_eq!(until(&[(CacheControl, "no-cache"), (Expires, "1"), (AccelExpires, "3")]), Some(1003));
        assert_eq!(until(&[(AccelExpires, "@1234")]), Some(1234));
        assert_eq!(until(&[(AccelExpires, "0"), (CacheControl, "max-age=10")]), None);
        assert_eq!(until(&[(AccelExpires, "-1"), (CacheControl, "max-age=10")]), Some(1010));
        assert_eq!(until(&[(CacheControl, "max-age=10"), (SetCookie, "a=b")]), None);
        assert_eq!(until(&[]), Some(0), "`proxy_cache_valid` has the say");
    }

    #[test]
    fn ignored_fields_have_no_effect() {
        use Said::{AccelExpires, CacheControl, Expires, SetCookie, Vary};
        let all = Ignored { accel_expires: true, cache_control: true, expires: true, set_cookie: true, vary: true };
        let fields = [(AccelExpires, "0"), (CacheControl, "no-store"), (Expires, "1"), (SetCookie, "a=b"), (Vary, "*")];
        assert_eq!(read_with(&fields, all), Freshness::default());
        assert!(!read(&fields).allows());
    }

    #[test]
    fn stale_windows_follow_rfc_5861() {
        use Said::CacheControl;
        let said = read(&[(CacheControl, "max-age=1, stale-while-revalidate=30, stale-if-error=60")]);
        assert_eq!((said.updating_s, said.error_s), (30, 60));
        let said = read(&[(CacheControl, "max-age=1, stale-while-revalidate=30")]);
        assert_eq!((said.updating_s, said.error_s), (30, 30), "as in nginx");
    }

    #[test]
    fn several_vary_are_one_list() {
        let said = read(&[(Said::Vary, "Accept"), (Said::Vary, "Cookie")]);
        assert_eq!(said.vary, b"Accept, Cookie");
        assert!(!read(&[(Said::Vary, "Accept"), (Said::Vary, "*")]).allows());
    }

    #[test]
    fn authorized_responses_are_kept_by_permission() {
        for (value, allowed) in [
            ("public", true),
            ("max-age=1, s-maxage=3", true),
            ("Must-Revalidate", true),
            ("max-age=60", false),
            ("republican", false),
            ("", false),
        ] {
            assert_eq!(allows_authorized(value.as_bytes()), allowed, "{value}");
        }
    }
}
