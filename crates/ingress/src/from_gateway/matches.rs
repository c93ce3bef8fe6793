//! Matches of rules: in which order they are tried, and the words of `route_to` that mean the same.

use super::hostname::precision;
use super::status::Fault;
use crate::objects::routes::{GrpcMatch, HttpMatch, PathMatch, ValueMatch};
use std::cmp::Reverse;

/// Longest text of a match that is taken. Values of the API are shorter.
const TEXT_MAX: usize = 4096;

/// Which paths a match wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Path {
    /// This path.
    Exact(String),
    /// This path and all below it. It has no slash at its end; the root is empty.
    Prefix(String),
    /// An expression that matches the whole path.
    Regex(String),
}

impl Path {
    fn of(written: Option<&PathMatch>) -> Result<Self, Fault> {
        let value = written.and_then(|path| path.value.as_deref()).unwrap_or("/");
        let kind = written.and_then(|path| path.kind.as_deref()).unwrap_or("PathPrefix");
        if value.len() > TEXT_MAX {
            return Err(Fault::new("UnsupportedValue", "a path is too long"));
        }
        match kind {
            "Exact" | "PathPrefix" if !value.starts_with('/') => {
                Err(Fault::new("UnsupportedValue", format!("the path {value:?} does not begin with a slash")))
            }
            "Exact" => Ok(Self::Exact(value.to_owned())),
            "PathPrefix" => Ok(Self::Prefix(value.trim_end_matches('/').to_owned())),
            "RegularExpression" => Ok(Self::Regex(whole(value))),
            other => Err(Fault::new("UnsupportedValue", format!("the path type {other} is not supported"))),
        }
    }

    /// Whether requests for an exact path, or below a prefix, can meet this match.
    pub(crate) fn covers(&self, place: &Place) -> bool {
        match (self, place) {
            (Self::Regex(_), _) => true,
            (Self::Exact(path), Place::Exact(other)) => path == other,
            (Self::Exact(_), Place::Below(_)) => false,
            (Self::Prefix(prefix), Place::Exact(path)) => is_below(prefix, path),
            (Self::Prefix(prefix), Place::Below(other)) => is_below(prefix, other),
        }
    }

    /// The places at which requests of this match are found.
    pub(crate) fn places(&self) -> Vec<Place> {
        match self {
            Self::Exact(path) => vec![Place::Exact(path.clone())],
            Self::Prefix(prefix) if prefix.is_empty() => vec![Place::Below(String::new())],
            Self::Prefix(prefix) => vec![Place::Exact(prefix.clone()), Place::Below(prefix.clone())],
            Self::Regex(_) => vec![Place::Below(String::new())],
        }
    }

    fn rank(&self) -> (u8, Reverse<usize>) {
        match self {
            Self::Exact(path) => (0, Reverse(path.len())),
            Self::Regex(pattern) => (1, Reverse(pattern.len())),
            Self::Prefix(prefix) => (2, Reverse(prefix.len())),
        }
    }

    /// The prefix that filters can replace.
    pub(crate) fn prefix(&self) -> Option<&str> {
        match self {
            Self::Prefix(prefix) => Some(prefix),
            Self::Exact(path) => Some(path.trim_end_matches('/')),
            Self::Regex(_) => None,
        }
    }
}

fn is_below(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A set of paths that one location has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// This path.
    Exact(String),
    /// All that begin with this and a slash.
    Below(String),
}

/// A match with its conditions besides the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) path: Path,
    /// Words of `route_to`.
    pub(crate) words: Vec<String>,
    has_method: bool,
    headers: usize,
    arguments: usize,
}

/// The precedence of a match, as the specification has it: less is tried first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    hostname: Reverse<(bool, usize)>,
    path: (u8, Reverse<usize>),
    has_method: Reverse<bool>,
    headers: Reverse<usize>,
    arguments: Reverse<usize>,
    age: (String, String, String),
    /// The number of the rule, and of the match.
    order: (usize, usize),
}

impl Match {
    /// The match of an `HTTPRoute`.
    pub(crate) fn of_http(written: &HttpMatch) -> Result<Self, Fault> {
        let path = Path::of(written.path.as_ref())?;
        let mut words = Vec::new();
        if let Path::Regex(pattern) = &path {
            words.push(format!("~$uri={pattern}"));
        }
        if let Some(method) = &written.method {
            words.push(format!("method={method}"));
        }
        let headers = add_conditions("header", &written.headers, &mut words)?;
        let arguments = add_conditions("arg", &written.query_params, &mut words)?;
        Ok(Self { path, words, has_method: written.method.is_some(), headers, arguments })
    }

    /// The match of a `GRPCRoute`.
    pub(crate) fn of_grpc(written: &GrpcMatch) -> Result<Self, Fault> {
        let method = written.method.clone().unwrap_or_default();
        let part = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (service, name) = (part(method.service), part(method.method));
        let is_regex = match method.kind.as_deref() {
            None | Some("Exact") => false,
            Some("RegularExpression") => true,
            Some(other) => {
                return Err(Fault::new("UnsupportedValue", format!("the method type {other} is not supported")));
            }
        };
        let mut words = Vec::new();
        let path = match (is_regex, service, name) {
            (_, None, None) => Path::Prefix(String::new()),
            (false, Some(service), Some(name)) => Path::Exact(format!("/{service}/{name}")),
            (false, Some(service), None) => Path::Prefix(format!("/{service}")),
            (false, None, Some(name)) => Path::Regex(format!("^/[^/]+/{}$", quoted(&name))),
            (true, service, name) => {
                let any = || "[^/]+".to_owned();
                Path::Regex(format!("^/(?:{})/(?:{})$", service.unwrap_or_else(any), name.unwrap_or_else(any)))
            }
        };
        if let Path::Regex(pattern) = &path {
            words.push(format!("~$uri={pattern}"));
        }
        let headers = add_conditions("header", &written.headers, &mut words)?;
        Ok(Self { path, words, has_method: false, headers, arguments: 0 })
    }

    /// Its precedence for a hostname of its route.
    pub(crate) fn rank(&self, hostname: &str, age: (&str, &str, &str), order: (usize, usize)) -> Rank {
        Rank {
            hostname: Reverse(precision(hostname)),
            path: self.path.rank(),
            has_method: Reverse(self.has_method),
            headers: Reverse(self.headers),
            arguments: Reverse(self.arguments),
            age: (age.0.to_owned(), age.1.to_owned(), age.2.to_owned()),
            order,
        }
    }
}

/// Adds conditions on fields or arguments. Of several with one name only the first counts, as the specification wants it.
fn add_conditions(subject: &str, written: &[ValueMatch], words: &mut Vec<String>) -> Result<usize, Fault> {
    let mut seen: Vec<String> = Vec::new();
    for each in written {
        let name = if subject == "header" { each.name.to_ascii_lowercase() } else { each.name.clone() };
        if seen.contains(&name) {
            continue;
        }
        if each.value.len() > TEXT_MAX || name.is_empty() || name.contains('=') {
            return Err(Fault::new("UnsupportedValue", format!("a condition on {name:?} is not supported")));
        }
        match each.kind.as_deref() {
            None | Some("Exact") => words.push(format!("{subject}:{name}={}", each.value)),
            Some("RegularExpression") => words.push(format!("~{subject}:{name}={}", whole(&each.value))),
            Some(other) => {
                return Err(Fault::new("UnsupportedValue", format!("the match type {other} is not supported")));
            }
        }
        seen.push(name);
    }
    Ok(seen.len())
}

/// An expression that matches a whole text.
fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

/// A text as an expression that matches it alone.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(character);
    }
    out
}
