//! The content of the live view of a demo, and its reaction to keys. It knows neither the terminal nor the run: events
//! and keys come in, a frame is drawn. `watch` draws the lines over time.

use ::lab::Sample;
use ::lab::experiment::{Experiment, Probe};
use ::lab::stage::Event;
use ::report::text::{grouped, sparkline};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use sockdiag::State;
use std::time::Duration;

/// Most readings kept of one sample; a quick sample has about five.
const LOOKS_MAX: usize = 600;
/// Width of the columns before a line over time.
const COLUMNS: usize = 60;

/// What a key requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    Nothing,
    /// Stop the run and keep what was measured so far.
    Stop,
}

/// An arm with the results of its samples.
#[derive(Debug, Default)]
struct Row {
    name: String,
    absent: Option<String>,
    /// Round and requests/s of the samples that were not void.
    rates: Vec<(u32, f64)>,
    /// CPU of the proxy per request, in microseconds.
    cpu_us: Vec<f64>,
    void: usize,
}

/// Counts of sockets by state, of each probe.
type States = Vec<[u64; State::ALL.len()]>;
/// Row titles for the TIME_WAIT sockets that are the port's own side.
const CLOSED_FIRST: [&str; 2] = ["  the port's own", "which closed first"];

/// The content of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    rounds: u32,
    rows: Vec<Row>,
    /// Names of the ports whose sockets are counted.
    probes: Vec<String>,
    network: String,
    /// Number of the sample, counted from 1, number of all samples, and the arm.
    sample: (usize, usize, String),
    doing: String,
    /// Readings of the current sample, or of the last one until the next one is loaded.
    looks: Vec<States>,
    /// TIME_WAIT sockets of the port's own side at the last reading, per probe.
    closed_first: Vec<u64>,
    stopping: bool,
}

impl Screen {
    /// The screen of a run that has not started.
    pub(super) fn new(experiment: &Experiment) -> Self {
        let row = |name: &String| Row { name: name.clone(), ..Row::default() };
        let probes = experiment.probes.iter().filter_map(|probe| match probe {
            Probe::Port { name, .. } => Some(name.clone()),
            _ => None,
        });
        Self {
            rounds: experiment.method.rounds,
            rows: experiment.arms.iter().map(|arm| row(&arm.name)).collect(),
            probes: probes.collect(),
            network: String::new(),
            sample: (0, 0, String::new()),
            doing: "looking for programs".to_owned(),
            looks: Vec::new(),
            closed_first: Vec::new(),
            stopping: false,
        }
    }

