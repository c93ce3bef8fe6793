//! `auth_jwt` and its kin: tokens that requests need, the keys for them, and variables of their claims.

use super::rewrite::parse_variable;
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::parse_choice;
use crate::value::template::has_variables;
use crate::value::time::{parse_milliseconds, parse_seconds};
use crate::value::{Parsed, Template, invalid_parameter, invalid_value, parameter};
use std::time::Duration;

settings! {
    /// The tokens that a location needs.
    pub struct JwtSettings {
        /// `None`: no token.
        check: Option<JwtCheck> = None, "auth_jwt" => whole(parse_check);
        /// Files of keys, relative to the folder of the configuration.
        key_files: Vec<Template> = Vec::new(), "auth_jwt_key_file" => each(Template::parse);
        /// URIs of subrequests for keys.
        key_requests: Vec<Template> = Vec::new(), "auth_jwt_key_request" => each(parse_key_request);
        /// How long keys are used without looking at their source.
        key_cache: Duration = Duration::ZERO, "auth_jwt_key_cache" => value(parse_milliseconds);
        /// How far clocks may differ.
        leeway: Duration = Duration::ZERO, "auth_jwt_leeway" => value(parse_seconds);
        /// The kind of token.
        kind: TokenKind = TokenKind::Signed, "auth_jwt_type" => value(parse_kind);
        /// Values that must be neither empty nor `0`.
        requires: Vec<JwtRequire> = Vec::new(), "auth_jwt_require" => item(parse_require);
    }
}

/// `auth_jwt`.
#[derive(Debug, Clone, PartialEq)]
pub struct JwtCheck {
    /// The realm of the challenge.
    pub realm: Template,
    /// What has the token; `None`: `Authorization: Bearer`.
    pub token: Option<Template>,
    /// Where it was written.
    pub span: Span,
}

/// `auth_jwt_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// JWS.
    Signed,
    /// JWE.
    Encrypted,
    /// A JWS inside a JWE.
    Nested,
}

/// `auth_jwt_require`.
#[derive(Debug, Clone, PartialEq)]
pub struct JwtRequire {
    /// All of them must hold.
    pub values: Vec<Template>,
    /// The status if one does not.
    pub status: u16,
}

/// `auth_jwt_claim_set` or `auth_jwt_header_set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtVariable {
    /// Its name, without `$`.
    pub variable: String,
    /// Whether it is a field of the header; otherwise a claim.
    pub is_of_header: bool,
    /// The names that lead to the value.
    pub path: Vec<String>,
    /// Where it was written.
    pub span: Span,
}

fn parse_check(at: &mut At<'_>) -> Parsed<Option<JwtCheck>> {
    let word = at.word(0)?;
    let token = match at.words().get(1) {
        None => None,
        Some(given) => {
            let value = parameter(given, "token").ok_or_else(|| invalid_parameter(given))?;
            if !value.value.starts_with(b"$") {
                return Err(invalid_parameter(given).with_hint("`token=$variable`"));
            }
            Some(Template::parse(at.name, &value)?)
        }
    };
    if word.value == b"off" {
        return Ok(None);
    }
    Ok(Some(JwtCheck { realm: Template::parse(at.name, word)?, token, span: at.directive.span }))
}

fn parse_key_request(name: &str, word: &Word) -> Parsed<Template> {
    if word.value.contains(&b'?') {
        let message = format!("the URI of \"{name}\" has arguments, which are not supported");
        return Err(Diagnostic::error(word.span, message).with_hint("put them into the `proxy_pass` of its location"));
    }
    if !word.value.starts_with(b"/") && !has_variables(&word.value) {
        return Err(invalid_value(word).with_hint("a URI of this server, for example `/_keys`"));
    }
    Template::parse(name, word)
}

fn parse_kind(_name: &str, word: &Word) -> Parsed<TokenKind> {
    const KINDS: [(&str, TokenKind); 3] =
        [("signed", TokenKind::Signed), ("encrypted", TokenKind::Encrypted), ("nested", TokenKind::Nested)];
    parse_choice(word, &KINDS)
}

fn parse_require(at: &mut At<'_>) -> Parsed<JwtRequire> {
    let mut require = JwtRequire { values: Vec::new(), status: 401 };
    for word in at.words() {
        if let Some(status) = parameter(word, "error") {
            require.status = match status.value.as_slice() {
                b"401" => 401,
                b"403" => 403,
                _ => return Err(invalid_parameter(word).with_hint("`error=401` or `error=403`")),
            };
        } else if word.value.starts_with(b"$") {
            require.values.push(Template::parse(at.name, word)?);
        } else {
            return Err(invalid_value(word).with_hint("a value begins with a variable"));
        }
    }
    if require.values.is_empty() {
        let message = format!("\"{}\" names no value", at.name);
        return Err(Diagnostic::error(at.directive.span, message));
    }
    Ok(require)
}

/// Reads an `auth_jwt_claim_set` or `auth_jwt_header_set`.
pub(crate) fn parse_jwt_variable(directive: &Directive) -> Parsed<JwtVariable> {
    let Some((variable, path)) = directive.args.split_first().filter(|(_, path)| !path.is_empty()) else {
        let message = format!("invalid number of arguments in \"{}\" directive", directive.name.text());
        return Err(Diagnostic::error(directive.name.span, message));
    };
    Ok(JwtVariable {
        variable: parse_variable(variable)?,
        is_of_header: directive.name.value == b"auth_jwt_header_set",
        path: path.iter().map(|name| name.text().into_owned()).collect(),
        span: directive.span,
    })
}
