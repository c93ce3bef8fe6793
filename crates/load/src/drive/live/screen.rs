//! The screen of the live view, and its answers to keys. It takes pictures of intervals, looks at sockets and keys, and
//! draws a frame, without a terminal or a load. Each protocol fills its own picture; `watch` draws the lines over time.

use crate::collect::Recorded;
use crate::drive::sockets::account::Look;
use crate::results::units::time;
use crate::{Interval, Latencies};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use report::text::{grouped, sparkline};
use sockdiag::State;
use std::collections::VecDeque;

/// Intervals in the lines over time: ten minutes at one a second, with some forty numbers each.
const HISTORY_MAX: usize = 600;
/// Columns left of a line over time: name, last interval, whole run.
const COLUMNS: usize = 38;
/// Quantiles shown.
const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
/// Causes of failures that are listed; the line `failed` counts all of them.
const CAUSES_SHOWN: usize = 3;

/// What a key asks of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    Nothing,
    /// End the run and print its summary.
    Stop,
}

/// A line of the picture.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    name: &'static str,
    kind: CellKind,
}

#[derive(Debug, Clone)]
enum CellKind {
    /// The heading of a group of lines.
    Heading,
    /// A line over time: the value of the last interval, the same as text, and the text for the whole run.
    OverTime(u64, String, String),
    /// Text for the last interval only.
    Still(String),
}

impl Cell {
    pub(crate) fn heading(name: &'static str) -> Self {
        Self { name, kind: CellKind::Heading }
    }

    pub(crate) fn of(name: &'static str, value: u64, last: String, whole: String) -> Self {
        Self { name, kind: CellKind::OverTime(value, last, whole) }
    }

    pub(crate) fn still(name: &'static str, last: String) -> Self {
        Self { name, kind: CellKind::Still(last) }
    }

    /// A quantile of times, for the last interval and for the whole run.
    pub(crate) fn time(name: &'static str, quantile: f64, last: &Latencies, whole: &Latencies) -> Self {
        let (now, all) = (last.quantile_ns(quantile), whole.quantile_ns(quantile));
        Self::of(name, now, time(now as f64), time(all as f64))
    }
}

/// A line for each quantile of times.
pub(crate) fn quantiles(last: &Latencies, whole: &Latencies) -> impl Iterator<Item = Cell> {
    QUANTILES.into_iter().map(|(name, quantile)| Cell::time(name, quantile, last, whole))
}

/// The picture of one interval and of the run up to its end.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// The progress of the run in words.
    pub(crate) progress: String,
    /// The lines; the same ones in each interval, except for lines that do not change.
    pub(crate) cells: Vec<Cell>,
    /// Failures with their reasons; reasons that did not occur are left out.
    pub(crate) failures: Vec<(u64, &'static str)>,
    pub(crate) generator: GeneratorFigures,
}

/// The generator's own condition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GeneratorFigures {
    /// Lag at p99 of the run.
    lag_ns: u64,
    /// The part of that lag that the generator's own work caused.
    lag_own_ns: u64,
    /// Share of the interval in which the generator's threads ran.
    busy_share: f64,
}

impl GeneratorFigures {
    pub(crate) fn new<R: Recorded>(interval: &Interval<R>, whole: &R, threads: usize) -> Self {
        let (spent_ns, whole) = (interval.record.generator().spent.cpu_ns, whole.generator());
        Self {
            lag_ns: whole.lag.quantile_ns(0.99),
            lag_own_ns: whole.lag_own.quantile_ns(0.99),
            busy_share: spent_ns as f64 / 1e9 / interval.seconds() / threads.max(1) as f64,
        }
    }
}

/// The history entry of one interval.
#[derive(Debug, Clone, Default)]
struct Past {
    /// Values of the cells with a line over time, in their order.
    values: Vec<u64>,
    states: [u64; State::ALL.len()],
}

