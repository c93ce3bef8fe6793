//! Tests of the screen on a buffer of 80 columns and 24 lines.

use super::*;
use crate::drive::protocol::Load as _;
use crate::{Cause, HttpRecord, Interval, Options, Pace, Tally, Target, Ticks};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;
use watch::model::closers::Closes;

/// The screen of a run in one thread, with the totals of its intervals.
struct ScriptedRun {
    options: Options,
    whole: HttpRecord,
    screen: Screen,
}

impl ScriptedRun {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Target::new("http://127.0.0.1:8080/".parse().unwrap()));
        change(&mut options);
        let nothing = Interval { length: Duration::ZERO, ..second(0, 0, 0) };
        let screen = Screen::new(options.head(), options.picture(&nothing, &HttpRecord::default(), 1));
        Self { options, whole: HttpRecord::default(), screen }
    }

    fn take(&mut self, interval: &Interval, look: Option<Look>) {
        Options::add(&mut self.whole, interval);
        self.screen.take(self.options.picture(interval, &self.whole, 1), look);
    }

    fn press(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Asks {
        self.screen.press(key, modifiers)
    }
}

/// One second with this many responses after this many milliseconds, and one refused request.
fn second(number: u64, responses: u64, ms: u64) -> Interval {
    let mut record = HttpRecord::default();
    record.targets.push(Tally { begun: responses + 1, responses, ..Tally::default() });
    for _ in 0..responses {
        record.targets[0].latency.record(ms * 1_000_000);
        record.generator.lag.record(50_000);
        record.generator.lag_own.record(40_000);
    }
    record.targets[0].failures[Cause::Refused as usize] = 1;
    record.generator.spent.cpu_ns = 250_000_000;
    let second = Duration::from_secs(1);
    Interval { number, begun: second * number as u32, length: second, processors: Ticks::default(), record }
}

fn look(established: u64) -> Look {
    let mut look = Look { sent_again: 7, window_zero: 2, ..Look::default() };
    look.states.add(State::Established, established);
    look.closes = Closes { this_side: 4, peer: 1_234, unknown: 0 };
    look
}

fn shown(run: &ScriptedRun) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| run.screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..24).map(line).collect()
}

#[test]
fn a_run_fits_80_columns_and_24_lines() {
    let mut run = ScriptedRun::new(|options| options.connections = 1_000);
    for (number, (responses, ms)) in [(1_000, 2), (3_000, 4), (2_000, 3)].into_iter().enumerate() {
        run.take(&second(number as u64, responses, ms), Some(look(30 + number as u64)));
    }
    let lines = shown(&run);
    let expected = [
        "GET http://127.0.0.1:8080/  closed loop, 1,000 connections",
        "3.0 s of 10.0 s, 6,003 requests",
        "                    last       whole  over time",
        "responses/s        2,000       2,000  ▁█▅",
        "errors/s               1           3  ▁▁▁",
        "latency             last       whole  over time",
        "p50              3.00 ms     3.00 ms  ▁█▄",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(line, expected, "{}", lines.join("\n"));
    }
    for expected in [
        "ESTABLISHED           32              ▁▅█",
        "closed first by the target 1,234, by the load 4; sent again 7; window zero 2, no",
        "failed       3: connection refused: nothing listens there, or its accept queue r",
        "generator    late by p99 50.0 us (own work 40.0 us); it runs 25 % of the time",
        "p hold the picture  q stop the run, and report",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected:?} is not in\n{}", lines.join("\n"));
    }
}

#[test]
fn a_picture_is_held_while_the_counting_goes_on() {
    let mut run = ScriptedRun::new(|options| options.requests = Some(500));
    run.take(&second(0, 100, 1), None);
    assert_eq!(run.press(KeyCode::Char('p'), KeyModifiers::NONE), Asks::Nothing);
    run.take(&second(1, 100, 1), None);
    let lines = shown(&run);
    assert!(lines[0].starts_with("HELD  GET") && lines[1] == "1.0 s of 10.0 s, 101 of 500 requests", "{lines:?}");
    run.press(KeyCode::Char(' '), KeyModifiers::NONE);
    assert_eq!(shown(&run)[1], "2.0 s of 10.0 s, 202 of 500 requests");
}

#[test]
fn stop_keys_show_their_consequence() {
    let stopping: [(KeyCode, KeyModifiers); 3] = [
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Esc, KeyModifiers::NONE),
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
    ];
    for (key, modifiers) in stopping {
        let mut run = ScriptedRun::new(|_| ());
        assert_eq!(run.press(KeyCode::Char('x'), KeyModifiers::NONE), Asks::Nothing);
        assert_eq!(run.press(key, modifiers), Asks::Stop);
        assert_eq!(shown(&run)[23], "stopping: the report follows");
    }
}

#[test]
fn before_the_first_interval_there_is_a_screen_too() {
    let run = ScriptedRun::new(|options| options.pace = Pace::constant(100.0, Duration::from_mins(1)));
    let lines = shown(&run);
    assert!(lines[0].contains("open loop") && lines[1] == "0.0 s of 60.0 s, 0 requests", "{lines:?}");
}
