//! `sticky`: how requests of one client stay with one peer.

use std::time::Duration;

use super::settings::At;
use super::upstream::Sticky;
use crate::diagnostic::Diagnostic;
use crate::tree::Word;
use crate::value::size::bytes;
use crate::value::time::milliseconds;
use crate::value::words::parse_header_name;
use crate::value::{Parsed, Template, invalid_parameter, parameter};

/// How long a learned session is kept where `timeout=` was not written.
const LEARN_TIMEOUT: Duration = Duration::from_mins(10);

pub(crate) fn parse_sticky(at: &mut At<'_>) -> Parsed<Option<Sticky>> {
    let kind = at.word(0)?;
    let rest = &at.words()[1..];
    match kind.value.as_slice() {
        b"cookie" => parse_cookie(at, rest),
        b"route" => {
            at.word(1)?;
            rest.iter().map(|word| Template::parse(at.name, word)).collect::<Parsed<_>>().map(Sticky::Route)
        }
        b"learn" => parse_learn(at, rest),
        b"header" => parse_header_name(at.name, at.word(1)?).map(Sticky::Header),
        _ => Err(Diagnostic::error(kind.span, format!("unknown sticky method \"{}\"", kind.text()))
            .with_hint("`cookie`, `route`, `learn` or `header`")),
    }
    .map(Some)
}

fn parse_cookie(at: &At<'_>, words: &[Word]) -> Parsed<Sticky> {
    let name = parse_header_name(at.name, at.word(1)?)?;
    let (mut expires, mut domain, mut path, mut samesite) = (None, None, None, None);
    let (mut httponly, mut secure) = (false, false);
    for word in words.iter().skip(1) {
        if let Some(value) = parameter(word, "expires") {
            expires = Some(if value.value == b"max" {
                Duration::MAX
            } else {
                milliseconds(&value.value, true).map(Duration::from_millis).ok_or_else(|| invalid_parameter(word))?
            });
        } else if let Some(value) = parameter(word, "domain") {
            domain = Some(Template::parse(at.name, &value)?);
        } else if let Some(value) = parameter(word, "path") {
            path = Some(Template::parse(at.name, &value)?);
        } else if let Some(value) = parameter(word, "samesite") {
            samesite = Some(Template::parse(at.name, &value)?);
        } else {
            match word.value.as_slice() {
                b"httponly" => httponly = true,
                b"secure" => secure = true,
                _ => return Err(invalid_parameter(word)),
            }
        }
    }
    Ok(Sticky::Cookie { name, expires, domain, path, httponly, secure, samesite })
}

fn parse_learn(at: &At<'_>, words: &[Word]) -> Parsed<Sticky> {
    let (mut create, mut lookup, mut zone, mut timeout, mut header) =
        (Vec::new(), Vec::new(), None, LEARN_TIMEOUT, false);
    for word in words {
        if let Some(value) = parameter(word, "create") {
            create.push(Template::parse(at.name, &value)?);
        } else if let Some(value) = parameter(word, "lookup") {
            lookup.push(Template::parse(at.name, &value)?);
        } else if let Some(value) = parameter(word, "zone") {
            let colon = value.value.iter().position(|&byte| byte == b':').ok_or_else(|| invalid_parameter(word))?;
            let size = bytes(&value.value[colon + 1..], false).ok_or_else(|| invalid_parameter(word))?;
            zone = Some((String::from_utf8_lossy(&value.value[..colon]).into_owned(), size));
        } else if let Some(value) = parameter(word, "timeout") {
            timeout =
                milliseconds(&value.value, false).map(Duration::from_millis).ok_or_else(|| invalid_parameter(word))?;
        } else if word.value == b"header" {
            header = true;
        } else if word.value != b"sync" {
            return Err(invalid_parameter(word));
        }
    }
    let missing =
        |what: &str| Diagnostic::error(at.directive.span, format!("\"sticky learn\" must have \"{what}\" parameter"));
    if create.is_empty() {
        return Err(missing("create"));
    }
    if lookup.is_empty() {
        return Err(missing("lookup"));
    }
    let (zone, zone_bytes) = zone.ok_or_else(|| missing("zone"))?;
    Ok(Sticky::Learn { create, lookup, zone, zone_bytes, timeout, header })
}
