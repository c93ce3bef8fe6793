//! Moves open tunnels and idle connections to upstreams from a process that finishes to the one that has replaced it, over
//! a pair of sockets that the masters have passed to both. Each side is a thread beside the workers.
//!
//! ```text
//! new process                      old process
//! Hello: versions ──────────────►
//!                                  takes idle connections out of its pool
//!                 ◄────────────── Idle: their states and descriptors
//! pools them
//!                                  freezes some tunnels
//!                 ◄────────────── Tunnels: their states and descriptors
//! makes frozen tunnels of them
//! Held: which of them ──────────►
//!                 ◄────────────── Commit
//! thaws them                       releases them, thaws the others
//! ```
//!
//! Until `Commit` is sent the old process has the tunnels, and it thaws them if anything fails. So one of the two
//! processes reads and writes at any time, and never both.

use super::channel::{Channel, Kind, Packet};
use crate::report::errno;
use gateway::handover::{FreezeLimit, FrozenId, HandedOver, IdleHandedOver};
use gateway::{Level, Registry};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{Shutdown, shutdown};
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tunnels frozen at a time: their pause is the time that one exchange of messages takes. They are the most that one
/// packet has descriptors for, and few enough to be far from the limit of descriptors in flight.
const BATCH: FreezeLimit = FreezeLimit { tunnels: 64, bytes: 4 << 20 };
/// Idle connections to upstreams in a message: the most that one packet has descriptors for.
const IDLE_MAX: usize = 128;
/// The new process may not serve yet.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Tunnels wait for so long for the new process before they are drained, if that is configured for the end of this one.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// The new process answers in milliseconds. One that does not gets no tunnels, and those of the batch have waited for this long.
const HELD_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for the thread's last line at the end of the process: it may be waiting for a worker that was stopped.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const END_PAUSE: Duration = Duration::from_millis(2);
/// While a process finishes, requests may still become tunnels: it looks for them this often.
const ROUND_PAUSE: Duration = Duration::from_secs(1);

/// A hand-over that this process has begun.
pub(super) struct Giving {
    socket: OwnedFd,
    thread: JoinHandle<()>,
}

/// Begins to hand the tunnels of this process over, until the other process or this one ends.
pub(super) fn hand_over(registry: &'static Registry, socket: OwnedFd) -> io::Result<Giving> {
    let own = socket.try_clone()?;
    let mut giver = Giver { registry, channel: Channel::over(socket)?, pauses: Vec::new() };
    // Now, because the order to drain follows.
    registry.set_tunnels_move(true);
    let work = move || {
        let Err(reason) = giver.run();
        giver.registry.set_tunnels_move(false);
        let tunnels = giver.registry.totals().tunnels;
        if tunnels > 0 {
            giver.log(Level::Notice, &format!("{tunnels} open tunnels stay with this process: {reason}"));
        }
    };
    let thread = std::thread::Builder::new().name("tunnels out".to_owned()).spawn(work);
    let thread = thread.inspect_err(|_| registry.set_tunnels_move(false))?;
    Ok(Giving { socket: own, thread })
}

impl Giving {
    /// This process ends: what was handed over is logged first.
    pub(super) fn end(self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
        let deadline = Instant::now() + END_TIMEOUT;
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::park_timeout(END_PAUSE);
        }
    }
}

/// Begins to take over the tunnels of another process, until that has no more.
pub(super) fn take_over(registry: &'static Registry, socket: OwnedFd) -> io::Result<()> {
    let mut taker = Taker { registry, channel: Channel::over(socket)?, taken: 0 };
    let work = move || {
        let ended = taker.run();
        let log = taker.registry.error_log();
        if taker.taken > 0 {
            log.log(Level::Notice, &format!("{} tunnels were taken over from another process", taker.taken));
        }
        if ended.kind() != io::ErrorKind::UnexpectedEof {
            log.log(Level::Warn, &format!("tunnels of another process are not taken over {}", errno(&ended)));
        }
    };
    std::thread::Builder::new().name("tunnels in".to_owned()).spawn(work).map(drop)
}

/// Waits for a message; `TimedOut` if there is none in time.
fn next(channel: &mut Channel, timeout: Option<Duration>) -> io::Result<Packet> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        match channel.receive() {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            other => return other,
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // Rounded up, so that the last wait is not one of 0 ms.
        let left = left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::from(u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX))
        });
        match poll(&mut [PollFd::new(channel.descriptor(), PollFlags::POLLIN)], left) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The side of the process that finishes.
