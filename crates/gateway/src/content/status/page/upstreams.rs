//! The parts of the page about groups and their peers.

use crate::content::status::page::{alarming, count, escaped, followed, quantile, table};
use crate::content::status::snapshot::{GroupStatus, PeerStatus, Snapshot};

pub(super) fn groups(page: &mut String, now: &Snapshot) {
    let columns = [
        "group",
        "idle",
        "leased",
        "connecting",
        "waiting",
        "opened",
        "reused",
        "reuse",
        "discarded",
        "retries",
        "no live peer",
    ];
    let row = |group: &GroupStatus| {
        let begun = group.opened + group.reused;
        let reuse = if begun == 0 { "-".to_owned() } else { format!("{:.1} %", percent(group.reused, begun)) };
        vec![
            escaped(&group.name),
            count(group.idle),
            followed(&format!("leased {}", group.name), group.leased),
            count(group.connecting),
            alarming(group.waiting),
            count(group.opened),
            count(group.reused),
            reuse,
            count(group.discarded.values().sum()),
            count(group.retries.values().sum()),
            alarming(group.no_live_peer),
        ]
    };
    table(page, "Upstream groups", &columns, now.groups.iter().map(row));
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole as f64
}

pub(super) fn peers(page: &mut String, now: &Snapshot) {
    let columns = [
        "peer",
        "idle",
        "leased",
        "connecting",
        "attempts",
        "failed",
        "opened",
        "2xx",
        "4xx",
        "5xx",
        "connect p50",
        "connect p99",
        "response p50",
        "response p99",
    ];
    for group in &now.groups {
        let row = |peer: &PeerStatus| {
            let class = |name: &str| count(peer.responses.get(name).copied().unwrap_or_default());
            vec![
                escaped(&peer.address),
                count(peer.idle),
                count(peer.leased),
                count(peer.connecting),
                count(peer.attempts),
                alarming(peer.failed),
                count(peer.opened),
                class("2xx"),
                class("4xx"),
                class("5xx"),
                quantile(&peer.connect_time, 50),
                quantile(&peer.connect_time, 99),
                quantile(&peer.response_time, 50),
                quantile(&peer.response_time, 99),
            ]
        };
        table(page, &format!("Peers of {}", escaped(&group.name)), &columns, group.peers.iter().map(row));
    }
}
