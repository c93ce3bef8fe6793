//! Ticket keys that rotate by themselves. Each key is derived from a secret, and each secret from the one before. Processes that begin with
//! the same secret have the same keys at the same time, and an old key cannot be computed from a later secret. Pure.

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

/// Shortest time that a key seals: with a shorter `ssl_session_timeout` tickets end before their key does.
const PERIOD_SECONDS_MIN: u64 = 60;
/// Steps in a row: ten weeks of minutes. A clock that jumps further begins anew, in each process alike if they were alike before.
const STEPS_MAX: u64 = 100_000;

/// The state of a ratchet. It is as secret as the keys, because all later keys can be computed from it.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketState {
    /// How long tickets last (`ssl_session_timeout`).
    pub lifetime_seconds: u32,
    /// Which key it is, counted from 1970.
    epoch: u64,
    secret: [u8; SHA256_OUTPUT_LEN],
}

impl std::fmt::Debug for TicketState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TicketState").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl TicketState {
    /// The first one, with a secret of this process alone. `now` in seconds since 1970.
    pub(crate) fn new(secret: [u8; SHA256_OUTPUT_LEN], lifetime_seconds: u32, now: u64) -> Self {
        let mut state = Self { lifetime_seconds, epoch: 0, secret };
        state.epoch = state.epoch_at(now);
        state
    }

    /// For another process of the same gateway.
    pub fn encode(&self) -> Vec<u8> {
        let (lifetime, epoch) = (self.lifetime_seconds.to_be_bytes(), self.epoch.to_be_bytes());
        [&lifetime[..], &epoch, &self.secret].concat()
    }

    /// From another process; `None` if it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (lifetime, rest) = bytes.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (lifetime_seconds, epoch) = (u32::from_be_bytes(*lifetime), u64::from_be_bytes(*epoch));
        Some(Self { lifetime_seconds, epoch, secret: rest.try_into().ok()? })
    }

    /// The same secret, for tickets with another lifetime from now on.
    pub(crate) fn with_lifetime(&self, lifetime_seconds: u32, now: u64) -> Self {
        Self::new(self.secret, lifetime_seconds, now)
    }

    fn epoch_at(&self, now: u64) -> u64 {
        now / u64::from(self.lifetime_seconds).max(PERIOD_SECONDS_MIN)
    }

    /// Whether another key should seal.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.epoch_at(now) > self.epoch
    }

    /// The secret of the key that seals.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Advances to the key of this time; `passed` gets each secret on the way, the current one last. If the clock was set back, nothing
    /// changes.
    pub(crate) fn advance(&mut self, now: u64, mut passed: impl FnMut(&[u8])) {
        let wanted = self.epoch_at(now);
        if wanted.saturating_sub(self.epoch) > STEPS_MAX {
            self.epoch = wanted - 1;
        }
        while self.epoch < wanted {
            let mut context = Context::new(&SHA256);
            context.update(b"holdfast next ticket secret");
            context.update(&self.secret);
            self.secret.copy_from_slice(context.finish().as_ref());
            self.epoch += 1;
            passed(&self.secret);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_begin_alike_stay_alike_however_they_step() {
        let mut one = TicketState::new([7; 32], 300, 1_000_000);
        let mut other = TicketState::decode(&one.encode()).unwrap();
        let mut passed = 0;
        for now in (1_000_000..1_003_000).step_by(100) {
            one.advance(now, |_| passed += 1);
        }
        other.advance(1_002_999, |_| ());
        assert_eq!(one, other);
        assert_eq!(passed, 10);
        assert!(!one.is_due(1_002_999) && one.is_due(1_003_500));
        let before = one.clone();
        one.advance(5, |_| panic!("back"));
        assert_eq!(one, before);
        assert!((0..44).all(|end| TicketState::decode(&before.encode()[..end]).is_none()));
    }

    #[test]
    fn a_clock_that_jumps_takes_one_step() {
        let mut state = TicketState::new([7; 32], 1, 0);
        let mut passed = 0;
        state.advance(2_000_000_000, |_| passed += 1);
        assert_eq!((passed, state.is_due(2_000_000_000)), (1, false));
    }
}
