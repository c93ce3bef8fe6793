//! The parts of the page about health checks, ports and memory.

use crate::content::status::page::{alarming, count, duration, escaped, table};
use crate::content::status::snapshot::Snapshot;
use crate::content::status::snapshot::checks::CheckStatus;
use crate::content::status::snapshot::room::PairStatus;
use std::fmt::Write as _;

/// Ports that run out sooner than this are shown in red: about the time that an operator needs to respond to a call.
pub(super) const EXHAUSTED_SOON_S: f64 = 600.0;

pub(crate) fn checks(page: &mut String, now: &Snapshot) {
    let columns = ["peer", "<state", "for", "passed", "failed", "in a row", "<last result", "ago"];
    let now_s = now.started_at_s + now.uptime_s;
    for group in &now.groups {
        let checked = group.peers.iter().filter_map(|peer| Some((&peer.address, peer.check.as_ref()?)));
        let row = |(address, check): (&String, &CheckStatus)| {
            let state = if check.state == "healthy" {
                check.state.clone().into_owned()
            } else {
                format!("<span class=\"bad\">{}</span>", check.state)
            };
            let (result, ago) = match &check.last {
                None => (String::new(), "-".to_owned()),
                Some(last) if last.detail.is_empty() => {
                    (last.result.clone().into_owned(), format!("{:.1} s", last.ago_s))
                }
                Some(last) => (escaped(&last.detail), format!("{:.1} s", last.ago_s)),
            };
            vec![
                escaped(address),
                state,
                duration(now_s.saturating_sub(check.changed_at_s)),
                count(check.passed),
                alarming(check.failed),
                count(check.in_a_row.into()),
                result,
                ago,
            ]
        };
        let rows: Vec<_> = checked.map(row).collect();
        if !rows.is_empty() {
            table(page, &format!("Health checks of {}", escaped(&group.name)), &columns, rows.into_iter());
        }
    }
}

pub(crate) fn ports(page: &mut String, now: &Snapshot) {
    let ports = &now.ports;
    if ports.pairs_total == 0 {
        return;
    }
    let row = |pair: &PairStatus| {
        let reusable =
            if pair.reusable > 0 { format!(" ({} reusable)", count(pair.reusable.into())) } else { String::new() };
        vec![
            escaped(&pair.source),
            escaped(&pair.peer),
            count(pair.ports.into()),
            count(pair.used.into()),
            format!("{}{reusable}", count(pair.time_wait.into())),
            if pair.free == 0 { "<span class=\"bad\">0</span>".to_owned() } else { count(pair.free.into()) },
            format!("{:.1}", pair.opened_per_second),
            match pair.exhausted_in_s {
                None => "never".to_owned(),
                Some(seconds) if seconds < EXHAUSTED_SOON_S => format!("<span class=\"bad\">{seconds:.0} s</span>"),
                Some(seconds) => duration(seconds as u64),
            },
        ]
    };
    let columns = ["from", "<to", "ports", "used", "TIME_WAIT", "free", "opened/s", "none left in"];
    table(page, "Local ports", &columns, ports.pairs.iter().map(row));
    let unseen = ports.pairs_total.saturating_sub(ports.pairs.len() as u64);
    if unseen > 0 {
        let least = ports.free_least.map_or(String::new(), |least| count(least.into()));
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "<p>{} pairs more are not shown; {least} ports are free in the tightest of all.</p>",
            count(unseen)
        );
    }
}

pub(crate) fn memory(page: &mut String, now: &Snapshot) {
    let (memory, overload) = (&now.memory, &now.overload);
    let held = |what: &str| count(memory.held_by.get(what).copied().unwrap_or_default());
    let shed = |what: &str| alarming(memory.shed.get(what).copied().unwrap_or_default());
    let pressure = match &*memory.pressure {
        "none" => "-".to_owned(),
        level => format!("<span class=\"bad\">{level}</span>"),
    };
    let row = vec![
        memory.budget_bytes.map_or_else(|| "none".to_owned(), count),
        count(memory.held_bytes),
        held("connections"),
        held("exchanges"),
        held("tunnels"),
        held("kept"),
        count(memory.claimed_peak_bytes),
        pressure,
    ];
    let columns = ["budget", "held", "connections", "exchanges", "tunnels", "kept", "most ever taken", "given up now"];
    table(page, "Memory of connections, bytes", &columns, [row].into_iter());
    let row = vec![
        shed("keepalive"),
        shed("requests"),
        shed("accepts"),
        alarming(overload.accepts_failed),
        alarming(overload.connections_refused),
        alarming(overload.accept_queue_full),
    ];
    let columns = [
        "idle closed for memory",
        "503 for memory",
        "accept pauses for memory",
        "no descriptor",
        "above worker_connections",
        "accept queue full",
    ];
    table(page, "Turned away", &columns, [row].into_iter());
}
