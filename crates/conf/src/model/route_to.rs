//! `route_to`: leads requests that meet conditions to a named location.

use super::rewrite::parse_variable;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::{Parsed, Regex};

/// Most `route_to` lines of one location: they are tried one after another for each request.
pub(crate) const ROUTES_MAX: usize = 4096;

/// One `route_to`. Not inherited.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteTo {
    /// The named location, without its `@`.
    pub name: String,
    /// All of them must hold; none: always.
    pub conditions: Vec<RouteCondition>,
    /// Where it was written.
    pub span: Span,
}

/// A condition on a request.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteCondition {
    /// What is compared.
    pub subject: RouteSubject,
    /// With what.
    pub test: RouteTest,
    /// Where it was written.
    pub span: Span,
}

/// What a condition compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteSubject {
    /// The method.
    Method,
    /// A field of the head; names are compared without case.
    Header(Vec<u8>),
    /// The first argument with this name; both are decoded before they are compared.
    Arg(Vec<u8>),
    /// A variable, without its `$`.
    Variable(String),
}

/// How a condition compares. The text is data: it has no variables.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteTest {
    /// The same bytes.
    Equal(Vec<u8>),
    /// An expression matches somewhere in it.
    Match(Regex),
}

/// Reads a `route_to`.
pub(crate) fn parse_route_to(directive: &Directive) -> Parsed<RouteTo> {
    let Some((target, conditions)) = directive.args.split_first() else {
        return Err(Diagnostic::error(directive.span, "invalid number of arguments in \"route_to\" directive"));
    };
    let Some(name) = target.value.strip_prefix(b"@").filter(|name| !name.is_empty()) else {
        let message = format!("invalid location \"{}\" in \"route_to\" directive", target.text());
        return Err(Diagnostic::error(target.span, message).with_hint("a named location, such as `@blue`"));
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let conditions = conditions.iter().map(parse_condition).collect::<Parsed<_>>()?;
    Ok(RouteTo { name, conditions, span: directive.span })
}

fn parse_condition(word: &Word) -> Parsed<RouteCondition> {
    let bytes = &word.value;
    let is_regex = bytes.starts_with(b"~");
    let written = bytes.strip_prefix(b"~").unwrap_or(bytes);
    let invalid = || {
        let message = format!("invalid condition \"{}\" in \"route_to\" directive", word.text());
        let hint = "`method=GET`, `header:NAME=text`, `arg:NAME=text`, `$variable=text`; a `~` before it makes the text \
                    an expression";
        Diagnostic::error(word.span, message).with_hint(hint)
    };
    let at = written.iter().position(|&byte| byte == b'=').ok_or_else(invalid)?;
    let (subject, text) = (&written[..at], &written[at + 1..]);
    let subject = if subject == b"method" {
        RouteSubject::Method
    } else if let Some(name) = subject.strip_prefix(b"header:").filter(|name| !name.is_empty()) {
        RouteSubject::Header(name.to_ascii_lowercase())
    } else if let Some(name) = subject.strip_prefix(b"arg:").filter(|name| !name.is_empty()) {
        RouteSubject::Arg(name.to_vec())
    } else if subject.starts_with(b"$") {
        RouteSubject::Variable(parse_variable(&Word { value: subject.into(), ..word.clone() })?)
    } else {
        return Err(invalid());
    };
    let test = if is_regex {
        RouteTest::Match(Regex::parse(word, bytes.len() - text.len(), false)?)
    } else {
        RouteTest::Equal(text.to_vec())
    };
    Ok(RouteCondition { subject, test, span: word.span })
}

/// Whether the location with these routes may have them: only a limited number.
pub(crate) fn check_count(routes: &[RouteTo]) -> Parsed<()> {
    match routes.get(ROUTES_MAX) {
        Some(route) => Err(Diagnostic::error(
            route.span,
            format!("more than {ROUTES_MAX} \"route_to\" directives in one location"),
        )),
        None => Ok(()),
    }
}
