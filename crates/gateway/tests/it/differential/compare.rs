//! The differences between two observations, in a form that `accepted.txt` can use: `what nginx's -> ours`.
//!
//! These are normalised first, because they are intended to differ or depend on time:
//! * `Date`: its form is checked, its value is not compared; `Expires` may be some seconds later in ours, which answers second;
//! * `Server`, and the same name at the foot of built-in error pages: `(server)`;
//! * a body with `Content-Encoding: gzip` or `br` is compared unpacked;
//! * nginx's address 127.0.0.2 reads 127.0.0.1, as ours is;
//! * `Content-Length` is compared as "that of the body" where it is, so that a page with a shorter name counts as equal; for
//!   HEAD of such a page the length of the name is taken off;
//! * the boundary between several ranges: `(boundary)`;
//! * the order of fields of different names, and the boundaries of chunks;
//! * in what the origin echoes: the number of the connection, of the request on it, and the port it came from.

use std::io::Read as _;

use memchr::memmem;
use serde_json::Value;

use crate::differential::talk::{Answer, Observed};
use testkit::sides::Side;

/// Bytes of a body that a message shows.
const SHOWN: usize = 300;

/// All differences; empty if the two are equal.
pub(crate) fn differences(nginx: &Observed, ours: &Observed) -> Vec<String> {
    let mut found = Vec::new();
    if nginx.answers.len() != ours.answers.len() {
        let statuses =
            |side: &Observed| side.answers.iter().map(|answer| answer.status.to_string()).collect::<Vec<_>>();
        found.push(format!("answers {} -> {}", statuses(nginx).join(","), statuses(ours).join(",")));
    }
    for (at, (theirs, ours)) in nginx.answers.iter().zip(&ours.answers).enumerate() {
        let number = if at == 0 { String::new() } else { format!("#{} ", at + 1) };
        let theirs = normalised(Side::Nginx, theirs);
        let ours = with_their_expiry(normalised(Side::Ours, ours), &theirs);
        found.extend(answer_differences(&theirs, &ours).into_iter().map(|what| number.clone() + &what));
    }
    if nginx.end != ours.end {
        found.push(format!("end {:?} -> {:?}", nginx.end, ours.end));
    }
    found
}

fn normalised(side: Side, answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    let coding = answer.values("Content-Encoding").first().map(|coding| (*coding).to_owned());
    if let Some(body) = coding.and_then(|coding| unpacked(&coding, &answer.body, answer.is_cut)) {
        answer.body = body;
    }
    let length = answer.body.len();
    let name = answer.values("Server").first().map(|name| (*name).to_owned()).unwrap_or_default();
    let is_own_name = name.starts_with(if side == Side::Nginx { "nginx" } else { "holdfast" });
    let is_html = answer.values("Content-Type").contains(&"text/html");
    for (field, value) in &mut answer.fields {
        match field.to_ascii_lowercase().as_str() {
            "date" if is_date(value) => "(date)".clone_into(value),
            "server" if is_own_name => "(server)".clone_into(value),
            "content-length" if !answer.to_head && value.parse() == Ok(length) => "(of the body)".clone_into(value),
            "content-length" if answer.to_head && is_html && answer.status >= 300 => {
                if let Ok(length) = value.parse::<usize>() {
                    *value = format!("{} and the name", length.saturating_sub(name.len()));
                }
            }
            _ => *value = value.replace("127.0.0.2", "127.0.0.1"),
        }
    }
    let boundary = answer.fields.iter().find_map(|(_, value)| value.strip_prefix("multipart/byteranges; boundary="));
    let boundary = boundary.unwrap_or("(no boundary)").to_owned();
    for (_, value) in &mut answer.fields {
        *value = value.replace(&boundary, "(boundary)");
    }
    let foot = |name: &str| format!("<hr><center>{name}</center>\r\n");
    replace(&mut answer.body, "127.0.0.2", "127.0.0.1");
    replace(&mut answer.body, &boundary, "(boundary)");
    if is_own_name {
        replace(&mut answer.body, &foot(&name), &foot("(server)"));
    }
    answer
}

/// Bodies are large and rarely have the text, so they are searched in one pass and stay as they are.
fn replace(body: &mut Vec<u8>, text: &str, with: &str) {
    let mut places = memmem::find_iter(body, text).peekable();
    if places.peek().is_none() {
        return;
    }
    let (mut replaced, mut from) = (Vec::with_capacity(body.len()), 0);
    for at in places {
        replaced.extend_from_slice(&body[from..at]);
        replaced.extend_from_slice(with.as_bytes());
        from = at + text.len();
    }
    replaced.extend_from_slice(&body[from..]);
    *body = replaced;
}

