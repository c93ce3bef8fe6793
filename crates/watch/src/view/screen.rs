//! The screen of the live view, and its answers to keys. Without a terminal and a kernel: it takes pictures and keys, and
//! draws a frame.

use crate::model::picture::Picture;
use crate::model::table::Table;
use crate::model::tables::{Page, headline};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use report::text::{grouped, sparkline};
use sockdiag::State;
use std::collections::VecDeque;

/// Looks in the history of the page of states: ten minutes at one a second, at 88 bytes each.
const HISTORY_MAX: usize = 600;
/// Longest filter that can be typed; the parser accepts longer ones.
const FILTER_CHARS_MAX: usize = 1000;

/// What a key asks of the driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Nothing,
    Quit,
    /// Use these words as a filter; empty for none.
    Filter(String),
}

/// The overlay on the page.
#[derive(Debug, PartialEq, Eq)]
enum Over {
    Nothing,
    Help,
    /// A filter being typed, and the error of the last attempt.
    Filter(String, Option<String>),
}

/// The whole screen.
#[derive(Debug)]
pub(super) struct Screen {
    picture: Picture,
    /// Whether the display is paused; looks continue, but are not shown.
    paused: bool,
    history: VecDeque<Vec<u64>>,
    page: Page,
    over: Over,
    /// The column to sort by; `None` keeps the model's order.
    sort: Option<usize>,
    backwards: bool,
    scroll: usize,
    filter: String,
}

impl Screen {
    pub(super) fn new(filter: &str) -> Self {
        Self {
            picture: Picture::default(),
            paused: false,
            history: VecDeque::new(),
            page: Page::States,
            over: Over::Nothing,
            sort: None,
            backwards: false,
            scroll: 0,
            filter: filter.to_owned(),
        }
    }

    /// Adds a new look.
    pub(super) fn take(&mut self, picture: Picture) {
        if self.history.len() >= HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(State::ALL.iter().map(|state| picture.tally.all.of(*state)).collect());
        if !self.paused {
            self.picture = picture;
        }
    }

    /// Called when the requested filter is in use.
    pub(super) fn filter_taken(&mut self) {
        if let Over::Filter(words, _) = std::mem::replace(&mut self.over, Over::Nothing) {
            words.trim().clone_into(&mut self.filter);
            // Counts with another filter are not comparable, so the history is cleared.
            self.history.clear();
        }
    }

    /// Called when the requested filter was refused, with the reason.
    pub(super) fn filter_refused(&mut self, problem: String) {
        if let Over::Filter(_, refusal) = &mut self.over {
            *refusal = Some(problem);
        }
    }

    pub(super) fn press(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Asks {
        if key == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Asks::Quit;
        }
        match &mut self.over {
            Over::Nothing => return self.press_on_page(key),
            Over::Help => self.over = Over::Nothing,
            Over::Filter(words, refusal) => match key {
                KeyCode::Enter => return Asks::Filter(words.clone()),
                KeyCode::Esc => self.over = Over::Nothing,
                KeyCode::Backspace => {
                    words.pop();
                    *refusal = None;
                }
                KeyCode::Char(c) if words.chars().count() < FILTER_CHARS_MAX => {
                    words.push(c);
                    *refusal = None;
                }
                _ => {}
            },
        }
        Asks::Nothing
    }

    fn press_on_page(&mut self, key: KeyCode) -> Asks {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Asks::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.over = Over::Help,
            KeyCode::Char('/') => self.over = Over::Filter(self.filter.clone(), None),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('r') => self.backwards = !self.backwards,
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if let Some(page) = Page::ALL.get(at) {
                    self.turn_to(*page);
                }
            }
            KeyCode::Tab | KeyCode::Right => self.turn_by(1),
            KeyCode::BackTab | KeyCode::Left => self.turn_by(Page::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Asks::Nothing
    }

    fn turn_by(&mut self, pages: usize) {
        let at = Page::ALL.iter().position(|page| *page == self.page).unwrap_or(0);
        if let Some(page) = Page::ALL.get((at + pages) % Page::ALL.len()) {
            self.turn_to(*page);
        }
    }

    fn turn_to(&mut self, page: Page) {
        (self.page, self.sort, self.backwards, self.scroll) = (page, None, false, 0);
    }

    /// Selects the next column; after the last one, the model's order again.
    fn sort_by_next(&mut self) {
        let columns = self.page.table(&self.picture).headings.len();
        self.sort = Some(self.sort.map_or(0, |column| column + 1)).filter(|column| *column < columns);
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = [Constraint::Length(2), Constraint::Min(0), Constraint::Length(2)];
        let [top, body, bottom] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(Paragraph::new(self.top(top)), top);
        match &self.over {
            Over::Help => frame.render_widget(Paragraph::new(HELP), body),
            _ if self.page == Page::States => frame.render_widget(Paragraph::new(self.states(body)), body),
            _ => {
                let lines = self.table_lines(body);
                frame.render_widget(Paragraph::new(lines), body);
            }
        }
        frame.render_widget(Paragraph::new(self.bottom(bottom)), bottom);
    }

