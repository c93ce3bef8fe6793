//! Texts with variables, and the expressions of `if`.

use super::scan::shown;
use super::{Host, Shared};
use crate::pattern::Pattern;

/// Most bytes of an evaluated text, and of a block. A variable may be made of others, so values would grow without it.
pub(super) const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Replaces variables by their values, and takes backslashes away from `\`, `$` and quotation marks. For the URI of an
/// `include`, `base` is the URI of the page: a relative one begins at its directory.
pub(super) fn evaluate(text: &[u8], base: Option<&[u8]>, shared: &Shared, host: &impl Host) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix(b"$") {
            let (name, after) = split_name(tail).map_err(|fault| match fault {
                NameFault::Unclosed(name) => format!("the closing bracket in \"{}\" variable is missing", shown(name)),
                NameFault::Invalid => format!("invalid variable name in \"{}\"", shown(text)),
            })?;
            let name = name.to_ascii_lowercase();
            match shared.value(&name) {
                Some(value) => out.extend_from_slice(value),
                None => _ = host.value(&name, &mut out),
            }
            rest = after;
        } else {
            rest = unescape(rest, &mut out);
        }
        if out.len() > TEXT_BYTES_MAX {
            return Err(format!("the value of \"{}\" in an SSI command is too long", shown(text)));
        }
    }
    // As in nginx, a text of variables that are all empty does not name the directory.
    let is_relative = if out.is_empty() { !text.contains(&b'$') } else { out[0] != b'/' };
    if let Some(base) = base.filter(|_| is_relative) {
        let directory = base.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |at| &base[..=at]);
        out.splice(0..0, directory.iter().copied());
    }
    Ok(out)
}

enum NameFault<'a> {
    Unclosed(&'a [u8]),
    Invalid,
}

/// Splits the name of a variable off, without `$`.
fn split_name(text: &[u8]) -> Result<(&[u8], &[u8]), NameFault<'_>> {
    let (is_bracketed, text) = match text.strip_prefix(b"{") {
        Some(inside) => (true, inside),
        None => (false, text),
    };
    if text.is_empty() {
        return Err(NameFault::Invalid);
    }
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    let after = match (is_bracketed, after.strip_prefix(b"}")) {
        (false, _) => after,
        (true, Some(after)) => after,
        (true, None) => return Err(NameFault::Unclosed(name)),
    };
    if name.is_empty() { Err(NameFault::Invalid) } else { Ok((name, after)) }
}

/// Appends text up to the next variable, and returns what follows. A backslash at the end is dropped.
fn unescape<'a>(text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let mut is_escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            b'$' if !is_escaped => return &text[at..],
            b'\\' | b'\'' | b'"' | b'$' => {}
            _ if is_escaped => out.push(b'\\'),
            _ => {}
        }
        is_escaped = false;
        out.push(byte);
    }
    &[]
}

/// Whether the expression of an `if` is true. The groups of an expression are stored.
pub(super) fn decide(expression: &[u8], shared: &mut Shared, host: &impl Host) -> Result<bool, String> {
    let invalid = || format!("invalid expression in \"{}\"", shown(expression));
    let is_left = |byte: &u8| byte.is_ascii_alphanumeric() || b"${}_\"'".contains(byte);
    let end = expression.iter().position(|byte| !is_left(byte)).unwrap_or(expression.len());
    let (left, rest) = expression.split_at(end);
    let rest = skip_spaces(rest);
    // As in nginx, the left side is in lower case.
    let left = evaluate(&left.to_ascii_lowercase(), None, shared, host)?;
    if rest.is_empty() {
        return Ok(!left.is_empty());
    }
    let (is_wanted, right) = match (rest.strip_prefix(b"="), rest.strip_prefix(b"!=")) {
        (Some(right), _) => (true, right),
        (_, Some(right)) => (false, right),
        _ => return Err(invalid()),
    };
    let right = skip_spaces(right);
    let is_equal = match right {
        [b'/', inside @ .., last] => {
            if *last != b'/' {
                return Err(invalid());
            }
            matches(&evaluate(inside, None, shared, host)?, &left, shared)?
        }
        [b'\\', text @ ..] if text.starts_with(b"/") => evaluate(text, None, shared, host)? == left,
        text => evaluate(text, None, shared, host)? == left,
    };
    Ok(is_equal == is_wanted)
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| **byte == b' ').count()..]
}

/// Whether an expression of a page matches.
fn matches(source: &[u8], subject: &[u8], shared: &mut Shared) -> Result<bool, String> {
    let (pattern, names) = Pattern::compile_once(source)?;
    if !pattern.captures(subject, &mut shared.captures).map_err(|error| error.message)? {
        return Ok(false);
    }
    for (group, name) in names {
        let value = shared.captures.group(usize::from(group)).unwrap_or_default().to_vec();
        shared.set(name.to_ascii_lowercase().as_bytes(), &value)?;
    }
    Ok(true)
}