struct Giver {
    registry: &'static Registry,
    channel: Channel,
    /// Of this round: the pause of a batch, and its tunnels.
    pauses: Vec<(Duration, usize)>,
}

impl Giver {
    /// The error is the reason why the tunnels that are left stay.
    fn run(&mut self) -> Result<Infallible, String> {
        self.await_hello()?;
        loop {
            self.pauses.clear();
            let mut given = 0;
            self.give_idle()?;
            let outcome = self.round(&mut given);
            if given > 0 {
                let [most, usual] = [1.0, 0.99].map(|share| pause_of(&mut self.pauses, share).as_millis());
                let message = format!(
                    "{given} tunnels were handed over to another process, paused for at most {most} ms (99 % of them: {usual} ms)"
                );
                self.log(Level::Notice, &message);
            }
            outcome?;
            match next(&mut self.channel, Some(ROUND_PAUSE)) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(gone(&error)),
                Ok(_) => return Err("the other process sent an unexpected message".to_owned()),
            }
        }
    }

    fn await_hello(&mut self) -> Result<(), String> {
        let mut hello = next(&mut self.channel, Some(DRAIN_PATIENCE));
        if hello.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            self.registry.set_tunnels_move(false);
            hello = next(&mut self.channel, Some(HELLO_TIMEOUT.saturating_sub(DRAIN_PATIENCE)));
            self.registry.set_tunnels_move(hello.is_ok());
        }
        let hello = hello.map_err(|error| gone(&error))?;
        let text = String::from_utf8_lossy(&hello.text).into_owned();
        let own = handover::VERSION.to_string();
        if hello.kind != Kind::Hello || !text.split(' ').any(|version| version == own) {
            return Err(format!("the other process knows version {text} of their format, and this one writes {own}"));
        }
        Ok(())
    }

    /// Hands over the idle connections to upstreams of all workers. A connection that is still
    /// in use follows in a later round.
    fn give_idle(&mut self) -> Result<(), String> {
        let mut given = 0;
        for worker in 0..self.registry.workers() {
            let idle = self.registry.give_idle(worker);
            let sent = idle.chunks(IDLE_MAX).try_for_each(|some| {
                let states: Vec<&[u8]> = some.iter().map(|one| &*one.state).collect();
                let sockets: Vec<BorrowedFd<'_>> = some.iter().map(|one| one.socket.as_fd()).collect();
                self.channel.send_body(Kind::Idle, &handover::encode_batch(&states), &sockets)
            });
            self.registry.idle_given(worker);
            sent.map_err(|error| gone(&error))?;
            given += idle.len();
        }
        if given > 0 {
            let message = format!("{given} idle upstream connections were handed over to another process");
            self.log(Level::Notice, &message);
        }
        Ok(())
    }

    /// Hands over the tunnels of all workers once.
    fn round(&mut self, given: &mut usize) -> Result<(), String> {
        for worker in 0..self.registry.workers() {
            let mut from = Some(0);
            while let Some(first) = from {
                let frozen = self.registry.freeze_tunnels(worker, first, BATCH);
                let frozen = frozen.ok_or_else(|| format!("worker {worker} does not answer"))?;
                from = frozen.next;
                if !frozen.tunnels.is_empty() {
                    *given += self.give(frozen.tunnels)?;
                }
            }
        }
        Ok(())
    }

    /// Hands over frozen tunnels; returns how many the other process has taken.
    fn give(&mut self, tunnels: Vec<(FrozenId, HandedOver)>) -> Result<usize, String> {
        let began = Instant::now();
        let ids: Vec<FrozenId> = tunnels.iter().map(|(id, _)| *id).collect();
        let outcome = self
            .transfer(&tunnels)
            .and_then(|is_held| self.channel.send(Kind::Commit, "").map(|()| is_held).map_err(|error| gone(&error)));
        // The workers have their own descriptors.
        drop(tunnels);
        let is_held = match outcome {
            Ok(is_held) => is_held,
            Err(reason) => {
                self.registry.thaw_tunnels(&ids, false);
                return Err(reason);
            }
        };
        self.pauses.push((began.elapsed(), ids.len()));
        let of = |wanted: bool| -> Vec<FrozenId> {
            ids.iter().zip(&is_held).filter(|(_, held)| **held == wanted).map(|(id, _)| *id).collect()
        };
        let held = of(true);
        self.registry.release_tunnels(&held);
        self.registry.thaw_tunnels(&of(false), true);
        Ok(held.len())
    }

    /// Sends tunnels; returns which of them the other process holds.
    fn transfer(&mut self, tunnels: &[(FrozenId, HandedOver)]) -> Result<Vec<bool>, String> {
        let states: Vec<&[u8]> = tunnels.iter().map(|(_, tunnel)| &*tunnel.state).collect();
        let ends: Vec<BorrowedFd<'_>> = tunnels.iter().flat_map(|(_, it)| &it.ends).map(|end| end.as_fd()).collect();
        let sent = self.channel.send_body(Kind::Tunnels, &handover::encode_batch(&states), &ends);
        sent.map_err(|error| gone(&error))?;
        let answer = next(&mut self.channel, Some(HELD_TIMEOUT)).map_err(|error| gone(&error))?;
        if answer.kind != Kind::Held || answer.text.len() != tunnels.len() {
            return Err("the other process sent an unexpected message".to_owned());
        }
        Ok(answer.text.iter().map(|mark| *mark == HELD).collect())
    }

    fn log(&self, level: Level, message: &str) {
        self.registry.error_log().log(level, message);
    }
}