/// `expires` counts from now, and the two sides answer one after the other: their answers are at most this many seconds
/// apart.
const SECONDS_APART_MAX: i64 = 20;

/// Our answer with nginx's `Expires`, if it differs only by the time between the answers.
fn with_their_expiry(mut ours: Answer, theirs: &Answer) -> Answer {
    let seconds = |value: &str| rules::precondition::parse_date(value.as_bytes());
    let expected: Vec<String> = theirs.values("Expires").into_iter().map(str::to_owned).collect();
    let own = ours.fields.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case("Expires"));
    for ((_, value), expected) in own.zip(expected) {
        if let (Some(ours), Some(theirs)) = (seconds(value), seconds(&expected))
            && (0..=SECONDS_APART_MAX).contains(&(ours - theirs))
        {
            *value = expected;
        }
    }
    ours
}

/// The content of a compressed body; `None` if it is not compressed, or broken. `is_cut`: as far as it came.
fn unpacked(coding: &str, body: &[u8], is_cut: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let is_whole = match coding {
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut out).is_ok(),
        "br" => brotli::BrotliDecompress(&mut &*body, &mut out).is_ok(),
        _ => return None,
    };
    (is_whole || is_cut).then_some(out)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn is_date(value: &str) -> bool {
    let shape: String = value
        .chars()
        .map(|c| {
            if c.is_ascii_digit() {
                '0'
            } else if c.is_ascii_alphabetic() {
                'a'
            } else {
                c
            }
        })
        .collect();
    shape == "aaa, 00 aaa 0000 00:00:00 aaa"
}

fn answer_differences(theirs: &Answer, ours: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if theirs.status != ours.status {
        // All other differences follow from this one.
        return vec![format!("status {} -> {}", theirs.status, ours.status)];
    }
    let mut both = |what: &str, theirs: String, ours: String| {
        if theirs != ours {
            found.push(format!("{what} {theirs} -> {ours}"));
        }
    };
    both("version", theirs.version.clone(), ours.version.clone());
    both("reason", theirs.reason.clone(), ours.reason.clone());
    both("cut", theirs.is_cut.to_string(), ours.is_cut.to_string());
    field_differences("field", &theirs.fields, &ours.fields, &mut both);
    field_differences("trailer", &theirs.trailers, &ours.trailers, &mut both);
    match (echo(&theirs.body), echo(&ours.body)) {
        (Some(theirs), Some(ours)) => {
            field_differences("upstream field", &echo_fields(&theirs), &echo_fields(&ours), &mut both);
            for key in ["method", "target", "version", "body"] {
                both(&format!("upstream {key}"), theirs[key].to_string(), ours[key].to_string());
            }
        }
        _ => both("body", shown(&theirs.body), shown(&ours.body)),
    }
    found
}

/// Compares fields by name; several with one name as a list in their order.
fn field_differences(
    what: &str,
    theirs: &[(String, String)],
    ours: &[(String, String)],
    both: &mut impl FnMut(&str, String, String),
) {
    let mut names: Vec<&String> = theirs.iter().chain(ours).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    for name in names {
        let values = |side: &[(String, String)]| {
            let values: Vec<_> =
                side.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
            if values.is_empty() { "(none)".to_owned() } else { clipped(&format!("{values:?}")) }
        };
        both(&format!("{what} {name}:"), values(theirs), values(ours));
    }
}

/// What the origin says it received.
fn echo(body: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(body).ok()?;
    value.get("target")?;
    Some(value)
}

fn echo_fields(echo: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace("127.0.0.2", "127.0.0.1");
    let fields = echo["fields"].as_array();
    fields.into_iter().flatten().map(|field| (text(&field[0]), text(&field[1]))).collect()
}

fn shown(body: &[u8]) -> String {
    // Bodies that differ only near the end must not look equal, so the total length and a checksum follow the
    // beginning.
    let sum = body.iter().fold(0u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    if body.len() <= SHOWN {
        return format!("\"{}\"", body.escape_ascii());
    }
    format!("\"{}…\" ({} bytes, sum {sum:08x})", body[..SHOWN].escape_ascii(), body.len())
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
