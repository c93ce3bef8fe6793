//! Spans of time: `90`, `1h30m`, `500ms`. A plain number is seconds.

use std::time::Duration;

use super::{Parsed, directive_invalid};
use crate::tree::Word;

/// nginx counts time in a signed word; longer times are refused here as well.
const TIME_MAX: u64 = i64::MAX as u64;

/// One unit: its letter, its rank (units must come in falling order) and its length in seconds.
const UNITS: [(u8, u8, u64); 7] = [
    (b'y', 1, 365 * 24 * 3600),
    (b'M', 2, 30 * 24 * 3600),
    (b'w', 3, 7 * 24 * 3600),
    (b'd', 4, 24 * 3600),
    (b'h', 5, 3600),
    (b'm', 6, 60),
    (b's', 7, 1),
];
/// Years and months are for caching headers; nginx refuses them where it counts milliseconds.
const RANK_MONTHS: u8 = 2;
const RANK_SECONDS: u8 = 7;
const RANK_MILLISECONDS: u8 = 8;

/// A time in milliseconds, for most timeouts.
pub fn parse_milliseconds(name: &str, word: &Word) -> Parsed<Duration> {
    milliseconds(&word.value, false)
        .map(Duration::from_millis)
        .ok_or_else(|| directive_invalid(name, word, "value").with_hint(HINT))
}

/// A time in whole seconds, for directives that refuse `ms`.
pub fn parse_seconds(name: &str, word: &Word) -> Parsed<Duration> {
    milliseconds(&word.value, true)
        .map(Duration::from_millis)
        .ok_or_else(|| directive_invalid(name, word, "value").with_hint(HINT_SECONDS))
}

const HINT: &str = "a time is a number of seconds, or numbers with units from large to small: `90`, `1h30m`, `500ms`";
const HINT_SECONDS: &str =
    "a time is a number of whole seconds, or numbers with units from large to small: `90`, `1h30m`";

/// The value in milliseconds, or `None` where nginx says "invalid".
pub(crate) fn milliseconds(text: &[u8], seconds_only: bool) -> Option<u64> {
    let (mut total, mut value, mut rank, mut any) = (0_u64, 0_u64, 0_u8, false);
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte.is_ascii_digit() {
            value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            any = true;
            continue;
        }
        let scale_ms = if byte == b'm' && rest.first() == Some(&b's') {
            if seconds_only || rank >= RANK_MILLISECONDS {
                return None;
            }
            rest = &rest[1..];
            rank = RANK_MILLISECONDS;
            1
        } else if byte == b' ' {
            // A space after a bare number ends it as seconds; only milliseconds may follow.
            if rank >= RANK_SECONDS {
                return None;
            }
            rank = RANK_SECONDS;
            1000
        } else {
            let &(_, of_unit, seconds) = UNITS.iter().find(|unit| unit.0 == byte)?;
            if rank >= of_unit || (of_unit <= RANK_MONTHS && !seconds_only) {
                return None;
            }
            rank = of_unit;
            seconds * 1000
        };
        total = total.checked_add(value.checked_mul(scale_ms)?)?;
        value = 0;
        while let Some((b' ', tail)) = rest.split_first() {
            rest = tail;
        }
    }
    let total = total.checked_add(value.checked_mul(1000)?)?;
    (any && total <= TIME_MAX).then_some(total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::milliseconds;

    #[test]
    fn a_plain_number_is_seconds() {
        assert_eq!(milliseconds(b"90", false), Some(90_000));
        assert_eq!(milliseconds(b"0", false), Some(0));
    }

    #[test]
    fn units_add_up_from_large_to_small() {
        assert_eq!(milliseconds(b"1h30m", false), Some(5_400_000));
        assert_eq!(milliseconds(b"1h 30m", false), Some(5_400_000));
        assert_eq!(milliseconds(b"1y1M1w1d", true), Some((365 + 30 + 7 + 1) * 86_400_000));
        assert_eq!(milliseconds(b"1s500ms", false), Some(1_500));
        assert_eq!(milliseconds(b"1m30", false), Some(90_000));
    }

    #[test]
    fn wrong_order_unknown_units_and_nothing_are_refused() {
        for text in ["", "h", "1m1h", "1s1s", "5x", "-1", "1.5s", "99999999999999999999", "9223372036854775807"] {
            assert_eq!(milliseconds(text.as_bytes(), false), None, "{text}");
        }
    }

    #[test]
    fn milliseconds_and_months_have_their_places() {
        assert_eq!(milliseconds(b"500ms", true), None);
        assert_eq!((milliseconds(b"1M", false), milliseconds(b"1y", false)), (None, None));
        assert_eq!(milliseconds(b"5m", true), Some(300_000));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused_without_panic(text in proptest::collection::vec(any::<u8>(), 0..24), flag: bool) {
            let _ = milliseconds(&text, flag);
        }

        #[test]
        fn numbers_with_units_are_their_sum(h in 0_u64..10_000, m in 0_u64..10_000, s in 0_u64..10_000, ms in 0_u64..10_000) {
            let text = format!("{h}h{m}m{s}s{ms}ms");
            prop_assert_eq!(milliseconds(text.as_bytes(), false), Some(((h * 60 + m) * 60 + s) * 1000 + ms));
        }
    }
}
