//! Tests of the screen on a buffer of 80 columns and 24 lines.

use super::*;
use ::lab::experiment::NetworkKind;
use ::lab::{Adaptation, shipped};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::collections::BTreeMap;

fn screen() -> Screen {
    let loaded = shipped::find(::lab::demo::EXPERIMENT).and_then(|shipped| shipped.load().ok()).expect("it is sound");
    let quick = Adaptation { quick: true, rounds: Some(6), ..Adaptation::default() };
    Screen::new(&loaded.experiment.adapted(&quick).expect("it can be quick"))
}

fn shown(screen: &Screen) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a buffer");
    terminal.draw(|frame| screen.draw(frame, Duration::from_millis(7_900))).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..24).map(line).collect()
}

fn sample(arm: &str, round: u32, rate: f64, cpu_us: f64) -> Sample {
    let figures = [("requests_per_second", rate), ("cpu_us_per_request.proxy", cpu_us)];
    let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
    Sample { arm: arm.to_owned(), round, void: None, late: None, figures, series: BTreeMap::new(), remarks: Vec::new() }
}

fn has(screen: &Screen, expected: &[&str]) {
    let lines = shown(screen);
    for line in expected {
        assert!(lines.iter().any(|shown| shown == line), "{line:?} is not in\n{}", lines.join("\n"));
    }
}

#[test]
fn live_view_shows_arms_and_connections() {
    let mut screen = screen();
    has(&screen, &["round 0 of 6, sample 0 of 0; 7 s so far", "looking for programs"]);
    screen.take(&Event::Network(NetworkKind::Namespace, "long words", None));
    screen.take(&Event::Absent("nginx pooled", "nginx is not there"));
    for (round, rates) in [(0, (20_000.0, 10_000.0)), (1, (20_000.0, 12_000.0))] {
        screen.take(&Event::Taken(&sample("direct", round, rates.0, 0.0)));
        screen.take(&Event::Taken(&sample("holdfast unpooled", round, rates.1, 70.0)));
    }
    screen.take(&Event::Taken(&Sample { void: Some("late".to_owned()), ..sample("direct", 2, 1.0, 1.0) }));
    screen.take(&Event::Sample(8, 18, "holdfast pooled"));
    screen.take(&Event::Starting("proxy"));
    has(&screen, &["holdfast pooled: starting proxy"]);
    screen.take(&Event::Loading);
    for established in [30.0, 60.0] {
        let numbers = [
            ("sockets.origin.ESTABLISHED", established),
            ("sockets.origin.LISTEN", 1.0),
            ("sockets.proxy.TIME_WAIT", 1234.0),
            ("closed_first.proxy", 1200.0),
        ];
        let numbers = numbers.map(|(name, value)| (name.to_owned(), value)).into();
        screen.take(&Event::Looked(0.3, &numbers));
    }
    has(
        &screen,
        &[
            "round 3 of 6, sample 9 of 18; 7 s so far",
            "network: namespace",
            "arm                  requests/s     of direct  proxy's CPU  over the rounds",
            "direct                   20,000         100 %       0.0 us  ▁▁ 1 void",
            "nginx pooled      absent: nginx is not there",
            "holdfast unpooled        11,000          55 %      70.0 us  ▁█",
            "holdfast pooled               -             -            -",
            "holdfast pooled: loading for 0.3 s",
            "sockets           origin's port  proxy's port               over the load",
            "ESTABLISHED                  60             0               ▁█",
            "TIME_WAIT                     0         1,234               ▁▁",
            "  the port's own              0         1,200               which closed first",
            "q stop, and show what was measured",
        ],
    );
    assert!(!shown(&screen).iter().any(|line| line.contains("LISTEN")), "a listener is no connection");
}

#[test]
fn next_load_starts_with_fresh_samples() {
    let mut screen = screen();
    screen.take(&Event::Sample(0, 30, "direct"));
    screen.take(&Event::Loading);
    let numbers = BTreeMap::from([("sockets.origin.TIME_WAIT".to_owned(), 5.0)]);
    screen.take(&Event::Looked(0.1, &numbers));
    screen.take(&Event::Sample(1, 30, "nginx unpooled"));
    assert!(shown(&screen).iter().any(|line| line.starts_with("TIME_WAIT")), "the last look stays meanwhile");
    screen.take(&Event::Loading);
    assert!(!shown(&screen).iter().any(|line| line.starts_with("TIME_WAIT")));
}

#[test]
fn a_key_stops_it_and_others_do_not() {
    let mut screen = screen();
    assert_eq!(screen.press(KeyCode::Char('c'), KeyModifiers::NONE), Asks::Nothing);
    for (key, modifiers) in [
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Esc, KeyModifiers::NONE),
    ] {
        assert_eq!(screen.press(key, modifiers), Asks::Stop);
    }
    has(&screen, &["stopping: what was measured follows"]);
}
