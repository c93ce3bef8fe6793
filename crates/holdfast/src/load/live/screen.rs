//! What the live view of a load shows, and how it answers keys. No terminal and no load: intervals, looks at sockets and keys
//! come in, a frame is drawn. Lines over time are `watch`'s.

use super::super::sockets::account::Look;
use super::super::units::{grouped, time};
use crate::watch::model::series::sparkline;
use load::{Cause, Interval, Latencies, Options, Pace, Schedule, Tally};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use sockdiag::State;
use std::collections::VecDeque;
use std::time::Duration;

/// Intervals that lines over time remember: ten minutes by the second, some forty numbers each.
const HISTORY_MAX: usize = 600;
/// Columns before a line over time: name, the last interval, the whole.
const COLUMNS: usize = 38;
/// Quantiles shown.
const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
/// Causes of failures that are named; the others stay in the sum.
const CAUSES_SHOWN: usize = 3;

/// What a key asks of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    Nothing,
    /// The run is to end, with its summary.
    Stop,
}

/// What is remembered of an interval.
#[derive(Debug, Clone, Copy, Default)]
struct Past {
    responses: u64,
    errors: u64,
    latency_ns: [u64; QUANTILES.len()],
    states: [u64; State::ALL.len()],
}

/// What is shown of the last interval and of the whole.
#[derive(Debug, Clone, Default)]
struct Now {
    elapsed: Duration,
    whole: Tally,
    waiting: u64,
    lag: Latencies,
    busy_share: f64,
    look: Option<Look>,
}

/// All that is drawn.
#[derive(Debug)]
pub(crate) struct Screen {
    head: String,
    duration: Option<Duration>,
    requests: Option<u64>,
    threads: u64,
    past: VecDeque<Past>,
    now: Now,
    /// What is shown while the picture is held; the counting goes on.
    held: Option<(VecDeque<Past>, Now)>,
    stopping: bool,
}

impl Screen {
    pub(crate) fn new(options: &Options, threads: usize) -> Self {
        let target =
            options.targets.first().map_or_else(String::new, |target| format!("{} {}", target.method, target.url));
        let more = match options.targets.len() {
            0 | 1 => String::new(),
            targets => format!(" and {} more", targets - 1),
        };
        let (pace, duration) = match &options.pace {
            Pace::Closed { .. } => ("closed loop", options.duration),
            Pace::Open { stages, .. } => ("open loop", Some(Schedule::new(stages.clone()).duration())),
        };
        let connections = grouped(options.connections as u64);
        Self {
            head: format!("{target}{more}  {pace}, {connections} connections"),
            // A rate with a number of requests has a schedule without an end.
            duration: duration.filter(|_| options.requests.is_none() || !options.pace.is_open()),
            requests: options.requests,
            threads: threads as u64,
            past: VecDeque::new(),
            now: Now::default(),
            held: None,
            stopping: false,
        }
    }

    /// An interval is over.
    pub(crate) fn take(&mut self, interval: &Interval, look: Option<Look>) {
        let tally = interval.record.whole();
        let seconds = interval.length.as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |count: u64| (count as f64 / seconds) as u64;
        let mut past = Past { responses: rate(tally.responses), errors: rate(tally.errors()), ..Past::default() };
        past.latency_ns = QUANTILES.map(|(_, quantile)| tally.latency.quantile_ns(quantile));
        if let Some(look) = look {
            past.states = State::ALL.map(|state| look.states.of(state));
        }
        if self.past.len() >= HISTORY_MAX {
            self.past.pop_front();
        }
        self.past.push_back(past);
        let now = &mut self.now;
        now.elapsed = interval.begun + interval.length;
        now.whole.add(&tally);
        now.waiting = interval.record.waiting_max;
        now.lag.add(&interval.record.lag);
        now.busy_share = interval.record.cpu_ns as f64 / 1e9 / seconds / self.threads.max(1) as f64;
        now.look = look.or(now.look);
    }