/// The pause that this share of the tunnels did not exceed.
fn pause_of(pauses: &mut [(Duration, usize)], share: f64) -> Duration {
    pauses.sort_unstable();
    let all: usize = pauses.iter().map(|(_, tunnels)| tunnels).sum();
    let mut left = (all as f64 * share).ceil() as usize;
    for (pause, tunnels) in &*pauses {
        left = left.saturating_sub(*tunnels);
        if left == 0 {
            return *pause;
        }
    }
    Duration::ZERO
}

/// Why the other process takes nothing more.
fn gone(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "the other process does not answer".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            "the other process takes none, or has ended".to_owned()
        }
        _ => format!("the other process cannot be reached {}", errno(error)),
    }
}

/// The mark of a tunnel that is held, and of one that is not.
const HELD: u8 = b'1';
const REFUSED: u8 = b'0';

/// The side of the process that takes over.
struct Taker {
    registry: &'static Registry,
    channel: Channel,
    taken: usize,
}

impl Taker {
    /// Returns why it ended: usually because the other process has.
    fn run(&mut self) -> io::Error {
        if let Err(error) = self.channel.send(Kind::Hello, &handover::VERSION.to_string()) {
            return error;
        }
        loop {
            if let Err(error) = next(&mut self.channel, None).and_then(|packet| self.take(packet)) {
                return error;
            }
        }
    }

    fn take(&mut self, mut packet: Packet) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        if packet.kind == Kind::Idle {
            let states = handover::decode_batch(&packet.take_body()?).ok_or_else(invalid)?;
            if packet.descriptors.len() != states.len() {
                return Err(invalid());
            }
            let idle = states.into_iter().zip(packet.descriptors);
            self.registry.take_idle(idle.map(|(state, socket)| IdleHandedOver { state, socket }).collect());
            return Ok(());
        }
        if packet.kind != Kind::Tunnels {
            return Err(invalid());
        }
        let states = handover::decode_batch(&packet.take_body()?).ok_or_else(invalid)?;
        if packet.descriptors.len() != 2 * states.len() {
            return Err(invalid());
        }
        let mut ends = packet.descriptors.into_iter();
        let mut tunnels = Vec::new();
        for state in states {
            let (Some(client), Some(upstream)) = (ends.next(), ends.next()) else { return Err(invalid()) };
            tunnels.push(HandedOver { state, ends: [client, upstream] });
        }
        let held = self.registry.hold_tunnels(tunnels);
        let marks: String = held.iter().map(|id| char::from(if id.is_some() { HELD } else { REFUSED })).collect();
        let held: Vec<FrozenId> = held.into_iter().flatten().collect();
        let committed = self.channel.send(Kind::Held, &marks).and_then(|()| next(&mut self.channel, None));
        match committed {
            Ok(packet) if packet.kind == Kind::Commit => {
                self.registry.thaw_tunnels(&held, false);
                self.taken += held.len();
                Ok(())
            }
            other => {
                // The other process has kept them.
                self.registry.release_tunnels(&held);
                other.and_then(|_| Err(invalid()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
