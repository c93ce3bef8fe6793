//! The parts of the page about clients: requests, locations, listeners, certificates.

use crate::content::status::page::{alarming, count, escaped, quantile, table};
use crate::content::status::snapshot::{CertificateStatus, ListenerStatus, LocationStatus, Snapshot};
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

/// A certificate that ends sooner than this is shown in red: renewal has failed for weeks by then.
pub(super) const CERTIFICATE_SOON_S: i64 = 14 * 86_400;

pub(super) fn requests(page: &mut String, now: &Snapshot) {
    let (connections, requests) = (&now.connections, &now.requests);
    let row = [
        count(connections.active),
        count(connections.reading),
        count(requests.under_way),
        count(connections.tunnels),
        count(connections.waiting),
        count(connections.accepted),
        alarming(connections.dropped),
    ];
    let columns = ["open", "reading", "exchanges", "tunnels", "idle", "accepted", "turned away"];
    table(page, "Client connections", &columns, [row.to_vec()].into_iter());
    let mut columns = vec!["requests"];
    columns.extend(requests.responses.keys().map(|class| &**class));
    columns.push("panics");
    let mut row = vec![count(requests.total)];
    row.extend(requests.responses.values().map(|&value| count(value)));
    row.push(alarming(requests.panics));
    table(page, "Requests", &columns, [row].into_iter());
}

/// The locations with most requests.
pub(super) fn locations(page: &mut String, now: &Snapshot) {
    /// Most locations that are shown; the metrics have all.
    const SHOWN_MAX: usize = 30;
    let total = |location: &LocationStatus| location.responses.values().sum::<u64>();
    let mut locations: Vec<&LocationStatus> = now.locations.iter().collect();
    locations.sort_by_key(|location| std::cmp::Reverse(total(location)));
    let row = |location: &&LocationStatus| {
        let class = |name: &str| location.responses.get(name).copied().unwrap_or_default();
        vec![
            format!("{} {}", escaped(&location.server), escaped(&location.location)),
            count(total(location)),
            count(class("4xx")),
            alarming(class("5xx")),
            quantile(&location.duration, 50),
            quantile(&location.duration, 99),
        ]
    };
    let columns = ["server and location", "responses", "4xx", "5xx", "p50", "p99"];
    table(page, "Locations", &columns, locations.iter().take(SHOWN_MAX).map(row));
    if locations.len() > SHOWN_MAX {
        let _ = writeln!(page, "<p>{} more are in the metrics.</p>", locations.len() - SHOWN_MAX);
    }
}

pub(super) fn listeners(page: &mut String, now: &Snapshot) {
    let row = |listener: &ListenerStatus| {
        let queue = listener.queue.as_ref();
        let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), count);
        vec![
            escaped(&listener.address),
            number(queue.map(|queue| queue.waiting)),
            number(queue.map(|queue| queue.backlog)),
        ]
    };
    table(page, "Listeners", &["address", "waiting in the kernel", "backlog"], now.listeners.iter().map(row));
    if let (Some(overflows), Some(drops)) = (now.listen_overflows, now.listen_drops) {
        let _ =
            writeln!(page, "<p>Of all listeners of this network namespace: {overflows} overflows, {drops} drops.</p>");
    }
}

/// The certificates that clients are shown, if TLS is used.
pub(super) fn certificates(page: &mut String, now: &Snapshot) {
    if now.tls.certificates.is_empty() {
        return;
    }
    let row = |certificate: &CertificateStatus| {
        let ends = UNIX_EPOCH + Duration::from_secs(u64::try_from(certificate.not_after_s).unwrap_or_default());
        let soon = certificate.not_after_s < (now.started_at_s + now.uptime_s) as i64 + CERTIFICATE_SOON_S;
        let ends = httpdate::fmt_http_date(ends);
        let ends = if soon { format!("<span class=\"bad\">{ends}</span>") } else { ends };
        vec![escaped(&certificate.source), escaped(&certificate.subject), ends]
    };
    table(page, "Certificates", &["source", "<subject", "<ends"], now.tls.certificates.iter().map(row));
}
