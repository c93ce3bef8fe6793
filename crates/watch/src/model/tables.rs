//! A look as tables, for the plain output and the live view. Pure.

use super::closers::{Closes, Peer};
use super::missed::Missed;
use super::picture::Picture;
use super::table::{Cell, Table};
use report::text::grouped;
use sockdiag::{Counters, State};
use std::fmt::Write as _;

/// The subjects of a look, each on a separate page of the live view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    States,
    Listeners,
    Destinations,
    Queues,
    Closes,
    Kernel,
}

impl Page {
    pub(crate) const ALL: [Self; 6] =
        [Self::States, Self::Listeners, Self::Destinations, Self::Queues, Self::Closes, Self::Kernel];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::States => "states",
            Self::Listeners => "listeners",
            Self::Destinations => "destinations",
            Self::Queues => "queues",
            Self::Closes => "closed first",
            Self::Kernel => "kernel",
        }
    }

    pub(crate) fn table(self, picture: &Picture) -> Table {
        match self {
            Self::States => states(picture),
            Self::Listeners => listeners(picture),
            Self::Destinations => destinations(picture),
            Self::Queues => queues(picture),
            Self::Closes => closes(picture),
            Self::Kernel => kernel(picture),
        }
    }

    /// The meaning of the columns whose headings are not clear.
    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Self::States => "TIME_WAIT, FIN_WAIT: this side closed first. CLOSE_WAIT, LAST_ACK: the peer did.",
            Self::Listeners => {
                "Dropped: since the listener began. Asked: by a configuration (-c). A queue of n holds n + 1."
            }
            Self::Destinations => {
                "connect() chooses a port for each pair of addresses and remote port; * reuses TIME_WAIT."
            }
            Self::Queues => "Recv-Q: bytes not read here. Send-Q: bytes not acknowledged there.",
            Self::Closes => "Since the watch started. Unknown: a reset leaves no trace of who began.",
            Self::Kernel => "Counts of the whole network namespace, whatever the filter.",
        }
    }
}

fn states(picture: &Picture) -> Table {
    let mut headings = vec!["state", "sockets"];
    headings.extend(picture.tally.ports.iter().map(|_| "port"));
    let row = |state: State| {
        let mut row = vec![Cell::word(state.name()), Cell::count(picture.tally.all.of(state))];
        row.extend(picture.tally.ports.iter().map(|(_, histogram)| Cell::count(histogram.of(state))));
        row
    };
    let ports: Vec<Cell> = picture.tally.ports.iter().map(|(port, _)| Cell::number(0.0, format!(":{port}"))).collect();
    let mut rows: Vec<Vec<Cell>> = State::ALL.into_iter().map(row).collect();
    if !ports.is_empty() {
        rows.insert(0, [vec![Cell::word(""), Cell::number(f64::INFINITY, String::new())], ports].concat());
    }
    Table { headings, rows, empty: "no sockets" }
}

fn listeners(picture: &Picture) -> Table {
    let row = |listener: &super::listeners::Listener| {
        vec![
            Cell::address(&listener.address),
            Cell::count(u64::from(listener.queue)),
            Cell::maybe(listener.granted.map(u64::from)),
            Cell::maybe(listener.asked.map(u64::from)),
            Cell::maybe(listener.drops.map(u64::from)),
            Cell::word(listener.process.clone().unwrap_or_default()),
            Cell::word(listener.remark(&picture.settings).unwrap_or_default()),
        ]
    };
    Table {
        headings: vec!["listener", "queue", "granted", "asked", "dropped", "process", "remark"],
        rows: picture.listeners.iter().map(row).collect(),
        empty: "no listeners",
    }
}

