//! Renders the answers of a running instance as text. Pure: JSON in, text out; `--json` prints the same data as
//! received.

use super::request::{CacheAct, ConnectionChange, Request};
use report::text::grouped;
use serde_json::Value;
use std::fmt::Write as _;

/// The text of an answer.
pub(super) fn render(request: &Request, result: &Value) -> String {
    match request {
        Request::Status => status(result),
        Request::Top { .. } => String::new(),
        Request::Errors { .. } => errors(result),
        Request::Connections { change: Some(ConnectionChange::CloseAll), .. }
        | Request::Tunnels { change: Some(ConnectionChange::CloseAll), .. } => {
            let incomplete =
                if result["complete"] == Value::Bool(false) { ", a worker did not answer in time" } else { "" };
            format!("{} connections closed{incomplete}\n", number(&result["closed"]))
        }
        Request::Pools { change: None } => table(result, "pools", &POOLS),
        Request::Connections { change: None, .. } => listing(result, &CONNECTIONS),
        Request::Tunnels { change: None, .. } => listing(result, &TUNNELS),
        Request::Peers { .. } => table(result, "peers", &PEERS),
        Request::Pools { .. } => format!("{} idle connections closed\n", number(&result["closed"])),
        Request::Connections { change: Some(ConnectionChange::Close { connection }), .. }
        | Request::Tunnels { change: Some(ConnectionChange::Close { connection }), .. } => {
            format!("connection *{connection} closed\n")
        }
        Request::Cache { act: None } => table(result, "caches", &CACHES),
        Request::Cache { act: Some(act) } => cached(act, result),
        Request::Reload { dry_run: false } => "the new configuration holds\n".to_owned(),
        Request::Reload { dry_run: true } => plan(result),
        Request::LogLevel { .. } => match result["level"].as_str() {
            Some(level) => format!("all error logs: {level}\n"),
            None => "error logs have the levels of the configuration\n".to_owned(),
        },
    }
}

/// A column: its title, its field, and the function that formats it.
type Column = (&'static str, &'static str, fn(&Value) -> String);

const PEERS: [Column; 10] = [
    ("group", "group", text),
    ("peer", "peer", text),
    ("mode", "mode", text),
    ("weight", "weight", number),
    ("check", "check", text),
    ("fails", "fails", number),
    ("active", "active", number),
    ("idle", "idle", number),
    ("attempts", "attempts", number),
    ("failed", "failed", number),
];
const POOLS: [Column; 8] = [
    ("group", "group", text),
    ("idle", "idle", number),
    ("leased", "leased", number),
    ("connecting", "connecting", number),
    ("waiting", "waiting", number),
    ("opened", "opened", number),
    ("reused", "reused", number),
    ("discarded", "discarded", number),
];
const CACHES: [Column; 11] = [
    ("zone", "zone", text),
    ("keys", "keys", number),
    ("keys_max", "keys_max", number),
    ("bytes", "bytes", number),
    ("hits", "hits", number),
    ("misses", "misses", number),
    ("expired", "expired", number),
    ("stale", "stale", number),
    ("bypassed", "bypassed", number),
    ("write_failures", "write_failures", number),
    ("bad_files", "bad_files", number),
];
const ENTRIES: [Column; 4] = [
    ("key", "key", text),
    ("body", "body_bytes", number),
    ("fresh for", "fresh_s", seconds),
    ("variant", "is_variant", yes),
];
const CONNECTIONS: [Column; 7] = [
    ("connection", "connection", serial),
    ("client", "client", text),
    ("state", "state", text),
    ("age", "age_ms", time),
    ("idle", "idle_ms", time),
    ("requests", "requests", number),
    ("memory", "memory_bytes", number),
];
const TUNNELS: [Column; 9] = [
    ("connection", "connection", serial),
    ("client", "client", text),
    ("upstream", "upstream", text),
    ("route", "route", text),
    ("age", "age_ms", time),
    ("idle", "idle_ms", time),
    ("received", "received_bytes", number),
    ("sent", "sent_bytes", number),
    ("memory", "memory_bytes", number),
];

