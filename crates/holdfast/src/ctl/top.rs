//! `holdfast ctl top`: the status of a running instance, live. `view` is pure: two answers in, the screen out.

use super::request::Request;
use super::{Args, ask, text};
use crate::output::print_on;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::widgets::Paragraph;
use report::text::grouped;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use terminal::Terminal;

/// Locations that are shown, the busiest first.
const LOCATIONS_MAX: usize = 10;
/// Errors that are shown, the newest last.
const ERRORS_MAX: usize = 5;

/// Shows the status until `q`, an interrupt, or the last of `count` looks. Without a terminal each look is printed.
pub(super) fn run(args: &Args, interval: Duration, count: Option<u64>) -> Result<(), String> {
    let mut screen = if Terminal::is_there() { Some(Terminal::open()?) } else { None };
    let (mut before, mut at): (Option<Value>, Instant) = (None, Instant::now());
    let mut looks = 0;
    loop {
        let answer = ask(args, &Request::Status)?;
        if let Some(error) = answer.error {
            return Err(error);
        }
        let now = answer.result;
        let seconds = std::mem::replace(&mut at, Instant::now()).elapsed().as_secs_f64();
        let shown = view(before.as_ref(), &now, seconds);
        before = Some(now);
        looks += 1;
        if let Some(screen) = &mut screen {
            screen.draw(|frame| frame.render_widget(Paragraph::new(shown.as_str()), frame.area()))?;
            if is_over(screen, at + interval)? {
                return Ok(());
            }
        } else if !print_on(&shown)? {
            return Ok(());
        } else if count.is_none_or(|count| looks < count) {
            std::thread::park_timeout(interval);
        }
        if count.is_some_and(|count| looks >= count) {
            return Ok(());
        }
    }
}

