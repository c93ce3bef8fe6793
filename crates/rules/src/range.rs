//! `Range` (RFC 9110 section 14) against the size of what is sent: a file, or a response of known length. The gateway asks for
//! its files and, with `proxy_force_ranges`, for what upstreams send.

use smallvec::SmallVec;
use std::ops::Range;

/// What a `Range` field asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The whole file: the field is of no form that means something, or asks for more than the file.
    Whole,
    /// These parts of it, in the order of the field, none of them empty. There is at least one.
    Parts(Parts),
    /// 416
    Unsatisfiable,
}

/// Parts of a file; nearly always one.
pub type Parts = SmallVec<[Range<u64>; 1]>;

/// What parts are counted in, with the sign behind it.
const UNIT: &[u8] = b"bytes=";

/// Reads a `Range` field. As in nginx a field with more than `ranges_max` parts that the file has, or with parts that
/// together are more than the file, gets the whole of it. The limits of a head bound how many there can be.
pub fn parse_range(field: &[u8], size: u64, ranges_max: usize) -> Wanted {
    let Some((unit, list)) = field.split_at_checked(UNIT.len()) else { return Wanted::Whole };
    if !unit.eq_ignore_ascii_case(UNIT) {
        return Wanted::Whole;
    }
    let mut parts = Parts::new();
    // Wider than a size: overlapping parts of the largest of bodies do not add up to less than they are.
    let mut total: u128 = 0;
    for part in list.split(|&byte| byte == b',') {
        match parse_part(part.trim_ascii(), size) {
            None => return Wanted::Unsatisfiable,
            Some(part) if part.is_empty() && part.start == 0 => return Wanted::Whole,
            Some(part) if part.is_empty() => {}
            Some(_) if parts.len() >= ranges_max => return Wanted::Whole,
            Some(part) => {
                total += u128::from(part.end - part.start);
                parts.push(part);
            }
        }
    }
    match parts.len() {
        0 => Wanted::Unsatisfiable,
        _ if total > u128::from(size) => Wanted::Whole,
        _ => Wanted::Parts(parts),
    }
}

/// Reads one `first-last`, `first-` or `-count`: the bytes of the file that it covers, possibly none. `None`: it has another
/// form.
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
    use smallvec::smallvec;

    /// One part.
    fn part(range: Range<u64>) -> Wanted {
        Wanted::Parts(smallvec![range])
    }

    #[test]
    fn ranges_of_100_bytes() {
        for (field, expected) in [
            ("bytes=0-0", part(0..1)),
            ("Bytes=10-19", part(10..20)),
            ("bytes=90-", part(90..100)),
            ("bytes=-5", part(95..100)),
            ("bytes=-500", part(0..100)),
            ("bytes= 1 - 3 ", part(1..4)),
            ("bytes=50-99999999999999999999999", part(50..100)),
            ("bytes=100-", Wanted::Unsatisfiable),
            ("bytes=100-200,5-6", part(5..7)),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=9-3", Wanted::Unsatisfiable),
            ("bytes=a-b", Wanted::Unsatisfiable),
            ("bytes=-", Wanted::Unsatisfiable),
            ("bytes=", Wanted::Unsatisfiable),
            ("bytes=5-6,0-1,3-", Wanted::Whole),
            ("bytes=0-60,50-", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("byte", Wanted::Whole),
        ] {
            assert_eq!(parse_range(field.as_bytes(), 100, usize::MAX), expected, "{field}");
        }
        assert_eq!(parse_range(b"bytes=0-", 0, 9), Wanted::Whole, "an empty file has no part");
    }

    #[test]
    fn several_ranges_come_in_their_order_as_many_as_permitted() {
        let of = |field: &[u8], max| parse_range(field, 100, max);
        assert_eq!(of(b"bytes=50-59, 0-4,-1", 3), Wanted::Parts(smallvec![50..60, 0..5, 99..100]));
        assert_eq!(of(b"bytes=50-59, 0-4,-1", 2), Wanted::Whole);
        assert_eq!(of(b"bytes=200-,5-6", 1), part(5..7), "what the file does not have is not counted");
        assert_eq!(of(b"bytes=0-50,40-80", 9), Wanted::Parts(smallvec![0..51, 40..81]), "they may overlap");
        assert_eq!(parse_range(b"bytes=1-,-9", u64::MAX, 9), Wanted::Whole, "more than the largest of bodies");
    }
}
