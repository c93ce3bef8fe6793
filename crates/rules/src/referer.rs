//! `valid_referers`: whether the page that a request comes from is one of those that may link here.

use crate::name_table::NameTable;
use crate::pattern::{MatchError, Pattern};
use crate::server_name::ServerName;

/// The shortest value that is looked at: `http://i.ru`.
const REFERER_BYTES_MIN: usize = 11;
/// The longest name of a host in it.
const HOST_BYTES_MAX: usize = 255;

/// The referring pages that are allowed.
#[derive(Debug, Clone, Default)]
pub struct Referers {
    /// Whether requests without the field are allowed.
    pub none: bool,
    /// Whether requests are allowed if the field does not begin with `http://` or `https://`.
    pub blocked: bool,
    names: NameTable,
    /// The beginning of the path for each name, by the name's number.
    paths: Vec<Vec<u8>>,
    /// Expressions over the whole value after its scheme.
    patterns: Vec<Pattern>,
    /// Expressions over the host.
    hosts: Vec<Pattern>,
}

impl Referers {
    /// Adds a host with the beginning of its pages' path; `false`: it is already there.
    pub fn add_name(&mut self, name: ServerName, path: &[u8]) -> bool {
        let number = self.paths.len() as u32;
        let is_new = match name {
            ServerName::Exact(name) => self.names.insert_exact(name, number),
            ServerName::Domain(name) => self.names.insert_domain(name, number),
            ServerName::Below(name) => self.names.insert_below(name, number),
            ServerName::Before(name) => self.names.insert_before(name, number),
            ServerName::Regex(pattern) => {
                self.hosts.push(pattern);
                return true;
            }
        };
        self.paths.push(path.to_vec());
        is_new
    }

    /// Adds an expression over what follows the scheme.
    pub fn add_pattern(&mut self, pattern: Pattern) {
        self.patterns.push(pattern);
    }

    /// Whether a name was added that is no expression.
    pub fn has_names(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether a request with this `Referer` is allowed.
    pub fn is_valid(&self, referer: Option<&[u8]>) -> Result<bool, MatchError> {
        if self.paths.is_empty() && self.patterns.is_empty() && self.hosts.is_empty() {
            return Ok(true);
        }
        let Some(referer) = referer else { return Ok(self.none) };
        let starts = |scheme: &[u8]| {
            let (start, rest) = referer.split_at_checked(scheme.len())?;
            (referer.len() >= REFERER_BYTES_MIN && start.eq_ignore_ascii_case(scheme)).then_some(rest)
        };
        let Some(rest) = starts(b"http://").or_else(|| starts(b"https://")) else { return Ok(self.blocked) };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b':')).unwrap_or(rest.len());
        if end > HOST_BYTES_MAX {
            return Ok(false);
        }
        let host = rest[..end].to_ascii_lowercase();
        if let Some((number, _)) = self.names.find(&host) {
            let path = &rest[end..];
            let path = &path[path.iter().position(|&byte| byte == b'/').unwrap_or(path.len())..];
            return Ok(self.paths.get(number as usize).is_some_and(|wanted| path.starts_with(wanted)));
        }
        for pattern in &self.hosts {
            if pattern.is_match(&host)? {
                return Ok(true);
            }
        }
        for pattern in &self.patterns {
            if pattern.is_match(rest)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::UserVariables;

    fn referers(words: &str) -> Referers {
        let mut referers = Referers::default();
        let mut users = UserVariables::default();
        for word in words.split(' ') {
            match word {
                "none" => referers.none = true,
                "blocked" => referers.blocked = true,
                _ if word.starts_with('~') => {
                    referers.add_pattern(Pattern::compile(&word.as_bytes()[1..], true, &mut users).expect("a pattern"));
                }
                _ => {
                    let (host, path) = word.find('/').map_or((word, ""), |slash| word.split_at(slash));
                    let name = ServerName::parse(host.as_bytes(), &mut users).expect("a name");
                    assert!(referers.add_name(name, path.as_bytes()));
                }
            }
        }
        referers
    }

    #[test]
    fn matches_pages_by_host_and_path() {
        let some = referers("blocked *.example.com www.site.* one.test/a/ ~\\.google\\.");
        for (referer, valid) in [
            ("http://www.example.com/x", true),
            ("HTTPS://WWW.EXAMPLE.COM:8080", true),
            ("http://example.com/", false),
            ("http://www.site.org/", true),
            ("http://one.test/a/b", true),
            ("http://one.test:80/a/b", true),
            ("http://one.test/", false),
            ("http://one.test", false),
            ("http://www.google.com/search", true),
            ("http://other.test/?q=.google.", true),
            ("http://other.test/", false),
            ("secret", true),
            ("ftp://www.example.com", true),
            ("http://i.r", true),
        ] {
            assert_eq!(some.is_valid(Some(referer.as_bytes())).ok(), Some(valid), "{referer}");
        }
        assert_eq!(some.is_valid(None).ok(), Some(false));
        let host = "a".repeat(256);
        assert_eq!(some.is_valid(Some(format!("http://{host}/").as_bytes())).ok(), Some(false));
        assert_eq!(referers("none a.test").is_valid(None).ok(), Some(true));
        assert_eq!(referers("a.test").is_valid(Some(b"x")).ok(), Some(false), "blocked is not allowed");
        assert_eq!(Referers::default().is_valid(None).ok(), Some(true), "nothing is asked");
    }
}
