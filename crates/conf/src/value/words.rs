//! Sets and names in arguments: methods, log levels, retry conditions, header names.

use super::plain::parse_choice;
use super::{Parsed, invalid_value};
use crate::diagnostic::Diagnostic;
use crate::tree::Word;

/// The severity of a line in the error log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// The system is unusable.
    Emerg,
    /// The operator has to act now.
    Alert,
    /// A critical condition.
    Crit,
    /// A request failed.
    Error,
    /// Worth a look.
    Warn,
    /// Normal but worth a line.
    Notice,
    /// Information, for example about clients that went away.
    Info,
    /// For debugging.
    Debug,
}

impl LogLevel {
    /// Reads a level. nginx's `debug_core` and its kin all mean `debug` here.
    pub fn parse(_name: &str, word: &Word) -> Parsed<Self> {
        const LEVELS: [(&str, LogLevel); 8] = [
            ("emerg", LogLevel::Emerg),
            ("alert", LogLevel::Alert),
            ("crit", LogLevel::Crit),
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("notice", LogLevel::Notice),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
        ];
        const DEBUG: [&str; 7] =
            ["debug_core", "debug_alloc", "debug_mutex", "debug_event", "debug_http", "debug_mail", "debug_stream"];
        if DEBUG.iter().any(|text| word.value == text.as_bytes()) {
            return Ok(Self::Debug);
        }
        let found = LEVELS.iter().find(|(text, _)| word.value == text.as_bytes());
        found.map(|&(_, level)| level).ok_or_else(|| {
            Diagnostic::error(word.span, format!("invalid log level \"{}\"", word.text()))
                .with_hint("one of `debug`, `info`, `notice`, `warn`, `error`, `crit`, `alert`, `emerg`")
        })
    }

    /// The level of `limit_req_log_level` and `limit_conn_log_level`, which accept four of them.
    pub(crate) fn parse_limit(_name: &str, word: &Word) -> Parsed<Self> {
        parse_choice(
            word,
            &[("info", Self::Info), ("notice", Self::Notice), ("warn", Self::Warn), ("error", Self::Error)],
        )
    }
}

macro_rules! bit_set {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$doc:meta])* $flag:ident = $text:literal $bits:expr;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$doc])* pub const $flag: Self = Self($bits);)*
            /// The words and their bits.
            pub const WORDS: &'static [(&'static str, Self)] = &[$(($text, Self::$flag)),*];

            /// Whether all of `other` is in the set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Both sets together.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Reads one word per argument. As in nginx, a repeated word is worth a warning.
            pub fn parse_set(words: &[Word], warnings: &mut Vec<Diagnostic>) -> Parsed<Self> {
                Self::parse_words(words, Self::WORDS, warnings)
            }

            /// The same with other words.
            pub fn parse_words(words: &[Word], known: &[(&str, Self)], warnings: &mut Vec<Diagnostic>) -> Parsed<Self> {
                let mut set = Self::default();
                for word in words {
                    let bits = parse_choice(word, known)?;
                    if set.0 & bits.0 != 0 {
                        warnings.push(Diagnostic::warning(word.span, format!("duplicate value \"{}\"", word.text())));
                    }
                    set = set.with(bits);
                }
                Ok(set)
            }
        }
    };
}

bit_set! {
    /// A set of request methods. `limit_except` with `GET` allows `HEAD` too; the model has added it.
    MethodSet: u32 {
        /// GET
        GET = "GET" 1;
        /// HEAD
        HEAD = "HEAD" 1 << 1;
        /// POST
        POST = "POST" 1 << 2;
        /// PUT
        PUT = "PUT" 1 << 3;
        /// DELETE
        DELETE = "DELETE" 1 << 4;
        /// MKCOL
        MKCOL = "MKCOL" 1 << 5;
        /// COPY
        COPY = "COPY" 1 << 6;
        /// MOVE
        MOVE = "MOVE" 1 << 7;
        /// OPTIONS
        OPTIONS = "OPTIONS" 1 << 8;
        /// PROPFIND
        PROPFIND = "PROPFIND" 1 << 9;
        /// PROPPATCH
        PROPPATCH = "PROPPATCH" 1 << 10;
        /// LOCK
        LOCK = "LOCK" 1 << 11;
        /// UNLOCK
        UNLOCK = "UNLOCK" 1 << 12;
        /// PATCH
        PATCH = "PATCH" 1 << 13;
    }
}