/// The whole screen.
#[derive(Debug)]
pub(crate) struct Screen {
    head: String,
    past: VecDeque<Past>,
    picture: Picture,
    look: Option<Look>,
    /// What is shown while the display is frozen; counting continues.
    held: Option<(VecDeque<Past>, Picture, Option<Look>)>,
    stopping: bool,
}

impl Screen {
    /// `picture` is the empty picture of a run that has not started.
    pub(crate) fn new(head: String, picture: Picture) -> Self {
        Self { head, past: VecDeque::new(), picture, look: None, held: None, stopping: false }
    }

    /// Adds an interval.
    pub(crate) fn take(&mut self, picture: Picture, look: Option<Look>) {
        let values = picture.cells.iter().filter_map(|cell| match cell.kind {
            CellKind::OverTime(value, ..) => Some(value),
            CellKind::Heading | CellKind::Still(_) => None,
        });
        let mut past = Past { values: values.collect(), ..Past::default() };
        if let Some(look) = look {
            past.states = State::ALL.map(|state| look.states.of(state));
        }
        if self.past.len() >= HISTORY_MAX {
            self.past.pop_front();
        }
        self.past.push_back(past);
        self.picture = picture;
        self.look = look.or(self.look);
    }

    pub(crate) fn press(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Asks {
        match key {
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => self.stop(),
            KeyCode::Char('q') | KeyCode::Esc => self.stop(),
            KeyCode::Char('p' | ' ') => {
                self.held = match self.held.take() {
                    Some(_) => None,
                    None => Some((self.past.clone(), self.picture.clone(), self.look)),
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

    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
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
        let (past, picture, look) = match &self.held {
            Some((past, picture, look)) => (past, picture, look.as_ref()),
            None => (&self.past, &self.picture, self.look.as_ref()),
        };
        let room = width.saturating_sub(COLUMNS);
        let begin = past.len().saturating_sub(room);
        let over_time = |value: &dyn Fn(&Past) -> u64| {
            let values: Vec<u64> = past.iter().skip(begin).map(value).collect();
            sparkline(&values, room)
        };
        let held = if self.held.is_some() { "HELD  " } else { "" };
        let mut lines = vec![bold(format!("{held}{}", self.head)), Line::from(picture.progress.clone())];
        let mut at = 0;
        for Cell { name, kind } in &picture.cells {
            lines.push(match kind {
                CellKind::Heading => heading(name, "last", "whole"),
                CellKind::Still(last) => row(name, last, "", ""),
                CellKind::OverTime(_, last, whole) => {
                    let values = over_time(&|past| past.values.get(at).copied().unwrap_or_default());
                    at += 1;
                    row(name, last, whole, &values)
                }
            });
        }
        if let Some(look) = look {
            lines.push(heading("sockets", "now", ""));
            let counted = |at: usize| past.iter().any(|past| past.states.get(at).is_some_and(|count| *count > 0));
            for (at, state) in State::ALL.into_iter().enumerate().filter(|(at, _)| counted(*at)) {
                let value = |past: &Past| past.states.get(at).copied().unwrap_or_default();
                lines.push(row(state.name(), &grouped(look.states.of(state)), "", &over_time(&value)));
            }
            lines.push(Line::from(stuck(look)));
        }
        lines.extend(failures(&picture.failures));
        lines.push(dim(format!(
            "generator    late by p99 {} (own work {}); it runs {:.0} % of the time",
            time(picture.generator.lag_ns as f64),
            time(picture.generator.lag_own_ns as f64),
            picture.generator.busy_share * 100.0
        )));
        lines
    }
}

/// Closes by side, retransmissions, and sockets whose data is stuck.
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

/// The most frequent causes, one per line.
fn failures(all: &[(u64, &'static str)]) -> Vec<Line<'static>> {
    let mut causes: Vec<_> = all.iter().filter(|(count, _)| *count > 0).collect();
    causes.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let shown = causes.into_iter().take(CAUSES_SHOWN);
    shown.map(|(count, why)| Line::from(format!("failed       {}: {why}", grouped(*count)))).collect()
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
