//! The plain output: tables for each look, if standard output is not a terminal or with `--plain`; or a line of JSON for
//! each look, with `--json`.

use super::log::next_look;
use super::model::json;
use super::model::picture::Picture;
use super::model::tables::write_plain;
use super::sampler::Sampler;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};
use terminal::signals::Signals;
use terminal::{errno, print_on, say};

/// Width of the tables; pipes have no width.
const COLUMNS: usize = 100;
/// Most rows of each table; the others are counted.
const ROWS_MAX: usize = 20;

/// Prints one look as tables; `false` once the reader is gone.
pub(super) fn print_picture(picture: &Picture) -> bool {
    print_on(format!("{}\n", write_plain(picture, COLUMNS, ROWS_MAX)).as_bytes())
}

/// Prints one look as a line of JSON; `false` once the reader is gone.
pub(super) fn print_line(picture: &Picture) -> bool {
    print_on((json::encode(picture) + "\n").as_bytes())
}

/// Looks and passes each picture to `show`, until that returns `false`, the count is reached or a signal comes.
pub(super) fn look_on(
    sampler: &mut Sampler,
    interval: Duration,
    count: Option<NonZeroU64>,
    signals: &Signals,
    mut show: impl FnMut(&Picture) -> bool,
) -> Result<(), String> {
    let begun = Instant::now();
    let (mut number, mut due) = (0, Duration::ZERO);
    loop {
        let picture = sampler.look()?;
        number += 1;
        if !show(&picture) || count.is_some_and(|count| number >= count.get()) {
            return Ok(());
        }
        let (next, missed) = next_look(interval, due, begun.elapsed());
        due = next;
        if missed > 0 {
            say(&format!("holdfast: looking takes longer than {interval:?}; {missed} looks are left out"));
        }
        while sampler.wait(Some(signals.descriptor()), begun + due)? {
            if signals.next().map_err(|error| errno(&error))?.is_some() {
                return Ok(());
            }
        }
    }
}