/// Waits until this time; whether `q` or an interrupt came.
fn is_over(screen: &Terminal, until: Instant) -> Result<bool, String> {
    while Instant::now() < until {
        match screen.key()? {
            Some((KeyCode::Char('q') | KeyCode::Esc, _)) => return Ok(true),
            Some((KeyCode::Char('c'), modifiers)) if modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

/// The screen: rates are between the two answers, and absent in the first look.
fn view(before: Option<&Value>, now: &Value, seconds: f64) -> String {
    let (master, serving) = (&now["master"], &now["serving"]);
    let was = before.map(|before| &before["serving"]);
    let rate = |of: &dyn Fn(&Value) -> u64| {
        let was = was?;
        Some(of(serving).saturating_sub(of(was)) as f64 / seconds.max(0.001))
    };
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "holdfast {}  pid {}  generation {}  {}\n",
        master["version"].as_str().unwrap_or("-"),
        number(&master["pid"]),
        number(&serving["generation"]),
        master["conf"].as_str().unwrap_or("-"),
    );
    let responses =
        |class: &'static str| move |of: &Value| of["requests"]["responses"][class].as_u64().unwrap_or_default();
    let _ = writeln!(
        out,
        "requests/s {:>10}   2xx/s {:>10}   4xx/s {:>10}   5xx/s {:>10}",
        shown(rate(&|of| number(&of["requests"]["total"]))),
        shown(rate(&responses("2xx"))),
        shown(rate(&responses("4xx"))),
        shown(rate(&responses("5xx"))),
    );
    let connections = &serving["connections"];
    let _ = writeln!(
        out,
        "clients    {:>10}   idle  {:>10}   tunnels {:>8}   opened/s {:>7}",
        grouped(number(&connections["active"])),
        grouped(number(&connections["waiting"])),
        grouped(number(&connections["tunnels"])),
        shown(rate(&|of| number(&of["connections"]["accepted"]))),
    );
    groups(&mut out, was, serving, seconds);
    locations(&mut out, was, serving, seconds);
    let errors = serving["errors"].as_array().map_or(&[][..], Vec::as_slice);
    if !errors.is_empty() {
        let last: Vec<Value> = errors.iter().take(ERRORS_MAX).rev().cloned().collect();
        let _ = write!(out, "\nlast errors\n{}", text::errors(&serde_json::json!({"errors": last})));
    }
    out
}

fn groups(out: &mut String, was: Option<&Value>, now: &Value, seconds: f64) {
    let all = now["groups"].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<24} {:>10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "group", "attempts/s", "reused", "idle", "leased", "waiting", "retries/s", "failed/s"
    );
    let before: BTreeMap<&str, &Value> = by_name(was, "groups", |group| group["name"].as_str().unwrap_or_default());
    for group in all {
        let name = group["name"].as_str().unwrap_or("-");
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let sum = |group: &Value, field: &str| {
            group["peers"].as_array().into_iter().flatten().map(|peer| number(&peer[field])).sum::<u64>()
        };
        let retries = |group: &Value| {
            group["retries"].as_object().into_iter().flatten().map(|(_, count)| number(count)).sum::<u64>()
        };
        let rate = |of: &dyn Fn(&Value) -> u64| {
            let before = before.get(name)?;
            Some(of(group).saturating_sub(of(before)) as f64 / seconds.max(0.001))
        };
        let attempts = rate(&|group| sum(group, "attempts"));
        let reused = rate(&|group| sum(group, "reused"));
        let share = match (attempts, reused) {
            (Some(attempts), Some(reused)) if attempts > 0.0 => format!("{:.0} %", reused * 100.0 / attempts),
            _ => "-".to_owned(),
        };
        let _ = writeln!(
            out,
            "{:<24} {:>10} {share:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
            cut(name),
            shown(attempts),
            grouped(number(&group["idle"])),
            grouped(number(&group["leased"])),
            grouped(number(&group["waiting"])),
            shown(rate(&retries)),
            shown(rate(&|group| sum(group, "failed"))),
        );
    }
}

fn locations(out: &mut String, was: Option<&Value>, now: &Value, seconds: f64) {
    let name = |location: &Value| {
        format!("{} {}", location["server"].as_str().unwrap_or("-"), location["location"].as_str().unwrap_or("-"))
    };
    let total = |location: &Value| -> u64 {
        let responses = location["responses"].as_object().into_iter().flatten();
        responses.filter_map(|(_, count)| count.as_u64()).sum()
    };
    let before: BTreeMap<String, &Value> =
        was.and_then(|was| was["locations"].as_array()).into_iter().flatten().map(|one| (name(one), one)).collect();
    let mut busy: Vec<(u64, &Value)> = Vec::new();
    for location in now["locations"].as_array().into_iter().flatten() {
        let earlier = before.get(&name(location)).map_or(0, |before| total(before));
        busy.push((total(location).saturating_sub(earlier), location));
    }
    busy.retain(|(count, _)| *count > 0);
    busy.sort_by_key(|(count, location)| (std::cmp::Reverse(*count), name(location)));
    if busy.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{:<48} {:>12} {:>8} {:>12} {:>12}", "location", "responses/s", "5xx", "p50", "p99");
    for (count, location) in busy.into_iter().take(LOCATIONS_MAX) {
        let earlier = before.get(&name(location)).copied();
        let class = |of: Option<&Value>| of.and_then(|of| of["responses"]["5xx"].as_u64()).unwrap_or_default();
        let rate = was.map(|_| count as f64 / seconds.max(0.001));
        let _ = writeln!(
            out,
            "{:<48} {:>12} {:>8} {:>12} {:>12}",
            cut_at(&name(location), 48),
            shown(rate),
            grouped(class(Some(location)).saturating_sub(class(earlier))),
            quantile(earlier, location, 0.50),
            quantile(earlier, location, 0.99),
        );
    }
}

/// The upper bound of the bucket that contains a quantile of what came between two answers.
fn quantile(before: Option<&Value>, now: &Value, quantile: f64) -> String {
    let buckets = |of: &Value| of["duration"]["buckets"].as_array().cloned().unwrap_or_default();
    let earlier: Vec<u64> =
        before.map(buckets).unwrap_or_default().iter().map(|bucket| bucket["count"].as_u64().unwrap_or(0)).collect();
    let counts: Vec<(Option<f64>, u64)> = buckets(now)
        .iter()
        .enumerate()
        .map(|(place, bucket)| {
            let count = bucket["count"].as_u64().unwrap_or(0);
            (bucket["at_most_ms"].as_f64(), count.saturating_sub(earlier.get(place).copied().unwrap_or(0)))
        })
        .collect();
    let all = counts.last().map_or(0, |(_, count)| *count);
    if all == 0 {
        return "-".to_owned();
    }
    let wanted = (all as f64 * quantile).ceil() as u64;
    match counts.iter().find(|(_, count)| *count >= wanted) {
        Some((Some(bound), _)) => format!("\u{2264} {bound} ms"),
        _ => "> 60 s".to_owned(),
    }
}

fn by_name<'a>(
    was: Option<&'a Value>,
    list: &str,
    name: impl Fn(&'a Value) -> &'a str,
) -> BTreeMap<&'a str, &'a Value> {
    was.and_then(|was| was[list].as_array()).into_iter().flatten().map(|one| (name(one), one)).collect()
}

/// A rate in three digits or more; a dash before there is one.
fn shown(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate >= 100.0 => grouped(rate.round() as u64),
        Some(rate) => format!("{rate:.1}"),
    }
}

