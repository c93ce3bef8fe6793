//! Budgets against frames that cost us more than the peer. Each kind has a burst that no honest peer reaches, and a
//! rate at which it refills; useful work also refills some of it. The connection charges the budgets, and closes when
//! the first one is exhausted.

use crate::reason::Reason;

/// `RST_STREAM` on a stream that we were processing (CVE-2023-44487).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// A reset that we send because of a fault of the peer (CVE-2025-8671).
    Reset,
    /// A reset that a fault of the peer makes us send (CVE-2025-8671).
    Provoked,
    Ping,
    Settings,
    Priority,
    /// A frame without content that ends nothing (CVE-2019-9518).
    Empty,
    WindowUpdate,
    /// A frame with an unknown type, or on a stream that is over.
    Stray,
}

struct Limit {
    /// Frames at once.
    burst: u16,
    /// Frames per second that refill the budget.
    per_second: u16,
    reason: Reason,
}

const fn limit(burst: u16, per_second: u16, reason: Reason) -> Limit {
    Limit { burst, per_second, reason }
}

/// In the order of [`Cost`].
static LIMITS: [Limit; 8] = [
    // A browser that leaves a page cancels all open streams: 128 by default.
    limit(400, 100, Reason::RapidReset),
    // An honest peer causes a reset only by a bug, rarely.
    limit(100, 10, Reason::ProvokedReset),
    // gRPC measures the bandwidth with one PING for each piece of data that it receives; data that we send refills
    // this.
    limit(500, 50, Reason::PingFlood),
    // Sent once or twice in the life of a connection.
    limit(100, 10, Reason::SettingsFlood),
    // Browsers send some for each stream; a new stream refills this.
    limit(1000, 100, Reason::PriorityFlood),
    // Some libraries send one empty frame before the last.
    limit(200, 20, Reason::EmptyFlood),
    // Two for each data frame that we send, which refills this unless the window cuts it to a few bytes.
    limit(2000, 200, Reason::WindowFlood),
    // Frames in flight when a stream was reset.
    limit(1000, 100, Reason::StrayFlood),
];

/// How often budgets are refilled: the interval at which the lowest rate gives at least one.
const REFILL_MS: u64 = 100;

/// The amount spent of each budget.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    spent: [u16; LIMITS.len()],
    refilled_at_ms: u64,
}

impl Budgets {
    /// Charges one; an error if the budget is exhausted.
    pub(crate) fn charge(&mut self, cost: Cost, now_ms: u64) -> Result<(), Reason> {
        self.refill(now_ms);
        let (spent, limit) = (&mut self.spent[cost as usize], &LIMITS[cost as usize]);
        if *spent >= limit.burst {
            return Err(limit.reason);
        }
        *spent += 1;
        Ok(())
    }

    /// Refills some for useful work.
    pub(crate) fn refund(&mut self, cost: Cost, count: u16) {
        let spent = &mut self.spent[cost as usize];
        *spent = spent.saturating_sub(count);
    }

    fn refill(&mut self, now_ms: u64) {
        let steps = now_ms.saturating_sub(self.refilled_at_ms) / REFILL_MS;
        if steps == 0 {
            return;
        }
        self.refilled_at_ms = now_ms;
        for (spent, limit) in self.spent.iter_mut().zip(&LIMITS) {
            let back = u64::from(limit.per_second).saturating_mul(steps) / (1000 / REFILL_MS);
            *spent = spent.saturating_sub(u16::try_from(back).unwrap_or(u16::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_and_comes_back() {
        let mut budgets = Budgets::default();
        for _ in 0..500 {
            assert_eq!(budgets.charge(Cost::Ping, 1000), Ok(()));
        }
        assert_eq!(budgets.charge(Cost::Ping, 1099), Err(Reason::PingFlood));
        assert_eq!(budgets.charge(Cost::Settings, 1099), Ok(()));
        for _ in 0..50 {
            assert_eq!(budgets.charge(Cost::Ping, 2000), Ok(()));
        }
        assert_eq!(budgets.charge(Cost::Ping, 2000), Err(Reason::PingFlood));
        budgets.refund(Cost::Ping, 1);
        assert_eq!(budgets.charge(Cost::Ping, 2000), Ok(()));
    }

    #[test]
    fn each_cost_has_a_unique_reason() {
        let costs = [
            (Cost::Reset, Reason::RapidReset),
            (Cost::Provoked, Reason::ProvokedReset),
            (Cost::Ping, Reason::PingFlood),
            (Cost::Settings, Reason::SettingsFlood),
            (Cost::Priority, Reason::PriorityFlood),
            (Cost::Empty, Reason::EmptyFlood),
            (Cost::WindowUpdate, Reason::WindowFlood),
            (Cost::Stray, Reason::StrayFlood),
        ];
        for (cost, reason) in costs {
            let mut budgets = Budgets::default();
            let first = (0..10_000).find_map(|_| budgets.charge(cost, 0).err());
            assert_eq!(first, Some(reason));
        }
    }
}
