//! `sticky`: directs the requests of one client to the same peer.

use std::time::Duration;

use super::settings::At;
use super::upstream::Sticky;
use crate::diagnostic::Diagnostic;
use crate::tree::Word;
use crate::value::size::bytes;
use crate::value::time::milliseconds;
use crate::value::words::parse_header_name;
use crate::value::{Parsed, Part, Template, parameter};

/// How long a learned session is kept without `timeout=`.
const LEARN_TIMEOUT: Duration = Duration::from_mins(10);

/// Smallest zone, as in nginx: eight pages, independent of the size of a session here.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

pub(crate) fn parse_sticky(at: &mut At<'_>) -> Parsed<Option<Sticky>> {
    let kind = at.word(0)?;
    let rest = &at.words()[1..];
    match kind.value.as_slice() {
        b"cookie" => parse_cookie(at, rest),
        b"route" => {
            at.word(1)?;
            rest.iter()
                .map(|word| parse_variable(word, &format!("invalid variable name \"{}\"", word.text())))
                .collect::<Parsed<_>>()
                .map(Sticky::Route)
        }
        b"learn" => parse_learn(at, rest),
        b"header" => parse_header_name(at.name, at.word(1)?).map(Sticky::Header),
        _ => Err(Diagnostic::error(kind.span, format!("unknown parameter \"{}\"", kind.text()))
            .with_hint("`cookie`, `route`, `learn` or `header`")),
    }
    .map(Some)
}

/// Reads a word that is one variable and nothing else; `wrong` is the error message.
fn parse_variable(word: &Word, wrong: &str) -> Parsed<Template> {
    let template = Template::parse("sticky", word)?;
    match template.parts.as_slice() {
        [Part::Variable(_)] => Ok(template),
        _ => {
            Err(Diagnostic::error(word.span, wrong.to_owned()).with_hint("one variable, for example `$cookie_session`"))
        }
    }
}

/// Sets a parameter that may be written once.
fn once<T>(slot: &mut Option<T>, value: T, word: &Word, key: &str) -> Parsed<()> {
    if slot.replace(value).is_some() {
        return Err(Diagnostic::error(word.span, format!("parameter \"{key}\" is duplicate")));
    }
    Ok(())
}

fn parse_cookie(at: &At<'_>, words: &[Word]) -> Parsed<Sticky> {
    let name = parse_header_name(at.name, at.word(1)?)?;
    let (mut expires, mut domain, mut path, mut samesite) = (None, None, None, None);
    let (mut httponly, mut secure) = (None, None);
    for word in words.iter().skip(1) {
        if let Some(value) = parameter(word, "expires") {
            once(&mut expires, parse_expires(word, &value)?, word, "expires")?;
        } else if let Some(value) = parameter(word, "domain") {
            once(&mut domain, Template::parse(at.name, filled(&value, word, "domain")?)?, word, "domain")?;
        } else if let Some(value) = parameter(word, "path") {
            // Unlike the other two this one has no variables.
            let value = filled(&value, word, "path")?;
            once(&mut path, Template::text(&value.value, value.span), word, "path")?;
        } else if let Some(value) = parameter(word, "samesite") {
            once(&mut samesite, parse_samesite(word, &value)?, word, "samesite")?;
        } else {
            match word.value.as_slice() {
                b"httponly" => once(&mut httponly, true, word, "httponly")?,
                b"secure" => once(&mut secure, true, word, "secure")?,
                _ => return Err(unknown_parameter(word)),
            }
        }
    }
    let (httponly, secure) = (httponly.is_some(), secure.is_some());
    Ok(Sticky::Cookie { name, expires, domain, path, httponly, secure, samesite })
}

fn unknown_parameter(word: &Word) -> Diagnostic {
    Diagnostic::error(word.span, format!("unknown parameter \"{}\"", word.text()))
}

fn filled<'a>(value: &'a Word, word: &Word, key: &str) -> Parsed<&'a Word> {
    if value.value.is_empty() {
        return Err(Diagnostic::error(word.span, format!("no value for \"{key}\"")));
    }
    Ok(value)
}

fn parse_expires(word: &Word, value: &Word) -> Parsed<Duration> {
    if value.value == b"max" {
        return Ok(Duration::MAX);
    }
    milliseconds(&value.value, true)
        .map(Duration::from_millis)
        .ok_or_else(|| Diagnostic::error(word.span, "invalid \"expires\" parameter value"))
}

fn parse_samesite(word: &Word, value: &Word) -> Parsed<Template> {
    let template = Template::parse("sticky", value)?;
    let is_known = |text: &[u8]| [&b"strict"[..], b"lax", b"none"].iter().any(|known| text.eq_ignore_ascii_case(known));
    if template.as_text().is_some_and(|text| !is_known(text)) {
        return Err(Diagnostic::error(word.span, "invalid \"samesite\" parameter value")
            .with_hint("`strict`, `lax`, `none`, or a variable that gives one of them"));
    }
    Ok(template)
}

fn parse_learn(at: &At<'_>, words: &[Word]) -> Parsed<Sticky> {
    let (mut create, mut lookup, mut zone, mut timeout, mut header) = (Vec::new(), Vec::new(), None, None, false);
    for word in words {
        let missing = |key: &str| format!("missing variable in the \"{key}\" parameter");
        if let Some(value) = parameter(word, "create") {
            create.push(parse_variable(&value, &missing("create"))?);
        } else if let Some(value) = parameter(word, "lookup") {
            lookup.push(parse_variable(&value, &missing("lookup"))?);
        } else if let Some(value) = parameter(word, "zone") {
            once(&mut zone, parse_zone(word, &value)?, word, "zone")?;
        } else if let Some(value) = parameter(word, "timeout") {
            let time = milliseconds(&value.value, false).filter(|&time| time > 0);
            let time = time.ok_or_else(|| Diagnostic::error(word.span, "invalid timeout"))?;
            once(&mut timeout, Duration::from_millis(time), word, "timeout")?;
        } else if word.value == b"header" {
            header = true;
        } else {
            return Err(unknown_parameter(word));
        }
    }
    let missing = |what: &str| Diagnostic::error(at.directive.span, format!("\"{what}\" parameter is not specified"));
    if lookup.is_empty() {
        return Err(missing("lookup"));
    }
    if create.is_empty() {
        return Err(missing("create"));
    }
    let (zone, zone_bytes) = zone.ok_or_else(|| missing("zone"))?;
    Ok(Sticky::Learn { create, lookup, zone, zone_bytes, timeout: timeout.unwrap_or(LEARN_TIMEOUT), header })
}

/// `name:size`
fn parse_zone(word: &Word, value: &Word) -> Parsed<(String, u64)> {
    let wrong = |message: &str| Diagnostic::error(word.span, message).with_hint("for example `zone=sessions:1m`");
    let colon = value.value.iter().position(|&byte| byte == b':').ok_or_else(|| wrong("zone size is not specified"))?;
    if colon == 0 {
        return Err(wrong("zone name is not specified"));
    }
    let size = bytes(&value.value[colon + 1..], false).ok_or_else(|| wrong("invalid zone size"))?;
    if size < ZONE_BYTES_MIN {
        return Err(wrong("zone is too small").with_hint("at least 32k"));
    }
    Ok((String::from_utf8_lossy(&value.value[..colon]).into_owned(), size))
}
