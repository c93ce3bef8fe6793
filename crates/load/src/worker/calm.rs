//! Whose a lag is: the part of it in which the worker itself ran, on things that were ahead of the request. The rest is the
//! machine's: a timer that fired late, another thread on the processor, a host that took the processor away. Pure: times come in.

/// A lag up to here is the worker's own without a look: what it could be charged too much with is not above this.
const OWN_NS_FREE: u64 = 10_000;

/// A moment at which nothing was due: what is late later has become due since.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calm {
    at_ns: u64,
    cpu_ns: u64,
}

impl Calm {
    /// The beginning of a run, before which nothing was due; the thread has run for so long until then.
    pub(crate) fn at_begin(cpu_ns: u64) -> Self {
        Self { at_ns: 0, cpu_ns }
    }

    /// Nothing is due now. The thread's processor time is asked for when the moment that is known is older than `every_ns`: as
    /// much of the worker's work before a request was due may be counted as if it had been in its way.
    pub(crate) fn note(&mut self, now_ns: u64, every_ns: u64, cpu_ns: impl FnOnce() -> u64) {
        if now_ns.saturating_sub(self.at_ns) >= every_ns {
            *self = Self { at_ns: now_ns, cpu_ns: cpu_ns() };
        }
    }

    /// The part of a lag in which the worker ran: at most what it has run since the calm moment.
    pub(crate) fn own_ns(&self, lag_ns: u64, cpu_ns: impl FnOnce() -> u64) -> u64 {
        if lag_ns <= OWN_NS_FREE { lag_ns } else { lag_ns.min(cpu_ns().saturating_sub(self.cpu_ns)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_charged_with_what_it_ran_since_nothing_was_due() {
        let mut calm = Calm::at_begin(7);
        // What it ran to be built is no work that was ahead of the first request.
        assert_eq!(calm.own_ns(50_000, || 20_007), 20_000);
        calm.note(1_000_000, 20_000, || 500_000);
        // Due a bit later, and sent 3 ms later, of which the thread has run 40 us.
        assert_eq!(calm.own_ns(3_000_000, || 540_000), 40_000);
        // All the time at work: all of it is its own.
        assert_eq!(calm.own_ns(3_000_000, || 5_000_000), 3_000_000);
        // Hardly late: not worth a look.
        assert_eq!(calm.own_ns(9_000, || unreachable!("it is not asked")), 9_000);
    }

    #[test]
    fn the_clock_is_asked_no_more_often_than_it_is_told_to() {
        let mut calm = Calm::at_begin(100);
        calm.note(19_999, 20_000, || unreachable!("the moment is fresh"));
        calm.note(20_000, 20_000, || 900);
        assert_eq!(calm.own_ns(1_000_000, || 1_000), 100);
    }
}
