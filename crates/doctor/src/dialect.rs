//! The program and version that a configuration is written for, and the changes between nginx versions that rules
//! depend on.

use std::fmt;
use std::str::FromStr;

/// A version of nginx, as in 1.26.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u16,
    minor: u16,
    /// Absent if only the branch is known.
    patch: Option<u16>,
}

/// The program whose defaults a configuration is read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// nginx of this version.
    Nginx(Version),
    /// Holdfast: the defaults of nginx 1.31, with one pool for the whole process.
    #[default]
    Holdfast,
}

/// Since this version HTTP/1.1 to upstreams and `keepalive 32 local` in every `upstream {}` are the default; `keepalive
/// 0` turns it off.
const POOLS_BY_DEFAULT: Version = Version::new(1, 29, 7);
/// Since this version `server … resolve` and `resolver` may be in an `upstream {}`.
const SERVERS_ARE_RESOLVED: Version = Version::new(1, 27, 3);
/// Since this version TLS 1.0 and 1.1 are off by default.
const OLD_TLS_IS_OFF: Version = Version::new(1, 27, 3);

impl Version {
    /// `major.minor.patch`.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch: Some(patch) }
    }

    /// A branch alone counts as its last release: "1.27" has a directive that came with 1.27.3.
    fn has(self, since: Self) -> bool {
        (self.major, self.minor, self.patch.unwrap_or(u16::MAX))
            >= (since.major, since.minor, since.patch.unwrap_or_default())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// Text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a version: write it as in nginx-1.26, nginx-1.26.3 or holdfast")]
pub struct DialectError(String);

impl FromStr for Version {
    type Err = DialectError;

    fn from_str(text: &str) -> Result<Self, DialectError> {
        let numbers: Option<Vec<u16>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some([major, minor]) => Ok(Self { major: *major, minor: *minor, patch: None }),
            Some([major, minor, patch]) => Ok(Self::new(*major, *minor, *patch)),
            _ => Err(DialectError(text.to_owned())),
        }
    }
}

impl FromStr for Dialect {
    type Err = DialectError;

    fn from_str(text: &str) -> Result<Self, DialectError> {
        if text == "holdfast" {
            return Ok(Self::Holdfast);
        }
        let version = text.strip_prefix("nginx-").or_else(|| text.strip_prefix("nginx/"));
        version.ok_or_else(|| DialectError(text.to_owned()))?.parse().map(Self::Nginx)
    }
}

impl Dialect {
    /// The version in Debian 12.
    pub const NGINX_1_22: Self = Self::Nginx(Version::new(1, 22, 1));
    /// The version in Debian 13, the most common stable one. Used if no nginx is found. For the rules, 1.18 to 1.28 are
    /// equivalent.
    pub const NGINX_1_26: Self = Self::Nginx(Version::new(1, 26, 3));
    /// The stable branch with the changes of 1.29.7.
    pub const NGINX_1_30: Self = Self::Nginx(Version::new(1, 30, 0));

    fn has(self, since: Version) -> bool {
        match self {
            Self::Nginx(version) => version.has(since),
            Self::Holdfast => true,
        }
    }

    /// Whether an `upstream {}` without `keepalive` keeps connections.
    pub fn pools_by_default(self) -> bool {
        self.has(POOLS_BY_DEFAULT)
    }

    /// The default of `proxy_http_version`.
    pub fn upstream_version(self) -> &'static str {
        if self.pools_by_default() { "1.1" } else { "1.0" }
    }

    /// Whether `server NAME resolve` and `resolver` may appear in an `upstream {}`.
    pub fn resolves_servers(self) -> bool {
        self.has(SERVERS_ARE_RESOLVED)
    }

    /// Whether a TLS listener without `ssl_protocols` accepts TLS 1.0 and 1.1.
    pub fn accepts_old_tls(self) -> bool {
        !self.has(OLD_TLS_IS_OFF)
    }

    /// Whether it has a directive that came with that version. `since` is the table's: `holdfast` for ours, empty if
    /// unknown.
    pub fn has_directive(self, since: &str) -> bool {
        match since {
            "holdfast" => self == Self::Holdfast,
            since => since.parse().map_or(true, |since| self.has(since)),
        }
    }

    /// The usual name.
    pub fn name(self) -> String {
        match self {
            Self::Nginx(version) => format!("nginx {version}"),
            Self::Holdfast => "holdfast".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Dialect {
        text.parse().expect("a dialect")
    }

    #[test]
    fn versions_know_when_directives_came() {
        assert!(!of("nginx-1.22").pools_by_default() && !of("nginx-1.29.6").pools_by_default());
        assert!(of("nginx-1.29.7").pools_by_default() && of("nginx-1.30").pools_by_default());
        assert!(of("nginx-1.31").pools_by_default() && of("holdfast").pools_by_default());
        assert!(!of("nginx-1.26.3").resolves_servers() && of("nginx-1.28").resolves_servers());
        assert!(of("nginx-1.26.3").accepts_old_tls() && !of("nginx-1.30.6").accepts_old_tls());
        assert!(of("nginx-1.22.1").has_directive("1.9.1") && !of("nginx-1.22.1").has_directive("1.25.1"));
        assert!(of("holdfast").has_directive("holdfast") && !of("nginx-1.30").has_directive("holdfast"));
    }

    #[test]
    fn names_are_read_and_written() {
        assert_eq!((of("nginx-1.26").name(), of("nginx/1.26.3").name()), ("nginx 1.26".into(), "nginx 1.26.3".into()));
        for wrong in ["nginx", "1.26", "nginx-x", "nginx-1", "nginx-1.2.3.4", ""] {
            assert!(wrong.parse::<Dialect>().is_err(), "{wrong}");
        }
    }
}
