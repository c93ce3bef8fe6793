//! `--csv`: a line per interval, with what the kernel said of the sockets behind what the protocol's module has to say.

use super::sockets::account::{Look, Looks};
use sockdiag::State;
use std::time::Duration;

/// What `socket_cells` writes: the last look in the interval. Closes and segments are counted from the start of the run.
const SOCKET_COLUMNS: &str = ",syn_sent,established,fin_wait,close_wait,last_ack,closing,time_wait,closed_first_by_target,\
                              closed_first_by_load,segments_sent_again,window_zero,unread\n";

/// The table: each line comes with the end of its interval.
pub(super) fn csv(columns: &str, looks: Option<&Looks>, lines: impl Iterator<Item = (Duration, String)>) -> String {
    let mut text = columns.to_owned();
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