impl MethodSet {
    /// Reads the methods of `limit_except`.
    pub(crate) fn parse_limit_except(words: &[Word]) -> Parsed<Self> {
        let mut set = Self::default();
        for word in words {
            let found = Self::WORDS.iter().find(|(text, _)| word.value.eq_ignore_ascii_case(text.as_bytes()));
            let Some(&(_, bits)) = found else {
                return Err(Diagnostic::error(word.span, format!("invalid method \"{}\"", word.text())));
            };
            set = set.with(bits);
        }
        Ok(if set.contains(Self::GET) { set.with(Self::HEAD) } else { set })
    }
}

bit_set! {
    /// When a request is passed to the next peer (`proxy_next_upstream`).
    NextUpstream: u32 {
        /// A connection could not be made, or broke.
        ERROR = "error" 1;
        /// Connecting, sending or reading took too long.
        TIMEOUT = "timeout" 1 << 1;
        /// The response was empty or invalid.
        INVALID_HEADER = "invalid_header" 1 << 2;
        /// Also for POST, LOCK and PATCH.
        NON_IDEMPOTENT = "non_idempotent" 1 << 3;
        /// Status 500.
        HTTP_500 = "http_500" 1 << 4;
        /// Status 502.
        HTTP_502 = "http_502" 1 << 5;
        /// Status 503.
        HTTP_503 = "http_503" 1 << 6;
        /// Status 504.
        HTTP_504 = "http_504" 1 << 7;
        /// Status 403.
        HTTP_403 = "http_403" 1 << 8;
        /// Status 404.
        HTTP_404 = "http_404" 1 << 9;
        /// Status 429.
        HTTP_429 = "http_429" 1 << 10;
        /// Serve a stale cached response.
        UPDATING = "updating" 1 << 11;
        /// Never.
        OFF = "off" 1 << 31;
    }
}

bit_set! {
    /// Upstream response headers to ignore (`proxy_ignore_headers`).
    IgnoredHeaders: u32 {
        /// X-Accel-Redirect
        X_ACCEL_REDIRECT = "X-Accel-Redirect" 1;
        /// X-Accel-Expires
        X_ACCEL_EXPIRES = "X-Accel-Expires" 1 << 1;
        /// X-Accel-Limit-Rate
        X_ACCEL_LIMIT_RATE = "X-Accel-Limit-Rate" 1 << 2;
        /// X-Accel-Buffering
        X_ACCEL_BUFFERING = "X-Accel-Buffering" 1 << 3;
        /// X-Accel-Charset
        X_ACCEL_CHARSET = "X-Accel-Charset" 1 << 4;
        /// Expires
        EXPIRES = "Expires" 1 << 5;
        /// Cache-Control
        CACHE_CONTROL = "Cache-Control" 1 << 6;
        /// Set-Cookie
        SET_COOKIE = "Set-Cookie" 1 << 7;
        /// Vary
        VARY = "Vary" 1 << 8;
    }
}

bit_set! {
    /// When a response to a proxied request (one with `Via`) may be compressed (`gzip_proxied`).
    GzipProxied: u32 {
        /// Never.
        OFF = "off" 1;
        /// With `Expires` in the past.
        EXPIRED = "expired" 1 << 1;
        /// With `Cache-Control: no-cache`.
        NO_CACHE = "no-cache" 1 << 2;
        /// With `Cache-Control: no-store`.
        NO_STORE = "no-store" 1 << 3;
        /// With `Cache-Control: private`.
        PRIVATE = "private" 1 << 4;
        /// Without `Last-Modified`.
        NO_LAST_MODIFIED = "no_last_modified" 1 << 5;
        /// Without `ETag`.
        NO_ETAG = "no_etag" 1 << 6;
        /// With `Authorization` in the request.
        AUTH = "auth" 1 << 7;
        /// Always.
        ANY = "any" 1 << 8;
    }
}

