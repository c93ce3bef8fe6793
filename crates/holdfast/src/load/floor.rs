//! `holdfast load floor`: measures how late a program on this machine is that only waits. Compare the generator's own
//! lag with it. The measurement is in the crate `load`.

use super::typed::parse_rate;
use crate::output::JsonFlag;
use crate::signals::{Ask as Asked, Signals};
use crate::typed::duration;
use crate::{exit, report};
use load::{Ask, Floor, measure_floor, results};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the thread that waits for signals checks whether the measurement is complete.
const SIGNAL_LOOK_MS: u16 = 50;

/// Measure how late this machine wakes a program that only waits for the next request
///
/// Sleeps until each moment at which a request of `-R` would be due, and measures how late it was woken. No load generator can be
/// more punctual on these processors. If a run with the same rate is later than this, its own work or the target is the cause.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Wake-ups per second
    #[arg(short = 'R', long, value_name = "RATE", value_parser = parse_rate)]
    rate: (f64, f64),
    /// Duration
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Processor time to use after each wake-up, so that the processor is as busy as under a load
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration)]
    work: Duration,
    #[command(flatten)]
    json: JsonFlag,
}

pub(super) fn run(args: &Args) -> u8 {
    let (rate, to) = args.rate;
    if rate <= 0.0 || (rate - to).abs() > f64::EPSILON {
        report::say("holdfast load floor: a rate above zero that does not change, such as -R 2400/s");
        return exit::USAGE;
    }
    let ask = Ask { rate, duration: args.duration, work: args.work };
    let told = measure(&ask).and_then(|floor| {
        let shown = |json| results::floor(&ask, &floor, json);
        args.json.emit(|| Ok(shown(true)), || shown(false))
    });
    match told {
        Ok(()) => exit::OK,
        Err(message) => {
            report::say(&format!("holdfast load floor: {message}"));
            exit::FAILED
        }
    }
}

/// Measures until the end or a signal.
fn measure(ask: &Ask) -> Result<Floor, String> {
    let signals = Signals::open().map_err(|error| error.to_string())?;
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| stop_on_signal(&signals, &stop, &over));
        let floor = measure_floor(ask, &stop).map_err(|error| error.to_string());
        over.store(true, Ordering::Relaxed);
        floor
    })
}

fn stop_on_signal(signals: &Signals, stop: &AtomicBool, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
        let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        let _ = poll(&mut watched, PollTimeout::from(SIGNAL_LOOK_MS));
        while let Ok(Some(asked)) = signals.next() {
            stop.fetch_or(matches!(asked, Asked::Interrupt | Asked::Terminate | Asked::Quit), Ordering::Relaxed);
        }
    }
}
