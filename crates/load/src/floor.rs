//! Measures how late this machine wakes a program that only waits for the next request of an open loop. This is the
//! smallest lag any generator can have here, at that rate and on those processors. Compare a generator's lag with it to
//! tell a slow generator from a machine that schedules it late. It opens no socket.

use crate::pace::{Schedule, Stage};
use crate::processors::{Processors, Spent, Ticks, Waiting};
use crate::tally::Latencies;
use crate::worker::thread_cpu_ns;
use crate::worker::timer::{monotonic_ns, monotonic_ns_at};
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec};
use serde::Serialize;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The timer slack of the sleeping thread: 1 ns instead of the default 50 us. The generator's own timer has no slack.
const SLACK_NS: NonZeroU64 = NonZeroU64::MIN;
/// A sleep lasts at most this long before the stop flag is checked.
const LOOK_PERIOD_NS: u64 = 50_000_000;

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Wake-ups per second, at even distances.
    pub rate: f64,
    /// How long to measure.
    pub duration: Duration,
    /// Processor time to use after each wake-up, so that the processor is as busy as under a generator. A host takes a busy
    /// processor away more often than an idle one, and wakes an idle one later.
    pub work: Duration,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub struct Floor {
    /// How late each wake-up was, in nanoseconds.
    pub lag: Latencies,
    /// How the thread's time was spent.
    pub spent: Spent,
    /// How the processors' time was spent.
    pub processors: Ticks,
    /// Elapsed time.
    pub elapsed: Duration,
}

/// Waits in the calling thread until all wake-ups were due, or until `stop` is set.
pub fn measure_floor(ask: &Ask, stop: &AtomicBool) -> io::Result<Floor> {
    set_current_timer_slack(Some(SLACK_NS))?;
    let schedule = Schedule::new(vec![Stage { duration: ask.duration, from: ask.rate, to: ask.rate }]);
    let work_ns = u64::try_from(ask.work.as_nanos()).unwrap_or(u64::MAX);
    let mut lag = Latencies::default();
    lag.make_room(1_000_000_000);
    let (mut processors, mut waiting, cpu_ns) = (Processors::new(), Waiting::new(), thread_cpu_ns());
    let begun = Instant::now();
    let begun_ns = monotonic_ns_at(begun);
    let mut number = 0.0;
    while let Some(due_ns) = schedule.time_ns(number) {
        let due_ns = begun_ns.saturating_add(due_ns);
        if !sleep_until(due_ns, stop)? {
            break;
        }
        let now_ns = monotonic_ns();
        lag.record(now_ns.saturating_sub(due_ns));
        if work_ns > 0 {
            let worked_ns = thread_cpu_ns();
            while thread_cpu_ns().saturating_sub(worked_ns) < work_ns {
                std::hint::spin_loop();
            }
        }
        number += 1.0;
    }
    let spent = Spent { cpu_ns: thread_cpu_ns().saturating_sub(cpu_ns), waited_ns: waiting.lap() };
    Ok(Floor { lag, spent, processors: processors.lap(), elapsed: begun.elapsed() })
}

/// Returns `false` if it was stopped before.
fn sleep_until(due_ns: u64, stop: &AtomicBool) -> io::Result<bool> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let now_ns = monotonic_ns();
        if now_ns >= due_ns {
            return Ok(true);
        }
        let until_ns = due_ns.min(now_ns.saturating_add(LOOK_PERIOD_NS));
        let until = Timespec { tv_sec: (until_ns / 1_000_000_000) as i64, tv_nsec: (until_ns % 1_000_000_000) as i64 };
        match clock_nanosleep_absolute(ClockId::Monotonic, &until) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wake_up_is_counted_with_its_lag() {
        let ask = Ask { rate: 500.0, duration: Duration::from_millis(100), work: Duration::from_micros(50) };
        let floor = measure_floor(&ask, &AtomicBool::new(false)).unwrap();
        assert_eq!(floor.lag.count(), 50);
        // The last wake-up is due at 98 ms, and the work of each adds to that.
        assert!(floor.elapsed >= Duration::from_millis(98), "{:?}", floor.elapsed);
        assert!(floor.spent.cpu_ns >= 50 * 50_000, "{:?}", floor.spent);
    }

    #[test]
    fn it_can_be_stopped() {
        let ask = Ask { rate: 1.0, duration: Duration::from_hours(1), work: Duration::ZERO };
        let floor = measure_floor(&ask, &AtomicBool::new(true)).unwrap();
        assert_eq!(floor.lag.count(), 0);
    }
}
