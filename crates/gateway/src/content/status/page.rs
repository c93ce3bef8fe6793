//! Renders the snapshot as a page for people. It is complete without scripts; with them it refetches itself every two
//! seconds and replaces its content. It loads nothing from other hosts.

pub(crate) mod room;

use crate::base::durations::BOUNDS_US;
use crate::content::status::snapshot::{
    CertificateStatus, DurationHistogram, GroupStatus, Labelled, LocationStatus, PeerStatus, Snapshot,
};
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

/// Style and script of the page. `main` is replaced as a whole, so that a table keeps its position on the screen.
const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>holdfast</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:72rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.3rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}p{margin:.3rem 0;color:#666}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid #ddd;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:#555}
.wide{overflow-x:auto}.bad{color:#b00020;font-weight:600}.off{color:#999}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th{color:#aaa}p{color:#999}
th,td{border-color:#333}.bad{color:#ff7b8a}}
</style></head><body>
"#;

const TAIL: &str = r#"<p id="stale" class="bad" hidden>not reachable; the numbers are old</p>
<script>
const renew=async()=>{try{
const page=await fetch(location.href,{headers:{Accept:"text/html"},cache:"no-store"});
const text=await page.text();
const fresh=new DOMParser().parseFromString(text,"text/html").querySelector("main");
if(!page.ok||!fresh)throw 0;
document.querySelector("main").replaceWith(fresh);stale.hidden=true;
}catch{stale.hidden=false}setTimeout(renew,2000)};
setTimeout(renew,2000);
</script></body></html>
"#;

/// Renders the whole page.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut page = String::from(HEAD);
    page.push_str("<main>\n");
    summary(&mut page, snapshot);
    locations(&mut page, snapshot);
    if !snapshot.groups.is_empty() {
        groups(&mut page, snapshot);
        peers(&mut page, snapshot);
        room::checks(&mut page, snapshot);
    }
    room::ports(&mut page, snapshot);
    room::memory(&mut page, snapshot);
    listeners(&mut page, snapshot);
    certificates(&mut page, snapshot);
    reasons(&mut page, snapshot);
    page.push_str("</main>\n");
    page.push_str(TAIL);
    page
}

/// A table: the column titles, and rows of cells that are already HTML.
fn table(page: &mut String, title: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    // Writing to a string cannot fail, here and below.
    let _ = write!(page, "<h2>{title}</h2>\n<div class=\"wide\"><table><thead><tr>");
    for column in columns {
        let _ = write!(page, "<th>{column}</th>");
    }
    page.push_str("</tr></thead>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{cell}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn summary(page: &mut String, now: &Snapshot) {
    let (connections, requests) = (&now.connections, &now.requests);
    let _ = writeln!(
        page,
        "<h1>holdfast {}</h1><p>up {}, configuration {}, {} workers, process {}</p>",
        escaped(now.version),
        duration(now.uptime_s),
        now.generation,
        now.workers,
        std::process::id()
    );
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
    columns.extend(requests.responses.keys());
    columns.push("panics");
    let mut row = vec![count(requests.total)];
    row.extend(requests.responses.values().map(|&value| count(value)));
    row.push(alarming(requests.panics));
    table(page, "Requests", &columns, [row].into_iter());
}

/// The locations with most requests.
fn locations(page: &mut String, now: &Snapshot) {
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

fn groups(page: &mut String, now: &Snapshot) {
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
            count(group.leased),
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

fn peers(page: &mut String, now: &Snapshot) {
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

fn listeners(page: &mut String, now: &Snapshot) {
    let row = |listener: &crate::content::status::snapshot::ListenerStatus| {
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
fn certificates(page: &mut String, now: &Snapshot) {
    if now.tls.certificates.is_empty() {
        return;
    }
    let row = |certificate: &CertificateStatus| {
        let ends = UNIX_EPOCH + Duration::from_secs(u64::try_from(certificate.not_after_s).unwrap_or_default());
        vec![escaped(&certificate.source), escaped(&certificate.subject), httpdate::fmt_http_date(ends)]
    };
    table(page, "Certificates", &["source", "subject", "ends"], now.tls.certificates.iter().map(row));
}

/// All counters by reason that are not zero.
fn reasons(page: &mut String, now: &Snapshot) {
    let mut rows = Vec::new();
    let mut add = |what: &str, of: &str, values: &Labelled| {
        for (reason, &value) in values.iter().filter(|(_, value)| **value > 0) {
            rows.push(vec![what.to_owned(), escaped(of), reason.replace('_', " "), count(value)]);
        }
    };
    add("client connection closed", "", &now.connections.closed);
    add("datagram dropped", "", &now.connections.datagrams_dropped);
    add("HTTP/2 connection ended", "", &now.http2.connection_faults);
    add("HTTP/2 stream ended", "", &now.http2.stream_faults);
    add("HTTP/2 connection with upstream ended", "", &now.http2_upstreams.connection_faults);
    add("HTTP/2 stream to upstream ended", "", &now.http2_upstreams.stream_faults);
    add("handshake failed", "", &now.tls.handshakes_failed);
    add("handshake with upstream failed", "", &now.tls.upstream_handshakes_failed);
    for group in &now.groups {
        add("upstream connection discarded", &group.name, &group.discarded);
        add("attempt repeated", &group.name, &group.retries);
    }
    for (log, &lines) in now.log_lines_dropped.iter().filter(|(_, lines)| **lines > 0) {
        rows.push(vec!["log line dropped".to_owned(), escaped(log), String::new(), alarming(lines)]);
    }
    table(page, "Why", &["what", "where", "reason", "count"], rows.into_iter());
}

/// The upper bound of the bucket that contains a percentile: a histogram is no more precise.
fn quantile(times: &DurationHistogram, percent: u64) -> String {
    if times.count == 0 {
        return "-".to_owned();
    }
    let wanted = (times.count * percent).div_ceil(100);
    let bucket = times.buckets.iter().find(|bucket| bucket.count >= wanted);
    match bucket.and_then(|bucket| bucket.at_most_ms) {
        Some(bound) => format!("&le; {bound} ms"),
        None => format!("&gt; {} s", BOUNDS_US[BOUNDS_US.len() - 1] / 1_000_000),
    }
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", seconds % 60),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A number, with commas between thousands.
fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that should be 0.
fn alarming(value: u64) -> String {
    if value == 0 {
        "<span class=\"off\">0</span>".to_owned()
    } else {
        format!("<span class=\"bad\">{}</span>", count(value))
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            symbol => safe.push(symbol),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::status::snapshot::Bucket;
    use report::prometheus::NativeHistogram;

    #[test]
    fn a_percentile_is_shown_as_the_bound_of_its_bucket() {
        let of = |counts: [u64; 3]| {
            let bounds = [Some(0.1), Some(5.0), None];
            let buckets =
                bounds.into_iter().zip(counts).map(|(at_most_ms, count)| Bucket { at_most_ms, count }).collect();
            DurationHistogram { count: counts[2], sum_ms: 0.0, buckets, native: NativeHistogram::default() }
        };
        assert_eq!(quantile(&of([98, 100, 100]), 50), "&le; 0.1 ms");
        assert_eq!(quantile(&of([98, 100, 100]), 99), "&le; 5 ms");
        assert_eq!(quantile(&of([0, 0, 1]), 50), "&gt; 60 s");
        assert_eq!(quantile(&of([0, 0, 0]), 50), "-");
    }

    #[test]
    fn numbers_and_names_are_readable_and_safe() {
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!(escaped("<a href=\"x&y\">"), "&lt;a href=&quot;x&amp;y&quot;&gt;");
        assert_eq!(
            (duration(61), duration(3700), duration(90_000)),
            ("1 min 1 s".into(), "1 h 1 min".into(), "1 d 1 h".into())
        );
    }
}
