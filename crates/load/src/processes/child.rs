//! A process that has a part of a load: it takes an order, loads, and says what its workers say. It ends when its parent says
//! so or is gone.

use super::wire::{Begin, Order, Said, encode, parse_next};
use super::{monotonic_ns, wait_until};
use crate::plan::descriptors_needed;
use crate::prepare::{Crew, Part};
use crate::setup::{Setup, StartError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Runs the part of a load that a parent orders over these two streams, for a program that [`crate::Prepared::start_with`] has
/// started; returns when it is over. An error is one of the streams': the parent is gone or speaks otherwise.
pub fn serve_part(from: impl Read + Send + 'static, mut to: impl Write) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let Some(order) = parse_next::<Order>(&mut from)? else { return Ok(()) };
    let crew = match start(&order) {
        Ok(crew) => crew,
        Err(error) => return to.write_all(&encode(&Said::Refused(error.to_string()))),
    };
    to.write_all(&encode(&Said::Ready))?;
    to.flush()?;
    let stop = Arc::clone(&crew.together.stop);
    if let Ok(Some(begin)) = parse_next::<Begin>(&mut from) {
        let ahead = Duration::from_nanos(begin.monotonic_ns.saturating_sub(monotonic_ns()));
        let at = Instant::now() + ahead;
        wait_until(at);
        crew.together.begin(at);
    } else {
        stop.store(true, Ordering::Relaxed);
        crew.together.begin(Instant::now());
    }
    std::thread::spawn(move || {
        wait_for_the_end(&mut from);
        stop.store(true, Ordering::Relaxed);
    });
    let said = tell(&crew, &mut to);
    // Nobody hears the workers any more; they must not load on.
    crew.together.stop.store(true, Ordering::Relaxed);
    for thread in crew.threads {
        if thread.join().is_err() {
            to.write_all(&encode(&Said::Failed("a worker of the load panicked".to_owned())))?;
        }
    }
    said?;
    to.write_all(&encode(&Said::End))?;
    to.flush()
}

fn start(order: &Order) -> Result<Crew, StartError> {
    let wanted = descriptors_needed(&order.options, order.part.of);
    reactor::raise_descriptor_limit(wanted).map_err(StartError::Worker)?;
    let setup = Arc::new(Setup::new(&order.options, Some(&order.addresses))?);
    let Part { index, of } = order.part;
    if index >= of {
        return Err(StartError::Process(format!("has part {index} of {of}")));
    }
    Crew::start(&order.options, &setup, order.part)
}

/// Until the workers have ended.
fn tell(crew: &Crew, to: &mut impl Write) -> io::Result<()> {
    while let Ok(message) = crew.messages.recv() {
        if let Some(said) = Said::of(message) {
            to.write_all(&encode(&said))?;
            to.flush()?;
        }
    }
    Ok(())
}

/// The parent says nothing more than the end of its stream, however it comes to that.
fn wait_for_the_end(from: &mut impl BufRead) {
    loop {
        match from.fill_buf() {
            Ok([]) => return,
            Ok(bytes) => {
                let length = bytes.len();
                from.consume(length);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
