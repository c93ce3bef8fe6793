//! A picture with something on every page, and its output.

use super::*;
use crate::model::destinations::Destination;
use crate::model::listeners::{self, ConfiguredListener, Listener};
use crate::model::piles::{Cause, Pile};
use crate::model::tally::Tally;
use crate::model::tests::socket;
use sockdiag::{Counters, Settings};

/// A machine in trouble.
pub(crate) fn picture() -> Picture {
    let mut tally = Tally::of_ports(&[10_000]);
    for port in 0..120_u16 {
        tally.count(&socket(State::TimeWait, &format!("10.0.0.1:{}", 40_000 + port), "10.0.0.2:10000"));
    }
    tally.count(&socket(State::Established, "10.0.0.1:80", "10.0.0.9:1"));
    let mut listener = socket(State::Listen, "0.0.0.0:80", "0.0.0.0:0");
    (listener.recv_queue, listener.send_queue) = (129, 128);
    let asked = [ConfiguredListener { address: "0.0.0.0:80".parse().unwrap(), backlog: 511 }];
    let listeners =
        listeners::finish(vec![Listener::of(&listener, Some("nginx[4711]".to_owned()), &asked, false)], &[]);
    let pile = Pile {
        local: "10.0.0.1:80".parse().unwrap(),
        remote: "[2001:db8:1234:5678:9abc:def0:1234:5678]:40000".parse().unwrap(),
        state: State::Established,
        recv: 0,
        send: 2_600_000,
        cause: Cause::PeerWindowZero,
        inode: 1,
    };
    let missed = Missed {
        opened: 100,
        opens_seen: 40,
        passed_over: 0,
        opens_seen_dying: 59,
        closed: 80,
        closes_seen: 80,
        overruns: 0,
    };
    Picture {
        time: "2026-11-22T00:00:00Z".to_owned(),
        seconds: 2.0,
        took_ms: 1.5,
        tally,
        listeners,
        destinations: vec![Destination {
            local: "10.0.0.1".parse().unwrap(),
            remote: "10.0.0.2:10000".parse().unwrap(),
            used: 10,
            time_wait: 27_000,
            connecting: 0,
            unanswered: 0,
            retransmitting: 0,
            free: Some(1222),
            reuses: false,
            growth_per_s: 61.1,
            exhausted_in_s: Some(20.0),
        }],
        piles: vec![(pile, Some("nginx[4711]".to_owned()))],
        closers: vec![
            (Peer::To("10.0.0.2:10000".parse().unwrap()), Closes { this_side: 990, peer: 9, unknown: 1 }),
            (Peer::From("10.0.0.9".parse().unwrap(), 80), Closes { this_side: 0, peer: 5, unknown: 0 }),
        ],
        closes: Closes { this_side: 990, peer: 14, unknown: 1 },
        counted: Counters { segments_out: Some(75), segments_retrans: Some(25), ..Counters::default() },
        counted_all: Counters { segments_out: Some(300), segments_retrans: Some(25), ..Counters::default() },
        missed: Some((missed, Missed { opened: 400, opens_seen: 340, ..missed })),
        settings: Settings { somaxconn: Some(128), ..Settings::default() },
        notes: vec!["3 processes may not be looked into".to_owned()],
        ..Picture::default()
    }
}

#[test]
fn every_page_states_its_purpose_in_80_columns() {
    let text = write_plain(&picture(), 80, 10);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let squeezed: Vec<String> =
        text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "2026-11-22T00:00:00Z 121 connections, 1 listener, look 1.5 ms",
        "TIME_WAIT 120 120",
        "0.0.0.0:80 129 128 511 - nginx[4711] full: not accepting",
        "10.0.0.2:10000 10.0.0.1 10 27,000 1,222 +61.1 20 s",
        "to 10.0.0.2:10000 990 9 1 99.0",
        "from 10.0.0.9 on :80 0 5 0 0.0",
        "kernel: Counts of the whole network namespace, whatever the filter.",
        "counter, since last look start",
        "segments sent again 25.00 % 7.69 % of all that were sent",
        "accept queue full - - connections that found no place",
        "connections opened 100 400 99.8 % of all seen",
        "note: 3 processes may not be looked into",
    ] {
        assert!(squeezed.iter().any(|line| line == expected), "{expected:?} is not in\n{text}");
    }
    let pile = squeezed.iter().find(|line| line.contains("2,600,000")).expect("in the table");
    assert!(pile.starts_with("0 2,600,000 peer's window zero") && pile.contains(":40000"), "{pile}");
    let kernel = text.split("\nkernel: ").nth(1).expect("a page");
    assert!(!kernel.contains('…'), "what a counter means is readable: {kernel}");
    // The output says how many rows are cut off.
    assert!(write_plain(&picture(), 80, 1).contains("  and 1 more\n"));
    // An idle machine has pages, too.
    let empty = write_plain(&Picture::default(), 80, 10);
    assert!(
        empty.contains("nothing is connected from here") && empty.contains("no bytes wait in any queue"),
        "{empty}"
    );
}

#[test]
fn times_have_a_readable_unit() {
    assert_eq!([duration(5.4), duration(600.0), duration(9000.0)], ["5 s", "10.0 min", "2.5 h"]);
}
