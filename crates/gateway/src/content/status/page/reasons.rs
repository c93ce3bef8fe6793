//! The parts of the page that say why something happened: counters by reason, the last errors, the last reload.

use crate::base::close::CloseReason;
use crate::content::status::page::{alarming, count, duration, escaped, table};
use crate::content::status::snapshot::{Labelled, Snapshot};
use crate::registry::recent_errors::RecentError;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};
use upstream::DiscardReason;

/// Errors that are shown at once; the others are folded.
const ERRORS_SHOWN: usize = 10;

/// What a reason means; empty if its name says it.
fn meaning(what: &str, reason: &str) -> String {
    let meaning = match what {
        "client connection closed" => {
            CloseReason::ALL.iter().find(|one| one.label() == reason).map(|one| one.explain().0)
        }
        "upstream connection discarded" => {
            DiscardReason::ALL.iter().find(|one| one.label() == reason).map(|one| one.phrase())
        }
        _ => None,
    };
    escaped(meaning.unwrap_or_default()).replace('`', "")
}

/// All counters by reason that are not zero.
pub(super) fn reasons(page: &mut String, now: &Snapshot) {
    let mut rows = Vec::new();
    let mut add = |what: &str, of: &str, values: &Labelled| {
        for (reason, &value) in values.iter().filter(|(_, value)| **value > 0) {
            rows.push(vec![
                what.to_owned(),
                escaped(of),
                reason.replace('_', " "),
                count(value),
                meaning(what, reason),
            ]);
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
        rows.push(vec!["log line dropped".to_owned(), escaped(log), String::new(), alarming(lines), String::new()]);
    }
    table(page, "Why", &["what", "<where", "<reason", "count", "<that is"], rows.into_iter());
}

/// The last lines of the error logs.
pub(super) fn errors(page: &mut String, now: &Snapshot) {
    page.push_str("<h2 id=\"errors\">Last errors</h2>\n");
    if now.errors.is_empty() {
        page.push_str("<p>None since the start.</p>\n");
        return;
    }
    let row = |error: &RecentError| {
        format!(
            "<tr><td>{}</td><td>{}</td></tr>\n",
            escaped(error.meaning.as_deref().unwrap_or_default()),
            escaped(&error.line)
        )
    };
    let rows: Vec<String> = now.errors.iter().map(row).collect();
    let (first, others) = rows.split_at(rows.len().min(ERRORS_SHOWN));
    let head = "<thead><tr><th scope=\"col\">cause</th><th scope=\"col\">line</th></tr></thead>";
    let list = |page: &mut String, id: &str, name: &str, rows: &[String]| {
        let _ = writeln!(
            page,
            "<div class=\"scroll log\" id=\"{id}\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\"><table>{head}<tbody>{}</tbody></table></div>",
            rows.concat()
        );
    };
    list(page, "errors-newest", "Newest error lines", first);
    if !others.is_empty() {
        let _ = writeln!(page, "<details id=\"errors-older\"><summary>{} older lines</summary>", others.len());
        list(page, "errors-rest", "Older error lines", others);
        page.push_str("</details>\n");
    }
}

/// The configuration in force, and what it has changed.
pub(super) fn configuration(page: &mut String, now: &Snapshot) {
    let configuration = &now.configuration;
    let loaded = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(configuration.loaded_at_s));
    let ago = duration((now.started_at_s + now.uptime_s).saturating_sub(configuration.loaded_at_s));
    let _ = writeln!(
        page,
        "<h2 id=\"configuration\">Configuration</h2>\n<p>Number {} since the start, loaded {loaded}, {ago} ago; {} workers.</p>",
        now.generation, now.workers
    );
    if now.generation > 1 && configuration.changes.is_empty() {
        page.push_str("<p>The last reload changed no address, server, location, upstream or log.</p>\n");
    }
    if !configuration.changes.is_empty() {
        page.push_str("<p>The last reload changed:</p>\n<ul>\n");
        for line in &configuration.changes {
            let _ = writeln!(page, "<li>{}</li>", escaped(line));
        }
        page.push_str("</ul>\n");
    }
}
