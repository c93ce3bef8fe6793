//! How fast bytes may go: the arithmetic of `limit_rate` and `proxy_limit_rate`. It knows no clock and no socket: times come
//! in as milliseconds, and the sender reports what went.

/// The pace of one stream of bytes. As in nginx the first second's bytes may go at once, and each piece is followed by the
/// time that it takes at the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes per second, at least 1.
    rate: u64,
    /// Bytes that go before the rate holds.
    after: u64,
    began_ms: u64,
    /// Nothing goes before.
    not_before_ms: u64,
}

impl Pace {
    /// A pace of this many bytes per second from now on, for what comes behind the first `after` bytes.
    pub fn new(rate: u64, after: u64, now_ms: u64) -> Self {
        Self { rate: rate.max(1), after, began_ms: now_ms, not_before_ms: now_ms }
    }

    /// Its rate, the bytes before that, when it began, and before when nothing goes: for another process.
    pub fn to_parts(&self) -> [u64; 4] {
        [self.rate, self.after, self.began_ms, self.not_before_ms]
    }

    /// The inverse of [`Self::to_parts`].
    pub fn from_parts([rate, after, began_ms, not_before_ms]: [u64; 4]) -> Self {
        Self { rate: rate.max(1), after, began_ms, not_before_ms }
    }

    /// How many bytes may go now that `sent` have gone: at least one. The error: for how many milliseconds none may.
    pub fn room(&self, sent: u64, now_ms: u64) -> Result<u64, u64> {
        if let Some(left) = self.not_before_ms.checked_sub(now_ms).filter(|left| *left > 0) {
            return Err(left);
        }
        let seconds_milli = u128::from(now_ms.saturating_sub(self.began_ms)) + 1000;
        let permitted = u128::from(self.rate) * seconds_milli / 1000 + u128::from(self.after);
        if permitted > u128::from(sent) {
            return Ok(u64::try_from(permitted - u128::from(sent)).unwrap_or(u64::MAX));
        }
        let early = (u128::from(sent) - permitted) * 1000 / u128::from(self.rate) + 1;
        Err(u64::try_from(early).unwrap_or(u64::MAX))
    }

    /// The number of bytes that have gone rose from `before` to `sent`.
    pub fn note(&mut self, before: u64, sent: u64, now_ms: u64) {
        let slowed = sent.saturating_sub(self.after) - before.min(sent).saturating_sub(self.after);
        let takes = u128::from(slowed) * 1000 / u128::from(self.rate);
        self.not_before_ms = now_ms.saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_second_passes_at_once_then_the_rate_applies() {
        let mut pace = Pace::new(1000, 0, 5000);
        assert_eq!(pace.room(0, 5000), Ok(1000));
        pace.note(0, 1000, 5000);
        assert_eq!(pace.room(1000, 5999), Err(1), "what went takes a second");
        assert_eq!(pace.room(1000, 6000), Ok(1000));
        pace.note(1000, 1001, 6000);
        assert_eq!(pace.room(1001, 6000), Err(1));
        assert_eq!(pace.room(5000, 6001), Err(3000), "somebody sent more than was permitted");
    }

    #[test]
    fn bytes_before_the_limit_are_free() {
        let mut pace = Pace::new(1000, 500, 0);
        assert_eq!(pace.room(0, 0), Ok(1500));
        pace.note(0, 400, 0);
        assert_eq!(pace.room(400, 0), Ok(1100));
        pace.note(400, 700, 0);
        assert_eq!(pace.room(700, 0), Err(200));
    }

    proptest! {
        /// A sender that sends all that is permitted, whenever it is, is never faster than rate and first second allow, and never
        /// waits for ever.
        #[test]
        fn never_faster_than_the_rate(
            rate in 1_u64..10_000_000,
            after in 0_u64..100_000,
            steps in prop::collection::vec((0_u64..3_000, 1_u64..5_000_000), 1..100),
        ) {
            let mut pace = Pace::new(rate, after, 0);
            let (mut now, mut sent) = (0, 0_u64);
            for (wait, most) in steps {
                now += wait;
                match pace.room(sent, now) {
                    Ok(room) => {
                        let before = sent;
                        sent += room.min(most);
                        pace.note(before, sent, now);
                        let permitted = u128::from(rate) * (u128::from(now) + 1000) / 1000 + u128::from(after);
                        prop_assert!(u128::from(sent) <= permitted);
                    }
                    Err(left) => {
                        prop_assert!(pace.room(sent, now + left).is_ok(), "it ends when it says");
                    }
                }
            }
        }
    }
}