fn destinations(picture: &Picture) -> Table {
    let row = |destination: &super::destinations::Destination| {
        let growth = destination.growth_per_s;
        vec![
            Cell::address(&destination.remote),
            Cell::address(&destination.local),
            Cell::count(u64::from(destination.used)),
            Cell::number(
                f64::from(destination.time_wait),
                grouped(u64::from(destination.time_wait)) + if destination.reuses { "*" } else { "" },
            ),
            Cell::maybe(destination.free.map(u64::from)),
            Cell::number(growth, if growth == 0.0 { "0".to_owned() } else { format!("{growth:+.1}") }),
            match (destination.free, destination.exhausted_in_s) {
                (None, _) => Cell::unknown(),
                (_, None) => Cell::number(f64::NEG_INFINITY, "never".to_owned()),
                // Sorted by urgency: the soonest counts as the largest.
                (_, Some(seconds)) => Cell::number(-seconds, duration(seconds)),
            },
        ]
    };
    Table {
        headings: vec!["to", "from", "used", "TIME_WAIT", "free", "ports/s", "none left"],
        rows: picture.destinations.iter().map(row).collect(),
        empty: "nothing is connected from here",
    }
}

fn queues(picture: &Picture) -> Table {
    let row = |(pile, process): &(super::piles::Pile, Option<String>)| {
        vec![
            Cell::count(u64::from(pile.recv)),
            Cell::count(u64::from(pile.send)),
            Cell::word(pile.cause.words()),
            Cell::address(&pile.local),
            Cell::address(&pile.remote),
            Cell::word(process.clone().unwrap_or_default()),
        ]
    };
    Table {
        headings: vec!["Recv-Q", "Send-Q", "cause", "local", "remote", "process"],
        rows: picture.piles.iter().map(row).collect(),
        empty: "no bytes wait in any queue",
    }
}

fn closes(picture: &Picture) -> Table {
    let row = |(peer, closes): &(Peer, Closes)| {
        let (direction, whom) = match peer {
            Peer::To(address) => ("to", Cell::address(address)),
            Peer::From(address, port) => ("from", Cell::address(&format!("{address} on :{port}"))),
            Peer::Others => ("", Cell::word("further peers")),
            Peer::Forgotten => ("", Cell::word("reset from here")),
        };
        let share = closes.this_side as f64 / closes.sum().max(1) as f64 * 100.0;
        vec![
            Cell::word(direction),
            whom,
            Cell::count(closes.this_side),
            Cell::count(closes.peer),
            Cell::count(closes.unknown),
            Cell::number(share, format!("{share:.1}")),
        ]
    };
    Table {
        headings: vec!["", "peer", "this side", "the peer", "unknown", "this side, %"],
        rows: picture.closers.iter().map(row).collect(),
        empty: "no connection was closed since the watch began",
    }
}

/// Each counter in the interval of this look and since the watch began, side by side. A sum under the heading of an
/// interval would be read as a rate.
fn kernel(picture: &Picture) -> Table {
    let percent = |share: Option<f64>| {
        share.map_or_else(Cell::unknown, |percent| Cell::number(percent, format!("{percent:.2} %")))
    };
    let (now, all) = (&picture.counted, &picture.counted_all);
    let mut rows = vec![vec![
        Cell::word("segments sent again"),
        percent(retransmitted_percent(now)),
        percent(retransmitted_percent(all)),
        Cell::word("of all that were sent"),
    ]];
    for (name, of, meaning) in COUNTERS {
        let meaning = match picture.settings.tw_buckets_max.filter(|_| *name == TIME_WAIT_REFUSED) {
            Some(most) => format!("{meaning}, {} at most", grouped(u64::from(most))),
            None => (*meaning).to_owned(),
        };
        rows.push(vec![Cell::word(*name), Cell::maybe(of(now)), Cell::maybe(of(all)), Cell::word(meaning)]);
    }
    if let Some((now, sum)) = &picture.missed {
        rows.extend(missed_rows(now, sum));
    }
    Table { headings: vec!["counter, since", "last look", "start", ""], rows, empty: "" }
}

const TIME_WAIT_REFUSED: &str = "TIME_WAIT refused";

type Count = fn(&Counters) -> Option<u64>;

