//! `Range` (RFC 9110 section 14) against the size of a file.

use std::ops::Range;

/// What a `Range` field asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The whole file: the field is of no form that means something, or asks for more than the file.
    Whole,
    /// This part of it, never empty.
    Part(Range<u64>),
    /// 416
    Unsatisfiable,
}

/// Reads a `Range` field. At most `ranges_max` parts are looked at: a field with more gets the whole file.
///
/// Several parts get the whole file as well, which RFC 9110 section 14.2 permits; `multipart/byteranges` is to come with
/// the rest of nginx's Core list.
pub(crate) fn parse_range(field: &[u8], size: u64, ranges_max: usize) -> Wanted {
    let Some(list) = field.get(6..).filter(|_| field[..6].eq_ignore_ascii_case(b"bytes=")) else {
        return Wanted::Whole;
    };
    let mut found: Option<Range<u64>> = None;
    for (index, part) in list.split(|&byte| byte == b',').enumerate() {
        if index >= ranges_max {
            return Wanted::Whole;
        }
        match parse_part(part.trim_ascii(), size) {
            None => return Wanted::Unsatisfiable,
            Some(part) if part.is_empty() => {}
            Some(_) if found.is_some() => return Wanted::Whole,
            Some(part) => found = Some(part),
        }
    }
    found.map_or(Wanted::Unsatisfiable, Wanted::Part)
}

/// One `first-last`, `first-` or `-count`: what of the file it covers, possibly nothing. `None`: it is none of these.
fn parse_part(part: &[u8], size: u64) -> Option<Range<u64>> {
    let dash = part.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (part[..dash].trim_ascii(), part[dash + 1..].trim_ascii());
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(size.saturating_sub(number(last)?)..size),
        (false, true) => Some(number(first)?..size),
        (false, false) => Some(number(first)?..number(last)?.saturating_add(1).min(size)),
    }
}

/// A decimal number; one that is too large is larger than any file.
fn number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_and_what_it_covers_of_100_bytes() {
        for (field, expected) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("Bytes=10-19", Wanted::Part(10..20)),
            ("bytes=90-", Wanted::Part(90..100)),
            ("bytes=-5", Wanted::Part(95..100)),
            ("bytes=-500", Wanted::Part(0..100)),
            ("bytes= 1 - 3 ", Wanted::Part(1..4)),
            ("bytes=50-99999999999999999999999", Wanted::Part(50..100)),
            ("bytes=100-", Wanted::Unsatisfiable),
            ("bytes=100-200,5-6", Wanted::Part(5..7)),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=9-3", Wanted::Unsatisfiable),
            ("bytes=a-b", Wanted::Unsatisfiable),
            ("bytes=-", Wanted::Unsatisfiable),
            ("bytes=", Wanted::Unsatisfiable),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("byte", Wanted::Whole),
        ] {
            assert_eq!(parse_range(field.as_bytes(), 100, usize::MAX), expected, "{field}");
        }
        assert_eq!(parse_range(b"bytes=200-,5-6", 100, 1), Wanted::Whole, "more parts than permitted");
        assert_eq!(parse_range(b"bytes=0-", 0, 9), Wanted::Unsatisfiable, "an empty file has no part");
    }
}