/// Lines of error logs, each with its cause below it.
pub(super) fn errors(result: &Value) -> String {
    let mut out = String::new();
    for error in result["errors"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "{}", text(&error["line"]));
        if let Some(meaning) = error["meaning"].as_str() {
            let _ = writeln!(out, "    cause: {meaning}");
        }
    }
    out
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), grouped)
}

fn serial(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |serial| format!("*{serial}"))
}

/// A number of seconds; a past time is negative.
fn seconds(value: &Value) -> String {
    value.as_i64().map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"))
}

fn yes(value: &Value) -> String {
    if *value == Value::Bool(true) { "yes" } else { "" }.to_owned()
}

fn time(value: &Value) -> String {
    match value.as_u64() {
        None => "-".to_owned(),
        Some(ms) if ms < 10_000 => format!("{:.1} s", ms as f64 / 1e3),
        Some(ms) if ms < 600_000 => format!("{} s", ms / 1000),
        Some(ms) if ms < 36_000_000 => format!("{} min", ms / 60_000),
        Some(ms) => format!("{} h", ms / 3_600_000),
    }
}

/// Rows in columns as wide as their longest cell.
fn table(result: &Value, rows: &str, columns: &[Column]) -> String {
    let rows = result[rows].as_array().map_or(&[][..], Vec::as_slice);
    let titles: Vec<String> = columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|(_, field, write)| write(&row[*field])).collect());
    let lines: Vec<Vec<String>> = std::iter::once(titles).chain(cells).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let mut padded = String::new();
        for ((cell, width), (.., write)) in line.iter().zip(&widths).zip(columns) {
            // Numbers are right-aligned, words left-aligned.
            let is_word = std::ptr::fn_addr_eq(*write, text as fn(&Value) -> String);
            let _ = if is_word { write!(padded, "{cell:<width$}  ") } else { write!(padded, "{cell:>width$}  ") };
        }
        out.push_str(padded.trim_end());
        out.push('\n');
    }
    out
}

fn listing(result: &Value, columns: &[Column]) -> String {
    let mut out = table(result, "rows", columns);
    let shown = result["rows"].as_array().map_or(0, Vec::len) as u64;
    let matching = result["matching"].as_u64().unwrap_or(shown);
    let _ = writeln!(out, "{} of {} shown", grouped(shown), grouped(matching));
    if result["complete"] == Value::Bool(false) {
        out.push_str("a worker did not answer in time: the list is incomplete\n");
    }
    out
}

fn cached(act: &CacheAct, result: &Value) -> String {
    let rows = result["rows"].as_array().map_or(0, Vec::len) as u64;
    let mut out = if rows > 0 { table(result, "rows", &ENTRIES) } else { String::new() };
    let (matching, bytes) = (number(&result["matching"]), number(&result["bytes"]));
    let _ = match act {
        CacheAct::List { .. } => writeln!(out, "{} of {matching} shown, {bytes} bytes of bodies", grouped(rows)),
        CacheAct::Purge { .. } => writeln!(out, "{matching} responses removed, {bytes} bytes of bodies"),
    };
    if result["complete"] == Value::Bool(false) {
        out.push_str("there was no time for all files: ask again for the rest\n");
    }
    out
}

