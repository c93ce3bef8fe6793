//! `watch --log`: writes a histogram of all sockets by TCP state to a file at each look. `model::log_file` has the formats.

use super::Watch;
use super::model::log_file::{Head, Sample, encode_head, encode_sample};
use super::model::tally::Tally;
use super::timestamp::timestamp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sockdiag::{Census, Filter, Owners, Question, Settings, Source};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use terminal::signals::Signals;
use terminal::{errno, print_on, say};

/// Looks and writes until the count is reached or a signal comes.
pub(super) fn write(watch: &Watch, path: &Path, filter: Option<&Filter>, signals: &Signals) -> Result<(), String> {
    let mut census = Census::open().map_err(|error| error.to_string())?;
    if let Source::Proc(_) = census.source() {
        say(&format!("holdfast: the sockets come from {}", census.source()));
    }
    let mut file = Output::open(path)?;
    let head = Head {
        interval_s: watch.interval.as_secs_f64(),
        ports: watch.ports.clone(),
        ports_usable: Settings::read().ports_usable(),
        source: census.source().to_string(),
        filter: watch.filter.clone(),
    };
    file.write(&encode_head(watch.format, &head))?;
    let begun = Instant::now();
    let (mut number, mut due) = (0, Duration::ZERO);
    loop {
        let now = begun.elapsed();
        let (tally, interrupted) = count(&mut census, filter, &watch.ports)?;
        if interrupted {
            say(
                "holdfast: the sockets changed during the dump, as the kernel says; some may be counted twice or not at all",
            );
        }
        let sample = Sample { time: timestamp(), seconds: now.as_secs_f64(), tally };
        file.write(&encode_sample(watch.format, &sample))?;
        number += 1;
        if watch.count.is_some_and(|count| number >= count.get()) {
            return Ok(());
        }
        let (next, missed) = next_look(watch.interval, due, begun.elapsed());
        due = next;
        if missed > 0 {
            say(&format!("holdfast: looking takes longer than {:?}; {missed} looks are left out", watch.interval));
        }
        if !pause(signals, next.saturating_sub(begun.elapsed()))? {
            return Ok(());
        }
    }
}

/// The time of the next look, and the number of skipped looks. The last look was due at `due` and ended at `now` (both
/// since the first look); looks are skipped if it took longer than the interval.
pub(super) fn next_look(interval: Duration, due: Duration, now: Duration) -> (Duration, u32) {
    let next = due.saturating_add(interval);
    let late = now.saturating_sub(next).as_nanos();
    if late == 0 {
        return (next, 0);
    }
    let missed = u32::try_from(late.div_ceil(interval.as_nanos().max(1))).unwrap_or(u32::MAX);
    (next.saturating_add(interval.saturating_mul(missed)), missed)
}

fn count(census: &mut Census, filter: Option<&Filter>, ports: &[u16]) -> Result<(Tally, bool), String> {
    let owners = filter.is_some_and(Filter::names_a_process).then(Owners::scan).transpose();
    let owners = owners.map_err(|error| format!("the processes cannot be read: {error}"))?;
    let question = Question { filter, owners: owners.as_ref(), tcp_info: false, memory: false, ..Question::default() };
    let (tally, summary) = census
        .collect(&question, || Tally::of_ports(ports), Tally::count)
        .map_err(|error| format!("the sockets cannot be read: {error}"))?;
    Ok((tally, summary.interrupted))
}

/// Waits; returns `false` at once if a signal ends the program.
pub(super) fn pause(signals: &Signals, duration: Duration) -> Result<bool, String> {
    let until = Instant::now() + duration;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut watched = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        // Rounded up, because a wait that ends early would look twice at the same time.
        let left_ms = left.as_nanos().div_ceil(1_000_000);
        match poll(&mut watched, PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)) {
            Ok(0) if left_ms == 0 => return Ok(true),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => {
                if signals.next().map_err(|error| errno(&error))?.is_some() {
                    return Ok(false);
                }
            }
            Err(error) => return Err(format!("poll() failed {}", errno(&error.into()))),
        }
    }
}

/// A file, or standard output.
enum Output {
    File(File, String),
    Standard,
}

impl Output {
    fn open(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Ok(Self::Standard);
        }
        // A log is a measurement, so an existing file is not overwritten.
        match File::create_new(path) {
            Ok(file) => Ok(Self::File(file, path.display().to_string())),
            Err(error) => Err(format!("the log {} cannot be made {}", path.display(), errno(&error))),
        }
    }

    /// Writes at once, so that a reader sees complete samples.
    fn write(&mut self, text: &str) -> Result<(), String> {
        match self {
            Self::File(file, name) => {
                file.write_all(text.as_bytes()).map_err(|error| format!("{name} cannot be written {}", errno(&error)))
            }
            Self::Standard => {
                if print_on(text.as_bytes()) {
                    Ok(())
                } else {
                    Err("the reader of the log is gone".to_owned())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_keep_their_period_and_report_skips() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(next_look(seconds(2.0), seconds(0.0), seconds(0.3)), (seconds(2.0), 0));
        assert_eq!(next_look(seconds(2.0), seconds(4.0), seconds(6.0)), (seconds(6.0), 0));
        assert_eq!(next_look(seconds(2.0), seconds(4.0), seconds(6.5)), (seconds(8.0), 1));
        assert_eq!(next_look(seconds(2.0), seconds(4.0), seconds(11.0)), (seconds(12.0), 3));
    }
}