bit_set! {
    /// Flags of the cookie of `userid` (`userid_flags`).
    UserIdFlags: u8 {
        /// None.
        OFF = "off" 1;
        /// The browser sends it over TLS only.
        SECURE = "secure" 1 << 1;
        /// Scripts cannot read it.
        HTTPONLY = "httponly" 1 << 2;
        /// Only requests from the site's own pages carry it.
        SAMESITE_STRICT = "samesite=strict" 1 << 3;
        /// Requests by links to the site carry it, too.
        SAMESITE_LAX = "samesite=lax" 1 << 4;
        /// Requests from all pages carry it.
        SAMESITE_NONE = "samesite=none" 1 << 5;
    }
}

bit_set! {
    /// Old browsers for which keepalive is off (`keepalive_disable`).
    KeepaliveDisable: u32 {
        /// For no browser.
        NONE = "none" 1;
        /// Old MSIE, after a POST.
        MSIE6 = "msie6" 1 << 1;
        /// Safari and similar browsers on macOS.
        SAFARI = "safari" 1 << 2;
    }
}

const HEADER_NAME_HINT: &str = "a header's name holds letters, digits and any of !#$%&'*+-.^_`|~";

fn is_header_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// A header's name: a token of RFC 9110.
pub fn parse_header_name(_name: &str, word: &Word) -> Parsed<String> {
    match std::str::from_utf8(&word.value) {
        Ok(text) if is_header_name(&word.value) => Ok(text.to_owned()),
        _ => Err(invalid_value(word).with_hint(HEADER_NAME_HINT)),
    }
}

/// Reads the name of a header to look for. Like nginx, it accepts anything, and warns about text that cannot be a name.
pub fn any_header_name(word: &Word, out: &mut Vec<Diagnostic>) -> String {
    if !is_header_name(&word.value) {
        let message = format!("no header is called \"{}\"", word.text());
        out.push(Diagnostic::warning(word.span, message).with_hint(HEADER_NAME_HINT));
    }
    word.text().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{LogLevel, MethodSet, NextUpstream};
    use crate::source::{FileId, Span};
    use crate::tree::{Quote, Word};

    fn words(text: &str) -> Vec<Word> {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        text.split(' ').map(|word| Word { value: word.into(), span, quote: Quote::Bare }).collect()
    }

    #[test]
    fn a_set_collects_its_words_and_warns_of_repetition() {
        let mut warnings = Vec::new();
        let set = NextUpstream::parse_set(&words("error timeout http_503 error"), &mut warnings).unwrap();
        assert!(set.contains(NextUpstream::ERROR.with(NextUpstream::TIMEOUT).with(NextUpstream::HTTP_503)));
        assert!(!set.contains(NextUpstream::HTTP_500));
        assert_eq!(warnings[0].message, "duplicate value \"error\"");
        let error = NextUpstream::parse_set(&words("http_501"), &mut warnings).unwrap_err();
        assert_eq!(error.message, "invalid value \"http_501\"");
    }

    #[test]
    fn get_brings_head_along() {
        assert!(MethodSet::parse_limit_except(&words("GET")).unwrap().contains(MethodSet::HEAD));
        assert!(!MethodSet::parse_limit_except(&words("POST")).unwrap().contains(MethodSet::HEAD));
        assert_eq!(MethodSet::parse_limit_except(&words("BREW")).unwrap_err().message, "invalid method \"BREW\"");
    }

    #[test]
    fn levels_are_ordered_by_gravity() {
        assert!(LogLevel::Emerg < LogLevel::Debug);
        assert_eq!(LogLevel::parse("error_log", &words("debug_http")[0]).unwrap(), LogLevel::Debug);
        assert_eq!(LogLevel::parse("error_log", &words("loud")[0]).unwrap_err().message, "invalid log level \"loud\"");
    }
}
