//! What the live view of a load shows, and how it answers keys. No terminal and no load: pictures of intervals, looks at sockets and
//! keys come in, a frame is drawn. What is in a picture is the business of each protocol; lines over time are `watch`'s.

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
pub(crate) enum Asks {
    Nothing,
    /// The run is to end, with its summary.
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
    /// Above a group of others.
    Heading,
    /// The value of the last interval, for the line over time; the same as text; and that of the whole run.
    OverTime(u64, String, String),
    /// Of the last interval alone.
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

    /// A quantile of times: of the last interval, and of the whole run.
    pub(crate) fn time(name: &'static str, quantile: f64, last: &Latencies, whole: &Latencies) -> Self {
        let (now, all) = (last.quantile_ns(quantile), whole.quantile_ns(quantile));
        Self::of(name, now, time(now as f64), time(all as f64))
    }
}

/// A line for each quantile of times.
pub(crate) fn quantiles(last: &Latencies, whole: &Latencies) -> impl Iterator<Item = Cell> {
    QUANTILES.into_iter().map(|(name, quantile)| Cell::time(name, quantile, last, whole))
}

/// What is shown of an interval and of everything before it.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// How far the run is.
    pub(crate) progress: String,
    /// The same ones in each interval, but for those that do not change.
    pub(crate) cells: Vec<Cell>,
    /// What failed, with its reason; what never did is left out.
    pub(crate) failures: Vec<(u64, &'static str)>,
    pub(crate) generator: GeneratorFigures,
}

/// What is shown of the generator itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GeneratorFigures {
    /// How late it was, at p99 of the run.
    lag_ns: u64,
    /// The part of that which its own work was the cause of.
    lag_own_ns: u64,
    /// Share of the interval that its threads ran.
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

/// What is remembered of an interval.
#[derive(Debug, Clone, Default)]
struct Past {
    /// Of the cells with a line over time, in their order.
    values: Vec<u64>,
    states: [u64; State::ALL.len()],
}

/// All that is drawn.
#[derive(Debug)]
pub(crate) struct Screen {
    head: String,
    past: VecDeque<Past>,
    picture: Picture,
    look: Option<Look>,
    /// What is shown while the picture is held; the counting goes on.
    held: Option<(VecDeque<Past>, Picture, Option<Look>)>,
    stopping: bool,
}

impl Screen {
    /// `picture` is that of a run which has done nothing yet.
    pub(crate) fn new(head: String, picture: Picture) -> Self {
        Self { head, past: VecDeque::new(), picture, look: None, held: None, stopping: false }
    }

    /// An interval is over.
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
