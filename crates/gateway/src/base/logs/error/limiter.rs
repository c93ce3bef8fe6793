//! Limits how many lines with the same reason are written: clients that send garbage as fast as they can must not fill a
//! disk, the first lines of each reason must not be lost, and no client may hide the lines of another one. Pure: the
//! caller passes the time. The error log calls it for lines that requests cause.

use std::collections::HashMap;
use std::net::IpAddr;

/// Lines of one reason within a second that are written for any client. A person reads fewer, and a program
/// that counts gets the number of suppressed lines. At 300 bytes a line this is 15 KB a second for each worker and reason.
const LINES_MAX: u32 = 50;
/// Beyond them, lines of one reason and one client within a second. Programs that ban clients, such as fail2ban, ban after
/// three to ten lines.
const CLIENT_LINES_MAX: u32 = 10;
/// Lines beyond `LINES_MAX` within a second, of all reasons and clients of a worker: 300 KB a second. Further ones are
/// suppressed until the next second, in which other clients may come first.
const EXTRA_LINES_MAX: u32 = 1000;
/// Pairs of a reason and a client that are counted within a second. Each takes about 48 bytes. Further clients have only
/// the lines of their reason.
const CLIENTS_MAX: usize = 4096;
/// Milliseconds over which lines are counted together.
const PERIOD_MS: u64 = 1000;
/// Reasons remembered at a time. The program has about a hundred phrases, of which few occur in one second. Beyond the
/// limit the oldest reason is forgotten: more lines are written, none is lost.
const REASONS_MAX: usize = 64;
/// Clients that the report of suppressed lines names: enough to see where a flood comes from.
const NAMED_MAX: usize = 5;

/// The lines written in the current periods.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    reasons: Vec<Reason>,
    clients: Clients,
}

/// The lines of each client, by reason. Clients choose the addresses, so the table hashes with a secret.
#[derive(Debug, Default)]
struct Clients {
    lines: HashMap<(u64, IpAddr), u32>,
    /// Lines beyond those of their reason.
    extra: u32,
    /// When the period began, in milliseconds.
    since_ms: u64,
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
    /// Clients of suppressed lines.
    clients: Vec<IpAddr>,
    /// There were more than are named.
    has_others: bool,
}

/// A line that a request causes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineCause<'a> {
    /// `reason_key` of the line.
    pub(crate) key: u64,
    pub(crate) phrase: &'a [u8],
    /// `None` if it has no address.
    pub(crate) client: Option<IpAddr>,
}

/// Lines that were not written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    pub(crate) count: u64,
    pub(crate) phrase: Box<[u8]>,
    /// Some of their clients.
    pub(crate) clients: Vec<IpAddr>,
    /// There were more clients.
    pub(crate) has_others: bool,
}

impl Limiter {
    /// Whether to write a line. Reports that are due before it are added to `told`.
    pub(crate) fn admits(&mut self, cause: LineCause<'_>, now_ms: u64, told: &mut Vec<Suppressed>) -> bool {
        let of_client = self.clients.count(cause, now_ms);
        let reason = current(&mut self.reasons, cause, now_ms, told);
        if reason.written < LINES_MAX {
            reason.written += 1;
            return true;
        }
        let is_new = of_client.is_some_and(|lines| lines <= CLIENT_LINES_MAX);
        if is_new && self.clients.extra < EXTRA_LINES_MAX {
            self.clients.extra += 1;
            return true;
        }
        reason.suppress(cause.client);
        false
    }

    /// Adds the reports of periods that are over to `told`.
    pub(crate) fn settle(&mut self, now_ms: u64, told: &mut Vec<Suppressed>) {
        self.clients.forget(now_ms);
        self.reasons.retain_mut(|reason| {
            let over = now_ms.saturating_sub(reason.since_ms) >= PERIOD_MS;
            if over {
                told.extend(reason.settle());
            }
            !over
        });
    }
}

/// The reason of a line, in its current period.
fn current<'a>(
    reasons: &'a mut Vec<Reason>,
    cause: LineCause<'_>,
    now_ms: u64,
    told: &mut Vec<Suppressed>,
) -> &'a mut Reason {
    let known = reasons.iter().position(|reason| reason.key == cause.key);
    let at = known.unwrap_or_else(|| {
        if reasons.len() >= REASONS_MAX {
            let oldest = reasons.iter().enumerate().min_by_key(|(_, reason)| reason.since_ms);
            if let Some((oldest, _)) = oldest {
                told.extend(reasons.swap_remove(oldest).settle());
            }
        }
        reasons.push(Reason::new(cause, now_ms));
        reasons.len() - 1
    });
    let reason = &mut reasons[at];
    if now_ms.saturating_sub(reason.since_ms) >= PERIOD_MS {
        told.extend(std::mem::replace(reason, Reason::new(cause, now_ms)).settle());
    }
    reason
}

