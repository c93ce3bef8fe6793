//! Splits a lag by its cause. The worker's own part is the time in which it ran earlier work. The rest is the machine's: a
//! timer that fired late, another thread on the processor, or a host that took the processor away. Pure: it takes times.

/// A lag up to this counts as the worker's own without reading the clock; the possible error is this small.
const OWN_NS_FREE: u64 = 10_000;

/// The last moment at which nothing was due: everything that is late has become due since.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calm {
    at_ns: u64,
    cpu_ns: u64,
}

impl Calm {
    /// The start of a run, before which nothing was due. `cpu_ns` is the thread's processor time up to then.
    pub(crate) fn at_begin(cpu_ns: u64) -> Self {
        Self { at_ns: 0, cpu_ns }
    }

    /// Notes that nothing is due now. It reads the thread's processor time only if the stored moment is older than
    /// `every_ns`. So at most this much of the worker's earlier work may count into a lag by mistake.
    pub(crate) fn note(&mut self, now_ns: u64, every_ns: u64, cpu_ns: impl FnOnce() -> u64) {
        if now_ns.saturating_sub(self.at_ns) >= every_ns {
            *self = Self { at_ns: now_ns, cpu_ns: cpu_ns() };
        }
    }

    /// The part of a lag in which the worker ran: at most its processor time since the calm moment.
    pub(crate) fn own_ns(&self, lag_ns: u64, cpu_ns: impl FnOnce() -> u64) -> u64 {
        if lag_ns <= OWN_NS_FREE { lag_ns } else { lag_ns.min(cpu_ns().saturating_sub(self.cpu_ns)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_is_charged_for_time_without_due_work() {
        let mut calm = Calm::at_begin(7);
        // The time the thread ran before the start does not count into the lag of the first request.
        assert_eq!(calm.own_ns(50_000, || 20_007), 20_000);
        calm.note(1_000_000, 20_000, || 500_000);
        // Due a bit later and sent 3 ms late; the thread ran for 40 us of that.
        assert_eq!(calm.own_ns(3_000_000, || 540_000), 40_000);
        // The thread ran all the time, so the whole lag is its own.
        assert_eq!(calm.own_ns(3_000_000, || 5_000_000), 3_000_000);
        // The lag is too small to read the clock.
        assert_eq!(calm.own_ns(9_000, || unreachable!("it is not asked")), 9_000);
    }

    #[test]
    fn clock_is_read_at_most_at_its_period() {
        let mut calm = Calm::at_begin(100);
        calm.note(19_999, 20_000, || unreachable!("the moment is fresh"));
        calm.note(20_000, 20_000, || 900);
        assert_eq!(calm.own_ns(1_000_000, || 1_000), 100);
    }
}