/// The counters on the kernel's page, with their meanings.
const COUNTERS: &[(&str, Count, &str)] = &[
    (TIME_WAIT_REFUSED, |counters| counters.time_wait_overflows, "tcp_max_tw_buckets was reached"),
    ("TIME_WAIT reused", |counters| counters.time_waits_reused, "its port was handed to connect()"),
    ("accept queue full", |counters| counters.listen_overflows, "connections that found no place"),
    ("dropped by listeners", |counters| counters.listen_drops, "for that and other reasons"),
    ("SYNs sent again", |counters| counters.syn_retrans, "after 1, 3, 7 s"),
    ("resets sent", |counters| counters.resets_out, ""),
    ("ended by a reset", |counters| counters.established_resets, "out of ESTABLISHED, CLOSE_WAIT"),
    ("closed with unread data", |counters| counters.aborted_with_data, "so the close is a reset"),
    ("windows closed here", |counters| counters.zero_windows_out, "receive buffers that ran full"),
    ("given up", |counters| counters.aborted_on_timeout, "for lack of an answer"),
];

/// Retransmitted segments as a percentage of all sent segments.
pub(crate) fn retransmitted_percent(counted: &Counters) -> Option<f64> {
    let again = counted.segments_retrans?;
    let all = counted.segments_out? + again;
    (all > 0).then(|| again as f64 / all as f64 * 100.0)
}

/// The account of missed connections.
fn missed_rows(now: &Missed, sum: &Missed) -> Vec<Vec<Cell>> {
    let share =
        |percent: Option<f64>| percent.map_or_else(String::new, |percent| format!("{percent:.1} % of all seen"));
    let row = |name: &str, of: fn(&Missed) -> u64, meaning: String| {
        vec![Cell::word(name), Cell::count(of(now)), Cell::count(of(sum)), Cell::word(meaning)]
    };
    vec![
        row("connections opened", |missed| missed.opened, share(sum.opens_seen_percent())),
        row("  seen at a look", |missed| missed.opens_seen, String::new()),
        row("  seen dying before one", |missed| missed.opens_seen_dying, String::new()),
        row("  passed over by a look", |missed| missed.passed_over, "it was there before and after".to_owned()),
        row("connections closed", |missed| missed.closed, share(sum.closes_seen_percent())),
        row("events lost", |missed| missed.overruns, "the kernel's queue was full".to_owned()),
    ]
}

/// `1 listener`, `1,200 connections`.
fn counted(count: u64, of: &str) -> String {
    format!("{} {of}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// `12 s`, `3.5 min`, `2.1 h`.
fn duration(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7200.0 {
        format!("{:.1} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

/// The whole plain output, with at most `rows_max` rows of each table.
pub(crate) fn write_plain(picture: &Picture, width: usize, rows_max: usize) -> String {
    let mut text = format!("{}\n", headline(picture, width));
    for page in Page::ALL {
        let mut table = page.table(picture);
        if page == Page::States {
            table.rows.retain(|row| row.get(1).is_some_and(|cell| cell.text != "0"));
        }
        // The kernel's page always shows all counters.
        let rows_max = if page == Page::Kernel { table.rows.len() } else { rows_max };
        let hidden = table.rows.len().saturating_sub(rows_max);
        table.rows.truncate(rows_max);
        let _ = writeln!(text, "\n{}", heading(page, width));
        if table.rows.is_empty() {
            let _ = writeln!(text, "  {}", table.empty);
            continue;
        }
        for line in table.lines(width.saturating_sub(2)) {
            let _ = writeln!(text, "  {line}");
        }
        if hidden > 0 {
            let _ = writeln!(text, "  and {hidden} more");
        }
    }
    for note in &picture.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// The page's name, with the meaning of its columns if that fits.
fn heading(page: Page, width: usize) -> String {
    let whole = format!("{}: {}", page.title(), page.explanation());
    if whole.chars().count() <= width { whole } else { page.title().to_owned() }
}

/// The time of the look, the number of sockets, and the cost of the look.
pub(crate) fn headline(picture: &Picture, width: usize) -> String {
    let connections = counted(picture.tally.all.connections(), "connection");
    let line = format!(
        "{}  {connections}, {}, look {:.1} ms",
        picture.time,
        counted(picture.listeners.len() as u64, "listener"),
        picture.took_ms
    );
    line.chars().take(width).collect()
}

#[cfg(test)]
#[path = "tables_tests.rs"]
pub(crate) mod tests;
