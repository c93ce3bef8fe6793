//! The live view: a terminal, keys, and a separate thread for the looks, so that keys are answered during a long look at
//! many sockets. `screen` draws and knows neither terminal nor kernel.

mod screen;

use super::log::next_look;
use super::model::picture::Picture;
use super::parse_filter;
use super::sampler::{Sampler, Wanted};
use screen::{Asks, Screen};
use sockdiag::Filter;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use terminal::errno;
use terminal::signals::Signals;
use terminal::{TICK, Terminal};

/// Looks that wait to be drawn, besides the one in progress.
const WAITING_MAX: usize = 1;

/// A message to the thread that looks.
enum Order {
    Filter(Option<Filter>),
    Stop,
}

/// Shows looks until `q`, a signal, or the count.
pub(super) fn show(
    wanted: Wanted,
    filter: &str,
    interval: Duration,
    count: Option<NonZeroU64>,
    signals: &Signals,
) -> Result<(), String> {
    // Before the terminal is taken over, so that an error is printed as a line.
    let sampler = Sampler::open(wanted.clone())?;
    let (pictures, drawn) = sync_channel(WAITING_MAX);
    let (orders, ordered) = sync_channel(WAITING_MAX);
    std::thread::scope(|scope| {
        let looking = scope.spawn(move || look_on(sampler, wanted, interval, count, &pictures, &ordered));
        let mut terminal = Terminal::open()?;
        let mut screen = Screen::new(filter);
        let shown = loop {
            match drawn.try_recv() {
                Ok(picture) => screen.take(picture),
                Err(TryRecvError::Empty) => {}
                // The thread has ended: its count was reached, or it failed.
                Err(TryRecvError::Disconnected) => break Ok(()),
            }
            if let Err(problem) = terminal.draw(|frame| screen.draw(frame)) {
                break Err(problem);
            }
            match answer(&terminal, &mut screen, signals) {
                Ok(Asks::Nothing) => {}
                Ok(Asks::Quit) => break Ok(()),
                Ok(Asks::Filter(words)) => match parse_filter(&words) {
                    Ok(filter) => {
                        screen.filter_taken();
                        // The thread reads it within a tick; it is the only reader.
                        let _ = orders.send(Order::Filter(filter));
                    }
                    Err(problem) => screen.filter_refused(problem),
                },
                Err(problem) => break Err(problem),
            }
        };
        drop(terminal);
        let _ = orders.try_send(Order::Stop);
        drop((drawn, orders));
        let looked = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        shown.and(looked)
    })
}

/// Waits for a key or a tick.
fn answer(terminal: &Terminal, screen: &mut Screen, signals: &Signals) -> Result<Asks, String> {
    if signals.next().map_err(|error| errno(&error))?.is_some() {
        return Ok(Asks::Quit);
    }
    Ok(terminal.key()?.map_or(Asks::Nothing, |(key, modifiers)| screen.press(key, modifiers)))
}

/// Looks at each interval until it is told to stop or the drawing thread is gone.
fn look_on(
    mut sampler: Sampler,
    mut wanted: Wanted,
    interval: Duration,
    count: Option<NonZeroU64>,
    pictures: &SyncSender<Picture>,
    ordered: &Receiver<Order>,
) -> Result<(), String> {
    let begun = Instant::now();
    let (mut number, mut due) = (0, Duration::ZERO);
    loop {
        if pictures.send(sampler.look()?).is_err() {
            return Ok(());
        }
        number += 1;
        if count.is_some_and(|count| number >= count.get()) {
            return Ok(());
        }
        (due, _) = next_look(interval, due, begun.elapsed());
        loop {
            match ordered.try_recv() {
                Ok(Order::Filter(filter)) => {
                    wanted.filter = filter;
                    sampler = Sampler::open(wanted.clone())?;
                    break;
                }
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) => {}
            }
            let until = (begun + due).min(Instant::now() + TICK);
            sampler.wait(None, until)?;
            if Instant::now() >= begun + due {
                break;
            }
        }
    }
}