    pub(super) fn press(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Asks {
        match key {
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => self.stop(),
            KeyCode::Char('q') | KeyCode::Esc => self.stop(),
            KeyCode::Char('p' | ' ') => {
                self.held = match self.held.take() {
                    Some(_) => None,
                    None => Some((self.past.clone(), self.now.clone())),
                };
                Asks::Nothing
            }
            _ => Asks::Nothing,
        }
    }

    fn stop(&mut self) -> Asks {
        self.stopping = true;
        Asks::Stop
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let rows = [Constraint::Min(0), Constraint::Length(1)];
        let [body, bottom] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(Paragraph::new(self.lines(usize::from(body.width))), body);
        let keys = if self.stopping {
            "stopping: the report follows"
        } else {
            "p hold the picture  q stop the run, and report"
        };
        frame.render_widget(Paragraph::new(Line::from(keys)), bottom);
    }

    fn lines(&self, width: usize) -> Vec<Line<'static>> {
        let (past, now) = self.held.as_ref().map_or((&self.past, &self.now), |(past, now)| (past, now));
        let room = width.saturating_sub(COLUMNS);
        let begin = past.len().saturating_sub(room);
        let over_time = |value: &dyn Fn(&Past) -> u64| {
            let values: Vec<u64> = past.iter().skip(begin).map(value).collect();
            sparkline(&values, room)
        };
        let last = past.back().copied().unwrap_or_default();
        let held = if self.held.is_some() { "HELD  " } else { "" };
        let mut lines = vec![bold(format!("{held}{}", self.head)), Line::from(self.progress(now))];
        lines.push(heading("", "last", "whole"));
        let mean = (now.whole.responses as f64 / now.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)) as u64;
        lines.push(row("responses/s", &grouped(last.responses), &grouped(mean), &over_time(&|past| past.responses)));
        let errors = grouped(now.whole.errors());
        lines.push(row("errors/s", &grouped(last.errors), &errors, &over_time(&|past| past.errors)));
        if now.waiting > 0 {
            lines.push(row("in line", &grouped(now.waiting), "", ""));
        }
        lines.push(heading("latency", "last", "whole"));
        for (at, (name, quantile)) in QUANTILES.into_iter().enumerate() {
            let value = |past: &Past| past.latency_ns.get(at).copied().unwrap_or_default();
            let whole = time(now.whole.latency.quantile_ns(quantile) as f64);
            lines.push(row(name, &time(value(&last) as f64), &whole, &over_time(&value)));
        }
        if let Some(look) = &now.look {
            lines.push(heading("sockets", "now", ""));
            let counted = |at: usize| past.iter().any(|past| past.states.get(at).is_some_and(|count| *count > 0));
            for (at, state) in State::ALL.into_iter().enumerate().filter(|(at, _)| counted(*at)) {
                let value = |past: &Past| past.states.get(at).copied().unwrap_or_default();
                lines.push(row(state.name(), &grouped(look.states.of(state)), "", &over_time(&value)));
            }
            lines.push(Line::from(stuck(look)));
        }
        lines.extend(failures(&now.whole));
        let lag = time(now.lag.quantile_ns(0.99) as f64);
        lines.push(dim(format!(
            "generator    late by p99 {lag}; its threads run {:.0} % of the time",
            now.busy_share * 100.0
        )));
        lines
    }

    fn progress(&self, now: &Now) -> String {
        let elapsed = now.elapsed.as_secs_f64();
        let of_time = self.duration.map(|duration| format!(" of {:.1} s", duration.as_secs_f64()));
        let of_requests = self.requests.map(|requests| format!(" of {}", grouped(requests)));
        format!(
            "{elapsed:.1} s{}, {}{} requests",
            of_time.unwrap_or_default(),
            grouped(now.whole.begun),
            of_requests.unwrap_or_default()
        )
    }
}

/// Who closed first, and what does not move.
fn stuck(look: &Look) -> String {
    format!(
        "closed first by the target {}, by the load {}; sent again {}; window zero {}, not read here {}",
        grouped(look.closes.peer),
        grouped(look.closes.this_side),
        grouped(look.sent_again),
        grouped(look.window_zero),
        grouped(look.unread)
    )
}

/// The most frequent causes, a line each.
fn failures(whole: &Tally) -> Vec<Line<'static>> {
    let mut causes: Vec<(Cause, u64)> = Cause::ALL.iter().map(|cause| (*cause, whole.failed_by(*cause))).collect();
    causes.retain(|(_, count)| *count > 0);
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = causes.into_iter().take(CAUSES_SHOWN);
    shown.map(|(cause, count)| Line::from(format!("failed       {}: {}", grouped(count), cause.text()))).collect()
}

fn row(name: &str, last: &str, whole: &str, over_time: &str) -> Line<'static> {
    Line::from(format!("{name:<12} {last:>11} {whole:>11}  {over_time}"))
}

fn heading(name: &str, last: &str, whole: &str) -> Line<'static> {
    row(name, last, whole, "over time").style(Modifier::UNDERLINED)
}

fn bold(text: String) -> Line<'static> {
    Line::from(text).style(Modifier::BOLD)
}

fn dim(text: String) -> Line<'static> {
    Line::from(text).style(Style::new().add_modifier(Modifier::DIM))
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
