//! Numbered traffic through many tunnels at once: an upstream that sends every byte back, and clients that send numbers
//! at a steady pace and compare what comes back. So a byte that is lost, doubled or reordered in either direction shows.

use rustix::event::epoll;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that the upstream keeps of one connection before it stops reading.
const ECHO_BYTES_MAX: usize = 64 * 1024;
/// Numbers of a tunnel that may be under way: more than any pause lets pile up.
const UNDER_WAY_MAX: usize = 10_000;
/// The clock's step of the clients.
const STEP_MS: i64 = 2;

/// Waits for events of at most some connections; returns their numbers.
fn wait(epoll: impl std::os::fd::AsFd, milliseconds: i64) -> Vec<u64> {
    let mut events = Vec::with_capacity(1024);
    let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => panic!("epoll: {error}"),
    }
    events.iter().map(|event: &epoll::Event| event.data.u64()).collect()
}

/// An upstream that answers every upgrade with 101, and then sends everything back.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Echoed {
    stream: TcpStream,
    /// The head until it is complete; then what could not be sent back yet.
    waiting: VecDeque<u8>,
    upgraded: bool,
    ended: bool,
}

impl Echo {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let done = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let done = Arc::clone(&done);
            move || Self::run(&listener, &done)
        });
        Self { address, done, thread: Some(thread) }
    }

    fn run(listener: &TcpListener, done: &AtomicBool) {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("made");
        listener.set_nonblocking(true).expect("set");
        epoll::add(&epoll, listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN).expect("added");
        let mut all: Vec<Option<Echoed>> = Vec::new();
        while !done.load(Ordering::Relaxed) {
            for number in wait(&epoll, 50) {
                let Ok(index) = usize::try_from(number) else { continue };
                let Some(place) = all.get_mut(index) else {
                    while let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(true).expect("set");
                        stream.set_nodelay(true).expect("set");
                        let data = epoll::EventData::new_u64(all.len() as u64);
                        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
                        epoll::add(&epoll, &stream, data, flags).expect("added");
                        let waiting = VecDeque::new();
                        all.push(Some(Echoed { stream, waiting, upgraded: false, ended: false }));
                    }
                    continue;
                };
                if place.as_mut().is_some_and(|one| !one.turn()) {
                    *place = None;
                }
            }
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Echoed {
    /// Reads and writes as far as possible; `false` at the end.
    fn turn(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        loop {
            if self.upgraded {
                while !self.waiting.is_empty() {
                    match self.stream.write(self.waiting.as_slices().0) {
                        Ok(count) => drop(self.waiting.drain(..count)),
                        Err(error) => return error.kind() == ErrorKind::WouldBlock,
                    }
                }
                if self.ended {
                    return false;
                }
            }
            if self.waiting.len() >= ECHO_BYTES_MAX {
                return true;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => self.waiting.extend(&buffer[..count]),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            if !self.upgraded {
                let head = self.waiting.make_contiguous();
                let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") else {
                    if self.ended {
                        return false;
                    }
                    continue;
                };
                let is_websocket = head[..end].windows(9).any(|word| word == b"websocket");
                let protocol = if is_websocket { "websocket" } else { "x" };
                drop(self.waiting.drain(..end + 4));
                let switching =
                    format!("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\r\n");
                switching.as_bytes().iter().rev().for_each(|byte| self.waiting.push_front(*byte));
                self.upgraded = true;
            }
        }
    }
}

/// Clients of many tunnels.
pub(crate) struct Traffic {
    done: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
}

/// What the clients have seen.
pub(crate) struct Outcome {
    /// Numbers that came back.
    pub(crate) numbers: u64,
    /// Tunnels that ended, or with a wrong number, or with one that did not come back.
    pub(crate) faults: Vec<String>,
    /// The longest time that a number of each tunnel took, sorted.
    pub(crate) longest: Vec<Duration>,
}

struct Client {
    stream: TcpStream,
    sent: u64,
    received: u64,
    /// Bytes of a number that has not arrived in full.
    partial: Vec<u8>,
    /// Bytes that could not be sent yet.
    unsent: Vec<u8>,
    under_way: VecDeque<Instant>,
    due: Instant,
    longest: Duration,
    fault: Option<String>,
}

impl Traffic {
    /// Takes open tunnels, and sends a number through each at this interval.
    pub(crate) fn start(tunnels: Vec<TcpStream>, interval: Duration) -> Self {
        let done = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let done = Arc::clone(&done);
            move || run(tunnels, interval, &done)
        });
        Self { done, thread }
    }

    /// Waits for the numbers that are under way.
    pub(crate) fn stop(self) -> Outcome {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

fn run(tunnels: Vec<TcpStream>, interval: Duration, done: &AtomicBool) -> Outcome {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("made");
    let (began, count) = (Instant::now(), tunnels.len().max(1));
    let mut clients = Vec::new();
    for (index, stream) in tunnels.into_iter().enumerate() {
        stream.set_nonblocking(true).expect("set");
        stream.set_nodelay(true).expect("set");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(index as u64), flags).expect("added");
        // Spread over the interval.
        let due = began + interval.mul_f64(index as f64 / count as f64);
        let (partial, unsent, under_way) = (Vec::new(), Vec::new(), VecDeque::new());
        let longest = Duration::ZERO;
        clients.push(Client { stream, sent: 0, received: 0, partial, unsent, under_way, due, longest, fault: None });
    }
    let mut deadline = None;
    loop {
        for number in wait(&epoll, STEP_MS) {
            if let Some(client) = usize::try_from(number).ok().and_then(|index| clients.get_mut(index)) {
                client.read();
            }
        }
        let now = Instant::now();
        if done.load(Ordering::Relaxed) {
            let deadline = *deadline.get_or_insert(now + super::DEADLINE);
            let is_quiet = clients.iter().all(|client| client.fault.is_some() || client.sent == client.received);
            if is_quiet || now >= deadline {
                break;
            }
        }
        for client in clients.iter_mut().filter(|client| client.fault.is_none()) {
            if client.due <= now && client.under_way.len() < UNDER_WAY_MAX && !done.load(Ordering::Relaxed) {
                client.due = now + interval;
                client.unsent.extend(client.sent.to_be_bytes());
                client.sent += 1;
                client.under_way.push_back(now);
            }
            client.write();
        }
    }
    let mut outcome = Outcome { numbers: 0, faults: Vec::new(), longest: Vec::new() };
    for (index, client) in clients.iter().enumerate() {
        outcome.numbers += client.received;
        outcome.longest.push(client.longest);
        let missing = client.sent - client.received;
        let fault = client.fault.clone().or((missing > 0).then(|| format!("{missing} numbers did not come back")));
        outcome.faults.extend(fault.map(|fault| format!("tunnel {index}: {fault}")));
    }
    outcome.longest.sort_unstable();
    outcome
}

impl Client {
    fn write(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        match self.stream.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.fault = Some(format!("write: {error}")),
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        while self.fault.is_none() {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.fault = Some("closed".to_owned()),
                Ok(count) => self.compare(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.fault = Some(format!("read: {error}")),
            }
        }
    }

    fn compare(&mut self, bytes: &[u8]) {
        self.partial.extend(bytes);
        let whole = self.partial.len() / 8 * 8;
        let (numbers, _) = self.partial[..whole].as_chunks::<8>();
        for number in numbers {
            let number = u64::from_be_bytes(*number);
            if number != self.received {
                self.fault = Some(format!("number {number} came in place of {}", self.received));
                return;
            }
            self.received += 1;
            let took = self.under_way.pop_front().map(|sent| sent.elapsed()).unwrap_or_default();
            self.longest = self.longest.max(took);
        }
        self.partial.drain(..whole);
    }
}

impl Outcome {
    /// The longest time that a number took, for this share of the tunnels.
    pub(crate) fn longest_at(&self, share: f64) -> Duration {
        let place = (self.longest.len() as f64 * share).ceil() as usize;
        self.longest.get(place.saturating_sub(1)).copied().unwrap_or_default()
    }
}
