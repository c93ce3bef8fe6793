//! Limits how many lines with the same reason are written: a client that sends garbage as fast as it can must not fill
//! a disk, and the first lines of each reason must not be lost. Pure: the caller passes the time. The error log calls
//! it for lines that requests cause.

/// Lines of one reason within a second that are written whole. A person reads fewer, and a program that counts gets the
/// number of suppressed lines. At 300 bytes a line this is 15 KB a second for each worker and reason.
const LINES_MAX: u32 = 50;
/// Milliseconds over which lines are counted together.
const PERIOD_MS: u64 = 1000;
/// Reasons remembered at a time. The program has about a hundred phrases, of which few occur in one second. Beyond the
/// limit the oldest reason is forgotten: more lines are written, none is lost.
const REASONS_MAX: usize = 64;

/// The lines written in the current periods.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    reasons: Vec<Reason>,
}

/// One reason.
#[derive(Debug)]
struct Reason {
    key: u64,
    /// When its period began, in milliseconds.
    since_ms: u64,
    written: u32,
    suppressed: u64,
    /// The text for the report of suppressed lines.
    phrase: Box<[u8]>,
}

/// Lines that were not written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    pub(crate) count: u64,
    pub(crate) phrase: Box<[u8]>,
}

impl Limiter {
    /// Whether to write a line. Reports that are due before it are added to `told`.
    pub(crate) fn admits(&mut self, key: u64, phrase: &[u8], now_ms: u64, told: &mut Vec<Suppressed>) -> bool {
        let Some(at) = self.reasons.iter().position(|reason| reason.key == key) else {
            if self.reasons.len() >= REASONS_MAX {
                let oldest = self.reasons.iter().enumerate().min_by_key(|(_, reason)| reason.since_ms);
                if let Some((oldest, _)) = oldest {
                    told.extend(self.reasons.swap_remove(oldest).settle());
                }
            }
            self.reasons.push(Reason { key, since_ms: now_ms, written: 1, suppressed: 0, phrase: phrase.into() });
            return true;
        };
        let reason = &mut self.reasons[at];
        if now_ms.saturating_sub(reason.since_ms) >= PERIOD_MS {
            let fresh = Reason { key, since_ms: now_ms, written: 0, suppressed: 0, phrase: phrase.into() };
            told.extend(std::mem::replace(reason, fresh).settle());
        }
        let admitted = reason.written < LINES_MAX;
        if admitted {
            reason.written += 1;
        } else {
            reason.suppressed += 1;
        }
        admitted
    }

    /// Adds the reports of periods that are over to `told`.
    pub(crate) fn settle(&mut self, now_ms: u64, told: &mut Vec<Suppressed>) {
        self.reasons.retain_mut(|reason| {
            let over = now_ms.saturating_sub(reason.since_ms) >= PERIOD_MS;
            if over {
                told.extend(reason.settle());
            }
            !over
        });
    }
}

impl Reason {
    fn settle(&mut self) -> Option<Suppressed> {
        let count = std::mem::take(&mut self.suppressed);
        (count > 0).then(|| Suppressed { count, phrase: std::mem::take(&mut self.phrase) })
    }
}

/// A key that lines of the same reason share: the words of the message, without numbers and quoted text.
pub(crate) fn reason_key(level: u8, server: &[u8], upstream: &[u8], message: &str) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write_u8(level);
    hasher.write(server);
    hasher.write_u8(0);
    hasher.write(upstream);
    hasher.write_u8(0);
    let mut quoted = false;
    for byte in message.bytes() {
        quoted ^= byte == b'"';
        if !quoted && !byte.is_ascii_digit() {
            hasher.write_u8(byte);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_written_and_the_others_are_counted() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        let written = (0..120).filter(|_| limiter.admits(1, b"too large", 5, &mut told)).count();
        assert_eq!((written, told.len()), (LINES_MAX as usize, 0));
        assert!(limiter.admits(2, b"timed out", 5, &mut told), "another reason has its own lines");
        limiter.settle(PERIOD_MS, &mut told);
        assert_eq!(told, [], "the period is not over");
        limiter.settle(PERIOD_MS + 5, &mut told);
        assert_eq!(told, [Suppressed { count: 70, phrase: b"too large".as_slice().into() }]);
        assert!(limiter.reasons.is_empty(), "nothing is remembered for longer");
    }

    #[test]
    fn new_period_starts_with_the_old_count() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        (0..=LINES_MAX).for_each(|_| _ = limiter.admits(1, b"x", 0, &mut told));
        assert!(limiter.admits(1, b"x", PERIOD_MS, &mut told));
        assert_eq!(told, [Suppressed { count: 1, phrase: b"x".as_slice().into() }]);
    }

    #[test]
    fn more_reasons_than_are_remembered_lose_no_count() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        (0..LINES_MAX + 9).for_each(|_| _ = limiter.admits(0, b"first", 0, &mut told));
        for key in 1..=REASONS_MAX as u64 {
            assert!(limiter.admits(key, b"other", 1, &mut told));
        }
        assert_eq!(limiter.reasons.len(), REASONS_MAX);
        assert_eq!(told, [Suppressed { count: 9, phrase: b"first".as_slice().into() }]);
    }

    #[test]
    fn numbers_and_quoted_text_make_no_new_reason() {
        let key = |message| reason_key(4, b"a", b"", message);
        assert_eq!(key("open() \"/a\" failed (2: No such file)"), key("open() \"/b/7\" failed (2: No such file)"));
        assert_eq!(key("too large body: 7 bytes"), key("too large body: 81 bytes"));
        assert_ne!(key("connect() failed (111: Connection refused)"), key("connect() failed (110: timed out)"));
        assert_ne!(reason_key(4, b"a", b"", "x"), reason_key(4, b"b", b"", "x"), "of another server");
        assert_ne!(reason_key(4, b"a", b"", "x"), reason_key(4, b"a", b"1", "x"), "of another upstream");
    }
}
