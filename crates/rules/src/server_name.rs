//! Which server of a listen address a host belongs to: exact names, then the longest `*.example.com`, then the longest
//! `www.example.*`, then the regular expressions in their order, then the default server. The order is nginx's
//! (documentation, "Server names"). Built once for each address by the gateway, looked up once for each exchange.

use crate::captures::Captures;
use crate::name_table::{NameKind, NameTable};
use crate::pattern::{MatchError, Pattern};
use crate::variable::UserVariables;
use conf::diagnostic::Diagnostic;
use conf::source::Span;

/// Makes a wildcard of what is left without its `*` and dot.
type Form = fn(Vec<u8>) -> ServerName;

/// One argument of `server_name`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerName {
    /// `example.com`, or the empty name of requests without Host.
    Exact(Vec<u8>),
    /// `.example.com`: the name itself and everything below it. Without the dot.
    Domain(Vec<u8>),
    /// `*.example.com`: everything below the name. Without `*.`.
    Below(Vec<u8>),
    /// `www.example.*`: the name with anything behind it. Without `.*`.
    Before(Vec<u8>),
    /// `~^www\d+\.example\.com$`.
    Regex(Pattern),
}

impl ServerName {
    /// Parses one argument of `server_name`; the error is the text of a diagnostic. `$hostname` is replaced by the caller.
    pub fn parse(word: &[u8], users: &mut UserVariables) -> Result<Self, String> {
        let shown = String::from_utf8_lossy(word);
        if let Some(source) = word.strip_prefix(b"~") {
            if source.is_empty() {
                return Err(format!("empty regex in server name \"{shown}\""));
            }
            // Hosts are compared in lower case, so a capital in the expression can only be meant caselessly.
            let caseless = source.iter().any(u8::is_ascii_uppercase);
            return Pattern::compile(source, caseless, users).map(Self::Regex);
        }
        let lower = word.to_ascii_lowercase();
        let (form, rest): (Form, &[u8]) = if let Some(rest) = lower.strip_prefix(b"*.") {
            (Self::Below, rest)
        } else if let Some(rest) = lower.strip_prefix(b".") {
            (Self::Domain, rest)
        } else if let Some(rest) = lower.strip_suffix(b".*") {
            (Self::Before, rest)
        } else {
            return if lower.contains(&b'*') {
                Err(format!("invalid server name or wildcard \"{shown}\""))
            } else {
                Ok(Self::Exact(lower))
            };
        };
        if rest.is_empty() || rest.contains(&b'*') {
            return Err(format!("server name \"{shown}\" is invalid"));
        }
        Ok(form(rest.to_vec()))
    }
}

impl std::fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => write!(formatter, "{}", name.escape_ascii()),
            Self::Domain(name) => write!(formatter, ".{}", name.escape_ascii()),
            Self::Below(name) => write!(formatter, "*.{}", name.escape_ascii()),
            Self::Before(name) => write!(formatter, "{}.*", name.escape_ascii()),
            Self::Regex(pattern) => write!(formatter, "~{}", pattern.source()),
        }
    }
}

/// A name and the server that it leads to.
#[derive(Debug, Clone)]
pub struct NamedServer {
    /// Index of the server, chosen by the caller.
    pub server: u32,
    /// The name.
    pub name: ServerName,
    /// Where it was written.
    pub span: Span,
}

/// Why a host belongs to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedBy {
    /// The name itself.
    Exact,
    /// `*.example.com`
    LeadingWildcard,
    /// `www.example.*`
    TrailingWildcard,
    /// `~expression`
    Expression,
    /// No name is the host's: the default server.
    Default,
}

/// The server of a host.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'a> {
    /// Index of the server.
    pub server: u32,
    /// Which kind of its names is the host's.
    pub by: MatchedBy,
    /// The expression that matched, if one did: its named groups are to be stored in their slots.
    pub pattern: Option<&'a Pattern>,
}

/// All names of one listen address.
#[derive(Debug, Clone)]
pub struct ServerNames {
    default_server: u32,
    names: NameTable,
    patterns: Box<[(Pattern, u32)]>,
}

impl ServerNames {
    /// Builds the tables for the address `address` (as nginx prints it, `0.0.0.0:80`) from the names in the order of the
    /// configuration. A name that is already taken is ignored with a warning, as in nginx.
    pub fn build(address: &str, default_server: u32, names: Vec<NamedServer>) -> (Self, Vec<Diagnostic>) {
        let mut table = NameTable::default();
        let mut patterns = Vec::new();
        let mut warnings = Vec::new();
        for NamedServer { server, name, span } in names {
            let shown = name.to_string();
            let inserted = match name {
                ServerName::Exact(name) => table.insert_exact(name, server),
                ServerName::Below(name) => table.insert_below(name, server),
                ServerName::Before(name) => table.insert_before(name, server),
                ServerName::Domain(name) => table.insert_domain(name, server),
                ServerName::Regex(pattern) => {
                    patterns.push((pattern, server));
                    true
                }
            };
            if !inserted {
                let message = format!("conflicting server name \"{shown}\" on {address}, ignored");
                warnings.push(Diagnostic::warning(span, message));
            }
        }
        (Self { default_server, names: table, patterns: patterns.into() }, warnings)
    }