    /// Updates the screen for an event.
    pub(super) fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Network(kind, _, None) => self.network = format!("network: {kind:?}").to_lowercase(),
            Event::Network(kind, _, Some(why)) => {
                self.network = format!("network: {}, since {why}", format!("{kind:?}").to_lowercase());
            }
            Event::Absent(arm, why) => {
                if let Some(row) = self.rows.iter_mut().find(|row| row.name == *arm) {
                    row.absent = Some((*why).to_owned());
                }
            }
            Event::Sample(number, count, arm) => {
                self.sample = (number + 1, *count, (*arm).to_owned());
                self.doing.clear();
            }
            Event::Starting(process) => self.doing = format!("starting {process}"),
            Event::Idling(_) => {}
            Event::WarmingUp(_) => "warming up".clone_into(&mut self.doing),
            Event::Loading => {
                "loading".clone_into(&mut self.doing);
                self.looks.clear();
            }
            Event::Looked(seconds, numbers) => {
                self.doing = format!("loading for {seconds:.1} s");
                let count = |name: String| numbers.get(&name).map_or(0, |count| *count as u64);
                let of = |probe: &String| State::ALL.map(|state| count(format!("sockets.{probe}.{}", state.name())));
                self.closed_first = self.probes.iter().map(|probe| count(format!("closed_first.{probe}"))).collect();
                if self.looks.len() < LOOKS_MAX {
                    self.looks.push(self.probes.iter().map(of).collect());
                }
            }
            Event::Taken(sample) => self.taken(sample),
        }
    }

    fn taken(&mut self, sample: &Sample) {
        let Some(row) = self.rows.iter_mut().find(|row| row.name == sample.arm) else { return };
        if sample.void.is_some() {
            row.void += 1;
            return;
        }
        let figure = |name: &str| sample.figures.get(name).copied();
        row.rates.extend(figure("requests_per_second").map(|rate| (sample.round, rate)));
        row.cpu_us.extend(figure("cpu_us_per_request.proxy"));
    }

    pub(super) fn press(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Asks {
        let interrupts = key == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
        if interrupts || matches!(key, KeyCode::Char('q') | KeyCode::Esc) {
            self.stopping = true;
            return Asks::Stop;
        }
        Asks::Nothing
    }

    /// `now` is the time since the demo began.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, now: Duration) {
        let rows = [Constraint::Min(0), Constraint::Length(1)];
        let [body, bottom] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(Paragraph::new(self.lines(usize::from(body.width), now)), body);
        let keys =
            if self.stopping { "stopping: what was measured follows" } else { "q stop, and show what was measured" };
        frame.render_widget(Paragraph::new(Line::from(keys)), bottom);
    }

    fn lines(&self, width: usize, now: Duration) -> Vec<Line<'static>> {
        let (number, count, arm) = &self.sample;
        // Rounds count from 1; before the first sample there is none.
        let round = (number * self.rounds as usize).div_ceil((*count).max(1));
        let progress =
            format!("round {round} of {}, sample {number} of {count}; {} s so far", self.rounds, now.as_secs());
        let room = width.saturating_sub(COLUMNS);
        let mut lines = vec![
            Line::from("What a proxy costs, without and with a pool of connections").style(Modifier::BOLD),
            Line::from(progress),
            Line::from(self.network.clone()),
            Line::from(""),
            columns(["arm", "requests/s", "of direct", "proxy's CPU"], "over the rounds").style(Modifier::UNDERLINED),
        ];
        lines.extend(self.rows.iter().map(|row| self.row(row, room)));
        let doing = if arm.is_empty() { self.doing.clone() } else { format!("{arm}: {}", self.doing) };
        lines.extend([Line::from(""), Line::from(doing).style(Modifier::BOLD)]);
        lines.extend(self.sockets(room));
        lines
    }

    fn row(&self, row: &Row, room: usize) -> Line<'static> {
        if let Some(why) = &row.absent {
            return Line::from(format!("{:<17} absent: {why}", row.name)).style(Modifier::DIM);
        }
        let rates: Vec<f64> = row.rates.iter().map(|(_, rate)| *rate).collect();
        let direct = self.rows.first().map(|first| first.rates.as_slice()).unwrap_or_default();
        let ratios: Vec<f64> = row
            .rates
            .iter()
            .filter_map(|(round, rate)| Some(rate / direct.iter().find(|(same, _)| same == round)?.1))
            .collect();
        let shown = |values: &[f64], show: &dyn Fn(f64) -> String| {
            stats::Summary::of(values).map_or_else(|| "-".to_owned(), |summary| show(summary.median))
        };
        let void = if row.void > 0 { format!(" {} void", row.void) } else { String::new() };
        let whole: Vec<u64> = rates.iter().map(|rate| *rate as u64).collect();
        columns(
            [
                &row.name,
                &shown(&rates, &|rate| grouped(rate as u64)),
                &shown(&ratios, &|ratio| format!("{:.0} %", ratio * 100.0)),
                &shown(&row.cpu_us, &|cpu| format!("{cpu:.1} us")),
            ],
            &format!("{}{void}", sparkline(&whole, room.saturating_sub(void.len()))),
        )
    }

    /// Sockets by state, with a column for each port.
    fn sockets(&self, room: usize) -> Vec<Line<'static>> {
        let Some(last) = self.looks.last() else { return Vec::new() };
        let named = |at: usize| self.probes.get(at).map(|name| format!("{name}'s port")).unwrap_or_default();
        let mut lines =
            vec![columns(["sockets", &named(0), &named(1), ""], "over the load").style(Modifier::UNDERLINED)];
        for state in State::ALL.into_iter().filter(|state| *state != State::Listen) {
            let of = |states: &States| -> Vec<u64> {
                states.iter().map(|counts| counts.get(state.index()).copied().unwrap_or(0)).collect()
            };
            let over_time: Vec<u64> = self.looks.iter().map(|states| of(states).iter().sum()).collect();
            if over_time.iter().all(|count| *count == 0) {
                continue;
            }
            let now = of(last);
            let count = |at: usize| now.get(at).map(|count| grouped(*count)).unwrap_or_default();
            lines.push(columns([state.name(), &count(0), &count(1), ""], &sparkline(&over_time, room)));
            if state == State::TimeWait {
                let own = |at: usize| self.closed_first.get(at).map(|count| grouped(*count)).unwrap_or_default();
                let [name, meaning] = CLOSED_FIRST;
                lines.push(columns([name, &own(0), &own(1), ""], meaning));
            }
        }
        lines
    }
}

fn columns([name, first, second, third]: [&str; 4], over_time: &str) -> Line<'static> {
    Line::from(format!("{name:<17} {first:>13} {second:>13} {third:>12}  {over_time}"))
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