impl Clients {
    /// Counts a line. Returns the lines of this reason and client in the current period; `None` if they are not counted.
    fn count(&mut self, cause: LineCause<'_>, now_ms: u64) -> Option<u32> {
        self.forget(now_ms);
        let key = (cause.key, cause.client?.to_canonical());
        if self.lines.len() >= CLIENTS_MAX && !self.lines.contains_key(&key) {
            return None;
        }
        let lines = self.lines.entry(key).or_default();
        *lines = lines.saturating_add(1);
        Some(*lines)
    }

    /// Begins a new period when the current one is over. The memory of a flood is given back.
    fn forget(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.since_ms) >= PERIOD_MS {
            *self = Self { since_ms: now_ms, ..Self::default() };
        }
    }
}

impl Reason {
    fn new(cause: LineCause<'_>, now_ms: u64) -> Self {
        Self {
            key: cause.key,
            since_ms: now_ms,
            written: 0,
            suppressed: 0,
            phrase: cause.phrase.into(),
            clients: Vec::new(),
            has_others: false,
        }
    }

    fn suppress(&mut self, client: Option<IpAddr>) {
        self.suppressed += 1;
        let Some(client) = client.filter(|client| !self.clients.contains(client)) else { return };
        if self.clients.len() < NAMED_MAX {
            self.clients.push(client);
        } else {
            self.has_others = true;
        }
    }

    fn settle(&mut self) -> Option<Suppressed> {
        let count = std::mem::take(&mut self.suppressed);
        (count > 0).then(|| Suppressed {
            count,
            phrase: std::mem::take(&mut self.phrase),
            clients: std::mem::take(&mut self.clients),
            has_others: self.has_others,
        })
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
    use std::net::Ipv4Addr;

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0xC000_0200 + number))
    }

    fn cause(key: u64, phrase: &'static str, number: u32) -> LineCause<'static> {
        LineCause { key, phrase: phrase.as_bytes(), client: Some(client(number)) }
    }

    fn suppressed(count: u64, phrase: &str, clients: &[u32]) -> Suppressed {
        let clients = clients.iter().map(|number| client(*number)).collect();
        Suppressed { count, phrase: phrase.as_bytes().into(), clients, has_others: false }
    }

    #[test]
    fn the_first_lines_are_written_and_the_others_are_counted() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        let written = (0..120).filter(|_| limiter.admits(cause(1, "too large", 1), 5, &mut told)).count();
        assert_eq!((written, told.len()), (LINES_MAX as usize, 0));
        assert!(limiter.admits(cause(2, "timed out", 1), 5, &mut told), "another reason has its own lines");
        limiter.settle(PERIOD_MS, &mut told);
        assert_eq!(told, [], "the period is not over");
        limiter.settle(PERIOD_MS + 5, &mut told);
        assert_eq!(told, [suppressed(70, "too large", &[1])]);
        assert!(limiter.reasons.is_empty() && limiter.clients.lines.is_empty(), "nothing is remembered for longer");
    }

    #[test]
    fn a_flood_of_one_client_hides_no_other_client() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        (0..1000).for_each(|_| _ = limiter.admits(cause(1, "limiting requests", 1), 0, &mut told));
        for other in 2..=90 {
            let written =
                (0..30).filter(|_| limiter.admits(cause(1, "limiting requests", other), 9, &mut told)).count();
            assert_eq!(written, CLIENT_LINES_MAX as usize, "client {other}");
        }
        let without = LineCause { client: None, ..cause(1, "limiting requests", 0) };
        assert!(!limiter.admits(without, 9, &mut told), "it has only the lines of the reason");
        limiter.settle(PERIOD_MS, &mut told);
        let expected = suppressed(950 + 89 * 20 + 1, "limiting requests", &[1, 2, 3, 4, 5]);
        assert_eq!(told, [Suppressed { has_others: true, ..expected }]);
    }

    #[test]
    fn flood_of_many_clients_is_bounded_each_second() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        let mut flood = |limiter: &mut Limiter, now_ms| {
            (0..10_000).filter(|number| limiter.admits(cause(1, "x", *number), now_ms, &mut told)).count()
        };
        let bound = (LINES_MAX + EXTRA_LINES_MAX) as usize;
        assert_eq!(flood(&mut limiter, 0), bound);
        assert_eq!(limiter.clients.lines.len(), CLIENTS_MAX);
        assert_eq!(flood(&mut limiter, PERIOD_MS), bound);
    }

    #[test]
    fn new_period_starts_with_the_old_count() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        (0..=LINES_MAX).for_each(|_| _ = limiter.admits(cause(1, "x", 1), 0, &mut told));
        assert!(limiter.admits(cause(1, "x", 1), PERIOD_MS, &mut told));
        assert_eq!(told, [suppressed(1, "x", &[1])]);
    }

    #[test]
    fn more_reasons_than_are_remembered_lose_no_count() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        (0..LINES_MAX + 9).for_each(|_| _ = limiter.admits(cause(0, "first", 1), 0, &mut told));
        for key in 1..=REASONS_MAX as u64 {
            assert!(limiter.admits(cause(key, "other", 1), 1, &mut told));
        }
        assert_eq!(limiter.reasons.len(), REASONS_MAX);
        assert_eq!(told, [suppressed(9, "first", &[1])]);
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
