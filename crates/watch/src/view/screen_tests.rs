//! Tests of the screen on a buffer of 80 columns and 24 lines.

use super::*;
use crate::model::tables::tests::picture;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

struct Shown {
    terminal: Terminal<TestBackend>,
    screen: Screen,
}

impl Shown {
    fn new() -> Self {
        let terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let mut screen = Screen::new("");
        screen.take(picture());
        Self { terminal, screen }
    }

    fn press(&mut self, key: KeyCode) -> Asks {
        self.screen.press(key, KeyModifiers::NONE)
    }

    /// The lines, without trailing spaces.
    fn lines(&mut self) -> Vec<String> {
        self.terminal.draw(|frame| self.screen.draw(frame)).unwrap();
        let buffer = self.terminal.backend().buffer();
        let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..24).map(line).collect()
    }

    fn has(&mut self, expected: &str) {
        let lines = self.lines();
        assert!(lines.iter().any(|line| line.contains(expected)), "{expected:?} is not in\n{}", lines.join("\n"));
    }
}

#[test]
fn each_page_fits_80_columns_and_24_lines() {
    let mut shown = Shown::new();
    let lines = shown.lines();
    assert_eq!(lines[0], "2026-11-22T00:00:00Z  121 connections, 1 listener, look 1.5 ms");
    assert_eq!(lines[1], "1 states  2 listeners  3 destinations  4 queues  5 closed first  6 kernel");
    assert!(lines[8].starts_with("TIME_WAIT          120  ▁"), "{}", lines.join("\n"));
    assert!(lines[14].starts_with("port 10000         120  ESTABLISHED 0, TIME_WAIT 120"), "{}", lines.join("\n"));
    assert_eq!(lines[22], "3 processes may not be looked into");
    assert_eq!(lines[23], "? help  / filter  s sort  r reverse  p pause  q quit");
    for (key, expected) in [
        ('2', "full: not accepting"),
        ('3', "27,000"),
        ('4', "peer's window zero"),
        ('5', "from 10.0.0.9 on :80"),
        ('6', "segments sent again"),
        ('?', "Any key goes back."),
    ] {
        assert_eq!(shown.press(KeyCode::Char(key)), Asks::Nothing);
        shown.has(expected);
    }
    assert_eq!(shown.press(KeyCode::Char('q')), Asks::Nothing, "it closes the help");
    assert_eq!(shown.press(KeyCode::Char('q')), Asks::Quit);
    assert_eq!(shown.screen.press(KeyCode::Char('c'), KeyModifiers::CONTROL), Asks::Quit);
}

#[test]
fn rows_are_sorted_turned_around_and_scrolled() {
    let mut shown = Shown::new();
    shown.press(KeyCode::Char('5'));
    assert!(shown.lines()[3].starts_with("to   10.0.0.2:10000"), "{}", shown.lines().join("\n"));
    shown.press(KeyCode::Char('r'));
    assert!(shown.lines()[3].starts_with("from 10.0.0.9"), "{}", shown.lines().join("\n"));
    for _ in 0..2 {
        shown.press(KeyCode::Char('s'));
    }
    shown.has("by peer  ? help");
    shown.press(KeyCode::Down);
    shown.press(KeyCode::PageDown);
    assert_eq!(shown.lines()[4], "", "one row is left");
    for _ in 0..5 {
        shown.press(KeyCode::Char('s'));
    }
    shown.has("? help");
    assert_eq!(shown.screen.sort, None);
    shown.press(KeyCode::Tab);
    assert_eq!(shown.screen.page, Page::Kernel);
    shown.press(KeyCode::Tab);
    shown.press(KeyCode::BackTab);
    assert_eq!((shown.screen.page, shown.screen.scroll), (Page::Kernel, 0));
}

#[test]
fn a_filter_is_typed_refused_and_taken() {
    let mut shown = Shown::new();
    shown.press(KeyCode::Char('/'));
    for c in "dport = :80q".chars() {
        assert_eq!(shown.press(KeyCode::Char(c)), Asks::Nothing);
    }
    shown.has("filter: dport = :80q_");
    assert_eq!(shown.press(KeyCode::Enter), Asks::Filter("dport = :80q".to_owned()));
    shown.screen.filter_refused("`:80q` is no port".to_owned());
    shown.has("`:80q` is no port");
    shown.press(KeyCode::Backspace);
    assert_eq!(shown.press(KeyCode::Enter), Asks::Filter("dport = :80".to_owned()));
    shown.screen.filter_taken();
    shown.has("only dport = :80  ? help");
    // A long filter is shortened, so that the keys stay on the line.
    shown.screen.filter = "( dst 10.0.0.0/8 or sport gt :1024 ) and not port = :22".to_owned();
    shown.press(KeyCode::Char('s'));
    let last = shown.lines()[23].clone();
    assert!(
        last.starts_with("by state  only ( ds")
            && last.ends_with("…  ? help  / filter  s sort  r reverse  p pause  q quit"),
        "{last}"
    );
    shown.screen.filter = "dport = :80".to_owned();
    // Escape keeps the old filter.
    shown.press(KeyCode::Char('/'));
    shown.press(KeyCode::Char('x'));
    shown.press(KeyCode::Esc);
    shown.has("only dport = :80  ? help");
}

#[test]
fn a_held_picture_stays_while_looking_goes_on() {
    let mut shown = Shown::new();
    shown.press(KeyCode::Char('p'));
    shown.screen.take(Picture { time: "later".to_owned(), ..Picture::default() });
    shown.has("PAUSED  2026-11-22T00:00:00Z");
    shown.press(KeyCode::Char('p'));
    shown.screen.take(Picture { time: "later".to_owned(), ..Picture::default() });
    shown.has("later  0 connections");
    assert_eq!(shown.screen.history.len(), 3);
}