    fn top(&self, area: Rect) -> Vec<Line<'_>> {
        let mut tabs = Vec::new();
        for (at, page) in Page::ALL.into_iter().enumerate() {
            let style = if page == self.page { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            tabs.push(Span::styled(format!("{} {}", at + 1, page.title()), style));
            tabs.push(Span::raw("  "));
        }
        let paused = if self.paused { "PAUSED  " } else { "" };
        let first =
            if self.history.is_empty() { "looking".to_owned() } else { headline(&self.picture, area.width.into()) };
        vec![Line::from(format!("{paused}{first}")).style(Modifier::BOLD), Line::from(tabs)]
    }

    /// Each state with its count and its history.
    fn states(&self, area: Rect) -> Vec<Line<'_>> {
        let mut lines = vec![Line::from("state          sockets  over time").style(Modifier::UNDERLINED)];
        let width = usize::from(area.width.saturating_sub(24));
        for (at, state) in State::ALL.into_iter().enumerate() {
            let past: Vec<u64> = self.history.iter().filter_map(|counts| counts.get(at)).copied().collect();
            let recent = past.get(past.len().saturating_sub(width)..).unwrap_or_default();
            let count = self.picture.tally.all.of(state);
            let line = format!("{:11} {:>10}  {}", state.name(), grouped(count), sparkline(recent, width));
            let style = if count == 0 { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
            lines.push(Line::from(line).style(style));
        }
        for (port, histogram) in &self.picture.tally.ports {
            let of = |state| grouped(histogram.of(state));
            lines.push(Line::from(format!(
                "port {port:<6} {:>10}  ESTABLISHED {}, TIME_WAIT {}, CLOSE_WAIT {}",
                grouped(histogram.connections()),
                of(State::Established),
                of(State::TimeWait),
                of(State::CloseWait)
            )));
        }
        lines
    }

    fn table_lines(&mut self, area: Rect) -> Vec<Line<'static>> {
        let mut table: Table = self.page.table(&self.picture);
        if table.rows.is_empty() {
            return vec![Line::from(table.empty)];
        }
        if let Some(column) = self.sort {
            table.sort(column, self.backwards);
        } else if self.backwards {
            table.rows.reverse();
        }
        // The last row can be scrolled to the top, but no further.
        self.scroll = self.scroll.min(table.rows.len() - 1);
        let mut lines = table.lines(area.width.into()).into_iter();
        let heading = Line::from(lines.next().unwrap_or_default()).style(Modifier::UNDERLINED);
        let rows = lines.skip(self.scroll).take(usize::from(area.height.saturating_sub(1)));
        std::iter::once(heading).chain(rows.map(Line::from)).collect()
    }

    fn bottom(&self, area: Rect) -> Vec<Line<'_>> {
        if let Over::Filter(words, refusal) = &self.over {
            let shown: String = words.chars().rev().take(usize::from(area.width.saturating_sub(10))).collect();
            let shown: String = shown.chars().rev().collect();
            let second =
                refusal.as_deref().unwrap_or("ss's words, such as: state time-wait dport = :10000; Enter, or Esc");
            return vec![Line::from(format!("filter: {shown}_")), Line::from(second).style(Modifier::BOLD)];
        }
        let sort = self.sort.and_then(|column| self.page.table(&self.picture).headings.get(column).copied());
        let sort = sort.map_or_else(String::new, |heading| format!("by {heading}  "));
        // The keys stay readable: a filter that is too long for the line is shortened.
        let room = usize::from(area.width).saturating_sub(sort.chars().count() + KEYS.len());
        let filter = if self.filter.is_empty() { String::new() } else { shortened(&self.filter, room) };
        let note = self.picture.notes.first().map_or(self.page.explanation(), String::as_str);
        vec![Line::from(note).style(Modifier::DIM), Line::from(format!("{sort}{filter}{KEYS}"))]
    }
}

/// The end of the last line.
const KEYS: &str = "? help  / filter  s sort  r reverse  p pause  q quit";

/// `only WORDS  ` within this many columns, without the words that do not fit; empty if none would fit.
fn shortened(words: &str, columns: usize) -> String {
    let whole = format!("only {words}  ");
    if whole.chars().count() <= columns {
        return whole;
    }
    let Some(kept) = columns.checked_sub("only …  ".chars().count()).filter(|kept| *kept > 0) else {
        return String::new();
    };
    format!("only {}…  ", words.chars().take(kept).collect::<String>())
}

const HELP: &str = "\
1 to 6, Tab       pages: states, listeners, destinations, queues, who closed
                  first, kernel
Up, Down, PgUp, PgDn, Home
                  scroll
s                 sort by the next column; after the last, by need
r                 the other way round
p, Space          hold the picture; looking goes on
/                 filter in ss's words:
                    state time-wait dport = :10000
                    ( dst 10.0.0.0/8 or sport gt :1024 ) and not port = :22
                    process nginx    pid 4711    cgroup /web
q, Esc, Ctrl-C    quit

TIME_WAIT and FIN_WAIT mean that this side closed first, CLOSE_WAIT and LAST_ACK
that the peer did. A listener's queue of n holds n + 1. Free ports are counted
for each pair of addresses and remote port, without reserved ones; * marks
destinations where tcp_tw_reuse hands out ports in TIME_WAIT again.

Any key goes back.";

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