fn status(result: &Value) -> String {
    let mut out = String::new();
    let (master, serving) = (&result["master"], &result["serving"]);
    let mut line = |name: &str, value: String| _ = writeln!(out, "{name:<14}{value}");
    line("master", format!("pid {}, version {}", number_plain(&master["pid"]), text(&master["version"])));
    let pids: Vec<String> = master["worker_pids"].as_array().into_iter().flatten().map(number_plain).collect();
    let groups = master["worker_groups"].as_u64().unwrap_or_default();
    if groups > 1 {
        line("workers", format!("{} of {groups} worker groups serve: pid {}", pids.len(), pids.join(", ")));
    } else {
        line("worker", format!("pid {}, up {}", number_plain(&master["worker_pid"]), time(&master["worker_age_ms"])));
    }
    if let Some(retiring) = master["retiring"].as_u64().filter(|retiring| *retiring > 0) {
        line("retiring", format!("{retiring} worker processes finish what they began"));
    }
    line("configuration", format!("{}, generation {}", text(&master["conf"]), number_plain(&serving["generation"])));
    let connections = &serving["connections"];
    line(
        "connections",
        format!(
            "{} active ({} reading, {} writing, {} waiting), {} tunnels{}",
            number(&connections["active"]),
            number(&connections["reading"]),
            number(&connections["writing"]),
            number(&connections["waiting"]),
            number(&connections["tunnels"]),
            match connections["draining"].as_u64() {
                Some(1..) => format!(" ({} draining)", number(&connections["draining"])),
                _ => String::new(),
            }
        ),
    );
    let requests = &serving["requests"];
    line("requests", format!("{}, {} under way", number(&requests["total"]), number(&requests["under_way"])));
    for listener in serving["listeners"].as_array().into_iter().flatten() {
        let queue = &listener["queue"];
        let waiting = match queue {
            Value::Null => String::new(),
            queue => format!(", {} of {} in the accept queue", number(&queue["waiting"]), number(&queue["backlog"])),
        };
        line("listener", format!("{}{waiting}", text(&listener["address"])));
    }
    for group in serving["groups"].as_array().into_iter().flatten() {
        line(
            "group",
            format!(
                "{}: {} peers, {} idle, {} leased, {} waiting",
                text(&group["name"]),
                group["peers"].as_array().map_or(0, Vec::len),
                number(&group["idle"]),
                number(&group["leased"]),
                number(&group["waiting"])
            ),
        );
    }
    out
}

fn number_plain(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// The changes that a reload would make.
fn plan(result: &Value) -> String {
    let mut out = String::new();
    let mut none = true;
    for (title, field) in [
        ("refused", "errors"),
        ("warning", "warnings"),
        ("file", "files"),
        ("listener", "listeners"),
        ("group", "groups"),
        ("log", "logs"),
        ("process", "process"),
    ] {
        for entry in result[field].as_array().into_iter().flatten() {
            none = false;
            let _ = writeln!(out, "{title:<10}{}", text(entry));
        }
    }
    if none {
        out.push_str("nothing would change\n");
    }
    let _ = writeln!(out, "{}", text(&result["consequence"]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_aligned_by_their_kind() {
        let pools = json!({"pools": [
            {"group": "app", "idle": 7, "leased": 0, "connecting": 0, "waiting": 0, "opened": 12_345, "reused": 3, "discarded": 0},
            {"group": "longer-name", "idle": 120, "leased": 1, "connecting": 0, "waiting": 0, "opened": 1, "reused": 0, "discarded": 2},
        ]});
        assert_eq!(
            render(&Request::Pools { change: None }, &pools),
            "group        idle  leased  connecting  waiting  opened  reused  discarded\n\
             app             7       0           0        0  12,345       3          0\n\
             longer-name   120       1           0        0       1       0          2\n"
        );
    }

    #[test]
    fn an_incomplete_list_says_so() {
        let list = json!({"rows": [], "matching": 3, "complete": false});
        let request = Request::Tunnels { list: super::super::request::Listing::default(), change: None };
        assert!(
            render(&request, &list)
                .ends_with("0 of 3 shown\na worker did not answer in time: the list is incomplete\n")
        );
    }

    #[test]
    fn a_plan_without_differences_says_so() {
        let result = json!({"consequence": "the worker process applies it in place"});
        assert_eq!(
            render(&Request::Reload { dry_run: true }, &result),
            "nothing would change\nthe worker process applies it in place\n"
        );
    }
}
