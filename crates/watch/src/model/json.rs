//! A look as one line of JSON: everything in the live view, with stable names and plain numbers. Unknown ends and rates are
//! `null`. Pure; `watch --json` prints it.

use super::closers::{Closes, Peer};
use super::destinations::Destination;
use super::listeners::Listener;
use super::missed::Missed;
use super::picture::Picture;
use super::piles::Pile;
use super::tables::retransmitted_percent;
use super::tally::StateCounts;
use serde_json::{Map, Value, json};
use sockdiag::{Counters, State};

/// Version of the JSON objects; increased when a name changes its meaning.
const FORMAT: u32 = 1;

/// The line, without its line end.
pub(crate) fn encode(picture: &Picture) -> String {
    let settings = &picture.settings;
    let ports = picture.tally.ports.iter().map(|(port, histogram)| (port.to_string(), states(*histogram)));
    let causes = picture
        .causes
        .iter()
        .map(|(cause, sockets, bytes)| (cause.label().to_owned(), json!({ "sockets": sockets, "bytes": bytes })));
    let line = json!({
        "format": FORMAT,
        "time": picture.time,
        "seconds": rounded(picture.seconds),
        "look_ms": rounded(picture.took_ms),
        "connections": picture.tally.all.connections(),
        "states": states(picture.tally.all),
        "ports": ports.collect::<Map<_, _>>(),
        "listeners": picture.listeners.iter().map(|it| listener(it, picture)).collect::<Vec<_>>(),
        "destinations": picture.destinations.iter().map(destination).collect::<Vec<_>>(),
        "queues": {
            "by_cause": causes.collect::<Map<_, _>>(),
            "largest": picture.piles.iter().map(|(pile, process)| queue(pile, process.as_deref())).collect::<Vec<_>>(),
        },
        "closed_first": {
            "since_start": closes(picture.closes),
            "peers": picture.closers.iter().map(|(peer, of)| closer(peer, *of)).collect::<Vec<_>>(),
        },
        "kernel": {
            "since_last_look": counters(&picture.counted),
            "since_start": counters(&picture.counted_all),
        },
        "account": picture.missed.map(|(now, all)| json!({ "since_last_look": account(&now), "since_start": account(&all) })),
        "settings": {
            "ports_usable": settings.ports_usable(),
            "somaxconn": settings.somaxconn,
            "tcp_tw_reuse": settings.tw_reuse,
            "tcp_max_tw_buckets": settings.tw_buckets_max,
        },
        "notes": picture.notes,
    });
    line.to_string()
}

/// All states, so that a reader need not check whether one exists.
fn states(histogram: StateCounts) -> Value {
    State::ALL
        .into_iter()
        .map(|state| (state.name().to_owned(), histogram.of(state).into()))
        .collect::<Map<_, _>>()
        .into()
}

fn listener(listener: &Listener, picture: &Picture) -> Value {
    json!({
        "address": listener.address,
        "queue": listener.queue,
        "granted": listener.granted,
        "asked": listener.asked,
        "dropped_since_it_began": listener.drops,
        "dropped_since_last_look": listener.drops_new,
        "process": listener.process,
        "remark": listener.remark(&picture.settings),
    })
}

fn destination(destination: &Destination) -> Value {
    json!({
        "remote": destination.remote,
        "local": destination.local,
        "used": destination.used,
        "time_wait": destination.time_wait,
        "time_wait_is_reused": destination.reuses,
        "free": destination.free,
        "ports_per_second": rounded(destination.growth_per_s),
        "exhausted_in_s": destination.exhausted_in_s.map(rounded),
    })
}

fn queue(pile: &Pile, process: Option<&str>) -> Value {
    json!({
        "local": pile.local,
        "remote": pile.remote,
        "state": pile.state.name(),
        "recv": pile.recv,
        "send": pile.send,
        "cause": pile.cause.label(),
        "process": process,
    })
}

fn closer(peer: &Peer, of: Closes) -> Value {
    let (direction, address, port) = match peer {
        Peer::To(address) => (Some("to"), Some(address.ip()), Some(address.port())),
        Peer::From(address, port) => (Some("from"), Some(*address), Some(*port)),
        Peer::Others | Peer::Forgotten => (None, None, None),
    };
    let what = match peer {
        Peer::To(_) | Peer::From(..) => "peer",
        Peer::Others => "further_peers",
        Peer::Forgotten => "reset_from_here",
    };
    json!({ "what": what, "direction": direction, "address": address, "port": port, "closes": closes(of) })
}

fn closes(closes: Closes) -> Value {
    json!({ "this_side": closes.this_side, "peer": closes.peer, "unknown": closes.unknown })
}

/// The counters with the kernel's names, as in `nstat`.
fn counters(counted: &Counters) -> Value {
    let each = counted.each().map(|(name, count)| (name.to_owned(), count.into()));
    // This is a current value and has no growth.
    let mut all: Map<String, Value> = each.filter(|(name, _)| name != "CurrEstab").collect();
    all.insert("retransmitted_percent".to_owned(), retransmitted_percent(counted).map(rounded).into());
    all.into()
}

fn account(missed: &Missed) -> Value {
    json!({
        "opened": missed.opened,
        "opens_seen_at_a_look": missed.opens_seen,
        "opens_seen_dying": missed.opens_seen_dying,
        "passed_over": missed.passed_over,
        "closed": missed.closed,
        "closes_seen": missed.closes_seen,
        "events_lost": missed.overruns,
    })
}

/// Rounds to a thousandth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tables::tests::picture;

    #[test]
    fn everything_that_the_live_view_shows_is_in_the_line() {
        let text = encode(&picture());
        assert!(!text.contains('\n'), "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        for (pointer, expected) in [
            ("/states/TIME_WAIT", json!(120)),
            ("/states/CLOSE_WAIT", json!(0)),
            ("/ports/10000/TIME_WAIT", json!(120)),
            ("/listeners/0/address", json!("0.0.0.0:80")),
            ("/listeners/0/remark", json!("full: not accepting")),
            ("/listeners/0/dropped_since_it_began", json!(null)),
            ("/destinations/0/free", json!(1222)),
            ("/destinations/0/exhausted_in_s", json!(20.0)),
            ("/queues/largest/0/cause", json!("peer_window_zero")),
            ("/queues/largest/0/send", json!(2_600_000)),
            ("/queues/largest/0/process", json!("nginx[4711]")),
            ("/closed_first/since_start/this_side", json!(990)),
            ("/closed_first/peers/0/address", json!("10.0.0.2")),
            ("/closed_first/peers/1/direction", json!("from")),
            ("/kernel/since_last_look/retransmitted_percent", json!(25.0)),
            ("/kernel/since_last_look/ListenDrops", json!(null)),
            ("/kernel/since_start/OutSegs", json!(300)),
            ("/account/since_last_look/opened", json!(100)),
            ("/account/since_start/opened", json!(400)),
            ("/settings/somaxconn", json!(128)),
            ("/notes/0", json!("3 processes may not be looked into")),
        ] {
            assert_eq!(line.pointer(pointer), Some(&expected), "{pointer} in {text}");
        }
    }
}
