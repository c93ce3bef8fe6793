//! `--csv`: a line per interval. The protocol's columns come first, then those of the machine and of the sockets.

use crate::drive::sockets::account::{Look, Looks};
use crate::{Spent, Ticks};
use sockdiag::State;
use std::time::Duration;

/// The columns of `socket_cells`, from the last look in the interval. Closes and segments count from the start of the
/// run.
const SOCKET_COLUMNS: &str = ",syn_sent,established,fin_wait,close_wait,last_ack,closing,time_wait,closed_first_by_target,\
                              closed_first_by_load,segments_sent_again,window_zero,unread\n";

/// The columns of `machine_cells`.
const MACHINE_COLUMNS: &str = ",generator_waited_s,host_stolen_percent,generator_cpu_s";

/// The table. Each line comes with the end of its interval, and ends with its `machine_cells`.
pub(crate) fn csv(columns: &str, looks: Option<&Looks>, lines: impl Iterator<Item = (Duration, String)>) -> String {
    let mut text = columns.to_owned() + MACHINE_COLUMNS;
    text.push_str(if looks.is_some() { SOCKET_COLUMNS } else { "\n" });
    for (end, line) in lines {
        text.push_str(&line);
        if let Some(looks) = looks {
            text.push_str(&socket_cells(looks.at(end)));
        }
        text.push('\n');
    }
    text
}

/// How the generator's and the processors' time was spent in an interval; an unknown value leaves its cell empty.
pub(crate) fn machine_cells(spent: Spent, processors: Ticks) -> String {
    let cell = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    let waited_s = spent.waited_ns.map(|ns| ns as f64 / 1e9);
    let stolen_percent = processors.stolen_share().map(|share| share * 100.0);
    [waited_s, stolen_percent, Some(spent.cpu_ns as f64 / 1e9)].map(cell).join(",")
}

fn socket_cells(look: Option<&Look>) -> String {
    // Before the first look the cells are empty.
    let Some(look) = look else { return ",".repeat(SOCKET_COLUMNS.matches(',').count()) };
    let of = |state| look.states.of(state);
    let cells = [
        of(State::SynSent),
        of(State::Established),
        of(State::FinWait1) + of(State::FinWait2),
        of(State::CloseWait),
        of(State::LastAck),
        of(State::Closing),
        of(State::TimeWait),
        look.closes.peer,
        look.closes.this_side,
        look.sent_again,
        look.window_zero,
        look.unread,
    ];
    cells.iter().fold(String::new(), |text, cell| text + "," + &cell.to_string())
}
