//! `--csv`: a line per interval, with what the kernel said of the sockets behind what the protocol's module has to say.

use crate::drive::sockets::account::{Look, Looks};
use crate::{Spent, Ticks};
use sockdiag::State;
use std::time::Duration;

/// What `socket_cells` writes: the last look in the interval. Closes and segments are counted from the start of the run.
const SOCKET_COLUMNS: &str = ",syn_sent,established,fin_wait,close_wait,last_ack,closing,time_wait,closed_first_by_target,\
                              closed_first_by_load,segments_sent_again,window_zero,unread\n";

/// What `machine_cells` writes.
const MACHINE_COLUMNS: &str = ",generator_waited_s,host_stolen_percent,generator_cpu_s";

/// The table: each line ends with its `machine_cells`, and comes with the end of its interval.
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

/// What became of the generator's time and of the processors in an interval; what is not known leaves its cell empty.
pub(crate) fn machine_cells(spent: Spent, processors: Ticks) -> String {
    let cell = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    let waited_s = spent.waited_ns.map(|ns| ns as f64 / 1e9);
    let stolen_percent = processors.stolen_share().map(|share| share * 100.0);
    [waited_s, stolen_percent, Some(spent.cpu_ns as f64 / 1e9)].map(cell).join(",")
}

fn socket_cells(look: Option<&Look>) -> String {
    // Before the first look nothing is known.
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