fn cut(text: &str) -> String {
    cut_at(text, 24)
}

fn cut_at(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(requests: u64, fast: u64, slow: u64) -> Value {
        let buckets = json!([
            {"at_most_ms": 0.1, "count": fast}, {"at_most_ms": 5.0, "count": fast + slow}, {"at_most_ms": null, "count": fast + slow},
        ]);
        json!({
            "master": {"version": "0.1.0", "pid": 7, "conf": "/etc/a.conf"},
            "serving": {
                "generation": 2,
                "requests": {"total": requests, "responses": {"2xx": requests, "5xx": slow}},
                "connections": {"active": 12, "waiting": 10, "tunnels": 1, "accepted": requests / 10},
                "groups": [{"name": "app", "idle": 4, "leased": 1, "waiting": 0, "retries": {"listed": slow},
                    "peers": [{"attempts": requests, "reused": requests - 10, "failed": slow}]}],
                "locations": [{"server": "shop", "location": "/", "responses": {"2xx": fast, "5xx": slow}, "duration": {"buckets": buckets}}],
                "errors": [{"line": "newest", "meaning": "it is full"}, {"line": "older", "meaning": null}],
            },
        })
    }

    #[test]
    fn rates_are_between_two_looks() {
        let (first, second) = (status(1000, 900, 0), status(1400, 1290, 10));
        let shown = view(Some(&first), &second, 2.0);
        for line in [
            "holdfast 0.1.0  pid 7  generation 2  /etc/a.conf",
            "requests/s        200   2xx/s        200   4xx/s        0.0   5xx/s        5.0",
            "clients            12   idle          10   tunnels        1   opened/s    20.0",
            "app                             200    100 %        4        1        0       5.0       5.0",
            "shop /                                                    200       10     \u{2264} 0.1 ms       \u{2264} 5 ms",
            "last errors\nolder\nnewest\n    cause: it is full\n",
        ] {
            assert!(shown.contains(line), "no {line:?} in\n{shown}");
        }
    }

    #[test]
    fn the_first_look_has_no_rates() {
        let shown = view(None, &status(1000, 900, 100), 0.0);
        assert!(shown.contains("requests/s          -   2xx/s          -"), "{shown}");
        assert!(shown.contains("app                               -        -        4"), "{shown}");
        assert!(view(None, &json!({}), 1.0).contains("holdfast -"), "an answer without anything is shown, too");
    }
}