    /// The server for `host`, which is a [`crate::host::Host::name`] or empty if the request has none. `captures` is
    /// overwritten if an expression matches.
    pub fn lookup(&self, host: &[u8], captures: &mut Captures) -> Result<Matched<'_>, MatchError> {
        if let Some((server, kind)) = self.names.find(host) {
            let by = match kind {
                NameKind::Exact => MatchedBy::Exact,
                NameKind::Below => MatchedBy::LeadingWildcard,
                NameKind::Before => MatchedBy::TrailingWildcard,
            };
            return Ok(Matched { server, by, pattern: None });
        }
        if !host.is_empty() {
            for (pattern, server) in &self.patterns {
                if pattern.captures(host, captures)? {
                    return Ok(Matched { server: *server, by: MatchedBy::Expression, pattern: Some(pattern) });
                }
            }
        }
        Ok(Matched { server: self.default_server, by: MatchedBy::Default, pattern: None })
    }

    /// The server of requests that name no known host.
    pub fn default_server(&self) -> u32 {
        self.default_server
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::source::FileId;

    const DEFAULT: u32 = 99;
    const SPAN: Span = Span { file: FileId(0), start: 0, end: 0 };

    fn names(words: &[&str]) -> (ServerNames, Vec<Diagnostic>) {
        let mut users = UserVariables::default();
        let named = words.iter().enumerate().map(|(index, word)| NamedServer {
            server: index as u32,
            name: ServerName::parse(word.as_bytes(), &mut users).unwrap(),
            span: SPAN,
        });
        ServerNames::build("0.0.0.0:80", DEFAULT, named.collect())
    }

    fn server_of(names: &ServerNames, host: &str) -> u32 {
        names.lookup(host.as_bytes(), &mut Captures::default()).unwrap().server
    }

    #[test]
    fn exact_beats_wildcards_beat_expressions_beat_the_default() {
        let (names, _) = names(&["~^www\\.", "www.example.*", "*.example.com", "www.example.com"]);
        assert_eq!(server_of(&names, "www.example.com"), 3);
        assert_eq!(server_of(&names, "mail.example.com"), 2);
        assert_eq!(server_of(&names, "www.example.org"), 1);
        assert_eq!(server_of(&names, "www.other.org"), 0);
        assert_eq!(server_of(&names, "other.org"), DEFAULT);
    }

    #[test]
    fn a_match_has_its_kind() {
        let (names, _) = names(&["~^www\\.", "www.example.*", "*.example.com", "www.example.com"]);
        let by = |host: &str| names.lookup(host.as_bytes(), &mut Captures::default()).unwrap().by;
        assert_eq!(by("www.example.com"), MatchedBy::Exact);
        assert_eq!(by("mail.example.com"), MatchedBy::LeadingWildcard);
        assert_eq!(by("www.example.org"), MatchedBy::TrailingWildcard);
        assert_eq!(by("www.other.org"), MatchedBy::Expression);
        assert_eq!(by("other.org"), MatchedBy::Default);
    }

    #[test]
    fn the_longest_wildcard_wins_on_both_sides() {
        let (names, _) = names(&["*.org", "*.example.org", "*.a.example.org", "mail.*", "mail.example.*"]);
        assert_eq!(server_of(&names, "x.org"), 0);
        assert_eq!(server_of(&names, "x.example.org"), 1);
        assert_eq!(server_of(&names, "x.y.a.example.org"), 2);
        assert_eq!(server_of(&names, "mail.com"), 3);
        assert_eq!(server_of(&names, "mail.example.co.uk"), 4);
        assert_eq!(server_of(&names, "mail"), DEFAULT, "a trailing wildcard needs something behind the dot");
    }

    #[test]
    fn leading_wildcard_needs_a_label_but_the_dot_does_not() {
        let (names, _) = names(&["*.example.org", ".example.com"]);
        assert_eq!(server_of(&names, "example.org"), DEFAULT);
        assert_eq!(server_of(&names, "example.com"), 1);
        assert_eq!(server_of(&names, "a.b.example.com"), 1);
        assert_eq!(server_of(&names, "anexample.com"), DEFAULT);
    }

    #[test]
    fn empty_name_matches_requests_without_host() {
        let (names, _) = names(&["~.*", ""]);
        assert_eq!(server_of(&names, ""), 1);
        let (names, _) = self::names(&["~.*"]);
        assert_eq!(server_of(&names, ""), DEFAULT);
    }

    #[test]
    fn named_groups_reach_the_caller() {
        let (names, _) = names(&[r"~^(?<sub>\w+)\.example\.com$"]);
        let mut captures = Captures::default();
        let matched = names.lookup(b"shop.example.com", &mut captures).unwrap();
        let (group, _slot) = matched.pattern.unwrap().named()[0];
        assert_eq!(captures.group(usize::from(group)), Some(&b"shop"[..]));
    }

    #[test]
    fn names_and_expressions_with_capitals_are_caseless() {
        let (names, _) = names(&["WWW.Example.COM", "~^Shop"]);
        assert_eq!(server_of(&names, "www.example.com"), 0);
        assert_eq!(server_of(&names, "shop.example.com"), 1);
    }

    #[test]
    fn a_name_taken_twice_is_ignored_with_nginx_warning() {
        let (names, warnings) = names(&["a.com", "a.com", ".b.com", "*.b.com", "b.com"]);
        assert_eq!(server_of(&names, "a.com"), 0);
        assert_eq!(server_of(&names, "b.com"), 2);
        let messages: Vec<_> = warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "conflicting server name \"a.com\" on 0.0.0.0:80, ignored",
                "conflicting server name \"*.b.com\" on 0.0.0.0:80, ignored",
                "conflicting server name \"b.com\" on 0.0.0.0:80, ignored",
            ]
        );
    }

    #[test]
    fn a_wildcard_in_the_middle_is_refused() {
        for word in ["www.*.com", "*", "*com", "*.", ".", "a*.com", "*.a.*", "~"] {
            assert!(ServerName::parse(word.as_bytes(), &mut UserVariables::default()).is_err(), "{word}");
        }
    }
}
