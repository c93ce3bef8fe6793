//! The screen on a terminal of 80 columns and 24 lines that is a buffer.

use super::*;
use crate::watch::model::closers::Closes;
use load::{Record, Target};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn screen(change: impl FnOnce(&mut Options)) -> Screen {
    let mut options = Options::new(Target::new("http://127.0.0.1:8080/".parse().unwrap()));
    change(&mut options);
    Screen::new(&options, 1)
}

/// One second in which so many requests were answered after so many milliseconds, and one was refused.
fn second(number: u64, responses: u64, ms: u64) -> Interval {
    let mut record = Record::default();
    record.targets.push(Tally { begun: responses + 1, responses, ..Tally::default() });
    for _ in 0..responses {
        record.targets[0].latency.record(ms * 1_000_000);
        record.lag.record(50_000);
    }
    record.targets[0].failures[Cause::Refused as usize] = 1;
    record.cpu_ns = 250_000_000;
    let second = Duration::from_secs(1);
    Interval { number, begun: second * number as u32, length: second, record }
}

fn look(established: u64) -> Look {
    let mut look = Look { sent_again: 7, window_zero: 2, ..Look::default() };
    look.states.add(State::Established, established);
    look.closes = Closes { this_side: 4, peer: 1_234, unknown: 0 };
    look
}

fn shown(screen: &Screen) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..24).map(line).collect()
}

#[test]
fn a_run_fits_80_columns_and_24_lines() {
    let mut screen = screen(|options| options.connections = 1_000);
    for (number, (responses, ms)) in [(1_000, 2), (3_000, 4), (2_000, 3)].into_iter().enumerate() {
        screen.take(&second(number as u64, responses, ms), Some(look(30 + number as u64)));
    }
    let lines = shown(&screen);
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
        "generator    late by p99 50.0 us; its threads run 25 % of the time",
        "p hold the picture  q stop the run, and report",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected:?} is not in\n{}", lines.join("\n"));
    }
}

#[test]
fn a_picture_is_held_while_the_counting_goes_on() {
    let mut screen = screen(|options| options.requests = Some(500));
    screen.take(&second(0, 100, 1), None);
    assert_eq!(screen.press(KeyCode::Char('p'), KeyModifiers::NONE), Asks::Nothing);
    screen.take(&second(1, 100, 1), None);
    let lines = shown(&screen);
    assert!(lines[0].starts_with("HELD  GET") && lines[1] == "1.0 s of 10.0 s, 101 of 500 requests", "{lines:?}");
    screen.press(KeyCode::Char(' '), KeyModifiers::NONE);
    assert_eq!(shown(&screen)[1], "2.0 s of 10.0 s, 202 of 500 requests");
}

#[test]
fn keys_that_stop_say_what_follows() {
    let stopping: [(KeyCode, KeyModifiers); 3] = [
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Esc, KeyModifiers::NONE),
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
    ];
    for (key, modifiers) in stopping {
        let mut screen = screen(|_| ());
        assert_eq!(screen.press(KeyCode::Char('x'), KeyModifiers::NONE), Asks::Nothing);
        assert_eq!(screen.press(key, modifiers), Asks::Stop);
        assert_eq!(shown(&screen)[23], "stopping: the report follows");
    }
}

#[test]
fn before_the_first_interval_there_is_a_screen_too() {
    let screen = screen(|options| options.pace = Pace::constant(100.0, Duration::from_mins(1)));
    let lines = shown(&screen);
    assert!(lines[0].contains("open loop") && lines[1] == "0.0 s of 60.0 s, 0 requests", "{lines:?}");
}
